//! Bytes as hexadecimal digits; and SHA-256, as a type that is written as 64 of them.

use std::fmt;
use std::io::{self, Read, Write};
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Bytes as lower-case hexadecimal digits, two for each.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A SHA-256 hash; written and read as 64 lower-case hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Sha256Hash([u8; 32]);

impl Sha256Hash {
    /// The hash of some bytes.
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// The hash of all that is left to read, such as of a file.
    ///
    /// # Errors
    /// When it can't be read.
    pub fn of_reader(mut content: impl Read) -> io::Result<Self> {
        let mut writer = HashingWriter::new(io::sink());
        io::copy(&mut content, &mut writer)?;
        Ok(writer.finish())
    }

    /// The first twelve digits: enough to distinguish images on a screen.
    pub fn short(&self) -> String {
        self.to_string()[..12].to_owned()
    }
}

impl fmt::Display for Sha256Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&hex(&self.0))
    }
}

impl fmt::Debug for Sha256Hash {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{self}")
    }
}

/// A text that is no SHA-256 hash.
#[derive(Debug, thiserror::Error)]
#[error("`{0}` is not a SHA-256 hash (64 hexadecimal digits)")]
pub struct NotAHash(String);

impl FromStr for Sha256Hash {
    type Err = NotAHash;

    fn from_str(text: &str) -> Result<Self, NotAHash> {
        let refuse = || NotAHash(text.to_owned());
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(refuse());
        }
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(&text[2 * index..2 * index + 2], 16).map_err(|_| refuse())?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for Sha256Hash {
    type Error = NotAHash;

    fn try_from(text: String) -> Result<Self, NotAHash> {
        text.parse()
    }
}

impl From<Sha256Hash> for String {
    fn from(hash: Sha256Hash) -> Self {
        hash.to_string()
    }
}

/// Passes on what is written and hashes it on the way.
#[derive(Debug)]
pub struct HashingWriter<W> {
    below: W,
    state: Sha256,
}

impl<W: Write> HashingWriter<W> {
    /// Writes to `below`.
    pub fn new(below: W) -> Self {
        Self { below, state: Sha256::new() }
    }

    /// The hash of all that was written.
    pub fn finish(self) -> Sha256Hash {
        Sha256Hash(self.state.finalize().into())
    }
}

impl<W: Write> Write for HashingWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let written = self.below.write(bytes)?;
        self.state.update(&bytes[..written]);
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.below.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// FIPS 180-2, appendix B.1.
    const OF_ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    #[test]
    fn a_known_text_has_its_published_hash() {
        assert_eq!(Sha256Hash::of(b"abc").to_string(), OF_ABC);
    }

    #[test]
    fn a_hash_is_read_back_and_anything_else_is_refused() {
        assert_eq!(OF_ABC.parse::<Sha256Hash>().unwrap(), Sha256Hash::of(b"abc"));
        for wrong in ["", "ba78", &OF_ABC[1..], &OF_ABC.replace('b', "g"), &format!("{}é", &OF_ABC[2..])] {
            assert!(wrong.parse::<Sha256Hash>().is_err(), "{wrong}");
        }
    }
}
