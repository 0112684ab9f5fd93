//! `jobs`: a mix of small jobs that users run inside the guest, flat out or at a rate.

use super::{Alone, At, Facts, Place, Say, UnderWay};
use crate::scenario::{Guest, Load, Measure, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::Bytes;

const USERS_MAX: u32 = 1_000;
/// A round of one user is a list of all its jobs.
const WEIGHTS_MAX: u64 = 100_000;
const SCALE_MAX: u32 = 1_000;
/// The largest that a user's jobs hold at once: two files, or the blocks of a `memory` job.
const OF_USER: Bytes = Bytes::from_mib(4);
const MIXES: &str = include_str!("job-mixes.toml");

/// For role `compute`: users who run small jobs inside the guest, one after the other. Each user draws the jobs of the mix in a random order,
/// without replacement, until the list is empty, and begins again; so did AIM7's users. The result of every job is checked. No job
/// synchronizes the disk of the guest: files are in the guest's memory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobsParameters {
    /// How many jobs of each kind are in the list of a user, relative to each other, as in `{ float = 2, read = 1 }`. The kinds are
    /// `integer`, `float`, `linear`, `memory`, `sieve`, `text`, `read`, `write`, `pipe` and `datagram`. Default: the mix `compute` of AIM7.
    #[serde(default = "compute")]
    pub mix: BTreeMap<JobKind, u32>,
    /// Users at the same time; each has a thread.
    pub users: u32,
    /// How many times as large each job is. A job of size 1 takes 10 to 100 ms of one processor.
    pub scale: u32,
}

/// What a job stresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum JobKind {
    /// Multiplication, addition, division and remainder of 64-bit integers.
    Integer,
    /// Sums of series and trigonometric functions in double precision.
    Float,
    /// Systems of linear equations of 64 unknowns: floating point and the first caches.
    Linear,
    /// Blocks of many sizes that are allocated, filled, copied, compared and freed.
    Memory,
    /// Prime numbers by a sieve: bytes in long strides.
    Sieve,
    /// Numbers written as text, joined, split and read again.
    Text,
    /// A file that is read in blocks of 1 KiB.
    Read,
    /// A file that is created, written in blocks of 1 KiB and removed.
    Write,
    /// Blocks through a pipe of the kernel.
    Pipe,
    /// Messages between two local datagram sockets.
    Datagram,
}

fn compute() -> BTreeMap<JobKind, u32> {
    let mut mixes: BTreeMap<String, BTreeMap<JobKind, u32>> =
        toml::from_str(MIXES).expect("the file is part of the program, and a test reads it");
    mixes.remove("compute").unwrap_or_default()
}

impl Default for JobsParameters {
    fn default() -> Self {
        Self { mix: compute(), users: 1, scale: 1 }
    }
}

impl JobsParameters {
    /// The jobs of one round of a user, by kind: the smallest whole numbers with the weights' proportions.
    pub fn round(&self) -> Vec<(JobKind, u32)> {
        let divisor = self.mix.values().copied().fold(0, greatest_common_divisor).max(1);
        self.mix
            .iter()
            .map(|(kind, weight)| (*kind, weight / divisor))
            .filter(|(_, count)| *count > 0)
            .collect()
    }
}

fn greatest_common_divisor(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { greatest_common_divisor(other, one % other) }
}

impl Facts for JobsParameters {
    fn role(&self) -> Role {
        Role::Compute
    }

    fn place(&self) -> Place {
        Place::Inside
    }

    fn unit(&self) -> &'static str {
        "jobs"
    }

    fn under_way(&self, _at: At) -> UnderWay {
        UnderWay::steady(self.users.into(), "job")
    }

    fn connections(&self, _at: At) -> u32 {
        0
    }

    fn check(&self, load: &Load, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let (name, &Self { users, scale, .. }) = (&load.name, self);
        for (what, count, most) in [("users", users, USERS_MAX), ("scale", scale, SCALE_MAX)] {
            if !(1..=most).contains(&count) {
                say(format!("load `{name}` has `{what} = {count}`"), &format!("use 1 to {most}"));
            }
        }
        match self.mix.values().map(|weight| u64::from(*weight)).sum() {
            0 => say(format!("load `{name}` has a mix without a job"), "give a job a weight of 1 or more"),
            1..=WEIGHTS_MAX => {}
            sum => say(format!("load `{name}` has a mix whose weights sum to {sum}"), "use 100000 at most"),
        }
        let (needed, most) = (self.memory(), Bytes::new(guest.memory.get() / 2));
        if needed > most {
            let (guest, memory) = (&guest.name, guest.memory);
            let message =
                format!("load `{name}` needs {needed} for its users, and guest `{guest}` has {memory}");
            say(message, "give the guest twice that memory, or lower `users`");
        }
    }

    fn alone_on(&self) -> Option<Alone> {
        Some(Alone::Inside)
    }

    fn memory(&self) -> Bytes {
        Bytes::new(OF_USER.get().saturating_mul(self.users.into()))
    }

    /// A job of the mix `compute` took 0.33 s.
    fn emulated_seconds(&self) -> Option<f64> {
        Some(0.33 * f64::from(self.scale))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    fn said(jobs: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"j\"\nabout = \"j\"\nheadline = \"j\"\n[[guest]]\nname = \"g\"\nrole = \"compute\"\n\
             memory = \"64MiB\"\n[[load]]\nname = \"j\"\nguest = \"g\"\nloop = \"closed\"\n[load.jobs]\n{jobs}\n\
             [ladder]\ntiles = [1]\n"
        );
        let finished = Draft::from_toml(&text, "test").unwrap().finish();
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn the_default_mix_has_the_weights_of_the_published_one() {
        let mix = JobsParameters::default().mix;
        assert_eq!(mix.values().sum::<u32>(), 820, "AIM7's workfile.compute");
        assert_eq!((mix[&JobKind::Float], mix[&JobKind::Read]), (300, 40));
        let round = JobsParameters::default().round();
        assert_eq!(round.iter().map(|(_, count)| count).sum::<u32>(), 82);
        assert!(round.contains(&(JobKind::Pipe, 2)), "{round:?}");
    }

    #[test]
    fn what_cannot_be_run_is_refused_before_anything_starts() {
        assert_eq!(said(""), "");
        assert_eq!(said("users = 8\nmix = { float = 2, integer = 1 }"), "");
        for (jobs, wanted) in [
            ("users = 0", "has `users = 0`"),
            ("users = 9", "needs 36MiB for its users, and guest `g` has 64MiB"),
            ("scale = 1001", "has `scale = 1001`"),
            ("mix = {}", "a mix without a job"),
            ("mix = { float = 0 }", "a mix without a job"),
            ("mix = { float = 100001 }", "weights sum to 100001"),
            ("mix = { floats = 1 }", "unknown variant `floats`, expected one of `integer`, `float`"),
        ] {
            assert!(said(jobs).contains(wanted), "{jobs}: {}", said(jobs));
        }
    }
}
