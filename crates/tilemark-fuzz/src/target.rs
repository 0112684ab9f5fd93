//! What a target of fuzzing is.

/// A parser of foreign bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, the same as that of its program in `fuzz/`.
    pub name: &'static str,
    /// Whose bytes it takes.
    pub about: &'static str,
    /// Takes any bytes, as the parser's user does. It must return.
    pub take: fn(&[u8]),
    /// First inputs, made by our own encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub(crate) const fn target_of(
    name: &'static str,
    about: &'static str,
    take: fn(&[u8]),
    seeds: fn() -> Vec<Vec<u8>>,
) -> Target {
    Target { name, about, take, seeds }
}
