//! Which settings of the host pay: by the design in which all of them change, then each that looked real alone.

use std::collections::BTreeMap;

use tilemark_plan::plan::{LoadPlan, Plan};
use tilemark_plan::scenario::LoopKind;
use tilemark_plan::screening::{Screened, ScreenedSetting};
use tilemark_plan::workload::CommandParameters;
use tilemark_record::result::{
    ComparisonOutcome, FailureComparison, MeasureEffect, Screening, SettingEffect, SettingOutcome,
    VoidedSides,
};
use tilemark_record::summary::RepeatSummary;

use super::blocks::{FigureOf, figures, serves, whole_blocks};
use super::measured::MeasuredPoint;
use super::pairing::Pairing;
use super::repeat_figures::{load_of, p50, p99, reports_no_latency, throughput};
use super::side_failures::{at_step, fails};
use super::side_step::SideStep;
use super::sides::{VOIDED_P_MIN, failure_comparison, voided};
use crate::compare::{
    BetterWhen, Change, LEAST_CHANGE, LEAST_CHANGE_OF_TAIL, Measure, Rank, SideComparison, SideVerdict,
    compare_sides,
};
use crate::failures::FailureChange;
use crate::figure::Missing;
use crate::fisher::fisher_exact;
use crate::holm::holm;
use crate::screening::{Effects, PairOfRows, SCREENING_LEVEL, effects, smallest_effect_found};
use crate::sentence::DISCARDED;

/// What the design found, as the pipeline needs it to go on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToConfirm {
    /// Keys of settings with an effect that looks real.
    pub real: Vec<String>,
    /// Those of them that look better in one measure and worse in none.
    pub paid: Vec<String>,
}

/// What is to be confirmed after the design of a screening was measured.
pub fn to_confirm(plan: &Plan, repeats: &[RepeatSummary]) -> ToConfirm {
    let measured: Vec<MeasuredPoint> =
        plan.points.iter().map(|point| MeasuredPoint::on(plan, point, repeats)).collect();
    let Some(screening) = screening(plan, &measured, &mut BTreeMap::new()) else {
        return ToConfirm::default();
    };
    let mut found = ToConfirm::default();
    for setting in screening.settings {
        let real = setting.screened.iter().filter(|effect| looks_real(effect)).map(is_gain);
        let gains: Vec<bool> = real.collect();
        if gains.is_empty() && setting.failures.is_empty() {
            continue;
        }
        if gains.iter().all(|gain| *gain) && setting.failures.is_empty() {
            found.paid.push(setting.key.clone());
        }
        found.real.push(setting.key);
    }
    found
}

fn looks_real(effect: &MeasureEffect) -> bool {
    effect.p.is_some_and(|p| p < SCREENING_LEVEL)
}

fn is_gain(effect: &MeasureEffect) -> bool {
    effect.change.is_some_and(|change| (change.value > 0.0) == effect.more_is_better)
}

/// A measure of a screening.
struct Screen {
    name: &'static str,
    better_when: BetterWhen,
    is_tail: bool,
    figure: fn(&RepeatSummary, &str) -> Option<f64>,
}

/// What is measured: the one figure of a command; else what the load gets done, how long it takes where its demand is fixed, and the tail.
/// A load that reported no latency in any repeat has neither of the last two.
fn measures(load: &LoadPlan, measured: &[MeasuredPoint]) -> Vec<Screen> {
    let measure = |name, better_when, is_tail, figure| Screen { name, better_when, is_tail, figure };
    let rate = throughput as fn(&RepeatSummary, &str) -> _;
    if let Some((_, better)) = load.work.command().and_then(CommandParameters::printed_figure) {
        return vec![measure("figure", better.into(), false, rate)];
    }
    let rate = measure("throughput", BetterWhen::Higher, false, rate);
    let kept = measured.iter().flat_map(|point| &point.kept);
    let mut own = kept.filter_map(|repeat| load_of(repeat, &load.name)).peekable();
    if own.peek().is_some() && own.all(reports_no_latency) {
        return vec![rate];
    }
    let loop_kind = load.demand.loop_kind();
    let median = (loop_kind == LoopKind::Open).then(|| measure("p50", BetterWhen::Lower, false, p50));
    let tail = measure("p99", BetterWhen::Lower, true, p99);
    [Some(rate), median, Some(tail)].into_iter().flatten().collect()
}

/// The effects of all settings; `None` where none were screened.
pub(crate) fn screening(
    plan: &Plan,
    measured: &[MeasuredPoint],
    missing: &mut BTreeMap<String, String>,
) -> Option<Screening> {
    let screening = plan.screening.as_ref()?;
    let headline = plan.scenario.headline.as_deref()?;
    let first = plan.points.iter().find(|point| point.screened.is_some())?;
    let load = first.loads.iter().find(|load| load.name == headline)?;
    let measures = measures(load, measured);
    let by_design = by_design(plan, measured, &measures, headline, missing);
    let confirmed = |step: &SideStep| compared(plan, step, &measures, headline);
    let settings = screening.settings.iter().zip(by_design).map(|(setting, screened)| {
        let step = beside_nothing(measured, &Screened::Alone(setting.key.clone()));
        let alone = step.as_ref().and_then(confirmed);
        let lost = step.as_ref().and_then(unequal_discards);
        let is_unfair = lost.is_some();
        let mut failures = match &alone {
            Some(alone) => more_failures(alone),
            None => failures_by_design(&setting.key, screening.settings.len(), measured),
        };
        failures.extend(lost);
        let outcome = match &alone {
            _ if is_unfair => SettingOutcome::CannotTell,
            Some(alone) => outcome_alone(alone),
            None if failures.is_empty() => outcome_by_design(&screened),
            None => SettingOutcome::CannotTell,
        };
        SettingEffect {
            key: setting.key.clone(),
            value: setting.value.clone(),
            found: setting.found.clone(),
            claim: setting.claim.clone(),
            screened,
            confirmed: alone.as_ref().map(of_comparison).unwrap_or_default(),
            failures,
            outcome,
        }
    });
    let settings = settings.collect();
    let together = beside_nothing(measured, &Screened::Together);
    let together = match together.as_ref().and_then(unequal_discards) {
        Some(lost) => {
            missing.insert("screening.together".to_owned(), unequal_together(&lost));
            None
        }
        None => together.as_ref().and_then(confirmed),
    };
    let together_of = plan.points.iter().find(|point| point.screened == Some(Screened::Together));
    Some(Screening {
        profile: screening.profile.clone(),
        repeats: rows(measured).map(|point| point.kept.len() as u32).sum(),
        level: SCREENING_LEVEL,
        settings,
        together: together.map(|together| of_comparison(&together)).unwrap_or_default(),
        together_of: together_of
            .map(|point| point.host.setting.keys().cloned().collect())
            .unwrap_or_default(),
        left_out: screening.left_out.clone(),
    })
}

/// Points of the design.
fn rows<'m, 'a>(measured: &'m [MeasuredPoint<'a>]) -> impl Iterator<Item = &'m MeasuredPoint<'a>> {
    measured.iter().filter(|point| matches!(point.point.screened, Some(Screened::Row { .. })))
}

/// The effects by the design, setting by setting; p is corrected over all of them.
fn by_design(
    plan: &Plan,
    measured: &[MeasuredPoint],
    measures: &[Screen],
    headline: &str,
    missing: &mut BTreeMap<String, String>,
) -> Vec<Vec<MeasureEffect>> {
    let screened = plan.screening.as_ref().map_or(&[][..], |screening| &screening.settings);
    let settings = screened.len();
    let mut found: Vec<Result<(Effects, usize), Missing>> = Vec::new();
    for measure in measures {
        let of_measure = pairs(screened, measured, headline, &|repeat| (measure.figure)(repeat, headline))
            .and_then(|pairs| effects(&pairs).map(|effects| (effects, pairs.len())));
        if let Err(reason) = &of_measure {
            missing.insert(format!("screening.{}", measure.name), reason.reason.clone());
        }
        found.push(of_measure);
    }
    let all = || found.iter().flatten().flat_map(|(effects, _)| &effects.of_settings);
    let corrected = holm(&all().map(|effect| effect.p).collect::<Vec<f64>>());
    let tests = corrected.len();
    let mut corrected = corrected.chunks(settings.max(1));
    let mut of_settings: Vec<Vec<MeasureEffect>> = vec![Vec::new(); settings];
    for (measure, of_measure) in measures.iter().zip(&found) {
        let p = of_measure.as_ref().ok().and_then(|_| corrected.next());
        for (at, of_setting) in of_settings.iter_mut().enumerate() {
            let known = of_measure.as_ref().ok();
            let change = known
                .map(|(effects, _)| effects.of_settings[at].ratio.clone().map(|ratio| ratio - 1.0).into());
            let resolution = known.and_then(|(effects, pairs)| {
                smallest_effect_found(*pairs, settings, tests, effects.repeat_deviation)
            });
            of_setting.push(MeasureEffect {
                measure: measure.name.to_owned(),
                change,
                p: p.map(|p| p[at]),
                resolution,
                margin: margin(plan, measure),
                more_is_better: measure.better_when == BetterWhen::Higher,
            });
        }
    }
    of_settings
}

fn margin(plan: &Plan, measure: &Screen) -> f64 {
    let wanted = &plan.scenario.measure;
    if measure.is_tail { wanted.margin_p99.get() } else { wanted.margin.get() }
}

/// Every row with its mirror image, of one block, on logarithms.
fn pairs(
    screened: &[ScreenedSetting],
    measured: &[MeasuredPoint],
    headline: &str,
    figure: FigureOf,
) -> Result<Vec<PairOfRows>, Missing> {
    let is_mirrored =
        |point: &&MeasuredPoint| matches!(point.point.screened, Some(Screened::Row { mirrored: true, .. }));
    let design = rows(measured).filter(|point| point.counts);
    let mut pairs = Vec::new();
    for row in design.filter(|point| !is_mirrored(point)) {
        let group = row.point.screened.as_ref().map(Screened::group);
        let is_its_mirror = |point: &&MeasuredPoint| {
            is_mirrored(point) && point.point.screened.as_ref().map(Screened::group) == group
        };
        let Some(mirror) = rows(measured).find(is_its_mirror) else { continue };
        let whole = whole_blocks(&row.kept, &mirror.kept);
        if whole.iter().any(|block| block.a.iter().chain(&block.b).any(|repeat| !serves(repeat, headline))) {
            return Err(Missing::because("a repeat served nothing"));
        }
        if whole.is_empty() {
            continue;
        }
        let is_on = |setting: &ScreenedSetting| row.point.host.setting.contains_key(&setting.key);
        let on: Vec<bool> = screened.iter().map(is_on).collect();
        for block in figures(&whole, figure)? {
            let mean =
                |values: &[f64]| values.iter().map(|value| value.ln()).sum::<f64>() / values.len() as f64;
            pairs.push(PairOfRows { on: on.clone(), difference: mean(&block.a) - mean(&block.b) });
        }
    }
    Ok(pairs)
}

/// A point that confirms, beside nothing set; `None` where it is not there.
fn beside_nothing<'m, 'a>(measured: &'m [MeasuredPoint<'a>], what: &Screened) -> Option<SideStep<'m, 'a>> {
    let of = |what: &Screened| {
        measured.iter().find(|point| point.counts && point.point.screened.as_ref() == Some(what))
    };
    Some(SideStep { a: vec![of(&Screened::Nothing)?], b: vec![of(what)?] })
}

/// What was confirmed beside nothing set; `None` where no block has a repeat of both.
fn compared(plan: &Plan, step: &SideStep, measures: &[Screen], headline: &str) -> Option<SideComparison> {
    let whole = step.blocks(Pairing::Blocks, |point| point.kept.clone());
    if whole.is_empty() {
        return None;
    }
    let served: Vec<_> = whole.iter().filter_map(|block| block.served(headline)).collect();
    let measure = |measure: &Screen| Measure {
        name: measure.name.to_owned(),
        better_when: measure.better_when,
        rank: Rank::Primary,
        is_tail: measure.is_tail,
        least_change: if measure.is_tail { LEAST_CHANGE_OF_TAIL } else { LEAST_CHANGE },
        margin: margin(plan, measure),
        blocks: figures(&served, &|repeat| (measure.figure)(repeat, headline)),
    };
    let measures: Vec<Measure> = measures.iter().map(measure).collect();
    let significance = plan.scenario.measure.significance.get();
    Some(compare_sides(&at_step(step, Pairing::Blocks), &measures, significance, plan.seed))
}

/// Where a setting alone lost another share of its repeats than nothing set, by more than chance: those that are left of one of both
/// may be the lucky ones, and their figures say nothing of the setting.
fn unequal_discards(step: &SideStep) -> Option<FailureComparison> {
    let VoidedSides { a, of_a, b, of_b, p } = voided(step);
    let share = |lost: u32, all: u32| f64::from(lost) / f64::from(all.max(1));
    (p < VOIDED_P_MIN).then(|| FailureComparison {
        name: DISCARDED.to_owned(),
        a: share(a, of_a),
        b: share(b, of_b),
        p: Some(p),
        outcome: ComparisonOutcome::CannotTell,
    })
}

fn unequal_together(lost: &FailureComparison) -> String {
    format!(
        "{:.0} % of the repeats with all these settings were discarded, {:.0} % of those with nothing set",
        100.0 * lost.b,
        100.0 * lost.a
    )
}

fn of_comparison(comparison: &SideComparison) -> Vec<MeasureEffect> {
    let of = |change: &Change| MeasureEffect {
        measure: change.measure.clone(),
        change: change.ratio.clone().ok().map(|ratio| ratio.map(|ratio| ratio - 1.0).into()),
        p: change.p.clone().ok(),
        resolution: change.resolution.clone().ok(),
        margin: change.margin,
        more_is_better: change.better_when == BetterWhen::Higher,
    };
    comparison.changes.iter().map(of).collect()
}

/// Repeats of the design that fail, with a setting and without it, where those with it fail more often by Fisher's exact test
/// (Bonferroni over the settings): what confirms it alone will say in what.
fn failures_by_design(key: &str, settings: usize, measured: &[MeasuredPoint]) -> Vec<FailureComparison> {
    let count = |is_on: bool| {
        let of = |point: &&MeasuredPoint| point.point.host.setting.contains_key(key) == is_on;
        let points = rows(measured).filter(|point| point.counts).filter(of);
        points.fold((0_u64, 0_u64), |(failed, all), point| {
            let fails = point.kept.iter().filter(|repeat| fails(point.point, repeat)).count();
            (failed + fails as u64, all + point.kept.len() as u64)
        })
    };
    let ((off, of_off), (on, of_on)) = (count(false), count(true));
    let share = |failed: u64, all: u64| failed as f64 / all.max(1) as f64;
    let (a, b, p) = (share(off, of_off), share(on, of_on), fisher_exact(off, of_off, on, of_on));
    let is_more = b > a && p * (settings as f64) < SCREENING_LEVEL;
    let name = "repeats that fail, by the design".to_owned();
    let found = FailureComparison { name, a, b, p: Some(p), outcome: ComparisonOutcome::CannotTell };
    is_more.then_some(found).into_iter().collect()
}

fn more_failures(alone: &SideComparison) -> Vec<FailureComparison> {
    let is_open =
        |failure: &&FailureChange| matches!(failure.verdict, SideVerdict::Worse | SideVerdict::CannotTell);
    // The place is that of all settings: `errors of web at 1 tile, settings nothing set`.
    let without_place = |found: FailureComparison| {
        let name = found.name.split(" at ").next().unwrap_or_default().to_owned();
        FailureComparison { name, ..found }
    };
    let more = alone.failures.iter().filter(|failure| failure.b > failure.a);
    more.filter(is_open).map(failure_comparison).map(without_place).collect()
}

/// Of a setting alone, beside nothing set. A tail that may be longer keeps nothing from being called better: the table shows how long.
fn outcome_alone(alone: &SideComparison) -> SettingOutcome {
    let failed = |verdict| alone.failures.iter().any(|failure| failure.verdict == verdict);
    let any = |verdict| alone.changes.iter().any(|change| change.verdict == verdict);
    if failed(SideVerdict::Worse) || any(SideVerdict::Worse) {
        SettingOutcome::Harms
    } else if failed(SideVerdict::CannotTell) {
        SettingOutcome::CannotTell
    } else if any(SideVerdict::Better) {
        SettingOutcome::Pays
    } else if alone.changes.iter().all(|change| change.verdict == SideVerdict::NoDifference) {
        SettingOutcome::NoEffect
    } else {
        SettingOutcome::CannotTell
    }
}

/// Of a setting that was not measured alone. One that looks real and was not confirmed is not known.
fn outcome_by_design(screened: &[MeasureEffect]) -> SettingOutcome {
    let is_within = |effect: &MeasureEffect| {
        let change = effect.change.and_then(|change| change.low.zip(change.high));
        // On factors, so that 1 % up and 1 % down are the same distance.
        change.is_some_and(|(low, high)| 1.0 + low >= 1.0 / (1.0 + effect.margin) && high <= effect.margin)
    };
    if !screened.iter().any(looks_real) && screened.iter().all(is_within) {
        SettingOutcome::NoEffect
    } else {
        SettingOutcome::CannotTell
    }
}
