//! What a lab is made of: QEMU, the program, the two images, and the disks that carry the last three into it.

use crate::cargo::workspace;
use anyhow::{Context, Result, bail, ensure};
use std::{
    fs::File,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::fs::MetadataExt,
    },
    path::{Path, PathBuf},
    process::{Command, Stdio},
};
use tilemark_image::{FileName, Image, ImageCache, ImageError, ImageSpec, Network, Silent, agent_initramfs};
use tilemark_record::places::{Places, Surroundings};

/// What the lab's own image holds.
pub(crate) const LAB_IMAGE: &str = "xtask/src/lab/image.toml";
/// The image of the guests in it, where no other is asked for.
pub(crate) const GUEST_IMAGE: &str = "first-look";

/// Everything found, built and opened.
pub(crate) struct Materials {
    pub(crate) qemu: PathBuf,
    pub(crate) vmlinux: PathBuf,
    pub(crate) root: PathBuf,
    pub(crate) initramfs: OwnedFd,
    /// They are on the PATH in the lab.
    pub(crate) programs: Vec<ProgramFile>,
    /// A file system with the image cache.
    pub(crate) cache: OwnedFd,
    /// The file that is its data disk; none: memory.
    pub(crate) disk: Option<PathBuf>,
    /// Whether its processors are pairs of hardware threads.
    pub(crate) has_smt: bool,
    /// Further words for its kernel.
    pub(crate) append: String,
}

/// A program for the lab.
pub(crate) struct ProgramFile {
    pub(crate) path: PathBuf,
    /// What it is called there.
    pub(crate) name: String,
    pub(crate) bytes: u64,
}

impl ProgramFile {
    fn of(path: &Path, name: &str) -> Result<Self> {
        let found = std::fs::metadata(path).with_context(|| format!("no program {}", path.display()))?;
        ensure!(found.is_file(), "{} is not a program", path.display());
        Ok(Self { path: path.to_owned(), name: name.to_owned(), bytes: found.size() })
    }
}

/// What was asked for in addition to the command.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Options {
    /// The program to be tried; none: as it is built here.
    pub(crate) program: Option<PathBuf>,
    /// More programs.
    pub(crate) with: Vec<PathBuf>,
    /// The image of the guests in it, one inside the program.
    pub(crate) image: Option<String>,
    /// The file that is its data disk and stays when it ends; none: memory, which ends with it.
    pub(crate) disk: Option<PathBuf>,
    /// Each socket has one core with two hardware threads, in place of two cores.
    pub(crate) smt: bool,
    /// Further words for the command line of its kernel.
    pub(crate) append: Option<String>,
}

impl Materials {
    /// Finds or builds all.
    pub(crate) fn gather(options: Options) -> Result<Self> {
        let program = options.program.map_or_else(build_program, Ok)?;
        let mut programs = vec![ProgramFile::of(&program, "tilemark")?];
        for path in &options.with {
            let name = path.file_name().map(|name| name.to_string_lossy()).unwrap_or_default();
            programs.push(ProgramFile::of(path, &name)?);
        }
        let cache = Places::of(&Surroundings::of_this_process()).cache;
        let lab = image(&program, &cache, LAB_IMAGE, &ImageSpec::read(&workspace().join(LAB_IMAGE))?)?;
        let guest = options.image.as_deref().unwrap_or(GUEST_IMAGE);
        let guest = image(&program, &cache, guest, &ImageSpec::built_in(guest)?)?;
        Ok(Self {
            qemu: super::qemu::find()?,
            vmlinux: lab.path(FileName::Vmlinux),
            root: lab.path(FileName::RootErofs),
            initramfs: initramfs(&lab)?,
            programs,
            cache: cache_disk(&cache, &guest.name().to_string())?,
            disk: options.disk,
            has_smt: options.smt,
            append: options.append.unwrap_or_default(),
        })
    }
}

/// The program as cargo builds it for tests.
pub(crate) fn build_program() -> Result<PathBuf> {
    crate::cargo::cargo(&["build", "--package", "tilemark", "--quiet", "--locked"])?;
    Ok(crate::cargo::target().join("debug/tilemark"))
}

/// The image from the cache; the program builds the one that is missing, which needs root.
pub(crate) fn image(program: &Path, cache: &Path, name: &str, spec: &ImageSpec) -> Result<Image> {
    let find = || ImageCache::open(cache)?.ensure(spec, Network::Forbidden, &mut Silent);
    match find() {
        Err(ImageError::NotCached { .. }) => {
            eprintln!("lab: building the image `{}`, once; it stays in {}", spec.name, cache.display());
            let status = Command::new(program)
                .args(["image", "build", name])
                .current_dir(workspace())
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .status()
                .with_context(|| format!("{} does not start", program.display()))?;
            ensure!(status.success(), "the image `{}` was not built (its reason is above)", spec.name);
            Ok(find()?)
        }
        found => Ok(found?),
    }
}

/// The image's modules and the agent, joined.
fn initramfs(lab: &Image) -> Result<OwnedFd> {
    let agent = workspace().join("target/agent/x86_64-unknown-linux-gnu/release/tilemark-agent");
    let agent = std::fs::read(&agent)
        .with_context(|| format!("no agent at {}: `cargo build` makes it", agent.display()))?;
    let path = lab.path(FileName::Initrd);
    let mut joined = std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
    joined.extend(agent_initramfs(&agent));
    Ok(tilemark_sys::process::program_in_memory("lab-initramfs", &joined)?)
}

fn names_in(folder: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))?;
    entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
}

/// A read-only file system in memory, which holds the cache with the image of this name and no other.
fn cache_disk(cache: &Path, kept: &str) -> Result<OwnedFd> {
    let disk = File::from(rustix::fs::memfd_create("lab-cache", rustix::fs::MemfdFlags::empty())?);
    let mut tool = Command::new("mkfs.erofs");
    // What else the cache holds may be large, such as databases.
    for name in names_in(cache)?.iter().filter(|name| *name != "images") {
        tool.arg(format!("--exclude-path={name}"));
    }
    let images = names_in(&cache.join("images"))?;
    for name in images.iter().filter(|name| *name != kept && *name != "by-spec") {
        tool.arg(format!("--exclude-path=images/{name}"));
    }
    let output = tool
        // An image that another program builds meanwhile is in a folder whose name begins with a dot; it may be gone
        // when the tool comes to it. The tool looks for extended attributes even in what is excluded.
        .args(["--exclude-regex=(^|/)\\.", "-x-1", "--quiet"])
        .arg(format!("/proc/self/fd/{}", disk.as_raw_fd()))
        .arg(cache)
        .stdin(Stdio::null())
        .output()
        .context("mkfs.erofs does not start; to fix: install `erofs-utils`")?;
    if !output.status.success() {
        bail!(
            "mkfs.erofs could not pack the image cache: {}",
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    rustix::io::fcntl_setfd(&disk, rustix::io::FdFlags::CLOEXEC)?;
    Ok(disk.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::{create_dir, create_dir_all, remove_dir_all, write};
    use std::io::Read;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn a_cache_is_packed_while_another_program_builds_an_image_in_it() {
        let cache = tempfile::tempdir().unwrap();
        let images = cache.path().join("images");
        create_dir_all(images.join("by-spec")).unwrap();
        create_dir(images.join("kept")).unwrap();
        write(images.join("kept/root.erofs"), "the image that is asked for").unwrap();
        create_dir(images.join("other")).unwrap();
        write(images.join("other/root.erofs"), "another image").unwrap();
        let is_packed = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_packed.load(Ordering::Relaxed) {
                    let build = images.join(".build-other");
                    create_dir(&build).unwrap();
                    (0..20).for_each(|file| write(build.join(file.to_string()), "").unwrap());
                    write(images.join("by-spec/.other"), "").unwrap();
                    std::fs::remove_file(images.join("by-spec/.other")).unwrap();
                    remove_dir_all(build).unwrap();
                }
            });
            let disks: Vec<_> = (0..30).map(|_| cache_disk(cache.path(), "kept")).collect();
            is_packed.store(true, Ordering::Relaxed);
            for disk in disks {
                let mut packed = Vec::new();
                File::from(disk.unwrap()).read_to_end(&mut packed).unwrap();
                let holds = |text: &str| packed.windows(text.len()).any(|part| part == text.as_bytes());
                assert!(holds("the image that is asked for") && !holds("another image"));
            }
        });
    }
}
