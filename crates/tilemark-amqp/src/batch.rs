//! Many publishes in one write.

use crate::{FRAME_OVERHEAD, FrameKind, Method, Properties, ShortStr, put_frame, put_header, put_method};

/// Publishes of the same route, properties and size, encoded once. Only the stamp at the start of each body changes
/// between writes, so that sending a message costs a few stores and its share of a system call.
#[derive(Debug)]
pub struct PublishBatch {
    wire: Vec<u8>,
    stride: usize,
    body_at: usize,
    first_part: usize,
}

impl PublishBatch {
    /// Encodes `count` messages with that body.
    ///
    /// # Panics
    /// When `count` is 0.
    pub fn new(
        channel: u16,
        exchange: ShortStr<'_>,
        routing_key: ShortStr<'_>,
        properties: Properties<'_>,
        body: &[u8],
        frame_max: usize,
        count: usize,
    ) -> Self {
        assert!(count > 0, "a batch holds at least one message");
        let mut wire = Vec::new();
        let publish =
            Method::BasicPublish { reserved_1: 0, exchange, routing_key, mandatory: false, immediate: false };
        put_method(&mut wire, channel, &publish);
        put_header(&mut wire, channel, body.len() as u64, properties);
        let body_at = wire.len() + FRAME_OVERHEAD - 1;
        let room = frame_max - FRAME_OVERHEAD;
        for part in body.chunks(room) {
            put_frame(&mut wire, FrameKind::Body, channel, part);
        }
        let stride = wire.len();
        let wire = wire.repeat(count);
        Self { wire, stride, body_at, first_part: body.len().min(room) }
    }

    /// Messages in the batch.
    pub fn capacity(&self) -> usize {
        self.wire.len() / self.stride
    }

    /// Bytes that one message takes on the wire.
    pub const fn stride(&self) -> usize {
        self.stride
    }

    /// The body of a message, as far as its first frame holds it.
    #[inline]
    pub fn body_mut(&mut self, index: usize) -> &mut [u8] {
        let at = index * self.stride + self.body_at;
        &mut self.wire[at..at + self.first_part]
    }

    /// The bytes of the first `count` messages, to be written whole and in order.
    pub fn bytes(&self, count: usize) -> &[u8] {
        &self.wire[..count * self.stride]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ContentHeader, Inbox};

    #[test]
    fn each_message_has_its_own_stamp_and_the_rest_is_alike() {
        let name = ShortStr::cut("q");
        let mut batch =
            PublishBatch::new(1, ShortStr::default(), name, Properties::NONE, &[9; 5000], 4096, 3);
        for index in 0..3 {
            batch.body_mut(index)[..2].copy_from_slice(&[index as u8, 1]);
        }
        let wire = batch.bytes(3).to_vec();
        let mut inbox = Inbox::new(wire.len(), 4096);
        inbox.space()[..wire.len()].copy_from_slice(&wire);
        inbox.received(wire.len());
        for index in 0..3_u8 {
            let method = inbox.next_frame().unwrap().unwrap();
            assert!(matches!(Method::decode(method.payload), Ok(Method::BasicPublish { .. })));
            let header = inbox.next_frame().unwrap().unwrap();
            assert_eq!(ContentHeader::decode(header.payload).unwrap().body_size, 5000);
            let first = inbox.next_frame().unwrap().unwrap();
            assert_eq!((first.payload.len(), &first.payload[..3]), (4088, &[index, 1, 9][..]));
            assert_eq!(inbox.next_frame().unwrap().unwrap().payload, [9; 912]);
        }
        assert_eq!(inbox.next_frame(), Ok(None));
    }
}
