//! Where message bytes live while queues refer to them.
//!
//! Bytes are appended to chunks; a chunk is used again when none of its messages is left, so a queue that is emptied as fast
//! as it is filled stays in the processor's cache. Messages that outlive their neighbours would keep whole chunks; `evacuate`
//! moves them together when the waste gets large.

/// A message in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct MessageId(u32);

/// Small messages share chunks of this size: it fits the second-level cache of common processors several times.
const CHUNK_BYTES: usize = 256 * 1024;
/// A message from this size on has a chunk of its own.
const LARGE_BYTES: usize = 64 * 1024;
/// An empty store keeps room for so many messages.
const KEPT_PLACES: usize = 64 * 1024;
/// Empty chunks kept for reuse.
const SPARE_CHUNKS: usize = 16;

#[derive(Debug)]
struct Message {
    chunk: u32,
    offset: u32,
    route: u16,
    header: u32,
    length: u32,
    references: u32,
}

#[derive(Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    messages: u32,
    live_bytes: u32,
}

/// A message's parts as they go onto the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Parts<'a> {
    /// Exchange and routing key as two short strings.
    pub(crate) route: &'a [u8],
    /// Payload of the header frame.
    pub(crate) header: &'a [u8],
    pub(crate) body: &'a [u8],
    /// All three.
    pub(crate) whole: &'a [u8],
}

/// Lengths of the parts of a new message.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Layout {
    pub(crate) route: u16,
    pub(crate) header: u32,
}

#[derive(Debug)]
pub(crate) struct Store {
    messages: Vec<Message>,
    free: Vec<u32>,
    chunks: Vec<Chunk>,
    unused: Vec<u32>,
    spare: Vec<Vec<u8>>,
    current: u32,
    held_bytes: u64,
    live_bytes: u64,
    references: u64,
}

impl Layout {
    /// Of a message with this route (exchange and key, two short strings) and this header (the payload of a frame).
    #[inline]
    pub(crate) fn of(route: &[u8], header: &[u8]) -> Self {
        Self {
            route: u16::try_from(route.len()).expect("two short strings"),
            header: u32::try_from(header.len()).expect("a frame's payload"),
        }
    }
}

impl Store {
    pub(crate) fn new() -> Self {
        let first = Chunk { bytes: Vec::with_capacity(CHUNK_BYTES), ..Chunk::default() };
        Self {
            messages: Vec::new(),
            free: Vec::new(),
            chunks: vec![first],
            unused: Vec::new(),
            spare: Vec::new(),
            current: 0,
            held_bytes: CHUNK_BYTES as u64,
            live_bytes: 0,
            references: 0,
        }
    }

    /// How often messages are referred to: by queues, consumers, transactions.
    pub(crate) const fn references(&self) -> u64 {
        self.references
    }

    /// Bytes of memory that chunks with messages take.
    pub(crate) const fn held_bytes(&self) -> u64 {
        self.held_bytes
    }

    /// Messages in the store.
    pub(crate) fn len(&self) -> usize {
        self.messages.len() - self.free.len()
    }

    /// Stores a message with one reference: the parts together are route, header and body.
    #[inline]
    pub(crate) fn append<const N: usize>(&mut self, layout: Layout, parts: [&[u8]; N]) -> MessageId {
        let length = parts.iter().map(|part| part.len()).sum();
        let chunk = self.room(length);
        let target = &mut self.chunks[chunk as usize];
        let offset = narrow(target.bytes.len());
        for part in parts {
            target.bytes.extend_from_slice(part);
        }
        target.messages += 1;
        target.live_bytes += narrow(length);
        self.live_bytes += length as u64;
        self.references += 1;
        let message = Message {
            chunk,
            offset,
            route: layout.route,
            header: layout.header,
            length: narrow(length),
            references: 1,
        };
        if let Some(index) = self.free.pop() {
            self.messages[index as usize] = message;
            return MessageId(index);
        }
        self.messages.push(message);
        MessageId(narrow(self.messages.len() - 1))
    }

    #[inline]
    fn room(&mut self, length: usize) -> u32 {
        if length >= LARGE_BYTES {
            return self.open_chunk(Vec::with_capacity(length));
        }
        let current = &mut self.chunks[self.current as usize];
        if current.messages == 0 {
            current.bytes.clear();
        }
        if current.bytes.len() + length > CHUNK_BYTES {
            let bytes = self.spare.pop().unwrap_or_else(|| Vec::with_capacity(CHUNK_BYTES));
            self.current = self.open_chunk(bytes);
        }
        self.current
    }

    fn open_chunk(&mut self, bytes: Vec<u8>) -> u32 {
        self.held_bytes += bytes.capacity() as u64;
        let chunk = Chunk { bytes, ..Chunk::default() };
        if let Some(index) = self.unused.pop() {
            self.chunks[index as usize] = chunk;
            return index;
        }
        self.chunks.push(chunk);
        narrow(self.chunks.len() - 1)
    }

    /// One more queue refers to it.
    #[inline]
    pub(crate) fn retain(&mut self, id: MessageId) {
        self.messages[id.0 as usize].references += 1;
        self.references += 1;
    }

    /// One reference less; the last one frees the message.
    #[inline]
    pub(crate) fn release(&mut self, id: MessageId) {
        let message = &mut self.messages[id.0 as usize];
        message.references -= 1;
        self.references -= 1;
        if message.references == 0 {
            let (chunk, length) = (message.chunk, message.length);
            self.free.push(id.0);
            self.leave_chunk(chunk, length);
        }
    }

    #[inline]
    fn leave_chunk(&mut self, index: u32, length: u32) {
        self.live_bytes -= u64::from(length);
        let chunk = &mut self.chunks[index as usize];
        chunk.messages -= 1;
        chunk.live_bytes -= length;
        if chunk.messages > 0 || index == self.current {
            return;
        }
        let mut bytes = std::mem::take(&mut chunk.bytes);
        self.held_bytes -= bytes.capacity() as u64;
        self.unused.push(index);
        if bytes.capacity() == CHUNK_BYTES && self.spare.len() < SPARE_CHUNKS {
            bytes.clear();
            self.spare.push(bytes);
        }
    }

    #[inline]
    pub(crate) fn parts(&self, id: MessageId) -> Parts<'_> {
        let message = &self.messages[id.0 as usize];
        let start = message.offset as usize;
        let whole = &self.chunks[message.chunk as usize].bytes[start..start + message.length as usize];
        let (route, rest) = whole.split_at(usize::from(message.route));
        let (header, body) = rest.split_at(message.header as usize);
        Parts { route, header, body, whole }
    }

    pub(crate) fn layout(&self, id: MessageId) -> Layout {
        let message = &self.messages[id.0 as usize];
        Layout { route: message.route, header: message.header }
    }

    #[inline]
    pub(crate) fn length(&self, id: MessageId) -> u32 {
        self.messages[id.0 as usize].length
    }

    /// Forgets the places of messages that are all gone.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.len() == 0 && self.messages.capacity() > KEPT_PLACES {
            self.messages = Vec::new();
            self.free = Vec::new();
        }
    }

    /// Moves messages out of chunks that are mostly empty, once chunks hold four times what lives in them and 64 MiB more.
    /// Looks at every message, so it costs no more than the publishing of the waste did.
    pub(crate) fn evacuate_if_wasteful(&mut self) {
        if self.held_bytes > 4 * self.live_bytes + (64 << 20) {
            self.evacuate();
        }
    }

    fn evacuate(&mut self) {
        let sparse: Vec<bool> = self
            .chunks
            .iter()
            .enumerate()
            .map(|(index, chunk)| {
                index != self.current as usize
                    && chunk.messages > 0
                    && (chunk.live_bytes as usize) < chunk.bytes.capacity() / 2
            })
            .collect();
        for index in 0..self.messages.len() {
            let Message { chunk, offset, length, references, .. } = self.messages[index];
            // `references` is 0 for places that wait for reuse.
            if references == 0 || !sparse.get(chunk as usize).copied().unwrap_or(false) {
                continue;
            }
            let target = self.room(length as usize);
            let [from, to] = self
                .chunks
                .get_disjoint_mut([chunk as usize, target as usize])
                .expect("a sparse chunk is not the current one and large messages fill theirs");
            to.bytes.extend_from_slice(&from.bytes[offset as usize..(offset + length) as usize]);
            to.messages += 1;
            to.live_bytes += length;
            let moved_to = narrow(to.bytes.len()) - length;
            self.live_bytes += u64::from(length);
            let message = &mut self.messages[index];
            message.chunk = target;
            message.offset = moved_to;
            self.leave_chunk(chunk, length);
        }
    }
}

fn narrow(length: usize) -> u32 {
    u32::try_from(length).expect("messages are limited far below 4 GiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(store: &mut Store, body: &[u8]) -> MessageId {
        store.append(Layout { route: 2, header: 3 }, [b"rrhhh", body])
    }

    #[test]
    fn parts_come_back_and_an_emptied_chunk_is_used_again() {
        let mut store = Store::new();
        for round in 0..100_000_u32 {
            let id = put(&mut store, &round.to_be_bytes());
            let parts = store.parts(id);
            assert_eq!(
                (parts.route, parts.header, parts.body),
                (&b"rr"[..], &b"hhh"[..], &round.to_be_bytes()[..])
            );
            store.release(id);
        }
        assert_eq!((store.held_bytes(), store.len()), (CHUNK_BYTES as u64, 0));
    }

    #[test]
    fn places_of_a_long_backlog_are_freed() {
        let mut store = Store::new();
        let ids: Vec<MessageId> = (0..100_000).map(|_| put(&mut store, b"x")).collect();
        ids.iter().for_each(|id| store.release(*id));
        store.shrink_if_empty();
        assert_eq!((store.messages.capacity(), store.free.capacity()), (0, 0));
        let id = put(&mut store, b"y");
        assert_eq!(store.parts(id).body, b"y");
    }

    #[test]
    fn a_message_lives_until_its_last_reference() {
        let mut store = Store::new();
        let large = put(&mut store, &vec![7; 200_000]);
        store.retain(large);
        store.release(large);
        assert_eq!(store.parts(large).body.len(), 200_000);
        store.release(large);
        assert_eq!((store.held_bytes(), store.len()), (CHUNK_BYTES as u64, 0));
    }

    #[test]
    fn a_few_survivors_do_not_hold_the_memory_of_all() {
        let mut store = Store::new();
        let ids: Vec<MessageId> =
            (0..300_000_u32).map(|n| put(&mut store, &[n.to_be_bytes(); 100].concat())).collect();
        for (n, id) in ids.iter().enumerate().filter(|(n, _)| n % 1000 != 0) {
            let _ = n;
            store.release(*id);
        }
        let before = store.held_bytes();
        store.evacuate_if_wasteful();
        assert!(store.held_bytes() < before / 10, "{} of {before} left", store.held_bytes());
        for n in (0..300_000_u32).step_by(1000) {
            assert_eq!(store.parts(ids[n as usize]).body[..4], n.to_be_bytes());
        }
    }
}
