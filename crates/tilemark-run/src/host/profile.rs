//! Reading a profile by its name or its path.

use crate::failure::{Failure, FailureCode};
use serde::Serialize;
use std::path::Path;
use tilemark_host::setting::known;
use tilemark_plan::{
    parse::SCENARIO_BYTES_MAX,
    profile::{PROFILES, Profile, builtin},
};
use tilemark_sys::text_file::read_text;

/// The names of the profiles inside the program.
pub const NAMES: [&str; PROFILES.len()] = {
    let mut names = [""; PROFILES.len()];
    let mut place = 0;
    while place < names.len() {
        names[place] = PROFILES[place].name;
        place += 1;
    }
    names
};

/// A profile inside the program by its name, or a file by its path.
///
/// # Errors
/// Where there is none, or it has mistakes.
pub fn read(profile: &str) -> Result<Profile, Failure> {
    Ok(Profile::from_toml(&text(profile)?, profile)?)
}

/// The text of a profile, by its name or its path.
///
/// # Errors
/// Where there is none.
pub fn text(profile: &str) -> Result<String, Failure> {
    if !profile.contains('/') && !profile.ends_with(".toml") {
        let Some(found) = builtin(profile) else {
            let remedy = format!(
                "there are: {}; to use a file, give a path with a `/` or a name that ends in `.toml`",
                NAMES.join(", ")
            );
            return Err(Failure::new(FailureCode::BadInput, format!("no profile `{profile}`"), remedy));
        };
        return Ok(found.text.to_owned());
    }
    read_text(Path::new(profile), SCENARIO_BYTES_MAX as u64).map_err(|error| {
        let message = format!("cannot read the profile {profile}");
        Failure::caused_by(&error, FailureCode::BadInput, message, "check the path")
    })
}

/// A setting of the catalogue, as `tilemark host settings` lists it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// Its key; `{device}` and the like is any name.
    pub key: &'static str,
    /// What it does.
    pub about: &'static str,
    /// What it accepts.
    pub accepts: String,
    /// What can go wrong.
    pub danger: &'static str,
    /// Where it is in force.
    #[serde(rename = "where")]
    pub place: &'static str,
    /// Where it is documented.
    pub source: &'static str,
}

/// All settings of the catalogue.
pub fn settings() -> Vec<Listed> {
    let listed = |known: &known::Known| Listed {
        key: known.key,
        about: known.about,
        accepts: known.accepts.to_string(),
        danger: known.danger.name(),
        place: known.place.name(),
        source: known.source,
    };
    known::all().map(listed).collect()
}
