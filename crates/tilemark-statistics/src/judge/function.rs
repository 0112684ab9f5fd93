//! Whether emulated guests work. Right answers prove it; times do not, and what spoils times is no matter.

use tilemark_plan::{plan::Backend, scenario::LoopKind};
use tilemark_record::result::Function;
use tilemark_record::summary::{LoadFigures, RepeatSummary};

use super::failures;
use super::measured::MeasuredPoint;
use std::collections::BTreeMap;

/// So much of what was asked must be answered correctly. Asked what it can serve, a guest answers all of it: the rest is for what the
/// end of a load cuts off on a host that is busy with other work.
const RIGHT_MIN: f64 = 0.9;

/// What all repeats of emulated points with loads prove; nothing where there are none.
pub(crate) fn function(measured: &[MeasuredPoint]) -> Option<Function> {
    let is_meant =
        |point: &&MeasuredPoint| point.point.backend == Backend::Emulated && !point.point.loads.is_empty();
    let points: Vec<&MeasuredPoint> = measured.iter().filter(is_meant).collect();
    if points.is_empty() {
        return None;
    }
    let repeats: Vec<&RepeatSummary> = points.iter().flat_map(|point| point.all()).collect();
    let loads = || repeats.iter().flat_map(|repeat| &repeat.loads);
    let (right, wrong) = (loads().map(|load| load.completed).sum(), loads().map(|load| load.wrong).sum());
    let failed = loads().map(|load| load.failed).sum();
    let asked = loads().map(asked).sum();
    let counts = Function { proven: false, asked, right, wrong, failed, why_not: None };
    let why_not = why_not(&repeats, &counts);
    Some(Function { proven: why_not.is_none(), why_not, ..counts })
}

/// How many requests had to be answered. A load without a schedule answers some that its warm-up asked. What it has under way at its end
/// may be as much as a broker keeps, and is neither answered nor unanswered: what never comes back has failed.
fn asked(load: &LoadFigures) -> u64 {
    let ended = load.completed + load.wrong + load.failed;
    if load.loop_kind == LoopKind::Closed { ended } else { load.offered.max(ended) }
}

/// What keeps it from being proven, the worst first.
fn why_not(repeats: &[&RepeatSummary], counts: &Function) -> Option<String> {
    if repeats.is_empty() {
        return Some("no repeat of them was measured".to_owned());
    }
    if let Some(failure) = repeats.iter().find_map(|repeat| failures::first(repeat)) {
        return Some(failure);
    }
    if let Some(unproven) = repeats.iter().flat_map(|repeat| &repeat.incidents).next() {
        let guest = unproven.guest.as_ref().map_or_else(String::new, |guest| format!("{guest}: "));
        return Some(format!("{guest}{}", unproven.what));
    }
    let guests = || repeats.iter().flat_map(|repeat| &repeat.loads).flat_map(|load| &load.guests);
    if counts.wrong > 0 {
        return Some(format!("wrong answers: {}", counts.wrong));
    }
    if let Some(silent) = guests().find(|guest| guest.offered > 0 && guest.completed == 0) {
        return Some(format!("{} answered none of {}", silent.name, silent.offered));
    }
    let mut asked: BTreeMap<&str, u64> = BTreeMap::new();
    for guest in guests() {
        *asked.entry(&guest.name).or_default() += guest.offered.max(guest.completed);
    }
    if let Some((unasked, _)) = asked.into_iter().find(|(_, asked)| *asked == 0) {
        return Some(format!("{unasked} received no request while it was measured"));
    }
    let is_enough = counts.right > 0 && counts.right as f64 >= RIGHT_MIN * counts.asked as f64;
    let error = || repeats.iter().flat_map(|repeat| &repeat.loads).find_map(|load| load.errors.first());
    (!is_enough).then(|| match error() {
        Some(error) => format!("it must be at least {} %; the first error: {error}", 100.0 * RIGHT_MIN),
        None => format!("it must be at least {} %", 100.0 * RIGHT_MIN),
    })
}
