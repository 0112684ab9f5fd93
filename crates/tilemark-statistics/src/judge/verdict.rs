//! Whether the figures behind the answer can be trusted. Something that is known to have spoiled them outranks
//! not knowing enough, and both outrank trust.

use tilemark_record::result::{
    Answer, ComparisonOutcome, Counts, LimitResource, Screening, SettingOutcome, Verdict, VerdictStatus,
};

use super::gate::GateFinding;
use super::measured::MeasuredPoint;
use super::sides::JudgedSides;
use super::survey::{CONFIDENCE_MIN, Standing, Survey, is_narrow};
use crate::compare::{ExitVerdict, Rank, SideComparison, SideVerdict, Tolerance};
use crate::figure::INTERVAL_REPEATS_MIN;
use tilemark_units::counted;

/// Not more than one repeat of so many may be discarded at a decisive count, where none are below it.
const DISCARDED_PART_MAX: usize = 5;

#[derive(Default)]
struct Doubts {
    spoiled: Vec<String>,
    unknown: Vec<String>,
}

impl Doubts {
    fn verdict(self) -> Verdict {
        let status = if !self.spoiled.is_empty() {
            VerdictStatus::NotTrusted
        } else if !self.unknown.is_empty() {
            VerdictStatus::CannotTell
        } else {
            VerdictStatus::Trusted
        };
        Verdict { status, reasons: self.spoiled.into_iter().chain(self.unknown).collect() }
    }

    /// A point on which an answer rests: most of its repeats must count, and enough for an interval. One failure is enough to break.
    fn at_decisive(&mut self, point: &MeasuredPoint) {
        let (kept, discarded) = (point.kept.len(), point.voided.len());
        let at = place(point);
        // What further blocks lose takes nothing from the planned repeats: it is a note of the point.
        let of_planned = discarded - point.discarded_further();
        // Without a load there is nothing whose interval could be wanted.
        let needs_one = point.point.loads.is_empty() || point.gate.is_failure();
        let wanted = if needs_one { 1 } else { INTERVAL_REPEATS_MIN };
        if of_planned > kept {
            let why = point.voided.first().map_or("", |voided| voided.reason.as_str());
            self.spoiled
                .push(format!("{discarded} of {} repeats {at} were discarded: {why}", kept + discarded));
        } else if kept < wanted {
            let repeats = match kept {
                0 => "no repeat was".to_owned(),
                1 => "only 1 repeat was".to_owned(),
                _ => format!("only {kept} repeats were"),
            };
            self.unknown.push(format!("{repeats} kept {at}, and a figure needs {wanted}"));
        }
    }

    /// Repeats that are discarded where the host is loaded, and nowhere below, may be discarded because of the load: then those that
    /// are left are the lucky ones.
    fn shares_of_discarded(&mut self, point: &MeasuredPoint, ladder: &[&MeasuredPoint]) {
        let (kept, discarded) = (point.kept.len(), point.voided.len());
        if discarded * DISCARDED_PART_MAX <= kept + discarded || discarded > kept {
            return;
        }
        let below = ladder.iter().filter(|other| other.point.tiles < point.point.tiles);
        let (repeats, of_these) = below.fold((0, 0), |(repeats, discarded), other| {
            (repeats + other.kept.len() + other.voided.len(), discarded + other.voided.len())
        });
        if repeats > 0 && of_these * DISCARDED_PART_MAX <= repeats {
            let why = point.voided.first().map_or("", |voided| voided.reason.as_str());
            self.unknown.push(format!(
                "{discarded} of {} repeats {} were discarded, but {of_these} of {repeats} at smaller counts: the load itself may be the cause ({why})",
                kept + discarded,
                place(point),
            ));
        }
    }

    /// A count that breaks below one that holds.
    fn reversed(&mut self, survey: &Survey) {
        let is = |standing: Standing| move |tiles: &&u32| survey.standing(**tiles) == standing;
        let Some(lower) = survey.steps.keys().find(is(Standing::Breaks)) else { return };
        let mut above = survey.steps.range(lower..).map(|(tiles, _)| tiles);
        if let Some(above) = above.find(is(Standing::Holds)) {
            self.unknown.push(format!(
                "{} broke although {} held",
                counted(*lower, "tile"),
                counted(*above, "tile")
            ));
        }
    }

    /// The range must be narrow enough to act on, and probable.
    fn range(&mut self, answer: &Answer) {
        let broke = answer.breaks.as_ref().map(|found| found.tiles);
        if let Some(Counts { from, to }) = answer.undecided
            && broke.is_none_or(|broke| !is_narrow(answer.holds, broke))
        {
            let which = if from == to { counted(from, "tile") } else { format!("{from} to {to} tiles") };
            let verb = if from == to && from == 1 { "holds" } else { "hold" };
            self.unknown.push(format!("it is not known whether {which} {verb}"));
        }
        if let Some(confidence) = answer.confidence.filter(|confidence| *confidence < CONFIDENCE_MIN) {
            let percent = (100.0 * confidence).floor();
            self.unknown.push(match (answer.holds, broke) {
                (Some(held), Some(broke)) => format!(
                    "the probability that {held} hold and {} break is {percent:.0} %",
                    counted(broke, "tile")
                ),
                (Some(held), None) => {
                    format!("the probability that {} hold is {percent:.0} %", counted(held, "tile"))
                }
                (None, Some(broke)) => {
                    format!("the probability that {} break is {percent:.0} %", counted(broke, "tile"))
                }
                (None, None) => return,
            });
        }
    }
}

fn place(point: &MeasuredPoint) -> String {
    let at = format!("at {} on {}", counted(point.point.tiles, "tile"), point.point.backend.name());
    let side = point.point.side.map(|side| format!("side {}", side.name()));
    let values = point.point.vary.iter().map(|(name, value)| format!("{name} {value}"));
    let which: Vec<String> = side.into_iter().chain(values).collect();
    if which.is_empty() { at } else { format!("{at} ({})", which.join(", ")) }
}

pub(crate) fn verdict(
    measured: &[MeasuredPoint],
    answer: &Answer,
    survey: Option<&Survey>,
    sides: Option<&JudgedSides>,
) -> Verdict {
    if let Some(sides) = sides {
        let touched = measured.iter().filter(|point| sides.decided_by.contains(&point.point.index));
        return of_sides(touched, sides);
    }
    let mut doubts = Doubts::default();
    let counted = || measured.iter().filter(|point| point.counts);
    if counted().next().is_none() || answer.backend.is_none() {
        doubts.unknown.extend(answer.none_because.clone());
        return doubts.verdict();
    }
    let own = || counted().filter(|point| Some(point.point.backend) == answer.backend);
    let Some(survey) = survey else {
        // Several ladders, or none to climb: every point is by itself.
        own().for_each(|point| doubts.at_decisive(point));
        return doubts.verdict();
    };
    if answer.holds.is_some() || answer.breaks.is_some() || answer.undecided.is_some() {
        let broke = answer.breaks.as_ref().map(|found| found.tiles);
        let decisive = |tiles: u32| Some(tiles) == answer.holds || Some(tiles) == broke;
        let points: Vec<&MeasuredPoint> = own().collect();
        for point in points.iter().filter(|point| decisive(point.point.tiles)) {
            doubts.at_decisive(point);
            doubts.shares_of_discarded(point, &points);
        }
        between(&mut doubts, own(), answer);
        doubts.reversed(survey);
        doubts.range(answer);
    } else {
        without_answer(&mut doubts, own(), answer);
    }
    doubts.verdict()
}

/// A screening: most of its repeats must count, and it must say something of a setting.
pub(crate) fn of_screening(measured: &[MeasuredPoint], screening: &Screening) -> Verdict {
    let mut doubts = Doubts::default();
    let count = |of: fn(&MeasuredPoint) -> usize| measured.iter().map(of).sum::<usize>();
    let (kept, discarded) = (count(|point| point.kept.len()), count(|point| point.voided.len()));
    if discarded > kept {
        let why = measured.iter().find_map(|point| point.voided.first());
        let why = why.map_or("", |voided| voided.reason.as_str());
        doubts.spoiled.push(format!("{discarded} of {} repeats were discarded: {why}", kept + discarded));
    }
    if measured.iter().any(|point| !point.counts) {
        doubts.unknown.push("an emulator proves function, not speed".to_owned());
    } else if screening.settings.iter().all(|setting| setting.outcome == SettingOutcome::CannotTell) {
        doubts.unknown.push("no setting has a certain effect: measure more repeats".to_owned());
    }
    doubts.verdict()
}

fn without_answer<'m, 'a: 'm>(
    doubts: &mut Doubts,
    own: impl Iterator<Item = &'m MeasuredPoint<'a>>,
    answer: &Answer,
) {
    let spoiled = own.into_iter().any(|point| point.kept.is_empty() && !point.voided.is_empty());
    let reason = answer.none_because.clone().unwrap_or_else(|| "no step gave an answer".to_owned());
    if spoiled { doubts.spoiled.push(reason) } else { doubts.unknown.push(reason) }
}

/// Steps that were to be measured below the one that broke, or at all where none broke, and gave no answer. Where none broke, those
/// above what holds at which only our own load was saturated do not count.
fn between<'m, 'a: 'm>(
    doubts: &mut Doubts,
    own: impl Iterator<Item = &'m MeasuredPoint<'a>>,
    answer: &Answer,
) {
    let broke = answer.breaks.as_ref().map_or(u32::MAX, |found| found.tiles);
    // Above what holds, a load that could not send says that nothing was tried there. The answer is "at least", and rests on none of it.
    let is_untried = |point: &MeasuredPoint| {
        answer.breaks.is_none()
            && answer.holds.is_some_and(|held| held < point.point.tiles)
            && point.is_load_saturated()
    };
    for point in own.filter(|point| point.point.tiles < broke && !is_untried(point)) {
        let GateFinding::Unknown(reason) = &point.gate else { continue };
        if !point.kept.is_empty() {
            continue; // The law through all repeats says something of it.
        }
        let text = format!("{}: {reason}", place(point));
        if point.voided.is_empty() { doubts.unknown.push(text) } else { doubts.spoiled.push(text) }
    }
    if answer.breaks.is_some() && answer.limit.resource == LimitResource::LoadGenerator {
        doubts.spoiled.push("the load generator was saturated before the host was".to_owned());
    }
}

/// Sides: the points that decided, and whether their repeats could tell.
pub(crate) fn of_sides<'m, 'a: 'm>(
    touched: impl Iterator<Item = &'m MeasuredPoint<'a>>,
    sides: &JudgedSides,
) -> Verdict {
    let mut doubts = Doubts::default();
    let mut any = false;
    for point in touched {
        any = true;
        if point.counts {
            doubts.at_decisive(point);
        } else {
            doubts.unknown.push(format!("{}: an emulator proves function, not speed", place(point)));
        }
    }
    if !any {
        doubts.unknown.push("the two have no step, value and backend in common".to_owned());
    } else if sides.comparison.outcome == ComparisonOutcome::CannotTell {
        doubts.unknown.extend(sides.arithmetic.blocked.clone());
        doubts.unknown.extend(why_no_outcome(&sides.arithmetic));
    }
    doubts.verdict()
}

/// What keeps a comparison from an outcome, measure by measure.
fn why_no_outcome(sides: &SideComparison) -> Vec<String> {
    let of_failures = sides.failures.iter().filter(|failure| failure.verdict == SideVerdict::CannotTell);
    let of_failures = of_failures.map(|failure| format!("{}: they can be chance", failure.name));
    let decides = || sides.changes.iter().filter(|change| change.rank == Rank::Primary);
    let fails_less = sides.failures.iter().find(|failure| failure.verdict == SideVerdict::Better);
    let slower = decides().find(|change| change.verdict == SideVerdict::Worse);
    let of_both = fails_less
        .zip(slower)
        .map(|(less, slower)| format!("B is better in {} and worse in {}", less.name, slower.measure));
    let unknown = decides().filter(|change| change.verdict == SideVerdict::CannotTell);
    let of_changes = unknown.map(|change| {
        let reason = [change.ratio.as_ref().err(), change.resolution.as_ref().err(), change.p.as_ref().err()];
        let reason = reason.into_iter().flatten().next().map_or_else(
            || format!("its interval reaches beyond the margin of {} %", 100.0 * change.margin),
            |missing| missing.reason.clone(),
        );
        format!("{}: {reason}", change.measure)
    });
    of_failures.chain(of_both).chain(of_changes).collect()
}

/// Only figures that can be trusted accuse or acquit. A loss can be known to lie within the tolerance even where no
/// difference is found.
pub(crate) fn exit_verdict(
    verdict: &Verdict,
    sides: Option<&SideComparison>,
    tolerance: Tolerance,
) -> ExitVerdict {
    match sides {
        Some(sides) if verdict.status != VerdictStatus::NotTrusted => sides.exit_verdict(tolerance),
        _ => ExitVerdict::CannotTell,
    }
}
