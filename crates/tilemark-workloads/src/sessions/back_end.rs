//! The back end: what the pages of all web servers of a tile ask. It counts the pages of each session and adds up their values, in memory,
//! so that it never limits.
//!
//! A line `SESSION VALUE` is answered by a line `PAGES SUM`.

use std::{
    collections::HashMap,
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

/// The port that it listens on.
pub const BACK_END_PORT: u16 = 8080;
/// Sessions of which it knows at most twice as many: nobody reports when one is over.
const SESSIONS_KEPT: usize = 200_000;
/// Bytes of a line: a session, a space, a value.
const LINE_MAX: u64 = 64;
/// A pause after a connection that could not be taken.
const ACCEPT_AGAIN_AFTER: Duration = Duration::from_millis(10);
/// Threads, one for each connection of a web server.
const STACK_BYTES: usize = 128 * 1024;

/// A running back end. Dropped, it takes no more connections.
pub struct BackEnd {
    address: SocketAddr,
    is_over: Arc<AtomicBool>,
}

/// Pages and the sum of their values.
type Visits = (u64, u64);

/// What is known of each session. When the young ones are too many they become the old ones, and the old ones are forgotten.
#[derive(Default)]
pub(super) struct Sessions {
    young: HashMap<u64, Visits>,
    old: HashMap<u64, Visits>,
}

impl Sessions {
    pub(super) fn visit(&mut self, session: u64, value: u64) -> Visits {
        let known = self.young.get(&session).copied().or_else(|| self.old.remove(&session));
        let (pages, sum) = known.unwrap_or_default();
        let visits = (pages + 1, sum.wrapping_add(value));
        if self.young.len() >= SESSIONS_KEPT {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(session, visits);
        visits
    }
}

impl BackEnd {
    /// Listens, and answers on threads of its own.
    pub fn start(address: Ipv4Addr, port: u16) -> io::Result<Self> {
        let listener = TcpListener::bind((address, port))?;
        let address = listener.local_addr()?;
        let is_over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&is_over);
        thread::Builder::new().name("back-end".to_owned()).spawn(move || {
            let sessions = Arc::new(Mutex::new(Sessions::default()));
            for stream in listener.incoming() {
                if seen.load(Ordering::Relaxed) {
                    return;
                }
                // One that went away before it was taken is no matter; one without a thread is closed, and its page fails.
                let Ok(stream) = stream else {
                    // Out of descriptors: the connection still waits, and asking at once would only spin.
                    thread::sleep(ACCEPT_AGAIN_AFTER);
                    continue;
                };
                let sessions = Arc::clone(&sessions);
                let thread = thread::Builder::new().name("back-end".to_owned()).stack_size(STACK_BYTES);
                let _ = thread.spawn(move || answer_all(&stream, &sessions));
            }
        })?;
        Ok(Self { address, is_over })
    }

    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }
}

impl Drop for BackEnd {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that waits for connections.
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.address.port()));
    }
}

/// Answers until the web server closes, or says what nobody understands.
fn answer_all(stream: &TcpStream, sessions: &Mutex<Sessions>) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut lines, mut line) = (BufReader::new(stream), String::new());
    loop {
        line.clear();
        if Read::take(&mut lines, LINE_MAX).read_line(&mut line)? == 0 {
            return Ok(());
        }
        let Some((session, value)) = parse(&line) else { return Err(io::ErrorKind::InvalidData.into()) };
        let (pages, sum) =
            sessions.lock().unwrap_or_else(PoisonError::into_inner).visit(session, value.into());
        (&mut &*stream).write_all(format!("{pages} {sum}\n").as_bytes())?;
    }
}

fn parse(line: &str) -> Option<(u64, u32)> {
    let (session, value) = line.strip_suffix('\n')?.split_once(' ')?;
    Some((u64::from_str_radix(session, 16).ok()?, value.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_of_a_session_are_counted_on_whatever_connection_they_come() {
        let back_end = BackEnd::start(Ipv4Addr::LOCALHOST, 0).unwrap();
        let ask = |stream: &TcpStream, line: &str| {
            (&mut &*stream).write_all(line.as_bytes()).unwrap();
            let mut said = String::new();
            BufReader::new(stream).read_line(&mut said).unwrap();
            said
        };
        let (one, other) = (TcpStream::connect(back_end.address()), TcpStream::connect(back_end.address()));
        let (one, other) = (one.unwrap(), other.unwrap());
        assert_eq!(ask(&one, "ff 7\n"), "1 7\n");
        assert_eq!(ask(&other, "ff 4294967295\n"), "2 4294967302\n");
        assert_eq!(ask(&other, "1 3\n"), "1 3\n");
        assert_eq!(ask(&other, "ff seven\n"), "", "it closes");
        assert_eq!(ask(&one, &format!("{}\n", "0".repeat(100))), "", "it closes");
    }

    #[test]
    fn sessions_that_nobody_visits_any_more_are_forgotten() {
        let mut sessions = Sessions::default();
        for session in 0..3 * SESSIONS_KEPT as u64 {
            sessions.visit(session, 1);
            assert_eq!(sessions.visit(u64::MAX, 0).0, session + 1, "one that is visited is kept");
        }
        assert!(sessions.young.len() + sessions.old.len() <= 2 * SESSIONS_KEPT + 2);
        assert_eq!(sessions.visit(0, 1), (1, 1));
    }
}
