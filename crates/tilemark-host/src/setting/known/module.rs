//! Parameters of modules. One that can only be given when the module is loaded is refused, with how to do that.

use super::request::Request;
use crate::error::HostError;
use crate::setting::{Form, Setting};

/// `kvm.nx_huge_pages` for `module.kvm.nx_huge_pages`, where the catalogue has a line for it. The kernel takes a hyphen for an underscore.
pub(super) fn one_form(key: &str) -> Option<String> {
    let (module, parameter) = key.strip_prefix("module.")?.split_once('.')?;
    // modprobe takes both, and the folder has the one.
    let module = module.replace('-', "_");
    let own = format!("{module}.{}", parameter.replace('-', "_"));
    let is_own = module == "kvm" && super::all().any(|known| known.key == own);
    Some(if is_own { own } else { format!("module.{module}.{parameter}") })
}

/// The parameter that a key names: `module.kvm.halt_poll_ns`, or `kvm.halt_poll_ns` where the catalogue has that.
pub(super) fn named(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let key = request.key.strip_prefix("module.").unwrap_or(request.key);
    let (module, parameter) = key.split_once('.').unwrap_or_default();
    if !request.root.path(&format!("/sys/module/{module}")).exists() {
        let why = format!("the module {module} is not loaded");
        return Err(request.absent(why, "load it with modprobe, or leave the setting out"));
    }
    let path = format!("/sys/module/{module}/parameters/{parameter}");
    let now = request.root.text(&path).unwrap_or_default();
    request.file_with(&path, Form::Whole, &as_it_reads(request.value, &now))
}

/// `never` is kept by the kernel until the module is loaded again, so nothing could restore what was there.
pub(super) fn split_pages(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    match request.value {
        "on" | "off" => named(request),
        _ => Err(request.bad("on or off; `never` is one way: the kernel keeps it until kvm is loaded again")),
    }
}

/// Whether only modules with a signature are loaded.
pub(super) fn signatures(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    match request.value {
        "0" | "off" | "n" | "N" => named(request),
        _ => Err(request.bad("off; on is one way: the kernel keeps it until the next boot")),
    }
}

/// A switch is read as Y or N, and taken in many ways.
fn as_it_reads(value: &str, now: &str) -> String {
    let is_switch = matches!(now, "Y" | "N");
    match value {
        "1" | "on" | "y" | "Y" if is_switch => "Y".to_owned(),
        "0" | "off" | "n" | "N" if is_switch => "N".to_owned(),
        other => other.to_owned(),
    }
}
