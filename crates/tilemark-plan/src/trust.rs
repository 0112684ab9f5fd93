//! What of the host a plan uses because a value names it. A scenario may come from anybody, and all of this is used as root: it
//! needs the user's consent, unless the user typed it.
//!
//! This is the one list of such values: a new key that names a program or a file of the host is added to `of_qemu`, to `of_guest`, or to `of_host` where it sets the host.

use crate::{
    guest_image::is_image_file,
    host_settings::HostSettings,
    plan::{GuestPlan, Plan, Point},
    scenario::{Guest, QemuTable, RequestedImage, Scenario},
    settings,
    sides::Sides,
    workload::{CommandFrom, Work},
};
use serde_json::{Value, json};
use std::{collections::BTreeMap, fmt, path::Path};

/// A value that names something of the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostUse {
    /// The dotted key of the value.
    pub key: String,
    /// The value: a text, a list of them, or files by their names.
    pub value: Value,
    /// What is done with it.
    pub kind: HostUseKind,
}

/// What is done with a value that names something of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HostUseKind {
    /// The program is started as root.
    Program,
    /// The file is opened as root.
    File,
    /// It holds options of QEMU's command line beside the one that is asked for; those can name files.
    Options,
    /// QEMU runs as root without its sandbox.
    Walls,
    /// Settings of the host are changed as root to those of this profile.
    Profile,
    /// The setting of the host is changed as root.
    Setting,
}

impl fmt::Display for HostUse {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, value, kind } = self;
        let (between, several) = match value {
            Value::Object(files) => (", ", files.len() > 1),
            _ => (" ", false),
        };
        let value = texts(value).iter().map(|text| format!("{text:?}")).collect::<Vec<_>>().join(between);
        let what = match kind {
            HostUseKind::Program => "starts the program",
            HostUseKind::File if several => "opens the files",
            HostUseKind::File => "opens the file",
            HostUseKind::Options => "gives QEMU the options",
            HostUseKind::Walls => "runs QEMU as root, with its sandbox",
            HostUseKind::Profile => "changes the host to the settings of the profile",
            HostUseKind::Setting => "changes a setting of the host to",
        };
        // As Rust would write it: a file from elsewhere may hold anything, and this goes to a terminal.
        write!(formatter, "{what} {value} (`{key}`)")
    }
}

impl HostUse {
    /// The same, where it is a file that is named as seen from the scenario's folder, by its whole path.
    pub fn seen_from(self, folder: &Path) -> Self {
        let is_from_there = ["load.", "guest."].iter().any(|of| self.key.starts_with(of));
        if self.kind != HostUseKind::File || !is_from_there {
            return self;
        }
        let whole = |value: Value| match value {
            Value::String(path) => json!(folder.join(path).to_string_lossy()),
            other => other,
        };
        let value = match self.value {
            Value::Object(files) => files.into_iter().map(|(name, file)| (name, whole(file))).collect(),
            value => whole(value),
        };
        Self { value, ..self }
    }

    /// The value as a flag `--set KEY=VALUE` takes it: tables and lists as TOML writes them.
    pub fn as_flag(&self) -> String {
        match &self.value {
            Value::String(text) => text.clone(),
            parts => {
                toml::Value::try_from(parts).map_or_else(|_| parts.to_string(), |parts| parts.to_string())
            }
        }
    }
}

/// The texts of a value, one by one: of files the files themselves, which are what is opened, and not the names that they get.
fn texts(value: &Value) -> Vec<String> {
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    match value {
        Value::Array(items) => items.iter().map(text).collect(),
        Value::Object(files) => files.values().map(text).collect(),
        one => vec![text(one)],
    }
}

/// All values of a plan that name something of the host, at any point, side or value of what varies. Each once.
pub fn host_uses(plan: &Plan) -> Vec<HostUse> {
    let mut uses = of_qemu(&plan.scenario.qemu);
    let of_point = |point: &Point| of_qemu(&point.qemu).into_iter().chain(of_host(&point.host));
    for found in plan.points.iter().flat_map(of_point) {
        if !uses.contains(&found) {
            uses.push(found);
        }
    }
    uses.extend(of_image(&plan.scenario.image));
    let of_guests = plan.points.iter().flat_map(|point| &point.guests).filter_map(of_guest);
    let of_guests = plan.scenario.guest.iter().filter_map(of_scenarios_guest).chain(of_guests);
    for found in of_guests {
        if !uses.contains(&found) {
            uses.push(found);
        }
    }
    let of_loads = plan.scenario.load.iter().map(|load| (load.name.as_str(), &load.work));
    let of_points = plan.points.iter().flat_map(|point| &point.loads);
    let of_points = of_points.map(|load| (load.name.as_str(), &load.work));
    for found in of_loads.chain(of_points).flat_map(|(name, work)| of_load(name, work)) {
        if !uses.contains(&found) {
            uses.push(found);
        }
    }
    uses
}

/// Those of a scenario before it is resolved, without single settings of the host.
pub(crate) fn scenario_uses(scenario: &Scenario) -> impl Iterator<Item = HostUse> {
    let of_guests = scenario.guest.iter().filter_map(of_scenarios_guest);
    let of_loads = scenario.load.iter().flat_map(|load| of_load(&load.name, &load.work));
    let profile = scenario.host.profile.iter().map(|name| HostUse {
        key: "host.profile".to_owned(),
        value: json!(name),
        kind: HostUseKind::Profile,
    });
    let of_qemu = of_qemu(&scenario.qemu).into_iter();
    of_qemu.chain(of_image(&scenario.image)).chain(of_guests).chain(of_loads).chain(profile)
}

/// The `image.toml` of an image, which can name addresses that root fetches from; and its files that are not beside the scenario: those
/// that are came with it.
fn of_image(image: &RequestedImage) -> Vec<HostUse> {
    let found = |key: &str, value: Value| HostUse { key: key.to_owned(), value, kind: HostUseKind::File };
    let key = if image.name().is_some() { "image" } else { "image.from" };
    let file = image.from().filter(|from| is_image_file(from)).map(|path| found(key, json!(path)));
    let elsewhere = match image {
        RequestedImage::Made(made) if made.files_elsewhere().next().is_some() => {
            Some(found("image.files", json!(made.files)))
        }
        _ => None,
    };
    file.into_iter().chain(elsewhere).collect()
}

/// The disk that a guest boots from.
fn of_guest(guest: &GuestPlan) -> Option<HostUse> {
    guest.from.as_ref().map(|disk| of_disk(guest.name_in_tile(), &disk.path))
}

fn of_scenarios_guest(guest: &Guest) -> Option<HostUse> {
    guest.from.as_ref().map(|path| of_disk(&guest.name, path))
}

fn of_disk(guest: &str, path: &str) -> HostUse {
    HostUse { key: format!("guest.{guest}.from"), value: json!(path), kind: HostUseKind::File }
}

fn of_load(load: &str, work: &Work) -> impl Iterator<Item = HostUse> {
    of_command(load, work).into_iter().chain(of_web(load, work))
}

/// The program of a command on the host, and the files that a command brings along.
fn of_command(load: &str, work: &Work) -> Vec<HostUse> {
    let Some(command) = work.command() else { return Vec::new() };
    let (run, files) = (json!(command.run), json!(command.files));
    let found = |key, value, kind| HostUse { key: format!("load.{load}.command.{key}"), value, kind };
    let program = (command.from == CommandFrom::Host).then(|| found("run", run, HostUseKind::Program));
    let files = (!command.files.is_empty()).then(|| found("files", files, HostUseKind::File));
    program.into_iter().chain(files).collect()
}

/// Files that a web load takes texts from.
fn of_web(load: &str, work: &Work) -> Vec<HostUse> {
    let Work::Web(web) = work else { return Vec::new() };
    let found = |(key, path): (&str, &String)| HostUse {
        key: format!("load.{load}.web.{key}"),
        value: json!(path),
        kind: HostUseKind::File,
    };
    web.unread_files().map(found).collect()
}

/// Those that no flag of the command line gave: neither a `--set` nor a side.
pub fn not_typed(
    uses: Vec<HostUse>,
    settings: &BTreeMap<String, String>,
    sides: Option<&Sides>,
) -> Vec<HostUse> {
    let of_sides = sides.iter().flat_map(|sides| [&sides.a, &sides.b]);
    let typed: Vec<Value> = std::iter::once(settings).chain(of_sides).map(document_of).collect();
    let is_typed = |found: &HostUse| {
        typed.iter().any(|document| value_at(document, &found.key).as_ref() == Some(&found.value))
    };
    uses.into_iter().filter(|found| !is_typed(found)).collect()
}

/// Settings alone, as a document. One that finds no place is left out: the whole scenario has refused it before.
fn document_of(flags: &BTreeMap<String, String>) -> Value {
    let mut document = json!({});
    for (key, text) in flags {
        let _ = settings::value_of_flag(key, text).and_then(|value| settings::set(&mut document, key, value));
    }
    document
}

/// The value of a key in such a document: numbers and switches as a plan has them, in text.
fn value_at(document: &Value, key: &str) -> Option<Value> {
    Some(match settings::get(document, key)? {
        Value::Bool(yes) => json!(u8::from(yes).to_string()),
        Value::Number(number) => json!(number.to_string()),
        other => other,
    })
}

/// The profile, and what is set beside it by key. Once the profile is read into a plan, what it sets is among the latter.
fn of_host(host: &HostSettings) -> Vec<HostUse> {
    let profile = host.profile.iter().map(|name| ("host.profile".to_owned(), name));
    let own = host.setting.iter().map(|(key, value)| (format!("host.setting.{key}"), value));
    let of = |kind| move |(key, value): (String, &String)| HostUse { key, value: json!(value), kind };
    profile.map(of(HostUseKind::Profile)).chain(own.map(of(HostUseKind::Setting))).collect()
}

fn of_qemu(qemu: &QemuTable) -> Vec<HostUse> {
    let QemuTable { binary, machine, cpu: _, args, firmware, kernel, walls } = qemu;
    let text = |value: &Option<String>| value.as_ref().map(|text| json!(text));
    let args = (!args.is_empty()).then(|| json!(args));
    let off = (!walls.are_on()).then(|| json!("off"));
    let has_options = |machine: &&String| !machine.bytes().all(is_of_machine_type);
    let options = machine.as_ref().filter(has_options).map(|machine| json!(machine));
    [
        ("qemu.binary", text(binary), HostUseKind::Program),
        ("qemu.kernel", text(kernel), HostUseKind::File),
        ("qemu.firmware", text(firmware), HostUseKind::File),
        ("qemu.machine", options, HostUseKind::Options),
        ("qemu.args", args, HostUseKind::Options),
        ("qemu.walls", off, HostUseKind::Walls),
    ]
    .into_iter()
    .filter_map(|(key, value, kind)| Some(HostUse { key: key.to_owned(), value: value?, kind }))
    .collect()
}

/// Whether a byte is one of a machine's type, such as `pc-q35-8.2`, and begins no further option.
fn is_of_machine_type(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"-._".contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The keys in the code above, as the page writes them: a key that a new function names is among them too.
    #[test]
    fn every_key_that_needs_trust_is_in_the_page_of_scenarios() {
        let code = include_str!("trust.rs").split("#[cfg(test)]").next().unwrap();
        let strings = code.lines().filter(|line| !line.trim_start().starts_with("//"));
        let strings = strings.flat_map(|line| line.split('"').skip(1).step_by(2));
        let of = ["qemu.", "guest.", "load.", "host.", "image."];
        let keys: Vec<String> = strings
            .filter(|text| of.iter().any(|start| text.starts_with(start)))
            .map(|key| key.replace("{guest}", "NAME").replace(".{load}", ""))
            .map(|key| key.trim_end_matches(".{key}").trim_end_matches('.').to_owned())
            .collect();
        assert!(keys.len() >= 12, "{keys:?}");
        let page = include_str!("../../../docs/scenarios.md");
        let page = page.split("## A scenario from elsewhere").nth(1).unwrap().split("\n## ").next().unwrap();
        let missing: Vec<&String> = keys.iter().filter(|key| !page.contains(&format!("`{key}"))).collect();
        assert!(missing.is_empty(), "{missing:?} are not in docs/scenarios.md");
    }

    #[test]
    fn a_value_is_written_as_a_flag_takes_it() {
        let files = json!({ "bench.py": "../bench.py", "a b": "in, \"put\"" });
        let run = json!(["sh", "-c", "echo 'x'"]);
        for (key, value) in [("load.own.command.files", files), ("load.own.command.run", run)] {
            let found = HostUse { key: key.to_owned(), value: value.clone(), kind: HostUseKind::File };
            assert_eq!(
                crate::settings::value_of_flag(key, &found.as_flag()).unwrap(),
                value,
                "{}",
                found.as_flag()
            );
        }
        let kernel = HostUse { key: "qemu.kernel".to_owned(), value: json!("{}"), kind: HostUseKind::File };
        assert_eq!(kernel.as_flag(), "{}");
    }

    #[test]
    fn files_are_shown_by_their_whole_paths_and_programs_are_not() {
        let shown = |key: &str, value: Value, kind| {
            let found = HostUse { key: key.to_owned(), value, kind };
            found.seen_from(Path::new("/home/them")).value
        };
        let body = shown("load.own.web.body_file", json!("body.json"), HostUseKind::File);
        assert_eq!(body, "/home/them/body.json");
        assert_eq!(shown("guest.own.from", json!("/srv/disk.raw"), HostUseKind::File), "/srv/disk.raw");
        let files = json!({ "in": "../in.txt", "out": "/srv/out" });
        let whole = json!({ "in": "/home/them/../in.txt", "out": "/srv/out" });
        assert_eq!(shown("load.own.command.files", files, HostUseKind::File), whole);
        assert_eq!(shown("qemu.binary", json!("qemu"), HostUseKind::Program), "qemu");
    }

    #[test]
    fn files_and_programs_are_shown_one_by_one_and_not_as_json() {
        let shown = |key: &str, value: Value, kind| HostUse { key: key.to_owned(), value, kind }.to_string();
        let files = "load.own.command.files";
        assert_eq!(
            shown(files, json!({ "bench.sh": "../bench.sh", "in.txt": "data/in.txt" }), HostUseKind::File),
            "opens the files \"../bench.sh\", \"data/in.txt\" (`load.own.command.files`)"
        );
        assert_eq!(
            shown(files, json!({ "bench.sh": "bench.sh" }), HostUseKind::File),
            "opens the file \"bench.sh\" (`load.own.command.files`)"
        );
        assert_eq!(
            shown("load.own.command.run", json!(["sh", "-c", "\u{1b}[2J"]), HostUseKind::Program),
            "starts the program \"sh\" \"-c\" \"\\u{1b}[2J\" (`load.own.command.run`)"
        );
        let kernel = HostUse { key: "qemu.kernel".to_owned(), value: json!("{}"), kind: HostUseKind::File };
        assert_eq!(kernel.to_string(), "opens the file \"{}\" (`qemu.kernel`)");
    }
}
