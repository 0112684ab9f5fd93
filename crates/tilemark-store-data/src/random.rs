//! Random numbers that can be reached at any block without drawing those before it.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

/// What a stream of draws is for. The number is part of the data's format: changing one changes every byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    Customers = 1,
    Orders = 2,
    Products = 3,
    Inventory = 4,
}

/// The draws of one block of rows.
///
/// `ChaCha8` is counter-based: the seed is the key, purpose and block number are the stream. Two blocks therefore never
/// share a draw, and the same block gives the same draws on every machine and for any number of threads.
pub(crate) struct Stream(ChaCha8Rng);

impl Stream {
    pub(crate) fn new(seed: u64, purpose: Purpose, block: u64) -> Self {
        let mut key = *b"0seed000 tilemark store data v1 ";
        key[..8].copy_from_slice(&seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(((purpose as u64) << 56) | block);
        Self(generator)
    }

    /// One draw of 64 bits, to be divided among several small ranges.
    pub(crate) fn draw(&mut self) -> Draw {
        Draw(self.0.next_u64())
    }

    /// Uniform below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.draw().below(limit)
    }
}

/// 64 random bits from which several uniform numbers are taken, as digits are taken from a fraction.
///
/// Each `below(n)` uses up log2(n) bits. With ranges whose product is P the probabilities are off by at most P / 2^64
/// relatively; callers keep P under 10^16, so the error stays under 0.1 % in the worst case and far below it usually.
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        let wide = u128::from(self.0) * u128::from(limit);
        self.0 = wide as u64;
        (wide >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_differ_by_seed_purpose_and_block_and_repeat_exactly() {
        let first = |seed, purpose, block| Stream::new(seed, purpose, block).below(u64::MAX);
        let base = first(7, Purpose::Orders, 3);
        assert_eq!(base, first(7, Purpose::Orders, 3));
        assert_ne!(base, first(8, Purpose::Orders, 3));
        assert_ne!(base, first(7, Purpose::Customers, 3));
        assert_ne!(base, first(7, Purpose::Orders, 4));
    }

    #[test]
    fn a_draw_can_be_divided_and_each_part_is_even() {
        let mut stream = Stream::new(1, Purpose::Products, 0);
        let mut counts = [[0_u32; 26]; 10];
        for _ in 0..26_000 {
            let mut draw = stream.draw();
            for position in &mut counts {
                position[draw.below(26) as usize] += 1;
            }
        }
        // 1,000 expected in each; five standard deviations are 157.
        assert!(counts.iter().flatten().all(|&count| (843..1157).contains(&count)), "{counts:?}");
    }
}
