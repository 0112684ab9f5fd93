//! Everything that can go wrong with images and disks, and what to do about it.

use std::borrow::Cow;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use tilemark_units::Sha256Hash;

/// Why an image or a disk is not to be had.
#[derive(Debug, thiserror::Error)]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ImageError {
    /// An `image.toml` with problems; all of them at once.
    #[error("{file} is not a valid image specification:\n  {}", problems.join("\n  "))]
    BadSpec { file: String, problems: Vec<String> },
    /// No built-in specification of this name.
    #[error("no image specification `{name}` is built in; there are: {known}")]
    UnknownSpec { name: String, known: String },
    /// No cached image of this name.
    #[error("no image `{name}` in {cache}; there are: {known}")]
    UnknownImage { name: String, cache: PathBuf, known: String },
    /// More than one image whose name starts so.
    #[error("more than one image starts with `{start}`: {matches}")]
    AmbiguousImage { start: String, matches: String },
    /// A build is needed and the network is not to be used.
    #[error("image `{name}` is not in the cache {cache} and the network may not be used")]
    NotCached { name: String, cache: PathBuf },
    /// Building needs root.
    #[error("building an image needs root, and this is user {user_id}")]
    NotRoot { user_id: u32 },
    /// The tools of a build would read part of the path as something else.
    #[error(
        "no image can be built in {path}: its path holds {found:?}, which apt or a shell would not take for part of a name"
    )]
    OddPath { path: PathBuf, found: char },
    /// A program that is not installed.
    #[error("`{tool}` is not installed")]
    ToolMissing { tool: String, package: &'static str },
    /// apt knows no archive to take the suite from.
    #[error("no source of apt in {folder} has the suite `{suite}`, or any other of Debian")]
    NoAptSource { suite: String, folder: PathBuf },
    /// The archive could not be reached.
    #[error("cannot reach the package archive; the last that apt said:\n{output}")]
    MirrorUnreachable { output: String },
    /// The archive was reached and has no such suite.
    #[error("the package archive has no suite `{suite}`; the last that apt said:\n{output}")]
    SuiteNotFound { suite: String, output: String },
    /// Packages that the archive does not have.
    #[error("the archive of `{suite}` has no package {}", names.join(", "))]
    PackagesNotFound { suite: String, names: Vec<String> },
    /// A tool failed for another reason.
    #[error("`{tool}` failed ({status}); the last that it said:\n{output}")]
    ToolFailed { tool: String, status: ExitStatus, output: String },
    /// An extra file that could not be fetched as promised.
    #[error("cannot fetch {url} with the stated SHA-256; the last that apt said:\n{output}")]
    ExtraFile { url: String, output: String },
    /// A file of the host that is not what it was when the image was asked for.
    #[error("{path} has changed while the image with it was built")]
    FileChanged { path: PathBuf },
    /// A file that only an image that was built already has.
    #[error("nothing says where the file {path} of the image comes from")]
    NoSource { path: String },
    /// No room.
    #[error("the disk of {path} is full")]
    DiskFull { path: PathBuf },
    /// Too little room to begin.
    #[error("{path} has {free_mib} MiB free, and {what} needs {needed_mib} MiB")]
    DiskShort { path: PathBuf, free_mib: u64, needed_mib: u64, what: &'static str },
    /// A build was interrupted and something is still mounted in what it left.
    #[error("an interrupted build left a mount at {mount}")]
    StillMounted { mount: PathBuf },
    /// A kernel that cannot be taken apart.
    #[error("cannot take the kernel out of {file}: {reason}")]
    Kernel { file: String, reason: Cow<'static, str> },
    /// A module that guests need and the kernel lacks.
    #[error("kernel {kernel} has no module `{module}`, neither built in nor as a file")]
    ModuleMissing { kernel: String, module: String },
    /// A file of an image is not what the lock says.
    #[error("{path} has changed: its SHA-256 is {found}, and image.lock says {expected}")]
    HashMismatch { path: PathBuf, expected: Sha256Hash, found: Sha256Hash },
    /// A file of an image has another size than the lock says.
    #[error("{path} has changed: it has {found} bytes, and image.lock says {expected}")]
    SizeMismatch { path: PathBuf, expected: u64, found: u64 },
    /// A lock that cannot be read, or not of the form that this version writes.
    #[error("cannot read {path}: {reason}")]
    BadLock { path: PathBuf, reason: String },
    /// A file that is no exported image, or a damaged one.
    #[error("{path} is not a whole exported image: {reason}")]
    BadArchive { path: PathBuf, reason: String },
    /// An exported image that is not the one that was asked for.
    #[error("{path} holds the image {found}, and {expected} was asked for")]
    OtherImage { path: PathBuf, expected: Sha256Hash, found: Sha256Hash },
    /// An exported image that runs of a built-in image or scenario would use, and nobody said that it is the right one.
    #[error("runs of {of} would use {path} from now on, and nothing proves that it is the image you want")]
    ForBuiltIn { path: PathBuf, of: String },
    /// An exported image with the name of that of a built-in image or scenario, and nobody said that it is the right one.
    #[error("{path} has the name of {of}, and nothing proves that it is the image you want")]
    NamedAsBuiltIn { path: PathBuf, of: String },
    /// An exported image that would be used in place of another, and nobody said that it is the right one.
    #[error(
        "{path} would be used in place of the image {} of `{of}`, and nothing proves that it is the image you want",
        present.short()
    )]
    WouldReplace { path: PathBuf, of: String, present: Sha256Hash },
    /// The disk store is mounted by another run.
    #[error("the disk store {file} is in use")]
    StoreBusy { file: PathBuf },
    /// The file of the disk store holds no file system that can be mounted.
    #[error("cannot mount the disk store {file}")]
    StoreMount { file: PathBuf, source: io::Error },
    /// A disk's name that cannot be a file name.
    #[error("`{name}` cannot be the name of a disk")]
    BadDiskName { name: String },
    /// No loop device could be had.
    #[error("cannot attach {file} to a loop device")]
    Loop { file: PathBuf, source: io::Error },
    /// The file system below cannot clone files.
    #[error("cannot clone the disk {file}")]
    Clone { file: PathBuf, source: io::Error },
    /// Anything else that the operating system refused.
    #[error("cannot {action} {path}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl ImageError {
    /// What the reader should do. No `_` arm: a new variant does not compile until it has a remedy.
    pub fn remedy(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::BadSpec { .. } => "correct the file; the built-in image `first-look` is an example of one",
            Self::UnknownSpec { .. } => "use one of these names, or the path of an image.toml",
            Self::UnknownImage { .. } => "see `tilemark image list`, or build it with `tilemark image build`",
            Self::AmbiguousImage { .. } => "give more digits of the name",
            Self::NotCached { .. } => {
                "allow the network (leave --offline out), or bring the image with `tilemark image import`"
            }
            Self::NotRoot { .. } => {
                "run it as root (sudo), or `tilemark image import` one that was exported elsewhere"
            }
            Self::OddPath { .. } => {
                "set TILEMARK_HOME to a path of letters, digits and `/_.+@~-`, or `tilemark image import` an image that was \
                 exported elsewhere"
            }
            Self::ToolMissing { package, .. } => {
                return Cow::Owned(format!("install it: apt-get install {package}"));
            }
            Self::NoAptSource { .. } => {
                "add a Debian archive to the sources of apt, or build on a Debian host and bring the image with \
                 `tilemark image export` and `import`"
            }
            Self::MirrorUnreachable { .. } => {
                "check the network, the proxy and the sources of apt with `apt-get update`; elsewhere built images \
                 can be imported"
            }
            Self::SuiteNotFound { .. } => {
                "correct `suite` in image.toml (bookworm, trixie, …), or use another mirror"
            }
            Self::PackagesNotFound { .. } => {
                "correct `packages` and `kernel` in image.toml, or choose another `suite`"
            }
            Self::ToolFailed { .. } => "see its output above; nothing was left in the cache",
            Self::ExtraFile { .. } => "check the URL and the SHA-256 in image.toml",
            Self::FileChanged { .. } => "leave the file alone until the image is built",
            Self::NoSource { .. } => {
                "give the file a `url` in image.toml, or bring it with a scenario's `[image.files]`"
            }
            Self::DiskFull { .. } | Self::DiskShort { .. } => {
                "free some room, or choose another place for the cache with TILEMARK_HOME"
            }
            Self::StillMounted { .. } => "unmount it (umount -R) and try again",
            Self::Kernel { .. } => "choose another `kernel` in image.toml, such as linux-image-cloud-amd64",
            Self::ModuleMissing { .. } => {
                "choose a `kernel` with virtio, erofs and overlay in image.toml, such as linux-image-cloud-amd64"
            }
            Self::HashMismatch { .. } | Self::SizeMismatch { .. } | Self::BadLock { .. } => {
                "build it again with `tilemark image build --refresh`, or import it again"
            }
            Self::BadArchive { .. } => "export the image again and copy it again",
            Self::OtherImage { .. } => {
                "use it only if you trust where the file comes from: `tilemark image export` prints an image's name"
            }
            Self::ForBuiltIn { .. } | Self::NamedAsBuiltIn { .. } | Self::WouldReplace { .. } => {
                "give the name that `tilemark image export` printed where it was made: --sha256 NAME"
            }
            Self::StoreBusy { .. } => {
                "wait until the other run has ended, or use another cache with TILEMARK_HOME"
            }
            Self::StoreMount { .. } => {
                "check that the kernel has XFS (modprobe xfs); if the file is damaged, remove it: it holds only copies"
            }
            Self::BadDiskName { .. } => "use letters, digits, `-`, `_` and `.`, with a letter or digit first",
            Self::Loop { .. } => {
                "check that the kernel has loop devices (modprobe loop) and that this is root"
            }
            Self::Clone { .. } => {
                "keep disks in the disk store only: its file system shares blocks between copies"
            }
            Self::Io { .. } => {
                "check that the path is there and may be used; what belongs to root needs sudo"
            }
        })
    }

    /// For `map_err` after an operation on `path`. A full disk gets its own error, whoever meets it first.
    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                Self::DiskFull { path: path.to_owned() }
            }
            _ => Self::Io { action, path: path.to_owned(), source },
        }
    }
}
