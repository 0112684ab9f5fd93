//! What this program exits with.

use std::process::ExitCode;
use tilemark_record::result::VerdictStatus;
use tilemark_run::failure::{Failure, FailureCode};

/// Something of the host keeps the command from its work.
pub(crate) const HOST_UNFIT: u8 = FailureCode::HostUnfit.exit_code();
/// A guest failed.
pub(crate) const GUEST_FAILED: u8 = FailureCode::GuestFailed.exit_code();
/// Figures are not to be trusted, or some are missing, as where the user ended a run before it was done.
pub(crate) const NOT_TRUSTED: u8 = FailureCode::Interrupted.exit_code();
/// Something of the host was left as another program set it.
pub(crate) const NOT_RESTORED: u8 = FailureCode::NotRestored.exit_code();
/// What `--exit-verdict` ends with where it is not certain whether B is no worse (0) or worse (1): `git bisect run` then skips the commit.
const SKIP_COMMIT: u8 = 125;
/// What `--exit-verdict` ends with where another commit would end the same way: `git bisect run` then stops.
pub(crate) const STOP_BISECT: u8 = 128;

/// The exit code of `--exit-verdict` for a comparison that failed. Guests that fail may be the commit's own fault; a bad flag, a
/// host that lacks something and the user's Ctrl-C, whatever failed before it, are not.
pub(crate) fn no_verdict(failure: &Failure, is_interrupted: bool) -> ExitCode {
    ExitCode::from(match failure.code {
        FailureCode::GuestFailed if !is_interrupted => SKIP_COMMIT,
        FailureCode::GuestFailed
        | FailureCode::Bug
        | FailureCode::BadInput
        | FailureCode::HostUnfit
        | FailureCode::Interrupted
        | FailureCode::NotRestored => STOP_BISECT,
    })
}

/// Whether the exit code is to be a verdict. A flag that is nearly spelt so was meant so.
pub(crate) fn asks_verdict(given: &[String]) -> bool {
    given.iter().any(|argument| argument.starts_with("--exit"))
}

/// What a command that finished exits with.
pub(crate) const fn exit_code(status: VerdictStatus) -> u8 {
    match status {
        VerdictStatus::Trusted => 0,
        VerdictStatus::NotTrusted | VerdictStatus::CannotTell => NOT_TRUSTED,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bisection_goes_on_after_a_guest_that_failed_unless_its_user_ended_it() {
        let failed = Failure::new(FailureCode::GuestFailed, "a guest ended", "look at its console");
        assert_eq!(no_verdict(&failed, false), ExitCode::from(SKIP_COMMIT));
        assert_eq!(no_verdict(&failed, true), ExitCode::from(STOP_BISECT));
    }
}
