//! Fisher's exact test: do two shares of counted things differ by more than chance?

use statrs::distribution::{Discrete, Hypergeometric};

/// Two-sided p of `a` of `of_a` against `b` of `of_b` (Fisher 1935): the probability, with all counts given, of every table that
/// is at most as likely as this one. 1 where a side has nothing.
pub fn fisher_exact(a: u64, of_a: u64, b: u64, of_b: u64) -> f64 {
    let cases = a + b;
    let Ok(tables) = Hypergeometric::new(of_a + of_b, cases, of_a) else { return 1.0 };
    let seen = tables.pmf(a);
    let possible = cases.saturating_sub(of_b)..=cases.min(of_a);
    // Tables that are equally likely on paper differ by rounding.
    let as_extreme = possible.map(|count| tables.pmf(count)).filter(|chance| *chance <= seen * (1.0 + 1e-9));
    as_extreme.sum::<f64>().min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lady_tasting_tea_and_other_published_tables_are_reproduced() {
        // Fisher, The Design of Experiments (1935), section 5: 3 of 4 against 1 of 4 gives 34/70. The others by R's
        // fisher.test: 1 of 10 against 11 of 14, 5 of 12 against none of 12.
        for (a, of_a, b, of_b, wanted) in [
            (3, 4, 1, 4, 34.0 / 70.0),
            (1, 10, 11, 14, 0.002_759_456),
            (5, 12, 0, 12, 0.037_267_08),
            (0, 12, 0, 12, 1.0),
            (0, 0, 3, 5, 1.0),
        ] {
            let found = fisher_exact(a, of_a, b, of_b);
            assert!((found - wanted).abs() < 1e-8, "{a}/{of_a} {b}/{of_b}: {found} {wanted}");
        }
    }
}
