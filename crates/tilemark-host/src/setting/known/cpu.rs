//! Power management of the processors, and their hardware threads.

use std::collections::BTreeMap;

use super::request::{LEAVE_OUT, Request};
use crate::error::HostError;
use crate::read::list::parse_list;
use crate::setting::{Form, Setting, wake_limit};

const PROCESSORS: &str = "/sys/devices/system/cpu";
const FREQUENCY: &str = "/sys/devices/system/cpu/cpufreq";
const PREFERENCE: &str = "energy_performance_preference";

pub(super) fn energy_preference(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    policies(request, PREFERENCE, "energy_performance_available_preferences")
}

/// The governor of each group, with what is lost when it is left: its knobs, which the kernel frees with the last group that it has, the
/// speed that `userspace` was given, and the energy preference, which on AMD stays `performance` after the governor `performance`.
pub(super) fn governor(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let (mut of_all, mut settings) = (BTreeMap::new(), Vec::new());
    for governor in policies(request, "scaling_governor", "scaling_available_governors")? {
        let policy = governor.name.rsplit(' ').next().unwrap_or_default();
        let folder = format!("{FREQUENCY}/{policy}");
        let now = governor.now()?;
        let name = format!("cpu.energy_preference of {policy}");
        settings.extend(request.along(&name, &format!("{folder}/{PREFERENCE}")));
        settings.extend(knobs(request, &format!("{folder}/{now}"), &format!("{now} of {policy}")));
        if now == "userspace" {
            settings
                .extend(request.along(&format!("speed of {policy}"), &format!("{folder}/scaling_setspeed")));
        }
        of_all.entry(now).or_insert_with_key(|now| knobs(request, &format!("{FREQUENCY}/{now}"), now));
        settings.push(governor);
    }
    Ok(of_all.into_values().flatten().chain(settings).collect())
}

/// The knobs of a governor, in its folder.
fn knobs(request: &Request<'_>, folder: &str, of: &str) -> Vec<Setting> {
    let names = request.root.names(folder);
    let one = |name: &String| request.along(&format!("{name} of {of}"), &format!("{folder}/{name}"));
    names.iter().filter_map(one).collect()
}

/// One file of each group of processors that share a frequency.
fn policies(request: &Request<'_>, file: &str, listed: &str) -> Result<Vec<Setting>, HostError> {
    let policies = groups(request);
    if policies.is_empty() {
        let remedy = "switch power management by the operating system on in the firmware; in a virtual machine, leave it out";
        return Err(request.absent("no driver sets the frequency of its processors", remedy));
    }
    let one = |policy: &String| {
        let accepted = request.root.text(&format!("{FREQUENCY}/{policy}/{listed}"));
        if let Some(words) = accepted
            && !words.split_whitespace().any(|word| word == request.value)
        {
            return Err(request.bad(words));
        }
        let name = format!("{} of {policy}", request.key);
        request.one(&name, &format!("{FREQUENCY}/{policy}/{file}"), Form::Whole, request.value)
    };
    policies.iter().map(one).collect()
}

/// Groups of processors that share a frequency, of which one is online: the kernel keeps the folder of the others, and answers EBUSY there.
fn groups(request: &Request<'_>) -> Vec<String> {
    let mut groups = request.root.names(FREQUENCY);
    let is_online =
        |name: &String| request.root.text(&format!("{FREQUENCY}/{name}/scaling_governor")).is_some();
    groups.retain(|name| name.starts_with("policy") && is_online(name));
    groups
}

pub(super) fn idle_latency(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    // In this file 0 says that any time is borne.
    let limit = if request.value == "0" { wake_limit::AWAKE } else { request.value };
    let folder = request.root.path(PROCESSORS);
    let processors = request.root.processors();
    let settings = processors.iter().map(|processor| Setting {
        name: format!("{} of CPU {processor}", request.key),
        ..wake_limit::limited(&folder, *processor, limit)
    });
    let settings: Vec<Setting> = settings.filter(|setting| setting.path.exists()).collect();
    if settings.is_empty() {
        return Err(request.absent("its kernel has no limits for the wake-up of processors", LEAVE_OUT));
    }
    Ok(settings)
}

pub(super) fn turbo(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let [no_turbo, boost] = [format!("{PROCESSORS}/intel_pstate/no_turbo"), format!("{FREQUENCY}/boost")];
    if request.root.path(&no_turbo).exists() {
        return request.file_with(&no_turbo, Form::Whole, if request.is_on() { "0" } else { "1" });
    }
    // The kernel writes it into each group too.
    let of_group = |group: &String| {
        request.along(&format!("{} of {group}", request.key), &format!("{FREQUENCY}/{group}/boost"))
    };
    let mut settings: Vec<Setting> = groups(request).iter().filter_map(of_group).collect();
    settings.extend(request.file_with(&boost, Form::Whole, if request.is_on() { "1" } else { "0" })?);
    Ok(settings)
}

pub(super) fn threads(request: &Request<'_>) -> Result<Vec<Setting>, HostError> {
    let path = format!("{PROCESSORS}/smt/control");
    let now = request.root.text(&path).unwrap_or_default();
    if matches!(now.as_str(), "notsupported" | "notimplemented" | "forceoff") {
        return Err(request.absent(format!("{path} reads {now}"), LEAVE_OUT));
    }
    let mut settings = if request.is_on() { Vec::new() } else { interrupts_of_second_threads(request) };
    settings.extend(offline_processors(request));
    settings.extend(request.file(&path, Form::Whole)?);
    Ok(settings)
}

/// Processors that somebody has switched off. With `on`, which restores an `off` too, the kernel starts every one that the host has.
fn offline_processors(request: &Request<'_>) -> Vec<Setting> {
    let online = request.root.processors();
    let offline = request.root.present().into_iter().filter(|processor| !online.contains(processor));
    let one = |processor: u32| {
        request.along(&format!("CPU {processor} online"), &format!("{PROCESSORS}/cpu{processor}/online"))
    };
    offline.filter_map(one).collect()
}

/// Interrupts that go to threads alone that are switched off. The kernel sends them elsewhere, and leaves them there.
fn interrupts_of_second_threads(request: &Request<'_>) -> Vec<Setting> {
    let list = |path: &str| request.root.text(path).and_then(|text| parse_list(&text)).unwrap_or_default();
    let is_second = |processor: &u32| {
        let siblings = list(&format!("{PROCESSORS}/cpu{processor}/topology/thread_siblings_list"));
        siblings.first().is_some_and(|first| first != processor)
    };
    let mut seconds = request.root.processors();
    seconds.retain(is_second);
    let one = |vector: &String| {
        let path = format!("/proc/irq/{vector}/smp_affinity_list");
        let processors = list(&path);
        let moves = !processors.is_empty() && processors.iter().all(|one| seconds.contains(one));
        moves.then(|| request.along(&format!("interrupt {vector}"), &path)).flatten()
    };
    request.root.names("/proc/irq").iter().filter_map(one).collect()
}
