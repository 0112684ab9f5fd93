//! Services that run or not.

use super::{
    Accepts, Danger, Known, Place,
    request::{LEAVE_OUT, Request},
};
use crate::error::HostError;
use crate::setting::{Reach, Setting};

const SERVICE: &str = ".service";
const STATES: Accepts = Accepts::OneOf(&["running", "stopped"]);

const fn known(
    key: &'static str,
    about: &'static str,
    danger: Danger,
    settings: fn(&Request<'_>) -> Result<Vec<Setting>, HostError>,
) -> Known {
    Known { key, about, source: "systemctl(1)", danger, place: Place::Host, accepts: STATES, settings }
}

/// Without them others can get in, or nobody sees that they did.
const fn guard(key: &'static str) -> Known {
    known(key, "whether a service runs that protects the host", Danger::Security, named)
}

pub(super) const KNOWN: &[Known] = &[
    known(
        "irqbalance",
        "whether irqbalance runs, which moves interrupts between processors by their load",
        Danger::None,
        |request| service(request, "irqbalance"),
    ),
    guard("service.apparmor"),
    guard("service.auditd"),
    guard("service.fail2ban"),
    guard("service.firewalld"),
    guard("service.iptables"),
    guard("service.ip6tables"),
    guard("service.nftables"),
    guard("service.ufw"),
    known(
        "service.{service}",
        "whether a service runs; others that need it stop with it",
        Danger::Stability,
        named,
    ),
];

/// `service.cups` for `service.cups.service`.
pub(super) fn one_form(key: &str) -> Option<&str> {
    key.strip_suffix(SERVICE).filter(|key| key.starts_with("service."))
}

/// The unit of a service's name: a name without a type is that of a service.
pub(crate) fn unit_of(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{name}{SERVICE}") }
}

fn named(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    service(request, request.key.split_once('.').map_or(request.key, |(_, name)| name))
}

fn service(request: &Request<'_>, name: &str) -> Result<Vec<Setting>, HostError> {
    if !request.root.is_real() {
        return Err(request.absent("only a real host has services", LEAVE_OUT));
    }
    request.readable(Reach::Service { unit: unit_of(name) })
}
