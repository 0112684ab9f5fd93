//! Holm's correction: many questions asked of one run must not find something by their number alone.

/// The p of each question after Holm's correction (Holm 1979), in the order given: the smallest is multiplied
/// by their number, the next by one less, and none may come out below one before it.
pub fn holm(p_values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p_values.len()).collect();
    order.sort_by(|&left, &right| p_values[left].total_cmp(&p_values[right]));
    let mut corrected = vec![1.0; p_values.len()];
    let mut largest: f64 = 0.0;
    for (rank, &index) in order.iter().enumerate() {
        largest = largest.max((p_values.len() - rank) as f64 * p_values[index]).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_example_is_reproduced() {
        // 0.01, 0.04, 0.03, 0.005: R's p.adjust(method = "holm") gives 0.03, 0.06, 0.06, 0.02.
        let found = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (found, wanted) in found.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((found - wanted).abs() < 1e-12, "{found} {wanted}");
        }
    }

    #[test]
    fn one_question_is_not_corrected_and_no_p_leaves_one() {
        assert_eq!(holm(&[0.3]), [0.3]);
        assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
