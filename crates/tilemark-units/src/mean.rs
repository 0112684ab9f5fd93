//! The arithmetic mean.

/// The arithmetic mean. `None` of nothing.
pub fn mean(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    let mut values = values.into_iter();
    let first = values.next()?;
    // Summing distances from the first value keeps the digits of values that share a large offset.
    let (sum, count) = values.fold((0.0, 1.0), |(sum, count), value| (sum + (value - first), count + 1.0));
    Some(first + sum / count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mean_of_values_with_a_large_offset_keeps_its_digits_and_of_nothing_is_none() {
        assert_eq!(mean([2.0, 4.0, 6.0]), Some(4.0));
        assert_eq!(mean([1e15 + 1.0, 1e15 + 2.0, 1e15 + 3.0]), Some(1e15 + 2.0));
        assert_eq!(mean([7.0]), Some(7.0));
        assert_eq!(mean([]), None);
    }
}
