//! Random changes of inputs, the same ones for the same seed: for the short run without a fuzzer.

use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};

/// No input grows beyond this many bytes.
const LONGEST: usize = 64 << 10;

/// What numbers are replaced by: the ends of their types.
const NUMBERS: [u64; 10] =
    [0, 1, 0x7f, 0xff, 0x7fff, 0xffff, 0x7fff_ffff, 0xffff_ffff, 0x7fff_ffff_ffff_ffff, u64::MAX];

/// What numbers of texts are replaced by.
const TEXTS: [&str; 14] = [
    "0",
    "-1",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "18446744073709551615",
    "18446744073709551616",
    "1e308",
    "1e-308",
    "NaN",
    "null",
    "0-4294967295",
    "\"\"",
    "",
];

/// Changes inputs at random.
#[derive(Debug)]
pub struct Mutator {
    random: ChaCha8Rng,
}

impl Mutator {
    /// The same seed gives the same changes.
    pub fn new(seed: u64) -> Self {
        Self { random: ChaCha8Rng::seed_from_u64(seed) }
    }

    /// One of these inputs with one to eight changes.
    ///
    /// # Panics
    /// When there is no input.
    pub fn change(&mut self, inputs: &[Vec<u8>]) -> Vec<u8> {
        let mut bytes = inputs[self.below(inputs.len())].clone();
        for _ in 0..=self.below(8) {
            let other = &inputs[self.below(inputs.len())];
            self.once(&mut bytes, other);
        }
        bytes.truncate(LONGEST);
        bytes
    }

    fn once(&mut self, bytes: &mut Vec<u8>, other: &[u8]) {
        if bytes.is_empty() {
            return bytes.extend_from_slice(other);
        }
        let at = self.below(bytes.len());
        match self.below(9) {
            0 => bytes[at] ^= 1 << self.below(8),
            1 => bytes[at] = self.random.next_u32() as u8,
            2 => self.number(bytes, at),
            3 => self.text_number(bytes, at),
            4 => bytes.truncate(at),
            5 => {
                let length = self.below(64).min(bytes.len() - at);
                bytes.drain(at..at + length);
            }
            6 => {
                let length = self.below(256).min(bytes.len() - at);
                let part = bytes[at..at + length].to_vec();
                bytes.splice(at..at, part);
            }
            7 => bytes.insert(at, self.random.next_u32() as u8),
            _ if !other.is_empty() => {
                let from = self.below(other.len());
                let length = self.below(512).min(other.len() - from);
                bytes.splice(at..at, other[from..from + length].iter().copied());
            }
            _ => {}
        }
    }

    /// Writes a number's end over 1, 2, 4 or 8 bytes, in either order.
    fn number(&mut self, bytes: &mut [u8], at: usize) {
        let number = NUMBERS[self.below(NUMBERS.len())];
        let width = (1_usize << self.below(4)).min(bytes.len() - at);
        let (little, big) = (number.to_le_bytes(), number.to_be_bytes());
        let part = if self.below(2) == 0 { &little[..width] } else { &big[8 - width..] };
        bytes[at..at + width].copy_from_slice(part);
    }

    /// Replaces the next number that is written in digits.
    fn text_number(&mut self, bytes: &mut Vec<u8>, from: usize) {
        let Some(start) = bytes[from..].iter().position(u8::is_ascii_digit).map(|at| from + at) else {
            return;
        };
        let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let text = TEXTS[self.below(TEXTS.len())];
        bytes.splice(start..start + length, text.bytes());
    }

    fn below(&mut self, end: usize) -> usize {
        (self.random.next_u64() % end.max(1) as u64) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_changes_and_most_inputs_differ() {
        let inputs = vec![b"{\"count\": 12}".to_vec(), vec![0; 40], Vec::new()];
        let all = |seed| {
            let mut mutator = Mutator::new(seed);
            (0..1000).map(|_| mutator.change(&inputs)).collect::<Vec<_>>()
        };
        assert_eq!(all(1), all(1));
        assert_ne!(all(1), all(2));
        let distinct: std::collections::BTreeSet<Vec<u8>> = all(1).into_iter().collect();
        assert!(distinct.len() > 500, "{}", distinct.len());
    }
}
