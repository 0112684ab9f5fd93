//! The catalogue of settings that a user may name: keys, what they do, their dangers, what they accept.
//!
//! One file for each family of settings. A family is a list of [`Known`]s; it is registered by its line in `FAMILIES`.

mod block;
mod cgroup;
mod cpu;
mod guard;
mod huge_pages;
mod interrupt;
mod ksm;
mod libvirt;
mod limit;
mod module;
mod nearest;
mod nic;
mod request;
mod root;
mod scheduler;
mod service;
mod sysctl;
mod transparent;
mod workqueue;

use std::borrow::Cow;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::Setting;
use crate::error::HostError;
use request::Request;

pub use root::Root;
pub(crate) use service::unit_of;

/// All families. Where several patterns match a key, the first one counts: what is special comes before what is general.
const FAMILIES: [&[Known]; 16] = [
    guard::KNOWN,
    transparent::KNOWN,
    huge_pages::KNOWN,
    ksm::KNOWN,
    block::KNOWN,
    cpu::KNOWN,
    interrupt::KNOWN,
    nic::KNOWN,
    workqueue::KNOWN,
    cgroup::KNOWN,
    module::KNOWN,
    limit::KNOWN,
    libvirt::KNOWN,
    service::KNOWN,
    scheduler::KNOWN,
    sysctl::KNOWN,
];

/// One setting of the catalogue, or many that differ by a name in their key.
#[derive(Debug)]
pub struct Known {
    /// Its key; `{device}` and the like is any name: `block.{device}.scheduler`.
    pub key: &'static str,
    /// What it does.
    pub about: &'static str,
    /// Where it is documented: a document of the kernel, or a manual page.
    pub source: &'static str,
    /// What can go wrong.
    pub danger: Danger,
    /// Where it is in force.
    pub place: Place,
    /// What it accepts.
    pub accepts: Accepts,
    /// Makes the settings of this host for a value that it accepts.
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
}

/// What can go wrong where a setting is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Danger {
    /// Nothing but speed.
    None,
    /// The host, or programs on it, may run out of something or behave otherwise.
    Stability,
    /// The host becomes easier to attack.
    Security,
    /// Data that was written may be lost.
    DataLoss,
}

impl Danger {
    /// Whether it is applied only where it is named by itself.
    pub fn needs_consent(self) -> bool {
        self >= Self::Security
    }

    /// As in documents and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Stability => "stability",
            Self::Security => "security",
            Self::DataLoss => "data-loss",
        }
    }
}

/// Where a setting is in force.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Place {
    /// In the whole host.
    Host,
    /// In one network namespace: a run sets it in its own, and the host's is unchanged.
    RunNetwork,
    /// In the processes that Tilemark starts.
    Process,
}

impl Place {
    /// As in documents and JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Host => "host",
            Self::RunNetwork => "run-network",
            Self::Process => "process",
        }
    }
}

/// What a setting accepts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accepts {
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// A number within these.
    Number {
        /// The least.
        least: u64,
        /// The most.
        most: u64,
    },
    /// A list of processors that are online, such as `0-3,8`.
    Processors,
    /// One of the words that this host lists beside it.
    Listed,
    /// Whatever the kernel takes.
    Text,
}

impl Accepts {
    /// A number with no other bound than that of the kernel.
    const NUMBER: Self = Self::Number { least: 0, most: u64::MAX };
    /// A switch.
    const SWITCH: Self = Self::OneOf(&["on", "off"]);

    fn takes(self, value: &str) -> bool {
        match self {
            Self::OneOf(words) => words.contains(&value),
            Self::Number { least, most } => {
                value.parse().is_ok_and(|number| (least..=most).contains(&number))
            }
            // These are looked up on the host.
            Self::Processors | Self::Listed => true,
            Self::Text => !value.contains(['\0', '\n']),
        }
    }
}

impl fmt::Display for Accepts {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OneOf(words) => out.write_str(&words.join(", ")),
            Self::Number { least: 0, most: u64::MAX } => out.write_str("a whole number"),
            Self::Number { least, most: u64::MAX } => write!(out, "a whole number from {least}"),
            Self::Number { least, most } => write!(out, "a whole number from {least} to {most}"),
            Self::Processors => out.write_str("a list of processors that are online, such as 0-3,8"),
            Self::Listed => out.write_str("one of the words that the kernel lists in its file"),
            Self::Text => out.write_str("one line of text that the kernel takes"),
        }
    }
}

/// All settings of the catalogue.
pub fn all() -> impl Iterator<Item = &'static Known> {
    FAMILIES.into_iter().flatten()
}

/// The entry of the catalogue that a key belongs to.
///
/// # Errors
/// [`HostError::UnknownSetting`] with the keys that are nearest to it, and [`HostError::SettingGone`] for one that kernels had once.
pub fn find(key: &str) -> Result<&'static Known, HostError> {
    found(&one_form(key)).map(|(known, _)| known)
}

/// The settings of a host for a key and the value that it is to have: one or more files, or what is no file. Nothing is changed.
///
/// # Errors
/// As [`find`]; [`HostError::SettingAbsent`] where this host has no such thing; [`HostError::BadSettingValue`] for a value that it
/// cannot have here; [`HostError::SettingFixed`] for another value than it has, where it cannot be written while the kernel runs. Of the
/// vectors of a device it is enough that one can be moved.
pub fn resolve(root: &Root, key: &str, value: &str) -> Result<Vec<Setting>, HostError> {
    let key = &one_form(key);
    let (known, parts) = found(key)?;
    let request = Request { root, key, parts, value: value.trim(), accepts: known.accepts };
    if request.value.is_empty() || !known.accepts.takes(request.value) {
        return Err(request.bad(known.accepts));
    }
    let settings = (known.settings)(&request)?;
    let moves_some = settings.iter().any(|setting| !setting.is_spread_by_kernel());
    for setting in settings.iter().filter(|setting| !(moves_some && setting.is_spread_by_kernel())) {
        let is_fixed = matches!(setting.check_writable(), Err(HostError::SettingFixed { .. }));
        if is_fixed && setting.now()? != setting.value {
            setting.check_writable()?;
        }
    }
    Ok(settings)
}

/// Why a host could not be restored where this is set and these others are; `None` where it could.
pub fn one_way(setting: &Setting, all: &[Setting]) -> Option<&'static str> {
    sysctl::one_way(setting).or_else(|| ksm::one_way(setting, all))
}

/// A key in the catalogue's own form. What can be named in two ways would have two dangers.
fn one_form(key: &str) -> Cow<'_, str> {
    service::one_form(key)
        .map(Cow::Borrowed)
        .or_else(|| module::one_form(key).map(Cow::Owned))
        .unwrap_or(Cow::Borrowed(key))
}

fn found(key: &str) -> Result<(&'static Known, Vec<&str>), HostError> {
    if let Some(became) = sysctl::became(key) {
        return Err(HostError::SettingGone { key: key.to_owned(), became });
    }
    all().find_map(|known| Some((known, matched(known.key, key)?))).ok_or_else(|| HostError::UnknownSetting {
        key: key.to_owned(),
        nearest: nearest::among(key, all().map(|known| known.key)),
    })
}

/// The names in a key that a pattern leaves open; `None` where the key is another one. A name ends at the next text of the pattern; the
/// last one may hold dots, as devices such as `eth0.100` do.
fn matched<'a>(pattern: &str, key: &'a str) -> Option<Vec<&'a str>> {
    let (start, rest) = match pattern.split_once('{') {
        None => return (pattern == key).then(Vec::new),
        Some((start, rest)) => (start, rest.split_once('}')?.1),
    };
    let key = key.strip_prefix(start)?;
    let next = rest.split_once('{').map_or(rest, |(text, _)| text);
    let is_last = !rest.contains('{');
    let end = if is_last { key.strip_suffix(next)?.len() } else { key.find(next)? };
    let (name, left) = key.split_at(end);
    // In the name of a sysctl a slash is a dot.
    let is_sysctl = pattern.starts_with("net.");
    // systemctl takes a pattern, and stops all that match.
    let is_pattern = name.contains('*') && pattern.starts_with("service.");
    if (name.contains('/') && !is_sysctl) || is_pattern || !is_name(name) {
        return None;
    }
    let mut names = vec![name];
    names.extend(matched(rest, left)?);
    Some(names)
}

/// Whether a text may be a name in a key. It becomes a part of a path, of the name of a unit, or of a line that is exported: there an
/// empty part, `.` or `..` (slashes, in the name of a sysctl) is another way to the same file, a blank ends a word, and brackets, `?` and
/// `=` have a meaning.
fn is_name(name: &str) -> bool {
    let is_odd =
        |letter: char| letter.is_whitespace() || letter.is_control() || "=\"'`#;$?[]{}".contains(letter);
    !name.contains(is_odd) && name.split('.').all(|part| !part.trim_matches('/').is_empty())
}

#[cfg(test)]
mod tests;
