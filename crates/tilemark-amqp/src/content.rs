//! Contents: header, properties, body; and the writers of whole messages.

use crate::frame::{head, put_frame};
use crate::{
    BASIC_CLASS, DecodeError, Decoder, FRAME_OVERHEAD, Frame, FrameKind, LongStr, PublishArguments, ShortStr,
    Table, decode_frame,
};

const FRAME_END: u8 = 206;

/// The payload of a header frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentHeader<'a> {
    /// Bytes of body that follow.
    pub body_size: u64,
    /// The properties, unread.
    pub properties: Properties<'a>,
}

impl<'a> ContentHeader<'a> {
    /// Reads the payload of a header frame. Properties are checked only when somebody asks for one.
    #[inline]
    pub fn decode(payload: &'a [u8]) -> Result<Self, DecodeError> {
        let mut from = Decoder::new(payload);
        let class = from.short()?;
        if class != BASIC_CLASS {
            return Err(DecodeError::HeaderClass(class));
        }
        from.short()?;
        let body_size = from.long_long()?;
        let properties = Properties(from.rest());
        if properties.0.len() < 2 {
            return Err(DecodeError::Truncated);
        }
        Ok(Self { body_size, properties })
    }
}

/// Property flags and values as they are on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Properties<'a>(&'a [u8]);

/// The properties in the order of their flag bits, from 15 down.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shape {
    ShortStr,
    Table,
    Octet,
    LongLong,
}

/// content-type, content-encoding, headers, delivery-mode, priority, correlation-id, reply-to, expiration, message-id,
/// timestamp, type, user-id, app-id, cluster-id.
const SHAPES: [Shape; 14] = [
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::Table,
    Shape::Octet,
    Shape::Octet,
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::LongLong,
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::ShortStr,
    Shape::ShortStr,
];
const HEADERS: usize = 2;
const DELIVERY_MODE: usize = 3;
const EXPIRATION: usize = 7;
const USER_ID: usize = 11;

impl<'a> Properties<'a> {
    /// No property at all.
    pub const NONE: Properties<'static> = Properties(&[0, 0]);
    /// Delivery mode 2, nothing else: a persistent message.
    pub const PERSISTENT: Properties<'static> = Properties(&[0x10, 0, 2]);

    /// Takes flags and values as they are on the wire.
    pub const fn from_bytes(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    /// Flags and values.
    pub const fn as_bytes(self) -> &'a [u8] {
        self.0
    }

    /// What a broker acts on, found in one walk over all properties.
    #[inline]
    pub fn for_broker(self) -> Result<BrokerProperties<'a>, DecodeError> {
        let mut found = BrokerProperties::default();
        if let Some(persistent) = self.delivery_mode_alone() {
            found.persistent = persistent;
            return Ok(found);
        }
        self.walk(|index, bytes| match index {
            HEADERS => found.headers = Table::of_checked(bytes),
            DELIVERY_MODE => found.persistent = bytes == [2],
            EXPIRATION => found.expiration = Some(bytes),
            USER_ID => found.user_id = Some(bytes),
            _ => {}
        })?;
        Ok(found)
    }

    /// Whether the message is persistent. `None` if it has any property besides the delivery mode.
    #[inline]
    pub const fn delivery_mode_alone(self) -> Option<bool> {
        match self.0 {
            [0, 0] => Some(false),
            [0x10, 0, mode] => Some(*mode == 2),
            _ => None,
        }
    }

    /// The same properties with these headers in place of their own; an empty table leaves the headers out. Without
    /// `keeps_expiration` the expiration is left out.
    pub fn with_headers(self, headers: Table<'_>, keeps_expiration: bool) -> Result<Vec<u8>, DecodeError> {
        let mut values = Vec::with_capacity(self.0.len() + headers.as_bytes().len() + 4);
        let mut flags = 0_u16;
        let mut put = |index: usize, bytes: &[u8]| {
            flags |= 0x8000 >> index;
            let mut to = crate::Encoder::new(&mut values);
            match SHAPES[index] {
                Shape::ShortStr => to.short_str(ShortStr::new(bytes).unwrap_or_default()),
                Shape::Table => to.long_str(LongStr(bytes)),
                Shape::Octet | Shape::LongLong => to.raw(bytes),
            }
        };
        let mut has_put_headers = headers.as_bytes().is_empty();
        self.walk(|index, bytes| {
            if index >= HEADERS && !std::mem::replace(&mut has_put_headers, true) {
                put(HEADERS, headers.as_bytes());
            }
            if index != HEADERS && (index != EXPIRATION || keeps_expiration) {
                put(index, bytes);
            }
        })?;
        if !has_put_headers {
            put(HEADERS, headers.as_bytes());
        }
        Ok([&flags.to_be_bytes()[..], &values].concat())
    }

    /// Walks over all properties, so that a malformed one is found here and not at a consumer.
    pub fn check(self) -> Result<(), DecodeError> {
        self.walk(|_, _| {})
    }

    fn walk(self, mut each: impl FnMut(usize, &'a [u8])) -> Result<(), DecodeError> {
        let mut from = Decoder::new(self.0);
        let flags = from.short()?;
        if flags & 0b11 != 0 {
            // Bit 1 is unused by class basic and bit 0 announces more flags, which basic does not have.
            return Err(DecodeError::Truncated);
        }
        for (index, shape) in SHAPES.into_iter().enumerate() {
            if flags & (0x8000 >> index) == 0 {
                continue;
            }
            let bytes = match shape {
                Shape::ShortStr => from.short_str()?.as_bytes(),
                Shape::Table => Table::checked(from.long_str()?.0)?.as_bytes(),
                Shape::Octet => from.take(1)?,
                Shape::LongLong => from.take(8)?,
            };
            each(index, bytes);
        }
        from.finish()
    }
}

/// The properties of a message that a broker acts on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerProperties<'a> {
    /// The table of headers; empty without one.
    pub headers: Table<'a>,
    /// It asks to survive a restart (delivery mode 2).
    pub persistent: bool,
    /// After how many milliseconds it is of no use to anybody, in digits.
    pub expiration: Option<&'a [u8]>,
    /// The user that the publisher claims to be.
    pub user_id: Option<&'a [u8]>,
}

/// Appends a content header.
pub fn put_header(out: &mut Vec<u8>, channel: u16, body_size: u64, properties: Properties<'_>) {
    out.extend_from_slice(&head(FrameKind::Header, channel, 12 + properties.0.len()));
    put_header_payload(out, body_size, properties);
    out.push(FRAME_END);
}

/// Appends what is in the frame of a content header: class, weight (unused, 0), length of the body in bytes, and properties.
pub fn put_header_payload(out: &mut Vec<u8>, body_size: u64, properties: Properties<'_>) {
    out.extend_from_slice(&BASIC_CLASS.to_be_bytes());
    out.extend_from_slice(&[0, 0]);
    out.extend_from_slice(&body_size.to_be_bytes());
    out.extend_from_slice(properties.0);
}

/// Appends header (its payload as it came from the publisher) and body, in as many frames as `frame_max` asks for.
#[inline]
pub fn put_content(out: &mut Vec<u8>, channel: u16, header: &[u8], body: &[u8], frame_max: usize) {
    put_frame(out, FrameKind::Header, channel, header);
    let room = frame_max - FRAME_OVERHEAD;
    if body.len() <= room {
        if !body.is_empty() {
            put_frame(out, FrameKind::Body, channel, body);
        }
        return;
    }
    for part in body.chunks(room) {
        put_frame(out, FrameKind::Body, channel, part);
    }
}

/// A complete publish: method, header and body, each in one frame, one after another. It has no property besides the delivery mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WholePublish<'a> {
    /// The channel of all three.
    pub channel: u16,
    /// Where it goes.
    pub arguments: PublishArguments<'a>,
    /// The payload of the header's frame.
    pub header: &'a [u8],
    /// Whether the message is persistent.
    pub persistent: bool,
    /// The body, whole; it is not empty.
    pub body: &'a [u8],
    /// Bytes of the three frames.
    pub length: usize,
}

impl<'a> WholePublish<'a> {
    /// Reads what is at the start of `bytes`. `None` if it is something else, is wrong, or is incomplete; [`decode_frame`] then reports
    /// the error.
    #[inline]
    pub fn decode(bytes: &'a [u8], frame_max: usize) -> Option<Self> {
        if !bytes.get(FRAME_OVERHEAD - 1..)?.starts_with(&PublishArguments::START) {
            return None;
        }
        let mut length = 0;
        let mut next = |expected| {
            let (Frame { kind, channel, payload }, used) =
                decode_frame(&bytes[length..], frame_max).ok()??;
            length += used;
            (kind == expected).then_some((channel, payload))
        };
        let (channel, method) = next(FrameKind::Method)?;
        let (channel_of_header, header) = next(FrameKind::Header)?;
        let ContentHeader { body_size, properties, .. } = ContentHeader::decode(header).ok()?;
        // Before the body: a publish with other properties is read once more, frame by frame.
        let persistent = properties.delivery_mode_alone()?;
        let (channel_of_body, body) = next(FrameKind::Body)?;
        let is_whole = body_size == body.len() as u64 && !body.is_empty();
        if channel_of_header != channel || channel_of_body != channel || !is_whole {
            return None;
        }
        let arguments = PublishArguments::decode(method).ok()?;
        Some(Self { channel, arguments, header, persistent, body, length })
    }
}

/// The arguments of `basic.deliver`.
#[derive(Clone, Copy, Debug)]
pub struct DeliverMethod<'a> {
    /// The consumer.
    pub consumer_tag: &'a [u8],
    /// What it acknowledges by.
    pub delivery_tag: u64,
    /// Whether somebody may have seen it before.
    pub redelivered: bool,
    /// Exchange and routing key as two short strings.
    pub route: &'a [u8],
}

/// Appends a whole delivery: method, header, body.
#[inline]
pub fn put_deliver(
    out: &mut Vec<u8>,
    channel: u16,
    method: &DeliverMethod<'_>,
    header: &[u8],
    body: &[u8],
    frame_max: usize,
) {
    let tag_length = u8::try_from(method.consumer_tag.len()).expect("consumer tags are short strings");
    let size = 4 + 1 + method.consumer_tag.len() + 9 + method.route.len();
    out.reserve(size + header.len() + body.len() + 3 * FRAME_OVERHEAD);
    let [h0, h1, h2, h3, h4, h5, h6] = head(FrameKind::Method, channel, size);
    out.extend_from_slice(&[h0, h1, h2, h3, h4, h5, h6, 0, 60, 0, 60, tag_length]);
    out.extend_from_slice(method.consumer_tag);
    let [t0, t1, t2, t3, t4, t5, t6, t7] = method.delivery_tag.to_be_bytes();
    out.extend_from_slice(&[t0, t1, t2, t3, t4, t5, t6, t7, u8::from(method.redelivered)]);
    out.extend_from_slice(method.route);
    out.push(FRAME_END);
    put_content(out, channel, header, body, frame_max);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Method, put_method};

    fn frames(mut wire: &[u8], frame_max: usize) -> Vec<Frame<'_>> {
        let mut all = Vec::new();
        while let Some((frame, used)) = decode_frame(wire, frame_max).unwrap() {
            all.push(frame);
            wire = &wire[used..];
        }
        assert!(wire.is_empty());
        all
    }

    #[test]
    fn a_publish_is_read_at_once_where_all_of_it_is_there_and_of_one_channel() {
        let publish = Method::BasicPublish {
            reserved_1: 0,
            exchange: ShortStr::cut("e"),
            routing_key: ShortStr::cut("k"),
            mandatory: true,
            immediate: false,
        };
        let of = |channels: [u16; 3], body_size, properties, body: &[u8]| {
            let mut wire = Vec::new();
            put_method(&mut wire, channels[0], &publish);
            put_header(&mut wire, channels[1], body_size, properties);
            put_frame(&mut wire, FrameKind::Body, channels[2], body);
            wire
        };
        let wire = |channels, body_size| of(channels, body_size, Properties::PERSISTENT, b"abc");
        let whole = wire([7; 3], 3);
        let followed = [&whole[..], &whole[..]].concat();
        let read = WholePublish::decode(&followed, 4096).unwrap();
        let all = frames(&whole, 4096);
        assert_eq!((read.channel, read.length), (7, whole.len()));
        assert_eq!(read.arguments, PublishArguments::decode(all[0].payload).unwrap());
        assert_eq!((read.header, read.persistent, read.body), (all[1].payload, true, &b"abc"[..]));
        for length in 0..whole.len() {
            assert_eq!(WholePublish::decode(&whole[..length], 4096), None);
        }
        let method_length = FRAME_OVERHEAD + all[0].payload.len();
        let header_length = FRAME_OVERHEAD + all[1].payload.len();
        let [mut ends_wrong, mut is_of_another_class] = [whole.clone(), whole.clone()];
        ends_wrong[method_length + header_length - 1] ^= 1;
        is_of_another_class[method_length + FRAME_OVERHEAD] ^= 1;
        let refused = [
            wire([7, 8, 7], 3),
            wire([7, 7, 8], 3),
            wire([7; 3], 4),
            // By frames it is complete before its body's frame, which then belongs to nothing.
            of([7; 3], 0, Properties::PERSISTENT, b""),
            of([7; 3], 3, Properties(&[0x80, 0, 1, b'a']), b"abc"),
            whole[method_length..].to_vec(),
            ends_wrong,
            is_of_another_class,
        ];
        for other in refused {
            assert_eq!(WholePublish::decode(&other, 4096), None, "{other:?}");
        }
        assert_eq!(
            WholePublish::decode(&whole, header_length - 1),
            None,
            "a frame that is larger than the largest"
        );
    }

    #[test]
    fn a_delivery_reads_back_and_large_bodies_are_split() {
        let header = [0, 60, 0, 0, 0, 0, 0, 0, 0, 0, 39, 16, 0, 0];
        let body = vec![7; 10_000];
        let method =
            DeliverMethod { consumer_tag: b"c", delivery_tag: 9, redelivered: true, route: b"\x01e\x02rk" };
        let mut wire = Vec::new();
        put_deliver(&mut wire, 3, &method, &header, &body, 4096);
        let frames = frames(&wire, 4096);
        assert_eq!(
            Method::decode(frames[0].payload).unwrap(),
            Method::BasicDeliver {
                consumer_tag: ShortStr::cut("c"),
                delivery_tag: 9,
                redelivered: true,
                exchange: ShortStr::cut("e"),
                routing_key: ShortStr::cut("rk"),
            }
        );
        assert_eq!(ContentHeader::decode(frames[1].payload).unwrap().body_size, 10_000);
        let sizes: Vec<usize> = frames[2..].iter().map(|frame| frame.payload.len()).collect();
        assert_eq!(sizes, [4088, 4088, 1824]);
    }

    #[test]
    fn an_empty_body_has_no_body_frame() {
        let mut wire = Vec::new();
        put_content(&mut wire, 1, &[0; 14], &[], 4096);
        assert_eq!(frames(&wire, 4096).len(), 1);
    }

    #[test]
    fn the_delivery_mode_is_found_among_other_properties() {
        // content-type "a", delivery-mode 2, user-id "u"
        let properties = Properties(&[0x90, 0x10, 1, b'a', 2, 1, b'u']);
        let found = properties.for_broker().unwrap();
        assert_eq!((found.persistent, found.user_id), (true, Some(&b"u"[..])));
        // headers, priority 7, expiration "60"
        let headers = [0x29, 0, 0, 0, 0, 4, 1, b'a', b't', 1, 7, 2, b'6', b'0'];
        let found = Properties(&headers).for_broker().unwrap();
        assert_eq!(found.expiration, Some(&b"60"[..]));
        assert_eq!(found.headers.get("a"), Some(crate::Value::Bool(true)));
        assert!(Properties::PERSISTENT.for_broker().unwrap().persistent);
        assert!(!Properties::NONE.for_broker().unwrap().persistent);
        assert!(!Properties(&[0x10, 0, 1]).for_broker().unwrap().persistent);
    }

    #[test]
    fn headers_are_replaced_and_the_other_properties_stay() {
        let table = crate::TableBuilder::new().truth("x", true);
        // content-type "a", headers, priority 7, expiration "60", user-id "u"
        let all = [0xa9, 0x10, 1, b'a', 0, 0, 0, 4, 1, b'a', b't', 1, 7, 2, b'6', b'0', 1, b'u'];
        let new = [0, 0, 0, 4, 1, b'x', b't', 1];
        assert_eq!(
            Properties(&all).with_headers(table.as_table(), false).unwrap(),
            [&[0xa8, 0x10, 1, b'a'][..], &new, &[7, 1, b'u']].concat()
        );
        assert_eq!(
            Properties(&all).with_headers(Table::default(), true).unwrap(),
            [0x89, 0x10, 1, b'a', 7, 2, b'6', b'0', 1, b'u']
        );
        // Headers where there were none: behind what is in front of them, and alone.
        let first = Properties(&[0x80, 0, 1, b'a']).with_headers(table.as_table(), true).unwrap();
        assert_eq!(first, [&[0xa0, 0, 1, b'a'][..], &new].concat());
        let last = Properties(&[0x10, 0, 2]).with_headers(table.as_table(), true).unwrap();
        assert_eq!(last, [&[0x30, 0][..], &new, &[2]].concat());
        assert!(Properties(&[0x80, 0, 9]).with_headers(table.as_table(), true).is_err());
    }

    #[test]
    fn malformed_properties_are_a_syntax_error() {
        for bytes in [&[0x80, 0, 9][..], &[0, 1][..], &[0, 0, 1][..], &[0x20, 0, 0, 0, 0, 1, 5][..]] {
            let error = Properties(bytes).check().unwrap_err();
            assert_eq!(error.reply_code().number(), 502, "{bytes:?}");
        }
    }

    #[test]
    fn a_header_of_another_class_is_unexpected() {
        assert_eq!(ContentHeader::decode(&[0, 61, 0, 0]), Err(DecodeError::HeaderClass(61)));
    }
}
