//! The elementary types of the wire: integers, bits, short and long strings, tables.

use std::fmt;

use crate::{DecodeError, Table};

/// A string of at most 255 bytes: a name, a routing key, a reply text. AMQP calls it UTF-8; peers send any bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct ShortStr<'a>(&'a [u8]);

impl<'a> ShortStr<'a> {
    /// Takes bytes; `None` when there are more than 255.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() <= 255 { Some(Self(bytes)) } else { None }
    }

    /// Takes as many bytes as fit, cut at 255.
    pub fn cut(text: &'a str) -> Self {
        let mut end = text.len().min(255);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        Self(&text.as_bytes()[..end])
    }

    /// The bytes.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// Whether it is the empty string.
    pub const fn is_empty(self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0))
    }
}

impl fmt::Debug for ShortStr<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", String::from_utf8_lossy(self.0))
    }
}

/// A string of at most 4 GiB: the credentials, mechanisms, values in tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LongStr<'a>(pub &'a [u8]);

/// Reads fields one after the other. Neighbouring bits share an octet, as the specification packs them.
#[derive(Debug)]
pub struct Decoder<'a> {
    bytes: &'a [u8],
    bits: u8,
    bits_left: u8,
}

impl<'a> Decoder<'a> {
    /// Starts at the first byte.
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, bits: 0, bits_left: 0 }
    }

    #[inline]
    fn array<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        self.bits_left = 0;
        let (head, tail) = self.bytes.split_first_chunk::<N>().ok_or(DecodeError::Truncated)?;
        self.bytes = tail;
        Ok(*head)
    }

    /// Reads `length` bytes as they are.
    #[inline]
    pub fn take(&mut self, length: usize) -> Result<&'a [u8], DecodeError> {
        self.bits_left = 0;
        let (head, tail) = self.bytes.split_at_checked(length).ok_or(DecodeError::Truncated)?;
        self.bytes = tail;
        Ok(head)
    }

    /// Reads an octet.
    #[inline]
    pub fn octet(&mut self) -> Result<u8, DecodeError> {
        Ok(u8::from_be_bytes(self.array()?))
    }

    /// Reads a 16-bit integer.
    #[inline]
    pub fn short(&mut self) -> Result<u16, DecodeError> {
        Ok(u16::from_be_bytes(self.array()?))
    }

    /// Reads a 32-bit integer.
    #[inline]
    pub fn long(&mut self) -> Result<u32, DecodeError> {
        Ok(u32::from_be_bytes(self.array()?))
    }

    /// Reads a 64-bit integer.
    #[inline]
    pub fn long_long(&mut self) -> Result<u64, DecodeError> {
        Ok(u64::from_be_bytes(self.array()?))
    }

    /// Reads a bit.
    #[inline]
    pub fn bit(&mut self) -> Result<bool, DecodeError> {
        if self.bits_left == 0 {
            self.bits = self.octet()?;
            self.bits_left = 8;
        }
        let bit = self.bits & 1 == 1;
        self.bits >>= 1;
        self.bits_left -= 1;
        Ok(bit)
    }

    /// Reads a short string.
    #[inline]
    pub fn short_str(&mut self) -> Result<ShortStr<'a>, DecodeError> {
        let length = self.octet()?;
        Ok(ShortStr(self.take(usize::from(length))?))
    }

    /// Reads a long string.
    pub fn long_str(&mut self) -> Result<LongStr<'a>, DecodeError> {
        let length = self.long()?;
        Ok(LongStr(self.take(usize::try_from(length).map_err(|_| DecodeError::Truncated)?)?))
    }

    /// Reads a table and checks it to its leaves.
    pub fn table(&mut self) -> Result<Table<'a>, DecodeError> {
        Table::checked(self.long_str()?.0)
    }

    /// What has not been read.
    #[inline]
    pub const fn rest(&self) -> &'a [u8] {
        self.bytes
    }

    /// Demands that everything was read.
    #[inline]
    pub fn finish(self) -> Result<(), DecodeError> {
        if self.bytes.is_empty() { Ok(()) } else { Err(DecodeError::Trailing(self.bytes.len())) }
    }
}

/// Appends fields to a buffer.
#[derive(Debug)]
pub struct Encoder<'b> {
    out: &'b mut Vec<u8>,
    bits_used: u8,
}

impl<'b> Encoder<'b> {
    /// Appends behind what `out` holds.
    pub const fn new(out: &'b mut Vec<u8>) -> Self {
        Self { out, bits_used: 0 }
    }

    /// Writes bytes as they are.
    pub fn raw(&mut self, bytes: &[u8]) {
        self.bits_used = 0;
        self.out.extend_from_slice(bytes);
    }

    /// Writes a bit into the octet of the bits before it.
    pub fn bit(&mut self, bit: bool) {
        if self.bits_used == 0 || self.bits_used == 8 {
            self.out.push(0);
            self.bits_used = 0;
        }
        let last = self.out.last_mut().expect("an octet for bits was pushed above or by the bit before");
        *last |= u8::from(bit) << self.bits_used;
        self.bits_used += 1;
    }

    /// Writes a short string.
    pub fn short_str(&mut self, text: ShortStr<'_>) {
        self.raw(&[u8::try_from(text.0.len()).expect("a ShortStr has at most 255 bytes")]);
        self.raw(text.0);
    }

    /// Writes a long string.
    pub fn long_str(&mut self, text: LongStr<'_>) {
        self.raw(&u32::try_from(text.0.len()).expect("texts that we send are far below 4 GiB").to_be_bytes());
        self.raw(text.0);
    }
}

/// A type that a method's argument can have.
pub(crate) trait Field<'a>: Sized {
    fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError>;
    fn encode(&self, to: &mut Encoder<'_>);
}

macro_rules! field {
    ($type:ty, $read:ident, |$value:ident, $to:ident| $write:expr) => {
        impl<'a> Field<'a> for $type {
            fn decode(from: &mut Decoder<'a>) -> Result<Self, DecodeError> {
                from.$read()
            }
            fn encode(&self, $to: &mut Encoder<'_>) {
                let $value = *self;
                $write
            }
        }
    };
}
field!(u8, octet, |value, to| to.raw(&[value]));
field!(u16, short, |value, to| to.raw(&value.to_be_bytes()));
field!(u32, long, |value, to| to.raw(&value.to_be_bytes()));
field!(u64, long_long, |value, to| to.raw(&value.to_be_bytes()));
field!(bool, bit, |value, to| to.bit(value));
field!(ShortStr<'a>, short_str, |value, to| to.short_str(value));
field!(LongStr<'a>, long_str, |value, to| to.long_str(value));
field!(Table<'a>, table, |value, to| to.long_str(LongStr(value.as_bytes())));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nine_bits_take_two_octets_lowest_first() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        for bit in [true, false, false, false, false, false, false, true, true] {
            encoder.bit(bit);
        }
        assert_eq!(out, [0x81, 0x01]);
        let mut decoder = Decoder::new(&out);
        let bits: Vec<bool> = (0..9).map(|_| decoder.bit().unwrap()).collect();
        assert_eq!(bits, [true, false, false, false, false, false, false, true, true]);
        decoder.finish().unwrap();
    }

    #[test]
    fn a_field_after_a_bit_starts_a_new_octet() {
        let mut out = Vec::new();
        let mut encoder = Encoder::new(&mut out);
        encoder.bit(true);
        encoder.short_str(ShortStr::cut("a"));
        encoder.bit(true);
        assert_eq!(out, [1, 1, b'a', 1]);
    }

    #[test]
    fn a_long_text_is_cut_at_a_character() {
        let text = "é".repeat(200);
        assert_eq!(ShortStr::cut(&text).as_bytes().len(), 254);
        assert!(ShortStr::new(text.as_bytes()).is_none());
    }
}
