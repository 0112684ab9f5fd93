//! Which guests differ from the others by more than chance.
//!
//! The slowest of many guests is slow by chance too: the maximum of 34 figures with 20 % noise lies 1.5 times too high. So a guest
//! is judged by itself only where it differs, and all others are judged together.

use crate::moments::{mean, sample_deviation};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Probability that any guest of a point is taken for slower than the others where all are alike.
const FALSE_ALARM: f64 = 0.005;

/// Guests from which on one repeat alone can show that one of them differs.
const GUESTS_OF_ONE_REPEAT_MIN: usize = 5;

/// Least deviation of a repeat, on logarithms: below, histograms themselves are not exact.
const DEVIATION_MIN: f64 = 0.01;

/// The guests that are slower than the others by more than chance allows, by index. `logs[guest][repeat]` is the logarithm of a
/// guest's p99 in a repeat; `None` where it had too few requests.
///
/// Level of a guest plus level of a repeat plus noise (two-way analysis of variance without interaction); the noise is what is left.
/// The level of a guest is tested by Student's t, one-sided, at [`FALSE_ALARM`] divided by the number of guests (Bonferroni).
pub(crate) fn slower_than_others(logs: &[Vec<Option<f64>>]) -> Vec<usize> {
    let repeats = logs.first().map_or(0, Vec::len);
    let whole: Vec<usize> =
        (0..repeats).filter(|repeat| logs.iter().all(|guest| guest[*repeat].is_some())).collect();
    let table: Vec<Vec<f64>> =
        logs.iter().map(|guest| whole.iter().filter_map(|repeat| guest[*repeat]).collect()).collect();
    match (table.len(), whole.len()) {
        (guests, 1) if guests >= GUESTS_OF_ONE_REPEAT_MIN => by_the_others(&table),
        (guests, repeats) if guests >= 2 && repeats >= 2 => by_levels(&table),
        _ => Vec::new(),
    }
}

fn by_levels(table: &[Vec<f64>]) -> Vec<usize> {
    let (guests, repeats) = (table.len() as f64, table[0].len() as f64);
    let of_repeat: Vec<f64> =
        (0..table[0].len()).map(|repeat| average(table.iter().map(|guest| guest[repeat]))).collect();
    let above: Vec<Vec<f64>> = table
        .iter()
        .map(|guest| guest.iter().zip(&of_repeat).map(|(value, level)| value - level).collect())
        .collect();
    let levels: Vec<f64> = above.iter().map(|guest| average(guest.iter().copied())).collect();
    let squares: f64 = above
        .iter()
        .zip(&levels)
        .flat_map(|(guest, level)| guest.iter().map(move |value| (value - level).powi(2)))
        .sum();
    let degrees = (guests - 1.0) * (repeats - 1.0);
    let deviation = (squares / degrees).sqrt().max(DEVIATION_MIN);
    let error = deviation * ((guests - 1.0) / (guests * repeats)).sqrt();
    let limit = one_sided(degrees, guests);
    (0..table.len()).filter(|guest| levels[*guest] / error > limit).collect()
}

/// One repeat: each guest against the scatter of all others.
fn by_the_others(table: &[Vec<f64>]) -> Vec<usize> {
    let values: Vec<f64> = table.iter().map(|guest| guest[0]).collect();
    let limit = one_sided(values.len() as f64 - 2.0, values.len() as f64);
    let differs = |guest: &usize| {
        let others: Vec<f64> =
            values.iter().enumerate().filter(|(other, _)| other != guest).map(|(_, value)| *value).collect();
        let deviation = sample_deviation(&others).unwrap_or(0.0).max(DEVIATION_MIN);
        let error = deviation * (1.0 + 1.0 / others.len() as f64).sqrt();
        (values[*guest] - average(others.iter().copied())) / error > limit
    };
    (0..values.len()).filter(differs).collect()
}

fn average(values: impl Iterator<Item = f64>) -> f64 {
    mean(&values.collect::<Vec<f64>>()).unwrap_or(0.0)
}

fn one_sided(degrees: f64, guests: f64) -> f64 {
    let student =
        StudentsT::new(0.0, 1.0, degrees).expect("at least two guests and two repeats, or five guests");
    student.inverse_cdf(1.0 - FALSE_ALARM / guests)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal};

    fn table(guests: usize, repeats: usize, noise: f64, seed: u64) -> Vec<Vec<Option<f64>>> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let noise = Normal::new(0.0, noise).unwrap();
        (0..guests).map(|_| (0..repeats).map(|_| Some(noise.sample(&mut random))).collect()).collect()
    }

    #[test]
    fn of_guests_that_are_alike_hardly_ever_one_is_called_slower() {
        for (guests, repeats) in [(34, 1), (34, 3), (8, 5), (120, 5)] {
            let called =
                (0..1_000).filter(|seed| !slower_than_others(&table(guests, repeats, 0.2, *seed)).is_empty());
            let called = called.count();
            assert!(called <= 12, "{guests} guests, {repeats} repeats: {called} of 1000");
        }
    }

    #[test]
    fn a_guest_that_is_slower_by_half_is_found_among_34() {
        let found = (0..200).filter(|seed| {
            let mut table = table(34, 5, 0.2, *seed);
            table[7].iter_mut().for_each(|value| *value = value.map(|value| value + 1.5_f64.ln()));
            slower_than_others(&table) == [7]
        });
        let found = found.count();
        assert!(found >= 150, "{found} of 200");
    }

    #[test]
    fn one_repeat_shows_one_guest_that_is_twenty_times_slower() {
        let mut table = table(8, 1, 0.2, 3);
        table[2][0] = Some(3.0);
        assert_eq!(slower_than_others(&table), [2]);
        assert_eq!(slower_than_others(&table[..4]), Vec::<usize>::new(), "four guests are too few");
    }

    #[test]
    fn a_repeat_in_which_all_were_slow_makes_no_guest_slow() {
        let mut table = table(8, 3, 0.01, 5);
        table.iter_mut().for_each(|guest| guest[1] = guest[1].map(|value| value + 2.0));
        assert_eq!(slower_than_others(&table), Vec::<usize>::new());
    }
}
