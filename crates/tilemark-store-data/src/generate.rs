//! Many threads make blocks; the caller's thread hands them on in order.
//!
//! Worker w of n makes the blocks w, w + n, w + 2n and so on and sends them through its own short channel; the caller
//! reads the channels in turn. So the rows come in the same order for any n, memory is a few blocks for each worker
//! whatever the size of the store, and the receiver of the rows need not be shared between threads.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use crc32fast::Hasher;

use crate::checksum::{Summing, TableSum};
use crate::error::StoreDataError;
use crate::plan::Store;
use crate::rows;
use crate::sales::Sales;
use crate::table::Table;

/// Finished blocks that may wait for each worker before it stops to let the receiver catch up.
const BLOCKS_WAITING: usize = 2;

/// As many as the processors of a large host.
const THREADS_MAX: usize = 1024;

/// How far a table has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Which table is being written.
    pub table: Table,
    /// Rows of it written so far.
    pub rows: u64,
    /// Bytes of it written so far.
    pub bytes: u64,
    /// Bytes it will have, within about 0.1 %.
    pub bytes_expected: u64,
}

impl Progress {
    /// Time left for `done` of `expected` bytes if the rest goes as fast as the part that took `elapsed`. `None` before
    /// anything was written.
    pub fn time_left(elapsed: Duration, done: u64, expected: u64) -> Option<Duration> {
        let left = expected.saturating_sub(done) as f64;
        (done > 0).then(|| elapsed.mul_f64(left / done as f64))
    }
}

/// Makes the data of one store, table by table. Tables may be asked for in any order, also by several threads at once.
pub struct Generator {
    store: Store,
    threads: usize,
    sales: OnceLock<Sales>,
    stop: Arc<AtomicBool>,
}

/// Why a table was not written to its end.
enum Failure {
    Sink(io::Error),
    Stopped,
}

struct Block {
    bytes: Vec<u8>,
    rows: u64,
    crc: Hasher,
}

impl Generator {
    /// A generator that makes blocks on `threads` threads beside the caller's own, which only hands them on.
    pub fn new(store: Store, threads: usize) -> Result<Self, StoreDataError> {
        if !(1..=THREADS_MAX).contains(&threads) {
            return Err(StoreDataError::Threads(threads));
        }
        Ok(Self { store, threads, sales: OnceLock::new(), stop: Arc::default() })
    }

    /// The store whose data this makes.
    pub fn store(&self) -> &Store {
        &self.store
    }

    /// A flag that ends all writing of this generator, for good, at the next block: for Ctrl-C, or because another table
    /// failed.
    pub fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// Writes all tables, each into the sink that `open` gives for it, and returns their checksums in the same order.
    pub fn write_all<W: Write>(
        &self,
        mut open: impl FnMut(Table) -> io::Result<W>,
        mut progress: impl FnMut(Progress),
    ) -> Result<Vec<(Table, TableSum)>, StoreDataError> {
        let mut sums = Vec::with_capacity(Table::ALL.len());
        for table in Table::ALL {
            let mut sink = open(table).map_err(|source| StoreDataError::Sink { table, source })?;
            sums.push((table, self.write_table(table, &mut sink, &mut progress)?));
        }
        Ok(sums)
    }

    /// Writes one table as CSV without a header: commas, no quotes, one line feed a row. `progress` is called after each
    /// block, a few hundred kilobytes apart, on the caller's thread.
    pub fn write_table(
        &self,
        table: Table,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TableSum, StoreDataError> {
        let failed = |failure| match failure {
            Failure::Sink(source) => StoreDataError::Sink { table, source },
            Failure::Stopped => StoreDataError::Stopped,
        };
        match table {
            Table::Inventory => {
                let sales = self.sales.get_or_init(|| self.count_sales());
                self.write_blocks(table, sales, sink, progress).map_err(failed)
            }
            Table::Orderlines => {
                let sales = Sales::none(self.store.products);
                let sum = self.write_blocks(table, &sales, sink, progress).map_err(failed)?;
                // Another thread may have counted the same lines already: the numbers are the same.
                drop(self.sales.set(sales));
                Ok(sum)
            }
            _ => self.write_blocks(table, &Sales::none(0), sink, progress).map_err(failed),
        }
    }

    fn write_blocks(
        &self,
        table: Table,
        sales: &Sales,
        sink: &mut dyn Write,
        progress: &mut dyn FnMut(Progress),
    ) -> Result<TableSum, Failure> {
        let blocks = rows::blocks(&self.store, table);
        let workers = self.threads.min(blocks.max(1) as usize);
        let bytes_expected = self.store.expected_table_bytes(table);
        let mut summing = Summing::default();
        let (mut rows, mut bytes) = (0, 0);
        thread::scope(|scope| {
            // Dropping the channels on an early return makes the workers end.
            let lanes: Vec<(Receiver<Block>, Sender<Vec<u8>>)> = (0..workers)
                .map(|worker| {
                    let (full_out, full_in) = sync_channel(BLOCKS_WAITING);
                    let (empty_out, empty_in) = channel();
                    scope
                        .spawn(move || self.make_blocks(table, worker, workers, sales, &full_out, &empty_in));
                    (full_in, empty_out)
                })
                .collect();
            for number in 0..blocks {
                let (full, empty) = &lanes[number as usize % workers];
                let block = full.recv().expect("a worker ends only after its last block or a hang-up");
                if self.stop.load(Ordering::Relaxed) {
                    return Err(Failure::Stopped);
                }
                sink.write_all(&block.bytes).map_err(Failure::Sink)?;
                rows += block.rows;
                bytes += block.bytes.len() as u64;
                summing.add(block.rows, block.bytes.len() as u64, &block.crc);
                progress(Progress { table, rows, bytes, bytes_expected });
                // A worker that has made its last block no longer listens: the buffer is then simply freed.
                drop(empty.send(block.bytes));
            }
            sink.flush().map_err(Failure::Sink)?;
            Ok(summing.finish())
        })
    }

    /// Makes each block of one worker, until nobody takes them any more.
    fn make_blocks(
        &self,
        table: Table,
        worker: usize,
        workers: usize,
        sales: &Sales,
        full: &SyncSender<Block>,
        empty: &Receiver<Vec<u8>>,
    ) {
        for block in (worker as u64..rows::blocks(&self.store, table)).step_by(workers) {
            let mut bytes = empty.try_recv().unwrap_or_default();
            bytes.clear();
            let rows = rows::write_block(&self.store, table, block, sales, &mut bytes);
            let mut crc = Hasher::new();
            crc.update(&bytes);
            if full.send(Block { bytes, rows, crc }).is_err() {
                return; // The receiver failed and hung up.
            }
        }
    }

    /// Sums up the order lines without writing them.
    fn count_sales(&self) -> Sales {
        let sales = Sales::none(self.store.products);
        let blocks = rows::blocks(&self.store, Table::Orderlines);
        thread::scope(|scope| {
            for worker in 0..self.threads as u64 {
                let sales = &sales;
                scope.spawn(move || {
                    for block in (worker..blocks).step_by(self.threads) {
                        rows::count_sales(&self.store, block, sales);
                    }
                });
            }
        });
        sales
    }
}
