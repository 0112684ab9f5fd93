//! Limits of libvirt's daemon for many guests.

use super::{
    accepts::Accepts,
    entry::{Danger, Known, Place},
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{LibvirtLimit, Reach, Setting};

const fn known(
    key: &'static str,
    about: &'static str,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    let accepts = Accepts::Number { least: 1, most: u32::MAX as u64 };
    Known { key, about, source: "virt-admin(1)", danger: Danger::None, place: Place::Host, accepts, settings }
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "libvirt.max_clients",
        "clients that the running daemon of libvirt has at once; until the daemon ends",
        |request| limit(request, LibvirtLimit::Clients),
    ),
    known(
        "libvirt.max_workers",
        "requests that the running daemon of libvirt serves at once; until the daemon ends",
        |request| limit(request, LibvirtLimit::Workers),
    ),
];

fn limit(request: &Request<'_>, limit: LibvirtLimit) -> Result<Vec<Setting>, HostError> {
    if !request.root.is_real() {
        return Err(request.absent("only a real host has daemons", LEAVE_OUT));
    }
    request.readable(Reach::Libvirt(limit))
}
