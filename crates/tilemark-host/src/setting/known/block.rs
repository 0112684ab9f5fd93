//! Queues of block devices: of one, or of all whose names match (`*`, `nvme*`) and that have hardware behind them.

use tilemark_units::matches_glob;

use super::{
    accepts::Accepts,
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, NvmeCoalescing, Reach, Setting};

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

pub(super) fn queues(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let parameter = request.name();
    let mut devices = devices(request)?;
    if request.parts[0].contains('*') && parameter == DEPTH {
        // Disks of other kinds have none.
        devices.retain(|device| request.root.path(&file(device, DEPTH)).exists());
    }
    if request.parts[0].contains('*') && ["scheduler", "nr_requests"].contains(&parameter) {
        // A disk that several paths lead to hands each request on to one of them. Nothing waits in it: its scheduler reads `none`, without the
        // brackets of a choice, and the kernel refuses each number of requests.
        let schedules = |device: &String| {
            request.root.text(&file(device, "scheduler")).is_none_or(|text| text.trim() != "none")
        };
        devices.retain(schedules);
    }
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
pub(super) fn coalescing(request: &Request<'_>, value: NvmeCoalescing) -> Result<Vec<Setting>, HostError> {
    if !request.root.is_real() {
        return Err(request.absent("only a real host has NVMe controllers", LEAVE_OUT));
    }
    let number: u32 = request.value.parse().unwrap_or_default();
    if value == NvmeCoalescing::Usecs && !number.is_multiple_of(100) {
        return Err(request.bad("a multiple of 100 from 0 to 25500"));
    }
    let device = request.parts[0];
    let mut disks = devices(request)?;
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

/// The device that a key names, where this host has it, or all that match its pattern and are not made of files, memory or other devices.
fn devices(request: &Request<'_>) -> Result<Vec<String>, HostError> {
    let name = request.parts[0];
    let exists = |path: String| request.root.path(&path).exists();
    let mut all = request.root.names("/sys/block");
    if name.contains('*') {
        all.retain(|device| matches_glob(name, device) && exists(format!("/sys/block/{device}/device")));
        return Ok(all);
    }
    if exists(format!("/sys/block/{name}")) {
        return Ok(vec![name.to_owned()]);
    }
    let known = all.join(", ");
    Err(request.absent(format!("no block device is called {name}; there are {known}"), LEAVE_OUT))
}
