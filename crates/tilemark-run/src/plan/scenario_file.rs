//! A file of the host that a scenario names: found and opened through no link by which the scenario's author could lead root to another file.

use crate::failure::{Failure, FailureCode};
use std::{
    fs::{self, File},
    io,
    path::Path,
};
use tilemark_plan::guest_image::is_beside;
use tilemark_sys::{
    below::Below,
    files::{Distrust, distrust},
};

/// Finds a file as seen from the scenario's folder. One beside the scenario may be a link to another file there; elsewhere links of root, of
/// the caller and of who called `sudo` are followed. `message` says what needs it, and `remedy` what to do where it cannot be used.
///
/// # Errors
/// When it is not there, or a link leads elsewhere.
pub(super) fn find(folder: &Path, path: &str, message: &str, remedy: &str) -> Result<Below, Failure> {
    let failed = |error: io::Error| Failure::caused_by(&error, FailureCode::BadInput, message, remedy);
    let misled = |why: String| {
        let remedy = "if that is the file you want, write its own absolute path in place of the link";
        Failure::new(FailureCode::BadInput, format!("{message}: {why}"), remedy)
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let folder = fs::canonicalize(folder).map_err(failed)?;
    if !is_beside(path) {
        return Below::reached(&folder.join(path), &callers()).map_err(|error| match distrust(&error) {
            Some(Distrust::Owner { path, owner }) => {
                misled(format!("{} is a link that user {owner} made", path.display()))
            }
            _ => failed(error),
        });
    }
    let real = fs::canonicalize(folder.join(path)).map_err(failed)?;
    let Ok(name) = real.strip_prefix(&folder) else {
        return Err(misled(format!("a link leads out of the scenario's folder to {}", real.display())));
    };
    // Whoever may write there can have put a link in it since.
    Below::folder(&folder).and_then(|folder| folder.open(name)).map_err(failed)
}

/// Opens a file once more that was found at this real path: a link that somebody has put there since is not followed.
///
/// # Errors
/// When it is not there any more, or is no plain file now; else what the kernel answered.
pub(super) fn open_found(path: &Path) -> io::Result<File> {
    let name = path.strip_prefix("/").map_err(|_| io::ErrorKind::InvalidInput)?;
    Below::folder(Path::new("/"))?.open(name)?.file()
}

/// The caller, and who called `sudo`: whose files and links are believed beside root's.
pub(super) fn callers() -> Vec<u32> {
    let before_sudo = std::env::var("SUDO_UID").ok().and_then(|user| user.parse().ok());
    before_sudo.into_iter().chain([rustix::process::geteuid().as_raw()]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{lchown, symlink};

    #[test]
    fn a_link_out_of_the_scenario_s_folder_is_refused_and_one_inside_is_followed() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        let folder = base.join("scenario");
        fs::create_dir(&folder).unwrap();
        fs::write(base.join("secret"), "SECRET").unwrap();
        fs::write(folder.join("v2.json"), "{}").unwrap();
        symlink("v2.json", folder.join("body.json")).unwrap();
        symlink("../secret", folder.join("out")).unwrap();
        symlink("..", folder.join("up")).unwrap();
        let found = |path: &str| {
            let found = find(&folder, path, "it needs a file", "correct it");
            found.map(|found| found.real_path().unwrap())
        };
        for path in ["body.json", "./v2.json", "../scenario/body.json"] {
            assert_eq!(found(path).unwrap(), folder.join("v2.json"), "{path}");
        }
        for path in ["out", "up/secret"] {
            let failure = found(path).unwrap_err();
            let wanted = format!(
                "it needs a file: a link leads out of the scenario's folder to {}",
                base.join("secret").display()
            );
            assert_eq!(failure.message, wanted, "{path}");
            assert!(failure.remedy.contains("its own absolute path"), "{path}: {failure:?}");
        }
        assert_eq!(found("none").unwrap_err().remedy, "correct it");
        // By its absolute path it was named as such; a link there is the caller's own.
        let (secret, link) = (base.join("secret"), folder.join("out"));
        for path in [&secret, &link] {
            assert_eq!(found(path.to_str().unwrap()).unwrap(), secret);
        }
        assert_eq!(found("../secret").unwrap(), secret);
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: giving a link away needs root");
        }
        lchown(&link, Some(65534), None).unwrap();
        for path in [link.to_str().unwrap(), "../scenario/out"] {
            let failure = found(path).unwrap_err();
            assert!(failure.message.contains("out is a link that user 65534 made"), "{path}: {failure:?}");
        }
    }

    #[test]
    fn a_file_that_was_found_is_opened_again_through_no_link() {
        let base = tempfile::tempdir().unwrap();
        let base = base.path().canonicalize().unwrap();
        fs::create_dir(base.join("folder")).unwrap();
        fs::write(base.join("folder/file"), "text").unwrap();
        let found = base.join("folder/file");
        assert!(open_found(&found).is_ok());
        fs::rename(base.join("folder"), base.join("moved")).unwrap();
        symlink("moved", base.join("folder")).unwrap();
        assert!(open_found(&found).is_err() && fs::read(&found).is_ok());
    }
}
