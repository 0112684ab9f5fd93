//! What was written, in a form that two runs can compare.

use crc32fast::Hasher;
use serde::{Deserialize, Serialize};

/// Size and checksum of one table's CSV.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableSum {
    /// Rows, which is also the number of lines.
    pub rows: u64,
    /// Bytes of CSV.
    pub bytes: u64,
    /// CRC-32 (the one of gzip and zlib) of these bytes.
    pub crc32: u32,
}

/// Adds blocks up in their order; the blocks' own checksums were made by the workers.
#[derive(Default)]
pub(crate) struct Summing {
    rows: u64,
    bytes: u64,
    crc: Hasher,
}

impl Summing {
    pub(crate) fn add(&mut self, rows: u64, bytes: u64, crc: &Hasher) {
        self.rows += rows;
        self.bytes += bytes;
        self.crc.combine(crc);
    }

    pub(crate) fn finish(self) -> TableSum {
        TableSum { rows: self.rows, bytes: self.bytes, crc32: self.crc.finalize() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_added_up_equal_the_whole() {
        let mut summing = Summing::default();
        for block in [b"a,b\nc,d\n".as_slice(), b"e,f\n"] {
            let mut crc = Hasher::new();
            crc.update(block);
            summing.add(0, block.len() as u64, &crc);
        }
        assert_eq!(summing.finish().crc32, crc32fast::hash(b"a,b\nc,d\ne,f\n"));
    }
}
