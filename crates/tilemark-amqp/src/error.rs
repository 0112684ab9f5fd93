//! What can be wrong with bytes from a peer.

use crate::ReplyCode;

/// Bytes that are not AMQP 0-9-1. The peer is at fault; [`DecodeError::reply_code`] is the code for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    /// The first octet of a frame is none of 1, 2, 3, 8.
    #[error("frame of unknown kind {0}")]
    FrameKind(u8),
    /// The frame is larger than was negotiated.
    #[error("frame of {size} bytes is larger than the negotiated {limit}")]
    FrameTooLarge {
        /// Whole frame, bytes.
        size: u64,
        /// Negotiated limit, bytes.
        limit: usize,
    },
    /// The frame does not end with octet 206.
    #[error("frame ends with octet {0} and not with 206")]
    FrameEnd(u8),
    /// The fields end before the method does.
    #[error("the fields of a frame end early")]
    Truncated,
    /// Octets are left after the last field.
    #[error("{0} bytes follow the last field of a frame")]
    Trailing(usize),
    /// A table holds a value of a kind that does not exist, or nests too deep.
    #[error("malformed table")]
    Table,
    /// A method that AMQP 0-9-1 does not have.
    #[error("unknown method {class}.{method}")]
    UnknownMethod {
        /// Class id.
        class: u16,
        /// Method id.
        method: u16,
    },
    /// A content header of a class other than basic.
    #[error("content header of class {0} and not of class basic (60)")]
    HeaderClass(u16),
}

impl DecodeError {
    /// The code with which the specification answers this.
    pub const fn reply_code(&self) -> ReplyCode {
        match self {
            Self::FrameKind(_) | Self::FrameTooLarge { .. } | Self::FrameEnd(_) => ReplyCode::FrameError,
            Self::Truncated | Self::Trailing(_) | Self::Table => ReplyCode::SyntaxError,
            Self::UnknownMethod { .. } => ReplyCode::CommandInvalid,
            Self::HeaderClass(_) => ReplyCode::UnexpectedFrame,
        }
    }

    /// What the reader should do.
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::FrameKind(_) | Self::FrameEnd(_) => {
                "check that both ends speak AMQP 0-9-1 without TLS on this port"
            }
            Self::FrameTooLarge { .. } => {
                "use a client that keeps to the frame size agreed in connection.tune"
            }
            Self::Truncated | Self::Trailing(_) | Self::Table | Self::HeaderClass(_) => {
                "use a client whose AMQP 0-9-1 encoder follows the specification"
            }
            Self::UnknownMethod { .. } => {
                "use a client for AMQP 0-9-1; 0-8, 0-10 and 1.0 are other protocols"
            }
        }
    }
}
