//! A fleet: many hosts that measured the same scenario, with one verdict; and two runs of one fleet.

pub(super) mod drift;
pub(super) mod sheet;

pub use drift::{DriftFailure, DriftHost, DriftOfMeasure, DriftShift, FactChange, FleetDrift};

use super::capacity;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_record::result::{Answer, Counts, Figure, LimitResource};

/// The version of the format of `fleet report --json` and `fleet compare --json`.
pub const FLEET_SCHEMA: u32 = 1;

/// The verdict about a fleet, a group or a host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FleetOutcome {
    /// A host differs from its group; of a group or a fleet: at least one host does.
    Differs,
    /// There is not enough to say.
    CannotTell,
    /// Alike: the whole interval of each host lies within the least change.
    Alike,
    /// It has no figures to compare.
    NotCompared,
}

impl FleetOutcome {
    /// The same for a person.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Differs => "differs",
            Self::CannotTell => "cannot tell",
            Self::Alike => "alike",
            Self::NotCompared => "not compared",
        }
    }
}

/// How the work of one host ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// It measured, and its answer is to be trusted.
    Trusted,
    /// It measured, and its answer is not to be trusted.
    NotTrusted,
    /// It measured, and the data do not answer the question.
    CannotTell,
    /// It cannot do this work: something is missing there.
    Unfit,
    /// A guest or a load failed.
    GuestFailed,
    /// A setting of the host could not be restored. Whatever else is true of the host comes after this.
    NotRestored,
    /// The host or its engine was lost while it worked.
    Lost,
    /// The host does not answer.
    NoAnswer,
    /// Its work has never started.
    NeverStarted,
    /// It waits for its turn: nothing was submitted to it yet.
    NotSubmittedYet,
    /// It has the work, and nothing of it is here yet.
    NotCollectedYet,
}

impl End {
    /// The same for a person.
    pub const fn words(self) -> &'static str {
        match self {
            Self::Trusted => "trusted",
            Self::NotTrusted => "not trusted",
            Self::CannotTell => "cannot tell",
            Self::Unfit => "unfit",
            Self::GuestFailed => "guest failed",
            Self::NotRestored => "not restored",
            Self::Lost => "lost",
            Self::NoAnswer => "no answer",
            Self::NeverStarted => "never started",
            Self::NotSubmittedYet => "not submitted yet",
            Self::NotCollectedYet => "not collected yet",
        }
    }
}

/// All hosts of a fleet run, with one verdict.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetVerdict {
    /// Version of this format.
    pub schema: u32,
    /// The id of the fleet run.
    pub fleet: String,
    /// The scenario, where a host measured one.
    pub scenario: Option<String>,
    /// Hosts that were asked.
    pub asked: usize,
    /// Hosts with a whole record.
    pub measured: usize,
    /// Hosts whose answer is to be trusted.
    pub trusted: usize,
    /// Hosts that were asked and have no whole record.
    pub missing: Vec<String>,
    /// Whether the hosts are alike. While a host is missing it is never `alike`.
    pub verdict: FleetOutcome,
    /// Hosts that differ from their group; with a confirmation, those that were confirmed.
    pub named: Vec<String>,
    /// Whether hosts are named, and each was measured again among others and differed again. Until then they are suspects.
    pub confirmed: bool,
    /// What measuring suspects again found, where that was done.
    pub confirmation: Option<FleetConfirmation>,
    /// Why the verdict is not more.
    pub reasons: Vec<String>,
    /// The verdict in a few sentences that can be copied whole.
    pub sentence: String,
    /// The same, each idea in a paragraph of its own: what was asked, who differs, whether the others are alike, what they carry.
    #[serde(skip)]
    pub paragraphs: Vec<String>,
    /// Every host: by group, those that differ first.
    pub hosts: Vec<FleetHost>,
    /// Hosts of equal hardware and settings.
    pub groups: Vec<FleetGroup>,
}

/// What came of measuring suspects again, among others.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FleetConfirmation {
    /// The fleet run in which they were measured again.
    pub fleet: String,
    /// Suspects that differed again.
    pub confirmed: Vec<String>,
    /// Suspects that did not.
    pub not_confirmed: Vec<String>,
    /// Suspects without enough figures in that run, each with the reason.
    pub not_measured: BTreeMap<String, String>,
    /// The others that they were measured with.
    pub others: Vec<String>,
}

/// A host of a fleet.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetHost {
    /// Its name in the site file.
    pub name: String,
    /// How its work ended.
    pub end: End,
    /// The exit code of `tilemark` on it, where it is known.
    pub exit_code: Option<i32>,
    /// Why it ended so; empty where it is trusted.
    pub because: String,
    /// The attempt whose record is used; null where it has none.
    pub attempt: Option<u32>,
    /// All its attempts.
    pub attempts: usize,
    /// Whether it has a whole record.
    pub measured: bool,
    /// Whether its answer is to be trusted.
    pub trusted: bool,
    /// Its group; null where it has no record.
    pub group: Option<String>,
    /// The id of its run.
    pub run: Option<String>,
    /// Its own answer in a sentence.
    pub sentence: Option<String>,
    /// How many tiles it carries.
    pub capacity: Option<FleetCapacity>,
    /// Whether it differs from its group.
    pub outcome: FleetOutcome,
    /// Each measure beside the group's median.
    pub changes: Vec<HostDifference>,
    /// How much it fails beside the hosts of its group that fail, where three or more do. It may differ by this, and is never called alike by it.
    pub errors: Option<HostDifference>,
    /// Why it is not compared, differs by no measure, or is not called alike for another reason than a measure.
    pub why: Option<String>,
    /// Facts in which it is not like most hosts of its group.
    pub unusual: Vec<UnusualFact>,
    /// Files of it that could not be read, and attempts that are not used, each with the reason.
    pub problems: Vec<String>,
}

/// How many tiles a host carries.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetCapacity {
    /// In words: `12 tiles (13 undecided)`, `at least 4 tiles`.
    pub words: String,
    /// Largest count that holds: 0 where one tile breaks already.
    pub holds: Option<u32>,
    /// Counts that may hold or not.
    pub undecided: Option<Counts>,
    /// Smallest count that breaks.
    pub breaks: Option<u32>,
    /// By the law through all repeats, with its interval.
    pub estimate: Option<Figure>,
    /// What ran out first.
    pub limit: LimitResource,
}

impl FleetCapacity {
    /// Of a host's answer; `None` where it has none.
    pub fn of(answer: &Answer) -> Option<Self> {
        (answer.holds.is_some() || answer.breaks.is_some()).then(|| Self {
            words: capacity::words(answer),
            holds: answer.carries(),
            undecided: answer.undecided,
            breaks: answer.breaks.as_ref().map(|broken| broken.tiles),
            estimate: answer.capacity,
            limit: answer.limit.resource,
        })
    }
}

/// A measure of a host beside its group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct HostDifference {
    /// Its name, such as `web p50`.
    pub measure: String,
    /// The geometric mean of the host's repeats, in the measure's unit.
    pub value: f64,
    /// Host over the group's median, less 1, with its 95 % interval. In a group of two: over the other host.
    pub change: Figure,
    /// Lower end of the interval that covers the truth of all hosts and measures of the group together 95 times of 100. Null where the
    /// repeats scatter so much that the end is beyond all numbers.
    pub simultaneous_low: Option<f64>,
    /// Its upper end; null as the lower one.
    pub simultaneous_high: Option<f64>,
    /// Corrected by Holm over the hosts and measures of the group.
    pub p: f64,
    /// What it says.
    pub outcome: FleetOutcome,
}

/// A fact in which a host is not like most hosts of its group.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct UnusualFact {
    /// Which, such as `governor`.
    pub fact: String,
    /// Its value on this host.
    pub value: String,
    /// Its value on more than half of the group's hosts.
    pub usual: String,
    /// Hosts of the group with this host's value, itself included.
    pub hosts: usize,
}

/// Hosts of equal hardware and settings.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetGroup {
    /// Its name.
    pub name: String,
    /// Its hosts.
    pub hosts: Vec<String>,
    /// What its hosts share: processor, microcode, memory, kernel, QEMU, mitigations. Empty where the user made the groups.
    pub facts: BTreeMap<String, String>,
    /// How many tiles its trusted hosts carry.
    pub capacity: Option<GroupCapacity>,
    /// The step at which its hosts are compared, such as `at 4 tiles on kvm`.
    pub step: Option<String>,
    /// What is compared.
    pub measures: Vec<FleetMeasure>,
    /// Whether its hosts are alike.
    pub outcome: FleetOutcome,
    /// Hosts that differ.
    pub named: Vec<String>,
    /// Why it cannot be said, where that is so.
    pub why: Option<String>,
}

/// How many tiles the trusted hosts of a group carry: the largest counts that hold.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct GroupCapacity {
    /// Of the host with the fewest.
    pub min: u32,
    /// Of the host in the middle.
    pub median: f64,
    /// Of all together.
    pub sum: u64,
    /// Hosts that this is of.
    pub hosts: usize,
    /// Of these, hosts on which nothing broke: they carry at least so many.
    pub at_least: usize,
}

/// A measure over the hosts of a group.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetMeasure {
    /// Its name, such as `web p50`.
    pub name: String,
    /// Its unit.
    pub unit: String,
    /// Whether more is better.
    pub more_is_better: bool,
    /// A difference within this is none: 0.03 is 3 %.
    pub least_change: f64,
    /// Hosts that are compared.
    pub hosts: usize,
    /// The median of the hosts' means.
    pub centre: Option<f64>,
    /// Standard deviation of repeats on one host, as a part of the value.
    pub of_repeats: Option<Figure>,
    /// Standard deviation of the hosts' true values, as a part of the value; hosts that differ are left out.
    pub between_hosts: Option<Figure>,
    /// What it says.
    pub outcome: FleetOutcome,
    /// About how many repeats of each host would decide, where that is open and 1,000 would.
    pub repeats_to_tell: Option<u32>,
    /// Why it has no figures, where that is so.
    pub why: Option<String>,
}
