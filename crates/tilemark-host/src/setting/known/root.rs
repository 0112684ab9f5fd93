//! Where the files of a host are: below `/`, or below a folder that plays it in tests.

use std::fs;
use std::path::{Path, PathBuf};

use crate::cgroup;
use crate::read::list::parse_list;

/// Where the files of a host are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Root {
    folder: PathBuf,
}

impl Root {
    /// This host.
    pub fn real() -> Self {
        Self::at("/")
    }

    /// A folder that plays a host: it has `proc` and `sys`.
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Whether it is this host, and no folder that plays one: what is no file exists only there.
    pub fn is_real(&self) -> bool {
        self.folder == Path::new("/")
    }

    /// Where a file of the host is.
    pub fn path(&self, path: &str) -> PathBuf {
        self.folder.join(path.trim_start_matches('/'))
    }

    /// A file's text without blanks around it, where it can be read.
    pub(super) fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.path(path)).ok().map(|text| text.trim().to_owned())
    }

    /// The names in a folder, those with numbers in the order of their numbers.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let entries = fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort_by_cached_key(|name| {
            let start = name.find(|letter: char| letter.is_ascii_digit()).unwrap_or(name.len());
            let (word, digits) = name.split_at(start);
            (word.to_owned(), digits.parse::<u64>().unwrap_or(0), name.clone())
        });
        names
    }

    /// Processors that are online.
    pub(super) fn processors(&self) -> Vec<u32> {
        self.text("/sys/devices/system/cpu/online").and_then(|text| parse_list(&text)).unwrap_or_default()
    }

    /// Processors that the host has, online or not.
    pub(super) fn present(&self) -> Vec<u32> {
        self.text("/sys/devices/system/cpu/present").and_then(|text| parse_list(&text)).unwrap_or_default()
    }

    /// Nodes with memory. Where the kernel does not list them, all nodes.
    pub(super) fn nodes(&self) -> Vec<u32> {
        let with_memory = self.text("/sys/devices/system/node/has_memory").and_then(|text| parse_list(&text));
        if let Some(nodes) = with_memory.filter(|nodes| !nodes.is_empty()) {
            return nodes;
        }
        let names = self.names("/sys/devices/system/node");
        names.iter().filter_map(|name| name.strip_prefix("node")?.parse().ok()).collect()
    }

    /// Where the version 2 tree of control groups is mounted.
    pub(super) fn control_groups(&self) -> Option<PathBuf> {
        if self.is_real() { cgroup::mount_point().ok() } else { Some(self.path("/sys/fs/cgroup")) }
    }
}
