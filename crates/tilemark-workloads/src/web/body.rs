//! What a served file holds: every byte follows from the file's size and the byte's place.

/// Fills `body`, which is a whole file: its length decides its content.
///
/// Eight bytes at a time, the splitmix64 hash of size and place. No part repeats, so a body that is
/// shifted, cut, mixed with another or partly zero is noticed; and it does not compress.
pub fn fill_body(body: &mut [u8]) {
    let seed = (body.len() as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (place, bytes) in body.chunks_mut(8).enumerate() {
        let word = mix(seed ^ place as u64).to_le_bytes();
        bytes.copy_from_slice(&word[..bytes.len()]);
    }
}

/// The output function of splitmix64 (Steele, Lea, Flood 2014): a bijection that mixes all bits.
fn mix(input: u64) -> u64 {
    let mut z = input.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(size: usize) -> Vec<u8> {
        let mut body = vec![0; size];
        fill_body(&mut body);
        body
    }

    #[test]
    fn a_size_has_one_body_on_every_machine() {
        // The first bytes, fixed: an image built long ago serves what a new load expects.
        assert_eq!(body(1024)[..8], [134, 217, 118, 71, 199, 9, 100, 109]);
    }

    #[test]
    fn bodies_of_two_sizes_differ_from_the_first_word_on_and_no_word_repeats() {
        let (a, b) = (body(8192), body(8193));
        let words = |body: &[u8]| -> std::collections::HashSet<[u8; 8]> {
            body.as_chunks::<8>().0.iter().copied().collect()
        };
        assert_eq!(words(&a).len(), 1024);
        assert!(words(&a).is_disjoint(&words(&b)));
        assert!(body(0).is_empty());
    }
}
