//! What identifies a message from within its body, in 16 bytes.

use tilemark_plan::workload::MessagingParameters;

/// The smallest body that can carry a stamp.
pub const STAMP_BYTES: usize = MessagingParameters::SIZE_MIN.get() as usize;

/// Run, publisher, sequence number, and a check over them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Distinguishes messages of this run from any others.
    pub run: u16,
    /// Who sent it.
    pub publisher: u16,
    /// Counts from 0 for each publisher.
    pub sequence: u64,
}

impl Stamp {
    #[inline]
    const fn check(self) -> u32 {
        // The finalizer of MurmurHash3: every bit of the input moves half of the bits of the result.
        let mut x = self.sequence ^ ((self.run as u64) << 48) ^ ((self.publisher as u64) << 32);
        x = (x ^ (x >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        x = (x ^ (x >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        (x >> 32) as u32
    }

    /// Writes it to the start of a body.
    ///
    /// # Panics
    /// When the body is shorter than [`STAMP_BYTES`].
    #[inline]
    pub fn write(self, body: &mut [u8]) {
        let body = body.first_chunk_mut::<STAMP_BYTES>().expect("bodies are at least as long as a stamp");
        body[..2].copy_from_slice(&self.run.to_be_bytes());
        body[2..4].copy_from_slice(&self.publisher.to_be_bytes());
        body[4..12].copy_from_slice(&self.sequence.to_be_bytes());
        body[12..].copy_from_slice(&self.check().to_be_bytes());
    }

    /// Reads it; `None` when the check says that it is none.
    #[inline]
    pub fn read(body: &[u8]) -> Option<Self> {
        let [r0, r1, p0, p1, s0, s1, s2, s3, s4, s5, s6, s7, c0, c1, c2, c3] =
            *body.first_chunk::<STAMP_BYTES>()?;
        let stamp = Self {
            run: u16::from_be_bytes([r0, r1]),
            publisher: u16::from_be_bytes([p0, p1]),
            sequence: u64::from_be_bytes([s0, s1, s2, s3, s4, s5, s6, s7]),
        };
        (stamp.check() == u32::from_be_bytes([c0, c1, c2, c3])).then_some(stamp)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_reads_back_and_any_flipped_bit_is_seen() {
        let stamp = Stamp { run: 0xbeef, publisher: 7, sequence: 123_456_789_012 };
        let mut body = [0; 20];
        stamp.write(&mut body);
        assert_eq!(Stamp::read(&body), Some(stamp));
        for bit in 0..STAMP_BYTES * 8 {
            let mut damaged = body;
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Stamp::read(&damaged), None, "bit {bit}");
        }
        assert_eq!(Stamp::read(&body[..15]), None);
    }
}
