//! The value in the middle.

/// The value in the middle; of an even count, the middle of the two that are there. `None` of nothing.
pub fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let low = values.get(values.len().saturating_sub(1) / 2)?;
    let high = values.get(values.len() / 2)?;
    Some(low.midpoint(*high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_of_an_even_count_lies_between_and_of_nothing_is_none() {
        assert_eq!(median(vec![4.0, 1.0, 3.0]), Some(3.0));
        assert_eq!(median(vec![4.0, 1.0]), Some(2.5));
        assert_eq!(median(vec![7.0]), Some(7.0));
        assert_eq!(median(Vec::new()), None);
    }
}
