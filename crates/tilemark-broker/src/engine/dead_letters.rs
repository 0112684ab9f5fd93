//! Messages that a queue gives up, on their way to its exchange for dead letters.
//!
//! They wait in a list, and each is published again from there: a queue whose dead letters end in another one that has some
//! costs no recursion. What RabbitMQ writes into the headers is written here.

use tilemark_amqp::{
    ContentHeader, Encoder, Properties, ShortStr, Table, TableBuilder, Value, put_header_payload,
};

use super::BrokerCore;
use super::consume::route_names;
use super::pending::{Death, Reason};
use super::publish::more_keys;
use super::work::STEPS_OF_CHORES;
use crate::channel::PublishOptions;
use crate::connection::FRAME_MAX;
use crate::exception::Exception;
use crate::ids::QueueId;
use crate::queue::{DeadLetters, Entry, NEVER, Overflow};
use crate::store::Layout;

/// Steps of a dead letter beyond those of a message that is published.
const BURIAL_STEPS: u64 = 10;
const HISTORY_BYTES_OF_A_STEP: u64 = 64;
const BODY_BYTES_OF_A_STEP: u64 = 1024;

/// A dead letter as it is published.
struct Letter {
    keys: Vec<Box<[u8]>>,
    /// Route and header.
    start: Vec<u8>,
    layout: Layout,
    headers: TableBuilder,
    persistent: bool,
}

impl BrokerCore {
    /// A queue is done with a message that nobody has acknowledged.
    pub(super) fn give_up(&mut self, queue: QueueId, entry: Entry, reason: Reason) {
        let Some(found) = self.queues.get(queue) else {
            self.store.release(entry.message);
            return;
        };
        let journal_id = found.journal_id;
        if found.settings.dead_letters.is_some() {
            self.dying.push_back(Death { queue, journal_id, entry, reason });
        } else {
            self.end_message(journal_id, &entry);
        }
    }

    /// Drops the oldest messages that are ready, until the queue is within its limits.
    #[inline(never)]
    pub(super) fn drop_until_within_limit(&mut self, id: QueueId) {
        while let Some(queue) = self.queues.get_mut(id).filter(|queue| queue.is_over_limit())
            && let Some(entry) = queue.pop(|message| self.store.length(message))
        {
            self.steps += 1;
            self.give_up(id, entry, Reason::MaxLength);
            // The next one may have a time to live, and nobody may be there to look at it.
            self.arm(id);
        }
    }

    /// Publishes dead letters; called once in each turn.
    pub(super) fn bury_dead(&mut self) {
        let end = self.steps + STEPS_OF_CHORES;
        while self.steps < end
            && let Some(death) = self.dying.pop_front()
        {
            self.steps += BURIAL_STEPS;
            self.bury(&death);
        }
    }

    /// Publishes one again and ends it in its queue. In the journal that is one record, so that a power cut leaves it in one
    /// of the two places.
    fn bury(&mut self, death: &Death) {
        let Some(queue) = self.queues.get(death.queue) else {
            // The queue was deleted meanwhile, and its messages with it.
            self.forget_message(death.journal_id, &death.entry);
            return;
        };
        let Some(letters) = queue.settings.dead_letters.clone() else {
            self.end_message(death.journal_id, &death.entry);
            return;
        };
        let name = queue.name.clone();
        // Its history is read and written again, and its body is copied.
        let parts = self.store.parts(death.entry.message);
        self.steps += parts.header.len() as u64 / HISTORY_BYTES_OF_A_STEP;
        self.steps += parts.body.len() as u64 / BODY_BYTES_OF_A_STEP;
        if let Some(journal) = &mut self.journal {
            journal.begin_group();
        }
        if let Ok(Some(letter)) = self.dead_letter(death, &name, &letters) {
            self.post(death, &letters, &letter);
        }
        self.end_message(death.journal_id, &death.entry);
        if let Some(journal) = &mut self.journal {
            journal.end_group();
        }
    }

    fn post(&mut self, death: &Death, letters: &DeadLetters, letter: &Letter) {
        let headers = letter.headers.as_table();
        let mut targets = Vec::new();
        for key in &letter.keys {
            targets.extend(self.targets_of(&letters.exchange.0, key, headers));
        }
        targets.sort_unstable();
        targets.dedup();
        let deaths = deaths_of(headers);
        let body_length = self.store.parts(death.entry.message).body.len();
        let length = u32::try_from(letter.start.len() + body_length).unwrap_or(u32::MAX);
        targets.retain(|target| {
            self.queues.get(*target).is_some_and(|queue| {
                let goes_round = death.reason != Reason::Rejected && is_cycle(&queue.name, &deaths);
                // Nobody is left who could hear that a full queue refuses it.
                let is_full =
                    queue.settings.overflow == Overflow::RejectPublish && queue.would_be_over_limit(length);
                !goes_round && !is_full
            })
        });
        if targets.is_empty() {
            return;
        }
        let body = self.store.parts(death.entry.message).body.to_vec();
        let message = self.store.append(letter.layout, [&letter.start, &body]);
        let options = PublishOptions { persistent: letter.persistent, mandatory: false, ttl_ms: NEVER };
        // It fails where the journal has, and then the letter is lost with all that comes after it.
        let _ = self.put_into_queues(None, message, &targets, options);
    }

    /// The message as RabbitMQ publishes it again: with its history in `x-death`, and without its time to live. `None` where the
    /// history makes it too long to be sent.
    fn dead_letter(
        &self,
        death: &Death,
        queue: &[u8],
        letters: &DeadLetters,
    ) -> Result<Option<Letter>, Exception> {
        let parts = self.store.parts(death.entry.message);
        let (exchange, routing_key) = route_names(parts.route);
        let header = ContentHeader::decode(parts.header)?;
        let found = header.properties.for_broker()?;
        let own_keys = || std::iter::once(routing_key.as_bytes()).chain(more_keys(found.headers));
        let keys: Vec<Box<[u8]>> = match &letters.routing_key {
            Some(key) => vec![key.0.clone()],
            None => own_keys().map(Box::from).collect(),
        };
        let event = TableBuilder::new()
            .text("reason", death.reason.name())
            .bytes("queue", queue)
            .time("time", self.clock.wall_ms() / 1000)
            .bytes("exchange", exchange.as_bytes())
            .texts("routing-keys", own_keys());
        let event = match found.expiration {
            Some(expiration) => event.bytes("original-expiration", expiration),
            None => event,
        };
        let headers = with_death(found.headers, &event, letters.routing_key.is_some());
        let properties = header.properties.with_headers(headers.as_table(), false)?;
        let first_key = keys.first().map_or(&[][..], |key| key);
        let (start, layout) = start_of(&letters.exchange.0, first_key, header.body_size, &properties);
        if layout.header as usize + tilemark_amqp::FRAME_OVERHEAD > FRAME_MAX {
            return Ok(None);
        }
        Ok(Some(Letter { keys, start, layout, headers, persistent: found.persistent }))
    }
}

/// Route and header of a message.
fn start_of(exchange: &[u8], key: &[u8], body_size: u64, properties: &[u8]) -> (Vec<u8>, Layout) {
    let mut start = Vec::with_capacity(14 + exchange.len() + key.len() + properties.len());
    let mut names = Encoder::new(&mut start);
    for name in [exchange, key] {
        names.short_str(ShortStr::new(name).expect("names and keys are short strings"));
    }
    let route = u16::try_from(start.len()).expect("two short strings");
    put_header_payload(&mut start, body_size, Properties::from_bytes(properties));
    let header = u32::try_from(start.len()).expect("a few frames at most") - u32::from(route);
    (start, Layout { route, header })
}

/// The tables of `x-death`, newest first.
fn deaths_of(headers: Table<'_>) -> Vec<Table<'_>> {
    let Some(Value::Array(deaths)) = headers.get("x-death") else { return Vec::new() };
    deaths
        .values()
        .filter_map(|death| if let Value::Table(death) = death { Some(death) } else { None })
        .collect()
}

/// Headers with one more death. The same queue and reason count up; the first death of all is kept apart.
fn with_death(headers: Table<'_>, event: &TableBuilder, drops_keys: bool) -> TableBuilder {
    let known = deaths_of(headers);
    let is_same = |death: &Table<'_>| {
        ["queue", "reason"].iter().all(|field| death.get(field) == event.as_table().get(field))
    };
    let count = |count: i64, of: Table<'_>| {
        let table = TableBuilder::new().integer("count", count);
        let others = of.raw_entries().filter(|(name, _)| *name != b"count");
        others.fold(table, |table, (_, entry)| table.raw_entry(entry))
    };
    let newest = match known.iter().find(|death| is_same(death)) {
        Some(again) => {
            let before = if let Some(Value::Integer(count)) = again.get("count") { count } else { 0 };
            count(before.saturating_add(1), *again)
        }
        None => count(1, event.as_table()),
    };
    let is_first = headers.get("x-death").is_none();
    let replaced = |name: &[u8]| {
        name == b"x-death"
            || (is_first && name.starts_with(b"x-first-death-"))
            || (drops_keys && name == b"CC")
    };
    let kept = headers.raw_entries().filter(|(name, _)| !replaced(name));
    let mut new = kept.fold(TableBuilder::new(), |table, (_, entry)| table.raw_entry(entry));
    if is_first {
        for field in ["reason", "queue", "exchange"] {
            let value = if let Some(Value::Bytes(value)) = event.as_table().get(field) { value } else { &[] };
            new = new.bytes(&format!("x-first-death-{field}"), value);
        }
    }
    let others = known.iter().filter(|death| !is_same(death)).copied();
    new.tables("x-death", std::iter::once(newest.as_table()).chain(others))
}

/// Whether a message would be in a queue again without that anybody has rejected it in between: RabbitMQ drops it there.
fn is_cycle(queue: &[u8], deaths: &[Table<'_>]) -> bool {
    let Some(last) = deaths.iter().position(|death| death.get("queue") == Some(Value::Bytes(queue))) else {
        return false;
    };
    deaths[..=last].iter().all(|death| death.get("reason") != Some(Value::Bytes(b"rejected")))
}
