//! What a search for the largest count will measure, if the boundary lies where it is guessed. The search itself follows what it
//! finds: `tilemark-statistics`, `judge/search.rs`.

/// Counts that an answer may leave undecided between what holds and what breaks, and still be one to act on: one tile more or less,
/// or 10 % of the tiles more or less.
pub fn width_allowed(held: u32, broke: u32) -> u32 {
    let tenth_of_the_middle = (held + broke.saturating_sub(1)) / 20;
    2 * tenth_of_the_middle.max(1)
}

/// Repeats beyond the first of each count, for each repeat that the plan wants of a point: after so many a search ends unsure. A
/// boundary that is flat beside its noise would take hundreds.
pub const FURTHER_MAX: u32 = 8;

/// What a search knows of the boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sides {
    /// The largest count that held; 0 where none did.
    pub held: u32,
    /// The smallest that broke.
    pub broke: Option<u32>,
}

/// Counts that a search still tries once each, `next` first, where `guess` tiles hold and no more; and what it knows then.
pub fn expected_tries(mut sides: Sides, next: u32, limit: u32, guess: u32) -> (Vec<u32>, Sides) {
    let mut counts = Vec::new();
    let mut next = Some(next);
    while let Some(tiles) = next {
        counts.push(tiles);
        if tiles <= guess {
            sides.held = sides.held.max(tiles);
        } else {
            sides.broke = Some(tiles);
        }
        let held = sides.held;
        next = match sides.broke {
            None if held < limit => Some(held.saturating_mul(2).min(limit)),
            Some(broke) if held > 0 && broke - held > 1 + width_allowed(held, broke) / 4 => {
                Some(held + (broke - held) / 2)
            }
            Some(broke) if held == 0 && broke > 1 => Some(broke / 2),
            None | Some(_) => None,
        };
    }
    (counts, sides)
}

/// Every count that a search measures, in order, where `guess` tiles hold and no more: doubling and bisecting with one repeat each,
/// then `repeats` in all at either end.
pub fn expected_counts(from: u32, limit: u32, guess: u32, repeats: u32) -> Vec<u32> {
    let nothing = Sides { held: 0, broke: None };
    let (mut counts, Sides { held, broke }) =
        expected_tries(nothing, from.clamp(1, limit.max(1)), limit, guess);
    let ends = [held].into_iter().filter(|held| *held > 0).chain(broke);
    counts.extend(ends.flat_map(|tiles| std::iter::repeat_n(tiles, repeats.saturating_sub(1) as usize)));
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_search_is_expected_to_double_bisect_and_measure_both_ends() {
        assert_eq!(expected_counts(1, 1024, 17, 3), [1, 2, 4, 8, 16, 32, 24, 20, 18, 17, 17, 17, 18, 18]);
        assert_eq!(expected_counts(1, 8, 100, 3), [1, 2, 4, 8, 8, 8]);
        assert_eq!(expected_counts(8, 64, 0, 2), [8, 4, 2, 1, 1]);
    }

    #[test]
    fn one_tile_or_a_tenth_of_the_tiles_may_stay_undecided_on_either_side() {
        // 16 holds and 19 breaks: 17 and 18 are open. 60 tiles: 54 to 66.
        assert_eq!(width_allowed(16, 19), 2);
        assert_eq!(width_allowed(5, 8), 2);
        assert_eq!(width_allowed(54, 67), 12);
    }
}
