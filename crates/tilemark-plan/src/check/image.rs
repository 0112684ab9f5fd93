//! Files of an image that no guest would see, and more of them than an image takes.

use crate::{
    guest_image::{ImageFile, ImageTable, RequestedImage, is_path},
    problem::Say,
};

/// Packages that a scenario may name: an image of so many would be a desktop.
const PACKAGES_MAX: usize = 1_000;
/// Files and folders that a scenario may name; a folder is one of them.
const FILES_MAX: usize = 1_000;
/// Folders that are memory of each guest, or the kernel's own: what an image has there is never seen.
const NEVER_SEEN: [&str; 5] = ["dev", "proc", "run", "sys", "tmp"];

/// Reports files of an image that no guest would see, and more of them than an image takes.
pub(super) fn check(image: &RequestedImage, say: &mut Say<'_>) {
    let RequestedImage::Made(ImageTable { packages, files, .. }) = image else { return };
    if packages.len() > PACKAGES_MAX || files.len() > FILES_MAX {
        let message = format!("`[image]` has {} packages and {} files", packages.len(), files.len());
        say(message, "name 1000 of each at most; a folder is one file here");
    }
    for (path, file) in files {
        if !is_path(path) {
            say(
                format!("`image.files` has the path {path:?}"),
                "write the absolute path in the guest, without `.` and `..`, such as \"/srv/app/main.py\"",
            );
        } else if let Some(folder) =
            NEVER_SEEN.iter().find(|folder| path[1..].split('/').next() == Some(folder))
        {
            let message = format!("`image.files` has {path}, and each guest has a /{folder} of its own");
            say(message, "choose another place, such as /srv or /opt");
        }
        if matches!(file, ImageFile::Host(host) if host.is_empty() || host.contains('\0')) {
            say(format!("`image.files` has no file for {path}"), "write its path beside the scenario");
        }
        let below =
            |other: &&String| other.strip_prefix(path.as_str()).is_some_and(|rest| rest.starts_with('/'));
        if let Some(below) = files.keys().find(below).filter(|_| matches!(file, ImageFile::Text { .. })) {
            say(
                format!("`image.files` has the file {path}, and {below} below it"),
                "choose another path for one of them",
            );
        }
    }
}
