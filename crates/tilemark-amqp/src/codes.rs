//! The reply codes of AMQP 0-9-1, section 1.2 "constants" of the specification.

/// What an exception ends: one channel or the whole connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// A "soft error": the channel is closed, the connection goes on.
    Channel,
    /// A "hard error": the connection is closed.
    Connection,
}

/// Why a peer closes a channel or a connection, by its number on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ReplyCode {
    /// A normal end.
    Success = 200,
    /// The content is larger than the server takes.
    ContentTooLarge = 311,
    /// A mandatory message found no queue.
    NoRoute = 312,
    /// An operator closed the connection.
    ConnectionForced = 320,
    /// Wrong password, or a name that the client may not use.
    AccessRefused = 403,
    /// No such queue or exchange.
    NotFound = 404,
    /// Another connection holds the queue exclusively.
    ResourceLocked = 405,
    /// The object exists and is declared otherwise, or a tag is unknown.
    PreconditionFailed = 406,
    /// A frame that cannot be decoded.
    FrameError = 501,
    /// A frame whose fields are malformed.
    SyntaxError = 502,
    /// A method that is invalid in this state.
    CommandInvalid = 503,
    /// The channel is not open, or is open already.
    ChannelError = 504,
    /// A frame that was not expected here, such as a body without its header.
    UnexpectedFrame = 505,
    /// The server is out of a resource.
    ResourceError = 506,
    /// Not allowed by the settings, such as an unknown virtual host.
    NotAllowed = 530,
    /// Not implemented by this server.
    NotImplemented = 540,
    /// The server failed.
    InternalError = 541,
}

impl ReplyCode {
    const ALL: [Self; 17] = [
        Self::Success,
        Self::ContentTooLarge,
        Self::NoRoute,
        Self::ConnectionForced,
        Self::AccessRefused,
        Self::NotFound,
        Self::ResourceLocked,
        Self::PreconditionFailed,
        Self::FrameError,
        Self::SyntaxError,
        Self::CommandInvalid,
        Self::ChannelError,
        Self::UnexpectedFrame,
        Self::ResourceError,
        Self::NotAllowed,
        Self::NotImplemented,
        Self::InternalError,
    ];

    /// The number on the wire.
    pub const fn number(self) -> u16 {
        self as u16
    }

    /// The code of a number from the wire; `None` for numbers that the specification does not have.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|code| code.number() == number)
    }

    /// The name that the specification gives it, in capitals as brokers print it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Success => "REPLY_SUCCESS",
            Self::ContentTooLarge => "CONTENT_TOO_LARGE",
            Self::NoRoute => "NO_ROUTE",
            Self::ConnectionForced => "CONNECTION_FORCED",
            Self::AccessRefused => "ACCESS_REFUSED",
            Self::NotFound => "NOT_FOUND",
            Self::ResourceLocked => "RESOURCE_LOCKED",
            Self::PreconditionFailed => "PRECONDITION_FAILED",
            Self::FrameError => "FRAME_ERROR",
            Self::SyntaxError => "SYNTAX_ERROR",
            Self::CommandInvalid => "COMMAND_INVALID",
            Self::ChannelError => "CHANNEL_ERROR",
            Self::UnexpectedFrame => "UNEXPECTED_FRAME",
            Self::ResourceError => "RESOURCE_ERROR",
            Self::NotAllowed => "NOT_ALLOWED",
            Self::NotImplemented => "NOT_IMPLEMENTED",
            Self::InternalError => "INTERNAL_ERROR",
        }
    }

    /// Whether the specification calls it a soft error (channel) or a hard one (connection).
    pub const fn scope(self) -> Scope {
        if self.number() >= 500 || matches!(self, Self::ConnectionForced) {
            Scope::Connection
        } else {
            Scope::Channel
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_leads_back_to_its_code() {
        for code in ReplyCode::ALL {
            assert_eq!(ReplyCode::from_number(code.number()), Some(code));
        }
        assert_eq!(ReplyCode::from_number(999), None);
    }

    #[test]
    fn hard_errors_close_the_connection_and_soft_ones_the_channel() {
        let of = |scope| -> Vec<u16> {
            let mut numbers: Vec<u16> = ReplyCode::ALL
                .into_iter()
                .filter(|code| code.scope() == scope)
                .map(ReplyCode::number)
                .collect();
            numbers.sort_unstable();
            numbers
        };
        assert_eq!(of(Scope::Channel), [200, 311, 312, 403, 404, 405, 406]);
        assert_eq!(of(Scope::Connection), [320, 501, 502, 503, 504, 505, 506, 530, 540, 541]);
    }
}
