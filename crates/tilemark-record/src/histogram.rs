//! Histograms that somebody else wrote: a guest, or the author of a record.
//!
//! ```text
//! compressed V2: cookie, length, zlib of: cookie, payload length, offset, digits, lowest, highest, ratio, payload
//! payload: counts as zigzag LEB128 numbers; a negative one means so many empty places
//! ```
//! A few bytes of zlib can mean gigabytes, and the header for any amount of memory. Both are checked before the
//! library allocates anything.

use flate2::read::ZlibDecoder;
use hdrhistogram::{Histogram, serialization::Deserializer};
use std::io::Read;

/// A histogram that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a histogram cannot be read: {0}")]
pub struct BadHistogram(String);

impl BadHistogram {
    /// For this reason.
    pub fn because(reason: impl ToString) -> Self {
        Self(reason.to_string())
    }
}

/// The most counts of one histogram, in all: beyond it sums of thousands of them could overflow.
pub const COUNT_MAX: u64 = 1 << 48;

const V2: u32 = 0x1c84_9313;
const V2_COMPRESSED: u32 = 0x1c84_9314;
/// Bytes before the payload.
const HEADER: usize = 40;
/// Digits with which all histograms of Tilemark are made.
const DIGITS: u32 = 3;
/// Places of a histogram with three digits over all of 64 bits: 2,048 and 1,024 for each further power of two.
const PLACES_MAX: u64 = 2_048 + 1_024 * 53;
/// A number has at most nine bytes.
const INNER_MAX: u64 = HEADER as u64 + 9 * PLACES_MAX;

/// Decodes HdrHistogram's compressed V2 form, in bounded memory and time. No bytes: an empty histogram.
pub fn decode(bytes: &[u8]) -> Result<Histogram<u64>, BadHistogram> {
    if bytes.is_empty() {
        return Histogram::new(DIGITS as u8).map_err(BadHistogram::because);
    }
    let inner = inflated(bytes)?;
    check(&inner)?;
    Deserializer::new().deserialize(&mut inner.as_slice()).map_err(BadHistogram::because)
}

fn inflated(bytes: &[u8]) -> Result<Vec<u8>, BadHistogram> {
    if number(bytes, 0)? != V2_COMPRESSED {
        return Err(BadHistogram::because("it does not begin as one"));
    }
    let mut inner = Vec::new();
    let zlib = bytes.get(8..).unwrap_or_default();
    ZlibDecoder::new(zlib).take(INNER_MAX + 1).read_to_end(&mut inner).map_err(BadHistogram::because)?;
    if inner.len() as u64 > INNER_MAX {
        return Err(BadHistogram(format!("it has more than {INNER_MAX} bytes when it is unpacked")));
    }
    Ok(inner)
}

fn check(inner: &[u8]) -> Result<(), BadHistogram> {
    if number(inner, 0)? != V2 {
        return Err(BadHistogram::because("what is packed in it does not begin as one"));
    }
    let payload = inner.get(HEADER..).unwrap_or_default();
    if number(inner, 4)? as usize != payload.len() {
        return Err(BadHistogram::because("it is cut off, or something follows it"));
    }
    let digits = number(inner, 12)?;
    if digits != DIGITS {
        return Err(BadHistogram(format!("it has {digits} digits, and must have {DIGITS}")));
    }
    check_counts(payload)
}

fn check_counts(mut payload: &[u8]) -> Result<(), BadHistogram> {
    let (mut place, mut all) = (0_u64, 0_u64);
    while !payload.is_empty() {
        let zigzag = leb128(&mut payload).ok_or_else(|| BadHistogram::because("it ends within a number"))?;
        let size = (zigzag >> 1) + (zigzag & 1);
        let is_empty_places = zigzag & 1 == 1;
        place = place.saturating_add(if is_empty_places { size } else { 1 });
        all = all.saturating_add(if is_empty_places { 0 } else { size });
        if place > PLACES_MAX || all > COUNT_MAX {
            return Err(BadHistogram::because("its counts are more than there can be"));
        }
    }
    Ok(())
}

/// A number of at most nine bytes, seven bits in each but the last, which has eight.
fn leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for place in 0..9 {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let is_last = place == 8;
        let bits = if is_last { *byte } else { *byte & 0x7f };
        number |= u64::from(bits) << (7 * place);
        if is_last || byte & 0x80 == 0 {
            break;
        }
    }
    Some(number)
}

fn number(bytes: &[u8], at: usize) -> Result<u32, BadHistogram> {
    let bytes = bytes.get(at..at + 4).and_then(|bytes| bytes.try_into().ok());
    bytes.map(u32::from_be_bytes).ok_or_else(|| BadHistogram::because("it is too short"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::{Compression, write::ZlibEncoder};
    use hdrhistogram::serialization::{Serializer, V2DeflateSerializer};
    use std::io::Write;

    fn encoded(histogram: &Histogram<u64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        V2DeflateSerializer::new().serialize(histogram, &mut bytes).unwrap();
        bytes
    }

    fn packed(inner: &[u8]) -> Vec<u8> {
        let mut zlib = ZlibEncoder::new(Vec::new(), Compression::best());
        zlib.write_all(inner).unwrap();
        let zlib = zlib.finish().unwrap();
        [&V2_COMPRESSED.to_be_bytes(), &(zlib.len() as u32).to_be_bytes(), &zlib[..]].concat()
    }

    /// The header and payload of one with these digits and this payload.
    fn inner(digits: u32, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u32;
        let numbers = [V2, length, 0, digits];
        let mut bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_be_bytes()).collect();
        bytes.extend(1_u64.to_be_bytes());
        bytes.extend((u64::MAX / 2).to_be_bytes());
        bytes.extend(1_f64.to_be_bytes());
        bytes.extend(payload);
        bytes
    }

    #[test]
    fn what_was_encoded_comes_back_even_where_it_is_as_large_as_it_can_be() {
        let mut full = Histogram::<u64>::new(3).unwrap();
        let mut value = 1_u64;
        while value < u64::MAX / 2 {
            full.record_n(value, 1_000).unwrap();
            value += 1.max(value >> 11);
        }
        for histogram in [full, Histogram::new(3).unwrap()] {
            assert_eq!(decode(&encoded(&histogram)).unwrap(), histogram);
        }
        assert_eq!(decode(&[]).unwrap().len(), 0);
    }

    #[test]
    fn bombs_are_refused_before_anything_is_allocated() {
        let zeros = inner(3, &vec![0; 50 << 20]);
        let refused = |bytes: &[u8]| decode(bytes).unwrap_err().to_string();
        assert!(refused(&packed(&zeros)).contains("when it is unpacked"));
        let mut announced = inner(3, &[2]);
        announced[4..8].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(refused(&packed(&announced)).contains("cut off"));
        assert!(refused(&packed(&inner(5, &[2]))).contains("5 digits"));
    }

    #[test]
    fn counts_and_places_that_overflow_are_refused() {
        let refused = |payload: &[u8]| decode(&packed(&inner(3, payload))).unwrap_err().to_string();
        let most = [0xff; 9];
        let even = [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff];
        for payload in [&most[..], &even[..], &[most, even].concat(), &vec![2; PLACES_MAX as usize + 1]] {
            assert!(refused(payload).contains("more than there can be"), "{payload:?}");
        }
        assert!(refused(&[0x80]).contains("within a number"));
        assert!(decode(&[]).is_ok() && decode(&[1, 2, 3]).is_err() && decode(&[0; 64]).is_err());
    }
}
