//! The catalogue of settings that a user may name: keys, what they do, their dangers, what they accept.
//!
//! `catalogue.txt` has a line for each key; a file for each family makes the settings that its keys name.

mod accepts;
pub(crate) mod block;
mod catalogue;
mod cgroup;
mod cpu;
mod entry;
mod huge_pages;
mod interrupt;
mod ksm;
mod libvirt;
mod limit;
mod module;
mod nearest;
mod nic;
mod request;
mod reversible;
mod root;
mod scheduler;
mod service;
mod sysctl;
mod transparent;

use std::borrow::Cow;

use super::Setting;
use crate::error::HostError;
use request::Request;

pub use accepts::Accepts;
pub use entry::{Danger, Known, Place};
pub use root::Root;
pub(crate) use service::unit_of;

/// All settings of the catalogue.
pub fn all() -> impl Iterator<Item = &'static Known> {
    catalogue::KNOWN.iter()
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
