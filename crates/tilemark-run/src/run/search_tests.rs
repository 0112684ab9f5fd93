//! What a search for the largest count that holds promises, against boundaries that were planted.

use crate::{
    fakes::{Act, FakeWorld, Guests, Ran, TILE, Watching, answered, plan_of, run, run_on, search, started},
    progress::Progress,
    stop::StopSignal,
};
use std::sync::Arc;
use tilemark_guests::fake::FakeManager;
use tilemark_plan::search::width_allowed;
use tilemark_plan::{
    expect,
    plan::{Backend, Pass, Plan, Point},
    resolve::Request,
};
use tilemark_record::result::{Answer, GateMeasure, VerdictStatus};
use tilemark_statistics::judge::judge;
use tilemark_units::{Bytes, Span};

/// A host that answers within the gate up to so many tiles, and far too late beyond.
fn host_that_holds(capacity: usize) -> FakeWorld {
    FakeWorld::new(move |job, _| answered(job, if job.streams.len() <= capacity { 5 } else { 200 }))
}

fn searched(world: &FakeWorld) -> Ran {
    let ran = run(&plan_of(TILE, &search(None)), world, &StopSignal::default());
    assert_eq!(world.running(), Vec::<String>::new(), "guests are left");
    ran.outcome.as_ref().unwrap();
    ran
}

fn answer(ran: &Ran) -> Answer {
    judge(&ran.plan(), &ran.repeats()).answer
}

/// Repeats that a count had.
fn repeats_at(ran: &Ran, tiles: u32) -> usize {
    let plan = ran.plan();
    ran.repeats().iter().filter(|repeat| plan.points[repeat.point].tiles == tiles).count()
}

fn counts_tried(ran: &Ran) -> Vec<u32> {
    ran.plan().points.iter().map(|point| point.tiles).collect()
}

/// Says that the answer is a narrow range with the capacity in it, and trusted, and gives its ends.
fn range_around(ran: &Ran, capacity: u32) -> (u32, u32) {
    let judged = judge(&ran.plan(), &ran.repeats());
    let (held, broke) = (judged.answer.holds.unwrap(), judged.answer.breaks.as_ref().unwrap().tiles);
    assert!(held <= capacity && capacity < broke, "{capacity}: {}", judged.sentence);
    assert!(broke - held - 1 <= width_allowed(held, broke), "{capacity}: {}", judged.sentence);
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted, "{capacity}: {}", judged.sentence);
    assert!(judged.answer.confidence.unwrap() >= 0.95);
    (held, broke)
}

#[test]
fn the_planted_boundary_lies_in_the_range_and_both_its_ends_have_three_repeats() {
    for capacity in [1, 5, 21] {
        let ran = searched(&host_that_holds(capacity as usize));
        let (held, broke) = range_around(&ran, capacity);
        assert!(repeats_at(&ran, held) >= 3 && repeats_at(&ran, broke) >= 3, "{capacity}");
        assert_eq!(ran.ended(), ran.began());
        assert_eq!(ran.notes.last().unwrap(), "the search found a certain answer");
    }
}

#[test]
fn a_guest_that_dies_in_every_second_pass_breaks_and_is_not_measured_until_it_lives() {
    let guests = Guests::of(FakeManager::new(Backend::Native));
    let world = FakeWorld::new({
        let guests = guests.clone();
        move |job, pass| {
            let tiles = job.streams.len();
            let mut acts = answered(job, if tiles <= 7 { 5 } else { 200 });
            if tiles >= 6 && pass % 2 == 0 {
                let fake = Arc::clone(&guests.fake);
                let crash = move || fake.crash("tile-001-web", "killed by signal 9");
                acts.insert(1, Act::Meanwhile(Box::new(crash)));
            }
            acts
        }
    });
    let ran = searched(&world.with(guests));
    let judged = judge(&ran.plan(), &ran.repeats());
    let died = ran.repeats().iter().filter(|repeat| !repeat.incidents.is_empty()).count();
    assert!(died > 0, "no guest died: {:?}", counts_tried(&ran));
    let broke = judged.answer.breaks.as_ref().unwrap();
    assert_eq!(broke.measure, GateMeasure::GuestEnded, "{}", judged.sentence);
    assert!(judged.answer.holds.unwrap() < broke.tiles && broke.tiles >= 6, "{}", judged.sentence);
    assert!(judged.points.iter().all(|point| point.repeats_voided.is_empty()));
    assert!(judged.sentence.contains("killed by signal 9"), "{}", judged.sentence);
}

/// What a run says is left of it each time, in seconds, and at most.
fn said_left(ran: &Ran) -> Vec<(f64, Option<f64>)> {
    let of = |all: f64, progress: &Progress| all - progress.seconds_done;
    let left = |progress: &Progress| {
        let at_most = progress.seconds_at_most.map(|most| of(most, progress));
        (of(progress.seconds_expected, progress), at_most)
    };
    ran.progress.iter().map(left).collect()
}

/// However often a search measures the counts near its limit again.
#[test]
fn a_search_has_time_left_until_it_ends() {
    // At 16 tiles every second repeat is too slow: nobody can say whether they hold.
    let world = FakeWorld::new(|job, pass| {
        let tiles = job.streams.len();
        answered(job, if tiles < 16 || (tiles == 16 && pass % 2 == 0) { 5 } else { 200 })
    });
    let ran = searched(&world);
    let repeats = ran.repeats().len();
    assert!(repeats >= 15, "it was measured again and again: {repeats}");
    let left = said_left(&ran);
    assert!(left.len() >= 2 * repeats);
    // Each repeat is expected to take some seconds; the last of them has nothing after it.
    assert!(left[..left.len() - 2].iter().all(|(likely, _)| *likely >= 1.0), "{left:?}");
    // Passes take no time here. Once a count broke, the most that is left is known, and it never grows by more than a count that
    // turned out to hold.
    assert!(left.last().unwrap().1.is_none_or(|most| most >= 0.0));
    assert!(left.iter().any(|(likely, most)| most.is_some_and(|most| most > *likely)), "{left:?}");
}

#[test]
fn a_host_that_holds_nothing_is_asked_down_to_one() {
    let ran = searched(&host_that_holds(0));
    assert_eq!(answer(&ran).holds, None);
    assert_eq!((answer(&ran).breaks.unwrap().tiles, repeats_at(&ran, 1)), (1, 3));
}

#[test]
fn a_limit_that_holds_is_confirmed_and_never_passed() {
    let ran = searched(&host_that_holds(1000));
    assert_eq!(counts_tried(&ran), [1, 2, 4, 8, 16, 32, 64]);
    assert_eq!(repeats_at(&ran, 64), 3);
    assert_eq!(answer(&ran).breaks, None);
}

#[test]
fn a_search_keeps_its_time_by_what_a_step_will_take() {
    // Guests that boot in an emulator take long by the plan and no time on a fake: however busy this machine is, that is
    // little beside one step more.
    let scenario = TILE.replace("[measure]", "[measure]\nstart = \"boot\"");
    let plan_within =
        |within| plan_of(&scenario, &Request { backends: vec![Backend::Emulated], ..search(within) });
    let plan = plan_within(None);
    let at = |tiles| expect::time_of(&plan.point_at(&plan.points[0], 0, tiles));
    // What a probe takes with the confirmation after it, on a host that is as fast as pace allows for. 8 tiles shall be
    // tried and 16 not.
    let needed = |tiles| (3 * at(tiles) + 2 * at(tiles / 2)).mul_f64(0.3);
    let within = Span::new((needed(8) + needed(16)) / 2);
    let world = host_that_holds(1000).with(Guests::of(FakeManager::new(Backend::Emulated)));
    let ran = run(&plan_within(Some(within)), &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    assert_eq!(counts_tried(&ran), [1, 2, 4, 8]);
    assert!(
        ran.notes.contains(&"16 tiles not tried: too little time was left".to_owned()),
        "{:?}",
        ran.notes
    );
    assert_eq!(repeats_at(&ran, 8), 3, "the time that was kept back confirms what was found");
    // No time at all: nothing is begun.
    let ran = run(&plan_within(Some(Span::from_seconds(1))), &world, &StopSignal::default());
    assert_eq!(ran.began(), []);
}

#[test]
fn where_memory_ends_first_the_most_that_fits_is_confirmed() {
    let plan = plan_of(TILE, &search(None));
    let reserve = expect::memory_reserve(plan.host.memory_total);
    let ten = expect::memory_of(&plan.point_at(&plan.points[0], 0, 10));
    let world =
        FakeWorld { memory: Box::new(move |_| reserve + ten + Bytes::from_mib(1)), ..host_that_holds(1000) };
    let ran = searched(&world);
    assert_eq!(counts_tried(&ran), [1, 2, 4, 8, 10], "what does not fit is not in the plan");
    assert_eq!(repeats_at(&ran, 10), 3);
    assert!(ran.notes[4].starts_with("16 tiles need 1.5 GiB of memory"), "{:?}", ran.notes);
    // A boundary below what fits is found all the same.
    let ran = searched(&FakeWorld { memory: Box::new(move |_| reserve + ten), ..host_that_holds(9) });
    assert_eq!((answer(&ran).holds, repeats_at(&ran, 9), repeats_at(&ran, 10)), (Some(9), 3, 3));
}

#[test]
fn a_host_that_gives_less_than_it_gave_ends_the_search() {
    let plan = plan_of(TILE, &search(None));
    let reserve = expect::memory_reserve(plan.host.memory_total);
    let world = FakeWorld {
        // After the third pass there is not even room for what was measured.
        memory: Box::new(move |passes| if passes < 3 { Bytes::from_gib(64) } else { reserve }),
        ..host_that_holds(1000)
    };
    let ran = searched(&world);
    assert_eq!((counts_tried(&ran), ran.began().len()), (vec![1, 2, 4], 3));
}

#[test]
fn discarded_repeats_of_a_search_are_retried_but_not_for_ever() {
    let mut world = host_that_holds(5);
    world.watch.watching = Watching::AbsentAtFirst(2);
    let ran = searched(&world);
    assert_eq!(answer(&ran).holds, Some(5), "two discarded repeats do not end a search");

    let mut world = host_that_holds(5);
    world.watch.watching = Watching::AbsentAtFirst(u32::MAX);
    let ran = searched(&world);
    assert_eq!((counts_tried(&ran), ran.began().len()), (vec![1], 4));
    assert_eq!(ran.notes.last().unwrap(), "1 tile: cannot tell");
}

#[test]
fn a_discarded_repeat_confirms_nothing_and_is_retried() {
    let mut world = host_that_holds(5);
    // 1, 2, 4, 8, 6 and 5 tiles once each, 6 tiles twice more: then 5 tiles are to be confirmed.
    world.watch.watching = Watching::AbsentAfter(8);
    let ran = searched(&world);
    assert_eq!((answer(&ran).holds, repeats_at(&ran, 6), repeats_at(&ran, 5)), (Some(5), 3, 4));
}

#[test]
fn an_interrupted_search_starts_no_further_guests() {
    let stop = StopSignal::default();
    // The passes at 1, 2 and 1 tiles have been: two more repeats of 2 tiles are to confirm that it breaks.
    let world = FakeWorld::new({
        let stop = stop.clone();
        move |job, pass| {
            if pass < 2 {
                return answered(job, if job.streams.len() <= 1 { 5 } else { 200 });
            }
            let stop = stop.clone();
            vec![started(), Act::Meanwhile(Box::new(move || stop.request())), Act::Hang]
        }
    });
    let ran = run(&plan_of(TILE, &search(None)), &world, &stop);
    ran.outcome.as_ref().unwrap();
    assert_eq!((world.load_processes(), ran.began().len(), ran.repeats().len()), (3, 3, 2));
}

/// A search among guests on KVM, with their native twin where it ends.
fn with_twin(within: Option<Span>) -> Plan {
    plan_of(TILE, &Request { backends: vec![Backend::Kvm, Backend::Native], ..search(within) })
}

/// Blocks of a count's repeats on a backend, in the order in which they were measured.
fn blocks_at(ran: &Ran, backend: Backend, tiles: u32) -> Vec<u32> {
    let plan = ran.plan();
    let is_of =
        |pass: &&Pass| plan.points[pass.point].backend == backend && plan.points[pass.point].tiles == tiles;
    ran.began().iter().filter(is_of).map(|pass| pass.block).collect()
}

#[test]
fn what_holds_is_measured_again_beside_its_twin() {
    let world = host_that_holds(5).with(Guests::of(FakeManager::new(Backend::Kvm)));
    let ran = run(&with_twin(None), &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    assert_eq!(blocks_at(&ran, Backend::Kvm, 5), [1, 2, 3, 4, 5, 6]);
    assert_eq!(blocks_at(&ran, Backend::Native, 5), [4, 5, 6]);
    let twins = ran.repeats().iter().filter(|repeat| repeat.backend == Backend::Native).count();
    assert_eq!(twins, 3, "no other count has a twin");
    let result = judge(&ran.plan(), &ran.repeats());
    assert_eq!((result.answer.holds, result.answer.breaks.map(|broke| broke.tiles)), (Some(5), Some(6)));
    let cost = result.cost.unwrap();
    assert_eq!((cost.tiles, cost.p99.unwrap().n_repeats), (5, 3));
}

#[test]
fn a_boundary_that_turns_beside_its_twin_is_searched_on() {
    // The search has its answer after ten passes: then 5 tiles are measured beside their twin, and break.
    let world = FakeWorld::new(move |job, pass| {
        let capacity = if pass < 10 { 5 } else { 4 };
        answered(job, if job.streams.len() <= capacity { 5 } else { 2_000 })
    });
    let world = world.with(Guests::of(FakeManager::new(Backend::Kvm)));
    let ran = run(&with_twin(None), &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    let answer = answer(&ran);
    assert_eq!((answer.holds, answer.breaks.map(|broke| broke.tiles)), (Some(4), Some(5)));
    let twins = blocks_at(&ran, Backend::Native, 4);
    assert_eq!(twins.len(), 3);
    assert!(blocks_at(&ran, Backend::Kvm, 4).ends_with(&twins), "each in a block with one of the guests");
    assert_eq!(judge(&ran.plan(), &ran.repeats()).cost.unwrap().tiles, 4, "what broke is not the answer");
}

#[test]
fn a_pair_that_was_discarded_is_measured_again_but_not_for_ever() {
    let world = || host_that_holds(5).with(Guests::of(FakeManager::new(Backend::Kvm)));
    let undisturbed = run(&with_twin(None), &world(), &StopSignal::default());
    let plan = undisturbed.plan();
    let is_native = |pass: &Pass| plan.points[pass.point].backend == Backend::Native;
    // The first pair is the pass of the twin with the one before or after it.
    let first_native = undisturbed.began().iter().position(is_native).unwrap();
    let first = blocks_at(&undisturbed, Backend::Native, 5)[0];
    for (watching, pairs) in
        [(Watching::AbsentAfter(first_native as u32), 4), (Watching::AbsentFrom(first_native as u32), 6)]
    {
        let mut world = world();
        world.watch.watching = watching;
        let ran = run(&with_twin(None), &world, &StopSignal::default());
        ran.outcome.as_ref().unwrap();
        assert_eq!(blocks_at(&ran, Backend::Native, 5), (first..first + pairs).collect::<Vec<u32>>());
        assert_eq!(answer(&ran).holds, Some(5), "the repeats that were kept say so");
    }
}

#[test]
fn a_twin_that_does_not_fit_costs_no_answer() {
    let plan = with_twin(None);
    let reserve = expect::memory_reserve(plan.host.memory_total);
    let world = FakeWorld {
        // When the search is over there is not even room for what was measured.
        memory: Box::new(move |passes| if passes < 10 { Bytes::from_gib(64) } else { reserve }),
        ..host_that_holds(5).with(Guests::of(FakeManager::new(Backend::Kvm)))
    };
    let ran = run(&plan, &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    assert_eq!((answer(&ran).holds, blocks_at(&ran, Backend::Native, 5)), (Some(5), vec![]));
    let last = ran.notes.last().unwrap();
    assert!(last.starts_with("no further repeat beside the native twin: 5 tiles need"), "{last}");
}

#[test]
fn a_search_keeps_time_for_the_twin() {
    let plan = with_twin(Some(Span::from_seconds(3600)));
    let search = plan.search.unwrap();
    let left = 3600.0 - search.within.unwrap().as_seconds();
    let point = plan.point_at(&plan.points[0], 0, search.guess);
    let twin = Point { backend: Backend::Native, ..point.clone() };
    let taken = (expect::time_of(&point) + expect::time_of(&twin)).as_secs_f64() * 3.0;
    assert!(left >= taken, "{left} s of {taken} s");
    assert!(
        plan.expected.time
            > plan_of(TILE, &Request { backends: vec![Backend::Kvm], ..self::search(None) }).expected.time
    );
    // Little time goes to the search first.
    let short = with_twin(Some(Span::from_seconds(12))).search.unwrap();
    assert!(short.within.unwrap().get() > expect::time_of(&plan.points[0]), "{short:?}");
}

#[test]
fn a_twin_for_which_there_is_no_time_is_left_out_and_said_so() {
    let mut plan = with_twin(None);
    plan.within = Some(Span::from_seconds(1));
    let world = host_that_holds(5).with(Guests::of(FakeManager::new(Backend::Kvm)));
    let ran = run(&plan, &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    assert!(ran.plan().points.iter().all(|point| point.backend == Backend::Kvm));
    assert_eq!(
        ran.notes.last().unwrap(),
        "no further repeat beside the native twin: too little time was left"
    );
    assert_eq!(answer(&ran).holds, Some(5));
}

#[test]
fn what_is_only_shown_comes_once_after_the_search() {
    let world = host_that_holds(3).with(Guests::of(FakeManager::new(Backend::Emulated)));
    let request = Request { demonstrate: Some(Backend::Emulated), ..search(None) };
    let ran = run(&plan_of(TILE, &request), &world, &StopSignal::default());
    ran.outcome.as_ref().unwrap();
    let backends: Vec<Backend> = ran.repeats().iter().map(|repeat| repeat.backend).collect();
    assert_eq!(backends.iter().filter(|backend| **backend == Backend::Emulated).count(), 1);
    let last = ran.began().last().copied().unwrap();
    assert_eq!(ran.plan().points[last.point].backend, Backend::Emulated);
    assert_eq!(answer(&ran).holds, Some(3), "what was shown enters no answer");
}

/// Adds a further session.
fn continued(ran: Ran, world: &FakeWorld) -> Ran {
    let plan = ran.plan();
    let ran = run_on(ran, &plan, world);
    ran.outcome.as_ref().unwrap();
    ran
}

#[test]
fn a_search_that_ended_unsure_goes_on_with_its_repeats_and_ends_sure() {
    let stop = StopSignal::default();
    let world = FakeWorld::new({
        let stop = stop.clone();
        move |job, pass| {
            if pass < 4 {
                return answered(job, if job.streams.len() <= 5 { 5 } else { 200 });
            }
            let stop = stop.clone();
            vec![started(), Act::Meanwhile(Box::new(move || stop.request())), Act::Hang]
        }
    });
    let ran = run(&plan_of(TILE, &search(None)), &world, &stop);
    let before = ran.repeats();
    assert_eq!(before.len(), 4);
    assert_ne!(judge(&ran.plan(), &before).verdict.status, VerdictStatus::Trusted);

    let ran = continued(ran, &host_that_holds(5));
    range_around(&ran, 5);
    let repeats = ran.repeats();
    assert!(before.iter().all(|old| repeats.contains(old)), "a repeat is gone");
    let highest = before.iter().map(|repeat| repeat.block).max().unwrap();
    let further: Vec<_> = repeats.iter().filter(|repeat| !before.contains(repeat)).collect();
    assert!(further.iter().all(|repeat| repeat.block > highest), "a schedule of before is used again");
    let mut blocks: Vec<_> = repeats.iter().map(|repeat| (repeat.point, repeat.block)).collect();
    blocks.sort_unstable();
    blocks.dedup();
    assert_eq!(blocks.len(), repeats.len(), "no block twice");
    assert_eq!(counts_tried(&ran)[..4], [1, 2, 4, 8], "what was known is not searched for again");
    assert!(further.iter().all(|repeat| repeat.point >= 2), "1 and 2 tiles need no further repeat");
}

#[test]
fn a_search_that_took_all_its_repeats_takes_as_many_again() {
    // At every count above one a repeat holds or breaks as a coin falls: bits of a multiple of the pass.
    let by_turns = || {
        FakeWorld::new(|job, pass| {
            let is_head = (pass as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40 & 1 == 0;
            let breaks = job.streams.len() > 1 && is_head;
            answered(job, if breaks { 200 } else { 5 })
        })
    };
    let ran = searched(&by_turns());
    let spent = "the search used all repeats that it is allowed, and its answer is not certain";
    assert_eq!(ran.notes.last().unwrap(), spent);
    let before = ran.repeats().len();
    let ran = continued(ran, &by_turns());
    assert!(ran.repeats().len() > before, "{:?}", ran.notes);
}

#[test]
fn a_further_session_pairs_what_holds_with_its_twin_in_blocks_of_its_own() {
    let world = || host_that_holds(5).with(Guests::of(FakeManager::new(Backend::Kvm)));
    let mut plan = with_twin(None);
    plan.within = Some(Span::from_seconds(1));
    let ran = run(&plan, &world(), &StopSignal::default());
    assert!(blocks_at(&ran, Backend::Native, 5).is_empty());
    let highest = ran.repeats().iter().map(|repeat| repeat.block).max().unwrap();
    let plan = Plan { within: None, ..ran.plan() };
    let ran = run_on(ran, &plan, &world());
    ran.outcome.as_ref().unwrap();
    let paired: Vec<u32> = (1..=3).map(|further| highest + further).collect();
    assert_eq!(blocks_at(&ran, Backend::Native, 5), paired);
    assert!(blocks_at(&ran, Backend::Kvm, 5).ends_with(&paired));
    assert_eq!(judge(&ran.plan(), &ran.repeats()).cost.unwrap().p99.unwrap().n_repeats, 3);
    // All is known and paired: nothing is measured any more.
    let passes = ran.began().len();
    assert_eq!(continued(ran, &world()).began().len(), passes);
}

#[test]
fn a_search_whose_repeats_are_all_discarded_from_some_pass_on_ends() {
    for first in [3, 6, 8] {
        let mut world = host_that_holds(5);
        world.watch.watching = Watching::AbsentFrom(first);
        let ran = searched(&world);
        assert!(ran.began().len() < 60, "{first}: {} passes", ran.began().len());
        assert_ne!(judge(&ran.plan(), &ran.repeats()).verdict.status, VerdictStatus::Trusted, "{first}");
    }
}
