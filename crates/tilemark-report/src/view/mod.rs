//! What belongs on the screen and in which order, before anybody decides how it looks. HTML, terminal and
//! charts are drawn from here, so that they cannot disagree.

mod charts;
mod clients;
mod groups;
mod identity;
mod interference;
mod jobs;
mod messaging;
mod of_point;
mod outcome;
mod pages;
mod power;
mod rate_column;
mod roles;
mod rows;
mod scaling;
mod screening;
mod section;
mod settings;
mod store;
mod surge;
mod tables;
mod timeline;
mod trust;
mod uses;

pub(crate) use charts::{Charts, ForestRow, SheetCharts, charts, forest_rows};
pub(crate) use groups::{Axis, Group, Kind, View, backend_words, side_words};
pub(crate) use identity::{Restored, changed_lines, facts, left_lines, restored};
pub(crate) use outcome::Outcome;
pub(crate) use rate_column::RateColumn;
#[cfg(test)]
pub(crate) use rows::columns;
pub(crate) use rows::{limit_word, load_p99, measure_words, p99, percent_or_none};
pub(crate) use section::{
    Beside, Cell, Chart, Column, GroupHead, Holds, Level, Mark, Part, Place, Row, RowGroup, Section, Series,
    SeriesPoint, Stroke, Table, given, group_named, measured, words,
};
pub(crate) use tables::{against_first, failures, failures_section, measures, published};
pub(crate) use trust::{
    Chip, REPEATS, SMALLEST_CHANGE, SentencePart, capacity, chips, cost, gate_words, is_of_foreign_load,
    older_rule, proof, sentence, sentence_parts, trust,
};

/// Builds a part of the report, where the record has it.
type Build = fn(&View) -> Option<Section>;

/// The parts with a section of their own, in the order of the page, with the place of each. A workload that needs one adds a line.
const SECTIONS: [(Place, Build); 19] = [
    (Place::First, tables::sides_differ),
    (Place::First, tables::sides_failed),
    (Place::First, tables::sides_measured),
    (Place::Steps, rows::steps),
    (Place::BelowSteps, screening::screening),
    (Place::BelowSteps, interference::interference),
    (Place::BelowSteps, surge::surge),
    (Place::BelowSteps, roles::roles),
    (Place::BelowSteps, clients::clients),
    (Place::BelowSteps, pages::pages),
    (Place::BelowSteps, uses::uses),
    (Place::BelowSteps, store::store),
    (Place::BelowSteps, jobs::jobs),
    (Place::BelowSteps, power::power),
    (Place::BelowSteps, settings::settings),
    (Place::BelowSteps, messaging::messaging),
    (Place::BelowCharts, scaling::scaling),
    (Place::BelowChartsOfPage, tables::fairness),
    (Place::Last, tables::loads),
];

/// All sections of a report.
pub(crate) fn sections(view: &View) -> Vec<Section> {
    let placed = |(place, build): &(Place, Build)| Some(Section { place: *place, ..build(view)? });
    SECTIONS.iter().filter_map(placed).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_are_listed_in_the_order_in_which_they_are_shown() {
        assert!(SECTIONS.is_sorted_by_key(|(place, _)| *place));
    }
}
