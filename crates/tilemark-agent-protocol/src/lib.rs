//! What the host and the agent say to each other, over any byte stream.
//!
//! ```text
//! host                                   agent
//!  magic, version, nonce  ------------->  drops any older session and its partial frames
//!                         <-------------  magic, version, the same nonce
//!  Request                ------------->
//!                         <-------------  Reply (one for each request, in order), and for a running
//!                                         load any number of LoadEvents before the last
//! ```
//! A frame is a length (32 bits, big endian, at most [`FRAME_BYTES_MAX`]) and so many bytes of postcard.
//! The host treats the agent as hostile: lengths are checked before anything is allocated.

mod frame;
mod load;
mod message;
mod session;

pub use frame::{FRAME_BYTES_MAX, FrameError, read_frame, write_frame};
pub use load::*;
pub use message::*;
pub use session::{HELLO_BYTES, Hello, MAGIC, PROTOCOL_VERSION, Session, SessionError};
