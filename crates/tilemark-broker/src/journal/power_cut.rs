//! A thousand power cuts at random points of the write stream.
//!
//! One broker lives through all of them: after each cut it recovers from what the disk kept, what it holds is compared with
//! what the broker answered to clients, and then it goes on. The disk keeps what was flushed; of the rest, any sectors or none. Two planted
//! defects show that the comparison can fail.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tilemark_amqp::{Method, Properties, Table};

use super::disk::Disk;
use super::recovery::recover;
use super::writer::{Batch, Writer};
use crate::engine::testing::{
    ExchangeFlags, Lab, QueueFlags, ack, bind, declare, exchange_with, get, publish,
};
use crate::ids::ConnectionId;

const SECTOR: usize = 512;

/// A disk of segments that forgets what was not flushed.
#[derive(Clone, Debug, Default)]
struct Platter {
    flushed: BTreeMap<u64, Vec<u8>>,
    written: BTreeMap<u64, Vec<u8>>,
}

impl Platter {
    /// The power goes: any unflushed sector may be there, as may any unflushed removal.
    fn cut(&mut self, rng: &mut StdRng) {
        let mut kept = BTreeMap::new();
        let segments: BTreeSet<u64> = self.flushed.keys().chain(self.written.keys()).copied().collect();
        for segment in segments {
            let old = self.flushed.get(&segment);
            match (old, self.written.get(&segment)) {
                (Some(old), None) if rng.random_bool(0.5) => drop(kept.insert(segment, old.clone())),
                (None, Some(_)) if rng.random_bool(0.3) => {}
                (old, Some(new)) => {
                    let old = old.map_or(&[][..], |old| &old[..]);
                    kept.insert(segment, torn(old, new, rng));
                }
                _ => {}
            }
        }
        self.flushed.clone_from(&kept);
        self.written = kept;
    }
}

/// The flushed start of a file and some of what was written behind it.
fn torn(old: &[u8], new: &[u8], rng: &mut StdRng) -> Vec<u8> {
    let length = rng.random_range(old.len()..=new.len());
    let mut bytes = new[..length].to_vec();
    let mut at = old.len();
    while at < length {
        let end = (at / SECTOR + 1) * SECTOR;
        if rng.random_bool(0.4) {
            bytes[at..end.min(length)].fill(if rng.random_bool(0.5) { 0 } else { 0xa5 });
        }
        at = end;
    }
    bytes
}

impl Disk for Platter {
    fn segments(&mut self) -> io::Result<Vec<u64>> {
        Ok(self.written.keys().copied().collect())
    }
    fn read(&mut self, segment: u64) -> io::Result<Vec<u8>> {
        Ok(self.written[&segment].clone())
    }
    fn append(&mut self, segment: u64, bytes: &[u8]) -> io::Result<()> {
        self.written.entry(segment).or_default().extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        self.flushed.clone_from(&self.written);
        Ok(())
    }
    fn remove(&mut self, segment: u64) -> io::Result<()> {
        self.written.remove(&segment);
        Ok(())
    }
}

/// What is wrong with a broker, for once on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Defect {
    None,
    /// It says "stored" when it has only begun to.
    ConfirmsTooEarly,
    /// It never flushes.
    NeverFlushes,
    /// It removes a segment before the batch that made it superfluous is stored.
    RemovesTooEarly,
}

/// A writer whose every step is a point where the power can be cut.
#[derive(Debug)]
struct Steps {
    platter: Platter,
    defect: Defect,
    batch: Option<Batch>,
    header_is_written: bool,
    written: usize,
    submitted: u64,
    stored: u64,
}

#[derive(Clone, Debug)]
struct SteppedWriter(Arc<Mutex<Steps>>);

impl SteppedWriter {
    fn new(platter: Platter, defect: Defect) -> Self {
        let steps = Steps {
            platter,
            defect,
            batch: None,
            header_is_written: false,
            written: 0,
            submitted: 0,
            stored: 0,
        };
        Self(Arc::new(Mutex::new(steps)))
    }

    /// Goes one step: some bytes, a flush, a removal.
    fn step(&self, rng: &mut StdRng) {
        let mut steps = self.0.lock().unwrap();
        let steps = &mut *steps;
        let Some(batch) = &mut steps.batch else { return };
        if steps.defect == Defect::RemovesTooEarly && !batch.remove.is_empty() {
            let oldest = batch.remove.remove(0);
            steps.platter.remove(oldest).unwrap();
            steps.platter.flushed.remove(&oldest);
            return;
        }
        if !batch.header.is_empty() {
            // It is flushed before anything is written behind it: two steps.
            if !std::mem::replace(&mut steps.header_is_written, true) {
                steps.platter.append(batch.segment, &batch.header).unwrap();
                return;
            }
            steps.header_is_written = false;
            batch.header.clear();
            if steps.defect != Defect::NeverFlushes {
                steps.platter.sync().unwrap();
            }
        } else if steps.written < batch.bytes.len() {
            let end = (steps.written + rng.random_range(1..3000)).min(batch.bytes.len());
            steps.platter.append(batch.segment, &batch.bytes[steps.written..end]).unwrap();
            steps.written = end;
        } else if steps.written != usize::MAX {
            if steps.defect != Defect::NeverFlushes {
                steps.platter.sync().unwrap();
            }
            steps.written = usize::MAX;
        } else if !batch.remove.is_empty() {
            let oldest = batch.remove.remove(0);
            steps.platter.remove(oldest).unwrap();
            // The flush that follows each removal is a step of its own.
            steps.written = batch.bytes.len();
        } else {
            steps.stored = batch.number;
            steps.batch = None;
            steps.written = 0;
        }
    }
}

impl Writer for SteppedWriter {
    fn is_idle(&self) -> bool {
        let steps = self.0.lock().unwrap();
        steps.batch.is_none()
    }
    fn submit(&mut self, batch: Batch) {
        let mut steps = self.0.lock().unwrap();
        steps.submitted = batch.number;
        steps.batch = Some(batch);
    }
    fn stored(&self) -> u64 {
        let steps = self.0.lock().unwrap();
        if steps.defect == Defect::ConfirmsTooEarly { steps.submitted } else { steps.stored }
    }
    fn failure(&self) -> Option<String> {
        None
    }
}

/// A message in a queue, as clients know it.
type Place = (&'static str, u64);

/// What the broker answered to clients, and so what must and what must not be there after a cut.
#[derive(Debug, Default)]
struct Model {
    last_id: u64,
    /// Certainly there: confirmed, committed, or seen after the last recovery; not acknowledged since.
    held: BTreeSet<Place>,
    /// Sent, and nothing was said.
    open: BTreeSet<Place>,
    /// Sent in one transaction, not yet answered: all of it or nothing.
    transaction: BTreeSet<Place>,
    /// Publishes in the order of their delivery tags that are not yet confirmed.
    unconfirmed: Vec<Vec<Place>>,
    answered: u64,
    /// Acknowledged; the batch of the journal that says so.
    acknowledged: BTreeMap<Place, u64>,
    /// Certainly gone.
    gone: BTreeSet<Place>,
}

impl Model {
    /// Compares what was found with what was answered; what was found then replaces it.
    fn check(&mut self, found: &BTreeMap<&'static str, Vec<u64>>, stored: u64) -> Result<(), String> {
        let mut present = BTreeSet::new();
        for (queue, ids) in found {
            if !ids.is_sorted_by(|a, b| a < b) {
                return Err(format!("queue {queue} is out of order or holds a message twice: {ids:?}"));
            }
            present.extend(ids.iter().map(|id| (*queue, *id)));
        }
        if let Some(lost) =
            self.held.difference(&present).find(|place| !self.acknowledged.contains_key(place))
        {
            return Err(format!("confirmed message {lost:?} was lost"));
        }
        for (place, batch) in &self.acknowledged {
            if *batch <= stored && present.contains(place) {
                return Err(format!("message {place:?} came back although its acknowledgement was stored"));
            }
        }
        if let Some(back) = present.intersection(&self.gone).next() {
            return Err(format!("message {back:?} came back from an earlier life"));
        }
        if let Some(strange) = present.iter().find(|place| {
            !self.held.contains(place) && !self.open.contains(place) && !self.transaction.contains(place)
        }) {
            return Err(format!("message {strange:?} was never sent"));
        }
        // What a consumer has acknowledged of it before it was committed may be gone.
        let of_transaction: BTreeSet<Place> =
            self.transaction.iter().filter(|place| !self.acknowledged.contains_key(place)).copied().collect();
        let found = of_transaction.intersection(&present).count();
        if found != 0 && found != of_transaction.len() {
            return Err(format!("{found} of {} messages of a transaction are there", of_transaction.len()));
        }
        let all = [&self.held, &self.open, &self.transaction].into_iter().flatten().copied();
        self.gone.extend(all.filter(|place| !present.contains(place)));
        let last_id = self.last_id;
        *self = Self { last_id, held: present, gone: std::mem::take(&mut self.gone), ..Self::default() };
        Ok(())
    }
}

/// One life of the broker.
struct Life<'r> {
    lab: Lab,
    writer: SteppedWriter,
    publisher: ConnectionId,
    committer: ConnectionId,
    consumer: ConnectionId,
    rng: &'r mut StdRng,
}

impl<'r> Life<'r> {
    fn begin(mut platter: Platter, defect: Defect, rng: &'r mut StdRng) -> Self {
        let mut lab = Lab::new();
        let recovered = recover(&mut platter).unwrap();
        assert!(
            defect != Defect::None || recovered.damage.is_none(),
            "a power cut does no damage: {:?}",
            recovered.damage
        );
        let writer = SteppedWriter::new(platter, defect);
        lab.engine.restore(&recovered, Box::new(writer.clone()));
        lab.engine.journal_mut().unwrap().set_segment_bytes(4000);
        let (publisher, committer, consumer) = (lab.client(), lab.client(), lab.client());
        let mut life = Self { lab, writer, publisher, committer, consumer, rng };
        life.declare();
        life
    }

    /// The first life declares; later ones find everything unchanged.
    fn declare(&mut self) {
        let durable = QueueFlags { durable: true, ..QueueFlags::default() };
        for queue in ["a", "b"] {
            let said = self.lab.ask(self.publisher, &declare(queue, durable)).join("");
            assert!(said.starts_with("QueueDeclareOk"), "{said}");
        }
        let said = self.lab.ask(self.publisher, &durable_fanout("f")).join("");
        assert_eq!(said, "ExchangeDeclareOk");
        self.lab.ask(self.publisher, &bind("a", "f", ""));
        self.lab.ask(self.publisher, &bind("b", "f", ""));
        self.lab.ask(self.publisher, &Method::ConfirmSelect { no_wait: false });
        self.lab.ask(self.committer, &Method::TxSelect {});
        while self.lab.engine.journal_mut().is_some_and(|journal| !journal.is_settled()) {
            self.writer.step(self.rng);
            self.lab.engine.turn();
        }
    }

    /// What is in the queues, without taking it.
    fn look(&mut self) -> BTreeMap<&'static str, Vec<u64>> {
        let mut found = BTreeMap::new();
        let looker = self.lab.client();
        for queue in ["a", "b"] {
            let mut ids = Vec::new();
            loop {
                let said = self.lab.ask(looker, &get(queue, false));
                let Some(body) = said.get(1) else { break };
                ids.push(body[2..].trim_end_matches('.').parse().unwrap());
            }
            found.insert(queue, ids);
        }
        self.lab.engine.disconnect(looker);
        found
    }

    fn send(&mut self, client: ConnectionId, model: &mut Model) -> Vec<Place> {
        model.last_id += 1;
        let id = model.last_id;
        let padding = ".".repeat(self.rng.random_range(0..900));
        let fanout = self.rng.random_bool(0.3);
        let (exchange, key) = if fanout { ("f", "") } else { ("", "a") };
        let body = format!("{id}{padding}");
        self.lab.bytes(client, &publish(1, exchange, key, Properties::PERSISTENT, body.as_bytes()));
        if fanout { vec![("a", id), ("b", id)] } else { vec![("a", id)] }
    }

    fn act(&mut self, model: &mut Model) {
        match self.rng.random_range(0..10) {
            0..2 => {
                let places = self.send(self.publisher, model);
                model.open.extend(&places);
                model.unconfirmed.push(places);
            }
            2 if model.transaction.is_empty() => {
                for _ in 0..self.rng.random_range(2..5) {
                    let places = self.send(self.committer, model);
                    model.transaction.extend(places);
                }
                self.lab.send(self.committer, 1, &Method::TxCommit {});
            }
            3..6 => {
                for _ in 0..self.rng.random_range(1..8) {
                    self.consume_one("a", model);
                }
            }
            // The other queue keeps its messages for long, so that they outlive their segments and must be moved.
            6 if self.rng.random_bool(0.15) => while self.consume_one("b", model) {},
            _ => {
                for _ in 0..self.rng.random_range(1..20) {
                    self.writer.step(self.rng);
                    self.lab.engine.turn();
                }
            }
        }
        self.hear(model);
    }

    /// Takes and acknowledges a message; false when there is none.
    fn consume_one(&mut self, queue: &'static str, model: &mut Model) -> bool {
        let said = self.lab.ask(self.consumer, &get(queue, false));
        let Some(body) = said.get(1) else { return false };
        let tag: u64 =
            said[0]["BasicGetOk { delivery_tag: ".len()..].split(',').next().unwrap().parse().unwrap();
        let id: u64 = body[2..].trim_end_matches('.').parse().unwrap();
        let batch = self.lab.engine.journal_mut().unwrap().open_batch();
        self.lab.send(self.consumer, 1, &ack(tag));
        model.acknowledged.insert((queue, id), batch);
        true
    }

    /// Takes confirms and commits.
    fn hear(&mut self, model: &mut Model) {
        for said in self.lab.hear(self.publisher) {
            let Some(rest) = said.strip_prefix("BasicAck { delivery_tag: ") else { continue };
            let tag: u64 = rest.split(',').next().unwrap().parse().unwrap();
            let count = usize::try_from(tag - model.answered).unwrap();
            model.answered = tag;
            for place in model.unconfirmed.drain(..count).flatten() {
                model.open.remove(&place);
                model.held.insert(place);
            }
        }
        if self.lab.hear(self.committer).iter().any(|said| said == "TxCommitOk") {
            model.held.append(&mut model.transaction);
        }
    }
}

fn durable_fanout(exchange: &str) -> Method<'_> {
    let flags = ExchangeFlags { durable: true, ..ExchangeFlags::default() };
    exchange_with(exchange, "fanout", flags, Table::default())
}

/// What happened in a series of cuts.
#[derive(Debug, Default)]
struct Tally {
    messages: u64,
    confirmed: usize,
    last_segment: u64,
}

/// Lives through a number of cuts; the first contradiction ends it.
fn live_through(cuts: u32, seed: u64, defect: Defect) -> Result<Tally, String> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut platter = Platter::default();
    let mut model = Model::default();
    let mut tally = Tally::default();
    let mut stored = 0;
    for cut in 0..cuts {
        let mut life = Life::begin(platter, defect, &mut rng);
        let found = life.look();
        model.check(&found, stored).map_err(|wrong| format!("after cut {cut} (seed {seed}): {wrong}"))?;
        for _ in 0..life.rng.random_range(1..60) {
            life.act(&mut model);
        }
        tally.confirmed += usize::try_from(model.answered).unwrap();
        let writer = life.writer.clone();
        drop(life);
        let steps = Arc::try_unwrap(writer.0).unwrap().into_inner().unwrap();
        stored = steps.stored;
        platter = steps.platter;
        tally.last_segment = platter.written.keys().last().copied().unwrap_or(0);
        platter.cut(&mut rng);
    }
    tally.messages = model.last_id;
    Ok(tally)
}

#[test]
fn a_thousand_power_cuts_lose_no_confirmed_message_and_bring_none_back() {
    let tally = live_through(1000, 20_261_121, Defect::None).unwrap();
    println!("{{\"what\":\"power cuts\",\"cuts\":1000,\"confirmed\":{},\"lost\":0}}", tally.confirmed);
    // The series is worth its name only when much was confirmed and segments came and went.
    assert!(tally.confirmed > 3000 && tally.messages > 8000 && tally.last_segment > 1100, "{tally:?}");
}

#[test]
fn a_broker_that_confirms_before_it_has_stored_is_caught() {
    let wrong = live_through(1000, 1, Defect::ConfirmsTooEarly).unwrap_err();
    assert!(wrong.contains("was lost"), "{wrong}");
}

#[test]
fn a_broker_that_never_flushes_is_caught() {
    let wrong = live_through(1000, 2, Defect::NeverFlushes).unwrap_err();
    assert!(wrong.contains("was lost") || wrong.contains("came back"), "{wrong}");
}

#[test]
fn a_broker_that_removes_segments_too_early_is_caught() {
    let wrong = live_through(1000, 3, Defect::RemovesTooEarly).unwrap_err();
    assert!(wrong.contains("was lost") || wrong.contains("came back"), "{wrong}");
}
