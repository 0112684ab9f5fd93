//! Parameters for the boot loader (Documentation/admin-guide/kernel-parameters.txt).

use std::collections::BTreeMap;

use tilemark_plan::profile::{Profile, ProfileSetting, Today};

use super::body::{Body, with_values};
use super::key::{is_sysctl, service_of};
use crate::setting::known::unit_of;

pub(super) fn body(profile: &Profile) -> Body {
    let mut body = Body::default();
    let (of_boot, others): (Vec<_>, Vec<_>) =
        profile.settings.iter().partition(|setting| boot_parameter(setting).is_some());
    let mut words: Vec<String> =
        of_boot.into_iter().filter_map(boot_parameter).map(ToOwned::to_owned).collect();
    let mut pages: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (setting, value) in with_values(others, &mut body) {
        // The kernel has no way to write a quotation mark within a value (lib/cmdline.c).
        if value.contains('"') {
            body.leave_out(setting, "a value on the kernel's line has no quotation mark");
            continue;
        }
        if !is_quoted(&setting.key) && value.contains(char::is_whitespace) {
            body.leave_out(setting, "its value is one word on the kernel's line");
            continue;
        }
        if let Some(rest) = setting.key.strip_prefix("hugepages.") {
            let (size, count) = match rest.split_once(".node") {
                Some((size, node)) => (size, format!("{node}:{value}")),
                None => (rest, value.to_owned()),
            };
            pages.entry(size).or_default().push(count);
            continue;
        }
        match word(setting, value) {
            Ok(word) => words.push(word),
            Err(why) => body.leave_out(setting, why),
        }
    }
    for (size, counts) in pages {
        let size = if size == "1GiB" { "1G" } else { "2M" };
        words.push(format!("hugepagesz={size} hugepages={}", counts.join(",")));
    }
    body.text = words.join(" ") + "\n";
    body
}

/// The parameter that a paper gave its kernel, where a current one has it.
fn boot_parameter(setting: &ProfileSetting) -> Option<&str> {
    let is_current = setting.key.starts_with("boot.") && setting.today == Some(Today::Same);
    setting.then.as_deref().filter(|then| is_current && !then.contains(char::is_control))
}

/// Whether the value of a key may be several words, which are printed between quotation marks.
fn is_quoted(key: &str) -> bool {
    is_sysctl(key) || key.starts_with("module.") || key.starts_with("kvm.")
}

fn word(setting: &ProfileSetting, value: &str) -> Result<String, &'static str> {
    let key = setting.key.as_str();
    if key.starts_with("net.bridge.") {
        return Err("it belongs to a module that is loaded after the kernel has read its line");
    }
    if is_sysctl(key) {
        return Ok(format!("sysctl.{key}={}", quoted(value)));
    }
    if let Some(service) = service_of(key) {
        return match value {
            "stopped" => Ok(format!("systemd.mask={}", unit_of(service))),
            _ => Err("a service is started by the system, not by the kernel"),
        };
    }
    if let Some(parameter) = key.strip_prefix("module.").or_else(|| key.starts_with("kvm.").then_some(key)) {
        return Ok(format!("{parameter}={}", quoted(value)));
    }
    match (key, value) {
        ("thp", _) => Ok(format!("transparent_hugepage={value}")),
        ("smt", "off") => Ok("nosmt".to_owned()),
        ("smt" | "ksm", _) => Err("the kernel boots so, or has no parameter for it"),
        ("cpu.governor", _) => Ok(format!("cpufreq.default_governor={value}")),
        ("irq.default", _) => Ok(format!("irqaffinity={value}")),
        ("workqueue.cpumask", _) => Ok(format!("workqueue.unbound_cpus={value}")),
        ("cpuset.isolated", _) => Ok(format!("isolcpus=managed_irq,domain,{value}")),
        ("cgroup.favordynmods", "on") => Ok("cgroup_favordynmods=true".to_owned()),
        _ => Err("the kernel has no parameter for it"),
    }
}

fn quoted(value: &str) -> String {
    if value.contains(char::is_whitespace) { format!("\"{value}\"") } else { value.to_owned() }
}
