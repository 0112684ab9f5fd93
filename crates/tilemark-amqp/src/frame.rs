//! Frames: kind, channel, size, payload, end octet.

use crate::{DecodeError, Encoder, Method};

/// What a client says first: protocol 0-9-1.
pub const PROTOCOL_HEADER: [u8; 8] = *b"AMQP\x00\x00\x09\x01";
/// Seven octets in front of the payload and one behind it.
pub const FRAME_OVERHEAD: usize = 8;
/// No peer may negotiate less (specification, `frame-min-size`).
pub const FRAME_MIN_SIZE: usize = 4096;
const FRAME_END: u8 = 206;

/// What a frame carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// A method and its arguments.
    Method,
    /// The size and the properties of a content.
    Header,
    /// Some or all of a content's bytes.
    Body,
    /// "I am still here".
    Heartbeat,
}

impl FrameKind {
    const fn octet(self) -> u8 {
        match self {
            Self::Method => 1,
            Self::Header => 2,
            Self::Body => 3,
            Self::Heartbeat => 8,
        }
    }
}

/// One frame, borrowed from the receive buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame<'a> {
    /// What it carries.
    pub kind: FrameKind,
    /// The channel; 0 is the connection itself.
    pub channel: u16,
    /// What is between its head and its end octet.
    pub payload: &'a [u8],
}

/// Reads the frame at the start of `bytes`: it and its whole length, or `None` while bytes are missing.
///
/// A kind that does not exist and a size beyond `frame_max` are refused as soon as they can be seen, not when the whole
/// frame has arrived.
#[inline]
pub fn decode_frame(bytes: &[u8], frame_max: usize) -> Result<Option<(Frame<'_>, usize)>, DecodeError> {
    let Some((head, rest)) = bytes.split_first_chunk::<7>() else {
        return match bytes.first() {
            Some(&octet) => kind(octet).map(|_| None),
            None => Ok(None),
        };
    };
    let kind = kind(head[0])?;
    let channel = u16::from_be_bytes([head[1], head[2]]);
    let size = u32::from_be_bytes([head[3], head[4], head[5], head[6]]) as usize;
    if size > frame_max.saturating_sub(FRAME_OVERHEAD) {
        return Err(DecodeError::FrameTooLarge {
            size: size as u64 + FRAME_OVERHEAD as u64,
            limit: frame_max,
        });
    }
    match rest.get(size) {
        None => Ok(None),
        Some(&FRAME_END) => {
            Ok(Some((Frame { kind, channel, payload: &rest[..size] }, size + FRAME_OVERHEAD)))
        }
        Some(&other) => Err(DecodeError::FrameEnd(other)),
    }
}

#[inline]
const fn kind(octet: u8) -> Result<FrameKind, DecodeError> {
    match octet {
        1 => Ok(FrameKind::Method),
        2 => Ok(FrameKind::Header),
        3 => Ok(FrameKind::Body),
        8 => Ok(FrameKind::Heartbeat),
        _ => Err(DecodeError::FrameKind(octet)),
    }
}

/// Head of a frame whose payload has `size` bytes.
#[inline]
pub(crate) fn head(kind: FrameKind, channel: u16, size: usize) -> [u8; 7] {
    let [c0, c1] = channel.to_be_bytes();
    let [s0, s1, s2, s3] =
        u32::try_from(size).expect("payloads are split below the frame limit").to_be_bytes();
    [kind.octet(), c0, c1, s0, s1, s2, s3]
}

/// Appends a frame with that payload.
#[inline]
pub fn put_frame(out: &mut Vec<u8>, kind: FrameKind, channel: u16, payload: &[u8]) {
    out.reserve(payload.len() + FRAME_OVERHEAD);
    out.extend_from_slice(&head(kind, channel, payload.len()));
    out.extend_from_slice(payload);
    out.push(FRAME_END);
}

/// Appends a method in its frame.
pub fn put_method(out: &mut Vec<u8>, channel: u16, method: &Method<'_>) {
    let start = out.len();
    out.extend_from_slice(&head(FrameKind::Method, channel, 0));
    method.encode(&mut Encoder::new(out));
    let size = out.len() - start - 7;
    out[start..start + 7].copy_from_slice(&head(FrameKind::Method, channel, size));
    out.push(FRAME_END);
}

/// Appends a heartbeat.
pub fn put_heartbeat(out: &mut Vec<u8>) {
    put_frame(out, FrameKind::Heartbeat, 0, &[]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_is_read_only_when_it_is_whole() {
        let mut wire = Vec::new();
        put_frame(&mut wire, FrameKind::Body, 513, b"abc");
        for length in 0..wire.len() {
            assert_eq!(decode_frame(&wire[..length], 4096), Ok(None));
        }
        let (frame, used) = decode_frame(&wire, 4096).unwrap().unwrap();
        assert_eq!(frame, Frame { kind: FrameKind::Body, channel: 513, payload: b"abc" });
        assert_eq!(used, 11);
    }

    #[test]
    fn an_oversized_frame_is_refused_from_its_head_alone() {
        let wire = head(FrameKind::Body, 1, 4089);
        assert_eq!(decode_frame(&wire, 4096), Err(DecodeError::FrameTooLarge { size: 4097, limit: 4096 }));
        assert_eq!(decode_frame(&head(FrameKind::Body, 1, 4088), 4096), Ok(None));
    }

    #[test]
    fn a_wrong_kind_or_end_is_a_frame_error() {
        assert_eq!(decode_frame(b"G", 4096), Err(DecodeError::FrameKind(b'G')));
        let mut wire = Vec::new();
        put_heartbeat(&mut wire);
        wire[7] = 0;
        let error = decode_frame(&wire, 4096).unwrap_err();
        assert_eq!(error, DecodeError::FrameEnd(0));
        assert_eq!(error.reply_code().number(), 501);
    }
}
