//! Settings of the host as they were read back while repeats were measured, side by side.

use super::{Cell, Part, Row, Section, Table, View, given, measured, side_words, words};
use std::collections::{BTreeMap, BTreeSet};
use tilemark_plan::plan::Point;
use tilemark_record::summary::SettingRead;

const ABOUT: &str = "Read back in every repeat while it was measured. A column has all values that were read; a value that a side does not set is the \
    host's own. Settings of the run network are in force where its bridge and the load are; a guest has a network of its own.";

/// Nothing where no point sets anything.
pub(crate) fn settings(view: &View) -> Option<Section> {
    let mut read: BTreeMap<(&str, &str, &str), BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    let mut labels = Vec::new();
    for repeat in &view.report.repeats {
        let Some(point) = view.report.plan.points.get(repeat.point) else { continue };
        for setting in &repeat.settings {
            let label = label(point, setting);
            if !labels.contains(&label) {
                labels.push(label.clone());
            }
            let of_setting = read.entry((&setting.key, &setting.what, &setting.place)).or_default();
            let value = setting.value.clone().unwrap_or_else(|| "not readable".to_owned());
            of_setting.entry(label).or_default().insert(value);
        }
    }
    if read.is_empty() {
        return None;
    }
    labels.sort();
    let mut columns = vec![given("Setting"), words("In force in")];
    columns.extend(labels.iter().map(|label| measured(label.clone())));
    let row = |((_, what, place), values): (&(&str, &str, &str), &BTreeMap<String, BTreeSet<String>>)| {
        let value = |label: &String| {
            let values =
                values.get(label).map(|values| values.iter().cloned().collect::<Vec<_>>().join(", "));
            Cell::figure(values)
        };
        let place = place_words(place);
        Row::new((*what).to_owned(), std::iter::once(place.into()).chain(labels.iter().map(value)).collect())
    };
    let rows = read.iter().map(row).collect();
    let parts = vec![Part::Text(ABOUT.to_owned()), Part::Table(Table::new(columns, rows))];
    Some(Section::new("settings", "Settings of the host", parts))
}

/// The column of a value: its side and what varies. A screening has too many points for a column each: it has those with the setting and
/// those without it.
fn label(point: &Point, setting: &SettingRead) -> String {
    if point.screened.is_some() {
        return if setting.set.is_some() { "On" } else { "Off" }.to_owned();
    }
    let side = point.side.map(|side| side_words(side).to_owned());
    let values = point.vary.iter().map(|(name, value)| format!("{name} {value}"));
    let label: Vec<String> = side.into_iter().chain(values).collect();
    if label.is_empty() { "Value".to_owned() } else { label.join(", ") }
}

fn place_words(place: &str) -> &'static str {
    match place {
        "run-network" => "the run network",
        "process" => "the run's processes",
        _ => "the host",
    }
}
