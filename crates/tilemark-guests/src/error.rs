//! What can go wrong with guests, each with the guest's name and what its console said last.

use crate::console::ConsoleTail;
use std::{io, net::Ipv4Addr, path::PathBuf, time::Duration};
use tilemark_agent_protocol::{FrameError, SessionError};
use tilemark_image::own_disk::OwnDiskError;
use tilemark_netlink::{NetlinkError, PingError};
use tilemark_plan::plan::MacAddress;
use tilemark_sys::process::SpawnError;

/// Something about guests failed.
#[derive(Debug, thiserror::Error)]
pub enum GuestError {
    /// Time ran out before the agent said anything.
    #[error("guest `{guest}` did not answer within {} s; {console}", (within.as_secs_f64() * 10.0).round() / 10.0)]
    Silent {
        /// Who.
        guest: String,
        /// How long was waited.
        within: Duration,
        /// Its console.
        console: ConsoleTail,
    },
    /// Time ran out before the agent answered in a guest that boots from a disk of its own.
    #[error("guest `{guest}` booted from {disk}, and no agent answered in it within {} s; {console}", within.as_secs())]
    NoAgent {
        /// Who.
        guest: String,
        /// The disk.
        disk: String,
        /// How long was waited.
        within: Duration,
        /// Its console.
        console: ConsoleTail,
    },
    /// The disk of its own that it boots from.
    #[error("guest `{guest}` cannot boot")]
    OwnDisk {
        /// Who.
        guest: String,
        /// Why.
        #[source]
        source: OwnDiskError,
    },
    /// It ended by itself.
    #[error("guest `{guest}` ended: {how}; {console}")]
    Ended {
        /// Who.
        guest: String,
        /// How, in words.
        how: String,
        /// Its console.
        console: ConsoleTail,
    },
    /// What came back was no answer of our agent.
    #[error("guest `{guest}` did not begin a conversation; {console}")]
    NoConversation {
        /// Who.
        guest: String,
        /// Its console.
        console: ConsoleTail,
        /// Why.
        #[source]
        source: SessionError,
    },
    /// The conversation broke off.
    #[error("the conversation with guest `{guest}` broke off; {console}")]
    Broken {
        /// Who.
        guest: String,
        /// Its console.
        console: ConsoleTail,
        /// Why.
        #[source]
        source: FrameError,
    },
    /// The agent could not do what it was asked.
    #[error("guest `{guest}`: {message}; {console}")]
    Refused {
        /// Who.
        guest: String,
        /// The agent's words.
        message: String,
        /// The agent's advice.
        remedy: String,
        /// Its console.
        console: ConsoleTail,
    },
    /// The agent answered something else.
    #[error("guest `{guest}` gave an answer that does not belong to {asked}")]
    Misplaced {
        /// Who.
        guest: String,
        /// What was asked.
        asked: &'static str,
    },
    /// Its network does not answer.
    #[error("guest `{guest}` is not reached over the run network; {console}")]
    Unreachable {
        /// Who.
        guest: String,
        /// Its console.
        console: ConsoleTail,
        /// Why.
        #[source]
        source: PingError,
    },
    /// Its clock could not be brought near the host's.
    #[error("the clock of guest `{guest}` can be off by {} ms", bound.as_millis())]
    ClockUnsure {
        /// Who.
        guest: String,
        /// The best bound that was reached.
        bound: Duration,
    },
    /// A process was not started.
    #[error("guest `{guest}` cannot be started")]
    Spawn {
        /// Who.
        guest: String,
        /// Why.
        #[source]
        source: SpawnError,
    },
    /// A file or folder.
    #[error("cannot {action} {}", path.display())]
    File {
        /// What was tried, as a verb.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// It cannot be put where the plan has it.
    #[error("guest `{guest}`: cannot {what}")]
    Place {
        /// Who.
        guest: String,
        /// What was tried, as a verb.
        what: String,
        /// The system's reason.
        #[source]
        source: io::Error,
    },
    /// The run network.
    #[error("the run network cannot be built")]
    Network(#[from] NetlinkError),
    /// The user's own bridge cannot be used.
    #[error("{why}")]
    OwnBridge {
        /// Why not.
        why: String,
        /// What to do.
        remedy: String,
    },
    /// Somebody answers under an address that guests were to have.
    #[error("{address}{more} of `network.addresses` is in use: {mac} answered on the bridge `{bridge}`")]
    AddressInUse {
        /// The first such address.
        address: Ipv4Addr,
        /// Who answered.
        mac: MacAddress,
        /// How many more, in words.
        more: String,
        /// On which bridge.
        bridge: String,
    },
    /// Nothing would hold guests to answering.
    #[error("guests cannot be joined to the bridge `{bridge}`: {why}")]
    Unheld {
        /// Which bridge.
        bridge: String,
        /// What is missing.
        why: String,
    },
    /// A program that does not answer as QEMU does.
    #[error("`{command}` does not answer as QEMU does: {why}")]
    NotQemu {
        /// The command.
        command: String,
        /// What it printed or did instead.
        why: String,
    },
    /// No QEMU.
    #[error("no QEMU found; looked for {looked_for}")]
    QemuMissing {
        /// Where.
        looked_for: String,
    },
    /// Firmware that is not there, or starts no guest.
    #[error("`qemu.firmware = {named:?}`: {why}")]
    Firmware {
        /// What the scenario names.
        named: String,
        /// Why not.
        why: String,
    },
    /// A QEMU that is too old.
    #[error("{} is QEMU {found}, and 7.2 is the oldest that serves", path.display())]
    QemuTooOld {
        /// Which.
        path: PathBuf,
        /// Its version.
        found: String,
    },
    /// QEMU refused a command.
    #[error("QEMU of guest `{guest}` refused `{command}`: {said}")]
    Qmp {
        /// Who.
        guest: String,
        /// Which command.
        command: String,
        /// QEMU's words.
        said: String,
    },
    /// The manager knows no such guest.
    #[error("there is no guest with number {0}")]
    Unknown(u64),
    /// A clone of a template that this manager does not have.
    #[error("there is no template with number {0}")]
    UnknownTemplate(u64),
    /// More guests than a bridge has ports.
    #[error("guest number {index} does not fit: the run network holds {limit} guests")]
    TooMany {
        /// The guest's index.
        index: u32,
        /// The bridge's limit.
        limit: u32,
    },
}

impl GuestError {
    /// What the reader should do.
    pub fn remedy(&self) -> String {
        match self {
            Self::Silent { console, .. }
            | Self::Ended { console, .. }
            | Self::NoConversation { console, .. }
            | Self::Broken { console, .. } => format!("read {}", console.path.display()),
            Self::NoAgent { .. } => "the disk must boot by BIOS and have virtio drivers and cloud-init with its data source NoCloud, which \
                                     starts the agent (docs/own-disks.md says how a disk without cloud-init does); a slow one needs a \
                                     longer `boots_within`"
                .to_owned(),
            Self::OwnDisk { source, .. } => source.remedy().to_owned(),
            Self::Unreachable { source, .. } => source.remedy().to_owned(),
            Self::Refused { remedy, .. } => remedy.clone(),
            Self::Misplaced { .. } => {
                "build tilemark again, so that it and its agent belong together".to_owned()
            }
            Self::ClockUnsure { .. } => "start fewer guests at once; the host is too busy".to_owned(),
            Self::Spawn { .. } => {
                "check that the program exists, that you are root, and that all may execute it (`chmod a+rx`)"
                    .to_owned()
            }
            Self::File { .. } => "check permissions and free space there".to_owned(),
            Self::Place { .. } => "check which processors, nodes and huge pages this container or control group may use, or leave out \
                                   `place` and `hugepages`"
                .to_owned(),
            Self::Network(error) => error.remedy().to_owned(),
            Self::OwnBridge { remedy, .. } => remedy.clone(),
            Self::AddressInUse { .. } => "give a range in the site file that nobody else has, outside of what DHCP gives out; another run \
                                          or its guests may have it, here or on another host"
                .to_owned(),
            Self::Unheld { .. } => "load the kernel modules sch_ingress and cls_bpf, or measure without `[network]`".to_owned(),
            Self::NotQemu { command, .. } => {
                format!("run `{command}` yourself to see why, or name another QEMU (`--set qemu.binary=PATH`)")
            }
            Self::QemuMissing { .. } => {
                "install qemu-system-x86, or name the program (`--set qemu.binary=PATH`)".to_owned()
            }
            Self::Firmware { .. } => {
                "name an image of SeaBIOS or qboot by its path (UEFI firmware only where every guest has `from`), or leave out `qemu.firmware`".to_owned()
            }
            Self::QemuTooOld { .. } => {
                "install a newer QEMU, or name one (`--set qemu.binary=PATH`)".to_owned()
            }
            Self::Qmp { .. } => {
                "try another QEMU (`--set qemu.binary=PATH`), or start guests by boot".to_owned()
            }
            Self::Unknown(_) | Self::UnknownTemplate(_) => {
                "this is a fault of tilemark: report it".to_owned()
            }
            Self::TooMany { .. } => "lower `tiles` in the scenario".to_owned(),
        }
    }
}

/// Names the path of a failed file operation.
pub(crate) fn file<E: Into<io::Error>>(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(E) -> GuestError {
    let path = path.to_owned();
    move |source| GuestError::File { action, path, source: source.into() }
}
