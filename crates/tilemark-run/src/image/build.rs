//! Images: built by an engine inside its own namespaces, listed and moved by the command itself.

use crate::{
    failure::{Failure, state_failed},
    job::command::{Afterwards, FinishedJob, do_job, not_restored, other_job_done},
    job::messages::CommandLink,
    job::state_folder::StateFolder,
    job::types::{ImageJob, ImageReady, Job, JobDone},
    plan::image_asked::ImageAsked,
    program::need_root,
    progress::{Listener, Progress},
};
use std::time::{Duration, Instant};
use tilemark_image::{FileName, Image, ImageCache, ImageError, InCache, Network, Step};
use tilemark_record::places::Places;
use tilemark_units::{Bytes, Span};

/// How long a build takes on two processors, for the progress line: measured, see docs/benchmarks.md.
const BUILD_SECONDS: f64 = 60.0;

/// Finds an image in the cache, or has an engine build it.
pub fn obtain(
    places: &Places,
    image: &ImageAsked,
    offline: bool,
    listener: &mut dyn Listener,
) -> Result<ImageReady, Failure> {
    let spec = image.spec()?;
    let cache = ImageCache::open(&places.cache)?;
    if let Some(image) = cache.cached(spec)? {
        return Ok(ready(&image, None));
    }
    if offline && matches!(ImageCache::look(&places.cache, spec)?, InCache::Missing) {
        return Err(ImageError::NotCached { name: spec.name.clone(), cache: places.cache.clone() }.into());
    }
    listener.note(&format!(
        "building the guest image `{}`, once; it stays in {}",
        spec.name,
        places.cache.display()
    ));
    let job = ImageJob { spec: spec.clone(), cache: places.cache.clone(), offline, refresh: false };
    build(places, job, listener)
}

/// Has an engine build an image.
pub fn build(places: &Places, job: ImageJob, listener: &mut dyn Listener) -> Result<ImageReady, Failure> {
    need_root("building an image")?;
    let id = format!("image-{}", std::process::id());
    let state = StateFolder::create(&places.state, &id, "image", None).map_err(state_failed)?;
    let FinishedJob { done, found } =
        do_job(Job::Image(job), &state, Vec::new(), Afterwards::Gone, listener)?;
    if let Some(failure) = not_restored("the image is built", &found) {
        return Err(failure);
    }
    match done {
        JobDone::Image(ready) => Ok(ready),
        JobDone::Run(_) | JobDone::Guests(_) => Err(other_job_done()),
    }
}

/// The engine's part.
pub(crate) fn ensure(job: &ImageJob, link: &CommandLink) -> Result<JobDone, Failure> {
    let cache = ImageCache::open(&job.cache)?;
    let network = if job.offline { Network::Forbidden } else { Network::Allowed };
    let began = Instant::now();
    let mut progress = BuildProgress { link, began, step: String::new(), last: None };
    let image = if job.refresh {
        cache.refresh(&job.spec, &mut progress)
    } else {
        cache.ensure(&job.spec, network, &mut progress)
    };
    let image = image?;
    Ok(JobDone::Image(ready(&image, Some(Span::new(Duration::from_secs(began.elapsed().as_secs()))))))
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

struct BuildProgress<'a> {
    link: &'a CommandLink,
    began: Instant,
    step: String,
    last: Option<Instant>,
}

impl BuildProgress<'_> {
    fn report(&self) {
        let seconds_done = self.began.elapsed().as_secs_f64();
        let seconds_expected = BUILD_SECONDS.max(seconds_done);
        self.link.progress(Progress {
            doing: format!("image: {}", self.step),
            seconds_done,
            seconds_expected,
            seconds_at_most: None,
        });
    }
}

impl tilemark_image::Progress for BuildProgress<'_> {
    fn step(&mut self, step: Step) {
        self.step = step.to_string();
        self.report();
    }

    fn line(&mut self, _: &str) {
        // A tool prints hundreds of lines; twice a second is enough to see that it lives.
        if self.last.is_none_or(|last| last.elapsed() > Duration::from_millis(500)) {
            self.last = Some(Instant::now());
            self.report();
        }
    }
}
