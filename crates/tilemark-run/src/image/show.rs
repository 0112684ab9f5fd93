//! What an image holds.

use crate::{failure::Failure, plan::image_asked::ImageAsked};
use serde::Serialize;
use std::path::{Path, PathBuf};
use tilemark_image::{
    BUILT_IN_NAMES, FileName, FileSource, Image, ImageCache, ImageError, ImageSpec, InCache,
};
use tilemark_plan::{builtin::builtin, image_needs::served_by, plan::shell_word, program::Program};
use tilemark_record::places::{Places, Surroundings};
use tilemark_units::Bytes;

/// An image for a person to look at.
#[derive(Debug, Clone, Serialize)]
pub struct ShownImage {
    /// What it was built from.
    pub spec: String,
    /// Its name: the hash of its lock. Nothing before it is built.
    pub name: Option<String>,
    /// Where its files are. Nothing before it is built.
    pub folder: Option<PathBuf>,
    /// The cache that it is, or will be, in.
    pub cache: PathBuf,
    /// Kernel of its guests: the version, or the package before it is built.
    pub kernel: String,
    /// Bytes of its files. Nothing before it is built.
    pub bytes: Option<u64>,
    /// What its guests can serve. Before it is built, what packages bring along is not known.
    pub roles: Vec<&'static str>,
    /// Packages that were asked for.
    pub asked: Vec<String>,
    /// Files beside the packages'.
    pub files: Vec<ShownFile>,
    /// Every package with its version. Nothing before it is built.
    pub packages: Option<Vec<ShownPackage>>,
}

/// A file of an image beside those of its packages.
#[derive(Debug, Clone, Serialize)]
pub struct ShownFile {
    /// Its path in guests.
    pub path: String,
    /// Where it comes from, where that is known.
    pub from: Option<String>,
    /// Its content.
    pub sha256: String,
}

/// A package of an image.
#[derive(Debug, Clone, Serialize)]
pub struct ShownPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
}

/// Looks at an image: one of the cache by its name or the start of it, or one by the name or path by which scenarios ask for it, or of a
/// scenario.
///
/// # Errors
/// When there is none, or it is damaged.
pub fn show(places: &Places, image: &str) -> Result<ShownImage, Failure> {
    let roots = Places::cache_of_root(&Surroundings::of_this_process());
    shown_of(&places.cache, roots.as_deref(), image)
}

/// The same of a user's own cache; what is not there may be in root's, where a run as root looks for it.
pub(crate) fn shown_of(own: &Path, roots: Option<&Path>, image: &str) -> Result<ShownImage, Failure> {
    if let Some(image) = by_hash(own, image)? {
        return Ok(shown(own, image.spec(), Some(&image)));
    }
    // Root's may not be readable.
    if let Some((roots, Ok(Some(image)))) = roots.map(|roots| (roots, by_hash(roots, image))) {
        return Ok(shown(roots, image.spec(), Some(&image)));
    }
    let asked = ImageAsked::called(image)?;
    let spec = asked.spec()?;
    if let InCache::Built(image) = ImageCache::look(own, spec)? {
        return Ok(shown(own, spec, Some(&image)));
    }
    match roots.map(|roots| (roots, ImageCache::look(roots, spec))) {
        Some((roots, Ok(InCache::Built(image)))) => Ok(shown(roots, spec, Some(&image))),
        _ => Ok(shown(own, spec, None)),
    }
}

/// The image of the cache whose name starts so, where what was given can be such a start and is no name inside the program.
pub(crate) fn by_hash(cache: &Path, start: &str) -> Result<Option<Image>, Failure> {
    let is_name = BUILT_IN_NAMES.contains(&start) || builtin(start).is_some();
    let is_start = !start.is_empty() && !is_name && start.bytes().all(|byte| byte.is_ascii_hexdigit());
    if !is_start || !cache.join("images").exists() {
        return Ok(None);
    }
    match ImageCache::open(cache)?.find(start) {
        Ok(image) => Ok(Some(image)),
        Err(ImageError::UnknownImage { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

fn shown(cache: &Path, spec: &ImageSpec, built: Option<&Image>) -> ShownImage {
    let lock = built.map(Image::lock);
    let names: Vec<&str> = match lock {
        Some(lock) => lock.packages.iter().map(|package| package.name.as_str()).collect(),
        None => spec.packages.iter().filter_map(|package| package.split('=').next()).collect(),
    };
    let has = |program: &Program| program.packages.iter().any(|package| names.contains(package));
    let files = spec.files.iter().map(|file| ShownFile {
        path: file.path.clone(),
        from: match &file.source {
            FileSource::Url(url) => Some(url.clone()),
            FileSource::Host { folder, name } => Some(folder.join(name).display().to_string()),
            FileSource::Text(_) => Some("the scenario's text".to_owned()),
            FileSource::InImage => None,
        },
        sha256: file.sha256.to_string(),
    });
    ShownImage {
        spec: spec.name.clone(),
        name: built.map(|image| image.name().to_string()),
        folder: built.map(|image| image.folder().to_owned()),
        cache: cache.to_owned(),
        kernel: lock.map_or_else(|| spec.kernel.clone(), |lock| lock.kernel.clone()),
        bytes: built.map(|image| FileName::ALL.iter().map(|file| image.locked(*file).bytes).sum()),
        roles: served_by(has),
        asked: spec.packages.clone(),
        files: files.collect(),
        packages: lock.map(|lock| {
            let shown = |package: &tilemark_image::LockedPackage| ShownPackage {
                name: package.name.clone(),
                version: package.version.clone(),
            };
            lock.packages.iter().map(shown).collect()
        }),
    }
}

impl ShownImage {
    /// For a person who asked for it by this name.
    pub fn text(&self, asked: &str) -> String {
        let mut lines = vec![format!("Image     {}", self.spec)];
        match (&self.name, &self.folder, self.bytes) {
            (Some(name), Some(folder), Some(bytes)) => {
                lines.push(format!("Name      {name}"));
                lines.push(format!("Size      {}", Bytes::new(bytes).rounded()));
                lines.push(format!("Folder    {}", folder.display()));
            }
            _ => lines.push(format!(
                "Name      not built yet: the first run that needs it builds it, or `sudo tilemark image build {}`",
                shell_word(asked)
            )),
        }
        lines.push(format!("Cache     {}", self.cache.display()));
        lines.push(format!("Kernel    {}", self.kernel));
        lines.push(format!("Roles     {}", self.roles.join(", ")));
        lines.push(format!("Asked     {}", self.asked.join(", ")));
        let file = |file: &ShownFile| {
            let from = file.from.as_ref().map(|from| format!("  from {from}")).unwrap_or_default();
            format!("File      {}  sha256 {}{from}", file.path, &file.sha256[..12])
        };
        lines.extend(self.files.iter().map(file));
        if let Some(packages) = &self.packages {
            lines.push(format!("Packages  {}", packages.len()));
            lines.extend(packages.iter().map(|package| format!("  {} {}", package.name, package.version)));
        }
        lines.join("\n")
    }
}
