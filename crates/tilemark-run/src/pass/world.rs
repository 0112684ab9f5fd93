//! All that a run needs of guests, loads and host, as a trait: a test fails each of them once.

use crate::{
    clients::reach::Clients,
    failure::Failure,
    job::quiet::Others,
    pass::hooks::HookRunner,
    pass::host_settings::{Hands, NoHands},
    pass::host_watch::{LiveWatch, Watch},
    pass::load_process::LoadProcess,
};
use std::time::Duration;
use tilemark_guests::GuestManager;
use tilemark_host::telemetry::Pss;
use tilemark_plan::plan::Point;
use tilemark_units::Bytes;

/// All that a run needs of the world.
pub(crate) trait World {
    /// Who manages the guests of a point.
    fn manager(&self, point: &Point) -> Result<&dyn GuestManager, Failure>;
    /// A fresh load process.
    fn load_process(&self, point: &Point) -> Result<Box<dyn LoadProcess>, Failure>;
    /// Memory that could be had now.
    fn memory_available(&self) -> Option<Bytes>;
    /// Free space where data disks and the record are.
    fn disk_available(&self) -> Option<Bytes>;
    /// Proportional memory of a process.
    fn pss(&self, pid: u32) -> Option<Pss>;
    /// Who is watched besides the guests: Tilemark itself.
    fn own_processes(&self) -> Vec<u32>;
    /// Puts the data disks of a point's guests in place where they begin with something on them, and says how long
    /// their templates took that were not there.
    fn prepare_disks(&self, _: &Point, _: &dyn Fn(&str)) -> Result<Duration, Failure> {
        Ok(Duration::ZERO)
    }
    /// Errors that the host's kernel reported since this was asked last.
    fn kernel_errors(&self) -> Vec<String> {
        Vec::new()
    }
    /// Which wall between guests this host lacks, in a sentence.
    fn missing_wall(&self) -> Option<String> {
        None
    }
    /// Who sets the host.
    fn hands(&self) -> &dyn Hands {
        &NoHands
    }
    /// The user's own commands around the measured seconds, where there are any.
    fn hooks(&self) -> Option<&HookRunner> {
        None
    }
    /// Client machines that send loads, where there are any.
    fn clients(&self) -> Option<&Clients> {
        None
    }
    /// Looks for a while at what the host does besides the run; nothing where it cannot be read, or where `is_over` says so before.
    fn others(&self, _is_over: &dyn Fn() -> bool) -> Option<Others> {
        None
    }
    /// Who watches the host.
    fn watch(&self) -> &dyn Watch {
        &LiveWatch
    }
}
