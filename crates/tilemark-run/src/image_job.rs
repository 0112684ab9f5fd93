//! Images: built by an engine inside its own namespaces, listed and moved by the command itself.

use crate::{
    conduct::{self, Afterwards, Conducted, Listener, conduct},
    engine::Teller,
    job::{ImageJob, ImageReady, Job, JobDone},
    measure::state_failed,
    state::StateFolder,
    wire::{Failure, FailureCode, Progress},
};
use std::{
    path::Path,
    time::{Duration, Instant},
};
use tilemark_image::{FileName, Image, ImageCache, ImageError, ImageSpec, Network, Step};
use tilemark_record::places::Places;
use tilemark_units::{Bytes, Span};

/// How long a build takes on two processors, for the progress line: measured, see docs/benchmarks.md.
const BUILD_SECONDS: f64 = 60.0;

/// Finds an image in the cache, or has an engine build it.
pub fn obtain(
    places: &Places,
    image: &str,
    offline: bool,
    listener: &mut dyn Listener,
) -> Result<ImageReady, Failure> {
    let job = ImageJob { spec: image.to_owned(), cache: places.cache.clone(), offline, refresh: false };
    let spec = spec_of(image)?;
    let cache = ImageCache::open(&places.cache).map_err(image_failed)?;
    match cache.ensure(&spec, Network::Forbidden, &mut tilemark_image::Silent) {
        Ok(image) => return Ok(ready(&image, None)),
        Err(ImageError::NotCached { .. }) if !offline => {}
        Err(error) => return Err(image_failed(error)),
    }
    listener.note(&format!(
        "building the guest image `{}`, once; it stays in {}",
        spec.name,
        places.cache.display()
    ));
    build(places, job, listener)
}

/// Has an engine build an image.
pub fn build(places: &Places, job: ImageJob, listener: &mut dyn Listener) -> Result<ImageReady, Failure> {
    // A specification with mistakes is told to everybody, before anything is begun.
    spec_of(&job.spec)?;
    crate::need_root("building an image")?;
    let id = format!("image-{}", std::process::id());
    let state = StateFolder::create(&places.state, &id, "image", None).map_err(state_failed)?;
    let Conducted { done, found } = conduct(Job::Image(job), &state, Vec::new(), Afterwards::Gone, listener)?;
    if let Some(failure) = conduct::not_restored("the image is built", &found) {
        return Err(failure);
    }
    match done {
        JobDone::Image(ready) => Ok(ready),
        JobDone::Run(_) | JobDone::Guests(_) => {
            Err(Failure::told(FailureCode::Bug, "the engine did another job than it was given", "report it"))
        }
    }
}

/// The engine's part.
pub(crate) fn ensure(job: &ImageJob, teller: &Teller) -> Result<JobDone, Failure> {
    let spec = spec_of(&job.spec)?;
    let cache = ImageCache::open(&job.cache).map_err(image_failed)?;
    let network = if job.offline { Network::Forbidden } else { Network::Allowed };
    let began = Instant::now();
    let mut progress = Telling { teller, began, step: String::new(), last: None };
    let image = if job.refresh {
        cache.refresh(&spec, &mut progress)
    } else {
        cache.ensure(&spec, network, &mut progress)
    };
    let image = image.map_err(image_failed)?;
    Ok(JobDone::Image(ready(&image, Some(Span::new(Duration::from_secs(began.elapsed().as_secs()))))))
}

/// A name inside the program, or the path of an `image.toml`.
fn spec_of(image: &str) -> Result<ImageSpec, Failure> {
    if !image.contains('/') && !image.ends_with(".toml") {
        return ImageSpec::built_in(image).map_err(image_failed);
    }
    ImageSpec::read(Path::new(image)).map_err(|error| match error {
        ImageError::Io { .. } => {
            let remedy = "check the path; `first-look` is the image inside the program";
            Failure::new(FailureCode::BadInput, &error, remedy)
        }
        error => image_failed(error),
    })
}

/// An image as the command shows it.
pub fn ready(image: &Image, built_in: Option<Span>) -> ImageReady {
    let locked = FileName::ALL.map(|file| (file, image.locked(file)));
    ImageReady {
        name: image.name().to_string(),
        folder: image.folder().to_owned(),
        size: locked.iter().map(|(_, file)| Bytes::new(file.bytes)).sum(),
        built_in,
        kernel: image.lock().kernel.clone(),
        hashes: locked.iter().map(|(name, file)| (name.to_string(), file.sha256.to_string())).collect(),
    }
}

/// Images that fail are the host's matter, but for a wrong wish.
pub fn image_failed(error: ImageError) -> Failure {
    let remedy = error.remedy().into_owned();
    let code = match &error {
        ImageError::BadSpec { .. }
        | ImageError::UnknownSpec { .. }
        | ImageError::UnknownImage { .. }
        | ImageError::AmbiguousImage { .. }
        | ImageError::BadDiskName { .. }
        | ImageError::BadArchive { .. }
        | ImageError::OtherImage { .. }
        | ImageError::ForBuiltIn { .. }
        | ImageError::SuiteNotFound { .. }
        | ImageError::PackagesNotFound { .. } => FailureCode::BadInput,
        ImageError::NotCached { .. }
        | ImageError::NotRoot { .. }
        | ImageError::OddPath { .. }
        | ImageError::ToolMissing { .. }
        | ImageError::NoAptSource { .. }
        | ImageError::MirrorUnreachable { .. }
        | ImageError::ToolFailed { .. }
        | ImageError::ExtraFile { .. }
        | ImageError::DiskFull { .. }
        | ImageError::DiskShort { .. }
        | ImageError::StillMounted { .. }
        | ImageError::Kernel { .. }
        | ImageError::ModuleMissing { .. }
        | ImageError::HashMismatch { .. }
        | ImageError::SizeMismatch { .. }
        | ImageError::BadLock { .. }
        | ImageError::StoreBusy { .. }
        | ImageError::StoreMount { .. }
        | ImageError::Loop { .. }
        | ImageError::Clone { .. }
        | ImageError::Io { .. } => FailureCode::HostUnfit,
    };
    Failure::new(code, &error, remedy)
}

struct Telling<'a> {
    teller: &'a Teller,
    began: Instant,
    step: String,
    last: Option<Instant>,
}

impl Telling<'_> {
    fn tell(&self) {
        let seconds_done = self.began.elapsed().as_secs_f64();
        let seconds_expected = BUILD_SECONDS.max(seconds_done);
        self.teller.progress(Progress {
            doing: format!("image: {}", self.step),
            seconds_done,
            seconds_expected,
        });
    }
}

impl tilemark_image::Progress for Telling<'_> {
    fn step(&mut self, step: Step) {
        self.step = step.to_string();
        self.tell();
    }

    fn line(&mut self, _: &str) {
        // A tool prints hundreds of lines; twice a second is enough to see that it lives.
        if self.last.is_none_or(|last| last.elapsed() > Duration::from_millis(500)) {
            self.last = Some(Instant::now());
            self.tell();
        }
    }
}
