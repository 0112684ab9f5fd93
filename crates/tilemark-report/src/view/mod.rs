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

pub(crate) use charts::{Charts, ForestRow, SheetCharts, charts, forest_rows, shares_shown};
pub(crate) use groups::{Axis, Group, Kind, View, backend_words, side_words};
pub(crate) use identity::{Restored, changed_lines, facts, left_lines, restored};
pub(crate) use outcome::Outcome;
pub(crate) use rate_column::RateColumn;
#[cfg(test)]
pub(crate) use rows::columns;
pub(crate) use rows::{limit_word, load_p99, measure_words, p99, percent_or_none, steps};
pub(crate) use scaling::scaling;
pub(crate) use section::{
    Cell, Chart, Column, GroupHead, Holds, Level, Mark, Part, Row, RowGroup, Section, Series, SeriesPoint,
    Stroke, Table, given, group_named, measured, words,
};
pub(crate) use tables::{
    against_first, failures, failures_section, fairness, loads, measures, published, sides,
};
pub(crate) use trust::{
    Chip, FOREIGN, REPEATS, SMALLEST_CHANGE, SentencePart, capacity, chips, cost, gate_words, older_rule,
    proof, sentence, sentence_parts, trust,
};

/// Builds a workload's part of the report, where the record has it.
type Build = fn(&View) -> Option<Section>;

/// The parts with a section of their own, in the order of the page. A workload that needs one adds a line.
const SECTIONS: [Build; 12] = [
    screening::screening,
    interference::interference,
    surge::surge,
    roles::roles,
    clients::clients,
    pages::pages,
    uses::uses,
    store::store,
    jobs::jobs,
    power::power,
    settings::settings,
    messaging::messaging,
];

/// All sections of a report.
pub(crate) fn sections(view: &View) -> Vec<Section> {
    SECTIONS.iter().filter_map(|build| build(view)).collect()
}
