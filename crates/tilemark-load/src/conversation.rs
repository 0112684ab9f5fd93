//! What a workload gives the engine: one conversation for each connection.

use tilemark_agent_protocol::Stream;

/// Makes the conversations of one kind of work. Used before the load begins, never in its hot path.
pub trait Factory: Sync {
    /// The conversation of connection `connection` (counted from 0) of a stream.
    fn conversation(&self, stream: &Stream, connection: u32) -> Box<dyn Conversation>;
}

/// One connection's requests and answers. There is at most one request under way.
///
/// The engine calls `connected` after each connect, then, if that said [`Progress::Ready`] or as soon as
/// `received` does, `request` and `received` in turn. Nothing here may wait, and `request` and `received`
/// should not allocate.
pub trait Conversation: Send {
    /// A fresh connection stands: forget the old one. May write a greeting to `out`; [`Progress::Ready`] lets
    /// requests begin, [`Progress::More`] waits for what `received` makes of the peer's greeting.
    fn connected(&mut self, out: &mut Vec<u8>) -> Progress;
    /// Writes the next request to `out`, which is empty.
    fn request(&mut self, out: &mut Vec<u8>);
    /// Takes all of `bytes`. May write more to `out`, where an operation takes several messages.
    fn received(&mut self, bytes: &[u8], out: &mut Vec<u8>) -> Progress;
    /// In words, why the last answer was not right. Asked for the first few errors only.
    fn explain(&self) -> String;
}

/// How far a conversation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// The greeting is over: requests may be sent.
    Ready,
    /// The answer is complete; the connection can be used again.
    Answered(Answer),
    /// The answer is complete, and the peer will close: the connection is made anew.
    Last(Answer),
    /// What came can't be understood: the request ends like this and the connection is made anew.
    Broken(Verdict),
}

/// One complete answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Whether it was right.
    pub verdict: Verdict,
    /// Bytes of its body.
    pub body_bytes: u64,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Answered, rightly.
    Right,
    /// Answered with other bytes than those that are right.
    Wrong,
    /// Not answered, or with an error.
    Failed,
}
