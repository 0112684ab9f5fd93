//! The script that does the work on a host, and what its end means.

use crate::{
    carrier::quoted,
    end::{End, HostEnd},
    folder::Fleet,
};
use tilemark_record::result::{RunResult, VerdictStatus};
use tilemark_units::printable_line;

const JOB_SCRIPT: &str = include_str!("job.sh");

/// The script of a host.
pub(crate) fn job(fleet: &Fleet, host: &str) -> String {
    let flags: Vec<String> = fleet.flags.iter().map(|flag| quoted(flag)).collect();
    let mut script = String::new();
    for (name, value) in [
        ("fleet", fleet.id.as_str()),
        ("name", host),
        ("program", &fleet.site.program),
        ("version", &fleet.version),
        ("scenario_text", fleet.scenario_text.as_deref().unwrap_or_default()),
        ("flags", &flags.join(" ")),
    ] {
        script += &format!("{name}={}\n", quoted(value));
    }
    script + JOB_SCRIPT
}

/// How an attempt ended, by the exit code of `tilemark`, its record's result and its messages.
pub(crate) fn end_of(exit_code: i32, result: Option<&RunResult>, log: &str) -> HostEnd {
    let verdict = result.map(|result| &result.verdict);
    let reasons = || verdict.map(|verdict| verdict.reasons.join("; ")).unwrap_or_default();
    let (end, because) = match (exit_code, verdict.map(|verdict| verdict.status)) {
        (0, Some(_)) => (End::Trusted, String::new()),
        // 3: a host that was too busy to measure on, which ended before its plan was done and left a record even so.
        (3 | 5, Some(VerdictStatus::NotTrusted)) => (End::NotTrusted, reasons()),
        (3 | 5, Some(_)) => (End::CannotTell, reasons()),
        (4, _) => (End::GuestFailed, error_in(log)),
        (6, _) => (End::NotRestored, error_in(log)),
        // It was cancelled before it measured anything.
        (130, None) if log.starts_with("error: ") => (End::NeverStarted, error_in(log)),
        (128.., _) => (End::Lost, format!("the run there was ended by signal {}", exit_code - 128)),
        (0 | 5, None) => (End::Lost, "the run there left no closed record".to_owned()),
        _ => (End::Unfit, error_in(log)),
    };
    HostEnd { end, exit_code: Some(exit_code), because }
}

/// The first error in what `tilemark` printed, with its causes and remedy.
fn error_in(log: &str) -> String {
    let mut lines = log.lines().skip_while(|line| !line.starts_with("error: "));
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
    let below: Vec<&str> = lines.take_while(|line| line.starts_with("  ")).map(str::trim).collect();
    let words =
        std::iter::once(first).chain(below).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("; ");
    let words = if words.is_empty() {
        log.lines().last().unwrap_or("it printed no reason").to_owned()
    } else {
        words
    };
    let short: String = words.chars().take(1000).collect();
    printable_line(&short).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_exit_code_has_its_end() {
        for (code, end) in [
            (1, End::Unfit),
            (2, End::Unfit),
            (3, End::Unfit),
            (4, End::GuestFailed),
            (6, End::NotRestored),
            (127, End::Unfit),
            (137, End::Lost),
            (0, End::Lost),
            (5, End::Lost),
        ] {
            let ended =
                end_of(code, None, "seed 1\nerror: no image\n  because: of that\n  to fix: build it\nmore");
            assert_eq!((ended.end, ended.exit_code), (end, Some(code)));
            if matches!(end, End::Unfit | End::GuestFailed | End::NotRestored) {
                assert_eq!(ended.because, "no image; because: of that; to fix: build it");
            }
        }
    }
}
