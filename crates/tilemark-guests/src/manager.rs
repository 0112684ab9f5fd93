//! Who starts guests, watches them and ends them, behind one trait.
//!
//! ```text
//!             start                 agent answers
//!  (nothing) -------> Starting --------------------> Running ----> Ended
//!                         |             (connect proves it)          ^
//!                         +------------------ stop, crash -----------+
//! ```

use crate::{conversation::AgentSession, error::GuestError};
use serde::{Deserialize, Serialize};
use std::{path::PathBuf, time::Duration};
use tilemark_agent_protocol::Service;
use tilemark_netlink::PortCounts;
use tilemark_plan::plan::{self, GuestPlan};

/// A guest of one manager; never used twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GuestId(pub(crate) u64);

/// A template of one manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TemplateId(pub(crate) u64);

impl TemplateId {
    /// Its number, which no other template of the manager has.
    pub const fn number(self) -> u64 {
        self.0
    }
}

/// How a guest is to be started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StartMode {
    /// From its kernel on.
    Boot,
    /// Copy-on-write from a frozen template. A native twin has none and starts from the beginning.
    Clone(TemplateId),
}

/// How a guest was started, for the record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Origin {
    /// Its own kernel booted.
    Booted,
    /// It continues its template.
    Cloned,
    /// No kernel of its own: namespaces.
    Namespaced,
}

/// What a guest is doing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuestState {
    /// Its processes are being made.
    Starting,
    /// Its processes run. Only a conversation shows whether its agent answers.
    Running,
    /// It is gone: how, in words.
    Ended(String),
}

/// Starts guests, watches them and ends them. [`plan::Backend`] is what executes a guest, this is who manages it: today Tilemark itself on
/// each backend. Everything may be called from many threads.
pub trait GuestManager: Send + Sync {
    /// What executes its guests.
    fn backend(&self) -> plan::Backend;

    /// Makes the template from which guests like this are cloned, with this service running in it, or finds it
    /// made already. Waits; takes as long as a boot.
    fn template(&self, guest: &GuestPlan, service: &Service) -> Result<TemplateId, GuestError>;

    /// Has a template's memory near a guest that is to be cloned from it, so that its start need not wait for that.
    fn near(&self, _: TemplateId, _: &GuestPlan) -> Result<(), GuestError> {
        Ok(())
    }

    /// Starts a guest and returns at once, before it has booted. Its network device is on the bridge then.
    fn start(&self, guest: &GuestPlan, mode: StartMode) -> Result<GuestId, GuestError>;

    /// Says what the guest is doing now. Never waits.
    fn state(&self, guest: GuestId) -> Result<GuestState, GuestError>;

    /// Begins a conversation with its agent, at most so long: the agent returned a fresh nonce. A conversation
    /// that was going on breaks off.
    fn connect(&self, guest: GuestId, within: Duration) -> Result<AgentSession, GuestError>;

    /// The host's processes of it now, the first one first; none of one that has ended.
    fn processes(&self, guest: GuestId) -> Result<Vec<u32>, GuestError>;

    /// The same of many guests, in their order; none of one that is unknown. For a thousand guests it costs hardly more than for
    /// one.
    fn all_processes(&self, guests: &[GuestId]) -> Vec<Vec<u32>> {
        guests.iter().map(|guest| self.processes(*guest).unwrap_or_default()).collect()
    }

    /// The control group that holds all of its processes and nothing else, where it has one of its own.
    fn group(&self, _: GuestId) -> Option<PathBuf> {
        None
    }

    /// Requests that the host itself counted on the guest's data disks, all together, since it started; `None`
    /// when it has none, or the host does not say.
    fn disk_requests(&self, guest: GuestId) -> Result<Option<u64>, GuestError>;

    /// Where its console is written.
    fn console(&self, guest: GuestId) -> Result<PathBuf, GuestError>;

    /// What passed its port of the run network since it was started; nothing where it has no port.
    fn port_counts(&self, _: GuestId) -> Option<PortCounts> {
        None
    }

    /// How it was started.
    fn origin(&self, guest: GuestId) -> Result<Origin, GuestError>;

    /// Ends a guest and waits until its processes and devices are gone. Stopping a stopped guest is no error, so
    /// clean-up can always call it.
    fn stop(&self, guest: GuestId) -> Result<(), GuestError>;

    /// Whether guests can be reached over the run network; a fake's cannot.
    fn has_network(&self) -> bool;

    /// What could not be made equal to the other backends here, in sentences for the report.
    fn inequalities(&self) -> Vec<String>;
}
