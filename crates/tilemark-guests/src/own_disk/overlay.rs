//! The disk that a guest boots from: the user's file, which is never written to, and the overlay that takes its writes.

use crate::{
    disks::DiskFolders,
    error::{GuestError, file},
};
use std::{
    fs,
    path::{Path, PathBuf},
};
use tilemark_image::own_disk::{OwnDisk, look_at, write_overlay};
use tilemark_plan::plan::GuestPlan;

/// Beside the sectors, an overlay has tables: an eighth of a thousandth of them, and some clusters. This is more than that.
const TABLES_PART: u64 = 1000;
const TABLES_LEAST: u64 = 64 << 20;

/// The overlay of one guest. Its file goes with it.
#[derive(Debug)]
pub(crate) struct Overlay {
    path: PathBuf,
    disk: OwnDisk,
}

impl Overlay {
    /// Looks at the guest's disk, if it has one of its own, and makes an empty overlay over it.
    pub(crate) fn of_guest(
        guest: &GuestPlan,
        number: u64,
        folders: &DiskFolders,
    ) -> Result<Option<Self>, GuestError> {
        let Some(own) = &guest.from else { return Ok(None) };
        let disk = look_at(Path::new(&own.path))
            .map_err(|source| GuestError::OwnDisk { guest: guest.name.clone(), source })?;
        let path = folders.store.join(format!("{}-{number}.overlay", guest.name));
        write_overlay(&path, disk.size).map_err(file("make the overlay", &path))?;
        Ok(Some(Self { path, disk }))
    }

    /// The file that takes what the guest writes.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What it lies over.
    pub(crate) fn disk(&self) -> &OwnDisk {
        &self.disk
    }

    /// The longest that its file may get, in bytes.
    pub(crate) fn longest(&self) -> u64 {
        let size = self.disk.size.get();
        size.saturating_add(size / TABLES_PART).saturating_add(TABLES_LEAST)
    }
}

impl Drop for Overlay {
    fn drop(&mut self) {
        // What is left of a run is removed with its state folder.
        let _ = fs::remove_file(&self.path);
    }
}
