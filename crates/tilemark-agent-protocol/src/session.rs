//! The beginning of a conversation, and requests with their replies.

use crate::{
    frame::{FrameError, read_frame, write_frame},
    message::{Reply, Request},
};
use std::io::{Read, Write};

/// The first bytes of a session. No frame begins like this: as a length it is far over the limit.
pub const MAGIC: [u8; 8] = *b"TILEMARK";
/// Raised when a message changes its meaning.
pub const PROTOCOL_VERSION: u32 = 10;
/// Bytes of a hello: magic, version, nonce.
pub const HELLO_BYTES: usize = 20;

/// What both ends say first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello {
    /// Version of the speaker's protocol.
    pub version: u32,
    /// Chosen by the host, returned by the agent.
    pub nonce: u64,
}

impl Hello {
    /// Its bytes.
    pub fn to_bytes(self) -> [u8; HELLO_BYTES] {
        let mut bytes = [0; HELLO_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&self.version.to_be_bytes());
        bytes[12..].copy_from_slice(&self.nonce.to_be_bytes());
        bytes
    }
    /// From its bytes; `None` if they don't begin with the magic.
    pub fn from_bytes(bytes: &[u8; HELLO_BYTES]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let version = u32::from_be_bytes(rest[..4].try_into().expect("four of twelve bytes"));
        let nonce = u64::from_be_bytes(rest[4..].try_into().expect("eight of twelve bytes"));
        Some(Self { version, nonce })
    }
}

/// A conversation that did not begin.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The stream ended or broke.
    #[error("the channel broke")]
    Stream(#[from] std::io::Error),
    /// What came back is no hello with our nonce.
    #[error("the agent did not answer the nonce {sent:#x}")]
    WrongNonce {
        /// What was sent.
        sent: u64,
    },
    /// The agent speaks another version.
    #[error("the agent speaks protocol {agent} and this program {PROTOCOL_VERSION}")]
    WrongVersion {
        /// The agent's version.
        agent: u32,
    },
    /// A frame was bad.
    #[error(transparent)]
    Frame(#[from] FrameError),
}

/// The host's end of a conversation.
#[derive(Debug)]
pub struct Session<S> {
    stream: S,
}

impl<S: Read + Write> Session<S> {
    /// Says hello and waits for the agent's. Bytes of an older session are skipped until its magic comes.
    /// Time limits are the stream's own.
    pub fn open(mut stream: S, nonce: u64) -> Result<Self, SessionError> {
        stream.write_all(&Hello { version: PROTOCOL_VERSION, nonce }.to_bytes())?;
        stream.flush()?;
        let mut window = [0; HELLO_BYTES];
        stream.read_exact(&mut window)?;
        // An older session can have left less than a longest frame on the way.
        for _ in 0..2 * crate::FRAME_BYTES_MAX {
            match Hello::from_bytes(&window) {
                Some(hello) if hello.nonce == nonce && hello.version == PROTOCOL_VERSION => {
                    return Ok(Self { stream });
                }
                Some(hello) if hello.nonce == nonce => {
                    return Err(SessionError::WrongVersion { agent: hello.version });
                }
                _ => {
                    window.copy_within(1.., 0);
                    stream.read_exact(&mut window[HELLO_BYTES - 1..])?;
                }
            }
        }
        Err(SessionError::WrongNonce { sent: nonce })
    }

    /// Asks and waits for the reply.
    pub fn ask(&mut self, request: &Request) -> Result<Reply, FrameError> {
        self.send(request)?;
        self.receive()
    }

    /// Sends a request and does not wait.
    pub fn send(&mut self, request: &Request) -> Result<(), FrameError> {
        write_frame(&mut self.stream, request)
    }

    /// Waits for the next reply or event.
    pub fn receive(&mut self) -> Result<Reply, FrameError> {
        read_frame(&mut self.stream)
    }

    /// The stream itself, for an end that reads and writes in different threads.
    pub fn into_stream(self) -> S {
        self.stream
    }

    /// The stream, to set its time limits.
    pub fn stream(&self) -> &S {
        &self.stream
    }

    /// The stream, to set its time limits.
    pub fn stream_mut(&mut self) -> &mut S {
        &mut self.stream
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{self, Cursor};

    struct Scripted {
        incoming: Cursor<Vec<u8>>,
        outgoing: Vec<u8>,
    }
    impl Read for Scripted {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            self.incoming.read(buffer)
        }
    }
    impl Write for Scripted {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.outgoing.write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    fn answered_with(bytes: Vec<u8>) -> Result<Session<Scripted>, SessionError> {
        Session::open(Scripted { incoming: Cursor::new(bytes), outgoing: Vec::new() }, 7)
    }

    #[test]
    fn bytes_of_an_older_session_are_skipped() {
        let mut bytes = b"half a frame TILEM".to_vec();
        bytes.extend(Hello { version: PROTOCOL_VERSION, nonce: 6 }.to_bytes());
        bytes.extend(Hello { version: PROTOCOL_VERSION, nonce: 7 }.to_bytes());
        assert!(answered_with(bytes).is_ok());
    }

    #[test]
    fn an_agent_of_another_version_is_named() {
        let other = PROTOCOL_VERSION + 1;
        let bytes = Hello { version: other, nonce: 7 }.to_bytes().to_vec();
        let error = answered_with(bytes).err();
        assert!(matches!(error, Some(SessionError::WrongVersion { agent }) if agent == other), "{error:?}");
    }

    #[test]
    fn another_nonce_is_no_answer() {
        let bytes = Hello { version: PROTOCOL_VERSION, nonce: 8 }.to_bytes().to_vec();
        assert!(matches!(answered_with(bytes), Err(SessionError::Stream(_))));
    }
}
