//! Seeds that follow from the run's seed.

/// A seed of its own for each use, from the run's seed and the use's name (64-bit FNV-1a). It does not
/// depend on the point, so that sides and backends get the very same schedule.
pub(crate) fn mixed(seed: u64, parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|part| part.bytes().chain([0]));
    seed.to_le_bytes().into_iter().chain(bytes).fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}
