//! When a percentile may be printed.

use crate::figure::Missing;

/// Requests that must lie beyond a percentile. With 20 its own relative error is about 1 / sqrt(20), 22 % in
/// rank; with fewer, a "p99.9" is the largest value by another name.
pub const REQUESTS_BEYOND_MIN: u64 = 20;

/// Requests of which p99 may be printed: 20 of them lie beyond it.
pub const P99_REQUESTS_MIN: u64 = 2_000;

/// Requests to plan for where each repeat needs a p99 of its own: a tenth more, because their number differs from repeat to repeat.
pub const P99_REQUESTS_PLANNED: u64 = P99_REQUESTS_MIN + P99_REQUESTS_MIN / 10;

/// Says whether `fraction` (0.99 for p99) may be printed of so many requests, or why not.
pub fn percentile_admissible(requests: u64, fraction: f64) -> Result<(), Missing> {
    // 1 - 0.999 is just above 0.001; a millionth of a request decides nothing.
    let beyond = (requests as f64 * (1.0 - fraction) + 1e-6).floor() as u64;
    if beyond >= REQUESTS_BEYOND_MIN {
        return Ok(());
    }
    Err(Missing::because(format!(
        "{beyond} of the {REQUESTS_BEYOND_MIN} requests that {} needs beyond it",
        percentile_name(fraction)
    )))
}

/// `p99`, `p99.9`: how people write it.
pub fn percentile_name(fraction: f64) -> String {
    format!("p{}", (fraction * 1e6).round() / 1e4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_needs_twenty_requests_beyond_it() {
        for (requests, fraction, admissible) in [
            (P99_REQUESTS_MIN, 0.99, true),
            (P99_REQUESTS_MIN - 1, 0.99, false),
            (20_000, 0.999, true),
            (19_999, 0.999, false),
            (40, 0.5, true),
            (39, 0.5, false),
            (0, 0.5, false),
        ] {
            assert_eq!(
                percentile_admissible(requests, fraction).is_ok(),
                admissible,
                "{requests} {fraction}"
            );
        }
    }

    #[test]
    fn the_reason_counts_what_there_is() {
        let reason = percentile_admissible(5_000, 0.999).unwrap_err().reason;
        assert_eq!(reason, "5 of the 20 requests that p99.9 needs beyond it");
    }
}
