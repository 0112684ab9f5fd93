//! Histograms as bytes and back, merged and read: for both ends of a load.

use crate::{LoadError, Start};
use hdrhistogram::{
    Histogram,
    serialization::{Deserializer, Serializer, V2DeflateSerializer},
};
use std::{collections::BTreeMap, time::Instant};
use tilemark_agent_protocol::{Counts, LoadEvent, Sender, StreamSecond, StreamTotal};
use tilemark_plan::workload::Details;

/// An empty histogram with three significant digits that grows with its values.
pub fn histogram() -> Histogram<u64> {
    Histogram::new(3).expect("three digits are allowed")
}

/// The compressed V2 form of a histogram.
pub fn encode(histogram: &Histogram<u64>) -> Vec<u8> {
    let mut bytes = Vec::new();
    V2DeflateSerializer::new()
        .serialize(histogram, &mut bytes)
        .expect("a vector takes all bytes, and three digits fit the form");
    bytes
}

/// A histogram from its compressed V2 form. No bytes: an empty one.
pub fn decode(bytes: &[u8]) -> Result<Histogram<u64>, LoadError> {
    if bytes.is_empty() {
        return Ok(histogram());
    }
    Deserializer::new()
        .deserialize(&mut &bytes[..])
        .map_err(|error| LoadError::BadHistogram { bytes: bytes.len(), reason: error.to_string() })
}

/// All of several histograms in one: merged, never averaged.
pub fn merge<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Result<Histogram<u64>, LoadError> {
    let mut whole = histogram();
    for bytes in parts {
        whole
            .add(decode(bytes)?)
            .map_err(|error| LoadError::BadHistogram { bytes: bytes.len(), reason: error.to_string() })?;
    }
    Ok(whole)
}

/// What one load process reported, put together.
#[derive(Debug, Clone, Default)]
pub struct Gathered {
    /// What its threads got.
    pub sender: Option<Sender>,
    /// Every second of every stream, in the order reported.
    pub seconds: Vec<StreamSecond>,
    /// The busiest worker's part of a processor, for each second reported.
    pub busy: Vec<f64>,
    /// The totals.
    pub totals: Vec<StreamTotal>,
    /// The outputs of tools and engines that did a stream's work, by the stream's id.
    pub outputs: BTreeMap<u32, String>,
    /// What only loads of a stream's workload find, by the stream's id.
    pub details: BTreeMap<u32, Details>,
    /// Why it failed, and the remedy.
    pub failed: Option<Failure>,
}

/// A load that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failure {
    /// What failed.
    pub message: String,
    /// What to do about it.
    pub remedy: String,
}

impl Gathered {
    /// All that a load reports which begins as soon as it can.
    pub fn of<E>(
        run: impl FnOnce(Start<'_>, &mut dyn FnMut(LoadEvent)) -> Result<Vec<StreamTotal>, E>,
    ) -> Result<Self, E> {
        let (mut gathered, mut sender) = (Self::default(), None);
        let mut start = |got| {
            sender = Some(got);
            Some(Instant::now())
        };
        let totals = run(&mut start, &mut |event| gathered.take(event))?;
        Ok(Self { sender, totals, ..gathered })
    }

    /// Takes the next event.
    pub fn take(&mut self, event: LoadEvent) {
        match event {
            LoadEvent::Started(sender) => self.sender = Some(sender),
            LoadEvent::Second(second) => self.seconds.push(second),
            LoadEvent::Busy { fraction, .. } => self.busy.push(fraction),
            LoadEvent::Output { id, text } => drop(self.outputs.insert(id, text)),
            LoadEvent::Details { id, details } => drop(self.details.insert(id, *details)),
            LoadEvent::Done(totals) => self.totals = totals,
            LoadEvent::Failed { message, remedy } => self.failed = Some(Failure { message, remedy }),
        }
    }
    /// Whether nothing more will come.
    pub fn is_over(&self) -> bool {
        self.failed.is_some() || !self.totals.is_empty()
    }
    /// Latencies of all streams that `wanted` picks by their id, in nanoseconds.
    pub fn latency(&self, wanted: impl Fn(u32) -> bool) -> Result<Histogram<u64>, LoadError> {
        merge(self.seconds.iter().filter(|second| wanted(second.id)).map(|second| &second.latency[..]))
    }
    /// Latenesses of all streams that `wanted` picks by their id, in nanoseconds.
    pub fn lateness(&self, wanted: impl Fn(u32) -> bool) -> Result<Histogram<u64>, LoadError> {
        merge(self.seconds.iter().filter(|second| wanted(second.id)).map(|second| &second.lateness[..]))
    }
    /// Counts of all streams that `wanted` picks by their id.
    pub fn counts(&self, wanted: impl Fn(u32) -> bool) -> Counts {
        self.totals.iter().filter(|total| wanted(total.id)).map(|total| total.counts).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: &[u64]) -> Histogram<u64> {
        let mut histogram = histogram();
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    proptest! {
        #[test]
        fn merged_histograms_equal_the_histogram_of_all(
            a in prop::collection::vec(0_u64..1 << 36, 0..50),
            b in prop::collection::vec(0_u64..1 << 36, 0..50),
        ) {
            let both: Vec<u64> = a.iter().chain(&b).copied().collect();
            let parts = [encode(&of(&a)), encode(&of(&b))];
            let merged = merge(parts.iter().map(|part| &part[..])).unwrap();
            prop_assert_eq!(merged, of(&both));
        }
    }

    #[test]
    fn bytes_that_are_no_histogram_are_an_error() {
        assert!(matches!(decode(b"garbage"), Err(LoadError::BadHistogram { bytes: 7, .. })));
        assert!(decode(b"").unwrap().is_empty());
    }
}
