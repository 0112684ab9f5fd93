//! Flipped bits in a journal: what they have hit is counted, and all else is read as if they were not there.

use std::collections::BTreeMap;

use rand::rngs::StdRng;
use rand::seq::IteratorRandom;
use rand::{RngExt, SeedableRng};
use tilemark_amqp::{Method, Properties};

use super::damage::JournalDamage;
use super::record::{Found, HEADER_BYTES, Record, SegmentHeader, read};
use super::recovery::{Recovered, recover};
use crate::engine::testing::{Lab, MemoryDisk, QueueFlags, ack, declare, get, publish};

const DURABLE: QueueFlags = QueueFlags { durable: true, exclusive: false, auto_delete: false };

/// A journal of several segments and two lives, whose second one has ended in order.
fn journal(rng: &mut StdRng) -> MemoryDisk {
    let disk = MemoryDisk::default();
    for _ in 0..2 {
        let mut lab = Lab::new();
        lab.engine.restore(&disk.recovered(), Box::new(disk.clone()));
        lab.engine.journal_mut().unwrap().set_segment_bytes(6000);
        let client = lab.client();
        lab.ask(client, &declare("q", DURABLE));
        let mut tag = 0;
        for _ in 0..60 {
            let body = vec![7; rng.random_range(0..400)];
            lab.bytes(client, &publish(1, "", "q", Properties::PERSISTENT, &body));
            if rng.random_bool(0.5) {
                lab.ask(client, &get("q", false));
                tag += 1;
                lab.send(client, 1, &ack(tag));
            }
        }
        lab.engine.disconnect(client);
        lab.engine.turn();
        lab.engine.close_journal();
        lab.engine.turn();
    }
    disk
}

/// Where the records of a journal that is whole are, by segment: offset, length, and what each is.
fn records(disk: &MemoryDisk) -> Vec<(u64, usize, usize, &'static str)> {
    let mut all = Vec::new();
    for (segment, bytes) in disk.segments_now() {
        let header = SegmentHeader::read(&bytes).unwrap();
        let mut at = HEADER_BYTES;
        while let Found::Record(record, _, length) = read(&bytes[at..], header) {
            let kind = match record {
                Record::Message { .. } => "message",
                Record::Settled { .. } => "acknowledgement",
                Record::Batch(_) => "batch",
                Record::Closed => "closed",
                _ => "definition",
            };
            all.push((segment, at, length, kind));
            at += length;
        }
        assert_eq!(at, bytes.len());
    }
    all
}

/// What would be recovered of a journal without some of its records: the whole ones, one after the other.
fn without(disk: &MemoryDisk, damaged: &[(u64, usize)]) -> Recovered {
    let left = MemoryDisk::default();
    let whole = records(disk).into_iter().filter(|(segment, at, ..)| !damaged.contains(&(*segment, *at)));
    let mut segments: BTreeMap<u64, Vec<u8>> = disk
        .segments_now()
        .into_iter()
        .map(|(number, bytes)| (number, bytes[..HEADER_BYTES].to_vec()))
        .collect();
    let bytes = disk.segments_now();
    for (segment, at, length, _) in whole {
        segments.get_mut(&segment).unwrap().extend_from_slice(&bytes[&segment][at..at + length]);
    }
    left.replace(segments);
    recover(&mut left.clone()).unwrap()
}

#[test]
fn whatever_bits_flip_all_other_records_are_read_and_the_lost_ones_are_counted() {
    let mut rng = StdRng::seed_from_u64(16);
    let disk = journal(&mut rng);
    let clean = disk.recovered();
    assert_eq!((clean.damage.as_ref(), clean.ignored_bytes), (None, 0));
    assert!(clean.segments.len() > 3 && clean.messages.len() > 20, "{:?}", clean.segments);
    let records = records(&disk);
    let mut kinds = BTreeMap::new();
    for round in 0..1000 {
        let count = if round % 4 == 0 { rng.random_range(2..5) } else { 1 };
        let hit: Vec<_> = records.iter().sample(&mut rng, count).into_iter().copied().collect();
        let mut segments = disk.segments_now();
        let mut expected = JournalDamage::default();
        for (segment, at, length, kind) in &hit {
            let bytes = segments.get_mut(segment).unwrap();
            bytes[at + rng.random_range(0..*length)] ^= 1 << rng.random_range(0..8);
            *kinds.entry(*kind).or_insert(0) += 1;
            match *kind {
                "message" => expected.messages += 1,
                "acknowledgement" => expected.acknowledgements += 1,
                "definition" => expected.definitions += 1,
                _ => {}
            }
        }
        let damaged = MemoryDisk::default();
        damaged.replace(segments);
        let found = damaged.recovered();
        let places: Vec<(u64, usize)> = hit.iter().map(|(segment, at, ..)| (*segment, *at)).collect();
        let left = without(&disk, &places);
        assert_eq!(found.messages, left.messages, "round {round}: {hit:?}");
        assert_eq!(
            (&found.queues, &found.bindings, &found.exchanges),
            (&left.queues, &left.bindings, &left.exchanges)
        );
        // The mark of an end in order is in a batch of its own, which a power cut could have torn.
        let is_only_the_mark = hit.iter().all(|(.., kind)| *kind == "closed");
        let is_last_of_life =
            |segment: &u64| records.iter().any(|(of, .., kind)| of == segment && *kind == "closed");
        let marks =
            hit.iter().filter(|(segment, .., kind)| *kind == "batch" && is_last_of_life(segment)).count();
        if is_only_the_mark || (marks == hit.len()) {
            continue;
        }
        let lost = found.damage.unwrap_or_else(|| panic!("round {round}: {hit:?} is not noticed"));
        if hit.iter().all(|(.., kind)| *kind != "batch" && *kind != "closed") {
            assert_eq!(
                (lost.messages, lost.acknowledgements, lost.definitions, lost.batches_of_unknown_size),
                (expected.messages, expected.acknowledgements, expected.definitions, 0),
                "round {round}: {hit:?}"
            );
        }
    }
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}

#[test]
fn a_segment_that_is_missing_or_overwritten_is_damage() {
    let disk = journal(&mut StdRng::seed_from_u64(17));
    let clean = disk.segments_now();
    let middle = *clean.keys().nth(1).unwrap();
    let mut missing = clean.clone();
    missing.remove(&middle);
    let damaged = MemoryDisk::default();
    damaged.replace(missing);
    let damage = damaged.recovered().damage.unwrap();
    assert_eq!(damage.missing_segments, 1);
    assert!(damage.to_string().starts_with("1 segments are missing; lost: at least 0 messages"), "{damage}");
    let mut overwritten = clean.clone();
    overwritten.get_mut(&middle).unwrap().fill(0);
    damaged.replace(overwritten);
    let damage = damaged.recovered().damage.unwrap();
    assert_eq!((damage.segments, damage.batches_of_unknown_size), (vec![middle], 1));
    // One whole copy of its header is enough.
    for copy in 0..3 {
        let mut scratched = clean.clone();
        let bytes = scratched.get_mut(&middle).unwrap();
        bytes[..HEADER_BYTES].iter_mut().enumerate().for_each(|(at, byte)| {
            if at / (HEADER_BYTES / 3) != copy {
                *byte = 0;
            }
        });
        damaged.replace(scratched);
        assert_eq!(damaged.recovered().damage, None);
    }
}

#[test]
fn what_a_message_contains_is_never_read_as_records() {
    // The attacker knows the format, and not the secret of the segment.
    let disk = MemoryDisk::default();
    let mut lab = Lab::new();
    lab.engine.restore(&Recovered::default(), Box::new(disk.clone()));
    let client = lab.client();
    lab.ask(client, &declare("q", DURABLE));
    lab.bytes(client, &publish(1, "", "q", Properties::PERSISTENT, b"kept"));
    let mut forged = Vec::new();
    let start = super::record::open(&mut forged);
    super::record::put_queue_gone(&mut forged, 1);
    super::record::close(&mut forged, start, SegmentHeader::new(99), 1);
    lab.bytes(client, &publish(1, "", "q", Properties::PERSISTENT, &forged.repeat(50)));
    lab.bytes(client, &publish(1, "", "q", Properties::PERSISTENT, b"after"));
    let mut segments = disk.segments_now();
    let (segment, at, ..) =
        records(&disk).into_iter().filter(|(.., kind)| *kind == "message").nth(1).unwrap();
    // Its head is damaged, so that the search goes through its body.
    segments.get_mut(&segment).unwrap()[at] ^= 0x80;
    disk.replace(segments);
    let found = disk.recovered();
    assert_eq!((found.queues.len(), found.messages.len()), (1, 2));
    assert_eq!(found.damage.unwrap().messages, 1);
}

#[test]
fn a_damaged_journal_that_was_accepted_is_whole_from_then_on() {
    let disk = journal(&mut StdRng::seed_from_u64(18));
    let (segment, at, length, _) = records(&disk).into_iter().find(|(.., kind)| *kind == "message").unwrap();
    let mut segments = disk.segments_now();
    segments.get_mut(&segment).unwrap()[at + length - 1] ^= 1;
    disk.replace(segments);
    let before = disk.recovered();
    assert!(before.damage.is_some());
    let mut lab = Lab::new();
    lab.engine.restore(&before, Box::new(disk.clone()));
    lab.engine.turn();
    lab.engine.turn();
    let after = disk.recovered();
    assert_eq!(after.damage, None);
    let bytes = |recovered: &Recovered| -> Vec<(u64, Vec<u8>)> {
        recovered.messages.iter().map(|(serial, message)| (*serial, message.bytes.clone())).collect()
    };
    assert_eq!(bytes(&after), bytes(&before));
    assert_eq!(after.segments.len(), 1);
    // And its messages can still be acknowledged.
    let client = lab.client();
    lab.ask(client, &get("q", false));
    lab.send(client, 1, &Method::BasicAck { delivery_tag: 1, multiple: false });
    assert_eq!(disk.recovered().messages.len(), before.messages.len() - 1);
}
