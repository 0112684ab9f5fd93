//! The receive buffer of one peer.

use crate::{DecodeError, Frame, decode_frame};

/// Bytes as they come in, frames as they become whole. One buffer for the life of a connection.
#[derive(Debug)]
pub struct Inbox {
    buffer: Vec<u8>,
    start: usize,
    end: usize,
    frame_max: usize,
}

impl Inbox {
    /// A buffer of `capacity` bytes, never less than two frames of `frame_max`.
    pub fn new(capacity: usize, frame_max: usize) -> Self {
        Self { buffer: vec![0; capacity.max(2 * frame_max)], start: 0, end: 0, frame_max }
    }

    /// Where the next bytes go; never empty once all whole frames were taken. Call [`Inbox::received`] with how many came.
    pub fn space(&mut self) -> &mut [u8] {
        if self.start == self.end {
            self.start = 0;
            self.end = 0;
        } else if self.buffer.len() - self.end < self.frame_max {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        &mut self.buffer[self.end..]
    }

    /// Counts bytes that were put into [`Inbox::space`].
    pub fn received(&mut self, count: usize) {
        self.end = (self.end + count).min(self.buffer.len());
    }

    /// The next whole frame, if there is one.
    #[inline]
    pub fn next_frame(&mut self) -> Result<Option<Frame<'_>>, DecodeError> {
        let Some((frame, used)) = decode_frame(&self.buffer[self.start..self.end], self.frame_max)? else {
            return Ok(None);
        };
        self.start += used;
        Ok(Some(frame))
    }
}
