//! Which settings of the host pay: one row for each setting, with its effect on each measure and what its profile claims.

use super::{Cell, Part, Row, Section, Table, View, measured, words};
use crate::number::{hundredths, percent};
use tilemark_plan::screening::LeftOut;
use tilemark_record::result::{FailureComparison, MeasureEffect, Screening, SettingEffect, SettingOutcome};

/// The table of effects, where settings were screened.
pub(crate) fn screening(view: &View) -> Option<Section> {
    let found = view.report.result.screening.as_ref()?;
    let mut parts = vec![Part::Text(about(found)), Part::Table(table(view, found))];
    parts.extend(left_out(found).map(Part::Text));
    Some(Section { is_answer: true, ..Section::new("screening", "Which settings pay", parts) })
}

fn about(found: &Screening) -> String {
    let level = format!("{:.0} %", 100.0 * found.level);
    format!(
        "Settings of the profile {}, each with its value here and the one found on this host. An effect is the figure with the setting over the \
         figure without it, with its 95 % interval; it is that of the setting alone where it was confirmed, and else that of the design in which \
         all of them change ({} repeats; a setting that does nothing seems to have an effect in {level} of such runs). The claim is the profile's.",
        found.profile, found.repeats
    )
}

fn table(view: &View, found: &Screening) -> Table {
    let measures: Vec<&str> = found
        .settings
        .first()
        .map(|setting| setting.screened.iter().map(|effect| effect.measure.as_str()).collect())
        .unwrap_or_default();
    let mut columns = vec![words("Setting")];
    columns.extend(measures.iter().map(|measure| measured((*measure).to_owned())));
    columns.extend([words("Outcome"), words("Claim").dispensable(1)]);
    let is_struck = view.answer_struck();
    let mut rows: Vec<Row> = found
        .settings
        .iter()
        .map(|setting| {
            let mut cells: Vec<Cell> = setting.effects().iter().map(effect).collect();
            cells.push(outcome(setting).into());
            cells.push(Cell::figure(setting.claim.clone()));
            Row { struck: is_struck, ..Row::new(head(setting), cells) }
        })
        .collect();
    if !found.together.is_empty() {
        let mut cells: Vec<Cell> = found.together.iter().map(effect).collect();
        cells.push("measured together".into());
        cells.push(Cell::figure(None));
        let head = Cell::from("all that looked better").beside(Some(found.together_of.join(", ")));
        rows.push(Row { struck: is_struck, ..Row::new(head, cells) });
    }
    let mut below: Vec<String> = found.settings.iter().flat_map(failures).collect();
    if let Some(why) = view.report.result.missing.get("screening.together") {
        below.push(format!("{} together: not known, because {why}", found.together_of.join(", ")));
    }
    Table { below, ..Table::new(columns, rows) }
}

fn head(setting: &SettingEffect) -> Cell {
    let found = setting.found.as_ref().map(|found| format!("found {found}"));
    Cell::from(format!("{} = {}", setting.key, setting.value)).beside(found)
}

fn effect(effect: &MeasureEffect) -> Cell {
    let Some(change) = effect.change else { return Cell::figure(None) };
    let interval = change
        .low
        .zip(change.high)
        .map(|(low, high)| format!("[{}, {}]", hundredths(100.0 * low), hundredths(100.0 * high)));
    let text = hundredths(100.0 * change.value);
    let sign = if change.value > 0.0 && text != "0.00" { "+" } else { "" };
    Cell::from(format!("{sign}{text} %")).beside(interval)
}

/// `no effect above 1.2 % (throughput), 8.1 % (p99)`.
fn outcome(setting: &SettingEffect) -> String {
    match setting.outcome {
        SettingOutcome::Pays => "pays".to_owned(),
        SettingOutcome::Harms => "harms".to_owned(),
        SettingOutcome::CannotTell => "cannot tell".to_owned(),
        SettingOutcome::NoEffect => {
            let above = |effect: &MeasureEffect| {
                Some(format!("{} ({})", percent(effect.none_above()?), effect.measure))
            };
            let above: Vec<String> = setting.effects().iter().filter_map(above).collect();
            format!("no effect above {}", above.join(", "))
        }
    }
}

/// `vm.x = 1: errors of web 2 % with it, 0 % without`.
fn failures(setting: &SettingEffect) -> Vec<String> {
    let of = |failure: &FailureComparison| {
        let (with, without) = (percent(failure.b), percent(failure.a));
        format!("{} = {}: {} {with} with it, {without} without", setting.key, setting.value, failure.name)
    };
    setting.failures.iter().map(of).collect()
}

/// `Not screened: thp, ksm (this host has that value already); smt (the profile gives it no value today).`
fn left_out(found: &Screening) -> Option<String> {
    let reasons = LeftOut::by_reason(&found.left_out);
    let each: Vec<String> =
        reasons.into_iter().map(|(why, keys)| format!("{} ({why})", keys.join(", "))).collect();
    (!each.is_empty()).then(|| format!("Not screened: {}.", each.join("; ")))
}
