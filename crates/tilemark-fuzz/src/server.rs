//! A server that answers as an input says: for clients that can only talk over a socket.

use std::{
    io::{Read, Write},
    net::Shutdown,
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel},
    thread,
    time::Duration,
};

use tempfile::TempDir;

/// A client that waits this long without a word waits for more than the input has: the server hangs up.
const TIMEOUT: Duration = Duration::from_millis(5);

/// What a server says: so many bytes at once, each time after it heard something.
pub(crate) struct Script {
    pub(crate) answers: Vec<Vec<u8>>,
    /// Whether the server speaks first.
    pub(crate) greets: bool,
}

/// A listening server of one thread: a static one would leave its folder behind. One script is for one connection.
pub(crate) struct Server {
    folder: TempDir,
    name: &'static str,
    scripts: SyncSender<Script>,
}

impl Server {
    /// Listens on a socket of this name in a folder of its own, which is removed with the server.
    pub(crate) fn listen(name: &'static str) -> Self {
        let folder =
            tempfile::Builder::new().prefix("tilemark-fuzz-").tempdir().expect("a folder can be made");
        let listener = UnixListener::bind(folder.path().join(name)).expect("a socket can be made");
        let (sender, scripts) = sync_channel(1);
        thread::spawn(move || serve(&listener, &scripts));
        Self { folder, name, scripts: sender }
    }

    /// Where it listens.
    pub(crate) fn path(&self) -> PathBuf {
        self.folder.path().join(self.name)
    }

    /// Lets a client talk to a server with this script.
    pub(crate) fn talk(&self, script: Script, client: impl FnOnce()) {
        self.scripts.send(script).expect("the server lives as long as this");
        client();
        // A client that did not connect leaves its script: this connection takes it.
        drop(UnixStream::connect(self.path()));
    }
}

impl Drop for Server {
    /// Wakes the thread, which finds that nobody has scripts for it any more.
    fn drop(&mut self) {
        let (nobody, _) = sync_channel(0);
        drop(std::mem::replace(&mut self.scripts, nobody));
        drop(UnixStream::connect(self.path()));
    }
}

fn serve(listener: &UnixListener, scripts: &Receiver<Script>) {
    for stream in listener.incoming() {
        let Ok(mut stream) = stream else { continue };
        match scripts.try_recv() {
            // Whatever the client does to the connection is its own affair.
            Ok(script) => drop(answer(&mut stream, script)),
            Err(TryRecvError::Empty) => {}
            Err(TryRecvError::Disconnected) => break,
        }
    }
}

fn answer(stream: &mut UnixStream, script: Script) -> std::io::Result<()> {
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    let mut heard = [0; 4096];
    let mut must_hear = !script.greets;
    for part in script.answers {
        if must_hear && stream.read(&mut heard)? == 0 {
            return Ok(());
        }
        must_hear = true;
        stream.write_all(&part)?;
    }
    stream.shutdown(Shutdown::Write)?;
    while stream.read(&mut heard)? > 0 {}
    Ok(())
}

/// Splits an input into parts: two bytes say how long each is, and the last may be shorter.
pub(crate) fn parts(mut bytes: &[u8]) -> Vec<Vec<u8>> {
    let mut parts = Vec::new();
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let (part, after) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        parts.push(part.to_vec());
        bytes = after;
    }
    parts
}

/// The opposite of [`parts`].
pub(crate) fn joined(parts: &[Vec<u8>]) -> Vec<u8> {
    let with_length = |part: &Vec<u8>| {
        let length = u16::try_from(part.len()).expect("first inputs are short");
        [&length.to_be_bytes()[..], part].concat()
    };
    parts.iter().flat_map(with_length).collect()
}
