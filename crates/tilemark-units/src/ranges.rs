//! Numbers as the kernel lists them.

/// Numbers as the kernel lists them, sorted and each once: `0-3,8`.
pub fn ranges<'n>(numbers: impl IntoIterator<Item = &'n u32>) -> String {
    let mut sorted: Vec<u32> = numbers.into_iter().copied().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let of = |run: &[u32]| match run {
        [first, .., last] => format!("{first}-{last}"),
        only => only.iter().map(ToString::to_string).collect(),
    };
    let parts = sorted.chunk_by(|one, next| one.checked_add(1) == Some(*next)).map(of);
    parts.collect::<Vec<String>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_are_one_range_in_any_order_and_each_number_is_listed_once() {
        assert_eq!(ranges(&[8, 1, 0, 3, 2, 2]), "0-3,8");
        assert_eq!(ranges(&[7, 5]), "5,7");
        assert_eq!(ranges(&[u32::MAX, 0]), "0,4294967295");
        assert_eq!(ranges(&[]), "");
    }
}
