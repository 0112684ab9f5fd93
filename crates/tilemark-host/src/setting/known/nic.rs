//! Network devices: which processors do their work, their rings, coalescing and offloads.

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::setting::{Form, NicValue, Reach, Setting};

/// Values that only a request of ethtool's reaches.
const BY_ETHTOOL: [(&str, NicValue); 7] = [
    ("rx_ring", NicValue::RxRing),
    ("tx_ring", NicValue::TxRing),
    ("rx_usecs", NicValue::RxUsecs),
    ("tx_usecs", NicValue::TxUsecs),
    ("tso", NicValue::Tso),
    ("gso", NicValue::Gso),
    ("gro", NicValue::Gro),
];

/// The device, where the host has it.
fn device<'a>(request: &'a Request<'_>) -> Result<&'a str, HostError> {
    let device = request.parts[0];
    if request.root.path(&format!("/sys/class/net/{device}")).exists() {
        return Ok(device);
    }
    let known = request.root.names("/sys/class/net").join(", ");
    Err(request.absent(format!("no network device is called {device}; there are {known}"), LEAVE_OUT))
}

pub(super) fn queue_length(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    request.file(&format!("/sys/class/net/{}/tx_queue_len", device(request)?), Form::Whole)
}

/// A file of every queue of one kind.
pub(super) fn queues(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let device = device(request)?;
    let mask = request.mask()?;
    let file = request.name();
    let kind = request.looked_up(&[("rps_cpus", "rx-"), ("xps_cpus", "tx-")])?;
    let folder = format!("/sys/class/net/{device}/queues");
    let mut queues = request.root.names(&folder);
    // A device with one queue has the file of XPS, and the kernel says about it that it does not exist.
    queues.retain(|queue| {
        queue.starts_with(kind) && request.root.text(&format!("{folder}/{queue}/{file}")).is_some()
    });
    if queues.is_empty() {
        return Err(request.absent(format!("{device} has no queues with {file}"), LEAVE_OUT));
    }
    let one = |queue: &String| {
        let name = format!("{} of {queue}", request.key);
        request.one(&name, &format!("{folder}/{queue}/{file}"), Form::Mask, &mask)
    };
    queues.iter().map(one).collect()
}

pub(super) fn by_ethtool(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let value = request.looked_up(&BY_ETHTOOL)?;
    let device = device(request)?.to_owned();
    if !request.root.is_real() {
        return Err(request.absent("only a real host has network devices", LEAVE_OUT));
    }
    let form = if value == NicValue::Tso { Form::Leading } else { Form::Whole };
    let settings = request.readable(Reach::Nic { device, value })?;
    Ok(settings.into_iter().map(|setting| Setting { form: form.clone(), ..setting }).collect())
}
