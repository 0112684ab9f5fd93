//! Profiles of tuned, read.

use tilemark_plan::profile::{PROFILE_SCHEMA, Profile, ProfileSetting, SETTINGS_MAX};
use tilemark_units::printable_line;

use super::key::is_sysctl;
use super::sysfs;
use crate::setting::known;

/// A profile of tuned in our terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// What could be taken. Every setting is optional, since tuned passes over what a host lacks.
    pub profile: Profile,
    /// What could not.
    pub not_taken: Vec<NotTaken>,
}

/// A line that could not be taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTaken {
    /// Its number in the file.
    pub line: usize,
    /// Its section and text.
    pub text: String,
    /// Why.
    pub why: String,
}

impl Imported {
    /// As TOML, which has what could not be taken as comments at its beginning.
    pub fn to_toml(&self) -> String {
        let comments = self
            .not_taken
            .iter()
            .map(|NotTaken { line, text, why }| format!("# not taken, line {line}: {text} ({why})\n"));
        let comments: String = comments.collect();
        let gap = if comments.is_empty() { "" } else { "\n" };
        format!("{comments}{gap}{}", self.profile.to_toml())
    }
}

/// An option of a plugin in a profile of tuned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TunedOption<'t> {
    /// The plugin: what the section's `type` names, or the section. Also `main` and `variables`, and nothing for what is before all sections.
    pub plugin: &'t str,
    /// Its name.
    pub name: &'t str,
    /// Its value, as it is written.
    pub value: &'t str,
}

/// All options in the text of a `tuned.conf`, or of a file of variables, but for sections that are not enabled. Of several with one name in
/// a section the last one is here.
pub fn tuned_options(text: &str) -> Vec<TunedOption<'_>> {
    let mut options = Vec::new();
    for section in sections(text).iter().filter(|section| section.is_enabled()) {
        let counts =
            |line: &&Line<'_>| section.last(line.option).is_some_and(|last| last.number == line.number);
        let lines = section.lines.iter().filter(counts);
        options.extend(lines.map(|line| TunedOption {
            plugin: section.plugin(),
            name: line.option,
            value: line.value,
        }));
    }
    options
}

/// Reads the text of a `tuned.conf`. `name` becomes the profile's.
pub fn import_tuned(text: &str, name: &str) -> Imported {
    let name = valid_name(name);
    let mut reader = Reader {
        about: String::new(),
        source: format!("tuned profile {name}"),
        settings: Vec::new(),
        not_taken: Vec::new(),
    };
    for section in sections(text) {
        reader.section(&section);
    }
    reader.not_taken.sort_by_key(|not_taken| not_taken.line);
    let profile = Profile {
        schema: PROFILE_SCHEMA,
        about: if reader.about.is_empty() { format!("The tuned profile {name}.") } else { reader.about },
        name,
        source: reader.source,
        settings: reader.settings.into_iter().map(|(_, setting)| setting).collect(),
    };
    Imported { profile, not_taken: reader.not_taken }
}

/// A profile's name has letters, digits and `-`, and at most 40 of them.
fn valid_name(name: &str) -> String {
    let name: String =
        name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).take(40).collect();
    if name.is_empty() || name == "none" { "imported".to_owned() } else { name }
}

#[derive(Clone, Copy)]
struct Line<'t> {
    number: usize,
    option: &'t str,
    value: &'t str,
}

struct Section<'t> {
    name: &'t str,
    lines: Vec<Line<'t>>,
}

impl<'t> Section<'t> {
    fn value(&self, option: &str) -> Option<&'t str> {
        self.last(option).map(|line| line.value)
    }

    /// The line that counts: of several, tuned takes the last one.
    fn last(&self, option: &str) -> Option<&Line<'t>> {
        self.lines.iter().rfind(|line| line.option == option)
    }

    /// The plugin that it is for: named, or the section's own name.
    fn plugin(&self) -> &'t str {
        self.value("type").unwrap_or(self.name)
    }

    fn is_enabled(&self) -> bool {
        self.value("enabled").is_none_or(|value| matches!(value, "1" | "true" | "True"))
    }
}

/// Sections with one name are one, and a comment may be behind a line (configparser of Python with `strict=False` and
/// `inline_comment_prefixes=('#')`, as tuned reads its profiles).
fn sections(text: &str) -> Vec<Section<'_>> {
    let mut sections: Vec<Section<'_>> = Vec::new();
    let mut current = 0;
    for (number, line) in (1..).zip(text.lines()) {
        let line = without_comment(line).trim();
        if line.is_empty() || line.starts_with(';') {
            continue;
        }
        if let Some(name) = line.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
            current = section_of(&mut sections, name.trim());
            continue;
        }
        // A key of sysfs may hold a colon, so only the first equals sign parts.
        let (option, value) = line.split_once('=').unwrap_or((line, ""));
        let line = Line { number, option: option.trim(), value: value.trim() };
        let place = if sections.is_empty() { section_of(&mut sections, "") } else { current };
        sections[place].lines.push(line);
    }
    sections
}

/// Where the section of this name is, which begins here if there was none.
fn section_of<'t>(sections: &mut Vec<Section<'t>>, name: &'t str) -> usize {
    let begun = sections.iter().position(|section| section.name == name);
    begun.unwrap_or_else(|| {
        sections.push(Section { name, lines: Vec::new() });
        sections.len() - 1
    })
}

/// A line up to a `#` with a blank before it.
fn without_comment(line: &str) -> &str {
    let is_comment = |at: &usize| line[..*at].chars().next_back().is_none_or(char::is_whitespace);
    let start = line.match_indices('#').map(|(at, _)| at).find(is_comment);
    &line[..start.unwrap_or(line.len())]
}

struct Reader {
    about: String,
    source: String,
    /// Each with the line that it is from, as one that is not taken.
    settings: Vec<(NotTaken, ProfileSetting)>,
    not_taken: Vec<NotTaken>,
}

/// A key and a value of ours, with what was read into them.
struct Taken {
    key: String,
    value: String,
    note: Option<String>,
}

impl Taken {
    fn new(key: impl Into<String>, value: impl Into<String>) -> Self {
        Self { key: key.into(), value: value.into(), note: None }
    }
}

impl Reader {
    fn section(&mut self, section: &Section<'_>) {
        for line in &section.lines {
            if matches!(line.option, "type" | "devices" | "enabled") {
                continue;
            }
            if let Some(why) = unusable(section, line) {
                self.refuse(section, line, why);
                continue;
            }
            if section.name == "main" && line.option == "summary" {
                line.value.clone_into(&mut self.about);
                continue;
            }
            match taken(section, line) {
                Ok(all) => all.into_iter().for_each(|taken| self.take(section, line, taken)),
                Err(why) => self.refuse(section, line, why),
            }
        }
    }

    fn take(&mut self, section: &Section<'_>, line: &Line<'_>, taken: Taken) {
        if let Err(error) = known::find(&taken.key) {
            return self.refuse(section, line, error.in_a_line());
        }
        if let Some(place) = self.settings.iter().position(|(_, known)| known.key == taken.key) {
            let (earlier, _) = self.settings.remove(place);
            let why = format!("line {} sets {} again, and the last one counts", line.number, taken.key);
            self.not_taken.push(NotTaken { why, ..earlier });
        }
        if self.settings.len() == SETTINGS_MAX {
            return self.refuse(section, line, format!("a profile has {SETTINGS_MAX} settings at most"));
        }
        let setting = ProfileSetting {
            key: taken.key,
            value: Some(taken.value),
            source: format!("{}, [{}]", self.source, section.name),
            then: None,
            today: None,
            effect: None,
            note: taken.note,
            optional: true,
        };
        self.settings.push((not_taken(section, line, ""), setting));
    }

    fn refuse(&mut self, section: &Section<'_>, line: &Line<'_>, why: String) {
        self.not_taken.push(not_taken(section, line, &why));
    }
}

fn not_taken(section: &Section<'_>, line: &Line<'_>, why: &str) -> NotTaken {
    let text = format!("[{}] {}={}", section.name, line.option, line.value);
    let (text, why) = (printable_line(&text).into_owned(), printable_line(why).into_owned());
    NotTaken { line: line.number, text, why }
}

/// Why a line is not even looked at.
fn unusable(section: &Section<'_>, line: &Line<'_>) -> Option<String> {
    let is_odd = |text: &&str| text.contains(|c: char| c.is_control() && c != '\t');
    if [section.name, line.option, line.value].iter().any(is_odd) {
        return Some("it holds a character that is not printed".to_owned());
    }
    if !section.is_enabled() {
        return Some("its section is not enabled".to_owned());
    }
    // What is set only on some hosts, or on some of the devices, cannot be asked for by a key.
    if let Some(line) = section.lines.iter().find(|line| line.option.ends_with("_regex")) {
        let why = format!("its section is only for hosts or devices with {}={}", line.option, line.value);
        return Some(why);
    }
    let devices = section.value("devices").unwrap_or_default();
    if devices.contains('!') {
        return Some(format!("its section leaves devices out: devices={devices}"));
    }
    if devices.contains("${") {
        return Some(format!("its devices are a variable, which only tuned can fill in: devices={devices}"));
    }
    let last = section.last(line.option).filter(|last| last.number != line.number)?;
    Some(format!("line {} sets {} again, and the last one counts", last.number, line.option))
}

/// What a line is in our terms; an error is the reason why it is nothing.
fn taken(section: &Section<'_>, line: &Line<'_>) -> Result<Vec<Taken>, String> {
    let option = line.option;
    if line.value.contains("${") || option.contains("${") {
        return Err("it has a variable, which only tuned can fill in".to_owned());
    }
    let (value, note) = plain(option, line.value);
    if value.is_empty() {
        return Err("it has no value".to_owned());
    }
    let plugin = section.plugin();
    let one = match plugin {
        "sysctl" if is_sysctl(option) => Some(Taken::new(option, value)),
        "sysfs" => sysfs::key_of(option, value).map(|(key, value)| Taken::new(key, value)),
        "vm" => of_vm(option, value)?,
        "cpu" => of_cpu(option, value)?,
        "service" => of_service(option, value),
        "disk" => return of_disk(section, option, value).ok_or_else(no_setting),
        "net" => return of_net(section, option, value),
        "main" if option == "include" => {
            return Err("import the profiles that it includes too, and join their settings".to_owned());
        }
        "script" => return Err("it is a program, not a setting".to_owned()),
        "bootloader" => {
            return Err("it is read when the kernel boots, and no setting of a running host".to_owned());
        }
        "variables" => return Err("it is a variable of tuned".to_owned()),
        _ => None,
    };
    one.map(|taken| vec![Taken { note, ..taken }]).ok_or_else(no_setting)
}

fn no_setting() -> String {
    "there is no such setting here".to_owned()
}

/// Options of which tuned takes the first value of `a|b` that there is. In others, such as `kernel.core_pattern`, it is a part of the value.
const OF_SEVERAL: [&str; 3] = ["governor", "energy_performance_preference", "elevator"];

/// A value without quotes and without tuned's conditions (`>2048`: only where it is less; `a|b`: the first that there is).
fn plain<'v>(option: &str, value: &'v str) -> (&'v str, Option<String>) {
    let unquoted = value.trim_matches('"').trim();
    if let Some(bound) = unquoted.strip_prefix(['>', '<']) {
        return (
            bound.trim(),
            Some(format!("tuned sets it only where it crosses {bound}: here it is set always")),
        );
    }
    match unquoted.split_once('|').filter(|_| OF_SEVERAL.contains(&option)) {
        Some((first, _)) => (first, Some(format!("tuned takes the first of {unquoted} that there is"))),
        None => (unquoted, None),
    }
}

fn of_vm(option: &str, value: &str) -> Result<Option<Taken>, String> {
    Ok(Some(match option {
        "transparent_hugepages" | "transparent_hugepage" => Taken::new("thp", value),
        "transparent_hugepage.defrag" => Taken::new("thp.defrag", value),
        "dirty_ratio" | "dirty_bytes" | "dirty_background_ratio" | "dirty_background_bytes" => {
            of_dirty(option, value)?
        }
        _ => return Ok(None),
    }))
}

/// `dirty_bytes = 40%` is a ratio.
fn of_dirty(option: &str, value: &str) -> Result<Taken, String> {
    let (option, number) = match (option.strip_suffix("bytes"), value.strip_suffix('%')) {
        (Some(start), Some(percentage)) => (format!("{start}ratio"), percentage.trim()),
        _ => (option.to_owned(), value),
    };
    if number.parse::<u64>().is_err() {
        return Err("it is neither a whole number nor, of bytes, a percentage".to_owned());
    }
    Ok(Taken::new(format!("vm.{option}"), number))
}

fn of_cpu(option: &str, value: &str) -> Result<Option<Taken>, String> {
    Ok(Some(match option {
        "governor" => Taken::new("cpu.governor", value),
        "energy_performance_preference" => Taken::new("cpu.energy_preference", value),
        "no_turbo" => Taken::new("cpu.turbo", if value == "1" { "off" } else { "on" }),
        "pm_qos_resume_latency_us" if value == "n/a" => Taken::new("cpu.idle_latency_us", "0"),
        // In the kernel's file, and nowhere else.
        "pm_qos_resume_latency_us" if value.parse() == Ok(0_u32) => {
            return Err("0 means no limit there, which is the kernel's default".to_owned());
        }
        "pm_qos_resume_latency_us" | "force_latency" if value.parse::<u32>().is_ok() => {
            Taken::new("cpu.idle_latency_us", value)
        }
        "force_latency" => return Err("it names idle states, and only microseconds can be taken".to_owned()),
        _ => return Ok(None),
    }))
}

/// `service.cups=stop,disable`: whether it starts at boot is not ours.
fn of_service(option: &str, value: &str) -> Option<Taken> {
    let state = match value.split(',').next()?.trim() {
        "stop" => "stopped",
        "start" => "running",
        _ => return None,
    };
    let name = option.strip_prefix("service.")?;
    Some(Taken::new(if name == "irqbalance" { name.to_owned() } else { format!("service.{name}") }, state))
}

/// The devices of a section; all, where it names none.
fn devices<'t>(section: &Section<'t>) -> Vec<&'t str> {
    let named = section.value("devices").unwrap_or("*");
    named.split(',').map(str::trim).filter(|device| !device.is_empty()).collect()
}

fn of_disk(section: &Section<'_>, option: &str, value: &str) -> Option<Vec<Taken>> {
    let (parameter, value) = match option {
        "elevator" => ("scheduler", value.to_owned()),
        "readahead" => ("read_ahead_kb", kib(value)?.to_string()),
        _ => return None,
    };
    let devices = devices(section).into_iter();
    Some(devices.map(|device| Taken::new(format!("block.{device}.{parameter}"), value.as_str())).collect())
}

/// A read-ahead of tuned is in KiB, or in sectors of half a KiB.
fn kib(value: &str) -> Option<u64> {
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    let is_sectors = words.next().is_some_and(|unit| unit.starts_with('s'));
    Some(if is_sectors { number / 2 } else { number })
}

fn of_net(section: &Section<'_>, option: &str, value: &str) -> Result<Vec<Taken>, String> {
    let parameters = parameters_of_net(option, value).ok_or_else(no_setting)?;
    let devices = devices(section);
    if devices.iter().any(|device| device.contains('*')) {
        let devices = devices.join(", ");
        return Err(format!(
            "keys of network devices are of one device each, and its section is for devices={devices}"
        ));
    }
    if devices.is_empty() {
        return Err(no_setting());
    }
    let each = devices.iter().flat_map(|device| {
        parameters
            .iter()
            .map(move |(parameter, value)| Taken::new(format!("nic.{device}.{parameter}"), *value))
    });
    Ok(each.collect())
}

/// Our parameters of a network device, with their values.
fn parameters_of_net<'v>(option: &str, value: &'v str) -> Option<Vec<(&'static str, &'v str)>> {
    let words: Vec<&str> = value.split_whitespace().collect();
    match option {
        "txqueuelen" => Some(vec![("tx_queue_len", value)]),
        "features" | "ring" | "coalesce" => {
            words.chunks(2).map(|pair| Some((of_nic(option, pair.first()?)?, *pair.get(1)?))).collect()
        }
        _ => None,
    }
}

fn of_nic(option: &str, word: &str) -> Option<&'static str> {
    Some(match (option, word) {
        ("features", "tso") => "tso",
        ("features", "gso") => "gso",
        ("features", "gro") => "gro",
        ("ring", "rx") => "rx_ring",
        ("ring", "tx") => "tx_ring",
        ("coalesce", "rx-usecs") => "rx_usecs",
        ("coalesce", "tx-usecs") => "tx_usecs",
        _ => return None,
    })
}
