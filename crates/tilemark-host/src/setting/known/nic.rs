//! Network devices: which processors do their work, their rings, coalescing and offloads.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Form, NicValue, Reach, Setting};

const SCALING: &str = "Documentation/networking/scaling.rst";
const ETHTOOL: &str = "ethtool(8)";

const fn known(
    key: &'static str,
    about: &'static str,
    source: &'static str,
    accepts: Accepts,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    Known { key, about, source, danger: Danger::None, place: Place::Host, accepts, settings }
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "nic.{device}.rps_cpus",
        "the processors that handle received frames of all queues (receive packet steering)",
        SCALING,
        Accepts::Processors,
        |request| queues(request, "rx-", "rps_cpus"),
    ),
    known(
        "nic.{device}.xps_cpus",
        "the processors that send by all queues (transmit packet steering)",
        SCALING,
        Accepts::Processors,
        |request| queues(request, "tx-", "xps_cpus"),
    ),
    known(
        "nic.{device}.tx_queue_len",
        "frames that may wait to be sent",
        "ip-link(8) (txqueuelen)",
        Accepts::NUMBER,
        |request| {
            let device = device(request)?;
            request.file(&format!("/sys/class/net/{device}/tx_queue_len"), Form::Whole)
        },
    ),
    known("nic.{device}.rx_ring", "descriptors of each receive ring", ETHTOOL, Accepts::NUMBER, |request| {
        by_ethtool(request, NicValue::RxRing)
    }),
    known("nic.{device}.tx_ring", "descriptors of each transmit ring", ETHTOOL, Accepts::NUMBER, |request| {
        by_ethtool(request, NicValue::TxRing)
    }),
    known(
        "nic.{device}.rx_usecs",
        "microseconds that an interrupt waits for more received frames; a driver that adapts them by itself (ethtool -c) ignores it",
        ETHTOOL,
        Accepts::NUMBER,
        |request| by_ethtool(request, NicValue::RxUsecs),
    ),
    known(
        "nic.{device}.tx_usecs",
        "microseconds that an interrupt waits for more sent frames; a driver that adapts them by itself (ethtool -c) ignores it",
        ETHTOOL,
        Accepts::NUMBER,
        |request| by_ethtool(request, NicValue::TxUsecs),
    ),
    known("nic.{device}.tso", "TCP segmentation by the device", ETHTOOL, Accepts::SWITCH, |request| {
        by_ethtool(request, NicValue::Tso)
    }),
    known("nic.{device}.gso", "segmentation just before the device", ETHTOOL, Accepts::SWITCH, |request| {
        by_ethtool(request, NicValue::Gso)
    }),
    known(
        "nic.{device}.gro",
        "received frames joined before the network stack sees them",
        ETHTOOL,
        Accepts::SWITCH,
        |request| by_ethtool(request, NicValue::Gro),
    ),
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

fn queues(request: &Request<'_>, kind: &str, file: &str) -> Result<Vec<Setting>, HostError> {
    let device = device(request)?;
    let mask = request.mask()?;
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

fn by_ethtool(request: &Request<'_>, value: NicValue) -> Result<Vec<Setting>, HostError> {
    let device = device(request)?.to_owned();
    if !request.root.is_real() {
        return Err(request.absent("only a real host has network devices", LEAVE_OUT));
    }
    let form = if value == NicValue::Tso { Form::Leading } else { Form::Whole };
    let settings = request.readable(Reach::Nic { device, value })?;
    Ok(settings.into_iter().map(|setting| Setting { form: form.clone(), ..setting }).collect())
}
