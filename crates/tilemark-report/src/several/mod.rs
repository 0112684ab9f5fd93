//! Several runs on one sheet: compared with the first of them, or one after the other over time.
//!
//! ```text
//! ComparedRuns | Trend | FleetVerdict | FleetDrift -> Sheet (what is shown, in which order) -> terminal | html | Markdown
//! ComparedRuns -> JUnit XML
//! ```

mod capacity;
mod compared;
mod fleet;
mod junit;
mod markdown;
mod sheet;
mod trend;

pub use compared::{Against, ComparedRuns, ComparedSide};
pub use fleet::{
    DriftFailure, DriftHost, DriftOfMeasure, DriftShift, End, FLEET_SCHEMA, FactChange, FleetCapacity,
    FleetConfirmation, FleetDrift, FleetGroup, FleetHost, FleetMeasure, FleetOutcome, FleetVerdict,
    GroupCapacity, HostDifference, UnusualFact,
};
pub(crate) use sheet::{Finding, Sheet};
pub use trend::{LeftOutRun, TREND_SCHEMA, Trend, TrendChange, TrendMeasure, TrendRun, TrendSeries};

use crate::{Style, html::sheet_page, terminal::sheet_text};

impl ComparedRuns {
    /// For a terminal. Every line fits the width, and nothing in it is obeyed by one.
    pub fn terminal(&self, style: Style) -> String {
        sheet_text(compared::sheet(self), style)
    }

    /// As one HTML file that needs no network.
    pub fn html(&self) -> String {
        sheet_page(&compared::sheet(self))
    }

    /// As Markdown with GitHub's tables.
    pub fn markdown(&self) -> String {
        markdown::markdown(&compared::sheet(self))
    }

    /// As JUnit XML: a test suite for each side but the first, a test case for its verdict, each gate, each failure and each measure. A case
    /// fails where the judge calls the side worse, and is skipped where it cannot tell.
    pub fn junit(&self) -> String {
        junit::junit(self)
    }
}

impl FleetVerdict {
    /// For a terminal. Every line fits the width, and nothing in it is obeyed by one. Its charts are on the page only.
    pub fn terminal(&self, style: Style) -> String {
        sheet_text(Sheet { charts: Vec::new(), ..fleet::sheet::sheet(self) }, style)
    }

    /// As one HTML file that needs no network.
    pub fn html(&self) -> String {
        sheet_page(&fleet::sheet::sheet(self))
    }

    /// As Markdown with GitHub's tables.
    pub fn markdown(&self) -> String {
        markdown::markdown(&fleet::sheet::sheet(self))
    }
}

impl FleetDrift {
    /// For a terminal. Every line fits the width, and nothing in it is obeyed by one.
    pub fn terminal(&self, style: Style) -> String {
        sheet_text(fleet::drift::sheet(self), style)
    }

    /// As one HTML file that needs no network.
    pub fn html(&self) -> String {
        sheet_page(&fleet::drift::sheet(self))
    }

    /// As Markdown with GitHub's tables.
    pub fn markdown(&self) -> String {
        markdown::markdown(&fleet::drift::sheet(self))
    }
}

impl Trend {
    /// For a terminal. Every line fits the width, and nothing in it is obeyed by one.
    pub fn terminal(&self, style: Style) -> String {
        sheet_text(trend::sheet(self), style)
    }

    /// As one HTML file that needs no network.
    pub fn html(&self) -> String {
        sheet_page(&trend::sheet(self))
    }
}
