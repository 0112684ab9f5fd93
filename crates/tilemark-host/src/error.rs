//! What can go wrong while a host is read or grouped.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::io::Errno;

/// An error of this crate. Facts that cannot be read are no errors: they are missing, with the reason.
#[derive(Debug, thiserror::Error)]
pub enum HostError {
    /// No version 2 control group tree is mounted.
    #[error("no cgroup version 2 tree is mounted")]
    NoControlGroups,
    /// A file of a control group could not be read or written.
    #[error("cannot {verb} {}", path.display())]
    GroupFile {
        /// What was tried.
        verb: &'static str,
        /// On which file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// A group did not become empty.
    #[error("processes of {} still live {waited:?} after they were killed", path.display())]
    GroupStillPopulated {
        /// The group.
        path: PathBuf,
        /// How long it was waited for.
        waited: Duration,
    },
    /// A file that telemetry cannot do without.
    #[error("cannot read {}", path.display())]
    Telemetry {
        /// The file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// No setting has this key.
    #[error("no setting is called `{key}`{}", meant(nearest))]
    UnknownSetting {
        /// The key.
        key: String,
        /// Keys that are nearly the same.
        nearest: Vec<String>,
    },
    /// A setting that kernels had once.
    #[error("`{key}` is gone from current kernels: {became}")]
    SettingGone {
        /// The key.
        key: String,
        /// Since when, and what became of it.
        became: &'static str,
    },
    /// This host has no such setting: a module, a device or a feature is not there.
    #[error("this host has no `{key}`: {why}")]
    SettingAbsent {
        /// The key.
        key: String,
        /// What is not there.
        why: String,
        /// What to do to have it.
        remedy: &'static str,
    },
    /// The kernel of this host has sysctls beside it, and none of this name.
    #[error("this host has no `{key}`: there is no {path}{}", meant(nearest))]
    UnknownSysctl {
        /// The key.
        key: String,
        /// Its file, if it had one.
        path: String,
        /// Keys beside it that are nearly the same.
        nearest: Vec<String>,
    },
    /// A value that a setting cannot have.
    #[error("`{key}` cannot be {value:?}: it accepts {accepts}")]
    BadSettingValue {
        /// The key.
        key: String,
        /// The value.
        value: String,
        /// What it accepts.
        accepts: String,
    },
    /// A setting that nobody may write while the kernel, or the module, runs.
    #[error("the {name} ({}) cannot be changed while it is in use", path.display())]
    SettingFixed {
        /// The setting.
        name: String,
        /// Its file.
        path: PathBuf,
    },
    /// A setting could not be read or written.
    #[error("cannot {verb} the {name}{}", place(path))]
    Setting {
        /// What was tried.
        verb: &'static str,
        /// The setting.
        name: String,
        /// Its file.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
    /// The kernel took a value and has another.
    #[error("the {name}{} is {read} after {written} was written", place(path))]
    SettingIgnored {
        /// The setting.
        name: String,
        /// Its file.
        path: PathBuf,
        /// The value that was written.
        written: String,
        /// The value that was read back.
        read: String,
    },
    /// The journal of settings could not be read or written.
    #[error("cannot {verb} the journal {}", path.display())]
    Journal {
        /// What was tried.
        verb: &'static str,
        /// The journal.
        path: PathBuf,
        /// What the kernel said.
        #[source]
        source: io::Error,
    },
}

impl HostError {
    /// For `map_err` where a journal of settings could not be read or written; the verb says what was tried.
    pub fn journal(verb: &'static str, path: &Path) -> impl Fn(io::Error) -> Self + Copy {
        move |source| Self::Journal { verb, path: path.to_owned(), source }
    }

    /// The error with its causes, in a line.
    pub fn in_a_line(&self) -> String {
        tilemark_units::with_causes(self)
    }

    /// Whether the file or the device of a setting does not exist any more.
    pub(crate) fn is_gone(&self) -> bool {
        let Self::Setting { source, .. } = self else { return false };
        source.kind() == io::ErrorKind::NotFound || Errno::from_io_error(source) == Some(Errno::NODEV)
    }

    /// Whether this host lacks the setting. A line of a profile may be marked for that.
    pub fn is_lacking(&self) -> bool {
        matches!(self, Self::SettingAbsent { .. } | Self::UnknownSysctl { .. })
    }

    /// Whether a line of a profile that is marked `optional` is left out for it: this host lacks the setting, or every current kernel does.
    pub fn is_skipped_where_optional(&self) -> bool {
        self.is_lacking() || matches!(self, Self::SettingGone { .. })
    }

    /// Whether what was asked for cannot be meant: its key or its value is wrong.
    pub fn is_mistake(&self) -> bool {
        matches!(
            self,
            Self::UnknownSetting { .. }
                | Self::UnknownSysctl { .. }
                | Self::SettingGone { .. }
                | Self::BadSettingValue { .. }
        )
    }

    /// What the reader of a profile should do.
    pub fn remedy_in_profile(&self) -> Cow<'static, str> {
        match self.is_lacking() {
            true => format!("{}, or mark it `optional = true` in the profile", self.remedy()).into(),
            false => self.remedy().into(),
        }
    }

    /// What to do in a scenario, where that is something else than to choose another value.
    pub fn remedy_in_run(&self) -> Option<&'static str> {
        let Self::Setting { verb: "write", path, source, .. } = self else { return None };
        let is_restricted = Errno::from_io_error(source) == Some(Errno::PERM)
            && path.ends_with("net/ipv4/tcp_congestion_control");
        is_restricted.then_some(
            "the network of a run takes only what the host allows to every user: set `host.setting.net.ipv4.tcp_allowed_congestion_control` \
             too, to the host's list and this one, such as \"reno cubic bbr\"; load the module first (`modprobe tcp_bbr`)",
        )
    }

    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::NoControlGroups => "mount it: mount -t cgroup2 none /sys/fs/cgroup",
            Self::GroupFile { .. } => {
                "run as root, outside a container that holds its control groups read-only"
            }
            Self::GroupStillPopulated { .. } => {
                "a process hangs in the kernel: look for state D in ps, and at the kernel's log"
            }
            Self::UnknownSetting { .. } => "see all keys with `tilemark host settings`",
            Self::SettingGone { .. } | Self::UnknownSysctl { .. } => "leave it out",
            Self::SettingAbsent { remedy, .. } => remedy,
            Self::BadSettingValue { .. } => "give one of the values that it accepts",
            Self::SettingFixed { path, .. } if path.to_string_lossy().contains("/module/") => {
                "it is set when its module is loaded: write `options MODULE PARAMETER=VALUE` into a file of /etc/modprobe.d and load \
                 the module again while nothing uses it"
            }
            Self::SettingFixed { .. } => "leave it out: this kernel only shows it",
            Self::Setting { source, .. } => remedy_of(source),
            Self::SettingIgnored { path, .. } => remedy_of_ignored(path),
            Self::Journal { .. } => "free some space, or set TILEMARK_HOME to a folder that may be written",
            Self::Telemetry { .. } => "mount /proc, and run as root where it hides the processes of others",
        }
    }
}

/// The file of a setting, where it has one.
fn place(path: &Path) -> String {
    if path.as_os_str().is_empty() { String::new() } else { format!(" ({})", path.display()) }
}

/// The keys that may have been meant: `. Did you mean `thp` or `ksm`?`
fn meant(nearest: &[String]) -> String {
    let keys: Vec<String> = nearest.iter().map(|key| format!("`{key}`")).collect();
    match keys.split_last() {
        None => String::new(),
        Some((only, [])) => format!(". Did you mean {only}?"),
        Some((last, others)) => format!(". Did you mean {} or {last}?", others.join(", ")),
    }
}

/// What to do where the kernel refused to have a setting read or written.
fn remedy_of(source: &io::Error) -> &'static str {
    /// What a driver answers that cannot do it (`ENOTSUPP` of the kernel, which is in no header of user space).
    const NOT_SUPPORTED: i32 = 524;
    let error = Errno::from_io_error(source).map(|error| match error.raw_os_error() {
        NOT_SUPPORTED => Errno::OPNOTSUPP,
        _ => error,
    });
    match error {
        Some(Errno::ROFS) => {
            "it is mounted read-only, as in most containers: run on the host, or in a container that is privileged"
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::NXIO) => {
            "the kernel, a module or a device of this host does not have it: leave it out"
        }
        Some(Errno::INVAL | Errno::RANGE | Errno::NOMEM) => {
            "the kernel refuses this value: see its range in the source that `tilemark host plan` names"
        }
        Some(Errno::BUSY) => "something uses what would change: end it first, and try again",
        // It comes from no system call: a program such as systemctl(1) or virt-admin(1) failed or is not there, or the value was refused
        // before the kernel was asked, as a limit that could not be restored.
        None => {
            "give another value if this one is refused; else install or start what the reason names, and run as root"
        }
        _ => "run as root, outside a container that sees its host's settings only to read",
    }
}

/// What to do where the kernel took a value and has another.
fn remedy_of_ignored(path: &Path) -> &'static str {
    let path = path.to_string_lossy();
    if path.contains("hugepages-1048576kB") {
        "memory of 1 GiB in a row is rarely free: reserve these pages on the kernel's command line (`hugepagesz=1G hugepages=N`) and boot"
    } else if path.contains("/hugepages-") {
        "too little memory is free in a row: ask for fewer pages, end programs, or set them soon after a boot"
    } else {
        "the kernel keeps another value: give that one, or look for a program that sets it too (tuned, irqbalance, numad)"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_kernel_refuses_has_the_remedy_of_its_reason() {
        for (number, remedy) in
            [(30, "read-only"), (524, "leave it out"), (22, "its range"), (13, "run as root")]
        {
            let said = remedy_of(&io::Error::from_raw_os_error(number));
            assert!(said.contains(remedy), "{number}: {said}");
        }
        let of_program = remedy_of(&io::Error::other("virt-admin: it is too small"));
        assert!(of_program.starts_with("give another value if this one is refused; else "), "{of_program}");
        assert!(of_program.contains("install or start what the reason names"), "{of_program}");
        let pages = |size: &str| format!("/sys/kernel/mm/hugepages/hugepages-{size}/nr_hugepages");
        for (path, remedy) in [
            (pages("1048576kB"), "hugepagesz=1G"),
            (pages("2048kB"), "fewer pages"),
            ("/proc/sys/vm/swappiness".to_owned(), "tuned, irqbalance, numad"),
        ] {
            let said = remedy_of_ignored(Path::new(&path));
            assert!(said.contains(remedy), "{path}: {said}");
        }
    }
}
