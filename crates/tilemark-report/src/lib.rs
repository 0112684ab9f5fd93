//! From a record to what a person reads: one HTML file, the terminal, CSV.
//!
//! Everything here is a pure function of a [`Report`]: no file, clock, host or network is touched, so any old
//! record can be drawn again. It is not the judge: verdict, answer and intervals come with the record, and
//! nothing here averages, drops or invents a figure.
//!
//! ```text
//! Report -> view (what belongs on the screen, in which order) -> html | terminal
//!        -> csv                                     redact: Report -> Report without who measured
//! ComparedRuns | Trend | FleetVerdict | FleetDrift (several runs) -> html | terminal | Markdown | JUnit XML
//! ```
//!
//! Host and guest names and error texts are hostile: they reach HTML only through [`html`]'s own writer,
//! which escapes, the terminal without control characters, and CSV without leading formula signs.

mod csv;
mod echarts;
mod html;
mod input;
mod number;
mod published;
mod redact;
mod several;
mod terminal;
mod view;
mod words;

pub use csv::{csv, csv_with_tags};
pub use echarts::{ECHARTS_SHA256, ECHARTS_VERSION};
pub use html::html;
pub use input::Report;
pub use redact::{redact, redact_drift, redact_fleet};
pub use several::{
    Against, ComparedRuns, ComparedSide, DriftFailure, DriftHost, DriftOfMeasure, DriftShift, End,
    FLEET_SCHEMA, FactChange, FleetCapacity, FleetConfirmation, FleetDrift, FleetGroup, FleetHost,
    FleetMeasure, FleetOutcome, FleetVerdict, GroupCapacity, HostDifference, LeftOutRun, TREND_SCHEMA, Trend,
    TrendChange, TrendMeasure, TrendRun, TrendSeries, UnusualFact,
};
pub use terminal::{Colour, Style, terminal};
