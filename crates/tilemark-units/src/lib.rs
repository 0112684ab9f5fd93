//! Bytes, rates, lengths of time and fractions as types that know their unit.
//! And text: what may be printed on a terminal, how names are sorted and numbers listed, libraries' messages in our words, errors with their
//! causes. And hexadecimal digits, hashes, the mean and the median.
//!
//! A scenario writes them as text (`"256MiB"`, `"200/s"`, `"50ms"`, `"0.1%"`); the same text is what
//! a plan prints. Nothing here reads or writes anything outside memory.

mod bytes;
mod causes;
mod fraction;
mod glob;
mod hash;
mod mean;
mod median;
mod natural;
mod printable;
mod ranges;
mod rate;
mod said;
mod span;
mod text;

pub use bytes::Bytes;
pub use causes::with_causes;
pub use fraction::Fraction;
pub use glob::matches_glob;
pub use hash::{HashingWriter, NotAHash, Sha256Hash, hex};
pub use mean::mean;
pub use median::median;
pub use natural::natural_key;
pub use printable::{is_unprintable, printable, printable_json, printable_line, printable_painted};
pub use ranges::ranges;
pub use rate::Rate;
pub use said::{did_you_mean, distance, in_our_words, listed, nearest, there_is_no};
pub use span::Span;
pub use text::{UnitError, counted};
