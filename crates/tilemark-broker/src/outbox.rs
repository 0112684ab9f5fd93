//! Bytes that wait to be sent to one peer.

/// A buffer that is filled at its end and sent from its start.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    bytes: Vec<u8>,
    sent: usize,
}

/// An outbox that had to grow beyond this gives its memory back once it is empty.
const KEPT_BYTES: usize = 4 << 20;

impl Outbox {
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.bytes.len() - self.sent
    }

    /// Memory that it takes, bytes.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Where to append.
    #[inline]
    pub(crate) fn buffer(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// What to send next.
    pub(crate) fn unsent(&self) -> &[u8] {
        &self.bytes[self.sent..]
    }

    /// Forgets what was sent.
    pub(crate) fn sent(&mut self, count: usize) {
        self.sent += count;
        if self.sent == self.bytes.len() {
            self.sent = 0;
            self.bytes.clear();
            if self.bytes.capacity() > KEPT_BYTES {
                self.bytes = Vec::new();
            }
        } else if self.sent > self.bytes.len() / 2 {
            // Moves less than was sent since the last time, so it costs no more than sending did.
            self.bytes.drain(..self.sent);
            self.sent = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_is_gone_and_the_rest_keeps_its_order() {
        let mut outbox = Outbox::default();
        let mut seen = Vec::new();
        for round in 0..100_u8 {
            outbox.buffer().extend_from_slice(&[round; 3]);
            let part = outbox.unsent()[..2].to_vec();
            outbox.sent(2);
            seen.extend(part);
        }
        seen.extend_from_slice(outbox.unsent());
        let expected: Vec<u8> = (0..100_u8).flat_map(|round| [round; 3]).collect();
        assert_eq!((seen, outbox.len()), (expected, 100));
    }
}
