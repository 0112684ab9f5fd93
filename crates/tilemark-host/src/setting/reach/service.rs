//! Services of systemd, by systemctl(1).

use std::io;
use std::path::Path;
use std::time::Duration;

use super::program;

/// As a service is read and written.
pub(in crate::setting) const RUNNING: &str = "running";
/// The same, when it does not run.
pub(in crate::setting) const STOPPED: &str = "stopped";

/// How long a unit may take to start or stop. systemd's own limit is 90 s by default, and a unit may have a longer one or none.
const TO_CHANGE: Duration = Duration::from_secs(600);

/// Whether the unit is active. A unit that systemd does not know is an error: it can be neither started nor stopped.
pub(in crate::setting) fn read(unit: &str) -> io::Result<String> {
    let shown = systemctl(&["show", "--property=LoadState,ActiveState", "--", unit])?;
    let value = |key: &str| shown.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
    match value("LoadState") {
        Some("loaded") => {}
        Some("not-found") => {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("systemd has no unit {unit}")));
        }
        // It is there, and may be used again.
        state => {
            let state = state.unwrap_or("of an unknown state");
            return Err(io::Error::other(format!("the unit {unit} of systemd is {state}")));
        }
    }
    let is_running = matches!(value("ActiveState"), Some("active" | "activating" | "reloading"));
    Ok(if is_running { RUNNING } else { STOPPED }.to_owned())
}

/// The name that a unit has itself, whichever of its names this is.
pub(in crate::setting) fn own_name(unit: &str) -> io::Result<String> {
    let shown = systemctl(&["show", "--property=Id", "--", unit])?;
    let own = shown.lines().find_map(|line| line.strip_prefix("Id="));
    own.map(str::to_owned).ok_or_else(|| io::Error::other(format!("systemd names no unit {unit}")))
}

/// Starts or stops it, and waits until that is done.
pub(in crate::setting) fn write(unit: &str, text: &str) -> io::Result<()> {
    if text.trim() != RUNNING {
        return systemctl(&["stop", "--", unit]).map(drop);
    }
    let start = || systemctl(&["start", "--", unit]).map(drop);
    let Err(refused) = start() else { return Ok(()) };
    // systemd starts a unit five times in ten seconds, which repeats that are short exceed; one that is started along counts for itself.
    let all = started_with(unit)?.into_iter().chain([unit.to_owned()]);
    let limited: Vec<String> = all.filter(|one| is_started_too_often(one)).collect();
    if limited.is_empty() {
        return Err(refused);
    }
    for unit in limited {
        systemctl(&["reset-failed", "--", &unit])?;
    }
    start()
}

/// Whether systemd refused to start it because it was started too often (`StartLimitBurst=` in systemd.unit(5)).
fn is_started_too_often(unit: &str) -> bool {
    systemctl(&["show", "--property=Result", "--", unit])
        .is_ok_and(|shown| shown.trim() == "Result=start-limit-hit")
}

/// Units that run and that systemd stops with this one: those that require it, are bound to it or are a part of it, and those that depend on
/// them (systemd.unit(5)).
pub(in crate::setting) fn stopped_with(unit: &str) -> io::Result<Vec<String>> {
    with(unit, "--property=RequiredBy,RequisiteOf,BoundBy,ConsistsOf,PropagatesStopTo", RUNNING)
}

/// Units that do not run and that systemd starts with this one: those that it requires, wants or is bound to, and what they need.
pub(in crate::setting) fn started_with(unit: &str) -> io::Result<Vec<String>> {
    with(unit, "--property=Requires,Wants,BindsTo,Upholds", STOPPED)
}

/// Units that run and that systemd stops where these are started, since they exclude each other (`Conflicts=`), with what stops along.
pub(in crate::setting) fn excluded_by(units: &[String]) -> io::Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    for unit in units {
        for other in named_by(unit, "--property=Conflicts,ConflictedBy")? {
            if !found.contains(&other) && read(&other).is_ok_and(|state| state == RUNNING) {
                let mut along = stopped_with(&other)?;
                // Two that are excluded may take the same one along.
                along.retain(|one| !found.contains(one));
                found.extend(along.into_iter().chain([other]));
            }
        }
    }
    Ok(found)
}

/// The units that a unit names in these properties.
fn named_by(unit: &str, kinds: &str) -> io::Result<Vec<String>> {
    let shown = systemctl(&["show", kinds, "--", unit])?;
    let lines = shown.lines().filter_map(|line| line.split_once('='));
    Ok(lines.flat_map(|(_, units)| units.split_whitespace()).map(str::to_owned).collect())
}

/// Units in this state that a unit names in these properties, and those that they name; each after the one that names it.
fn with(unit: &str, kinds: &str, wanted: &str) -> io::Result<Vec<String>> {
    let mut found = vec![unit.to_owned()];
    let mut next = 0;
    while let Some(unit) = found.get(next) {
        for other in named_by(unit, kinds)? {
            if !found.contains(&other) && read(&other).is_ok_and(|state| state == wanted) {
                found.push(other);
            }
        }
        next += 1;
    }
    found.remove(0);
    Ok(found)
}

/// A program that plays systemctl(1) in the tests of one thread.
#[cfg(test)]
type Systemctl = Box<dyn FnMut(&[&str]) -> io::Result<String>>;

#[cfg(test)]
thread_local! {
    pub(in crate::setting) static SYSTEMCTL: std::cell::RefCell<Option<Systemctl>> = const { std::cell::RefCell::new(None) };
}

fn systemctl(arguments: &[&str]) -> io::Result<String> {
    #[cfg(test)]
    if let Some(played) = SYSTEMCTL.with_borrow_mut(|own| own.as_mut().map(|play| play(arguments))) {
        return played;
    }
    // As sd_booted(3) finds out.
    if !Path::new("/run/systemd/system").is_dir() {
        let why = "systemd does not run on this host";
        return Err(io::Error::new(io::ErrorKind::Unsupported, why));
    }
    let limit = if arguments[0] == "show" { program::TO_ANSWER } else { TO_CHANGE };
    program::run("systemctl", arguments, limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_unit_that_two_excluded_ones_take_along_is_listed_once() {
        let play = |arguments: &[&str]| {
            let [_, property, _, unit] = arguments else { panic!("{arguments:?}") };
            Ok(match (*property, *unit) {
                ("--property=LoadState,ActiveState", _) => "LoadState=loaded\nActiveState=active\n",
                ("--property=Conflicts,ConflictedBy", "new") => "Conflicts=one two\n",
                (_, "one" | "two") => "RequiredBy=user\n",
                _ => "",
            }
            .to_owned())
        };
        SYSTEMCTL.with_borrow_mut(|own| *own = Some(Box::new(play)));
        assert_eq!(excluded_by(&["new".to_owned()]).unwrap(), ["user", "one", "two"]);
    }
}
