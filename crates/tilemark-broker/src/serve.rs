//! A broker with its threads.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use rustix::event::{EventfdFlags, eventfd};

use crate::config::{Config, Notice};
use crate::engine::{BrokerCore, Statistics};
use crate::error::BrokerError;
use crate::event_loop::{EventLoop, Shared};
use crate::journal::{FolderDisk, ThreadWriter, recover};

/// A broker that is serving. Dropping it ends it; [`Broker::stop`] also says how that went.
#[derive(Debug)]
pub struct Broker {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<io::Result<Statistics>>>,
}

/// Starts a broker. When this returns, it listens and has recovered its journal.
pub fn serve(config: Config) -> Result<Broker, BrokerError> {
    let listen_error = |source| BrokerError::Listen { address: config.listen, source };
    let listener = TcpListener::bind(config.listen).map_err(listen_error)?;
    let address = listener.local_addr().map_err(listen_error)?;
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
        .map_err(|e| BrokerError::Loop(e.into()))?;
    let mut engine = BrokerCore::new(&config, Instant::now());
    if let Some(folder) = &config.journal {
        open_journal(&mut engine, &config, folder, wake.try_clone().map_err(BrokerError::Loop)?)?;
    }
    let shared = Arc::new(Shared { stop: AtomicBool::new(false), wake, statistics: Mutex::default() });
    let event_loop =
        EventLoop::new(listener, engine, Arc::clone(&shared), &config).map_err(BrokerError::Loop)?;
    let thread = std::thread::Builder::new()
        .name("broker".into())
        .spawn(move || event_loop.run())
        .map_err(BrokerError::Loop)?;
    Ok(Broker { address, shared, thread: Some(thread) })
}

fn open_journal(
    engine: &mut BrokerCore,
    config: &Config,
    folder: &Path,
    wake: std::os::fd::OwnedFd,
) -> Result<(), BrokerError> {
    let failed = |source| BrokerError::Journal { folder: folder.to_owned(), source };
    let mut disk = FolderDisk::open(folder).map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => BrokerError::JournalInUse { folder: folder.to_owned() },
        _ => failed(error),
    })?;
    let recovered = recover(&mut disk).map_err(failed)?;
    if let Some(damage) = recovered.damage.clone() {
        let folder = folder.to_owned();
        if !config.accept_damage {
            return Err(BrokerError::JournalDamaged { folder, damage });
        }
        (config.notify)(&Notice::DamageAccepted { folder, damage });
    }
    let writer = ThreadWriter::start(Box::new(disk), wake).map_err(failed)?;
    engine.restore(&recovered, Box::new(writer));
    Ok(())
}

impl Broker {
    /// Where it listens.
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it held and had done when its last second ended.
    pub fn statistics(&self) -> Statistics {
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the broker to end as [`Broker::stop`] does, whenever it is called: for signals.
    pub fn ender(&self) -> impl Fn() + Send + 'static + use<> {
        let shared = Arc::clone(&self.shared);
        move || shared.ask_to_end()
    }

    /// Waits until the broker ends: because it was asked to, or because it fails.
    pub fn wait(mut self) -> Result<Statistics, BrokerError> {
        self.join()
    }

    /// Closes all connections, stores what was taken, and ends. Returns what it had done.
    pub fn stop(mut self) -> Result<Statistics, BrokerError> {
        self.shared.ask_to_end();
        self.join()
    }

    fn join(&mut self) -> Result<Statistics, BrokerError> {
        let Some(thread) = self.thread.take() else { return Ok(self.statistics()) };
        thread.join().map_err(|_| BrokerError::Panicked)?.map_err(BrokerError::Loop)
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        self.shared.ask_to_end();
        // A failure here cannot be reported; `stop` returns it.
        let _ = self.join();
    }
}
