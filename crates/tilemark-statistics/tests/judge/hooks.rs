//! What the user's own hooks do to a verdict.

use tilemark_plan::plan::Backend;
use tilemark_record::result::VerdictStatus;
use tilemark_record::summary::{HookKind, HookRun, RepeatSummary};

use crate::run::ladder;

fn with_hooks(used: f64, failed: Option<&str>) -> impl Fn(&mut RepeatSummary) {
    let failed = failed.map(str::to_owned);
    move |repeat| {
        repeat.host.processor.hooks = used;
        repeat.hooks = vec![HookRun { hook: HookKind::After, seconds: 1.0, failed: failed.clone() }];
    }
}

#[test]
fn hooks_over_one_percent_of_the_host_are_never_trusted_and_discard_nothing() {
    for (used, status) in [(0.009, VerdictStatus::Trusted), (0.011, VerdictStatus::CannotTell)] {
        let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, with_hooks(used, None)).judged();
        assert_eq!(judged.verdict.status, status, "{used}: {:?}", judged.verdict.reasons);
        let names_it = |reason: &String| reason.contains("hooks used up to 1.1 % of the host");
        assert_eq!(judged.verdict.reasons.iter().any(names_it), used > 0.01, "{:?}", judged.verdict.reasons);
        let point = &judged.points[0];
        assert_eq!((point.repeats_kept, point.repeats_voided.len()), (5, 0));
        assert!(point.notes[0].contains(&format!("used up to {:.1} %", 100.0 * used)), "{:?}", point.notes);
    }
}

#[test]
fn a_hook_that_failed_is_a_note_of_its_point_and_a_run_without_hooks_has_none() {
    let failed = with_hooks(0.0, Some("it ended with exit code 4"));
    let judged = ladder(&[Backend::Kvm], &[1]).first(1, 1, failed).judged();
    assert_eq!(judged.verdict.status, VerdictStatus::Trusted);
    let wanted = "--hook-after failed in repeat 1: it ended with exit code 4";
    assert!(judged.points[0].notes.iter().any(|note| note == wanted), "{:?}", judged.points[0].notes);
    assert_eq!(ladder(&[Backend::Kvm], &[1]).judged().points[0].notes, Vec::<String>::new());
}
