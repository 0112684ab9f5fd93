//! The cache of images.
//!
//! ```text
//! images/lock             held while something is built or imported
//! images/by-spec/KEY      the name of the image for a specification
//! images/NAME/            image.toml image.lock root.erofs vmlinux initrd
//! images/.build-…/        a build under way, or what an interrupted one left: the next removes it
//! ```
//! A folder NAME appears by renaming, so it is whole or not there.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FlockOperation, flock};
use tempfile::TempDir;
use tilemark_sys::files::{OPEN_FOLDER, PRIVATE_FOLDER, make_folder, open_private};
use tilemark_units::Sha256Hash;

use crate::archive;
use crate::build::{Built, Make, build_image, check_host};
use crate::extend::extend_image;
use crate::files::{keep_folder, remove_unmounted, write_whole};
use crate::image::{Image, SPEC_FILE};
use crate::progress::{Progress, Step};
use crate::spec::{BUILT_IN_NAMES, ImageSpec};
use crate::{ImageError, Result};

const LOCK_FILE: &str = "lock";
const BY_SPEC: &str = "by-spec";
const BUILD_START: &str = ".build-";
/// The name of an image that a scenario makes begins so; the scenario's own name follows.
pub const OF_SCENARIO: &str = "scenario-";

/// Whether what is missing may be built from the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Network {
    /// Build what is missing.
    Allowed,
    /// Refuse instead.
    Forbidden,
}

/// The images of one cache folder.
#[derive(Clone, Debug)]
pub struct ImageCache {
    folder: PathBuf,
}

/// An image in the cache, whole or not.
#[derive(Debug)]
pub struct CachedImage {
    /// Its name.
    pub name: Sha256Hash,
    /// Whether a specification still leads to it.
    pub standing: Standing,
    /// The image, or what is wrong with it.
    pub image: Result<Image>,
}

/// What a cache has for a specification.
#[derive(Debug)]
pub enum InCache {
    /// The image.
    Built(Box<Image>),
    /// Nothing but the host's files is missing in this one.
    BaseBuilt(Box<Image>),
    /// Nothing.
    Missing,
}

/// Whether a specification leads to an image.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// It is what its specification gives.
    Current,
    /// Another was built for its specification since.
    Replaced,
}

/// A specification that is not the user's to give away: an image of it is taken from elsewhere only by its whole name.
#[derive(Clone, Debug)]
pub struct Reserved {
    /// What needs it, for a person: ``the built-in scenario `shop` ``.
    pub of: String,
    /// What it is.
    pub spec: ImageSpec,
}

/// Held while the cache is changed; gone with its process, however that ends.
struct CacheLock {
    _file: File,
}

impl ImageCache {
    /// The cache in this folder (`/var/cache/tilemark` for root), which is made if it is not there.
    pub fn open(cache: &Path) -> Result<Self> {
        let folder = cache.join("images");
        let by_spec = folder.join(BY_SPEC);
        make_folder(&by_spec, OPEN_FOLDER).map_err(ImageError::io("create", &by_spec))?;
        // Absolute, because tools are given paths in it and links in trees are compared with it.
        let folder = folder.canonicalize().map_err(ImageError::io("read", &folder))?;
        Ok(Self { folder })
    }

    /// The image for a specification: the cached one, or else one that is built now.
    ///
    /// A cached one is verified if any of its files was touched since it last was. Building needs root and the network, and belongs into
    /// namespaces of the caller's.
    pub fn ensure(&self, spec: &ImageSpec, network: Network, progress: &mut dyn Progress) -> Result<Image> {
        if let Some(image) = self.cached(spec)? {
            return Ok(image);
        }
        let base = spec.without_own_files();
        let cached_base = base.as_ref().map(|base| self.cached(base)).transpose()?.flatten();
        if network == Network::Forbidden && cached_base.is_none() {
            return Err(ImageError::NotCached { name: spec.name.clone(), cache: self.folder.clone() });
        }
        let make = if cached_base.is_some() { Make::FilesOnly } else { Make::Packages };
        check_host(&self.folder, make)?;
        let lock = self.lock(progress)?;
        // Whoever held the lock may have built just this.
        if let Some(image) = self.cached(spec)? {
            return Ok(image);
        }
        let Some(base) = base else { return self.build(spec, &lock, progress) };
        let base = match self.cached(&base)? {
            Some(image) => image,
            None => self.build(&base, &lock, progress)?,
        };
        self.extend(&base, spec, &lock, progress)
    }

    /// What is cached for a specification, looked at without hashing anything or touching the cache.
    ///
    /// # Errors
    /// When what is there is damaged.
    pub fn look(cache: &Path, spec: &ImageSpec) -> Result<InCache> {
        let cache = Self { folder: cache.join("images") };
        let is_there = |spec: &ImageSpec| {
            let Some(name) = cache.pointed_to(spec.key())? else { return Ok(None) };
            let folder = cache.folder_of(name);
            if folder.is_dir() { Image::open(&folder).map(Some) } else { Ok(None) }
        };
        if let Some(image) = is_there(spec)? {
            return Ok(InCache::Built(Box::new(image)));
        }
        let base = spec.without_own_files().map(|base| is_there(&base)).transpose()?.flatten();
        Ok(base.map_or(InCache::Missing, |base| InCache::BaseBuilt(Box::new(base))))
    }

    /// Builds again with the packages of today, whatever is cached. Older images stay.
    pub fn refresh(&self, spec: &ImageSpec, progress: &mut dyn Progress) -> Result<Image> {
        check_host(&self.folder, Make::Packages)?;
        let lock = self.lock(progress)?;
        let Some(base) = spec.without_own_files() else { return self.build(spec, &lock, progress) };
        let base = self.build(&base, &lock, progress)?;
        self.extend(&base, spec, &lock, progress)
    }

    /// All images, those with problems too, in the order of their names.
    pub fn list(&self) -> Result<Vec<CachedImage>> {
        let mut current = Vec::new();
        for key in self.hashes_in(&self.folder.join(BY_SPEC))? {
            current.extend(self.pointed_to(key)?);
        }
        let images = self.hashes_in(&self.folder)?.into_iter().map(|name| CachedImage {
            name,
            standing: if current.contains(&name) { Standing::Current } else { Standing::Replaced },
            image: Image::open(&self.folder_of(name)),
        });
        Ok(images.collect())
    }

    /// The image whose name starts so; or, if no name does, the current one whose specification is called so.
    pub fn find(&self, name: &str) -> Result<Image> {
        Image::open(&self.folder_of(self.find_name(name)?))
    }

    /// The whole name of such an image, which may be a damaged one.
    pub fn find_name(&self, name: &str) -> Result<Sha256Hash> {
        let listed = self.list()?;
        let by_hash: Vec<&CachedImage> = listed
            .iter()
            .filter(|cached| !name.is_empty() && cached.name.to_string().starts_with(name))
            .collect();
        let called =
            |cached: &&CachedImage| cached.image.as_ref().is_ok_and(|image| image.spec().name == name);
        let is_current = |cached: &&CachedImage| cached.standing == Standing::Current;
        let by_spec: Vec<&CachedImage> = listed.iter().filter(is_current).filter(called).collect();
        let found = if by_hash.is_empty() { by_spec } else { by_hash };
        let names = |images: &mut dyn Iterator<Item = &CachedImage>| {
            images.map(|cached| cached.name.short()).collect::<Vec<_>>().join(", ")
        };
        match found[..] {
            [] if listed.is_empty() => Err(ImageError::UnknownImage {
                name: name.into(),
                cache: self.folder.clone(),
                known: "none".into(),
            }),
            [] => {
                let known = names(&mut listed.iter());
                Err(ImageError::UnknownImage { name: name.into(), cache: self.folder.clone(), known })
            }
            [one] => Ok(one.name),
            _ => {
                let matches = names(&mut found.iter().copied());
                Err(ImageError::AmbiguousImage { start: name.into(), matches })
            }
        }
    }

    /// Images that nothing leads to any more: those that a newer one replaced, those that another version of this program built for a
    /// specification of its own, and of the images that one scenario had made all but the newest. Images of users' specifications are
    /// none of them.
    pub fn unused(&self) -> Result<Vec<Sha256Hash>> {
        let specs = BUILT_IN_NAMES.iter().map(|name| ImageSpec::built_in(name));
        let keys = specs.map(|spec| Ok(spec?.key())).collect::<Result<Vec<Sha256Hash>>>()?;
        let of_other_version = |image: &Image| {
            BUILT_IN_NAMES.contains(&image.spec().name.as_str()) && !keys.contains(&image.lock().spec)
        };
        let is_unused = |cached: &CachedImage| {
            cached.standing == Standing::Replaced || cached.image.as_ref().is_ok_and(of_other_version)
        };
        let listed = self.list()?;
        let older = self.older_of_scenarios(&listed);
        let unused = listed.into_iter().filter(|cached| is_unused(cached) || older.contains(&cached.name));
        Ok(unused.map(|cached| cached.name).collect())
    }

    /// Images of scenarios whose files or packages have changed since: those that are called as a newer one is.
    fn older_of_scenarios(&self, listed: &[CachedImage]) -> Vec<Sha256Hash> {
        let built = |name: Sha256Hash| {
            fs::metadata(self.folder_of(name).join(SPEC_FILE)).and_then(|file| file.modified()).ok()
        };
        let mut newest: BTreeMap<&str, (Option<SystemTime>, Sha256Hash)> = BTreeMap::new();
        let mut older = Vec::new();
        for cached in listed {
            let Ok(image) = &cached.image else { continue };
            let called = image.spec().name.as_str();
            if !called.starts_with(OF_SCENARIO) {
                continue;
            }
            let this = (built(cached.name), cached.name);
            match newest.get_mut(called) {
                Some(known) if *known < this => older.push(std::mem::replace(known, this).1),
                Some(_) => older.push(cached.name),
                None => {
                    newest.insert(called, this);
                }
            }
        }
        older
    }

    /// Removes an image and what leads to it; returns the bytes of its files. The caller sees to it that nobody uses it.
    pub fn remove(&self, name: Sha256Hash, progress: &mut dyn Progress) -> Result<u64> {
        let lock = self.lock(progress)?;
        for key in self.hashes_in(&self.folder.join(BY_SPEC))? {
            if self.pointed_to(key)? == Some(name) {
                let pointer = self.pointer(key);
                fs::remove_file(&pointer).map_err(ImageError::io("remove", &pointer))?;
            }
        }
        // Moved aside first, so that an image is whole or not there; what is interrupted goes with the next build.
        let aside = self.aside(&lock, PRIVATE_FOLDER)?;
        let (place, moved) = (self.folder_of(name), aside.path().join("image"));
        fs::rename(&place, &moved).map_err(ImageError::io("remove", &place))?;
        let bytes = bytes_in(&moved).map_err(ImageError::io("read", &moved))?;
        remove_unmounted(&moved)?;
        Ok(bytes)
    }

    /// Writes an image, verified first, as one file.
    pub fn export(&self, name: &str, file: &Path) -> Result<Image> {
        let image = self.find(name)?;
        image.verify()?;
        archive::write(&image, file)?;
        Ok(image)
    }

    /// Takes in an exported image, verifying every byte; it becomes the current one for its specification.
    ///
    /// An image brings a kernel and programs that run as root in guests, and its own hashes say only that it is whole. So one that
    /// would become that of a built-in name or of what is `reserved`, or would take the place of another image, is refused unless
    /// `expected` is its name; so is one of another name than `expected`.
    pub fn import(
        &self,
        file: &Path,
        expected: Option<Sha256Hash>,
        reserved: &[Reserved],
        progress: &mut dyn Progress,
    ) -> Result<Image> {
        let opened = archive::open(file)?;
        let lock = self.lock(progress)?;
        let aside = self.aside(&lock, PRIVATE_FOLDER)?;
        let folder = aside.path().join("image");
        make_folder(&folder, OPEN_FOLDER).map_err(ImageError::io("create", &folder))?;
        progress.step(Step::Hashing);
        let name = archive::read(opened, file, &folder)?;
        match expected {
            Some(expected) if expected != name => {
                return Err(ImageError::OtherImage { path: file.to_owned(), expected, found: name });
            }
            Some(_) => {}
            None => {
                let spec = ImageSpec::read_kept(&folder.join(SPEC_FILE))?;
                refuse_reserved(file, &spec, reserved)?;
                self.refuse_other(file, &spec, name)?;
            }
        }
        self.keep(&Built { folder, name })
    }

    /// Whoever builds this specification, or has built it, uses the image that is there.
    fn refuse_other(&self, file: &Path, spec: &ImageSpec, name: Sha256Hash) -> Result<()> {
        match self.pointed_to(spec.key())? {
            Some(present) if present != name && self.folder_of(present).is_dir() => {
                Err(ImageError::WouldReplace { path: file.to_owned(), of: spec.name.clone(), present })
            }
            _ => Ok(()),
        }
    }

    fn build(&self, spec: &ImageSpec, lock: &CacheLock, progress: &mut dyn Progress) -> Result<Image> {
        // mmdebstrap and apt's own user must be able to walk through it.
        let aside = self.aside(lock, OPEN_FOLDER)?;
        let built = build_image(spec, aside.path(), progress)?;
        self.keep(&built)
    }

    /// The image with the host's files added.
    fn extend(
        &self,
        base: &Image,
        spec: &ImageSpec,
        lock: &CacheLock,
        progress: &mut dyn Progress,
    ) -> Result<Image> {
        // The base may be somebody else's: its programs with a set-user-id bit lie there while they are copied, and nobody may reach them.
        let aside = self.aside(lock, PRIVATE_FOLDER)?;
        let built = extend_image(base, spec, aside.path(), progress)?;
        self.keep(&built)
    }

    /// Moves a whole image to its place and lets its specification lead to it.
    fn keep(&self, built: &Built) -> Result<Image> {
        let place = self.folder_of(built.name);
        // The same image again is no reason to pull it away from guests that use it; a damaged one is replaced.
        if Image::open(&place).and_then(|image| image.verify()).is_err() {
            if place.exists() {
                remove_unmounted(&place)?;
            }
            keep_folder(&built.folder, &place)?;
        }
        let image = Image::open(&place)?;
        write_whole(&self.pointer(image.lock().spec), format!("{}\n", built.name).as_bytes())?;
        Ok(image)
    }

    /// A new folder to build in, with this mode; what interrupted builds left is removed first. Goes when dropped.
    fn aside(&self, _lock: &CacheLock, mode: u32) -> Result<TempDir> {
        let entries = fs::read_dir(&self.folder).map_err(ImageError::io("read", &self.folder))?;
        for entry in entries {
            let entry = entry.map_err(ImageError::io("read", &self.folder))?;
            if entry.file_name().to_string_lossy().starts_with(BUILD_START) {
                remove_unmounted(&entry.path())?;
            }
        }
        let mut builder = tempfile::Builder::new();
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        let made = builder.prefix(BUILD_START).permissions(permissions).tempdir_in(&self.folder);
        made.map_err(ImageError::io("create a folder in", &self.folder))
    }

    fn lock(&self, progress: &mut dyn Progress) -> Result<CacheLock> {
        let path = self.folder.join(LOCK_FILE);
        let mut lock = || {
            let file = open_private(&path)?;
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    progress.step(Step::Waiting);
                    rustix::io::retry_on_intr(|| flock(&file, FlockOperation::LockExclusive))?;
                }
                other => other?,
            }
            Ok(CacheLock { _file: file })
        };
        lock().map_err(ImageError::io("lock", &path))
    }

    /// The image that the specification leads to, if it is there.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn cached(&self, spec: &ImageSpec) -> Result<Option<Image>> {
        let Some(name) = self.pointed_to(spec.key())? else { return Ok(None) };
        let folder = self.folder_of(name);
        if !folder.is_dir() {
            return Ok(None);
        }
        let image = Image::open(&folder)?;
        image.verify_if_touched(SystemTime::now())?;
        Ok(Some(image))
    }

    fn pointed_to(&self, key: Sha256Hash) -> Result<Option<Sha256Hash>> {
        let path = self.pointer(key);
        match fs::read_to_string(&path) {
            Ok(text) => text
                .trim()
                .parse()
                .map(Some)
                .map_err(|_| ImageError::BadLock { path, reason: "it holds no name of an image".to_owned() }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(ImageError::io("read", &path)(error)),
        }
    }

    fn pointer(&self, key: Sha256Hash) -> PathBuf {
        self.folder.join(BY_SPEC).join(key.to_string())
    }

    fn folder_of(&self, name: Sha256Hash) -> PathBuf {
        self.folder.join(name.to_string())
    }

    fn hashes_in(&self, folder: &Path) -> Result<Vec<Sha256Hash>> {
        let entries = fs::read_dir(folder).map_err(ImageError::io("read", folder))?;
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()?.parse().ok());
        let mut hashes: Vec<Sha256Hash> = names.collect();
        hashes.sort();
        Ok(hashes)
    }
}

/// A run finds an image by what its specification holds, a person by the specification's name: neither may be a reserved one's.
fn refuse_reserved(file: &Path, spec: &ImageSpec, reserved: &[Reserved]) -> Result<()> {
    let mut all = reserved.to_vec();
    for name in BUILT_IN_NAMES {
        let of = format!("the built-in image `{name}`");
        all.insert(0, Reserved { of, spec: ImageSpec::built_in(name)? });
    }
    let path = file.to_owned();
    if let Some(Reserved { of, .. }) = all.iter().find(|own| own.spec.key() == spec.key()) {
        return Err(ImageError::ForBuiltIn { path, of: of.clone() });
    }
    match all.into_iter().find(|own| own.spec.name == spec.name) {
        Some(Reserved { of, .. }) => Err(ImageError::NamedAsBuiltIn { path, of }),
        None => Ok(()),
    }
}

/// Bytes of the files of a folder that has no others below it.
fn bytes_in(folder: &Path) -> io::Result<u64> {
    fs::read_dir(folder)?.map(|entry| Ok(entry?.metadata()?.len())).sum()
}

#[cfg(test)]
#[path = "cache_tests.rs"]
mod tests;
