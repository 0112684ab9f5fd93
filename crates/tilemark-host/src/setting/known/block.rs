//! Queues of block devices: of one, or of all whose names match (`*`, `nvme*`) and that have hardware behind them.

use tilemark_units::matches_glob;

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, NvmeCoalescing, Reach, Setting};

const SOURCE: &str = "Documentation/ABI/stable/sysfs-block";
const NVME: &str = "NVM Express Base Specification 2.0, section 5.27.1.6 (Interrupt Coalescing)";

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
    Known {
        source: NVME,
        settings: |request| coalescing(request, NvmeCoalescing::Requests),
        ..known(
            "block.{device}.coalesce_requests",
            "how many completed requests share one interrupt of an NVMe controller; it has no effect while coalesce_usecs is 0",
            Accepts::Number { least: 1, most: 256 },
        )
    },
    Known {
        source: NVME,
        settings: |request| coalescing(request, NvmeCoalescing::Usecs),
        ..known(
            "block.{device}.coalesce_usecs",
            "how long an interrupt of an NVMe controller waits for more completed requests, in microseconds: a multiple of 100; 0 for not at all",
            Accepts::Number { least: 0, most: 25_500 },
        )
    },
];

/// The one that is the disk's and not its queue's.
pub(crate) const DEPTH: &str = "queue_depth";

/// Whether a value is one of a file, and none that only a command to the device reaches.
pub(crate) fn is_file(parameter: &str) -> bool {
    !parameter.starts_with("coalesce_")
}

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
        one => vec![existing(request, one)?],
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

/// Of the controllers of NVMe disks: each disk names its own.
fn coalescing(request: &Request<'_>, value: NvmeCoalescing) -> Result<Vec<Setting>, HostError> {
    if !request.root.is_real() {
        return Err(request.absent("only a real host has NVMe controllers", LEAVE_OUT));
    }
    let number: u32 = request.value.parse().unwrap_or_default();
    if value == NvmeCoalescing::Usecs && !number.is_multiple_of(100) {
        return Err(request.bad("a multiple of 100 from 0 to 25500"));
    }
    let device = request.parts[0];
    let mut disks = match device {
        pattern if pattern.contains('*') => with_hardware(request, pattern),
        one => vec![existing(request, one)?],
    };
    // One that the kernel hides is a path to another one, and no program can open it.
    let is_hidden = |disk: &str| {
        request.root.text(&format!("/sys/block/{disk}/hidden")).is_some_and(|text| text.trim() == "1")
    };
    disks.retain(|disk| disk.starts_with("nvme") && !is_hidden(disk));
    if disks.is_empty() {
        let why = format!("no disk of an NVMe controller is called {device}");
        return Err(request.absent(why, LEAVE_OUT));
    }
    let of_disk = |disk: String| {
        let name = request.key.replacen(device, &disk, 1);
        let settings = request.readable(Reach::Nvme { disk, value })?;
        Ok(settings.into_iter().map(move |setting| Setting { name: name.clone(), ..setting }))
    };
    let settings: Vec<_> = disks.into_iter().map(of_disk).collect::<Result<_, HostError>>()?;
    Ok(settings.into_iter().flatten().collect())
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
    let name = format!("block.{device}.{parameter}");
    let path = file(device, parameter);
    match request.accepts {
        Accepts::Listed => request.choice(&name, &path),
        _ => request.one(&name, &path, Form::Whole, request.value),
    }
}

/// A device that this host has.
fn existing(request: &Request<'_>, device: &str) -> Result<String, HostError> {
    if request.root.path(&format!("/sys/block/{device}")).exists() {
        return Ok(device.to_owned());
    }
    let known = request.root.names("/sys/block").join(", ");
    Err(request.absent(format!("no block device is called {device}; there are {known}"), LEAVE_OUT))
}

/// Devices that are not made of files, memory or other devices.
fn with_hardware(request: &Request<'_>, pattern: &str) -> Vec<String> {
    let mut devices = request.root.names("/sys/block");
    devices.retain(|device| {
        matches_glob(pattern, device) && request.root.path(&format!("/sys/block/{device}/device")).exists()
    });
    devices
}
