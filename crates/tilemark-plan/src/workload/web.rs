//! `web`: GET requests for files.

use super::{At, Facts, Place, Say, UnderWay};
use crate::scenario::{Guest, Load, Measure, Role};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tilemark_units::Bytes;

/// Sizes of files in one mix.
const FILES_MAX: usize = 1_000;
/// One file: it is made in the guest's memory, and read into ours.
const FILE_MAX: Bytes = Bytes::from_mib(64);
/// Frames for a request, besides those of its bytes.
const FRAMES_EACH: u64 = 64;

/// For role `web`: GET requests for files of a mix of sizes, over kept-alive connections. Status, length and every byte
/// are checked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebParameters {
    /// The mix of files.
    pub files: Vec<WebFile>,
    /// The path (or whole `http://` URL) to request from a server that is not ours; only status and length are checked
    /// then. Default: the files of our own service.
    pub path: Option<String>,
}

/// One file of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFile {
    /// Length of the body.
    pub size: Bytes,
    /// How often it is requested, relative to the other files.
    pub weight: u32,
}

impl Default for WebParameters {
    /// Mostly small with a long tail, as served files are: half are 1 KiB, one in fifty is 256 KiB.
    fn default() -> Self {
        let file = |kib, weight| WebFile { size: Bytes::from_kib(kib), weight };
        Self { files: vec![file(1, 25), file(8, 18), file(64, 6), file(256, 1)], path: None }
    }
}

impl Facts for WebParameters {
    fn role(&self) -> Role {
        Role::Web
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn under_way(&self, at: At) -> UnderWay {
        UnderWay::steady(at.connections.into(), "request")
    }

    fn check(&self, load: &Load, _guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let name = &load.name;
        if self.files.len() > FILES_MAX {
            say(format!("load `{name}` has {} files", self.files.len()), "use 1000 sizes at most");
        }
        if let Some(file) = self.files.iter().find(|file| file.size > FILE_MAX) {
            say(format!("load `{name}` asks for a file of {}", file.size), "use files of 64MiB at most");
        }
        if self.files.iter().all(|file| file.weight == 0) {
            say(format!("load `{name}` asks for no file"), "give a file a `weight` of 1 or more");
        }
    }

    fn entries(&self) -> u64 {
        self.files.len() as u64
    }

    fn shapes_service(&self) -> bool {
        true
    }

    fn frames_each(&self) -> u64 {
        FRAMES_EACH
    }

    fn texts_mut(&mut self) -> Vec<&mut String> {
        self.path.iter_mut().collect()
    }

    fn emulated_seconds(&self) -> Option<f64> {
        let weight: f64 = self.files.iter().map(|file| f64::from(file.weight)).sum();
        let bytes: f64 = self.files.iter().map(|file| file.size.get() as f64 * f64::from(file.weight)).sum();
        Some(1.9e-3 + 31e-9 * bytes / weight.max(1.0))
    }
}
