//! Services that run or not.

use std::io;

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::setting::{Reach, Setting, reach::service};

const SERVICE: &str = ".service";

/// `service.cups` for `service.cups.service`.
pub(super) fn one_form(key: &str) -> Option<&str> {
    let own = key.trim_end_matches(SERVICE);
    (own != key && own.starts_with("service.")).then_some(own)
}

/// The unit of a service's name: a name without a type is that of a service.
pub(crate) fn unit_of(name: &str) -> String {
    if name.contains('.') { name.to_owned() } else { format!("{name}{SERVICE}") }
}

/// The service that a key names, `service.cups`, or is called by, `irqbalance`.
pub(super) fn service(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let name = request.key.split_once('.').map_or(request.key, |(_, name)| name);
    if !request.root.is_real() {
        return Err(request.absent("only a real host has services", LEAVE_OUT));
    }
    let unit = unit_of(name);
    // A unit may have further names, and a guard would not be known by one of them.
    if let Ok(own) = service::own_name(&unit)
        && own != unit
    {
        return Err(
            request.absent(format!("{unit} is another name of {own}"), "name the service by its own name")
        );
    }
    let mut settings = request.readable(Reach::Service { unit: unit.clone() })?;
    if settings[0].now()? != request.value {
        let along =
            along(&unit, request.value).map_err(|error| request.absent(error.to_string(), LEAVE_OUT))?;
        let name = |unit: &str| format!("service.{}", unit.strip_suffix(SERVICE).unwrap_or(unit));
        let held =
            along.into_iter().map(|(unit, value)| Setting::by(name(&unit), Reach::Dependent { unit }, value));
        settings.splice(..0, held);
    }
    Ok(settings)
}

/// What systemd stops or starts along with a unit, and the value that each has then. They are held in this order, before the unit, and restored
/// in the opposite one, after it.
fn along(unit: &str, value: &str) -> io::Result<Vec<(String, &'static str)>> {
    let each = |units: Vec<String>, value| units.into_iter().map(move |unit| (unit, value));
    if value == service::STOPPED {
        return Ok(each(service::stopped_with(unit)?, service::STOPPED).collect());
    }
    let started = service::started_with(unit)?;
    let excluded = service::excluded_by(&[&started[..], &[unit.to_owned()]].concat())?;
    // What needs another one is stopped before it.
    let started = started.into_iter().rev().collect();
    Ok(each(excluded, service::STOPPED).chain(each(started, service::RUNNING)).collect())
}
