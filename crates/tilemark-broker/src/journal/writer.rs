//! Batches on their way to the disk.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use super::disk::Disk;

/// Records that are stored together.
#[derive(Debug)]
pub(crate) struct Batch {
    pub(crate) number: u64,
    pub(crate) segment: u64,
    /// What the segment starts with, when this is its first batch. It is flushed by itself: behind a header that cannot be
    /// read there was a batch only if the header was once whole.
    pub(crate) header: Vec<u8>,
    pub(crate) bytes: Vec<u8>,
    /// Segments to remove once this batch is stored, oldest first.
    pub(crate) remove: Vec<u64>,
}

/// Stores batches in order. A trait, so that tests decide when a batch reaches the disk, and can plant a writer that lies.
pub(crate) trait Writer: Send {
    /// Whether it would take a batch now.
    fn is_idle(&self) -> bool;
    /// Takes a batch; only called while idle.
    fn submit(&mut self, batch: Batch);
    /// The number of the last batch that survives a power cut.
    fn stored(&self) -> u64;
    /// Why nothing is stored any more, once the disk has failed.
    fn failure(&self) -> Option<String>;
}

/// Writes and flushes one batch, and removes what it made superfluous. Each removal is flushed before the next: a segment
/// that came back while a later one stayed away could bring settled messages back.
pub(crate) fn store_batch(disk: &mut dyn Disk, batch: &Batch) -> io::Result<()> {
    if !batch.header.is_empty() {
        disk.append(batch.segment, &batch.header)?;
        disk.sync()?;
    }
    if !batch.bytes.is_empty() {
        disk.append(batch.segment, &batch.bytes)?;
        disk.sync()?;
    }
    for segment in &batch.remove {
        disk.remove(*segment)?;
        disk.sync()?;
    }
    Ok(())
}

/// A writer with its own thread, which wakes the broker's loop when a batch is stored.
#[derive(Debug)]
pub(crate) struct ThreadWriter {
    shared: Arc<Shared>,
    submitted: u64,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    slot: Mutex<Slot>,
    changed: Condvar,
    stored: AtomicU64,
    wake: OwnedFd,
}

#[derive(Debug, Default)]
struct Slot {
    batch: Option<Batch>,
    failure: Option<String>,
    ended: bool,
}

impl ThreadWriter {
    /// Starts the thread. `wake` is an eventfd of the broker's loop.
    pub(crate) fn start(disk: Box<dyn Disk>, wake: OwnedFd) -> io::Result<Self> {
        let shared = Arc::new(Shared {
            slot: Mutex::new(Slot::default()),
            changed: Condvar::new(),
            stored: AtomicU64::new(0),
            wake,
        });
        let for_thread = Arc::clone(&shared);
        let thread = std::thread::Builder::new()
            .name("broker-journal".into())
            .spawn(move || write_batches(&for_thread, disk))?;
        Ok(Self { shared, submitted: 0, thread: Some(thread) })
    }
}

fn write_batches(shared: &Shared, mut disk: Box<dyn Disk>) {
    loop {
        let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let batch = loop {
            if let Some(batch) = slot.batch.take() {
                break batch;
            }
            if slot.ended {
                return;
            }
            slot = shared.changed.wait(slot).unwrap_or_else(PoisonError::into_inner);
        };
        drop(slot);
        match store_batch(&mut *disk, &batch) {
            Ok(()) => shared.stored.store(batch.number, Ordering::Release),
            Err(error) => {
                let mut slot = shared.slot.lock().unwrap_or_else(PoisonError::into_inner);
                slot.failure = Some(error.to_string());
            }
        }
        // Cannot fail but for a full counter, and then the loop is awake already.
        let _ = rustix::io::write(&shared.wake, &1_u64.to_ne_bytes());
    }
}

impl Writer for ThreadWriter {
    fn is_idle(&self) -> bool {
        self.submitted == self.stored()
    }

    fn submit(&mut self, batch: Batch) {
        self.submitted = batch.number;
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).batch = Some(batch);
        self.shared.changed.notify_one();
    }

    fn stored(&self) -> u64 {
        self.shared.stored.load(Ordering::Acquire)
    }

    fn failure(&self) -> Option<String> {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).failure.clone()
    }
}

impl Drop for ThreadWriter {
    fn drop(&mut self) {
        self.shared.slot.lock().unwrap_or_else(PoisonError::into_inner).ended = true;
        self.shared.changed.notify_one();
        if let Some(thread) = self.thread.take() {
            // A panic in that thread was reported by the panic hook; here only its end matters.
            let _ = thread.join();
        }
    }
}
