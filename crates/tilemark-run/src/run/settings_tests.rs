//! Settings of the host around the repeats of a run, and a whole screening, on fakes.

use crate::{
    failure::FailureCode,
    fakes::{Act, FakeHost, FakeWorld, Guests, Ran, TILE, answered, ladder, plan_of, run},
    job::lock::WhenBusy,
    plan::prepare::Asked,
    run::command::{RunRequest, when_busy},
    stop::StopSignal,
};
use std::collections::BTreeMap;
use tilemark_guests::fake::{FakeManager, Fault};
use tilemark_plan::{
    plan::{Backend, Plan, SideName},
    resolve::{Request, Sides},
    screening::{Screened, ScreenedSetting, Screening},
};
use tilemark_record::{
    result::{Hooks, SettingOutcome},
    summary::{IncidentKind, RepeatSummary},
};
use tilemark_statistics::judge::judge;

const KEY: &str = "vm.swappiness";

/// Two sides: the host as it is, where the value is 60, and 10.
fn two_sides() -> Plan {
    let b = [(format!("host.setting.{KEY}"), "10".to_owned())].into();
    plan_of(TILE, &Request { sides: Some(Sides { a: BTreeMap::new(), b }), ..ladder() })
}

fn host() -> FakeHost {
    FakeHost::with(&[(KEY, "60")])
}

fn no_stop() -> StopSignal {
    StopSignal::default()
}

fn of_side(ran: &Ran, side: SideName) -> Vec<RepeatSummary> {
    let plan = ran.plan();
    ran.repeats().into_iter().filter(|repeat| plan.points[repeat.point].side == Some(side)).collect()
}

#[test]
fn each_side_has_its_settings_around_its_repeats_and_both_are_read_back_in_each() {
    let host = host();
    let sees = host.clone();
    let world = FakeWorld::new(move |job, _| {
        sees.note(&format!("measured at {}", sees.value(KEY)));
        answered(job, 5)
    });
    let world = FakeWorld { host: host.clone(), ..world };
    let plan = two_sides();
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(host.value(KEY), "60");
    let wanted: Vec<&str> = plan
        .passes
        .iter()
        .flat_map(|pass| match plan.points[pass.point].side {
            Some(SideName::B) => vec!["vm.swappiness=10", "measured at 10", "restored"],
            _ => vec!["measured at 60", "restored"],
        })
        .collect();
    assert_eq!(host.done(), wanted);
    for (side, set, value) in [(SideName::A, None, "60"), (SideName::B, Some("10"), "10")] {
        let repeats = of_side(&ran, side);
        assert_eq!(repeats.len(), 3);
        for repeat in repeats {
            let [read] = &repeat.settings[..] else { panic!("{repeat:?}") };
            assert_eq!((read.set.as_deref(), read.value.as_deref()), (set, Some(value)));
            assert_eq!(read.before.as_deref(), Some("60"));
            assert_eq!(repeat.incidents, []);
            assert_eq!(repeat.is_load_in_place, Some(true));
        }
    }
}

#[test]
fn where_the_kernel_delivers_a_vector_is_read_back_beside_where_it_was_set() {
    let key = "irq.eth0.affinity";
    for (delivered, is_elsewhere) in [("3", false), ("2-3", false), ("1,3", true)] {
        let host = FakeHost::with(&[(key, "0-3")]).delivering(key, delivered);
        let world = FakeWorld { host, ..FakeWorld::new(|job, _| answered(job, 5)) };
        let mut plan = plan_of(TILE, &ladder());
        plan.points[0].host.setting.insert(key.to_owned(), "2-3".to_owned());
        let ran = run(&plan, &world, &no_stop());
        ran.outcome.as_ref().unwrap();
        for repeat in ran.repeats() {
            let [read] = &repeat.settings[..] else { panic!("{repeat:?}") };
            assert_eq!(read.effective.as_deref(), Some(delivered));
            assert_eq!(read.is_elsewhere, is_elsewhere && read.set.is_some(), "{read:?}");
            assert_eq!(repeat.incidents, [], "a value that is still the one that was set is proven");
        }
    }
}

#[test]
fn a_run_that_sets_the_host_is_alone_whatever_the_flags_say() {
    let request = |when_busy| RunRequest {
        asked: Asked::default(),
        output: None,
        offline: false,
        when_busy,
        continues: None,
        command: String::new(),
        hooks: Hooks::default(),
        wait_quiet: None,
    };
    assert_eq!(when_busy(&request(None), &two_sides()), Some(WhenBusy::Stop));
    assert_eq!(when_busy(&request(Some(WhenBusy::Wait)), &two_sides()), Some(WhenBusy::Wait));
    let mut own = two_sides();
    for point in &mut own.points {
        // In the run's own network, and of its own processes.
        point.host.setting = [("net.ipv4.tcp_rmem", "1 2 3"), ("limit.nofile", "1024")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
    }
    assert_eq!(when_busy(&request(None), &own), None);
}

#[test]
fn a_plan_that_sets_nothing_touches_and_reads_nothing() {
    let world = FakeWorld { host: host(), ..FakeWorld::new(|job, _| answered(job, 5)) };
    let ran = run(&plan_of(TILE, &ladder()), &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    assert_eq!(world.host.done(), Vec::<String>::new());
    assert!(ran.repeats().iter().all(|repeat| repeat.settings.is_empty()));
}

#[test]
fn a_value_that_another_program_changes_while_measured_makes_the_repeat_doubtful_and_is_left_alone() {
    let host = host();
    let changes = host.clone();
    let world = FakeWorld::new(move |job, _| {
        let mut acts = answered(job, 5);
        let changes = changes.clone();
        // Once, where it is set.
        if changes.value(KEY) == "10" && !changes.done().contains(&"changed".to_owned()) {
            let change = move || {
                changes.set(KEY, "33");
                changes.note("changed");
            };
            acts.insert(1, Act::Meanwhile(Box::new(change)));
        }
        acts
    });
    let ran = run(&two_sides(), &FakeWorld { host: host.clone(), ..world }, &no_stop());
    ran.outcome.as_ref().unwrap();
    let repeats = of_side(&ran, SideName::B);
    let doubtful: Vec<&RepeatSummary> =
        repeats.iter().filter(|repeat| !repeat.incidents.is_empty()).collect();
    let [doubtful] = &doubtful[..] else { panic!("{repeats:?}") };
    assert_eq!(doubtful.incidents[0].kind, IncidentKind::Unproven);
    let what = &doubtful.incidents[0].what;
    assert!(what.starts_with("vm.swappiness was 10 and then 33: another program changed it"), "{what}");
    assert!(what.ends_with("tuned runs (process 17) and changes vm.swappiness too"), "{what}");
    let point = &judge(&ran.plan(), &ran.repeats()).points[doubtful.point];
    assert_eq!((point.repeats_kept, point.repeats_voided.len()), (3, 1), "it is retried");
    assert_eq!(ran.changed_by_others, [KEY], "it is not ours to restore");
    assert_eq!(host.value(KEY), "33");
}

#[test]
fn a_setting_that_the_host_refuses_ends_the_run_before_a_guest_of_its_point_starts() {
    let host = host().refusing(KEY);
    let world = FakeWorld { host: host.clone(), ..FakeWorld::new(|job, _| answered(job, 5)) };
    let ran = run(&two_sides(), &world, &no_stop());
    assert!(ran.failure().message.contains("vm.swappiness was refused"), "{:?}", ran.failure());
    assert_eq!(of_side(&ran, SideName::B), []);
    assert_eq!((host.value(KEY).as_str(), world.running()), ("60", Vec::new()));
}

#[test]
fn whatever_fails_in_a_repeat_its_settings_are_restored() {
    let fails: Vec<FakeWorld> = vec![
        FakeWorld::new(|_, _| vec![Act::Die]),
        FakeWorld { no_load_process: Some(0), ..FakeWorld::new(|job, _| answered(job, 5)) },
        FakeWorld::new(|job, _| answered(job, 5)).with(Guests::of(
            FakeManager::new(Backend::Native).where_guest("tile-001-idle", Fault::NeverStarts),
        )),
    ];
    for world in fails {
        let both = [(format!("host.setting.{KEY}"), "10".to_owned())].into();
        let plan = plan_of(TILE, &Request { settings: both, ..ladder() });
        let world = FakeWorld { host: host(), ..world };
        let ran = run(&plan, &world, &no_stop());
        assert!(ran.outcome.is_err());
        assert_eq!(world.host.done(), ["vm.swappiness=10", "restored"]);
        assert_eq!(world.host.value(KEY), "60");
    }
}

#[test]
fn a_setting_that_cannot_be_restored_ends_the_run_with_the_host_named() {
    let world = FakeWorld { host: host().keeping(KEY), ..FakeWorld::new(|job, _| answered(job, 5)) };
    let ran = run(&two_sides(), &world, &no_stop());
    assert_eq!(ran.failure().code, FailureCode::NotRestored, "{:?}", ran.failure());
}

fn screening(pairs: u32) -> Request {
    let setting = |key: &str| ScreenedSetting {
        key: key.to_owned(),
        value: "1".to_owned(),
        found: Some("0".to_owned()),
        claim: None,
    };
    let settings = ["a", "b", "c"].map(setting).to_vec();
    let screening = Screening { profile: "p".to_owned(), settings, left_out: Vec::new(), rows: 4, pairs };
    Request {
        tiles: Some(vec![1]),
        screening: Some(screening),
        settings: [("measure.repeats".to_owned(), "4".to_owned())].into(),
        ..ladder()
    }
}

/// A world in which requests take longer where `b` is 1, and scatter.
fn slowed_by_b() -> FakeWorld {
    let host = FakeHost::with(&[("a", "0"), ("b", "0"), ("c", "0")]);
    let sees = host.clone();
    let world = FakeWorld::new(move |job, pass| {
        let scatter = u64::from(pass * 7 % 5);
        answered(job, if sees.value("b") == "1" { 36 + scatter } else { 20 + scatter })
    });
    FakeWorld { host, ..world }
}

#[test]
fn a_screening_measures_its_design_and_confirms_what_looked_real_each_row_beside_its_mirror() {
    let world = slowed_by_b();
    let plan = plan_of(TILE, &screening(10));
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let as_run = ran.plan();
    let began = ran.began();
    for pair in began[..32].chunks(2) {
        let of = |at: usize| as_run.points[pair[at].point].screened.clone().unwrap();
        assert_eq!((of(0).group(), pair[0].block), (of(1).group(), pair[1].block), "{pair:?}");
    }
    let added: Vec<String> =
        as_run.points[8..].iter().map(|point| point.screened.as_ref().unwrap().to_string()).collect();
    assert_eq!(added, ["nothing set", "b alone"]);
    assert_eq!(began.len(), 32 + 2 * 10);
    let values = world.host.values();
    assert!(values.iter().all(|(_, value)| value == "0"), "{values:?}");
    let found = judge(&as_run, &ran.repeats()).screening.unwrap();
    let outcomes: Vec<SettingOutcome> = found.settings.iter().map(|setting| setting.outcome).collect();
    assert_eq!(outcomes[1], SettingOutcome::Harms, "{found:?}");
    assert!(!outcomes.contains(&SettingOutcome::Pays));
    assert!(
        ran.notes.iter().any(|note| note.contains("1 setting looks to have an effect")),
        "{:?}",
        ran.notes
    );
    let alone = as_run.points.iter().find(|point| point.screened == Some(Screened::Alone("b".to_owned())));
    assert_eq!(alone.unwrap().host.setting.keys().collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_row_that_is_discarded_is_retried_with_its_mirror_and_without_pairs_nothing_is_confirmed() {
    let world = slowed_by_b();
    let watch = crate::fakes::Watching::AbsentAtFirst(1);
    let mut world = FakeWorld { host: world.host.clone(), ..world };
    world.watch.watching = watch;
    let plan = plan_of(TILE, &screening(0));
    let ran = run(&plan, &world, &no_stop());
    ran.outcome.as_ref().unwrap();
    let began = ran.began();
    assert_eq!(began.len(), 32 + 2, "the row and its mirror: {began:?}");
    let group = |at: usize| ran.plan().points[began[at].point].screened.as_ref().unwrap().group();
    assert_eq!((group(32), group(33)), (group(0), group(0)));
    assert_eq!(ran.plan().points.len(), 8);
}
