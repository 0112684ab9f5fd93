//! What a sheet shows, before anybody decides how it looks.

use crate::view::{Chart, Chip, ForestRow, Section};

/// What is shown of several runs, in the order of the screen.
pub(crate) struct Sheet {
    /// Its head.
    pub(crate) title: String,
    /// Who, when, where, how many: before anything that was found.
    pub(crate) lead: Vec<Section>,
    /// What was found.
    pub(crate) findings: Vec<Finding>,
    /// Changes of measures, for the page's chart of them.
    pub(crate) forest: Vec<ForestRow>,
    /// Lines over runs.
    pub(crate) charts: Vec<Chart>,
    /// All else.
    pub(crate) sections: Vec<Section>,
}

/// Something that was found.
pub(crate) struct Finding {
    /// Whether it can be trusted.
    pub(crate) chip: Option<Chip>,
    /// What it is about; empty where there is only one.
    pub(crate) head: String,
    /// It, in a sentence or two.
    pub(crate) text: String,
    /// Why it is not more.
    pub(crate) reasons: Vec<String>,
}
