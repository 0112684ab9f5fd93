//! Profiles written for other programs, and read from tuned.

use crate::{
    failure::{Failure, FailureCode},
    host::profile,
};
use std::path::Path;
use tilemark_host::exchange::{export, import_tuned};
use tilemark_sys::text_file::read_text;

pub use tilemark_host::exchange::Format;

/// Largest profile of another program that is read.
const FILE_BYTES_MAX: u64 = 1 << 20;
/// A profile of tuned has tens of lines, and each is compared with the others of its section.
const LINES_MAX: usize = 2_000;
const TUNED_CONF: &str =
    "give the `tuned.conf` of a profile, such as /usr/lib/tuned/profiles/virtual-host/tuned.conf";

/// A profile in another program's format.
///
/// # Errors
/// Where there is no such profile, or it has mistakes.
pub fn exported(profile: &str, format: Format) -> Result<String, Failure> {
    Ok(export(&profile::read(profile)?, format))
}

/// A profile of tuned as the TOML of a profile of ours.
///
/// # Errors
/// Where the file cannot be read, or has nothing that could be taken.
pub fn imported(file: &Path) -> Result<String, Failure> {
    let text = read_text(file, FILE_BYTES_MAX).map_err(|error| {
        let message = format!("cannot read {}", file.display());
        Failure::caused_by(&error, FailureCode::BadInput, message, "check the path")
    })?;
    if text.lines().nth(LINES_MAX).is_some() {
        let message =
            format!("{} has more than {LINES_MAX} lines, and no profile has so many", file.display());
        return Err(Failure::new(FailureCode::BadInput, message, TUNED_CONF));
    }
    let imported = import_tuned(&text, &name_of(file));
    if imported.profile.settings.is_empty() {
        let message = format!("{} has no setting that can be taken", file.display());
        let causes =
            imported.not_taken.iter().map(|line| format!("line {}: {} ({})", line.line, line.text, line.why));
        return Err(Failure {
            causes: causes.collect(),
            ..Failure::new(FailureCode::BadInput, message, TUNED_CONF)
        });
    }
    Ok(imported.to_toml())
}

/// A profile of tuned is a folder with a `tuned.conf`; any other file has a name of its own.
fn name_of(file: &Path) -> String {
    let named = match file.file_name() {
        Some(name) if name == "tuned.conf" => file.parent().and_then(Path::file_name),
        _ => file.file_stem(),
    };
    named.map_or_else(|| "imported".to_owned(), |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_profile_of_tuned_is_called_by_its_folder() {
        assert_eq!(name_of(Path::new("/usr/lib/tuned/virtual-host/tuned.conf")), "virtual-host");
        assert_eq!(name_of(Path::new("mine.conf")), "mine");
        assert_eq!(name_of(Path::new("tuned.conf")), "imported");
    }

    #[test]
    fn a_file_without_settings_is_refused_with_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuned.conf");
        std::fs::write(&file, "[script]\nscript=run.sh\n").unwrap();
        let failure = imported(&file).unwrap_err();
        assert_eq!(failure.code, FailureCode::BadInput);
        assert!(failure.causes[0].contains("line 2: [script]"), "{failure:?}");
    }

    #[test]
    fn a_file_of_more_lines_than_a_profile_has_is_refused_and_not_compared() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("tuned.conf");
        std::fs::write(&file, format!("[sysctl]\n{}", "a\n".repeat(2_000))).unwrap();
        let failure = imported(&file).unwrap_err();
        assert_eq!(failure.code, FailureCode::BadInput);
        assert!(failure.message.contains("more than 2000 lines"), "{failure:?}");
    }

    #[test]
    fn an_unknown_profile_is_refused() {
        assert_eq!(exported("no-such", Format::Tuned).unwrap_err().code, FailureCode::BadInput);
        assert!(exported("current", Format::Sysctl).unwrap().contains("vm.swappiness = 10"));
    }
}
