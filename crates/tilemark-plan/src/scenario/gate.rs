//! What users tolerate.

use crate::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::{Fraction, Span};

/// What users tolerate: the limits that a point must keep to hold.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// 99 of 100 requests of every load must be answered within this.
    pub p99: Span,
    /// At most this part of the requests may fail.
    pub errors: Fraction,
    /// At least this part of the demand must be served (open loop).
    pub achieved: Fraction,
    /// The requests of every load must be answered within this on average, and so must those of each guest that is slower than the others by more than
    /// chance. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<Span>,
    /// At least this part of the pages of `load.sessions` must come within the time in which a page is good, of each guest. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub good: Option<Fraction>,
    /// At least this part of the pages of `load.sessions` must come within the time in which a page is tolerable, of each guest. Default: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tolerable: Option<Fraction>,
}

impl Default for Gate {
    fn default() -> Self {
        let fraction = |part| Fraction::new(part).expect("a literal between 0 and 1");
        Self {
            p99: Span::from_milliseconds(50),
            errors: fraction(0.001),
            achieved: fraction(0.99),
            mean: None,
            good: None,
            tolerable: None,
        }
    }
}
