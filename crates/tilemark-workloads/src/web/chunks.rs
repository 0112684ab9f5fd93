//! A body in chunks (RFC 9112, section 7.1): which bytes of what comes are the body's.

/// Bytes of a line of a chunk's size, or of a trailer, that are read.
const LINE_MAX: usize = 4096;
/// Digits of a size: no more than fit 60 bits.
const DIGITS_MAX: u32 = 15;

/// How far a body in chunks has come.
#[derive(Debug, Clone, Copy)]
pub(super) struct Chunks {
    state: State,
    /// Bytes of the line that is read.
    line: usize,
}

#[derive(Debug, Clone, Copy)]
enum State {
    /// The digits of a chunk's size.
    Size { size: u64, digits: u32 },
    /// What may follow them, to the end of the line.
    Extension { size: u64 },
    /// Bytes of the body that are left.
    Data { left: u64 },
    /// The end of the line after a chunk.
    AfterData,
    /// Lines after the last chunk; the last one is empty.
    Trailer { is_empty: bool },
}

/// What was next.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece<'b> {
    /// Nothing of the body.
    None,
    /// Bytes of the body.
    Data(&'b [u8]),
    /// The body is whole.
    End,
    /// These are no chunks.
    Malformed,
}

impl Chunks {
    pub(super) const fn new() -> Self {
        Self { state: State::Size { size: 0, digits: 0 }, line: 0 }
    }

    /// Takes one byte of what is no body, or all that there is of a chunk. `bytes` is not empty.
    pub(super) fn next<'b>(&mut self, bytes: &mut &'b [u8]) -> Piece<'b> {
        if let State::Data { left } = self.state {
            let count = bytes.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let (data, rest) = bytes.split_at(count);
            *bytes = rest;
            let left = left - count as u64;
            self.state = if left == 0 { State::AfterData } else { State::Data { left } };
            self.line = 0;
            return Piece::Data(data);
        }
        let Some((byte, rest)) = bytes.split_first() else { return Piece::None };
        *bytes = rest;
        self.line += 1;
        if self.line > LINE_MAX { Piece::Malformed } else { self.take(*byte) }
    }

    fn take<'b>(&mut self, byte: u8) -> Piece<'b> {
        self.state = match (self.state, byte) {
            (State::Size { size, digits }, _) if byte.is_ascii_hexdigit() && digits < DIGITS_MAX => {
                let digit = char::from(byte).to_digit(16).unwrap_or_default();
                State::Size { size: size * 16 + u64::from(digit), digits: digits + 1 }
            }
            (State::Size { size, digits: 1.. }, b'\r' | b';' | b' ' | b'\t') => State::Extension { size },
            (State::Size { size, digits: 1.. } | State::Extension { size }, b'\n') => {
                self.line = 0;
                if size == 0 { State::Trailer { is_empty: true } } else { State::Data { left: size } }
            }
            (State::Extension { size }, _) => State::Extension { size },
            (State::AfterData, b'\r') => State::AfterData,
            (State::AfterData, b'\n') => {
                self.line = 0;
                State::Size { size: 0, digits: 0 }
            }
            (State::Trailer { is_empty: true }, b'\n') => return Piece::End,
            (State::Trailer { is_empty: false }, b'\n') => State::Trailer { is_empty: true },
            (State::Trailer { is_empty }, b'\r') => State::Trailer { is_empty },
            (State::Trailer { .. }, _) => State::Trailer { is_empty: false },
            _ => return Piece::Malformed,
        };
        Piece::None
    }
}
