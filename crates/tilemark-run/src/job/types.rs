//! What an engine is asked to do.

use crate::failure::Failure;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::PathBuf};
use tilemark_image::ImageSpec;
use tilemark_plan::{
    own_bridge::OwnBridge,
    plan::{Backend, Hardware, Plan, Point},
};
use tilemark_record::{result::Hooks, summary::SecondsToReady};
use tilemark_site::Site;
use tilemark_units::{Bytes, Span};

/// A job of an engine.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum Job {
    /// Measure a plan.
    Run(Box<RunJob>),
    /// Build an image, or find it in the cache.
    Image(ImageJob),
    /// Start guests and keep them.
    Guests(Box<GuestsJob>),
}

/// Measure a plan.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunJob {
    /// The run's id.
    pub id: String,
    /// What shall happen.
    pub plan: Plan,
    /// Where the record goes; `plan.json` is there.
    pub record: PathBuf,
    /// A folder of the run's own for sockets and the like.
    pub state: PathBuf,
    /// Where images and the disk store are.
    pub cache: PathBuf,
    /// The image's folder; nothing where every guest boots from a disk of its own.
    pub image: Option<PathBuf>,
    /// The record holds repeats of earlier sessions, and further ones are added.
    #[serde(default)]
    pub continues: bool,
    /// Other runs may be under way: the verdict is at most `cannot-tell`.
    pub beside_others: bool,
    /// The user's own commands around the measured seconds.
    #[serde(default)]
    pub hooks: Hooks,
    /// After a repeat that others disturbed, wait so long for a quiet host.
    #[serde(default)]
    pub wait_quiet: Option<Span>,
    /// The site file, where loads come from client machines.
    #[serde(default)]
    pub site: Option<Site>,
}

/// Build an image, or find it in the cache.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImageJob {
    /// What is to be built, with the hashes of its files.
    pub spec: ImageSpec,
    /// Where images are kept.
    pub cache: PathBuf,
    /// Nothing may be fetched.
    pub offline: bool,
    /// Resolve packages again even if it is cached.
    pub refresh: bool,
}

/// Start guests and keep them until they are asked to go.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GuestsJob {
    /// The guests, as a point without loads.
    pub point: Point,
    /// A folder of its own for sockets and the like.
    pub state: PathBuf,
    /// Where images and the disk store are.
    pub cache: PathBuf,
    /// The image's folder; nothing where every guest boots from a disk of its own.
    pub image: Option<PathBuf>,
    /// Read their memory after ten idle seconds.
    pub read_memory: bool,
    /// The user's own bridge that they are joined to.
    pub own_bridge: Option<OwnBridge>,
}

/// What came of a job.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum JobDone {
    /// A run was measured and its record closed.
    Run(RunDone),
    /// The image is there.
    Image(ImageReady),
    /// The guests are ready.
    Guests(Box<GuestsReady>),
}

/// A run whose repeats are in its record.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunDone {
    /// Version of the QEMU that was used, if one was.
    pub qemu: Option<String>,
    /// SHA-256 of each QEMU that was used, by its name in the provenance.
    pub hashes: BTreeMap<String, String>,
    /// Why the whole run cannot be trusted, if there is a reason beside those of its repeats.
    pub reasons: Vec<String>,
    /// Kernels of guests that boot from a disk of their own, by the guest's name in the tile.
    #[serde(default)]
    pub kernels: BTreeMap<String, String>,
    /// What could not be made equal between backends.
    pub unequal: Vec<String>,
    /// Settings of the host that another program changed while a repeat held them, in words: they were left alone.
    #[serde(default)]
    pub changed_by_others: Vec<String>,
    /// What ended it before its plan was done. The repeats before it are kept.
    #[serde(default)]
    pub failed: Option<Failure>,
}

/// How the hash of a QEMU that was used is called: this, and the path of its binary.
pub(crate) const QEMU_HASH: &str = "qemu ";

/// An image that is there.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ImageReady {
    /// Its name: the hash of its lock.
    pub name: String,
    /// Its folder.
    pub folder: PathBuf,
    /// Size of its files.
    pub size: Bytes,
    /// How long it took to build; nothing when it was cached.
    pub built_in: Option<Span>,
    /// Kernel of its guests.
    pub kernel: String,
    /// SHA-256 by file.
    pub hashes: BTreeMap<String, String>,
}

/// Guests that are ready, as `guests up --json` prints them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuestsReady {
    /// By which `guests list`, `exec`, `console` and `down` find them.
    pub id: String,
    /// How they run.
    pub backend: Backend,
    /// Whether the times below are those of hardware.
    #[serde(default)]
    pub hardware: Hardware,
    /// Whether they are still being started: then nothing below is known yet.
    #[serde(default)]
    pub starting: bool,
    /// How many are ready, and live.
    pub ready: u32,
    /// From the moment the template was ready (or, booted, from the first start), in seconds; null while they start.
    pub seconds_to_ready: Option<SecondsToReady>,
    /// How long the template took, where there was one.
    pub template_seconds: Option<f64>,
    /// Proportional memory of a guest after ten idle seconds, in MiB; null when it was not waited for.
    pub pss_mib_per_guest: Option<f64>,
    /// Each guest.
    pub guests: Vec<ReadyGuest>,
}

impl GuestsReady {
    /// Whether their times are an emulator's.
    pub fn is_on_emulated_host(&self) -> bool {
        self.hardware == Hardware::Emulated
    }
}

/// A guest that is ready.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ReadyGuest {
    /// Its name.
    pub name: String,
    /// Its hardware address.
    pub mac: String,
    /// Its address in the run network.
    pub address: String,
    /// Contents of its `/etc/machine-id`.
    pub machine_id: String,
    /// 16 bytes of its kernel's randomness, in hexadecimal.
    pub random_hex: String,
    /// From the moment the template was ready, in seconds.
    pub seconds_to_ready: f64,
    /// `cloned`, `booted` or `native`.
    pub how: String,
    /// How it ended, in words; null while it lives.
    pub ended: Option<String>,
    /// Where it is put on the host, in words; null where the host chooses.
    #[serde(default)]
    pub place: Option<String>,
    /// What of it is elsewhere, in words; null where nothing is, and where the host chooses.
    #[serde(default)]
    pub elsewhere: Option<String>,
    /// Its first process, as programs on the host number it: QEMU, or the init of a native twin. Null once it has ended.
    #[serde(default)]
    pub pid: Option<u32>,
    /// The file in which its console is written.
    #[serde(default)]
    pub console: Option<PathBuf>,
}
