//! Why a site file or a fleet run cannot be used.

use tilemark_fleet::FleetError;
use tilemark_run::failure::{Failure, FailureCode};

/// The failure that the command ends with.
pub(crate) fn failure(error: impl Into<FleetError>) -> Failure {
    let error = error.into();
    if matches!(&error, FleetError::NoFleet { known, wanted } if known.is_empty() && wanted == "last") {
        let remedy = "start one with `tilemark fleet run SCENARIO --site FILE`";
        return Failure::new(FailureCode::BadInput, "there are no fleet runs yet", remedy);
    }
    let code = if error.is_bad_input() { FailureCode::BadInput } else { FailureCode::HostUnfit };
    Failure::from_error(code, &error, error.remedy())
}
