//! Whether other programs use the host, which ones, and how to wait until they do not.

use crate::{
    failure::{Failure, FailureCode},
    job::host_pids,
    job::keeper::host_proc,
};
use std::{path::Path, thread, time::Duration};
use tilemark_host::telemetry::{Census, NamedUse, Sampler, Watched, WatchedKind, difference};
use tilemark_plan::plan::Plan;
use tilemark_record::summary::{ProgramUse, programs_in_words};
use tilemark_statistics::judge::busy_host;
use tilemark_units::{Span, counted};

/// A run says once, before its first repeat, who uses the host; it looks for so long.
pub(crate) const FIRST_LOOK: Duration = Duration::from_secs(1);
/// One that waits calls the host quiet when it was for so long.
pub(crate) const QUIET_FOR: Duration = Duration::from_secs(5);
/// Between two looks for a Ctrl-C.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// Who is loud is said again after so long, where it is still the same program.
const SAID_AGAIN_AFTER: Duration = Duration::from_secs(30);

/// Programs that are named.
const PROGRAMS_MAX: usize = 5;
/// A program below this part of the host is not named.
const FRACTION_MIN: f64 = 0.005;

/// What the host did for others while it was looked at.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Others {
    /// Part of the host that programs outside the run used.
    pub(crate) foreign: f64,
    /// Part of it that its hypervisor gave to others.
    pub(crate) steal: f64,
    /// Which programs used most.
    pub(crate) programs: Vec<ProgramUse>,
    /// How long it was looked at.
    pub(crate) looked: Duration,
}

impl Others {
    /// `other programs used 41.2 % of the host (cc1 (4 processes) 38.0 %)`; nothing where the host is quiet.
    pub(crate) fn loud(&self) -> Option<String> {
        let reasons: Vec<String> = busy_host(self.steal, self.foreign).collect();
        (!reasons.is_empty()).then(|| with_programs(&reasons.join("; "), &self.programs))
    }
}

/// A reason with the programs that cause it.
pub(crate) fn with_programs(reason: &str, programs: &[ProgramUse]) -> String {
    let named = programs_in_words(programs).map(|programs| format!(" ({programs})"));
    format!("{reason}{}", named.unwrap_or_default())
}

/// All processes of the host, as far as they can be seen from here.
pub(crate) fn census() -> Option<Census> {
    Census::read(&host_proc())
}

/// Which programs outside this run used most between two readings of `all_ns` nanoseconds of all threads together.
pub(crate) fn programs(first: &Census, last: &Census, all_ns: f64) -> Vec<ProgramUse> {
    let of = |NamedUse { name, used_ns, processes }| ProgramUse {
        program: name,
        processes,
        fraction: used_ns as f64 / all_ns,
    };
    let all = last.others_since(first, &ours(last)).into_iter().map(of);
    all.filter(|found| found.fraction >= FRACTION_MIN && found.fraction.is_finite())
        .take(PROGRAMS_MAX)
        .collect()
}

/// The host's numbers of the processes that everything of this run came of.
fn ours(census: &Census) -> Vec<u32> {
    if host_proc() == Path::new("/proc") {
        return vec![std::process::id()];
    }
    // The first process of the run's namespace, its keeper, and the command, which has the keeper's name.
    let Some(init) = host_pids::of(&[Some(1)])[0] else { return Vec::new() };
    let Some(keeper) = census.parent(init) else { return vec![init] };
    let command = census.parent(keeper).filter(|parent| census.name(*parent) == census.name(keeper));
    vec![init, keeper, command.unwrap_or(keeper)]
}

/// Looks at the host for so long. `own` are this run's processes that work meanwhile. Nothing where it cannot be read, or where
/// `is_over` says so before.
pub(crate) fn look(length: Duration, own: Vec<u32>, is_over: &dyn Fn() -> bool) -> Option<Others> {
    let watched =
        Watched { name: "tilemark".to_owned(), kind: WatchedKind::Tilemark, pids: own, group: None };
    let mut sampler = Sampler::new(&[watched]).ok()?;
    let (census_before, before) = (census()?, sampler.sample());
    let mut slept = Duration::ZERO;
    while slept < length {
        if is_over() {
            return None;
        }
        thread::sleep(LOOKS_AGAIN_AFTER);
        slept += LOOKS_AGAIN_AFTER;
    }
    let read = difference(&before, &sampler.sample());
    let census_now = census()?;
    let kernel_ns = census_now.kernel_ns_since(&census_before).unwrap_or(0);
    let all_ns = read.seconds * 1e9 * read.threads.len() as f64;
    let split = read.with_kernel_threads(kernel_ns).processor?;
    let programs = programs(&census_before, &census_now, all_ns);
    Some(Others { foreign: split.other, steal: split.steal, programs, looked: length })
}

/// Whether a plan measures anything that other programs would disturb: figures of an emulator are no measure.
pub(crate) fn is_disturbed_by_others(plan: &Plan) -> bool {
    plan.points.iter().any(|point| !plan.host.emulates(point.backend))
}

/// What to say about a host that is loud before a run begins.
pub(crate) fn warning(others: &Others) -> Option<String> {
    let loud = others.loud()?;
    Some(format!(
        "this host is busy: {loud}. Repeats that are disturbed so are discarded; `--wait-quiet 10m` waits until the host is quiet"
    ))
}

/// Waits until the host is quiet, and returns how long it looked. `look` looks at it for a while; `say` is called with who is loud.
///
/// # Errors
/// When the host is still loud after `within`. Whoever interrupts it ends the wait without one.
pub(crate) fn wait(
    within: Span,
    mut look: impl FnMut() -> Option<Others>,
    say: &mut dyn FnMut(String),
) -> Result<Duration, Failure> {
    let (mut waited, mut said) = (Duration::ZERO, None::<(Duration, Option<String>)>);
    // A host that cannot be looked at, or a run that was interrupted, waits for nothing.
    while let Some(others) = look() {
        waited += others.looked;
        let Some(loud) = others.loud() else {
            if said.is_some() {
                say(format!("the host is quiet, after {} s", waited.as_secs()));
            }
            return Ok(waited);
        };
        if waited >= within.get() {
            return Err(Failure::new(
                FailureCode::HostUnfit,
                format!("the host was not quiet within {within}: {loud}"),
                "end these programs, wait longer with `--wait-quiet`, or measure on a quiet host",
            ));
        }
        let loudest = others.programs.first().map(|program| program.program.clone());
        let is_news =
            said.as_ref().is_none_or(|(at, before)| *before != loudest || waited >= *at + SAID_AGAIN_AFTER);
        if is_news {
            let left = within.get().saturating_sub(waited).as_secs();
            say(format!("waiting for a quiet host, at most {left} s more: {loud}"));
            said = Some((waited, loudest));
        }
    }
    Ok(waited)
}

/// So many repeats that the host disturbed, one after the other, end a run: the next ones would be discarded too.
pub(crate) const DISTURBED_IN_A_ROW_MAX: u32 = 6;

/// Why a run ends on a host that does not get quiet.
pub(crate) fn too_loud(disturbed: u32, loud: &str) -> Failure {
    Failure::new(
        FailureCode::HostUnfit,
        format!("{} in a row were discarded, the last one because {loud}", counted(disturbed, "repeat")),
        "end these programs, or measure on a quiet host; `--wait-quiet 10m` waits until this one is quiet",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loud(program: &str) -> Option<Others> {
        let programs = vec![ProgramUse { program: program.to_owned(), processes: 4, fraction: 0.38 }];
        Some(Others { foreign: 0.412, steal: 0.0, programs, looked: QUIET_FOR })
    }

    fn quiet() -> Option<Others> {
        Some(Others { foreign: 0.01, looked: QUIET_FOR, ..Others::default() })
    }

    /// What comes of a wait of a minute for a host that looks so, again and again where the looks end, and what it says.
    fn waits(looks: &[Option<Others>]) -> (Result<Duration, Failure>, Vec<String>) {
        let mut said = Vec::new();
        let mut looks = looks.iter().cloned().cycle();
        let waited = wait(Span::from_seconds(60), || looks.next()?, &mut |text| said.push(text));
        (waited, said)
    }

    #[test]
    fn a_quiet_host_is_not_waited_for() {
        assert_eq!(waits(&[quiet()]), (Ok(QUIET_FOR), Vec::new()));
        assert_eq!(waits(&[None]), (Ok(Duration::ZERO), Vec::new()), "nothing is known of it");
    }

    #[test]
    fn a_wait_says_who_is_loud_once_for_each_and_when_it_is_quiet() {
        let (waited, said) = waits(&[loud("cc1"), loud("cc1"), loud("ld"), quiet()]);
        assert_eq!(waited, Ok(QUIET_FOR * 4));
        assert_eq!(
            said,
            [
                "waiting for a quiet host, at most 55 s more: other programs used 41.2 % of the host (cc1 (4 processes) 38.0 %)",
                "waiting for a quiet host, at most 45 s more: other programs used 41.2 % of the host (ld (4 processes) 38.0 %)",
                "the host is quiet, after 20 s",
            ]
        );
    }

    #[test]
    fn a_host_that_stays_loud_is_an_error_with_its_name() {
        let (waited, said) = waits(&[loud("cc1")]);
        let failure = waited.unwrap_err();
        assert_eq!(failure.code, FailureCode::HostUnfit);
        assert_eq!(
            failure.message,
            "the host was not quiet within 1m: other programs used 41.2 % of the host (cc1 (4 processes) 38.0 %)"
        );
        // At first and half a minute later.
        assert_eq!(said.len(), 2, "{said:?}");
    }

    #[test]
    fn a_warning_names_the_programs_and_the_way_to_wait() {
        let text = warning(&loud("cc1").unwrap()).unwrap();
        assert!(text.contains("cc1 (4 processes) 38.0 %") && text.contains("--wait-quiet"), "{text}");
        assert_eq!(warning(&quiet().unwrap()), None);
        let stolen = Others { steal: 0.3, ..quiet().unwrap() };
        assert!(warning(&stolen).unwrap().contains("the hypervisor took 30.0 % of the host as steal."));
    }
}
