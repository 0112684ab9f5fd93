//! One subscriber of either load.

use std::time::{Duration, Instant};

use tilemark_amqp::{Frame, FrameKind, Method, ShortStr, Table};

use crate::input::{Notice, interpret};
use crate::publisher::filling;
use crate::session::Moved;
use crate::settings::Acknowledging;
use crate::shared::Shared;
use crate::{Ledger, LoadError, Receipt, STAMP_BYTES, Session, Stamp};

/// How often a subscriber that waits looks whether the load is over.
const GLANCE: Duration = Duration::from_millis(20);
/// A connection has one consumer.
const CONSUMER: &str = "t";
/// The payload of `basic.deliver` starts with class 60, method 60.
const DELIVER: [u8; 4] = [0, 60, 0, 60];

/// A consumer on a queue, checking every message.
#[derive(Debug)]
pub(crate) struct Subscriber {
    pub(crate) session: Session,
    queue: String,
    acknowledging: Acknowledging,
    run: u16,
    pub(crate) ledger: Ledger,
    pub(crate) damaged: u64,
    expected_body: Vec<u8>,
    message: Incoming,
    last_tag: u64,
    unacknowledged: u32,
    pub(crate) last_receipt: Option<Instant>,
    /// What the last call of `receive` brought.
    pub(crate) fresh: Fresh,
    answer: Option<Answer>,
}

/// What the broker answers a subscriber that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    /// So many messages wait in the queue.
    Waiting(u32),
    /// The consumer has ended.
    Ended,
}

/// What came in at once.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fresh {
    /// All of it.
    pub(crate) deliveries: u64,
    /// Of it: what had come before.
    pub(crate) duplicated: u64,
    /// Of it: what came after a later message.
    pub(crate) reordered: u64,
    /// Of it: what is not what was sent.
    pub(crate) damaged: u64,
}

impl Fresh {
    pub(crate) const fn wrong(&self) -> u64 {
        self.duplicated + self.reordered + self.damaged
    }

    fn note(&mut self, receipt: Receipt) {
        match receipt {
            Receipt::InOrder => {}
            Receipt::Late => self.reordered += 1,
            Receipt::Again => self.duplicated += 1,
        }
    }
}

/// The delivery that is coming in.
#[derive(Debug, Default)]
struct Incoming {
    /// Bytes of body that have come and that are still to come.
    seen: usize,
    missing: usize,
    stamp: Option<Stamp>,
    is_damaged: bool,
}

impl Subscriber {
    /// Connects and starts to consume.
    pub(crate) fn start(
        session: Session,
        queue: &str,
        acknowledging: Acknowledging,
        run: u16,
        ledger: Ledger,
        size_bytes: usize,
    ) -> Result<Self, LoadError> {
        let mut session = session;
        if acknowledging.prefetch > 0 {
            let prefetch_count = acknowledging.prefetch;
            let qos = Method::BasicQos { prefetch_size: 0, prefetch_count, global: false };
            session.call(&qos, "set the prefetch", |method| {
                matches!(method, Method::BasicQosOk {}).then_some(())
            })?;
        }
        let consume = Method::BasicConsume {
            reserved_1: 0,
            queue: ShortStr::cut(queue),
            consumer_tag: ShortStr::cut(CONSUMER),
            no_local: false,
            no_ack: acknowledging.every == 0,
            exclusive: false,
            no_wait: false,
            arguments: Table::default(),
        };
        session.call(&consume, "start a consumer", |method| {
            matches!(method, Method::BasicConsumeOk { .. }).then_some(())
        })?;
        session.set_receive_wait(GLANCE)?;
        Ok(Self {
            session,
            queue: queue.to_owned(),
            acknowledging,
            run,
            ledger,
            damaged: 0,
            expected_body: filling(size_bytes),
            message: Incoming::default(),
            last_tag: 0,
            unacknowledged: 0,
            last_receipt: None,
            fresh: Fresh::default(),
            answer: None,
        })
    }

    /// Waits a moment for input and takes it. `arrived` gets each message that is whole and sound, and how it
    /// came.
    pub(crate) fn receive(&mut self, mut arrived: impl FnMut(Stamp, Receipt)) -> Result<(), LoadError> {
        self.fresh = Fresh::default();
        if self.session.receive_waiting()? == Moved::WouldBlock {
            return Ok(());
        }
        while let Some(frame) = self.session.inbox.next_frame().map_err(LoadError::Malformed)? {
            let message = &mut self.message;
            match frame.kind {
                FrameKind::Method if frame.payload.starts_with(&DELIVER) => {
                    self.last_tag = delivery_tag(&frame)?;
                    *message = Incoming::default();
                }
                FrameKind::Header => {
                    let size = frame.payload.get(4..12).and_then(|size| size.first_chunk::<8>());
                    let size = size.map_or(0, |size| u64::from_be_bytes(*size));
                    message.missing = usize::try_from(size).unwrap_or(usize::MAX);
                    message.is_damaged = message.missing != self.expected_body.len();
                }
                FrameKind::Body => {
                    message.take(frame.payload, &self.expected_body);
                    if message.missing > 0 {
                        continue;
                    }
                    self.fresh.deliveries += 1;
                    let stamp = message.stamp.filter(|stamp| stamp.run == self.run && !message.is_damaged);
                    let came = stamp.and_then(|stamp| {
                        Some((stamp, self.ledger.record(stamp.publisher, stamp.sequence)?))
                    });
                    if let Some((stamp, receipt)) = came {
                        self.fresh.note(receipt);
                        arrived(stamp, receipt);
                    } else {
                        self.damaged += 1;
                        self.fresh.damaged += 1;
                    }
                }
                FrameKind::Method => match interpret(&frame)? {
                    Notice::Method(Method::QueueDeclareOk { message_count, .. }) => {
                        self.answer = Some(Answer::Waiting(message_count));
                    }
                    Notice::Method(Method::BasicCancelOk { .. }) => self.answer = Some(Answer::Ended),
                    Notice::Method(method) => return Err(LoadError::Unexpected { method: method.name() }),
                    Notice::Blocked(_) | Notice::Unblocked | Notice::Other => {}
                },
                FrameKind::Heartbeat => {}
            }
        }
        if self.fresh.deliveries > 0 {
            self.last_receipt = Some(Instant::now());
            self.acknowledge()?;
        }
        Ok(())
    }

    /// One acknowledgement for all that came in, once there are enough of them.
    fn acknowledge(&mut self) -> Result<(), LoadError> {
        if self.acknowledging.every == 0 {
            return Ok(());
        }
        self.unacknowledged += u32::try_from(self.fresh.deliveries).unwrap_or(u32::MAX);
        if self.unacknowledged >= self.acknowledging.every {
            self.acknowledge_all()?;
        }
        Ok(())
    }

    fn acknowledge_all(&mut self) -> Result<(), LoadError> {
        self.unacknowledged = 0;
        self.session.send(&Method::BasicAck { delivery_tag: self.last_tag, multiple: true })
    }

    /// Takes what still waits in the queue, ends the consumer and says goodbye. All that was published is here by now, so what
    /// still comes is a message too many: the copy of the very last one is no less wrong than any other.
    pub(crate) fn finish(mut self, shared: &Shared<'_>) -> Result<Finished, LoadError> {
        if let Err(error) = self.take_leave() {
            shared.breaks(error)?;
            return Ok(self.finished());
        }
        let Self { session, ledger, damaged, last_receipt, .. } = self;
        session.close().or_else(|error| shared.breaks(error))?;
        Ok(Finished { ledger, damaged, last_receipt })
    }

    /// What it has received, where its connection is over.
    pub(crate) fn finished(self) -> Finished {
        Finished { ledger: self.ledger, damaged: self.damaged, last_receipt: self.last_receipt }
    }

    fn take_leave(&mut self) -> Result<(), LoadError> {
        let until = Instant::now() + self.session.timeout();
        while self.waiting()? > 0 && Instant::now() < until {
            self.receive(|_, _| {})?;
        }
        let end = Method::BasicCancel { consumer_tag: ShortStr::cut(CONSUMER), no_wait: false };
        self.session.send(&end)?;
        while self.await_answer("end a consumer")? != Answer::Ended {}
        self.acknowledge_rest()
    }

    /// How many messages wait in the queue, with nothing held back because there is no acknowledgement.
    fn waiting(&mut self) -> Result<u32, LoadError> {
        self.acknowledge_rest()?;
        let look = Method::QueueDeclare {
            reserved_1: 0,
            queue: ShortStr::cut(&self.queue),
            passive: true,
            durable: false,
            exclusive: false,
            auto_delete: false,
            no_wait: false,
            arguments: Table::default(),
        };
        self.session.send(&look)?;
        loop {
            if let Answer::Waiting(count) = self.await_answer("tell what waits in a queue")? {
                return Ok(count);
            }
        }
    }

    /// Takes deliveries until the broker has answered.
    fn await_answer(&mut self, what: &'static str) -> Result<Answer, LoadError> {
        let until = Instant::now() + self.session.timeout();
        loop {
            self.receive(|_, _| {})?;
            if let Some(answer) = self.answer.take() {
                return Ok(answer);
            }
            if Instant::now() >= until {
                return Err(self.session.blockade.error(what, self.session.timeout()));
            }
        }
    }

    fn acknowledge_rest(&mut self) -> Result<(), LoadError> {
        if self.unacknowledged > 0 { self.acknowledge_all() } else { Ok(()) }
    }
}

/// What a subscriber leaves behind.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) ledger: Ledger,
    pub(crate) damaged: u64,
    pub(crate) last_receipt: Option<Instant>,
}

impl Incoming {
    #[inline]
    fn take(&mut self, part: &[u8], expected: &[u8]) {
        let mut filling = part;
        let mut at = self.seen;
        if at == 0 {
            self.stamp = Stamp::read(part);
            filling = part.get(STAMP_BYTES..).unwrap_or_default();
            at = STAMP_BYTES;
        }
        let same = expected.get(at..at + filling.len()) == Some(filling);
        self.is_damaged |= !same;
        self.seen += part.len();
        self.missing = self.missing.saturating_sub(part.len());
    }
}

#[inline]
fn delivery_tag(frame: &Frame<'_>) -> Result<u64, LoadError> {
    let malformed = LoadError::Malformed(tilemark_amqp::DecodeError::Truncated);
    let Some(&length) = frame.payload.get(4) else { return Err(malformed) };
    let at = 5 + usize::from(length);
    let tag = frame.payload.get(at..).and_then(|rest| rest.first_chunk::<8>());
    tag.map(|tag| u64::from_be_bytes(*tag)).ok_or(malformed)
}
