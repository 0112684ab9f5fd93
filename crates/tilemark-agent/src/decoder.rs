//! From a stream of bytes, in which sessions may break off anywhere, to hellos and frames.

use tilemark_agent_protocol::{FRAME_BYTES_MAX, HELLO_BYTES, Hello, MAGIC, PROTOCOL_VERSION};

/// What came in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A session begins.
    Hello(Hello),
    /// One frame's body.
    Frame(Vec<u8>),
}

/// Collects bytes. A hello is found wherever it is, so one that follows half a frame of a session that broke
/// off is not swallowed by it. A frame that contains magic and version side by side would be taken for one;
/// no message of the protocol does.
#[derive(Debug, Default)]
pub(crate) struct Decoder {
    bytes: Vec<u8>,
    /// Set when an impossible length came: only a hello helps.
    lost: bool,
}

fn hello_pattern() -> [u8; 12] {
    let mut pattern = [0; 12];
    pattern[..8].copy_from_slice(&MAGIC);
    pattern[8..].copy_from_slice(&PROTOCOL_VERSION.to_be_bytes());
    pattern
}

impl Decoder {
    /// Takes in bytes and gives out all that they complete.
    pub(crate) fn take(&mut self, new: &[u8]) -> Vec<Incoming> {
        let searched = self.bytes.len().saturating_sub(HELLO_BYTES);
        self.bytes.extend_from_slice(new);
        let mut found = Vec::new();
        if let Some(hello) = self.last_hello(searched) {
            found.push(Incoming::Hello(hello));
        }
        while let Some(incoming) = self.next() {
            found.push(incoming);
        }
        found
    }

    /// Forgets a partial frame: the other end hung up.
    pub(crate) fn reset(&mut self) {
        self.bytes.clear();
        self.lost = false;
    }

    /// Cuts everything up to and with the last complete hello.
    fn last_hello(&mut self, from: usize) -> Option<Hello> {
        let pattern = hello_pattern();
        let at = self.bytes[from..].windows(HELLO_BYTES).rposition(|window| window.starts_with(&pattern))?;
        let end = from + at + HELLO_BYTES;
        let hello = Hello::from_bytes(self.bytes[from + at..end].try_into().ok()?)?;
        self.bytes.drain(..end);
        self.lost = false;
        Some(hello)
    }

    fn next(&mut self) -> Option<Incoming> {
        if self.lost {
            let keep = self.bytes.len().min(HELLO_BYTES);
            self.bytes.drain(..self.bytes.len() - keep);
            return None;
        }
        let beginning = &self.bytes[..self.bytes.len().min(MAGIC.len())];
        if !beginning.is_empty() && MAGIC.starts_with(beginning) {
            // A hello, perhaps of another version, perhaps not all here yet.
            let hello = Hello::from_bytes(self.bytes.get(..HELLO_BYTES)?.try_into().ok()?)?;
            self.bytes.drain(..HELLO_BYTES);
            return Some(Incoming::Hello(hello));
        }
        let length = u32::from_be_bytes(self.bytes.get(..4)?.try_into().ok()?) as usize;
        if length > FRAME_BYTES_MAX {
            self.lost = true;
            return self.next();
        }
        let body = self.bytes.get(4..4 + length)?.to_vec();
        self.bytes.drain(..4 + length);
        Some(Incoming::Frame(body))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hello(nonce: u64) -> Hello {
        Hello { version: PROTOCOL_VERSION, nonce }
    }

    fn frame(body: &[u8]) -> Vec<u8> {
        let mut bytes = u32::try_from(body.len()).unwrap().to_be_bytes().to_vec();
        bytes.extend_from_slice(body);
        bytes
    }

    #[test]
    fn byte_by_byte_is_the_same_as_all_at_once() {
        let mut bytes = hello(7).to_bytes().to_vec();
        bytes.extend(frame(b"one"));
        bytes.extend(frame(b""));
        let expected =
            vec![Incoming::Hello(hello(7)), Incoming::Frame(b"one".to_vec()), Incoming::Frame(Vec::new())];
        assert_eq!(Decoder::default().take(&bytes), expected);
        let mut slow = Decoder::default();
        let found: Vec<Incoming> = bytes.iter().flat_map(|&byte| slow.take(&[byte])).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn a_hello_is_found_behind_half_a_frame() {
        let mut decoder = Decoder::default();
        assert!(decoder.take(&frame(&[1; 1000])[..500]).is_empty());
        let bytes = hello(8).to_bytes();
        assert!(decoder.take(&bytes[..9]).is_empty());
        let mut rest = bytes[9..].to_vec();
        rest.extend(frame(b"new"));
        assert_eq!(decoder.take(&rest), vec![Incoming::Hello(hello(8)), Incoming::Frame(b"new".to_vec())]);
    }

    #[test]
    fn only_the_latest_of_two_sessions_counts() {
        let mut bytes = hello(1).to_bytes().to_vec();
        bytes.extend(frame(b"old"));
        bytes.extend(hello(2).to_bytes());
        assert_eq!(Decoder::default().take(&bytes), vec![Incoming::Hello(hello(2))]);
    }

    #[test]
    fn noise_is_survived_and_not_hoarded() {
        let mut decoder = Decoder::default();
        for _ in 0..100 {
            assert!(decoder.take(&[0xff; 1000]).is_empty());
            assert!(decoder.bytes.len() <= 2 * HELLO_BYTES);
        }
        assert_eq!(decoder.take(&hello(3).to_bytes()), vec![Incoming::Hello(hello(3))]);
    }

    #[test]
    fn another_version_is_heard_so_that_it_can_be_answered() {
        let other = Hello { version: 99, nonce: 4 };
        assert_eq!(Decoder::default().take(&other.to_bytes()), vec![Incoming::Hello(other)]);
    }
}
