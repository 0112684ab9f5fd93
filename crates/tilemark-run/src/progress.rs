//! How far a job is, and who is shown it.

use serde::{Deserialize, Serialize};

/// How far a job is.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// What is going on, in a few words.
    pub doing: String,
    /// Seconds of work that are behind.
    pub seconds_done: f64,
    /// Seconds of work in all, as expected now.
    pub seconds_expected: f64,
    /// Seconds that it can take in all, where that is known and may be more.
    pub seconds_at_most: Option<f64>,
}

/// Who is shown how a job goes.
pub trait Listener {
    /// How far it is.
    fn progress(&mut self, progress: &Progress);
    /// Something worth showing, once.
    fn note(&mut self, text: &str);
}
