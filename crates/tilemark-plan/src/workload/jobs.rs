//! `jobs`: a mix of small jobs that users run inside the guest, flat out or at a rate.

use super::facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place};
use crate::JsonSchema;
use crate::problem::Say;
use crate::scenario::{guest::Guest, measure::Measure, role::Role};
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{collections::BTreeMap, fmt};
use tilemark_units::Bytes;

const USERS_MAX: u32 = 1_000;
/// A round of one user is a list of all its jobs.
const WEIGHTS_MAX: u64 = 100_000;
const SCALE_MAX: u32 = 1_000;
/// In thousandths: a host that is a hundred times as fast as those of today.
const FITTED_MAX: u32 = 100_000;
/// Files are read and written in blocks of this size, as by AIM7.
const FILE_BLOCK: Bytes = Bytes::from_kib(1);
const FILE_MAX: Bytes = Bytes::from_gib(1);
/// The largest that a job of a user holds beside files: the words of a `text` job, the blocks of a `memory` job.
const OF_JOB: Bytes = Bytes::from_mib(4);
/// What a user's small files and folders take of a disk: its file system has an inode for each 64 KiB.
const SMALL_FILES: Bytes = Bytes::from_mib(6);
const MIXES: &str = include_str!("job-mixes.toml");

/// A mix: how many jobs of each kind are in the list of a user, relative to each other.
type Mix = BTreeMap<JobKind, u32>;

/// For role `compute`: users who run small jobs inside the guest, one after the other. Each user draws the jobs of the mix in a random order,
/// without replacement, until the list is empty, and begins again; so did AIM7's users. The result of every job is checked. The files
/// of the jobs are on the guest's first data disk, in a file system of their own; without one they are in the guest's memory. No job
/// synchronizes a whole file system; the jobs `sync-…` synchronize the file that they write.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct JobsParameters {
    /// A mix of AIM7 by its name, `compute` or `files` (its `fserver`); or how many jobs of each kind are in the list of a user, relative
    /// to each other, as in `{ float = 2, read = 1 }`. The kinds are `integer`, `float`, `linear`, `memory`, `sieve`, `text`, `read`,
    /// `write`, `pipe`, `datagram`, `copy`, `random-read`, `random-write`, `search`, `sort`, `create`, `folders`, `links`, `tcp`,
    /// `signal`, `jump`, `system`, `sync-copy`, `sync-write` and `sync-random-write`. Default: the mix `compute`.
    #[serde(deserialize_with = "mix")]
    #[schemars(with = "MixSchema")]
    pub mix: Mix,
    /// Users at the same time; each has a thread.
    pub users: u32,
    /// How many times as large each job is. A job of size 1 takes 10 to 100 ms of one processor: see `fitted`.
    pub scale: u32,
    /// A further factor for the jobs of a kind, as in `{ sort = 4 }`. Default: 1 for each.
    pub sizes: BTreeMap<JobKind, u32>,
    /// How large each kind of job is made on this host, in thousandths. Tilemark measures each kind once on a host, without guests. A
    /// kind that takes less than 10 ms or more than 100 ms of a processor is changed to take 30 ms, and is listed here. Set
    /// it to have the same sizes on several hosts, as in `{ sort = 1000 }`. Default: as measured.
    pub fitted: BTreeMap<JobKind, u32>,
    /// Size of a file that jobs read, copy or write; how much they read and write does not depend on it. AIM7 suggests 100 KB for its
    /// `compute` mix and 10 MB for `fserver`. A user has two files at once.
    pub file: Bytes,
}

/// How a scenario writes a mix.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[schemars(untagged)]
#[expect(dead_code, reason = "only its schema is used")]
enum MixSchema {
    /// A mix of AIM7.
    Named(NamedMix),
    /// A mix of the user's own.
    Own(Mix),
}

/// A mix of AIM7.
#[cfg(feature = "schema")]
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
#[expect(dead_code, reason = "only its schema is used")]
enum NamedMix {
    /// Arithmetic and memory.
    Compute,
    /// What a file server does: AIM7's `fserver`.
    Files,
}

/// Makes [`JobKind`] of the table of kinds.
macro_rules! kinds {
    ($(#[doc = $stresses:literal] $variant:ident = $name:literal,)*) => {
        /// What a job stresses.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
        #[serde(rename_all = "kebab-case")]
        pub enum JobKind {
            $(#[doc = $stresses] $variant,)*
        }

        impl JobKind {
            /// Every kind, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant),*];

            /// The name as a scenario writes it.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// What it stresses, in words.
            pub fn stresses(self) -> &'static str {
                match self { $(Self::$variant => $stresses,)* }.trim().trim_end_matches('.')
            }
        }
    };
}

impl JobKind {
    /// Number of the set of jobs: in another one a job of size 1 does something else, so that times of it mean nothing here.
    pub const SET: u32 = 2;
}

kinds! {
    /// Multiplication, addition and division of integers.
    Integer = "integer",
    /// Series and trigonometry in double precision.
    Float = "float",
    /// Linear equations: floating point and first caches.
    Linear = "linear",
    /// Blocks of memory: allocated, copied and compared.
    Memory = "memory",
    /// A sieve for primes: bytes in long strides.
    Sieve = "sieve",
    /// Numbers written as text, split and read again.
    Text = "text",
    /// A file read in blocks of 1 KiB.
    Read = "read",
    /// A file written in blocks of 1 KiB and removed.
    Write = "write",
    /// Blocks through a pipe of the kernel.
    Pipe = "pipe",
    /// Messages between two local datagram sockets.
    Datagram = "datagram",
    /// A file copied in blocks of 1 KiB and removed.
    Copy = "copy",
    /// A file read in blocks of 1 KiB in random order.
    RandomRead = "random-read",
    /// A file written in random order and removed.
    RandomWrite = "random-write",
    /// Folders of small files searched for a word.
    Search = "search",
    /// Arrays of integers that are sorted.
    Sort = "sort",
    /// Files created, closed and removed.
    Create = "create",
    /// Folders made, listed and removed.
    Folders = "folders",
    /// Second names of a file, made and removed.
    Links = "links",
    /// Messages over TCP within the guest.
    Tcp = "tcp",
    /// Signals from a thread to itself, and their handler.
    Signal = "signal",
    /// Returns at once from nested calls, as by longjmp.
    Jump = "jump",
    /// Short calls of the kernel, such as getpid.
    System = "system",
    /// As copy, synchronized with the disk each MiB.
    SyncCopy = "sync-copy",
    /// As write, synchronized with the disk each MiB.
    SyncWrite = "sync-write",
    /// As random-write, synchronized each MiB.
    SyncRandomWrite = "sync-random-write",
}

impl JobKind {
    /// Whether it reads or writes a file of the size that the scenario says.
    pub const fn has_large_file(self) -> bool {
        match self {
            Self::Read
            | Self::Write
            | Self::Copy
            | Self::RandomRead
            | Self::RandomWrite
            | Self::SyncCopy
            | Self::SyncWrite
            | Self::SyncRandomWrite => true,
            Self::Integer
            | Self::Float
            | Self::Linear
            | Self::Memory
            | Self::Sieve
            | Self::Text
            | Self::Pipe
            | Self::Datagram
            | Self::Search
            | Self::Sort
            | Self::Create
            | Self::Folders
            | Self::Links
            | Self::Tcp
            | Self::Signal
            | Self::Jump
            | Self::System => false,
        }
    }
}

/// The mixes that are part of the program, by their names.
fn published() -> BTreeMap<String, Mix> {
    toml::from_str(MIXES).expect("the file is part of the program, and a test reads it")
}

/// A mix by its name, or as it is written. The load's own process gets it as numbers.
fn mix<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mix, D::Error> {
    if deserializer.is_human_readable() {
        deserializer.deserialize_any(NamedOrOwn)
    } else {
        Mix::deserialize(deserializer)
    }
}

struct NamedOrOwn;

impl<'de> Visitor<'de> for NamedOrOwn {
    type Value = Mix;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("`compute`, `files` or a table of jobs such as `{ float = 2, read = 1 }`")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Mix, E> {
        published().remove(name).ok_or_else(|| E::unknown_variant(name, &["compute", "files"]))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Mix, A::Error> {
        Mix::deserialize(MapAccessDeserializer::new(map))
    }
}

impl Default for JobsParameters {
    fn default() -> Self {
        let mix = published().remove("compute").unwrap_or_default();
        let (sizes, fitted) = (BTreeMap::new(), BTreeMap::new());
        Self { mix, users: 1, scale: 1, sizes, fitted, file: Bytes::from_kib(100) }
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

    /// How many times as large a job of this kind is.
    pub fn size_of(&self, kind: JobKind) -> f64 {
        let times = self.sizes.get(&kind).copied().unwrap_or(1);
        let fitted = self.fitted.get(&kind).copied().unwrap_or(WHOLE);
        f64::from(self.scale) * f64::from(times) * f64::from(fitted) / f64::from(WHOLE)
    }

    /// Gives each kind of the mix the size that it has on a host where a job of size 1 takes so long, in milliseconds of one processor. A kind
    /// that has a size already keeps it, and one of unknown time has size 1.
    pub fn fit(&mut self, times_ms: &BTreeMap<JobKind, f64>) {
        for kind in self.mix.keys() {
            let fitted = times_ms.get(kind).and_then(|ms| fitted(*ms));
            if let Some(size) = fitted {
                self.fitted.entry(*kind).or_insert(size);
            }
        }
    }

    /// The large files of all users at once: one that is read, and one that is written.
    fn files(&self) -> Bytes {
        let has_file = self.round().iter().any(|(kind, _)| kind.has_large_file());
        let of_user = if has_file { self.file.get().saturating_mul(2) } else { 0 };
        Bytes::new(of_user.saturating_mul(self.users.into()))
    }

    fn check_memory(&self, name: &str, guest: &Guest, say: &mut Say<'_>) {
        // With a disk, files are in memory only as far as there is room for them.
        let needed = if guest.disk.is_empty() { self.memory() } else { self.of_jobs() };
        let has_files_in_memory = needed > self.of_jobs();
        if needed > Bytes::new(guest.memory.get() / 2) {
            let (guest, memory) = (&guest.name, guest.memory);
            let needed = needed.rounded();
            let message =
                format!("load `{name}` needs {needed} for its users, and guest `{guest}` has {memory}");
            let remedy = if has_files_in_memory {
                "give the guest twice that memory or a `[[guest.disk]]`, or lower `users` or `file`"
            } else {
                "give the guest twice that memory, or lower `users`"
            };
            say(message, remedy);
        }
    }

    /// A file system takes a part of a disk for itself: of a small one up to an eighth for its journal.
    fn check_disk(&self, name: &str, guest: &Guest, say: &mut Say<'_>) {
        let Some(disk) = guest.disk.first() else { return };
        let small = SMALL_FILES.get().saturating_mul(self.users.into());
        let needed = Bytes::new(self.files().get().saturating_add(small).saturating_mul(5) / 4);
        if needed > disk.size {
            let (guest, size) = (&guest.name, disk.size);
            let message = format!(
                "load `{name}` needs a disk of {} for the files of its users, and the first disk of guest `{guest}` has {size}",
                needed.rounded()
            );
            let mib = needed.get().div_ceil(1 << 20);
            say(message, &format!("give that disk a `size` of \"{mib}MiB\", or lower `users` or `file`"));
        }
    }

    /// Memory of the jobs of all users at once, without their files.
    fn of_jobs(&self) -> Bytes {
        Bytes::new(OF_JOB.get().saturating_mul(self.users.into()))
    }
}

/// Size 1, in thousandths.
const WHOLE: u32 = 1_000;

/// How long a job of size 1 is to take, in milliseconds of one processor: long beside what starting it costs, short beside a second.
const TIME_OF_JOB_MS: std::ops::RangeInclusive<f64> = 10.0..=100.0;
/// About the geometric mean of both ends.
const FITTED_MS: f64 = 30.0;

/// The size, in thousandths, of a job that takes too short or too long at size 1.
fn fitted(ms: f64) -> Option<u32> {
    let is_known = ms.is_finite() && ms > 0.0;
    let size = (f64::from(WHOLE) * FITTED_MS / ms).round().clamp(1.0, f64::from(FITTED_MAX));
    (is_known && !TIME_OF_JOB_MS.contains(&ms)).then_some(size as u32)
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

    fn in_flight(&self, _at: At) -> InFlight {
        InFlight { state: "running", ..InFlight::steady(self.users.into(), "job") }
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let (name, &Self { users, scale, .. }) = (load.name, self);
        for (what, count, most) in [("users", users, USERS_MAX), ("scale", scale, SCALE_MAX)] {
            if !(1..=most).contains(&count) {
                say(format!("load `{name}` has `{what} = {count}`"), &format!("use 1 to {most}"));
            }
        }
        for (kind, times) in &self.sizes {
            let largest = u64::from(scale) * u64::from(*times);
            if *times == 0 || largest > u64::from(SCALE_MAX) {
                let message = format!("load `{name}` has jobs `{}` of size {}", kind.name(), largest);
                say(message, "use sizes that are 1 to 1000 together with `scale`");
            }
        }
        for (kind, size) in self.fitted.iter().filter(|(_, size)| !(1..=FITTED_MAX).contains(*size)) {
            let message = format!("load `{name}` has jobs `{}` with `fitted = {size}`", kind.name());
            say(message, &format!("use thousandths from 1 to {FITTED_MAX}"));
        }
        if !(FILE_BLOCK..=FILE_MAX).contains(&self.file) || !self.file.get().is_multiple_of(FILE_BLOCK.get())
        {
            let message = format!("load `{name}` has a `file` of {}", self.file);
            say(message, "use whole blocks of 1KiB, at most 1GiB");
        }
        match self.mix.values().map(|weight| u64::from(*weight)).sum() {
            0 => say(format!("load `{name}` has a mix without a job"), "give a job a weight of 1 or more"),
            1..=WEIGHTS_MAX => {}
            sum => say(format!("load `{name}` has a mix whose weights sum to {sum}"), "use 100000 at most"),
        }
        self.check_memory(name, guest, say);
        self.check_disk(name, guest, say);
    }

    fn exclusive(&self) -> Option<Exclusive> {
        Some(Exclusive::Inside)
    }

    fn memory(&self) -> Bytes {
        Bytes::new(self.of_jobs().get().saturating_add(self.files().get()))
    }

    /// A job of the mix `compute` took 0.33 s, one of the mix `files` 0.45 s, both of size 1.
    fn emulated_seconds(&self) -> Option<f64> {
        let weight = |of: &dyn Fn(JobKind) -> f64| {
            self.mix.iter().map(|(kind, weight)| f64::from(*weight) * of(*kind)).sum::<f64>()
        };
        let size = weight(&|kind| self.size_of(kind)) / weight(&|_| 1.0);
        Some(0.45 * size).filter(|seconds| seconds.is_finite())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    fn said(jobs: &str) -> String {
        said_with("", jobs)
    }

    fn said_with(disk: &str, jobs: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"j\"\nabout = \"j\"\nheadline = \"j\"\n[[guest]]\nname = \"g\"\nrole = \"compute\"\n\
             memory = \"64MiB\"\n{disk}\n[[load]]\nname = \"j\"\nguest = \"g\"\nloop = \"closed\"\n[load.jobs]\n{jobs}\n\
             [ladder]\ntiles = [1]\n"
        );
        let finished = Draft::from_toml(&text, "test").unwrap().finish();
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    fn parameters(text: &str) -> JobsParameters {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn the_default_mix_has_the_weights_of_the_published_one() {
        let mix = JobsParameters::default().mix;
        assert_eq!(mix.values().sum::<u32>(), 820, "AIM7's workfile.compute");
        assert_eq!((mix[&JobKind::Float], mix[&JobKind::Read]), (300, 40));
        let round = JobsParameters::default().round();
        assert_eq!(round.iter().map(|(_, count)| count).sum::<u32>(), 82);
        assert!(round.contains(&(JobKind::Pipe, 2)), "{round:?}");
        assert_eq!(parameters("mix = \"compute\"").mix, mix);
    }

    #[test]
    fn the_mix_of_a_file_server_has_the_weights_of_the_published_one() {
        let files = parameters("mix = \"files\"");
        assert_eq!(files.mix.values().sum::<u32>(), 595, "AIM7's workfile.fserver");
        let weights = [
            (JobKind::Integer, 120),
            (JobKind::Memory, 70),
            (JobKind::Datagram, 40),
            (JobKind::Search, 30),
            (JobKind::SyncCopy, 5),
        ];
        for (kind, weight) in weights {
            assert_eq!(files.mix[&kind], weight, "{kind:?}");
        }
        assert_eq!(files.round().iter().map(|(_, count)| count).sum::<u32>(), 119);
    }

    #[test]
    fn a_kind_that_takes_too_short_or_too_long_on_a_host_is_fitted_and_others_are_not() {
        let mut jobs = parameters(
            "mix = { sort = 1, text = 1, read = 1, write = 1, copy = 1, pipe = 1 }\nscale = 2\nfitted = { pipe = 500 }",
        );
        let times = [
            (JobKind::Sort, 3.0),
            (JobKind::Text, 300.0),
            (JobKind::Read, 10.0),
            (JobKind::Write, 100.0),
            (JobKind::Pipe, 3.0),
            (JobKind::Float, 3.0),
        ];
        jobs.fit(&times.into());
        let fitted = [(JobKind::Sort, 10_000), (JobKind::Text, 100), (JobKind::Pipe, 500)];
        assert_eq!(
            jobs.fitted,
            fitted.into(),
            "those of the mix that are out of 10 to 100 ms, and what was given"
        );
        let sizes =
            [JobKind::Sort, JobKind::Text, JobKind::Read, JobKind::Copy].map(|kind| jobs.size_of(kind));
        assert_eq!(sizes, [20.0, 0.2, 2.0, 2.0]);
        assert_eq!([0.0, f64::NAN, f64::INFINITY].map(super::fitted), [None; 3]);
        assert_eq!(super::fitted(1e-9), Some(FITTED_MAX));
        let refused = said("fitted = { sort = 0 }");
        assert!(refused.contains("jobs `sort` with `fitted = 0`"), "{refused}");
    }

    #[test]
    fn an_emulated_guest_takes_for_a_job_as_long_as_the_jobs_of_its_mix_are_large() {
        let seconds = |text: &str| parameters(text).emulated_seconds().unwrap();
        let is_close = |found: f64, wanted: f64| (found / wanted - 1.0).abs() < 1e-9;
        assert!(is_close(seconds(""), 0.45) && is_close(seconds("scale = 3"), 1.35));
        // Three of four jobs have size 1, the fourth 10, and 20 at twice the scale.
        let sizes = "mix = { sort = 1, float = 3 }\nsizes = { sort = 10 }";
        assert!(is_close(seconds(sizes), 0.45 * 13.0 / 4.0), "{}", seconds(sizes));
        let fitted = "mix = { sort = 1, float = 3 }\nscale = 2\nfitted = { sort = 10000 }";
        assert!(is_close(seconds(fitted), 0.45 * 26.0 / 4.0), "{}", seconds(fitted));
    }

    #[test]
    fn a_mix_comes_back_from_every_form_in_which_it_travels() {
        for text in ["mix = \"files\"\nsizes = { sort = 3 }", "mix = { float = 2, sync-write = 1 }", ""] {
            let wanted = parameters(text);
            assert_eq!(parameters(&toml::to_string(&wanted).unwrap()), wanted);
            assert_eq!(
                serde_json::from_str::<JobsParameters>(&serde_json::to_string(&wanted).unwrap()).unwrap(),
                wanted
            );
            assert_eq!(
                postcard::from_bytes::<JobsParameters>(&postcard::to_stdvec(&wanted).unwrap()).unwrap(),
                wanted
            );
        }
        // As records from before this key have it.
        let older = r#"{"mix":{"integer":150,"float":300},"users":4,"scale":1}"#;
        let older: JobsParameters = serde_json::from_str(older).unwrap();
        assert_eq!((older.mix[&JobKind::Float], older.file), (300, Bytes::from_kib(100)));
    }

    #[cfg(feature = "schema")]
    #[test]
    fn kinds_have_the_names_that_scenarios_write_and_say_what_they_stress() {
        let schema = serde_json::to_string(&schemars::schema_for!(JobsParameters)).unwrap();
        for kind in JobKind::ALL {
            assert!(
                schema.contains(&format!("`{}`", kind.name())),
                "{kind:?} is not in the comment of `mix`"
            );
            assert_eq!(serde_json::to_value(kind).unwrap(), kind.name());
            assert!(!kind.stresses().is_empty() && !kind.stresses().ends_with('.'), "{kind:?}");
        }
        let sized = parameters("scale = 2\nsizes = { sort = 4 }");
        assert_eq!((sized.size_of(JobKind::Sort), sized.size_of(JobKind::Read)), (8.0, 2.0));
    }

    #[test]
    fn what_cannot_be_run_is_refused_before_anything_starts() {
        assert_eq!(said(""), "");
        assert_eq!(said("users = 7\nmix = { float = 2, integer = 1 }"), "");
        for (jobs, wanted) in [
            ("users = 0", "has `users = 0`"),
            ("users = 9", "needs 37.8 MiB for its users, and guest `g` has 64MiB"),
            ("scale = 1001", "has `scale = 1001`"),
            ("scale = 10\nsizes = { sort = 101 }", "has jobs `sort` of size 1010"),
            ("sizes = { sort = 0 }", "has jobs `sort` of size 0"),
            ("file = \"1500B\"", "has a `file` of 1500B"),
            ("mix = \"files\"\nfile = \"16MiB\"", "needs 36 MiB for its users, and guest `g` has 64MiB"),
            ("mix = {}", "a mix without a job"),
            ("mix = { float = 0 }", "a mix without a job"),
            ("mix = { float = 100001 }", "weights sum to 100001"),
            ("mix = { floats = 1 }", "there is no value `floats`. Did you mean `float`?"),
            (
                "mix = \"file\"",
                "there is no value `file`. Did you mean `files`? There are: `compute`, `files`",
            ),
        ] {
            assert!(said(jobs).contains(wanted), "{jobs}: {}", said(jobs));
        }
    }

    #[test]
    fn files_that_are_larger_than_their_disk_are_refused_with_its_size() {
        let disk = "[[guest.disk]]\nsize = \"64MiB\"";
        let files = "mix = \"files\"\nfile = \"10MiB\"\nusers = ";
        assert_eq!(said_with(disk, &format!("{files}1")), "");
        let refused = said_with(disk, &format!("{files}2"));
        let words = "load `j` needs a disk of 65 MiB for the files of its users, and the first disk of guest `g` has 64MiB";
        assert!(refused.contains(words), "{refused}");
        let larger = disk.replace("64MiB", "65MiB");
        assert_eq!(said_with(&larger, &format!("{files}2")), "", "what the remedy says is enough");
        let in_memory = said(&format!("{files}2"));
        assert!(in_memory.contains("needs 48 MiB for its users"), "{in_memory}");
    }
}
