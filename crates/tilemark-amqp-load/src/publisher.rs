//! One publisher of the throughput load.

use std::time::{Duration, Instant};

use rustix::event::PollFlags;
use tilemark_amqp::{ConfirmWindow, Confirmation, Method, Properties, PublishBatch, ShortStr};

use crate::input::{Notice, interpret};
use crate::session::{CHANNEL, Moved};
use crate::settings::size_bytes;
use crate::shared::{Shared, cpu_time};
use crate::topology::Destination;
use crate::{LoadError, Session, Stamp, ThroughputLoad};

/// One write carries about this much: enough that the system call costs little, small enough for the cache.
const BATCH_BYTES: usize = 64 * 1024;
/// How often a publisher that waits looks whether the load was ended.
const GLANCE: Duration = Duration::from_millis(100);

/// What a publisher has done.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Published {
    pub(crate) publisher: u16,
    pub(crate) count: u64,
    pub(crate) refused: u64,
    pub(crate) cpu_s: f64,
    pub(crate) blocked: Duration,
}

pub(crate) struct Publisher<'a> {
    load: &'a ThroughputLoad,
    shared: &'a Shared<'a>,
    session: Session,
    batch: PublishBatch,
    number: u16,
    sent: u64,
    refused: u64,
    window: ConfirmWindow,
    /// Publishes since the last commit, and whether one is under way.
    uncommitted: u64,
    committing: bool,
}

/// The body of every message, but for its stamp.
pub(crate) fn filling(size_bytes: usize) -> Vec<u8> {
    vec![b'X'; size_bytes]
}

/// What all messages of a load have in common.
pub(crate) struct Sample<'d> {
    pub(crate) destination: &'d Destination,
    pub(crate) durable: bool,
    pub(crate) size_bytes: usize,
}

impl Sample<'_> {
    /// As many of them as `count` says for the bytes that each takes on the wire, and one at least.
    pub(crate) fn batch(&self, frame_max: usize, count: impl FnOnce(usize) -> usize) -> PublishBatch {
        let properties = if self.durable { Properties::PERSISTENT } else { Properties::NONE };
        let of = |count| {
            PublishBatch::new(
                CHANNEL,
                ShortStr::cut(&self.destination.exchange),
                ShortStr::cut(&self.destination.routing_key),
                properties,
                &filling(self.size_bytes),
                frame_max,
                count,
            )
        };
        of(count(of(1).stride()).max(1))
    }
}

impl<'a> Publisher<'a> {
    /// Connects and prepares; publishes nothing yet.
    pub(crate) fn prepare(
        load: &'a ThroughputLoad,
        shared: &'a Shared<'a>,
        number: u16,
        destination: &Destination,
    ) -> Result<Self, LoadError> {
        let mut session = Session::open(&load.broker, load.timeout)?;
        if load.messages.confirms > 0 {
            let select = Method::ConfirmSelect { no_wait: false };
            session.call(&select, "select confirms", |method| {
                matches!(method, Method::ConfirmSelectOk {}).then_some(())
            })?;
        }
        if load.messages.transactions > 0 {
            let select = Method::TxSelect {};
            session.call(&select, "select transactions", |method| {
                matches!(method, Method::TxSelectOk {}).then_some(())
            })?;
        }
        let message =
            Sample { destination, durable: load.messages.durable, size_bytes: size_bytes(&load.messages) };
        let batch = message.batch(session.frame_max, |stride| BATCH_BYTES / stride);
        Ok(Self {
            load,
            shared,
            session,
            batch,
            number,
            sent: 0,
            refused: 0,
            window: ConfirmWindow::new(),
            uncommitted: 0,
            committing: false,
        })
    }

    /// Publishes until time or count is over, and waits for what is still to be confirmed.
    pub(crate) fn run(mut self) -> Result<Published, LoadError> {
        let cpu_before = cpu_time();
        let is_whole = match self.publish() {
            Ok(()) => true,
            Err(error) => {
                self.shared.breaks(error)?;
                false
            }
        };
        let cpu_s = cpu_time() - cpu_before;
        let (publisher, count, refused) = (self.number, self.sent, self.refused);
        let blocked = self.session.blockade.total();
        if is_whole {
            self.session.close().or_else(|error| self.shared.breaks(error))?;
        }
        Ok(Published { publisher, count, refused, cpu_s, blocked })
    }

    fn publish(&mut self) -> Result<(), LoadError> {
        let end = Instant::now() + self.load.seconds;
        loop {
            let wanted = self.wanted(end)?;
            if wanted == 0 && self.is_finished(end) {
                break;
            }
            if wanted == 0 {
                self.await_answers()?;
            } else {
                self.send_batch(wanted)?;
                self.take_input()?;
            }
        }
        if self.uncommitted > 0 {
            self.commit()?;
        }
        while self.window.open() > 0 || self.committing {
            self.await_answers()?;
        }
        Ok(())
    }

    fn is_finished(&self, end: Instant) -> bool {
        self.load.count().is_some_and(|count| self.sent >= count)
            || Instant::now() >= end
            || self.shared.director.is_over()
    }

    /// How many messages may be sent now.
    fn wanted(&mut self, end: Instant) -> Result<usize, LoadError> {
        self.shared.check_running()?;
        if self.is_finished(end) || self.committing {
            return Ok(0);
        }
        let mut wanted = self.batch.capacity() as u64;
        if let Some(count) = self.load.count() {
            wanted = wanted.min(count - self.sent);
        }
        if self.load.messages.confirms > 0 {
            let free = u64::from(self.load.messages.confirms) - self.window.open();
            // Small windows are filled again when half is free, so that neither side works message by message.
            let worthwhile = wanted.min(u64::from(self.load.messages.confirms).div_ceil(2));
            wanted = if free >= worthwhile { wanted.min(free) } else { 0 };
        }
        if self.load.messages.transactions > 0 {
            wanted = wanted.min(u64::from(self.load.messages.transactions) - self.uncommitted);
        }
        Ok(usize::try_from(wanted).unwrap_or(usize::MAX))
    }

    fn send_batch(&mut self, count: usize) -> Result<(), LoadError> {
        for index in 0..count {
            let stamp =
                Stamp { run: self.shared.run, publisher: self.number, sequence: self.sent + index as u64 };
            stamp.write(self.batch.body_mut(index));
        }
        self.send_whole(count)?;
        self.sent += count as u64;
        self.shared.director.gauge().count_published(count as u64);
        if self.load.messages.confirms > 0 {
            self.window.issue(count as u64);
        }
        if self.load.messages.transactions > 0 {
            self.uncommitted += count as u64;
            if self.uncommitted >= u64::from(self.load.messages.transactions) {
                self.commit()?;
            }
        }
        Ok(())
    }

    /// Sends a batch to its last byte: half a message would leave the connection useless.
    fn send_whole(&mut self, count: usize) -> Result<(), LoadError> {
        let mut done = 0;
        let total = self.batch.bytes(count).len();
        let mut deadline = Instant::now() + self.load.timeout;
        while done < total {
            match self.session.try_send(&self.batch.bytes(count)[done..])? {
                Moved::Bytes(bytes) => {
                    done += bytes;
                    deadline = Instant::now() + self.load.timeout;
                }
                Moved::WouldBlock => {
                    let ready = self.session.wait(PollFlags::IN | PollFlags::OUT, GLANCE)?;
                    if ready.contains(PollFlags::IN) {
                        self.take_input()?;
                    }
                    self.check_timeout(deadline, "read")?;
                }
            }
        }
        Ok(())
    }

    fn check_timeout(&self, deadline: Instant, what: &'static str) -> Result<(), LoadError> {
        self.shared.check_running()?;
        if Instant::now() < deadline {
            return Ok(());
        }
        Err(self.session.blockade.error(what, self.load.timeout))
    }

    fn commit(&mut self) -> Result<(), LoadError> {
        self.session.send(&Method::TxCommit {})?;
        self.uncommitted = 0;
        self.committing = true;
        Ok(())
    }

    /// Waits for confirms, a commit or the end of a blockade.
    fn await_answers(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + self.load.timeout;
        loop {
            let ready = self.session.wait(PollFlags::IN, GLANCE)?;
            if !ready.is_empty() {
                return self.take_input();
            }
            self.check_timeout(deadline, "confirm")?;
        }
    }

    /// Reads what the broker has said, without waiting.
    fn take_input(&mut self) -> Result<(), LoadError> {
        if self.session.receive()? == Moved::WouldBlock {
            return Ok(());
        }
        while let Some(frame) = self.session.inbox.next_frame().map_err(LoadError::Malformed)? {
            match interpret(&frame)? {
                Notice::Method(Method::BasicAck { delivery_tag, multiple }) => {
                    settle(&mut self.window, Confirmation { delivery_tag, multiple })?;
                }
                Notice::Method(Method::BasicNack { delivery_tag, multiple, .. }) => {
                    let refused = settle(&mut self.window, Confirmation { delivery_tag, multiple })?;
                    self.refused += refused;
                    self.shared.director.gauge().count_refused(refused);
                }
                Notice::Method(Method::TxCommitOk {}) => self.committing = false,
                Notice::Method(method) => return Err(LoadError::Unexpected { method: method.name() }),
                notice @ (Notice::Blocked(_) | Notice::Unblocked) => self.session.blockade.hear(&notice),
                Notice::Other => {}
            }
        }
        Ok(())
    }
}

/// A confirm for what was never published, or twice, is an error of the broker.
fn settle(window: &mut ConfirmWindow, confirmation: Confirmation) -> Result<u64, LoadError> {
    window.settle(confirmation).ok_or(LoadError::Unexpected { method: "a confirm of an unknown tag" })
}
