//! Mean and deviation, written so that large offsets do not eat the digits.

/// Arithmetic mean. `None` of nothing.
pub fn mean(values: &[f64]) -> Option<f64> {
    tilemark_units::mean(values.iter().copied())
}

/// Sample variance (n - 1 in the divisor). `None` below two values: one value says nothing about scatter.
pub fn sample_variance(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let centre = mean(values)?;
    let squares: f64 = values.iter().map(|value| (value - centre).powi(2)).sum();
    Some(squares / (values.len() - 1) as f64)
}

/// Sample deviation (n - 1 in the divisor). `None` below two values.
pub fn sample_deviation(values: &[f64]) -> Option<f64> {
    sample_variance(values).map(f64::sqrt)
}

/// Geometric mean, through logarithms so that no product overflows. `None` of nothing, or where a value is
/// not positive.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    mean(&logarithms(values)?).map(f64::exp)
}

/// Natural logarithms, or `None` where a value has none.
pub(crate) fn logarithms(values: &[f64]) -> Option<Vec<f64>> {
    values.iter().map(|value| (*value > 0.0 && value.is_finite()).then(|| value.ln())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn assert_close(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-9 * wanted.abs().max(1.0), "found {found}, wanted {wanted}");
    }

    #[test]
    fn mean_and_deviation_agree_with_a_worked_example() {
        // 2, 4, 4, 4, 5, 5, 7, 9: mean 5, sum of squares 32, n - 1 = 7.
        let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        assert_close(mean(&values).unwrap(), 5.0);
        assert_close(sample_deviation(&values).unwrap(), (32.0_f64 / 7.0).sqrt());
    }

    #[test]
    fn a_large_offset_costs_no_precision() {
        let values: Vec<f64> = [1.0, 2.0, 3.0, 4.0].iter().map(|value| value + 1e12).collect();
        assert_close(mean(&values).unwrap() - 1e12, 2.5);
        assert_close(sample_variance(&values).unwrap(), 5.0 / 3.0);
    }

    #[test]
    fn the_mean_agrees_with_the_naive_sum() {
        let values: Vec<f64> = (1..200).map(|i| f64::from(i * i % 37) + 0.25).collect();
        assert_close(mean(&values).unwrap(), values.iter().sum::<f64>() / values.len() as f64);
    }

    #[test]
    fn nothing_has_no_mean_and_one_value_no_deviation() {
        assert_eq!(mean(&[]), None);
        assert_eq!(sample_deviation(&[3.0]), None);
    }

    #[test]
    fn the_geometric_mean_refuses_what_has_no_logarithm() {
        assert_close(geometric_mean(&[1.0, 10.0, 100.0]).unwrap(), 10.0);
        assert_eq!(geometric_mean(&[1.0, 0.0]), None);
        assert_eq!(geometric_mean(&[1.0, -4.0]), None);
    }
}
