//! Images in the cache: listed and moved by the command itself.

use crate::{
    image_job::{image_failed, ready},
    job::ImageReady,
    wire::Failure,
};
use serde::Serialize;
use std::path::Path;
use tilemark_image::{ImageCache, Silent, Standing};
use tilemark_record::places::Places;

/// An image as a list shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ListedImage {
    /// Its name: the hash of its lock.
    pub name: String,
    /// What it was built from.
    pub spec: Option<String>,
    /// Kernel of its guests.
    pub kernel: Option<String>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Whether it is what its specification leads to.
    pub current: bool,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl ListedImage {
    /// A line for a person.
    pub fn text(&self) -> String {
        let short: String = self.name.chars().take(12).collect();
        let replaced = if self.current { "" } else { "  (replaced by a newer one)" };
        match (&self.problem, &self.spec, &self.kernel) {
            (None, Some(spec), Some(kernel)) => format!("{short}  {spec}, kernel {kernel}{replaced}"),
            (problem, ..) => format!("{short}  {}", problem.as_deref().unwrap_or("cannot be read")),
        }
    }
}

/// All images.
pub fn list(places: &Places) -> Result<Vec<ListedImage>, Failure> {
    let cache = ImageCache::open(&places.cache).map_err(image_failed)?;
    let listed = cache.list().map_err(image_failed)?.into_iter().map(|cached| {
        let image = cached.image.as_ref().ok().map(|image| ready(image, None));
        ListedImage {
            name: cached.name.to_string(),
            spec: cached.image.as_ref().ok().map(|image| image.spec().name.clone()),
            kernel: image.as_ref().map(|image| image.kernel.clone()),
            bytes: image.as_ref().map(|image| image.size.get()),
            current: cached.standing == Standing::Current,
            problem: cached.image.as_ref().err().map(ToString::to_string),
        }
    });
    Ok(listed.collect())
}

/// Writes an image into one file.
pub fn export(places: &Places, name: &str, file: &Path) -> Result<ImageReady, Failure> {
    let cache = ImageCache::open(&places.cache).map_err(image_failed)?;
    cache.export(name, file).map(|image| ready(&image, None)).map_err(image_failed)
}

/// Takes an image from a file.
pub fn import(places: &Places, file: &Path) -> Result<ImageReady, Failure> {
    let cache = ImageCache::open(&places.cache).map_err(image_failed)?;
    cache.import(file, &mut Silent).map(|image| ready(&image, None)).map_err(image_failed)
}
