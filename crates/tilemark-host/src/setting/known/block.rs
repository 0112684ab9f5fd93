//! Queues of block devices: of one, or of all whose names match (`*`, `nvme*`) and that have hardware behind them.

use tilemark_units::matches_glob;

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, Setting};

const SOURCE: &str = "Documentation/ABI/stable/sysfs-block";

const fn known(key: &'static str, about: &'static str, accepts: Accepts) -> Known {
    Known { key, about, source: SOURCE, danger: Danger::None, place: Place::Host, accepts, settings: queues }
}

pub(super) const KNOWN: &[Known] = &[
    known("block.{device}.scheduler", "in which order requests go to the device", Accepts::Listed),
    known("block.{device}.nr_requests", "requests that may wait for the device", Accepts::NUMBER),
    known(
        "block.{device}.queue_depth",
        "requests that a SCSI or SATA disk is sent at the same time (Documentation/scsi/scsi_mid_low_api.rst)",
        Accepts::NUMBER,
    ),
    known(
        "block.{device}.read_ahead_kb",
        "KiB that are read ahead of a file that is read in order",
        Accepts::NUMBER,
    ),
    known(
        "block.{device}.rq_affinity",
        "where a request ends: 0 anywhere, 1 on a processor that shares a cache with the one that sent it, 2 on that one itself",
        Accepts::Number { least: 0, most: 2 },
    ),
    known(
        "block.{device}.nomerges",
        "whether neighbouring requests are joined: 0 yes, 1 only where it is cheap, 2 never",
        Accepts::Number { least: 0, most: 2 },
    ),
    known(
        "block.{device}.wbt_lat_usec",
        "the read latency in microseconds that background writes are held back for; 0 for none",
        Accepts::NUMBER,
    ),
];

/// The one that is the disk's and not its queue's.
pub(crate) const DEPTH: &str = "queue_depth";

/// The file of a value of a device, or of a pattern of devices.
pub(crate) fn file(device: &str, parameter: &str) -> String {
    let folder = if parameter == DEPTH { "device" } else { "queue" };
    format!("/sys/block/{device}/{folder}/{parameter}")
}

fn queues(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let parameter = request.key.rsplit('.').next().unwrap_or_default();
    let devices = match request.parts[0] {
        pattern if pattern.contains('*') => {
            let mut devices = with_hardware(request, pattern);
            // Disks of other kinds have none.
            devices.retain(|device| parameter != DEPTH || request.root.path(&file(device, DEPTH)).exists());
            devices
        }
        one => vec![one.to_owned()],
    };
    if devices.is_empty() {
        let why = format!("no block device with hardware behind it is called {}", request.parts[0]);
        return Err(request.absent(why, LEAVE_OUT));
    }
    let mut settings = Vec::new();
    for device in &devices {
        settings.extend(along(request, device, parameter));
        settings.push(queue(request, device, parameter)?);
    }
    Ok(settings)
}

/// What a new scheduler sets to its own defaults: how many requests may wait, and its knobs whenever it comes back. How many it sends at once
/// follows how many may wait, so the knobs are restored last.
fn along(request: &Request<'_>, device: &str, parameter: &str) -> Vec<Setting> {
    let queue = format!("/sys/block/{device}/queue");
    let mut files = request.root.names(&format!("{queue}/iosched"));
    files.iter_mut().for_each(|file| file.insert_str(0, "iosched/"));
    match parameter {
        "scheduler" => files.push("nr_requests".to_owned()),
        "nr_requests" => files.retain(|file| file == "iosched/async_depth"),
        _ => files.clear(),
    }
    let one = |file: &String| {
        request.along(&format!("block.{device}.{}", file.replace('/', ".")), &format!("{queue}/{file}"))
    };
    files.iter().filter_map(one).collect()
}

fn queue(request: &Request<'_>, device: &str, parameter: &str) -> Result<Setting, HostError> {
    if !request.root.path(&format!("/sys/block/{device}")).exists() {
        let known = request.root.names("/sys/block").join(", ");
        return Err(
            request.absent(format!("no block device is called {device}; there are {known}"), LEAVE_OUT)
        );
    }
    let name = format!("block.{device}.{parameter}");
    let path = file(device, parameter);
    match request.accepts {
        Accepts::Listed => request.choice(&name, &path),
        _ => request.one(&name, &path, Form::Whole, request.value),
    }
}

/// Devices that are not made of files, memory or other devices.
fn with_hardware(request: &Request<'_>, pattern: &str) -> Vec<String> {
    let mut devices = request.root.names("/sys/block");
    devices.retain(|device| {
        matches_glob(pattern, device) && request.root.path(&format!("/sys/block/{device}/device")).exists()
    });
    devices
}
