//! One value of the host: how it is read, written, and read back.

use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;
use serde::{Deserialize, Serialize};

use super::reach::{Reach, service};
use crate::error::HostError;
use crate::read::list::parse_list;

/// A setting of the host, and the value it is to have.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// What it is, as a reader is shown it: `wake-up latency limit (PM QoS) of CPU 3`.
    pub name: String,
    /// Its file; empty where it is no file.
    pub path: PathBuf,
    /// How it is read and written.
    #[serde(default, skip_serializing_if = "Reach::is_file")]
    pub reach: Reach,
    /// How the text that is read holds the value.
    pub form: Form,
    /// The value it is to have, as it is read.
    pub value: String,
}

/// Files whose value brings that of another one, or rules which ones it may have.
const LEADERS: [&str; 13] = [
    "queue/scheduler",
    "scaling_governor",
    "cpufreq/boost",
    "transparent_hugepage/enabled",
    "ksm/run",
    "net/ipv4/ip_forward",
    "net/ipv4/conf/all/forwarding",
    "net/ipv4/tcp_congestion_control",
    "net/ipv6/conf/all/forwarding",
    "net/ipv6/conf/all/force_forwarding",
    "net/ipv6/conf/all/addr_gen_mode",
    "net/ipv6/conf/all/ignore_routes_with_linkdown",
    "net/ipv6/conf/all/disable_ipv6",
];

/// The file that switches hardware threads.
const HARDWARE_THREADS: &str = "cpu/smt/control";

/// Files of which only one is in force: the kernel sets the other one to 0.
const PAIRS: [[&str; 2]; 3] = [
    ["dirty_bytes", "dirty_ratio"],
    ["dirty_background_bytes", "dirty_background_ratio"],
    ["overcommit_kbytes", "overcommit_ratio"],
];

/// How the text of a setting holds its value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Form {
    /// The text is the value, without blanks around it. Writing the value sets it.
    Whole,
    /// Words, whatever blanks are between them: the kernel takes `4096 87380 6291456` and shows it with tabs.
    Words,
    /// The value is the first word. After it comes what a write of that word alone would change too.
    Leading,
    /// All values in a line, the current one in brackets: `always [madvise] never`. Writing one of them sets it.
    Choice,
    /// A list of words, which has this one or not. The value is the word or nothing; `+word` adds it and `-word` removes it.
    Member(String),
    /// Processors as a list, `0-3,8`, however the kernel divides it.
    Processors,
    /// Processors as a hexadecimal mask, `00000000,0000000f`, however many zeros the kernel puts before it.
    Mask,
}

impl Form {
    /// The value in a text.
    pub fn value_in(&self, text: &str) -> String {
        match self {
            Self::Whole => text.trim().to_owned(),
            Self::Words => text.split_whitespace().collect::<Vec<_>>().join(" "),
            Self::Leading => text.split_whitespace().next().unwrap_or_default().to_owned(),
            Self::Choice => {
                let chosen = text.split_once('[').and_then(|(_, rest)| rest.split_once(']'));
                chosen.map_or_else(|| text.trim(), |(chosen, _)| chosen).to_owned()
            }
            Self::Member(word) => {
                text.split_whitespace().find(|found| found == word).unwrap_or_default().to_owned()
            }
            Self::Processors => parse_list(text)
                .map_or_else(|| text.trim().to_owned(), |numbers| tilemark_units::ranges(&numbers)),
            Self::Mask => {
                let digits = text.trim().replace(',', "").to_ascii_lowercase();
                let shortest = digits.trim_start_matches('0');
                if shortest.is_empty() && !digits.is_empty() { "0".to_owned() } else { shortest.to_owned() }
            }
        }
    }

    /// What is written to restore the value that was read as `text`.
    pub(super) fn order_for(&self, text: &str) -> String {
        match self {
            Self::Whole | Self::Words | Self::Leading | Self::Processors => text.to_owned(),
            Self::Mask => grouped(text),
            Self::Choice => self.value_in(text),
            Self::Member(word) if self.value_in(text).is_empty() => format!("-{word}"),
            Self::Member(word) => format!("+{word}"),
        }
    }
}

/// A mask in groups of 8 digits with commas between: the kernel takes no longer ones (`bitmap_parse`). Text that has them is unchanged.
fn grouped(mask: &str) -> String {
    let digits = mask.trim();
    if digits.contains(',') || digits.len() <= 8 {
        return mask.to_owned();
    }
    let (first, rest) = digits.split_at((digits.len() - 1) % 8 + 1);
    let rest = rest.as_bytes().chunks(8).map(String::from_utf8_lossy);
    std::iter::once(first.into()).chain(rest).collect::<Vec<_>>().join(",")
}

impl Setting {
    /// A setting that is a file.
    pub fn file(name: impl Into<String>, path: impl Into<PathBuf>, form: Form, value: &str) -> Self {
        let value = form.value_in(value);
        Self { name: name.into(), path: path.into(), reach: Reach::File, form, value }
    }

    /// A setting that is no file of the kernel.
    pub fn by(name: impl Into<String>, reach: Reach, value: &str) -> Self {
        let value = value.to_owned();
        Self { name: name.into(), path: PathBuf::new(), reach, form: Form::Whole, value }
    }

    /// The same, whose file belongs to a vector of interrupts: see [`Reach::Vector`].
    pub(super) fn of_a_vector(self) -> Self {
        Self { reach: Reach::Vector, ..self }
    }

    /// The value that a file has now, held because another setting changes it: see [`Reach::Follower`].
    pub(super) fn follower(self) -> Self {
        Self { reach: Reach::Follower, ..self }
    }

    /// Whether it is held only to be restored.
    pub fn is_follower(&self) -> bool {
        matches!(self.reach, Reach::Follower | Reach::Dependent { .. })
    }

    /// Whether it is a service.
    pub(super) fn is_a_service(&self) -> bool {
        matches!(self.reach, Reach::Service { .. })
    }

    /// Whether it is a service that is to stop.
    pub(super) fn stops_a_service(&self) -> bool {
        self.is_a_service() && self.value == service::STOPPED
    }

    /// When it is set among others, the least first, and restored in the opposite order: a service that stops may set values back, some values
    /// bring or rule others, and hardware threads that are switched off take the values of their processors along.
    pub(super) fn turn(&self) -> u8 {
        match self {
            follower if follower.is_follower() => 0,
            service if service.stops_a_service() => 1,
            leader if LEADERS.iter().any(|path| leader.path.ends_with(path)) => 2,
            threads if threads.path.ends_with(HARDWARE_THREADS) && threads.value == "off" => 4,
            _ => 3,
        }
    }

    /// Whether each network namespace has a value of its own, or none.
    pub(super) fn is_of_a_network(&self) -> bool {
        matches!(self.reach, Reach::Nic { .. })
            || ["/proc/sys/net", "/sys/class/net"].iter().any(|folder| self.path.starts_with(folder))
    }

    /// The file of the other one, where it is one of a pair.
    pub(super) fn pair(&self) -> Option<PathBuf> {
        let name = self.path.file_name()?.to_str()?;
        let [one, other] = PAIRS.into_iter().find(|pair| pair.contains(&name))?;
        Some(self.path.with_file_name(if name == one { other } else { one }))
    }

    /// Whether one write takes the kernel many steps, which others see: it allocates huge pages one by one, until all are there or the
    /// writer is killed.
    pub(super) fn is_set_in_steps(&self) -> bool {
        self.path.ends_with("nr_hugepages")
    }

    /// Its file; `None` where it is no file.
    pub fn path(&self) -> Option<&Path> {
        (!self.path.as_os_str().is_empty()).then_some(&self.path)
    }

    /// Whether both are the same thing of the host, whatever value each is to have.
    pub fn is_same_as(&self, other: &Self) -> bool {
        self.path == other.path && self.reach == other.reach && self.form == other.form
    }

    /// Its text now.
    ///
    /// # Errors
    /// [`HostError::Setting`] where it cannot be read.
    pub fn read(&self) -> Result<String, HostError> {
        self.reach.read(&self.path).map_err(|source| self.failed("read", source))
    }

    /// Its value now.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub fn now(&self) -> Result<String, HostError> {
        Ok(self.form.value_in(&self.read()?))
    }

    /// Of a vector of interrupts: the processors to which the kernel delivers it now. They may be fewer than it may go to, and others until
    /// the kernel has moved it, which some hardware does with its next interrupt only. `None` where the kernel does not say, as of a vector
    /// that nobody uses, and of anything else.
    pub fn effective(&self) -> Option<String> {
        if self.reach != Reach::Vector {
            return None;
        }
        let text = fs::read_to_string(self.path.with_file_name("effective_affinity_list")).ok()?;
        Some(self.form.value_in(&text)).filter(|processors| !processors.is_empty())
    }

    /// Whether the kernel lets root write it; it is not written.
    ///
    /// # Errors
    /// [`HostError::Setting`] with the reason: a file system that is mounted read-only, a user without the right; [`HostError::SettingFixed`]
    /// where nobody may write it.
    pub fn check_writable(&self) -> Result<(), HostError> {
        let Some(path) = self.path() else { return Ok(()) };
        let mode = path.metadata().map_err(|source| self.failed("read", source))?.permissions();
        if mode.readonly() {
            return Err(HostError::SettingFixed { name: self.name.clone(), path: path.to_owned() });
        }
        match access(path, Access::WRITE_OK) {
            // Whoever may not change the host may still ask what root would change.
            Err(Errno::ACCESS) if !geteuid().is_root() => Ok(()),
            checked => checked.map_err(|error| self.failed("write", error.into())),
        }
    }

    /// Sets the value it is to have, and reads it back: a kernel may take what is written and ignore it. Calls `written` between.
    ///
    /// A value that it has already is not written: another one, written before, may have brought it, as a limit in bytes sets its ratio to 0.
    pub(super) fn set(&self, written: &mut dyn FnMut()) -> Result<(), HostError> {
        if self.now()? == self.value {
            return Ok(());
        }
        self.write(&self.value)?;
        written();
        self.check()
    }

    /// Whether it has the value that was written.
    pub(super) fn check(&self) -> Result<(), HostError> {
        let read = self.now()?;
        if read == self.value {
            return Ok(());
        }
        Err(HostError::SettingIgnored {
            name: self.name.clone(),
            path: self.path.clone(),
            written: self.value.clone(),
            read,
        })
    }

    /// Restores the value that was read as `text`.
    pub(super) fn write(&self, text: &str) -> Result<(), HostError> {
        let order = self.form.order_for(text);
        self.reach.write(&self.path, &order).map_err(|source| self.failed("write", source))
    }

    /// Whether an error says that the kernel spreads this vector of interrupts itself: EPERM since Linux 6.12, EIO before.
    pub(super) fn is_immovable(&self, error: &HostError) -> bool {
        let HostError::Setting { verb: "write", source, .. } = error else { return false };
        self.reach == Reach::Vector && matches!(Errno::from_io_error(source), Some(Errno::IO | Errno::PERM))
    }

    /// Whether its file says that the kernel spreads this vector of interrupts itself: nobody may write it.
    pub fn is_spread_by_kernel(&self) -> bool {
        let is_fixed = || self.path.metadata().is_ok_and(|file| file.permissions().readonly());
        self.reach == Reach::Vector && is_fixed()
    }

    fn failed(&self, verb: &'static str, source: io::Error) -> HostError {
        HostError::Setting { verb, name: self.name.clone(), path: self.path.clone(), source }
    }
}

/// `vm.swappiness (/proc/sys/vm/swappiness)`.
impl fmt::Display for Setting {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.path() {
            Some(path) => write!(out, "{} ({})", self.name, path.display()),
            None => out.write_str(&self.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_in_the_text_of_each_form() {
        let member = Form::Member("memory".to_owned());
        for (form, text, value, order) in [
            (Form::Whole, "4096\t87380\t6291456\n", "4096\t87380\t6291456", "4096\t87380\t6291456\n"),
            (Form::Choice, "always [madvise] never\n", "madvise", "madvise"),
            // Not every list marks one.
            (Form::Choice, "none\n", "none", "none"),
            (member.clone(), "cpu memory\n", "memory", "+memory"),
            (member.clone(), "cpu memory_recursive\n", "", "-memory"),
            (member, "\n", "", "-memory"),
            (Form::Words, "4096\t87380\t6291456\n", "4096 87380 6291456", "4096\t87380\t6291456\n"),
            (Form::Leading, "on tx-tcp-segmentation", "on", "on tx-tcp-segmentation"),
            (Form::Processors, "0,1,2-3,8\n", "0-3,8", "0,1,2-3,8\n"),
            (Form::Processors, "\n", "", "\n"),
            (Form::Mask, "00000000,0000000F\n", "f", "00000000,0000000F\n"),
            (Form::Mask, "00\n", "0", "00\n"),
            (Form::Mask, "f00000000", "f00000000", "f,00000000"),
        ] {
            assert_eq!(
                (form.value_in(text).as_str(), form.order_for(text).as_str()),
                (value, order),
                "{text:?}"
            );
        }
    }

    #[test]
    fn a_file_that_the_kernel_does_not_have_is_not_made() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent");
        let setting = Setting::file("absent", &path, Form::Whole, "1");
        assert!(matches!(setting.set(&mut || {}), Err(HostError::Setting { verb: "read", .. })));
        assert!(matches!(setting.write("1"), Err(HostError::Setting { verb: "write", .. })));
        assert!(!path.exists());
    }
}
