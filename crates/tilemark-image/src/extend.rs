//! An image with added files of the host: its packages are those of an image that is there already, so that a file which changed
//! costs seconds and no network.

use std::fs;
use std::path::{Path, PathBuf};

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use tilemark_sys::files::{OPEN_FOLDER, make_folder};
use tilemark_units::Sha256Hash;

use crate::build::{Built, pack_root, write_lock};
use crate::command::Tool;
use crate::disk_store::{LoopAccess, LoopCaching, LoopOptions, attach_loop};
use crate::extra_files::content_of;
use crate::files::write_whole;
use crate::image::{FileName, Image, SPEC_FILE};
use crate::progress::{Progress, Step};
use crate::spec::{FileSource, ImageSpec};
use crate::tree::Tree;
use crate::{ImageError, Result};

/// Mounts the root file system of an image on a folder, for reading. The loop device below goes with the mount.
///
/// # Errors
/// When there is no loop device, or the kernel does not mount it.
pub fn mount_root(root_erofs: &Path, folder: &Path) -> Result<()> {
    let options =
        LoopOptions { access: LoopAccess::ReadOnly, caching: LoopCaching::Cached, ..LoopOptions::default() };
    let device = attach_loop(root_erofs, options)?;
    let flags = MountFlags::RDONLY | MountFlags::NODEV | MountFlags::NOSUID;
    mount(device.path(), folder, "erofs", flags, None)
        .map_err(|error| ImageError::io("mount an image on", folder)(error.into()))
}

/// The mounted root of an image, until it is dropped.
struct MountedRoot(PathBuf);

impl Drop for MountedRoot {
    fn drop(&mut self) {
        // It is seen in the builder's own mount namespace only, and goes with it.
        let _ = unmount(&self.0, UnmountFlags::DETACH);
    }
}

/// Builds in the folder `build`, which is empty and is thrown away afterwards.
pub(crate) fn extend_image(
    base: &Image,
    spec: &ImageSpec,
    build: &Path,
    progress: &mut dyn Progress,
) -> Result<Built> {
    base.verify()?;
    progress.step(Step::OwnFiles);
    let tree = copy_root(base, build, progress)?;
    let own = spec.files.iter().filter(|file| !matches!(file.source, FileSource::Url(_)));
    for file in own {
        progress.line(&file.path);
        tree.add_file(Path::new(file.path.trim_start_matches('/')), &content_of(file)?, file.mode)?;
    }
    let folder = build.join("image");
    make_folder(&folder, OPEN_FOLDER).map_err(ImageError::io("create", &folder))?;
    for file in [FileName::Vmlinux, FileName::Initrd] {
        let to = folder.join(file.as_str());
        fs::copy(base.path(file), &to).map_err(ImageError::io("write", &to))?;
    }
    progress.step(Step::FileSystem);
    pack_root(tree.root(), &folder.join(FileName::RootErofs.as_str()), progress)?;
    progress.step(Step::Hashing);
    let lock = write_lock(spec, base.lock().kernel.clone(), base.lock().packages.clone(), &folder)?;
    write_whole(&folder.join(SPEC_FILE), spec.to_toml().as_bytes())?;
    let name: Sha256Hash = lock.image_name();
    Ok(Built { folder, name })
}

/// Copies the base's root. From a mount: `fsck.erofs --extract` of erofs-utils 1.5 loses set-user-id bits and attributes.
fn copy_root(base: &Image, build: &Path, progress: &mut dyn Progress) -> Result<Tree> {
    let (from, to) = (build.join("base"), build.join("tree"));
    for folder in [&from, &to] {
        make_folder(folder, OPEN_FOLDER).map_err(ImageError::io("create", folder))?;
    }
    mount_root(&base.path(FileName::RootErofs), &from)?;
    let _mounted = MountedRoot(from.clone());
    Tool::new("cp", "coreutils").arg("-a").arg(from.join(".")).arg(&to).run(progress)??;
    Tree::new(to)
}
