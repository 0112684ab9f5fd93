//! Client machines of a step beside each other, by the rule for hosts of a fleet ([`compare_hosts`]): whose tiles take longer?
//!
//! Each repeat is a block, since all clients send at the same time in it. Tiles change their client from block to block, so a tile that
//! is slower than others adds to the scatter and makes no client look slow. One correction goes over all clients, measures and steps.

use tilemark_record::clients::ClientLoad;
use tilemark_record::clients::{ClientChange, ClientComparison, ClientFigures, ClientMeasure, ClientOutcome};
use tilemark_record::result::PointResult;
use tilemark_record::summary::RepeatSummary;
use tilemark_units::{median, natural_key};

use super::measured::MeasuredPoint;
use crate::fleet::{
    GroupMeasure, GroupSpread, HOST_LEAST_CHANGE, HOST_LEAST_CHANGE_OF_TAIL, HostVerdict, compare_hosts,
};

/// Clients that a sentence describes.
const DESCRIBED: usize = 3;

/// How a measure is read from a load of a client.
type Read = fn(&ClientLoad) -> Option<f64>;

/// Each with its least change.
const MEASURES: [(&str, f64, Read); 2] =
    [("p50", HOST_LEAST_CHANGE, |load| load.p50_ms), ("p99", HOST_LEAST_CHANGE_OF_TAIL, |load| load.p99_ms)];

/// A measure of one load of a step.
struct Asked {
    load: String,
    name: &'static str,
    least_change: f64,
    /// Of each client in each repeat, or why that cannot be.
    values: Result<Vec<Vec<f64>>, String>,
}

/// The clients of one step.
struct Step<'a> {
    kept: &'a [&'a RepeatSummary],
    names: Vec<String>,
    asked: Vec<Asked>,
}

/// Compares the clients of each point that counts, writes what was found to its result, and a note where a client differs.
pub(crate) fn compare(measured: &[MeasuredPoint], results: &mut [PointResult]) {
    // An emulator's times mean nothing, and would only widen the correction for the others.
    let steps: Vec<Option<Step>> =
        measured.iter().map(|point| Step::of(&point.kept).filter(|_| point.counts)).collect();
    let asked = steps.iter().flatten().flat_map(|step| &step.asked);
    let questions: Vec<GroupMeasure> = asked
        .filter_map(|asked| {
            let hosts = asked.values.clone().ok()?;
            Some(GroupMeasure { hosts, least_change: asked.least_change, in_blocks: true })
        })
        .collect();
    let mut spreads = compare_hosts(&questions).into_iter();
    for (step, result) in steps.iter().zip(results) {
        let Some(step) = step else { continue };
        let found =
            step.found(|| spreads.next().expect("each question has an answer").map_err(|why| why.reason));
        if found.outcome == ClientOutcome::Differs {
            result.notes.push(found.sentence.clone());
        }
        result.clients = Some(found);
    }
}

impl<'a> Step<'a> {
    /// Nothing where fewer than two clients sent anything.
    fn of(kept: &'a [&'a RepeatSummary]) -> Option<Self> {
        let all = || kept.iter().flat_map(|repeat| &repeat.clients);
        let mut names: Vec<String> = all().map(|client| client.name.clone()).collect();
        names.sort_by_cached_key(|name| natural_key(name));
        names.dedup();
        if names.len() < 2 {
            return None;
        }
        let mut loads: Vec<&str> = all().flat_map(|client| &client.loads).map(|load| &*load.name).collect();
        loads.sort_unstable();
        loads.dedup();
        let asked = |load: &&str| {
            MEASURES.map(|(name, least_change, read)| Asked {
                load: (*load).to_owned(),
                name,
                least_change,
                values: values(kept, &names, load, name, read),
            })
        };
        let asked = loads.iter().flat_map(asked).collect();
        Some(Self { kept, names, asked })
    }

    /// What `answer` says about each measure that could be asked for, in their order.
    fn found(&self, mut answer: impl FnMut() -> Result<GroupSpread, String>) -> ClientComparison {
        let (mut measures, mut why) = (Vec::new(), self.why_none());
        for asked in &self.asked {
            let spread = asked.values.as_ref().map_err(Clone::clone).and_then(|_| answer());
            match spread {
                Ok(spread) => measures.push(self.measure(asked, &spread)),
                Err(reason) => why = why.or(Some(reason)),
            }
        }
        let differs = |name: &&String| {
            let own = |measure: &ClientMeasure| {
                measure
                    .clients
                    .iter()
                    .any(|one| one.client == **name && one.outcome == ClientOutcome::Differs)
            };
            measures.iter().any(own)
        };
        let named: Vec<String> = self.names.iter().filter(differs).cloned().collect();
        let all_alike = measures.iter().all(|measure| measure.outcome == ClientOutcome::Alike);
        let outcome = match named.is_empty() {
            false => ClientOutcome::Differs,
            true if all_alike && !measures.is_empty() && why.is_none() => ClientOutcome::Alike,
            true => ClientOutcome::CannotTell,
        };
        let mut found = ClientComparison { outcome, named, sentence: String::new(), why, measures };
        found.sentence = self.sentence(&found);
        found
    }

    /// With fewer tiles than clients some send nothing.
    fn why_none(&self) -> Option<String> {
        let least = self.kept.iter().map(|repeat| repeat.clients.len()).min()?;
        (least < self.names.len()).then(|| {
            format!(
                "only {least} of {count} clients sent loads at the same time; they are compared from {count} tiles on",
                count = self.names.len()
            )
        })
    }

    fn measure(&self, asked: &Asked, spread: &GroupSpread) -> ClientMeasure {
        let change = |(name, host): (&String, &crate::fleet::HostChange)| ClientChange {
            client: name.clone(),
            value_ms: host.value,
            change: host.change.clone().into(),
            simultaneous_low: finite(host.simultaneous.low),
            simultaneous_high: finite(host.simultaneous.high),
            p: host.p,
            outcome: outcome(host.verdict),
        };
        ClientMeasure {
            load: asked.load.clone(),
            name: asked.name.to_owned(),
            centre_ms: spread.centre,
            least_change: asked.least_change,
            clients: self.names.iter().zip(&spread.hosts).map(change).collect(),
            outcome: outcome(spread.verdict),
            repeats_to_tell: spread.repeats_to_tell,
        }
    }

    fn sentence(&self, found: &ClientComparison) -> String {
        match found.outcome {
            ClientOutcome::Differs if self.names.len() == 2 => two(found),
            ClientOutcome::Differs => {
                let mut said: Vec<String> =
                    found.named.iter().take(DESCRIBED).map(|name| self.one(found, name)).collect();
                if let Some(more) = found.named.get(DESCRIBED..).filter(|more| !more.is_empty()) {
                    said.push(format!("these differ too: {}", more.join(", ")));
                }
                said.join("; ")
            }
            ClientOutcome::Alike => format!("its clients are alike{}", within(found)),
            ClientOutcome::CannotTell => {
                format!("it is not known whether its clients are alike: {}", why_not_known(found))
            }
        }
    }

    /// `client c3 is slower than the others: web p50 +8.2 % [+7.0, +9.4]; idle round trip 0.41 ms, that of the others 0.20 ms`
    fn one(&self, found: &ClientComparison, name: &str) -> String {
        let odd = odd(found, name);
        let word = word(&odd);
        let way = self.idle_round_trip(|of| of == name).zip(self.idle_round_trip(|of| of != name));
        let way = way.map(|(own, others)| {
            format!("; its idle round trip is {own:.2} ms, that of the others {others:.2} ms")
        });
        format!("client {name} {word} the others: {}{}", changes(&odd), way.unwrap_or_default())
    }

    /// The median of some clients.
    fn idle_round_trip(&self, is_wanted: impl Fn(&str) -> bool) -> Option<f64> {
        let of = |client: &ClientFigures| client.idle_round_trip_ms.filter(|_| is_wanted(&client.name));
        median(self.kept.iter().flat_map(|repeat| &repeat.clients).filter_map(of).collect())
    }
}

/// A measure of each client in each repeat. A repeat without it is not left out, since that would choose repeats by their result.
fn values(
    kept: &[&RepeatSummary],
    names: &[String],
    load: &str,
    measure: &str,
    read: Read,
) -> Result<Vec<Vec<f64>>, String> {
    let of_repeat = |name: &str, repeat: &&RepeatSummary| {
        let client = repeat.clients.iter().find(|client| client.name == name)?;
        let own = client.loads.iter().find(|own| own.name == load)?;
        read(own).filter(|value| value.is_finite() && *value > 0.0)
    };
    let of_client = |name: &String| {
        let values: Vec<f64> = kept.iter().filter_map(|repeat| of_repeat(name, repeat)).collect();
        match kept.len() - values.len() {
            0 => Ok(values),
            without => Err(format!(
                "{without} of {} repeats have no {measure} of {load} from client {name}",
                kept.len()
            )),
        }
    };
    names.iter().map(of_client).collect()
}

/// The measures in which a client differs.
fn odd<'f>(found: &'f ClientComparison, name: &str) -> Vec<(&'f ClientMeasure, &'f ClientChange)> {
    let own = |measure: &'f ClientMeasure| {
        let differs = |one: &&ClientChange| one.client == name && one.outcome == ClientOutcome::Differs;
        Some((measure, measure.clients.iter().find(differs)?))
    };
    found.measures.iter().filter_map(own).collect()
}

/// How a client is beside others.
fn word(odd: &[(&ClientMeasure, &ClientChange)]) -> &'static str {
    if odd.iter().all(|(_, one)| one.change.value > 0.0) {
        "is slower than"
    } else if odd.iter().all(|(_, one)| one.change.value < 0.0) {
        "is faster than"
    } else {
        "differs from"
    }
}

fn two(found: &ClientComparison) -> String {
    let [first, second] = &*found.named else { return String::new() };
    let odd = odd(found, first);
    format!(
        "client {first} {} client {second}: {}; with two clients only, it is unknown which of them is out of line",
        word(&odd),
        changes(&odd)
    )
}

fn changes(odd: &[(&ClientMeasure, &ClientChange)]) -> String {
    let words = |(measure, one): &(&ClientMeasure, &ClientChange)| {
        let percent = |part: f64| format!("{:+.1}", 100.0 * part).replace('-', "\u{2212}");
        let range = one.change.low.zip(one.change.high);
        let range = range.map(|(low, high)| format!(" [{}, {}]", percent(low), percent(high)));
        let (value, range) = (percent(one.change.value), range.unwrap_or_default());
        format!("{} {} {value} %{range}", measure.load, measure.name)
    };
    odd.iter().map(words).collect::<Vec<_>>().join(", ")
}

/// ` within 3 % in p50 and 5 % in p99`
fn within(found: &ClientComparison) -> String {
    let has = |name: &str| found.measures.iter().any(|measure| measure.name == name);
    let parts = MEASURES.iter().filter(|(name, ..)| has(name));
    let parts: Vec<String> =
        parts.map(|(name, least, _)| format!("{:.0} % in {name}", 100.0 * least)).collect();
    format!(" within {}", parts.join(" and "))
}

fn why_not_known(found: &ClientComparison) -> String {
    if let Some(why) = &found.why {
        return why.clone();
    }
    let open: Vec<&ClientMeasure> =
        found.measures.iter().filter(|measure| measure.outcome == ClientOutcome::CannotTell).collect();
    let needed: Option<Vec<u32>> = open.iter().map(|measure| measure.repeats_to_tell).collect();
    match needed.and_then(|needed| needed.into_iter().max()) {
        Some(repeats) => format!("about {repeats} repeats would show it"),
        None => "it would take more than 1,000 repeats".to_owned(),
    }
}

/// JSON has no infinity.
fn finite(value: f64) -> Option<f64> {
    value.is_finite().then_some(value)
}

const fn outcome(verdict: HostVerdict) -> ClientOutcome {
    match verdict {
        HostVerdict::Alike => ClientOutcome::Alike,
        HostVerdict::Differs => ClientOutcome::Differs,
        HostVerdict::CannotTell => ClientOutcome::CannotTell,
    }
}
