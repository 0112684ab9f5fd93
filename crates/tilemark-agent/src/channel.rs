//! The byte stream to the host: a virtio-serial port in a guest, a Unix socket in a native twin.

use crate::error::{AgentError, step};
use rustix::event::epoll;
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The number under which a native twin is handed its end of the socket.
pub(crate) const SOCKET_NUMBER: i32 = 3;
/// The name of the port, as QEMU's command line gives it.
const PORT_NAME: &str = "tilemark";

/// What a read gave.
#[derive(Debug)]
pub(crate) enum Received {
    /// So many bytes.
    Bytes(usize),
    /// The host's end hung up; it may come back.
    HungUp,
    /// The host's end is gone for good.
    Closed,
}

/// A stream to the host.
pub(crate) trait Channel: Send {
    /// Waits for bytes.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received>;
    /// Another handle for writing.
    fn writer(&self) -> io::Result<Box<dyn Write + Send>>;
}

/// A virtio-serial port.
#[derive(Debug)]
pub(crate) struct Port {
    file: Arc<File>,
    epoll: OwnedFd,
}

impl Port {
    /// Finds the port by its name; there is no udev that would have made a link.
    pub(crate) fn open() -> Result<Self, AgentError> {
        let path = find_port(Path::new("/sys/class/virtio-ports"))
            .ok_or_else(|| AgentError::Missing(format!("virtio-serial port named `{PORT_NAME}`")))?;
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .open(&path)
            .map_err(step(format!("open {}", path.display())))?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC).map_err(step("make an epoll"))?;
        // Edge-triggered: while the host's end is closed the port is "hung up" without end, and a level would
        // wake a thread that retries at once; sixteen clones doing so made the seventeenth take 12 s.
        let events = epoll::EventFlags::IN | epoll::EventFlags::OUT | epoll::EventFlags::ET;
        epoll::add(&epoll, &file, epoll::EventData::new_u64(0), events).map_err(step("watch the port"))?;
        Ok(Self { file: Arc::new(file), epoll })
    }
}

fn find_port(class: &Path) -> Option<PathBuf> {
    fs::read_dir(class).ok()?.flatten().find_map(|entry| {
        let name = fs::read_to_string(entry.path().join("name")).ok()?;
        (name.trim() == PORT_NAME).then(|| Path::new("/dev").join(entry.file_name()))
    })
}

impl Channel for Port {
    /// A port without a host gives an end of file; the next edge (host opened, bytes came) ends the wait.
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        match self.file.as_ref().read(buffer) {
            Ok(0) => {
                let mut events = Vec::with_capacity(1);
                match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => Ok(Received::HungUp),
                    Err(error) => Err(error.into()),
                }
            }
            Ok(length) => Ok(Received::Bytes(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Received::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(PortWriter(Arc::clone(&self.file))))
    }
}

/// The port of a guest that boots from a disk of the user's own.
#[derive(Debug)]
pub(crate) struct OfDisk(pub(crate) Port);

impl Channel for OfDisk {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        self.0.receive(buffer)
    }

    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        self.0.writer()
    }
}

/// Writes to the port through the one open file: a port can be opened only once.
struct PortWriter(Arc<File>);

impl Write for PortWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.as_ref().write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A native twin's socket.
#[derive(Debug)]
pub(crate) struct Socket {
    stream: UnixStream,
}

impl Socket {
    /// The one that the host handed at the start.
    pub(crate) fn handed() -> Result<Self, AgentError> {
        let descriptor =
            tilemark_sys::process::take_handed(SOCKET_NUMBER).map_err(step("take the handed socket"))?;
        Ok(Self { stream: UnixStream::from(descriptor) })
    }
}

impl Channel for Socket {
    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<Received> {
        match self.stream.read(buffer) {
            Ok(0) => Ok(Received::Closed),
            Ok(length) => Ok(Received::Bytes(length)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(Received::Bytes(0)),
            Err(error) => Err(error),
        }
    }

    fn writer(&self) -> io::Result<Box<dyn Write + Send>> {
        Ok(Box::new(self.stream.try_clone()?))
    }
}
