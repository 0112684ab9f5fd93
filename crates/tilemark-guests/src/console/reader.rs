//! The thread that reads consoles.

use super::{excerpt::ConsoleFile, tail::ConsoleTail};
use crate::error::{GuestError, file};
use rustix::{
    event::{EventfdFlags, Timespec, epoll, eventfd},
    fs::OFlags,
    io::Errno,
    pipe::{PipeFlags, pipe_with},
};
use std::{
    collections::BTreeMap,
    io,
    os::fd::{AsFd, OwnedFd},
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

/// The thread takes a turn at most so often.
const TURN: Duration = Duration::from_millis(20);
/// What a console gives in one turn: 1.6 MB a second. A guest that prints more waits.
const BYTES_IN_A_TURN: usize = 32 << 10;
/// Consoles that are read in one turn; the others have theirs in the next. All guests of a run together cost the engine 26 MB
/// a second at most, however many of them flood.
const CONSOLES_IN_A_TURN: usize = 16;
/// The most that is read at once from a pipe on request: what its largest size can hold.
const DRAINED: usize = 1 << 20;
/// Number of the descriptor that ends the thread.
const ENDS: u64 = 0;

/// All consoles of a manager, read by one thread.
#[derive(Debug)]
pub(crate) struct Consoles {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Shared {
    epoll: OwnedFd,
    ends: OwnedFd,
    open: Mutex<BTreeMap<u64, Arc<Mutex<Source>>>>,
}

/// A console's pipe and file.
#[derive(Debug)]
struct Source {
    /// Until its guest has ended.
    pipe: Option<OwnedFd>,
    kept: ConsoleFile,
}

/// One console. Copies are the same console.
#[derive(Debug, Clone)]
pub(crate) struct Console {
    path: PathBuf,
    /// None for one that only has a file.
    reads: Option<Reads>,
}

#[derive(Debug, Clone)]
struct Reads {
    number: u64,
    source: Arc<Mutex<Source>>,
    shared: Arc<Shared>,
}

impl Consoles {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Self, GuestError> {
        let shared = Shared::new().map_err(file("prepare reading of", Path::new("consoles")))?;
        let shared = Arc::new(shared);
        let reading = Arc::clone(&shared);
        let thread = thread::Builder::new()
            .name("consoles".to_owned())
            .spawn(move || reading.read_all())
            .map_err(file("start a thread for", Path::new("consoles")))?;
        Ok(Self { shared, thread: Some(thread), next: AtomicU64::new(ENDS + 1) })
    }

    /// Makes a console that is kept at `path`. The second is what its guest writes to.
    pub(crate) fn open(&self, path: &Path) -> Result<(Console, OwnedFd), GuestError> {
        let kept = ConsoleFile::create(path).map_err(file("make", path))?;
        let (reads, writes) = pipe_with(PipeFlags::CLOEXEC).map_err(file("make a pipe for", path))?;
        // The guest's end blocks: whoever prints too much waits.
        rustix::fs::fcntl_setfl(&reads, OFlags::NONBLOCK).map_err(file("make a pipe for", path))?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let data = epoll::EventData::new_u64(number);
        epoll::add(&self.shared.epoll, &reads, data, epoll::EventFlags::IN)
            .map_err(file("make a pipe for", path))?;
        // Nobody can write yet, so the thread does not look for it before it is there.
        let source = Arc::new(Mutex::new(Source { pipe: Some(reads), kept }));
        lock(&self.shared.open).insert(number, Arc::clone(&source));
        let reads = Reads { number, source, shared: Arc::clone(&self.shared) };
        Ok((Console { path: path.to_owned(), reads: Some(reads) }, writes))
    }
}

impl Drop for Consoles {
    fn drop(&mut self) {
        // It fails only for what is no event descriptor.
        let _ = rustix::io::write(&self.shared.ends, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let ends = eventfd(0, EventfdFlags::CLOEXEC)?;
        epoll::add(&epoll, &ends, epoll::EventData::new_u64(ENDS), epoll::EventFlags::IN)?;
        Ok(Self { epoll, ends, open: Mutex::default() })
    }

    fn read_all(&self) {
        let mut ready = Vec::with_capacity(CONSOLES_IN_A_TURN);
        let mut bytes = vec![0; BYTES_IN_A_TURN];
        loop {
            ready.clear();
            let waited =
                epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut ready), None::<&Timespec>);
            match waited {
                Ok(_) | Err(Errno::INTR) => {}
                // Nothing could be read any more: then guests wait, and say so by their silence.
                Err(_) => return,
            }
            for event in &ready {
                let number = event.data.u64();
                if number == ENDS {
                    return;
                }
                self.turn(number, &mut bytes);
            }
            thread::sleep(TURN);
        }
    }

    fn turn(&self, number: u64, bytes: &mut [u8]) {
        let Some(source) = lock(&self.open).get(&number).cloned() else { return };
        if lock(&source).read(bytes) == Some(0) {
            lock(&self.open).remove(&number);
        }
    }
}

impl Source {
    /// Reads once. 0: nothing is to come any more; none: nothing is there now.
    fn read(&mut self, bytes: &mut [u8]) -> Option<usize> {
        let Some(pipe) = &self.pipe else { return Some(0) };
        match rustix::io::read(pipe.as_fd(), &mut *bytes) {
            Err(Errno::AGAIN | Errno::INTR) => None,
            Ok(0) | Err(_) => {
                self.close();
                Some(0)
            }
            Ok(length) => {
                self.kept.append(&bytes[..length]);
                Some(length)
            }
        }
    }

    /// Reads what is there now.
    fn drain(&mut self) {
        let mut bytes = vec![0; BYTES_IN_A_TURN];
        let mut drained = 0;
        while drained < DRAINED {
            match self.read(&mut bytes) {
                Some(0) | None => return,
                Some(length) => drained += length,
            }
        }
    }

    fn close(&mut self) {
        if self.pipe.take().is_some() {
            self.kept.finish();
        }
    }
}

impl Console {
    /// One that nobody writes to.
    #[cfg(any(test, feature = "fake"))]
    pub(crate) fn of_file(path: &Path) -> Self {
        Self { path: path.to_owned(), reads: None }
    }

    /// The file, with all that its guest has written so far.
    pub(crate) fn file(&self) -> &Path {
        if let Some(reads) = &self.reads {
            lock(&reads.source).drain();
        }
        &self.path
    }

    /// Its last lines.
    pub(crate) fn tail(&self) -> ConsoleTail {
        let Some(reads) = &self.reads else { return ConsoleTail::read(&self.path) };
        let mut source = lock(&reads.source);
        source.drain();
        // Still locked, so that nobody shortens the file meanwhile.
        ConsoleTail::read(&self.path)
    }

    /// Reads the rest and closes the pipe: its guest has ended.
    pub(crate) fn close(&self) {
        let Some(reads) = &self.reads else { return };
        lock(&reads.shared.open).remove(&reads.number);
        let mut source = lock(&reads.source);
        source.drain();
        source.close();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        io::Write,
        time::Instant,
    };

    const LIMIT: Duration = Duration::from_secs(600);

    fn until(what: &str, is_so: impl Fn() -> bool) {
        let deadline = Instant::now() + LIMIT;
        while !is_so() {
            assert!(Instant::now() < deadline, "waited in vain until {what}");
            thread::sleep(Duration::from_millis(5));
        }
    }

    #[test]
    fn one_thread_reads_the_consoles_of_hundreds_of_guests() {
        let folder = tempfile::tempdir().unwrap();
        let consoles = Consoles::start().unwrap();
        let opened: Vec<_> = (0..300)
            .map(|guest| consoles.open(&folder.path().join(guest.to_string())).unwrap())
            .map(|(console, writes)| (console, File::from(writes)))
            .collect();
        let length = |console: &Console| fs::metadata(&console.path).unwrap().len();
        for (_, writes) in &opened {
            let mut writes = writes;
            writes.write_all(b"Linux version 6\n").unwrap();
        }
        until("all were read", || opened.iter().all(|(console, _)| length(console) == 16));
        for (console, writes) in opened {
            drop(writes);
            console.close();
        }
        assert!(lock(&consoles.shared.open).is_empty(), "a console that is closed is still kept");
    }

    #[test]
    fn a_guest_that_floods_its_console_waits_and_fills_no_disk() {
        const FLOOD_KIB: usize = 8 * 1024;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("console.log");
        let consoles = Consoles::start().unwrap();
        let (console, writes) = consoles.open(&path).unwrap();
        let mut writes = File::from(writes);
        let began = Instant::now();
        let flood = thread::spawn(move || {
            writes.write_all(b"first\n").unwrap();
            for _ in 0..FLOOD_KIB {
                writes.write_all(&[b'x'; 1024]).unwrap();
            }
            writes.write_all(b"\nlast\n").unwrap();
        });
        until("it has printed all", || flood.is_finished());
        // What the pipe still holds was not waited for; 1 MiB is the most that any holds.
        let turns = ((FLOOD_KIB - 1024) << 10) / BYTES_IN_A_TURN;
        let least = TURN * u32::try_from(turns).unwrap();
        assert!(began.elapsed() >= least, "8 MiB were read within {:?}", began.elapsed());
        assert_eq!(console.tail().lines.last().unwrap(), "last");
        console.close();
        let text = fs::read_to_string(&path).unwrap();
        assert!(text.starts_with("first\nx") && text.contains(" bytes were left out here]"));
        assert!(text.len() < 3 << 20, "{} bytes are kept", text.len());
    }

    #[test]
    fn what_a_guest_printed_right_before_its_end_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let consoles = Consoles::start().unwrap();
        for guest in 0..50 {
            let (console, writes) = consoles.open(&folder.path().join(guest.to_string())).unwrap();
            File::from(writes).write_all(b"Kernel panic - not syncing\n").unwrap();
            assert_eq!(console.tail().lines, ["Kernel panic - not syncing"]);
            console.close();
            console.close();
            assert_eq!(console.tail().lines, ["Kernel panic - not syncing"]);
        }
    }
}
