//! Limits of libvirt's daemon for many guests.

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::setting::{LibvirtLimit, Reach, Setting};

const LIMITS: [(&str, LibvirtLimit); 2] =
    [("max_clients", LibvirtLimit::Clients), ("max_workers", LibvirtLimit::Workers)];

pub(super) fn limit(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let limit = request.looked_up(&LIMITS)?;
    if !request.root.is_real() {
        return Err(request.absent("only a real host has daemons", LEAVE_OUT));
    }
    request.readable(Reach::Libvirt(limit))
}
