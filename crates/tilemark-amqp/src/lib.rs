//! AMQP 0-9-1 on the wire: a codec for the hot path.
//!
//! Client and server read and write through the same functions. Nothing allocates per message: frames, methods, strings
//! and tables borrow from the receive buffer, and writers append to a buffer that the caller keeps. Many frames go into one
//! write ([`PublishBatch`], [`put_deliver`]); acknowledgements travel as ranges ([`ConfirmWindow`]). A frame that breaks a rule
//! is refused with the protocol's own reply code ([`DecodeError::reply_code`]).
//!
//! ```
//! use tilemark_amqp::{Method, decode_frame, put_method};
//! let mut wire = Vec::new();
//! put_method(&mut wire, 1, &Method::BasicAck { delivery_tag: 7, multiple: true });
//! let (frame, used) = decode_frame(&wire, 131_072)?.expect("the frame is complete");
//! assert_eq!(used, wire.len());
//! assert_eq!(Method::decode(frame.payload)?, Method::BasicAck { delivery_tag: 7, multiple: true });
//! # Ok::<(), tilemark_amqp::DecodeError>(())
//! ```

mod batch;
mod codes;
mod content;
mod error;
mod frame;
mod inbox;
mod method;
mod table;
mod window;
mod wire;

pub use batch::PublishBatch;
pub use codes::{ReplyCode, Scope};
pub use content::{
    BrokerProperties, ContentHeader, DeliverMethod, Properties, WholePublish, put_content, put_deliver,
    put_header, put_header_payload,
};
pub use error::DecodeError;
pub use frame::{
    FRAME_MIN_SIZE, FRAME_OVERHEAD, Frame, FrameKind, PROTOCOL_HEADER, decode_frame, put_frame,
    put_heartbeat, put_method,
};
pub use inbox::Inbox;
pub use method::{BASIC_CLASS, Method, PublishArguments};
pub use table::{Array, Table, TableBuilder, Value};
pub use window::{ConfirmWindow, Confirmation};
pub use wire::{Decoder, Encoder, LongStr, ShortStr};
