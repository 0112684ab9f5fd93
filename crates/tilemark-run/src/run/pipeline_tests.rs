//! What a ladder's run promises, every step of a pass failed once.

use crate::{
    failure::FailureCode,
    fakes::{
        Act, FakeWorld, Guests, REQUESTS, Ran, TILE, Watching, answered, ladder, loud_programs, plan_of, run,
        run_at, run_into, started,
    },
    job::quiet::Others,
    run::pipeline::BusyHost,
    stop::StopSignal,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Counts, LoadEvent, Request as AgentRequest, StreamSecond};
use tilemark_guests::fake::{Asked, FakeManager, Fault};
use tilemark_host::telemetry::Pss;
use tilemark_plan::{
    expect,
    plan::{Backend, Pass, Plan},
    resolve::{Request, Sides},
    workload::Finding,
};
use tilemark_record::{
    Event, RunDirectory,
    summary::{Incident, IncidentKind},
};
use tilemark_statistics::judge;
use tilemark_units::{Bytes, Span};

fn plan() -> Plan {
    plan_of(TILE, &ladder())
}

/// One whose loads are answered in 5 ms.
fn quick() -> FakeWorld {
    FakeWorld::new(|job, _| answered(job, 5))
}

fn native(fake: FakeManager) -> FakeWorld {
    quick().with(Guests::of(fake))
}

fn no_stop() -> StopSignal {
    StopSignal::default()
}

/// What every run promises that came to the pass `wanting` of its plan and not through it.
fn kept_all_before(ran: &Ran, world: &FakeWorld, wanting: usize) {
    assert_eq!(world.running(), Vec::<String>::new(), "guests are left");
    let plan = ran.plan();
    assert_eq!(ran.ended(), plan.passes[..wanting], "passes that ended");
    let mut whole: Vec<Pass> = ran
        .repeats()
        .iter()
        .map(|repeat| Pass { block: repeat.block, point: repeat.point, repeat: repeat.repeat })
        .collect();
    let mut wanted = plan.passes[..wanting].to_vec();
    for passes in [&mut whole, &mut wanted] {
        passes.sort_by_key(|pass| (pass.point, pass.repeat));
    }
    assert_eq!(whole, wanted, "repeats in the record");
}

/// The first pass of a plan over a point with so many tiles.
fn first_with(plan: &Plan, tiles: u32) -> usize {
    plan.passes.iter().position(|pass| plan.points[pass.point].tiles == tiles).unwrap()
}

#[test]
fn each_block_has_its_own_schedule_and_sides_and_twin_share_it() {
    let heard: Arc<Mutex<Vec<Vec<u64>>>> = Arc::default();
    let hears = Arc::clone(&heard);
    let world = FakeWorld::new(move |job, _| {
        hears.lock().unwrap().push(job.streams.iter().map(|stream| stream.seed).collect());
        answered(job, 5)
    });
    let world = world.with(Guests::of(FakeManager::new(Backend::Kvm)));
    let sides = Sides { a: BTreeMap::new(), b: [("qemu.machine".to_owned(), "q35".to_owned())].into() };
    let backends = vec![Backend::Kvm, Backend::Native];
    let plan = plan_of(TILE, &Request { sides: Some(sides), backends, tiles: Some(vec![2]), ..ladder() });
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let mut of_blocks: BTreeMap<u32, BTreeSet<Vec<u64>>> = BTreeMap::new();
    for (pass, seeds) in ran.ended().iter().zip(&*heard.lock().unwrap()) {
        of_blocks.entry(pass.block).or_default().insert(seeds.clone());
    }
    assert_eq!(of_blocks.keys().copied().collect::<Vec<_>>(), [1, 2, 3]);
    assert!(of_blocks.values().all(|seeds| seeds.len() == 1), "within a block: {of_blocks:?}");
    let different: BTreeSet<u64> = of_blocks.values().flatten().flatten().copied().collect();
    assert_eq!(different.len(), 6, "3 blocks of 2 tiles: {of_blocks:?}");
}

#[test]
fn a_guest_that_sends_under_foreign_addresses_is_named_in_the_record() {
    let of_guests = |spoofed| Guests { spoofed, ..Guests::of(FakeManager::new(Backend::Native)) };
    // Two guests are read in turn, so each rises by twice as many.
    for (spoofed, expected) in [(0, None), (7, Some("it sent 14 frames under addresses"))] {
        let world = FakeWorld::new(|job, _| answered(job, 5)).with(of_guests(spoofed));
        let ran = run(&plan_of(TILE, &Request { tiles: Some(vec![1]), ..ladder() }), &world, &no_stop());
        ran.outcome.as_ref().unwrap();
        assert_eq!(ran.repeats().len(), 3);
        for repeat in ran.repeats() {
            let found = repeat.incidents.first().map(|incident| (incident.kind, incident.guest.as_deref()));
            assert_eq!(found, expected.map(|_| (IncidentKind::Refused, Some("tile-001-web"))));
            assert!(expected.is_none_or(|text| repeat.incidents[0].what.starts_with(text)), "{repeat:?}");
        }
    }
}

#[test]
fn what_a_load_found_lost_is_a_wrong_answer_of_its_guest() {
    let world = FakeWorld::new(|job, pass| {
        let mut acts = answered(job, 5);
        if let (0, Some(Act::Report(LoadEvent::Done(totals)))) = (pass, acts.last_mut()) {
            totals[0].findings =
                vec![Finding { kind: IncidentKind::WrongAnswers, what: "messages lost: 3".to_owned() }];
            totals[0].completed_in_time -= 500;
        }
        acts
    });
    let ran = run(&plan_of(TILE, &Request { tiles: Some(vec![1]), ..ladder() }), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let repeats = ran.repeats();
    let lost = Incident {
        kind: IncidentKind::WrongAnswers,
        what: "messages lost: 3".to_owned(),
        guest: Some("tile-001-web".to_owned()),
    };
    assert_eq!(repeats[0].incidents, [lost]);
    assert_eq!(repeats[1].incidents, []);
    let load = &repeats[0].loads[0];
    assert_eq!(
        (load.completed, load.completed_in_time, load.rate()),
        (REQUESTS, Some(REQUESTS - 500), 2000.0)
    );
    assert_eq!(load.guests[0].completed_in_time, Some(REQUESTS - 500));
}

#[test]
fn a_ladder_is_climbed_in_the_plans_order_and_every_repeat_is_whole() {
    let world = quick();
    let ran = run(&plan(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began(), plan().passes);
    kept_all_before(&ran, &world, plan().passes.len());
    assert!(matches!(ran.events().first(), Some(Event::Began { .. })));
    assert!(matches!(ran.events().last(), Some(Event::Ended { .. })));
    let plan = plan();
    for (files, summary) in ran.record.repeats().unwrap().iter().zip(ran.repeats()) {
        let tiles = plan.points[summary.point].tiles;
        let load = &summary.loads[0];
        assert_eq!((load.completed, load.guests.len()), (u64::from(tiles) * REQUESTS, tiles as usize));
        let p99 = load.latency_ms.p99.unwrap();
        assert!((p99 - 5.0).abs() < 0.01, "{p99}");
        assert_eq!(summary.host.seconds, 1);
        let telemetry = files.telemetry().unwrap();
        assert_eq!((files.seconds().unwrap().len(), telemetry.len()), (1, 1));
        assert_eq!(telemetry[0].run_queue_wait_fraction, Some(0.125));
        let of_guests = files.guest_seconds().unwrap();
        let names: Vec<&str> = of_guests.iter().map(|row| row.guest.as_str()).collect();
        let planned: Vec<&str> =
            plan.points[summary.point].guests.iter().map(|guest| guest.name.as_str()).collect();
        assert_eq!(names, planned);
        assert!(of_guests.iter().all(|row| row.processor_s == Some(0.5)), "{of_guests:?}");
        let log = fs::read_to_string(files.path().join("latency.hlog")).unwrap();
        assert!(log.contains("Tag=tile-001-web/web"), "{log}");
        assert_eq!(summary.memory, None, "fakes have no memory, and unknown is not none");
    }
}

#[test]
fn during_a_pass_exactly_its_own_guests_run() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let guests = Guests::of(FakeManager::new(Backend::Native));
    let world = FakeWorld::new({
        let (seen, guests) = (Arc::clone(&seen), guests.clone());
        move |job, _| {
            seen.lock().unwrap().push(guests.fake.running());
            answered(job, 5)
        }
    });
    run(&plan(), &world.with(guests), &no_stop()).outcome.unwrap();
    let wanted: Vec<Vec<String>> = plan()
        .passes
        .iter()
        .map(|pass| {
            let guests = &plan().points[pass.point].guests;
            let mut names: Vec<String> = guests.iter().map(|guest| guest.name.clone()).collect();
            names.sort();
            names
        })
        .collect();
    assert_eq!(*seen.lock().unwrap(), wanted);
}

#[test]
fn a_guest_that_fails_ends_the_run_with_its_name_and_leaves_nothing() {
    let cases = [
        (Fault::NeverStarts, "guest `tile-002-web` cannot be started"),
        (Fault::NeverAnswers, "guest `tile-002-web` did not answer within 60 s"),
        (Fault::Panics, "Kernel panic"),
        (Fault::WrongNonce, "guest `tile-002-web` did not begin a conversation"),
        (Fault::DiesAfter(1), "guest `tile-002-web` ended: QEMU ended with code 1"),
        (Fault::ServiceFails, "nginx ended with code 1"),
    ];
    for (fault, wanted) in cases {
        let world = native(FakeManager::new(Backend::Native).where_guest("tile-002-web", fault.clone()));
        let ran = run(&plan(), &world, &no_stop());
        let failure = ran.failure();
        assert_eq!(failure.code, FailureCode::GuestFailed, "{fault:?}");
        assert!(failure.message.contains(wanted), "{fault:?}: {failure:?}");
        assert!(!failure.remedy.is_empty(), "{fault:?}");
        kept_all_before(&ran, &world, first_with(&plan(), 2));
        let pass = plan().passes[first_with(&plan(), 2)];
        let message = failure.message.clone();
        assert_eq!(ran.events().last(), Some(&Event::PassFailed { pass, message }), "{fault:?}");
    }
}

#[test]
fn a_guest_that_does_not_end_is_named_and_the_others_end() {
    let stays = FakeManager::new(Backend::Native).where_guest("tile-001-web", Fault::Stays);
    let world = native(stays);
    let ran = run(&plan(), &world, &no_stop());
    assert_eq!(ran.failure().message, "cannot end the guest in tile-001-web");
    assert_eq!(world.running(), ["tile-001-web"]);
    assert_eq!(ran.repeats(), []);
}

#[test]
fn a_template_that_fails_ends_the_run() {
    let mut guests = Guests::of(FakeManager::new(Backend::Emulated));
    guests.template_fails = Some("no memory");
    let world = quick().with(guests);
    let request = Request { backends: vec![Backend::Emulated], ..ladder() };
    let ran = run(&plan_of(TILE, &request), &world, &no_stop());
    assert_eq!(
        (ran.failure().code, ran.failure().message.as_str()),
        (FailureCode::GuestFailed, "QEMU of guest `tile-001-web` refused `stop`: no memory")
    );
    kept_all_before(&ran, &world, 0);
}

#[test]
fn a_backend_that_this_host_lacks_is_its_own_failure() {
    let request = Request { backends: vec![Backend::Kvm], ..ladder() };
    let world = quick();
    let ran = run(&plan_of(TILE, &request), &world, &no_stop());
    assert_eq!((ran.failure().code, ran.failure().remedy.as_str()), (FailureCode::HostUnfit, "install QEMU"));
    kept_all_before(&ran, &world, 0);
}

#[test]
fn a_load_process_that_cannot_be_started_ends_the_run() {
    let world = FakeWorld { no_load_process: Some(2), ..quick() };
    let ran = run(&plan(), &world, &no_stop());
    assert_eq!(ran.failure().code, FailureCode::HostUnfit);
    kept_all_before(&ran, &world, 2);
}

/// A world whose second pass does this; its watch waits until somebody says that it is over.
fn second_pass(acts: impl Fn() -> Vec<Act> + Send + Sync + 'static) -> FakeWorld {
    FakeWorld::new(move |job, pass| if pass == 1 { acts() } else { answered(job, 5) })
}

#[test]
fn a_load_that_fails_midway_is_reported_at_once_with_its_own_remedy() {
    let mut world = FakeWorld::new(|job, _| {
        let mut acts = answered(job, 5);
        acts.truncate(2);
        acts.push(Act::Report(LoadEvent::Failed {
            message: "no sockets left".into(),
            remedy: "raise the limit".into(),
        }));
        acts
    });
    // It would wait for ever if the failure did not end it.
    world.watch.watching = Watching::UntilOver;
    let ran = run(&plan(), &world, &no_stop());
    assert_eq!(ran.failure().code, FailureCode::GuestFailed);
    assert_eq!(ran.failure().message, "the load failed: no sockets left");
    assert_eq!(ran.failure().remedy, "raise the limit");
    kept_all_before(&ran, &world, 0);
}

#[test]
fn a_load_that_dies_before_or_after_its_start_is_reported() {
    for acts in [|| vec![Act::Die], || vec![started(), Act::Die]] {
        let world = second_pass(acts);
        let ran = run(&plan(), &world, &no_stop());
        assert_eq!(ran.failure().message, "the load process cannot be used");
        kept_all_before(&ran, &world, 1);
    }
}

#[test]
fn a_histogram_that_cannot_be_read_costs_its_repeat() {
    let world = second_pass(|| {
        let counts = Counts { offered: 1, completed: 1, ..Counts::default() };
        let second = StreamSecond { id: 0, second: 0, counts, latency: vec![1, 2, 3], lateness: Vec::new() };
        vec![started(), Act::Report(LoadEvent::Second(second)), Act::Report(LoadEvent::Done(Vec::new()))]
    });
    let mut world = world;
    world.watch.watching = Watching::Quiet;
    let ran = run(&plan(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let repeats = ran.repeats();
    let refused: Vec<_> = repeats.iter().filter(|repeat| !repeat.incidents.is_empty()).collect();
    assert_eq!(refused.len(), 1);
    assert_eq!(refused[0].incidents[0].kind, IncidentKind::Refused);
    assert_eq!(refused[0].loads[0].offered, 0, "nothing of it counts");
}

/// A tile whose disk is worked from inside.
fn plan_with_disk() -> Plan {
    plan_with_disk_on(Backend::Native)
}

fn plan_with_disk_on(backend: Backend) -> Plan {
    let disk = "[[guest]]\nname = \"disk\"\nrole = \"disk\"\n[[guest.disk]]\nsize = \"64MiB\"\n[[load]]\nname = \"disk\"\n\
                guest = \"disk\"\nrate = \"50/s\"\n[load.disk]\n[ladder]";
    plan_of(&TILE.replace("[ladder]", disk), &Request { backends: vec![backend], ..ladder() })
}

#[test]
fn a_load_inside_that_fails_ends_the_load_outside_too() {
    let fails = FakeManager::new(Backend::Native).where_guest("tile-001-disk", Fault::LoadFails);
    let mut world = FakeWorld::new(|_, _| vec![started(), Act::Hang]).with(Guests::of(fails));
    world.watch.watching = Watching::UntilOver;
    let ran = run(&plan_with_disk(), &world, &no_stop());
    assert_eq!(ran.failure().code, FailureCode::GuestFailed);
    assert!(ran.failure().message.starts_with("guest `tile-001-disk`: fio"), "{:?}", ran.failure());
    assert_eq!(ran.failure().remedy, "use an image that has fio");
    kept_all_before(&ran, &world, 0);
}

#[test]
fn clones_write_their_working_sets_before_any_load_and_twins_write_nothing() {
    for backend in [Backend::Emulated, Backend::Native] {
        let guests = Guests::of(FakeManager::new(backend));
        let fake = Arc::clone(&guests.fake);
        let ran = run(&plan_with_disk_on(backend), &quick().with(guests), &no_stop());
        ran.outcome.as_ref().unwrap();
        let asked = fake.requests();
        for guest in ["tile-001-web", "tile-001-idle", "tile-001-disk"] {
            let steps: Vec<&str> = asked
                .iter()
                .filter(|asked| asked.guest == guest)
                .filter_map(|asked| match &asked.request {
                    AgentRequest::Become(_) => Some("become"),
                    AgentRequest::TouchMemory(size) if size.as_mib() == 100.0 => Some("write"),
                    AgentRequest::TouchMemory(_) => Some("write too little"),
                    AgentRequest::PrepareLoad(_) => Some("load"),
                    _ => None,
                })
                .collect();
            let mut pass = vec!["become"];
            pass.extend((backend == Backend::Emulated).then_some("write"));
            pass.extend(guest.ends_with("disk").then_some("load"));
            let passes = steps.chunks(pass.len()).collect::<Vec<_>>();
            assert!(passes.len() > 1 && passes.iter().all(|one| *one == pass), "{guest}: {steps:?}");
        }
    }
}

#[test]
fn a_guest_without_memory_for_its_working_set_ends_the_run_and_is_named() {
    let lacks = FakeManager::new(Backend::Emulated).where_guest("tile-001-idle", Fault::NoMemory);
    let world = native(lacks);
    let ran = run(&plan_with_disk_on(Backend::Emulated), &world, &no_stop());
    assert_eq!(ran.failure().code, FailureCode::GuestFailed);
    let message = &ran.failure().message;
    assert!(
        message.starts_with("guest `tile-001-idle`: 100 MiB of its memory were to be written"),
        "{message}"
    );
    assert_eq!(ran.failure().remedy, "give the guest more memory");
    kept_all_before(&ran, &world, 0);
}

#[test]
fn a_guest_that_dies_when_its_load_begins_breaks_its_point_and_not_the_run() {
    // It says who it is, starts its service, and dies when the load is to begin.
    let dies = FakeManager::new(Backend::Native).where_guest("tile-001-disk", Fault::DiesAfter(2));
    let ran = run(&plan_with_disk(), &quick().with(Guests::of(dies)), &no_stop());
    ran.outcome.as_ref().unwrap();
    let plan = ran.plan();
    for repeat in ran.repeats() {
        let of_disk = |incident: &&Incident| incident.guest.as_deref() == Some("tile-001-disk");
        let kinds: Vec<_> = repeat.incidents.iter().filter(of_disk).map(|incident| incident.kind).collect();
        assert_eq!(kinds, [IncidentKind::GuestEnded, IncidentKind::Refused], "{:?}", repeat.incidents);
    }
    assert_eq!(ran.repeats().len(), plan.points.len() * 3, "it is not retried: it would do so again");
}

#[test]
fn no_load_begins_before_all_are_ready() {
    let guests = Guests::of(FakeManager::new(Backend::Native));
    // Reported afterwards: who waits for a load whose thread has panicked waits for ever.
    let (prepared, begun) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let world = FakeWorld::new({
        let (guests, prepared, begun) = (guests.clone(), Arc::clone(&prepared), Arc::clone(&begun));
        move |job, pass| {
            let mut acts = answered(job, 5);
            let (fake, prepared, begun) =
                (Arc::clone(&guests.fake), Arc::clone(&prepared), Arc::clone(&begun));
            let is_asked = move |wanted: fn(&Asked) -> bool| fake.requests().iter().any(wanted);
            let inside_is_ready_and_waits = move || {
                let is_prepared = || is_asked(|asked| matches!(asked.request, AgentRequest::PrepareLoad(_)));
                let until = Instant::now() + Duration::from_secs(60);
                while !is_prepared() && Instant::now() < until {
                    thread::sleep(Duration::from_millis(1));
                }
                prepared.store(is_prepared(), Ordering::Relaxed);
                // One that did not wait would have begun by now.
                thread::sleep(Duration::from_millis(100));
                begun.store(is_asked(|asked| asked.request == AgentRequest::BeginLoad), Ordering::Relaxed);
            };
            // Later ones have the same fake, which remembers the first.
            if pass == 0 {
                acts.insert(0, Act::Meanwhile(Box::new(inside_is_ready_and_waits)));
            }
            acts
        }
    });
    let ran = run(&plan_with_disk(), &world.with(guests.clone()), &no_stop());
    ran.outcome.as_ref().unwrap();
    assert!(prepared.load(Ordering::Relaxed), "the one inside waited for the one outside");
    assert!(!begun.load(Ordering::Relaxed), "the one outside was not ready");
    assert!(guests.fake.requests().iter().any(|asked| asked.request == AgentRequest::BeginLoad));
}

#[test]
fn a_load_inside_that_reported_nothing_has_no_figures_and_is_discarded() {
    let world = quick();
    let ran = run(&plan_with_disk(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let repeats = ran.repeats();
    let disk = repeats[0].loads.iter().find(|load| load.name == "disk").unwrap();
    assert_eq!((disk.offered, disk.latency_ms.p99), (0, None));
    assert_eq!(judge::judge(&ran.plan(), &repeats).points[0].holds, None);
}

#[test]
fn a_guest_that_ends_under_load_breaks_its_point() {
    let guests = Guests::of(FakeManager::new(Backend::Native));
    let world = FakeWorld::new({
        let guests = guests.clone();
        move |job, _| {
            let fake = Arc::clone(&guests.fake);
            let mut acts = answered(job, 5);
            acts.insert(
                1,
                Act::Meanwhile(Box::new(move || fake.crash("tile-001-web", "killed by signal 9"))),
            );
            acts
        }
    });
    let ran = run(&plan(), &world.with(guests), &no_stop());
    ran.outcome.as_ref().unwrap();
    for repeat in ran.repeats() {
        assert_eq!(repeat.incidents.len(), 1);
        assert_eq!(repeat.incidents[0].guest.as_deref(), Some("tile-001-web"));
        assert!(repeat.incidents[0].what.ends_with("killed by signal 9"), "{:?}", repeat.incidents);
    }
    assert_eq!(judge::judge(&ran.plan(), &ran.repeats()).points[0].holds, Some(false));
}

#[test]
fn a_guest_that_was_to_be_cloned_and_was_booted_is_an_incident_of_its_repeat() {
    for boots_all in [false, true] {
        let mut guests = Guests::of(FakeManager::new(Backend::Emulated));
        guests.boots_all = boots_all;
        let request = Request { backends: vec![Backend::Emulated], ..ladder() };
        let ran = run(&plan_of(TILE, &request), &quick().with(guests), &no_stop());
        ran.outcome.as_ref().unwrap();
        assert_eq!(ran.repeats().len(), ran.plan().passes.len());
        for repeat in ran.repeats() {
            let guests = ran.plan().points[repeat.point].guests.len();
            assert_eq!(repeat.incidents.len(), if boots_all { guests } else { 0 });
            let what = "it was to be cloned and was booted";
            assert!(repeat.incidents.iter().all(|incident| incident.what == what));
        }
    }
}

#[test]
fn a_twin_that_may_leave_its_processors_is_named_and_its_repeat_is_discarded() {
    for processors in [vec![4000], Vec::new()] {
        let mut guests = Guests::of(FakeManager::new(Backend::Native));
        guests.has_processes = true;
        let mut plan = plan();
        plan.points.iter_mut().flat_map(|point| &mut point.guests).for_each(|guest| {
            guest.processors.clone_from(&processors);
        });
        let ran = run(&plan, &quick().with(guests), &no_stop());
        ran.outcome.as_ref().unwrap();
        let repeats = ran.repeats();
        for repeat in &repeats {
            let guests = ran.plan().points[repeat.point].guests.len();
            assert_eq!(repeat.incidents.len(), if processors.is_empty() { 0 } else { guests });
            assert!(repeat.incidents.iter().all(|incident| incident.what.contains("not its own (4000)")));
        }
        let judged = judge::judge(&ran.plan(), &repeats);
        let discarded = judged.points.iter().map(|point| point.repeats_voided.len()).sum::<usize>();
        assert_eq!(discarded, if processors.is_empty() { 0 } else { repeats.len() });
    }
}

/// Guests of 100 MiB each on a host that has so much less after each pass.
fn with_memory(backend: Backend, fell: Bytes) -> Ran {
    let mut guests = Guests::of(FakeManager::new(backend));
    guests.has_processes = true;
    let mut world = quick().with(guests);
    world.pss = Some(Pss { bytes: 100 << 20, shared_memory_bytes: Some(0) });
    world.memory = Box::new(move |passes| Bytes::new((64 << 30) - u64::from(passes) * fell.get()));
    let request = Request { backends: vec![backend], tiles: Some(vec![1]), ..ladder() };
    let ran = run(&plan_of(TILE, &request), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    ran
}

#[test]
fn memory_of_guests_is_compared_with_what_the_host_lost() {
    // Two guests a tile: 200 MiB of their own.
    let notes = |backend, fell_mib| {
        let ran = with_memory(backend, Bytes::from_mib(fell_mib));
        judge::judge(&ran.plan(), &ran.repeats()).points[0].notes.clone()
    };
    assert_eq!(notes(Backend::Kvm, 205), Vec::<String>::new());
    let noted = notes(Backend::Kvm, 250);
    assert!(noted[0].contains("200 MiB") && noted[0].contains("250 MiB"), "{noted:?}");
    assert_eq!(notes(Backend::Emulated, 150).len(), 1);
    assert_eq!(notes(Backend::Native, 250), Vec::<String>::new(), "twins share no template");
}

#[test]
fn what_the_kernel_reports_is_a_note_of_its_repeat_and_discards_nothing() {
    let said: Vec<String> = (1..20).map(|number| format!("I/O error, dev sda, sector {number}")).collect();
    let world = FakeWorld { kernel_errors: said.clone().into(), ..quick() };
    let ran = run(&plan(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let repeats = ran.repeats();
    let with_errors: Vec<_> = repeats.iter().filter(|repeat| !repeat.kernel_errors.is_empty()).collect();
    assert_eq!(with_errors.len(), 1, "each is noted once");
    assert_eq!(with_errors[0].kernel_errors, said[..8]);
    let judged = judge::judge(&ran.plan(), &repeats);
    let point = &judged.points[with_errors[0].point];
    let wanted = format!(
        "while repeat {} was measured the host's kernel reported: {}",
        with_errors[0].repeat, said[0]
    );
    assert!(point.notes[0].starts_with(&wanted), "{:?}", point.notes);
    assert_eq!((point.repeats_kept, point.repeats_voided.len()), (3, 0));
    let mut all_report = repeats.clone();
    for repeat in &mut all_report {
        repeat.kernel_errors = said[..1].to_vec();
    }
    let notes = &judge::judge(&ran.plan(), &all_report).points[0].notes;
    let wanted = format!("while repeats 1-3 were measured the host's kernel reported: {}", said[0]);
    assert_eq!(notes.iter().filter(|note| note.contains("kernel reported")).collect::<Vec<_>>(), [&wanted]);
}

#[test]
fn each_repeat_says_how_soon_its_guests_were_ready() {
    let ran = run(&plan(), &quick(), &no_stop());
    for repeat in ran.repeats() {
        let ready = repeat.seconds_to_ready.unwrap();
        assert!(0.0 < ready.p50 && ready.p50 <= ready.p99 && ready.p99 <= ready.max, "{ready:?}");
        assert!(ready.max <= repeat.ready_s.unwrap(), "{repeat:?}");
    }
    let judged = judge::judge(&ran.plan(), &ran.repeats());
    assert!(judged.points.iter().all(|point| point.seconds_to_ready.is_some()));
}

#[test]
fn without_telemetry_repeats_are_kept_and_nothing_is_said_to_hold() {
    let mut world = quick();
    world.watch.watching = Watching::AbsentAtFirst(u32::MAX);
    let ran = run(&plan(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    kept_all_before(&ran, &world, 2 * plan().passes.len());
    assert!(ran.repeats().iter().all(|repeat| repeat.host.seconds == 0));
    assert_eq!(judge::judge(&ran.plan(), &ran.repeats()).points[0].holds, None);
}

#[test]
fn pairs_that_were_discarded_are_measured_again_but_not_for_ever() {
    let sides = Request {
        sides: Some(Sides { a: BTreeMap::new(), b: BTreeMap::new() }),
        tiles: Some(vec![1]),
        ..ladder()
    };
    let plan = plan_of(TILE, &sides);
    let (a, b) = (&plan.points[0], &plan.points[1]);
    // Of the passes over both sides in the first block one is not watched; of the second block both are not.
    for (discarded, pairs_again) in [(0, 0), (1, 1), (4, 2)] {
        let mut world = quick();
        world.watch.watching = Watching::AbsentAtFirst(discarded);
        let ran = run(&plan, &world, &no_stop());
        ran.outcome.as_ref().unwrap();
        assert_eq!(ran.began().len(), plan.passes.len() + 2 * pairs_again, "{discarded} discarded");
        assert_eq!(judge::blocks_settled(&[a, b], &ran.repeats()), a.measure.repeats);
    }
    let mut world = quick();
    world.watch.watching = Watching::AbsentAtFirst(u32::MAX);
    let ran = run(&plan, &world, &no_stop());
    assert_eq!(ran.began().len(), 2 * plan.passes.len(), "no more again than were planned");
    let hurried = Plan { within: Some(Span::from_milliseconds(1)), ..plan };
    assert_eq!(run(&hurried, &world, &no_stop()).began().len(), 0);
}

/// What came of a run in which others disturb so many passes.
fn loud_at_first(passes: u32, world: FakeWorld) -> Ran {
    let mut world = world;
    world.watch.watching = Watching::LoudAtFirst(passes);
    run(&plan(), &world, &no_stop())
}

#[test]
fn a_host_that_stays_loud_ends_the_run_with_the_names_of_the_programs() {
    let ran = loud_at_first(u32::MAX, quick());
    let failure = ran.failure();
    assert_eq!(failure.code, FailureCode::HostUnfit);
    assert!(failure.message.starts_with("6 repeats in a row were discarded"), "{}", failure.message);
    assert!(failure.message.contains("cc1 (4 processes) 28.0 %"), "{}", failure.message);
    assert!(failure.remedy.contains("--wait-quiet 10m"), "{}", failure.remedy);
    assert_eq!(ran.repeats().len(), 6, "they are in the record");
    let said =
        ran.notes.iter().filter(|note| note.contains("is discarded: other programs used 30.0 %")).count();
    assert_eq!(said, 6, "{:?}", ran.notes);
    // Five are no six.
    let ran = loud_at_first(5, quick());
    ran.outcome.as_ref().unwrap();
    assert_eq!(kept(&ran), [3, 3]);
}

#[test]
fn a_run_that_was_asked_to_run_beside_others_goes_on() {
    let busy_host = BusyHost { goes_on: true, wait: None };
    let ran = loud_at_first(u32::MAX, FakeWorld { busy_host, ..quick() });
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began().len(), 2 * plan().passes.len());
}

#[test]
fn a_run_that_waits_for_a_quiet_host_does_so_after_a_disturbed_repeat_only() {
    let busy_host = BusyHost { goes_on: false, wait: Some(Span::from_seconds(60)) };
    let others = |foreign| Others {
        foreign,
        programs: loud_programs(),
        looked: Duration::from_secs(5),
        ..Others::default()
    };
    let looks = |looks: &[f64]| RefCell::new(looks.iter().map(|foreign| others(*foreign)).collect());
    let ran = loud_at_first(1, FakeWorld { busy_host, looks: looks(&[0.3, 0.3, 0.0]), ..quick() });
    ran.outcome.as_ref().unwrap();
    let waits: Vec<&String> = ran.notes.iter().filter(|note| note.contains("quiet")).collect();
    assert_eq!(waits.len(), 2, "{:?}", ran.notes);
    assert!(waits[0].contains("cc1 (4 processes) 28.0 %") && waits[1] == "the host is quiet, after 15 s");
    // It never gets quiet: what is whole is kept.
    let ran = loud_at_first(2, FakeWorld { busy_host, looks: looks(&[0.3; 40]), ..quick() });
    assert!(
        ran.failure().message.starts_with("the host was not quiet within 1m: other programs used 30.0 %")
    );
    assert_eq!(ran.repeats().len(), 1);
}

/// Repeats of each point whose figures count.
fn kept(ran: &Ran) -> Vec<u32> {
    let (plan, repeats) = (ran.plan(), ran.repeats());
    judge::judge(&plan, &repeats).points.iter().map(|point| point.repeats_kept).collect()
}

#[test]
fn discarded_repeats_are_retried_but_not_for_ever() {
    let plan = plan();
    for discarded in [0, 1, 4] {
        let mut world = quick();
        world.watch.watching = Watching::AbsentAtFirst(discarded);
        let ran = run(&plan, &world, &no_stop());
        ran.outcome.as_ref().unwrap();
        assert_eq!(ran.began().len(), plan.passes.len() + discarded as usize, "{discarded} discarded");
        assert_eq!(kept(&ran), [3, 3]);
        let is_noted = ran.notes.iter().any(|note| note == "repeats that were discarded are retried");
        assert_eq!(is_noted, discarded > 0, "{:?}", ran.notes);
    }
    let mut world = quick();
    world.watch.watching = Watching::AbsentAtFirst(u32::MAX);
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    // As many again as were planned, block by block in the order of the plan.
    let again =
        plan.passes.iter().map(|pass| Pass { block: pass.block + 3, repeat: pass.repeat + 3, ..*pass });
    assert_eq!(ran.began(), plan.passes.iter().copied().chain(again).collect::<Vec<_>>());
}

#[test]
fn a_point_that_its_own_load_saturates_is_not_asked_for_ever_and_no_other_with_it() {
    let world = FakeWorld::new(|job, _| {
        let busy = if job.streams.len() == 2 { 0.95 } else { 0.3 };
        let with_busy = |act| match act {
            Act::Report(LoadEvent::Busy { second, .. }) => Act::Report(LoadEvent::busy(second, busy)),
            other => other,
        };
        answered(job, 5).into_iter().map(with_busy).collect()
    });
    let ran = run(&plan(), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let of_two_tiles = |pass: &&Pass| plan().points[pass.point].tiles == 2;
    let began = ran.began();
    assert_eq!((began.len(), began.iter().filter(of_two_tiles).count()), (9, 6));
}

#[test]
fn guests_and_their_twin_are_retried_together() {
    let request = Request { backends: vec![Backend::Kvm, Backend::Native], tiles: Some(vec![1]), ..ladder() };
    let plan = plan_of(TILE, &request);
    let mut world = quick().with(Guests::of(FakeManager::new(Backend::Kvm)));
    world.watch.watching = Watching::AbsentAtFirst(1);
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began().len(), plan.passes.len() + 2);
    let points: Vec<_> = plan.points.iter().collect();
    assert_eq!(judge::blocks_settled(&points, &ran.repeats()), 3, "as many pairs as were planned");
}

#[test]
fn a_role_whose_repeat_was_discarded_is_measured_again_alone_and_still_has_its_slowdowns() {
    let plan = plan_of(TILE, &Request { interference: true, tiles: None, ..ladder() });
    let mut world = quick();
    world.watch.watching = Watching::AbsentAtFirst(1);
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began().len(), plan.passes.len() + 1, "only the one that was discarded");
    let judged = judge::judge(&ran.plan(), &ran.repeats());
    let slowdowns = judged.interference.unwrap().slowdowns;
    let figures: Vec<_> = slowdowns.iter().map(|one| one.slowdown.unwrap()).collect();
    assert!(
        figures.iter().all(|figure| figure.n_repeats == 3 && figure.low.is_some()),
        "{slowdowns:?} {:?}",
        judged.missing
    );
}

#[test]
fn a_pair_that_looks_slow_is_measured_in_further_blocks_with_its_roles_alone() {
    let request = Request { interference: true, confirm_blocks: 2, tiles: None, ..ladder() };
    let plan = plan_of(TILE, &request);
    let pairs = plan.passes.len();
    // Beside a second one of its kind the role is slower, by more or less.
    let blocks: Vec<u32> = plan.passes.iter().map(|pass| pass.block).collect();
    let world = FakeWorld::new(move |job, pass| {
        let beside = blocks.get(pass as usize).map_or(9, |block| [6, 9, 14][*block as usize - 1]);
        answered(job, if job.streams.len() > 1 { beside } else { 5 })
    });
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let further: Vec<(usize, u32)> =
        ran.began()[pairs..].iter().map(|pass| (pass.point, pass.block)).collect();
    assert_eq!(further.len(), 4, "{further:?}");
    for block in [4, 5] {
        let mut points: Vec<usize> =
            further.iter().filter(|pass| pass.1 == block).map(|pass| pass.0).collect();
        points.sort_unstable();
        assert_eq!(points, [0, 1], "the role alone and the pair: {further:?}");
    }
}

#[test]
fn two_repeats_are_too_few_to_look_slow_and_the_note_says_so() {
    let settings = [("measure.repeats".to_owned(), "2".to_owned())].into();
    let request = Request { interference: true, confirm_blocks: 2, tiles: None, settings, ..ladder() };
    let plan = plan_of(TILE, &request);
    let world = FakeWorld::new(move |job, _| answered(job, if job.streams.len() > 1 { 15 } else { 5 }));
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began().len(), plan.passes.len());
    let wanted = "no pair of roles is confirmed: no slowdown has an interval: it needs 3 repeats";
    assert!(ran.notes.iter().any(|note| note == wanted), "{:?}", ran.notes);
}

/// Two roles alone and in three pairs, with further blocks, where a measurement takes so long.
fn two_roles(length: &str) -> Plan {
    let idle = "[[guest]]\nname = \"idle\"\nrole = \"idle\"\n";
    let site = "[[guest]]\nname = \"site\"\nrole = \"web\"\n[[load]]\nname = \"site\"\nguest = \"site\"\nrate = \"2500/s\"\n[load.web]\n";
    let length = format!("length = \"{length}\"");
    let text = TILE.replace(idle, site).replace("length = \"1s\"", &length);
    plan_of(&text, &Request { interference: true, confirm_blocks: 2, tiles: None, ..ladder() })
}

#[test]
fn a_block_that_confirms_has_the_number_of_no_retried_repeat() {
    let plan = two_roles("1s");
    let point = |roles: &str| plan.points.iter().position(|point| point.vary["roles"] == roles).unwrap();
    let (slow, lost) = (point("web + web"), point("site + site"));
    let planned = plan.passes.clone();
    let world = FakeWorld::new(move |job, pass| {
        let pass = planned.get(pass as usize).map(|pass| (pass.point, pass.block));
        let with_busy = |act| match act {
            Act::Report(LoadEvent::Busy { second, .. }) => Act::Report(LoadEvent::busy(second, 0.95)),
            other => other,
        };
        match pass {
            Some((point, block)) if point == slow => answered(job, [6, 9, 14][block as usize - 1]),
            Some((point, 2)) if point == lost => answered(job, 5).into_iter().map(with_busy).collect(),
            _ => answered(job, 5),
        }
    });
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let further = &ran.began()[plan.passes.len()..];
    let (retried, confirming): (Vec<&Pass>, Vec<&Pass>) = further.iter().partition(|pass| pass.point == lost);
    assert_eq!((retried.len(), confirming.len()), (1, 4), "{further:?}");
    assert!(confirming.iter().all(|pass| pass.block > retried[0].block), "{further:?}");
}

/// Which points have further blocks, where every pair of two roles looks slow and a measurement takes so long.
fn confirmed_points(length: &str) -> BTreeSet<usize> {
    let plan = two_roles(length);
    let blocks: Vec<u32> = plan.passes.iter().map(|pass| pass.block).collect();
    let world = FakeWorld::new(move |job, pass| {
        let beside = blocks.get(pass as usize).map_or(9, |block| [6, 9, 14][*block as usize - 1]);
        answered(job, if job.streams.len() > 1 { beside } else { 5 })
    });
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(plan.points.len(), 5, "two alone and three pairs");
    ran.began()[plan.passes.len()..].iter().map(|pass| pass.point).collect()
}

#[test]
fn so_many_pairs_are_confirmed_as_there_is_time_for_and_one_in_any_case() {
    assert_eq!(confirmed_points("1s").len(), 5, "all three pairs, and both roles alone");
    // A pair with its roles takes two or three times ten minutes.
    let of_one = confirmed_points("300s").len();
    assert!((2..=3).contains(&of_one), "one pair, with one or two roles alone: {of_one}");
}

#[test]
fn nothing_is_retried_after_an_interrupt_on_emulated_guests_or_where_a_guest_failed() {
    let stop = no_stop();
    let stopper = stop.clone();
    // The last planned pass is interrupted, the first was discarded.
    let mut interrupted = FakeWorld::new(move |job, pass| {
        let mut acts = answered(job, 5);
        if pass == 5 {
            let stopper = stopper.clone();
            acts.insert(1, Act::Meanwhile(Box::new(move || stopper.request())));
            acts.insert(2, Act::Hang);
        }
        acts
    });
    interrupted.watch.watching = Watching::AbsentAtFirst(1);
    assert_eq!(run(&plan(), &interrupted, &stop).began(), plan().passes);

    let mut emulated = quick().with(Guests::of(FakeManager::new(Backend::Emulated)));
    emulated.watch.watching = Watching::AbsentAtFirst(u32::MAX);
    let request = Request { backends: vec![Backend::Emulated], ..ladder() };
    let of_emulated = plan_of(TILE, &request);
    assert_eq!(run(&of_emulated, &emulated, &no_stop()).began(), of_emulated.passes);

    let guests = Guests::of(FakeManager::new(Backend::Native));
    let fake = Arc::clone(&guests.fake);
    let failed = FakeWorld::new(move |job, _| {
        let fake = Arc::clone(&fake);
        let mut acts = answered(job, 5);
        acts.insert(1, Act::Meanwhile(Box::new(move || fake.crash("tile-001-web", "killed by signal 9"))));
        acts
    });
    assert_eq!(run(&plan(), &failed.with(guests), &no_stop()).began(), plan().passes);
}

#[test]
fn memory_or_disk_that_runs_short_stops_before_the_next_pass() {
    let short = |passes| if passes < 3 { Bytes::from_gib(64) } else { Bytes::from_gib(1) };
    let memory = FakeWorld { memory: Box::new(short), ..quick() };
    let disk = FakeWorld { disk: Box::new(short), ..quick() };
    for (world, wanted) in [(memory, "of memory"), (disk, "only 1 GiB of disk space is left")] {
        let ran = run(&plan(), &world, &no_stop());
        assert_eq!(ran.failure().code, FailureCode::HostUnfit);
        assert!(ran.failure().message.contains(wanted), "{:?}", ran.failure());
        assert_eq!(ran.began().len(), 3, "the pass that does not fit never began");
        kept_all_before(&ran, &world, 3);
    }
}

/// A world in which something is put in the way of the record of the pass `of`.
fn spoiled(record: &Path, of: u32, spoil: fn(&Path, Pass)) -> FakeWorld {
    let (record, passes) = (record.to_owned(), plan().passes);
    FakeWorld::new(move |job, pass| {
        if pass == of {
            spoil(&record, passes[pass as usize]);
        }
        answered(job, 5)
    })
}

fn folder_of(record: &Path, pass: Pass) -> std::path::PathBuf {
    record.join(format!("points/{:02}/repeat-{}", pass.point, pass.repeat))
}

#[test]
fn a_repeat_that_cannot_be_written_is_no_repeat() {
    let no_folder = |record: &Path, pass| {
        let folder = folder_of(record, pass);
        fs::create_dir_all(folder.parent().unwrap()).unwrap();
        fs::write(folder, "in the way").unwrap();
    };
    let no_file = |record: &Path, pass| {
        // The file before the last: what came before it is written.
        fs::create_dir_all(folder_of(record, pass).join("guests.csv")).unwrap();
    };
    for spoil in [no_folder, no_file] {
        let folder = tempfile::tempdir().unwrap();
        let world = spoiled(&folder.path().join("run"), 2, spoil);
        let ran = run_at(folder, &plan(), &world, &no_stop());
        assert_eq!(ran.failure().code, FailureCode::HostUnfit);
        assert!(ran.failure().message.starts_with("cannot write /"), "{:?}", ran.failure());
        kept_all_before(&ran, &world, 2);
    }
}

#[test]
fn a_full_disk_is_reported_with_its_remedy() {
    let (folder, world) = (tempfile::tempdir().unwrap(), quick());
    let record = RunDirectory::create(&folder.path().join("run"), &plan()).unwrap();
    // Every write to it fails because the disk is full.
    tilemark_record::faults::full_at(0);
    let ran = run_into(folder, record, &plan(), &world, &no_stop());
    tilemark_record::faults::full_at(u64::MAX);
    assert_eq!(ran.failure().code, FailureCode::HostUnfit);
    assert!(ran.failure().remedy.starts_with("free some space"), "{:?}", ran.failure());
    assert_eq!((world.load_processes(), world.running().len()), (0, 0));
}

/// Disks that fill up at each write of a run, one after the other: each time the run ends with that, nothing runs on, and
/// what was whole before can be read.
#[test]
fn a_disk_that_fills_up_at_any_write_ends_the_run_and_spoils_nothing() {
    use tilemark_record::faults;
    let request = Request { tiles: Some(vec![1]), ..ladder() };
    let plan = plan_of(&TILE.replace("repeats = 3", "repeats = 2"), &request);
    let run_full_at = |write| {
        let folder = tempfile::tempdir().unwrap();
        let record = RunDirectory::create(&folder.path().join("run"), &plan).unwrap();
        let world = quick();
        faults::full_at(write);
        let ran = run_into(folder, record, &plan, &world, &no_stop());
        let writes = faults::writes();
        faults::full_at(u64::MAX);
        (ran, world, writes)
    };
    let (whole, _, writes) = run_full_at(u64::MAX);
    whole.outcome.as_ref().unwrap();
    assert!(writes > 20, "a run writes more than {writes} times");
    let mut repeats = BTreeSet::new();
    for write in 0..writes {
        let (ran, world, _) = run_full_at(write);
        let failure = ran.failure();
        assert_eq!(failure.code, FailureCode::HostUnfit, "write {write}: {failure:?}");
        assert!(failure.message.starts_with("cannot write /"), "write {write}: {failure:?}");
        assert!(failure.remedy.starts_with("free some space"), "write {write}: {failure:?}");
        assert_eq!(world.running(), Vec::<String>::new(), "write {write}");
        // A summary is read whole or is not there; every whole event line is read, what was cut off is no event.
        let of_repeats = ran.repeats().len();
        assert!(ran.ended().len() <= of_repeats, "write {write}: an end without its figures");
        repeats.insert(of_repeats);
    }
    assert_eq!(repeats, BTreeSet::from([0, 1, 2]));
}

#[test]
fn an_interrupt_keeps_what_is_whole_and_begins_nothing_more() {
    let stop = no_stop();
    let mut world = second_pass({
        let stop = stop.clone();
        move || {
            let stop = stop.clone();
            vec![started(), Act::Meanwhile(Box::new(move || stop.request())), Act::Hang]
        }
    });
    world.watch.watching = Watching::Quiet;
    let ran = run(&plan(), &world, &stop);
    ran.outcome.as_ref().unwrap();
    assert_eq!(world.load_processes(), 2);
    kept_all_before(&ran, &world, 1);
    let events = ran.events();
    assert!(matches!(events[events.len() - 2..], [Event::Interrupted, Event::Ended { .. }]), "{events:?}");
}

#[test]
fn no_guest_is_started_after_an_interrupt_while_disks_are_made() {
    let stop = no_stop();
    let meanwhile = stop.clone();
    let look = move |_| {
        meanwhile.request();
        Bytes::from_gib(64)
    };
    let world = FakeWorld { disk: Box::new(look), ..quick() };
    let ran = run(&plan(), &world, &stop);
    ran.outcome.as_ref().unwrap();
    assert_eq!((world.load_processes(), ran.ended()), (0, Vec::new()));
    assert!(!ran.events().iter().any(|event| matches!(event, Event::GuestsReady { .. })));
}

#[test]
fn time_spent_on_templates_says_nothing_of_how_long_passes_take() {
    let world = FakeWorld { on_templates: Duration::from_secs(60), ..quick() };
    let plan = plan();
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let least = world.on_templates * u32::try_from(plan.passes.len()).unwrap();
    assert!(ran.on_templates >= least, "{:?}", ran.on_templates);
}

#[test]
fn a_ladder_begins_no_block_of_repeats_that_would_end_too_late() {
    let plan = plan();
    let block = |number| plan.passes.iter().filter(move |pass| pass.block == number);
    let needed: Duration = block(1).map(|pass| expect::time_of(&plan.points[pass.point])).sum();
    // Passes take no time on a fake: when the first block fits, the others do.
    let plan = Plan { within: Some(Span::new(needed + Duration::from_secs(1))), ..plan.clone() };
    let world = quick();
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.ended(), plan.passes, "all of it takes no time");
    let plan = Plan { within: Some(Span::new(needed / 2)), ..plan };
    let ran = run(&plan, &quick(), &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(ran.began(), []);
    assert_eq!(ran.notes, ["stopped after 0 whole repeats: too little time was left"]);
}
