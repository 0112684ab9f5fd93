//! A profile of tuned. Its plugins: <https://github.com/redhat-performance/tuned>, `tuned-profiles(7)`, `tuned.conf(5)`.

use std::collections::BTreeMap;
use std::fmt::Write;

use tilemark_plan::profile::{Profile, ProfileSetting};

use super::body::{Body, with_values};
use super::key::{is_sysctl, service_of};
use super::sysfs;

/// Options by section, in the order in which sections are printed: the order of the setting that began one.
#[derive(Default)]
struct Sections(Vec<(String, Vec<String>)>);

impl Sections {
    fn add(&mut self, section: &str, option: String) {
        match self.0.iter_mut().find(|(name, _)| name == section) {
            Some((_, options)) => options.push(option),
            None => self.0.push((section.to_owned(), vec![option])),
        }
    }
}

pub(super) fn body(profile: &Profile) -> Body {
    let mut body = Body::default();
    let mut sections = Sections::default();
    let mut devices = BTreeMap::new();
    for (setting, value) in with_values(&profile.settings, &mut body) {
        if value.split_whitespace().skip(1).any(|word| word.starts_with('#')) || value.starts_with('#') {
            body.leave_out(setting, "tuned takes what follows a # for a comment");
            continue;
        }
        match option(setting, value) {
            Word::In { section, option } => sections.add(section, option),
            Word::OfDevice { plugin, device, option } => {
                of_device(&mut sections, &mut devices, (plugin, device), option);
            }
            Word::None(why) => body.leave_out(setting, why),
        }
    }
    let _ = write!(body.text, "[main]\nsummary={}\n", one_line(&profile.about)); // writing to a String cannot fail
    for (section, options) in sections.0 {
        let _ = write!(body.text, "\n[{section}]\n{}\n", options.join("\n"));
    }
    body
}

/// What tuned calls a setting.
enum Word<'s> {
    In { section: &'static str, option: String },
    OfDevice { plugin: &'static str, device: &'s str, option: String },
    None(&'static str),
}

fn option<'s>(setting: &'s ProfileSetting, value: &str) -> Word<'s> {
    let within = |section, option| Word::In { section, option };
    let key = setting.key.as_str();
    if is_sysctl(key) {
        return within("sysctl", format!("{key}={value}"));
    }
    if let Some(service) = service_of(key) {
        let verb = if value == "stopped" { "stop" } else { "start" };
        return within("service", format!("service.{service}={verb}"));
    }
    match key {
        "thp" => return within("vm", format!("transparent_hugepages={value}")),
        "thp.defrag" => return within("vm", format!("transparent_hugepage.defrag={value}")),
        "cpu.governor" => return within("cpu", format!("governor={value}")),
        "cpu.energy_preference" => return within("cpu", format!("energy_performance_preference={value}")),
        "cpu.turbo" => return within("cpu", format!("no_turbo={}", u8::from(value == "off"))),
        // In the kernel's file 0 is no limit, and `n/a` is none at all to wait.
        "cpu.idle_latency_us" => {
            let latency = if value == "0" { "n/a" } else { value };
            return within("cpu", format!("pm_qos_resume_latency_us={latency}"));
        }
        _ => {}
    }
    if let Some((device, parameter)) = key.strip_prefix("block.").and_then(|rest| rest.rsplit_once('.'))
        && let Some(name) = named(parameter, &[("scheduler", "elevator"), ("read_ahead_kb", "readahead")])
    {
        return Word::OfDevice { plugin: "disk", device, option: format!("{name}={value}") };
    }
    if let Some((device, parameter)) = key.strip_prefix("nic.").and_then(|rest| rest.rsplit_once('.')) {
        return match of_nic(parameter, value) {
            Some(option) => Word::OfDevice { plugin: "net", device, option },
            None => Word::None("tuned has no option for it"),
        };
    }
    match sysfs::file_of(key, value) {
        Some((path, value)) => within("sysfs", format!("{path}={value}")),
        None => Word::None("tuned has no option for it"),
    }
}

fn named<'n>(parameter: &str, names: &[(&str, &'n str)]) -> Option<&'n str> {
    names.iter().find(|(ours, _)| *ours == parameter).map(|(_, theirs)| *theirs)
}

fn of_nic(parameter: &str, value: &str) -> Option<String> {
    Some(match parameter {
        "tso" | "gso" | "gro" => format!("features={parameter} {value}"),
        "rx_ring" => format!("ring=rx {value}"),
        "tx_ring" => format!("ring=tx {value}"),
        "rx_usecs" => format!("coalesce=rx-usecs {value}"),
        "tx_usecs" => format!("coalesce=tx-usecs {value}"),
        "tx_queue_len" => format!("txqueuelen={value}"),
        _ => return None,
    })
}

/// A plugin has a section for each device that is named; options of one device that are one option of tuned are joined.
fn of_device<'s>(
    sections: &mut Sections,
    devices: &mut BTreeMap<(&'static str, &'s str), String>,
    (plugin, device): (&'static str, &'s str),
    option: String,
) {
    let number = devices.len();
    let section = devices.entry((plugin, device)).or_insert_with(|| {
        if device == "*" {
            return plugin.to_owned();
        }
        let section = format!("{plugin}_{number}");
        sections.add(&section, format!("type={plugin}"));
        sections.add(&section, format!("devices={device}"));
        section
    });
    let start = option.split('=').next().unwrap_or_default();
    let joined = sections
        .0
        .iter_mut()
        .filter(|(name, _)| name == section)
        .flat_map(|(_, options)| options)
        .find(|known| known.split('=').next() == Some(start));
    match joined {
        Some(known) => *known = format!("{known} {}", option.split_once('=').map_or("", |(_, value)| value)),
        None => sections.add(section, option),
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\n', '\r'], " ")
}
