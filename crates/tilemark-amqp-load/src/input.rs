//! What a broker may say at any time.

use tilemark_amqp::{Frame, FrameKind, Method};

use crate::LoadError;

/// A frame from a broker that is not the end of everything.
#[derive(Debug)]
pub(crate) enum Notice<'a> {
    Method(Method<'a>),
    /// Publishers must wait.
    Blocked(String),
    Unblocked,
    /// A content header or body, or a heartbeat.
    Other,
}

/// Reads a frame; a close becomes an error.
pub(crate) fn interpret<'a>(frame: &Frame<'a>) -> Result<Notice<'a>, LoadError> {
    if frame.kind != FrameKind::Method {
        return Ok(Notice::Other);
    }
    Ok(match Method::decode(frame.payload).map_err(LoadError::Malformed)? {
        Method::ConnectionClose { reply_code, reply_text, .. } => {
            return Err(LoadError::Closed { code: reply_code, text: reply_text.to_string() });
        }
        Method::ChannelClose { reply_code, reply_text, .. } => {
            return Err(LoadError::ChannelClosed { code: reply_code, text: reply_text.to_string() });
        }
        Method::BasicCancel { consumer_tag, .. } => {
            let text = format!("consumer {consumer_tag} was cancelled: its queue is gone");
            return Err(LoadError::ChannelClosed { code: 404, text });
        }
        Method::ConnectionBlocked { reason } => Notice::Blocked(reason.to_string()),
        Method::ConnectionUnblocked {} => Notice::Unblocked,
        method => Notice::Method(method),
    })
}
