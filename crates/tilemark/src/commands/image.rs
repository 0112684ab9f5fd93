//! `tilemark image`

use crate::{
    arguments::ImageCommand,
    carried::PROGRAM,
    places::{places, roots_are_apart},
    screen::{self, Form, Watcher},
};
use std::process::ExitCode;
use tilemark_run::{
    image::build,
    image::cache::{self, Unwanted},
    image::{shell, show},
    job::types::{ImageJob, ImageReady},
    plan::image_asked::ImageAsked,
};

/// Builds, lists, moves and removes images.
pub(crate) fn image(command: ImageCommand) -> ExitCode {
    match command {
        ImageCommand::Build { image, refresh, offline, json } => {
            let places = places();
            let mut watcher = Watcher::new();
            let built = ImageAsked::called(&image).and_then(|image| {
                // Mistakes of a specification are reported to everybody, before anything is begun.
                let spec = image.spec()?.clone();
                let job = ImageJob { spec, cache: places.cache.clone(), offline, refresh };
                build::build(&places, job, &mut watcher)
            });
            drop(watcher);
            screen::show(built, Form::of(json.json), described)
        }
        ImageCommand::Show { image, json } => {
            screen::show(show::show(&places(), &image), Form::of(json.json), |shown| shown.text(&image))
        }
        ImageCommand::Shell { image, offline, command } => {
            let mut watcher = Watcher::new();
            let ended = shell::shell(&PROGRAM, &places(), &image, &command, offline, &mut watcher);
            drop(watcher);
            match ended {
                Ok(code) => ExitCode::from(code),
                Err(failure) => screen::fail(&failure, Form::of(false)),
            }
        }
        ImageCommand::List(flags) => list(Form::of(flags.json)),
        ImageCommand::Remove { name, unused, disks, json } => {
            remove(&Unwanted { name, unused, disks }, Form::of(json.json))
        }
        ImageCommand::Export { name, file, json } => {
            let exported = cache::export(&places(), &name, &file);
            if exported.is_ok() {
                screen::note(&format!("Written: {}", file.display()));
            }
            screen::show(exported, Form::of(json.json), described)
        }
        ImageCommand::Import { file, sha256, json } => {
            let imported = cache::import(&places(), &file, sha256.as_deref());
            if imported.is_ok() {
                screen::note(TRUST);
                if !tilemark_run::program::is_root() {
                    screen::note(OWN_CACHE);
                }
            }
            screen::show(imported, Form::of(json.json), described)
        }
    }
}

/// What an imported image may do.
const TRUST: &str = "Its kernel and programs will run as root in guests, and in a sandbox on this host in native twins. \
    They are as trustworthy as whoever gave you the file.";

/// What an ordinary user has imported.
const OWN_CACHE: &str = "It is in your own cache. Runs, which are root's, use root's cache and do not find it there: \
    `sudo tilemark image import FILE` puts it there.";

fn described(image: &ImageReady) -> String {
    let built = image.built_in.map(|span| format!(", built in {}", span.rounded())).unwrap_or_default();
    format!(
        "{}  kernel {}, {}{built}\n  {}",
        image.name,
        image.kernel,
        image.size.rounded(),
        image.folder.display()
    )
}

fn list(form: Form) -> ExitCode {
    let none = format!("No images yet. `tilemark image build` makes one.{}", roots_are_apart("image list"));
    screen::show_list(cache::list(&places()), form, "images", (&none, cache::ListedImage::text))
}

fn remove(unwanted: &Unwanted, form: Form) -> ExitCode {
    let removed = cache::remove(&places(), unwanted);
    let flags = [(unwanted.unused, " --unused"), (unwanted.disks, " --disks")];
    let given: String = flags.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| *flag).collect();
    let none = format!("Nothing to remove.{}", roots_are_apart(&format!("image remove{given}")));
    screen::show_list(removed, form, "removed", (&none, cache::Removed::text))
}
