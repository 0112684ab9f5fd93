//! Programs that Tilemark calls or is compared with, and their versions.

use std::path::PathBuf;

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
    version: &'static str,
}

/// Those that Tilemark calls itself.
const OWN: [Known; 4] = [
    // Red Hat and its kin install it as /usr/libexec/qemu-kvm, Debian links `kvm`.
    Known { name: "qemu-system-x86_64", aliases: &["qemu-kvm"], version: "--version" },
    Known { name: "mmdebstrap", aliases: &[], version: "--version" },
    Known { name: "mkfs.erofs", aliases: &[], version: "-V" },
    Known { name: "mkfs.xfs", aliases: &[], version: "-V" },
];
/// A load of the web that ours is compared with.
const PEER: Known = Known { name: "wrk", aliases: &[], version: "-v" };

pub(super) fn tools(host: &dyn HostView) -> Vec<Tool> {
    let folders = host.tool_folders();
    let workloads = VERSION_ARGUMENTS.map(|(name, version)| Known { name, aliases: &[], version });
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
    let version = match host.run(&path, &[known.version]) {
        Err(error) => Fact::Missing(format!("{} {}: {error}", path.display(), known.version)),
        Ok(output) => version_in(&output).map_or_else(
            || Fact::Missing(format!("{} {} named none", path.display(), known.version)),
            Fact::Value,
        ),
    };
    Tool { name: known.name.to_owned(), path: Fact::Value(path.to_string_lossy().into_owned()), version }
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
}
