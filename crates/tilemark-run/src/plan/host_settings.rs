//! What a plan sets on this host: profiles are read, keys looked up, and the values of now read. Nothing is changed.

use crate::{
    failure::{Failure, FailureCode},
    host::{
        profile,
        rivals::{STOPPED, rivals_of},
    },
};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
    thread,
};
use tilemark_host::{
    HostError,
    setting::{
        Setting,
        known::{self, Danger, Place, Root},
    },
};
use tilemark_plan::{
    host_settings::{HostSettings, ProfileSettings},
    plan::{Plan, Point, SideName},
    profile::ProfileSetting,
    screening::{Design, LeftOut, ScreenedSetting, Screening},
};
use tilemark_sys::namespace::own_network;

/// A setting that a plan sets, on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedSetting {
    /// Its key.
    pub key: String,
    /// The value that it is to have, as it was asked for.
    pub value: String,
    /// Which points set it, each in a word or two: `side B`, `half of the rows`; none where all do.
    pub on: Vec<String>,
    /// Where it is in force: `host`, `run-network` or `process`.
    pub place: &'static str,
    /// What can go wrong: `none`, `stability`, `security` or `data-loss`.
    pub danger: &'static str,
    /// Each file, or what is no file, with its value of now and the one it is to have.
    pub parts: Vec<SettingPart>,
}

/// One file of a setting, or what is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SettingPart {
    /// What it is, with its path.
    pub what: String,
    /// Its value now; `None` where it cannot be read yet, as in the network of a run that does not exist.
    pub now: Option<String>,
    /// The value that it is to have.
    pub wanted: String,
    /// It is a vector of interrupts that the kernel spreads itself, and is not set.
    pub is_spread: bool,
    /// The same as it is set.
    setting: Setting,
}

/// What a profile sets, for a plan. What makes the host easier to attack or may lose data is left out: it is set where it is named by its key.
pub(crate) fn profile_settings(name: &str) -> Result<ProfileSettings, Failure> {
    let mut settings = ProfileSettings::default();
    for ProfileSetting { key, value, optional, .. } in profile::read(name)?.settings {
        let Some(value) = value else { continue };
        let needs_consent = known::find(&key).is_ok_and(|known| known.danger.needs_consent());
        if needs_consent {
            continue;
        }
        if optional {
            settings.optional.insert(key.clone());
        }
        settings.setting.insert(key, value);
    }
    Ok(settings)
}

/// Settings of the plan's profiles that are not set because they are dangerous and were not named, each with what to do.
///
/// # Errors
/// When a profile cannot be read.
pub(crate) fn left_out(plan: &Plan) -> Result<Vec<String>, Failure> {
    let profiles: BTreeSet<&String> =
        plan.points.iter().filter_map(|point| point.host.profile.as_ref()).collect();
    let mut left_out = Vec::new();
    for name in profiles {
        for ProfileSetting { key, value, .. } in profile::read(name)?.settings {
            let Some(value) = value else { continue };
            let Ok(known) = known::find(&key) else { continue };
            let is_named = plan.points.iter().any(|point| point.host.setting.contains_key(&key));
            if known.danger.needs_consent() && !is_named {
                left_out.push(format!(
                    "{key} of the profile {name} is not set: {}; `--set host.setting.{key}={value}` sets it",
                    danger(known.danger)
                ));
            }
        }
    }
    Ok(left_out)
}

fn danger(danger: Danger) -> &'static str {
    if danger == Danger::Security { "it makes the host easier to attack" } else { "it may lose data" }
}

/// Everything that a plan sets, as this host has it.
///
/// # Errors
/// A key that is not known, a value that cannot be, and what this host lacks unless its profile says that it may.
pub(crate) fn look_up(plan: &Plan) -> Result<Vec<PlannedSetting>, Failure> {
    let mut asked: BTreeMap<(&str, &str), (bool, Vec<&Point>)> = BTreeMap::new();
    for point in &plan.points {
        for (key, value) in &point.host.setting {
            let entry = asked.entry((key, value)).or_default();
            entry.0 |= point.host.optional.contains(key);
            entry.1.push(point);
        }
    }
    let mut planned = Vec::new();
    for ((key, value), (may_lack, points)) in asked {
        let parts = match parts_of(key, value) {
            Err(error) if may_lack && error.is_skipped_where_optional() => Vec::new(),
            found => found.map_err(|error| match plan.scenario.host.setting.contains_key(key) {
                true => unknown(&error),
                false => unknown_in_profile(&error, &points),
            })?,
        };
        // A key that kernels no longer have has no entry.
        let known = known::find(key).ok();
        let on = match &plan.screening {
            _ if points.len() == plan.points.len() => Vec::new(),
            // As the design has it.
            Some(_) => vec!["half of the repeats".to_owned()],
            None => names(&points),
        };
        planned.push(PlannedSetting {
            key: key.to_owned(),
            value: value.to_owned(),
            on,
            place: known.map_or(Place::Host, |known| known.place).name(),
            danger: known.map_or(Danger::None, |known| known.danger).name(),
            parts,
        });
    }
    plan.points.iter().try_for_each(|point| refuse_contradictions(&point.host, &planned))?;
    Ok(planned)
}

/// Refuses two keys that want two values of one file, such as a limit in bytes and as a ratio: whichever is set last would be in force.
fn refuse_contradictions(host: &HostSettings, planned: &[PlannedSetting]) -> Result<(), Failure> {
    let is_set = |found: &&PlannedSetting| host.setting.get(&found.key) == Some(&found.value);
    let mut seen: Vec<(&PlannedSetting, &SettingPart)> = Vec::new();
    for found in planned.iter().filter(is_set) {
        for part in &found.parts {
            let other = seen.iter().find(|(_, other)| other.setting.is_same_as(&part.setting));
            if let Some((first, _)) = other.filter(|(_, other)| other.wanted != part.wanted) {
                return Err(contradiction(first, found, part));
            }
            seen.push((found, part));
        }
    }
    refuse_one_way(&seen)
}

/// Refuses what could not be restored beside the others. What is in the network of a run ends with it.
fn refuse_one_way(set: &[(&PlannedSetting, &SettingPart)]) -> Result<(), Failure> {
    let all: Vec<Setting> = set.iter().map(|(_, part)| part.setting.clone()).collect();
    for (found, part) in set.iter().filter(|(found, _)| found.place == Place::Host.name()) {
        if let Some(why) = known::one_way(&part.setting, &all) {
            let message =
                format!("`host.setting.{}` = {} could not be restored: {why}", found.key, found.value);
            return Err(Failure::new(FailureCode::BadInput, message, "leave it out"));
        }
    }
    Ok(())
}

fn contradiction(first: &PlannedSetting, second: &PlannedSetting, part: &SettingPart) -> Failure {
    let of = |planned: &PlannedSetting| format!("`host.setting.{}` = {}", planned.key, planned.value);
    Failure::new(
        FailureCode::BadInput,
        format!("{} and {} contradict each other in {}", of(first), of(second), part.what),
        "keep one of the two; one of a profile is left out by a profile of your own without it",
    )
}

/// The points that set something, by side and by what varies, in the plan's order.
fn names(points: &[&Point]) -> Vec<String> {
    let mut names = Vec::new();
    for point in points {
        let side = point.side.map(|side| format!("side {}", side.name()));
        let values = point.vary.iter().map(|(name, value)| format!("{name} {value}"));
        let name = side.into_iter().chain(values).collect::<Vec<_>>().join(", ");
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names
}

fn unknown(error: &HostError) -> Failure {
    Failure::from_error(FailureCode::BadInput, error, error.remedy())
}

/// The same of a key that no scenario's own setting has: it is of a profile, where the points have one.
fn unknown_in_profile(error: &HostError, points: &[&Point]) -> Failure {
    match points.iter().any(|point| point.host.profile.is_some()) {
        true => Failure::from_error(FailureCode::BadInput, error, error.remedy_in_profile()),
        false => unknown(error),
    }
}

/// What a key and a value are on this host. What is in force in the network of a run is read in a network as the run will have: a new one,
/// which only root can make.
fn parts_of(key: &str, value: &str) -> Result<Vec<SettingPart>, HostError> {
    let parts = |is_known: bool| parts_on(&Root::real(), key, value, is_known);
    match known::find(key)?.place {
        Place::Host | Place::Process => parts(true),
        Place::RunNetwork => thread::scope(|scope| {
            let reader = scope.spawn(|| parts(own_network().is_ok()));
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        }),
    }
}

/// The same on any host, with the values of now where those of a run are the same. What is only held to be restored is not set.
fn parts_on(root: &Root, key: &str, value: &str, is_known: bool) -> Result<Vec<SettingPart>, HostError> {
    let part = |setting: Setting| {
        let now = setting.now().ok().filter(|_| is_known);
        let is_spread = setting.is_spread_by_kernel();
        let wanted = now.clone().filter(|_| is_spread).unwrap_or_else(|| setting.value.clone());
        SettingPart { what: setting.to_string(), now, wanted, is_spread, setting }
    };
    let set = known::resolve(root, key, value)?.into_iter().filter(|setting| !setting.is_follower());
    Ok(set.map(part).collect())
}

/// Programs that run and change settings of the plan too, in words: a repeat in which one does is not proven, and its value is left alone.
pub(crate) fn rivals(proc: &Path, planned: &[PlannedSetting]) -> Vec<String> {
    let of_host = planned.iter().filter(|found| found.place == Place::Host.name());
    let changes = |found: &&PlannedSetting| {
        found.parts.iter().any(|part| part.now.as_ref() != Some(&part.wanted)) || !found.on.is_empty()
    };
    let changed: Vec<&str> = of_host.filter(changes).map(|found| &*found.key).collect();
    // One that this host lacks has no parts, and is not stopped.
    let is_stopped =
        |found: &&PlannedSetting| found.value == STOPPED && found.on.is_empty() && !found.parts.is_empty();
    let stopped = planned.iter().filter(is_stopped);
    let stopped: Vec<&str> = stopped.map(|found| &*found.key).collect();
    let words = |rival: &crate::host::rivals::Rival| {
        let program = &rival.program;
        format!(
            "{}: `systemctl stop {program}`, or `--set host.setting.service.{program}={STOPPED}`",
            rival.in_words()
        )
    };
    rivals_of(proc, &changed, &stopped).iter().map(words).collect()
}

/// Refuses two sides that differ in settings of the host alone, where each value is the same on both.
///
/// # Errors
/// When they cannot differ; the message names the settings.
pub(crate) fn refuse_equal_sides(plan: &Plan, planned: &[PlannedSetting]) -> Result<(), Failure> {
    let of = |side| plan.points.iter().find(|point| point.side == Some(side));
    let (Some(a), Some(b)) = (of(SideName::A), of(SideName::B)) else { return Ok(()) };
    let elsewhere_alike = {
        let b = Point { index: a.index, side: a.side, host: a.host.clone(), ..b.clone() };
        *a == b
    };
    if !elsewhere_alike || (a.host.is_empty() && b.host.is_empty()) {
        return Ok(());
    }
    let keys: BTreeSet<&String> = a.host.setting.keys().chain(b.host.setting.keys()).collect();
    let differs = |key: &&String| values(planned, key, &a.host) != values(planned, key, &b.host);
    if keys.iter().any(differs) {
        return Ok(());
    }
    let each: Vec<String> = keys
        .iter()
        .filter_map(|key| {
            Some(format!("{key} is {}", a.host.setting.get(*key).or(b.host.setting.get(*key))?))
        })
        .collect();
    Err(Failure::new(
        FailureCode::BadInput,
        format!("both sides have the same settings of the host: {} on either", each.join(", ")),
        "give one side another value than this host has now",
    ))
}

/// The values that a key has where these settings are applied, file by file; `None` where that is not known before the run.
fn values<'p>(
    planned: &'p [PlannedSetting],
    key: &str,
    host: &HostSettings,
) -> Vec<(&'p str, Option<&'p str>)> {
    let own = host.setting.get(key);
    let is_meant =
        |found: &&PlannedSetting| found.key == key && own.is_none_or(|value| found.value == *value);
    let part = |part: &'p SettingPart| {
        let value = if own.is_some() { Some(part.wanted.as_str()) } else { part.now.as_deref() };
        (part.what.as_str(), value)
    };
    planned.iter().find(is_meant).map(|found| found.parts.iter().map(part).collect()).unwrap_or_default()
}

/// The screening of a profile's settings on this host. What needs consent is screened only where it is in `allow`.
///
/// # Errors
/// When the profile cannot be read, or names what is not known.
pub(crate) fn screening(name: &str, allow: &[String], pairs: u32) -> Result<Screening, Failure> {
    let profile = profile::read(name)?;
    let unknown_key = allow.iter().find(|key| profile.settings.iter().all(|line| line.key != **key));
    if let Some(key) = unknown_key {
        let message = format!("`--allow {key}`: the profile `{}` has no such setting", profile.name);
        return Err(Failure::new(FailureCode::BadInput, message, "leave it out, or add it to the profile"));
    }
    let (mut settings, mut left_out) = (Vec::new(), Vec::new());
    for line in profile.settings {
        let key = line.key.clone();
        match screened(line, allow)? {
            Ok(setting) => settings.push(setting),
            Err(why) => left_out.push(LeftOut { key, why }),
        }
    }
    let rows = Design::of(settings.len()).map_or(0, |design| design.rows().len() as u32);
    Ok(Screening { profile: profile.name, settings, left_out, rows, pairs })
}

/// A line of a profile as it is screened, or why it is not.
fn screened(line: ProfileSetting, allow: &[String]) -> Result<Result<ScreenedSetting, String>, Failure> {
    let Some(value) = line.value else { return Ok(Err("the profile sets no value for it".to_owned())) };
    let parts = match parts_of(&line.key, &value) {
        Ok(parts) => parts,
        Err(error)
            if error.is_skipped_where_optional() || matches!(error, HostError::SettingFixed { .. }) =>
        {
            return Ok(Err(error.to_string()));
        }
        Err(error) => return Err(unknown(&error)),
    };
    let known = known::find(&line.key).map_err(|error| unknown(&error))?;
    if known.danger.needs_consent() && !allow.contains(&line.key) {
        return Ok(Err(format!("{}: screened only where `--allow` names it", danger(known.danger))));
    }
    if parts.iter().all(|part| part.now.as_ref() == Some(&part.wanted)) {
        return Ok(Err("this host has that value already".to_owned()));
    }
    // Only what would change: a ratio comes with the bytes that it replaces, which are 0 already.
    let changed = parts.iter().filter(|part| part.now.as_ref() != Some(&part.wanted));
    let found: BTreeSet<&str> = changed.filter_map(|part| part.now.as_deref()).collect();
    let found = (!found.is_empty()).then(|| found.into_iter().collect::<Vec<_>>().join(", "));
    Ok(Ok(ScreenedSetting { key: line.key, value, found, claim: line.effect.or(line.note) }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{TILE, ladder, plan_of};
    use std::{
        fs,
        os::unix::fs::{PermissionsExt, symlink},
    };
    use tempfile::TempDir;

    const FILES: [(&str, &str); 6] = [
        ("/proc/sys/vm/dirty_ratio", "20\n"),
        ("/proc/sys/vm/dirty_bytes", "0\n"),
        ("/sys/block/vda/queue/scheduler", "[none] mq-deadline\n"),
        ("/sys/block/vda/queue/nr_requests", "256\n"),
        ("/sys/block/vda/device/vendor", "0x1af4\n"),
        ("/sys/devices/system/cpu/online", "0-3\n"),
    ];

    fn host() -> (TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::at(folder.path());
        for (path, text) in FILES {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        }
        (folder, root)
    }

    fn planned(root: &Root, key: &str, value: &str) -> PlannedSetting {
        PlannedSetting {
            key: key.to_owned(),
            value: value.to_owned(),
            on: Vec::new(),
            place: "host",
            danger: "none",
            parts: parts_on(root, key, value, true).unwrap(),
        }
    }

    fn checked(root: &Root, settings: &[(&str, &str)]) -> Result<(), Failure> {
        let all: Vec<PlannedSetting> =
            settings.iter().map(|(key, value)| planned(root, key, value)).collect();
        let setting = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        refuse_contradictions(&HostSettings { setting, ..HostSettings::default() }, &all)
    }

    #[test]
    fn two_keys_that_want_two_values_of_one_file_are_refused() {
        let (_folder, root) = host();
        for twice in [
            [("vm.dirty_bytes", "100000000"), ("vm.dirty_ratio", "10")],
            [("block.*.scheduler", "none"), ("block.vda.scheduler", "mq-deadline")],
        ] {
            let refused = checked(&root, &twice).unwrap_err();
            assert_eq!(refused.code.exit_code(), 2);
            assert!(twice.iter().all(|(key, _)| refused.message.contains(key)), "{refused:?}");
        }
        checked(&root, &[("block.*.scheduler", "none"), ("block.vda.scheduler", "none")]).unwrap();
        checked(&root, &[("vm.dirty_ratio", "10")]).unwrap();
        // Another side sets the other one.
        let all = [planned(&root, "vm.dirty_bytes", "100000000"), planned(&root, "vm.dirty_ratio", "10")];
        let one = HostSettings {
            setting: [("vm.dirty_ratio".to_owned(), "10".to_owned())].into(),
            ..HostSettings::default()
        };
        refuse_contradictions(&one, &all).unwrap();
    }

    #[test]
    fn a_program_that_changes_the_same_settings_is_named_unless_it_is_stopped_everywhere() {
        let (_folder, root) = host();
        fs::create_dir_all(root.path("/proc/17")).unwrap();
        fs::write(root.path("/proc/17/comm"), "tuned\n").unwrap();
        let proc = root.path("/proc");
        let changes = planned(&root, "vm.dirty_ratio", "10");
        let named = rivals(&proc, std::slice::from_ref(&changes));
        assert!(named[0].starts_with("tuned runs (process 17) and changes vm.dirty_ratio too"), "{named:?}");
        let stopped = PlannedSetting {
            key: "service.tuned".to_owned(),
            value: "stopped".to_owned(),
            ..changes.clone()
        };
        assert!(rivals(&proc, &[changes.clone(), stopped.clone()]).is_empty());
        let lacking = PlannedSetting { parts: Vec::new(), ..stopped.clone() };
        assert_eq!(rivals(&proc, &[changes.clone(), lacking]).len(), 1);
        let on_a_side = PlannedSetting { on: vec!["side B".to_owned()], ..stopped };
        assert_eq!(rivals(&proc, &[changes, on_a_side]).len(), 1);
        assert!(rivals(&proc, &[planned(&root, "vm.dirty_ratio", "20")]).is_empty(), "nothing changes");
    }

    #[test]
    fn what_could_not_be_restored_is_refused_unless_it_ends_with_the_runs_network() {
        let (_folder, root) = host();
        let files = ["/sys/kernel/mm/ksm/run", "/sys/kernel/mm/ksm/merge_across_nodes"];
        let switch = "/proc/sys/net/ipv6/conf/all/disable_ipv6";
        for path in [files[0], files[1], switch] {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), "0\n").unwrap();
        }
        let refused = checked(&root, &[("ksm", "on"), ("ksm.merge_across_nodes", "1")]).unwrap_err();
        assert!(refused.message.contains("`host.setting.ksm.merge_across_nodes` = 1"), "{refused:?}");
        checked(&root, &[("ksm.merge_across_nodes", "1")]).unwrap();
        let mut own = planned(&root, "net.ipv6.conf.all.disable_ipv6", "1");
        let set = |own: &PlannedSetting| refuse_one_way(&[(own, &own.parts[0])]);
        set(&own).unwrap_err();
        own.place = Place::RunNetwork.name();
        set(&own).unwrap();
    }

    #[test]
    fn a_vector_that_the_kernel_spreads_itself_has_its_value_of_now_on_every_side() {
        let (folder, root) = host();
        let hardware = folder.path().join("sys/devices/pci0/msi_irqs");
        fs::create_dir_all(&hardware).unwrap();
        fs::create_dir_all(root.path("/sys/class/net/eth0")).unwrap();
        symlink(hardware.parent().unwrap(), root.path("/sys/class/net/eth0/device")).unwrap();
        for vector in ["26", "27"] {
            fs::write(hardware.join(vector), "").unwrap();
            fs::create_dir_all(root.path(&format!("/proc/irq/{vector}"))).unwrap();
            let file = root.path(&format!("/proc/irq/{vector}/smp_affinity_list"));
            fs::write(&file, "0-3\n").unwrap();
            if vector == "27" {
                fs::set_permissions(&file, fs::Permissions::from_mode(0o444)).unwrap();
            }
        }
        let parts = planned(&root, "irq.eth0.affinity", "1").parts;
        let of = |part: &SettingPart| (part.wanted.clone(), part.is_spread);
        assert_eq!(parts.iter().map(of).collect::<Vec<_>>(), [("1".into(), false), ("0-3".into(), true)]);
    }

    #[test]
    fn the_points_that_set_something_are_named_once_each_in_the_order_of_the_plan() {
        let vary = "[vary.rate]\nkey = \"load.web.rate\"\nvalues = [\"900/s\", \"1000/s\"]\n[ladder]";
        let plan = plan_of(&TILE.replace("[ladder]", vary), &ladder());
        let points: Vec<&Point> = plan.points.iter().collect();
        assert_eq!(points.len(), 4);
        assert_eq!(names(&points), ["rate 900/s", "rate 1000/s"]);
    }

    #[test]
    fn a_key_that_kernels_no_longer_have_is_lacking_where_it_is_optional() {
        let gone = "kernel.sched_min_granularity_ns";
        let mut plan = plan_of(TILE, &ladder());
        for point in &mut plan.points {
            point.host.setting.insert(gone.to_owned(), "10000000".to_owned());
        }
        assert!(look_up(&plan).unwrap_err().message.contains("is gone from current kernels"));
        for point in &mut plan.points {
            point.host.optional.insert(gone.to_owned());
        }
        let found = look_up(&plan).unwrap();
        assert_eq!((found.len(), found[0].key.as_str(), found[0].parts.len()), (1, gone, 0));
    }

    #[test]
    fn values_held_only_for_restoring_are_not_among_those_that_are_set() {
        let (_folder, root) = host();
        let parts = planned(&root, "block.vda.scheduler", "mq-deadline").parts;
        assert_eq!(parts.len(), 1, "{parts:?}");
        assert!(parts[0].what.contains("block.vda.scheduler"), "{parts:?}");
    }
}
