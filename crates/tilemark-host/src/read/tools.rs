//! Programs that Tilemark calls or is compared with, and their versions.

use std::path::{Path, PathBuf};

use tilemark_plan::{
    facts::{Fact, Tool},
    program::VERSION_ARGUMENTS,
};

use crate::view::HostView;

/// A tool and how it is asked for its version.
struct Known {
    name: &'static str,
    /// Its other names in some distributions.
    aliases: &'static [&'static str],
    /// The argument with which it prints its version.
    version: &'static str,
    /// The text before its version, in a script that starts slowly: it is read there, not printed.
    in_script: Option<&'static str>,
}

impl Known {
    const fn new(name: &'static str, version: &'static str) -> Self {
        Self { name, aliases: &[], version, in_script: None }
    }
}

/// Those that Tilemark calls itself.
const OWN: [Known; 4] = [
    // Red Hat and its kin install it as /usr/libexec/qemu-kvm, Debian links `kvm`.
    Known { aliases: &["qemu-kvm"], ..Known::new("qemu-system-x86_64", "--version") },
    // Perl reads the whole script first: 0.15 s of processor time.
    Known { in_script: Some("our $VERSION = "), ..Known::new("mmdebstrap", "--version") },
    Known::new("mkfs.erofs", "-V"),
    Known::new("mkfs.xfs", "-V"),
];
/// A load of the web that ours is compared with.
const PEER: Known = Known::new("wrk", "-v");

pub(super) fn tools(host: &dyn HostView) -> Vec<Tool> {
    let folders = host.tool_folders();
    let workloads = VERSION_ARGUMENTS.map(|(name, version)| Known::new(name, version));
    OWN.into_iter().chain(workloads).chain([PEER]).map(|known| tool(host, &known, &folders)).collect()
}

fn tool(host: &dyn HostView, known: &Known, folders: &[PathBuf]) -> Tool {
    let names = || std::iter::once(&known.name).chain(known.aliases);
    let mut candidates = names().flat_map(|name| folders.iter().map(move |folder| folder.join(name)));
    let found = candidates.find(|path| host.is_program(path));
    let Some(path) = found else {
        let reason = format!("not in any of {} folders of programs", folders.len());
        return Tool {
            name: known.name.to_owned(),
            path: Fact::Missing(reason.clone()),
            version: Fact::Missing(reason),
        };
    };
    let version = known.in_script.and_then(|before| version_in_script(host, &path, before));
    let version = version.map_or_else(|| printed_version(host, &path, known.version), Fact::Value);
    Tool { name: known.name.to_owned(), path: Fact::Value(path.to_string_lossy().into_owned()), version }
}

fn printed_version(host: &dyn HostView, path: &Path, argument: &str) -> Fact<String> {
    match host.run(path, &[argument]) {
        Err(error) => Fact::Missing(format!("{} {argument}: {error}", path.display())),
        Ok(output) => version_in(&output)
            .map_or_else(|| Fact::Missing(format!("{} {argument} named none", path.display())), Fact::Value),
    }
}

/// The version that follows these words in a script. `None`: the file has no such text, so the program is run.
fn version_in_script(host: &dyn HostView, path: &Path, before: &str) -> Option<String> {
    let text = host.read(path.to_str()?).ok()?;
    version_in(text.split_once(before)?.1.lines().next()?)
}

/// The first word with a digit and a dot in it (`7.2.22`, `fio-3.33`, `nginx/1.22.1`), from its first digit on.
fn version_in(output: &str) -> Option<String> {
    output.split_whitespace().find_map(|word| {
        let from = word.find(|c: char| c.is_ascii_digit())?;
        let version = word[from..].trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        version.contains('.').then(|| version.to_owned())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::TreeHost;

    #[test]
    fn versions_are_found_in_what_tools_print() {
        let of = |output| version_in(output).unwrap_or_default();
        assert_eq!(of("QEMU emulator version 7.2.22 (Debian 1:7.2+dfsg-7+deb12u18)\n"), "7.2.22");
        assert_eq!(of("fio-3.33\n"), "3.33");
        assert_eq!(of("nginx version: nginx/1.22.1\n"), "1.22.1");
        assert_eq!(of("mkfs.xfs version 6.1.0\n"), "6.1.0");
        assert_eq!(of("mkfs.erofs 1.5\navailable compressors: lz4\n"), "1.5");
        assert_eq!(of("wrk 4.1.0 [epoll] Copyright (C) 2012 Will Glozer\n"), "4.1.0");
        assert_eq!(version_in("no digits, no version"), None);
    }

    #[test]
    fn the_version_of_a_slow_script_is_in_its_text_and_another_program_of_its_name_is_asked() {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("usr/bin");
        std::fs::create_dir_all(&folder).unwrap();
        let host = TreeHost::new(root.path()).with_program("/usr/bin/mmdebstrap", "mmdebstrap 2.0.1\n");
        let version = || tools(&host).into_iter().find(|tool| tool.name == "mmdebstrap").unwrap().version;
        for (text, wanted) in [
            ("#!/usr/bin/perl\nour $VERSION = '1.5.7';\nmy $other = '3.0';\n", "1.5.7"),
            ("#!/bin/sh\nexec mmdebstrap-2\n", "2.0.1"),
            ("our $VERSION = version();\n$other = '3.0';\n", "2.0.1"),
        ] {
            std::fs::write(folder.join("mmdebstrap"), text).unwrap();
            assert_eq!(version().value().map(String::as_str), Some(wanted), "{text}");
        }
    }
}
