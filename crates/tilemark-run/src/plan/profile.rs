//! Profiles by name or path.

use crate::failure::{Failure, FailureCode};
use std::path::Path;
use tilemark_plan::{
    parse::SCENARIO_BYTES_MAX,
    profile::{PROFILES, Profile, builtin},
};
use tilemark_sys::text_file::read_text;

/// Reads the profile inside the program that has this name, or the file: a name has no `/` and does not end in `.toml`.
///
/// # Errors
/// When there is none, or it is no profile.
pub(crate) fn read(name: &str) -> Result<Profile, Failure> {
    if name.contains('/') || name.ends_with(".toml") {
        let text = read_text(Path::new(name), SCENARIO_BYTES_MAX as u64).map_err(|error| {
            let message = format!("cannot read the profile {name}");
            let remedy = "check the path; a name without `/` and `.toml` is a profile inside the program";
            Failure::caused_by(&error, FailureCode::BadInput, message, remedy)
        })?;
        return Ok(Profile::from_toml(&text, name)?);
    }
    let Some(found) = builtin(name) else {
        let known: Vec<&str> = PROFILES.iter().map(|profile| profile.name).collect();
        let remedy = format!("there are: {}; a file needs its `/` or `.toml`", known.join(", "));
        return Err(Failure::new(FailureCode::BadInput, format!("no profile `{name}`"), remedy));
    };
    Ok(Profile::from_toml(found.text, name)?)
}
