//! Builds an image in a folder aside: packages, kernel, modules, root file system, lock.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tilemark_sys::files::{OPEN_FOLDER, PRIVATE_FOLDER, make_folder};
use tilemark_units::Sha256Hash;

use crate::bootstrap::{Bootstrapped, EPOCH, bootstrap};
use crate::command::Tool;
use crate::extra_files::add_extra_files;
use crate::files::{free_bytes, write_whole};
use crate::image::{FileName, LOCK_FILE, SPEC_FILE};
use crate::initramfs::modules_initramfs;
use crate::kernel::extract_vmlinux;
use crate::lock::{FORMAT, ImageLock, LockedFile, LockedFiles, LockedPackage, locked_packages};
use crate::modules::{FOR_BOOT, FOR_SERVICES, ModuleTree};
use crate::progress::{Progress, Step};
use crate::spec::ImageSpec;
use crate::tree::Tree;
use crate::{ImageError, Result};

/// What must be free to begin a build, and stays free where an image is taken in: the design's floor for the disk (2 GiB).
pub(crate) const DISK_RESERVE: u64 = 2 << 30;
/// Of the root file system; fixed, so that equal contents give equal bytes.
const ROOT_UUID: &str = "74696c65-6d61-726b-0000-000000000001";

/// A built image, not yet in its place.
pub(crate) struct Built {
    /// The folder with exactly the files of an image.
    pub(crate) folder: PathBuf,
    /// The image's name.
    pub(crate) name: Sha256Hash,
}

/// What is made of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Make {
    /// All of it.
    Packages,
    /// Files are added to one that is there.
    FilesOnly,
}

/// Refuses what would fail later.
pub(crate) fn check_host(cache: &Path, make: Make) -> Result<()> {
    let user_id = rustix::process::geteuid().as_raw();
    if user_id != 0 {
        return Err(ImageError::NotRoot { user_id });
    }
    check_path(cache)?;
    if make == Make::Packages {
        Tool::new("mmdebstrap", "mmdebstrap").arg("--version").output()?;
    }
    Tool::new("mkfs.erofs", "erofs-utils").arg("--help").run(&mut crate::Silent)?.ok();
    let free = free_bytes(cache)?;
    if free < DISK_RESERVE {
        return Err(ImageError::DiskShort {
            path: cache.to_owned(),
            free_mib: free >> 20,
            needed_mib: DISK_RESERVE >> 20,
            what: "a build",
        });
    }
    Ok(())
}

/// Refuses a path that apt's sources, its configuration and mmdebstrap's hooks, which are texts with quotes, lists and spaces,
/// cannot hold.
fn check_path(path: &Path) -> Result<()> {
    let is_plain = |c: &char| c.is_ascii_alphanumeric() || "/_.+@~-".contains(*c);
    match path.to_string_lossy().chars().find(|c| !is_plain(c)) {
        Some(found) => Err(ImageError::OddPath { path: path.to_owned(), found }),
        None => Ok(()),
    }
}

/// Builds in the folder `build`, which is empty and is thrown away afterwards.
pub(crate) fn build_image(spec: &ImageSpec, build: &Path, progress: &mut dyn Progress) -> Result<Built> {
    progress.step(Step::Packages);
    let bootstrapped = bootstrap(spec, build, progress)?;
    make_image(spec, &bootstrapped, build, progress)
}

/// The image, once its packages are installed. No other user of the host has a way into the folder from here on: the tree in it has
/// set-user-ID programs, and whatever the specification adds.
fn make_image(
    spec: &ImageSpec,
    bootstrapped: &Bootstrapped,
    build: &Path,
    progress: &mut dyn Progress,
) -> Result<Built> {
    let closed = fs::Permissions::from_mode(PRIVATE_FOLDER);
    fs::set_permissions(build, closed).map_err(ImageError::io("close to others", build))?;
    let tree = Tree::new(bootstrapped.tree.clone())?;
    tree.clean()?;

    let folder = build.join("image");
    make_folder(&folder, OPEN_FOLDER).map_err(ImageError::io("create", &folder))?;
    progress.step(Step::Kernel);
    let kernel = add_kernel(spec, bootstrapped, build, &folder, &tree, progress)?;
    add_extra_files(spec, build, &tree, progress)?;
    progress.step(Step::FileSystem);
    pack_root(tree.root(), &folder.join(FileName::RootErofs.as_str()), progress)?;

    progress.step(Step::Hashing);
    let packages = locked_packages(&bootstrapped.installed, &bootstrapped.records).map_err(|reason| {
        let path = folder.join(LOCK_FILE);
        ImageError::BadLock { path, reason }
    })?;
    let lock = write_lock(spec, kernel, packages, &folder)?;
    write_whole(&folder.join(SPEC_FILE), spec.to_toml().as_bytes())?;
    Ok(Built { folder, name: lock.image_name() })
}

/// Unpacks the kernel's packages, writes `vmlinux` and `initrd`, and returns the kernel's version.
fn add_kernel(
    spec: &ImageSpec,
    bootstrapped: &Bootstrapped,
    build: &Path,
    folder: &Path,
    tree: &Tree,
    progress: &mut dyn Progress,
) -> Result<String> {
    let unpacked = build.join("kernel-tree");
    for package in &bootstrapped.kernel_packages {
        Tool::new("dpkg-deb", "dpkg").arg("-x").arg(package).arg(&unpacked).run(progress)??;
    }
    let boot = unpacked.join("boot");
    let vmlinuz = only_entry(&boot, "vmlinuz-")?;
    let version = vmlinuz.trim_start_matches("vmlinuz-").to_owned();
    let vmlinuz = boot.join(vmlinuz);
    let packed = fs::read(&vmlinuz).map_err(ImageError::io("read", &vmlinuz))?;
    let kernel = extract_vmlinux(&vmlinuz.display().to_string(), &packed)?;
    write_whole(&folder.join(FileName::Vmlinux.as_str()), &kernel)?;

    let places =
        [unpacked.join("usr/lib/modules").join(&version), unpacked.join("lib/modules").join(&version)];
    let place = places.iter().find(|place| place.is_dir()).unwrap_or(&places[1]);
    let modules = ModuleTree::read(place)?;
    let for_boot = modules.in_load_order(&FOR_BOOT)?;
    write_whole(&folder.join(FileName::Initrd.as_str()), &modules_initramfs(&for_boot))?;
    let wanted: Vec<&str> = FOR_SERVICES.into_iter().chain(spec.modules.iter().map(String::as_str)).collect();
    tree.add_modules(&version, &modules.in_load_order(&wanted)?)?;
    Ok(version)
}

/// The one entry of the folder that starts so.
fn only_entry(folder: &Path, start: &str) -> Result<String> {
    let entries = fs::read_dir(folder).map_err(ImageError::io("read", folder))?;
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut found: Vec<String> = names.filter(|name| name.starts_with(start)).collect();
    match found.len() {
        1 => Ok(found.remove(0)),
        count => Err(ImageError::Kernel {
            file: folder.display().to_string(),
            reason: format!("there are {count} files {start}* in it, and one is needed").into(),
        }),
    }
}

pub(crate) fn pack_root(tree: &Path, target: &Path, progress: &mut dyn Progress) -> Result<()> {
    Tool::new("mkfs.erofs", "erofs-utils")
        .args(["-zlz4", "--quiet"])
        .arg(format!("-T{EPOCH}"))
        .arg(format!("-U{ROOT_UUID}"))
        .arg(target)
        .arg(tree)
        .run(progress)??;
    Ok(())
}

/// Writes `image.lock` beside the other files of an image.
pub(crate) fn write_lock(
    spec: &ImageSpec,
    kernel: String,
    packages: Vec<LockedPackage>,
    folder: &Path,
) -> Result<ImageLock> {
    let locked = |file: FileName| {
        let path = folder.join(file.as_str());
        let read = || {
            Ok(LockedFile {
                sha256: Sha256Hash::of_reader(File::open(&path)?)?,
                bytes: fs::metadata(&path)?.len(),
            })
        };
        read().map_err(ImageError::io("read", &path))
    };
    let path = folder.join(LOCK_FILE);
    let lock = ImageLock {
        format: FORMAT,
        spec: spec.key(),
        kernel,
        files: LockedFiles {
            root_erofs: locked(FileName::RootErofs)?,
            vmlinux: locked(FileName::Vmlinux)?,
            initrd: locked(FileName::Initrd)?,
        },
        packages,
    };
    write_whole(&path, lock.to_toml().as_bytes())?;
    Ok(lock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Looks at the folder of a build once its packages are installed.
    struct LookAtFolder<'a> {
        build: &'a Path,
        seen: Vec<u32>,
    }

    impl Progress for LookAtFolder<'_> {
        fn step(&mut self, step: Step) {
            assert_eq!(step, Step::Kernel, "it ends there");
            self.seen.push(fs::metadata(self.build).unwrap().permissions().mode() & 0o7777);
        }
        fn line(&mut self, _: &str) {}
    }

    #[test]
    fn nobody_else_reaches_a_program_of_an_image_while_it_is_built() {
        let folder = tempfile::tempdir().unwrap();
        let build = folder.path();
        fs::set_permissions(build, fs::Permissions::from_mode(OPEN_FOLDER)).unwrap();
        fs::create_dir_all(build.join("tree/etc")).unwrap();
        let (installed, records) = (String::new(), String::new());
        let bootstrapped =
            Bootstrapped { tree: build.join("tree"), kernel_packages: Vec::new(), installed, records };
        let mut progress = LookAtFolder { build, seen: Vec::new() };
        let spec = ImageSpec::built_in("first-look").unwrap();
        assert!(make_image(&spec, &bootstrapped, build, &mut progress).is_err(), "it has no kernel");
        assert_eq!(progress.seen, [0o700]);
    }

    #[test]
    fn a_path_that_apt_or_a_shell_would_read_otherwise_is_refused_by_name() {
        for path in ["/var/cache/tilemark", "/home/a.b/~x@y/c+d_e-f"] {
            check_path(Path::new(path)).unwrap();
        }
        for found in [',', ':', ' ', '"', '\'', '%', '\n', '[', ']', '$', '`', '\\', ';', '\u{f6}'] {
            let refused = check_path(Path::new(&format!("/home/a{found}b"))).unwrap_err();
            assert!(refused.to_string().contains(&format!("{found:?}")), "{refused}");
        }
    }
}
