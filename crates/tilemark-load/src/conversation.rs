//! What a workload gives the engine: one conversation for each connection.

use crate::Tls;
use tilemark_agent_protocol::Stream;

/// Makes the conversations of one kind of work. Used before the load begins, never in its hot path.
pub trait Factory: Sync {
    /// The conversation of connection `connection` (counted from 0) of a stream.
    fn conversation(&self, stream: &Stream, connection: u32) -> Box<dyn Conversation>;

    /// Any resting connection takes the next request, by chance, instead of the one that has rested longest. With a Poisson schedule and one
    /// worker the pauses of each connection are then exponentially distributed too: a Poisson process that is split by chance gives Poisson
    /// processes. Several workers take the requests of one schedule in turn, so their connections pause a little more regularly.
    fn draws_connections(&self) -> bool {
        false
    }
}

/// One connection's requests and answers. There is at most one request in flight. Most use one wire, which is a TCP connection; an
/// operation that takes several at the same time, as a page with its files does, has more.
///
/// The engine calls `connected` for each wire after each connect. When each has said [`Progress::Ready`], there or in `received`, it calls
/// `request` and `received` in turn. Nothing here may wait, and `request` and `received` should not allocate.
pub trait Conversation: Send {
    /// How many wires it has.
    fn wires(&self) -> usize {
        1
    }
    /// Bytes of the kernel's receive buffer of each wire. Default: as the kernel likes.
    fn receive_buffer(&self) -> Option<usize> {
        None
    }
    /// How its wires are secured. Default: not at all. The conversation itself sees plain text.
    fn tls(&self) -> Option<&Tls> {
        None
    }
    /// A wire is connected again: forget the old one. May write a greeting to `out`; [`Progress::Ready`] lets
    /// requests begin, [`Progress::More`] waits for what `received` makes of the peer's greeting.
    fn connected(&mut self, wire: usize, out: &mut Vec<u8>) -> Progress;
    /// Writes the next request to the outs of its wires, which are empty.
    fn request(&mut self, outs: &mut [Vec<u8>]);
    /// Takes all of `bytes`, which came on a wire. May write more to the outs, where an operation takes several messages.
    fn received(&mut self, wire: usize, bytes: &[u8], outs: &mut [Vec<u8>]) -> Progress;
    /// In words, why the last answer was not right. Asked for the first few errors only.
    fn explain(&self) -> String;
}

/// How far a conversation has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// More bytes are needed.
    More,
    /// More bytes are needed, and none is read on this wire for so many nanoseconds.
    Pause(u64),
    /// The answer is complete, and a line as slow as is wanted would have received it only after so many nanoseconds: then it counts.
    Held {
        /// The answer.
        answer: Answer,
        /// The connection is at its end.
        closes: bool,
        /// Nanoseconds from now.
        length: u64,
    },
    /// The greeting on this wire is over: requests may be sent.
    Ready,
    /// The answer is complete; the connection can be used again.
    Answered(Answer),
    /// The answer is complete, and the peer will close: the connection is made again.
    Last(Answer),
    /// What came can't be understood: the request ends like this and the connection is made again.
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
    /// Answered correctly.
    Right,
    /// Answered with other bytes than those that are right.
    Wrong,
    /// Not answered, or with an error.
    Failed,
}
