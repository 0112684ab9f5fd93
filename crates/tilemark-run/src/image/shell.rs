//! A shell in a copy of an image that is thrown away: in namespaces of its own, without a network, behind the walls of native twins.
//!
//! ```text
//! this thread, in a mount namespace of its own: the image's root mounted, over the cache as only this thread sees it
//!   -> the agent, process 1 of new namespaces: overlay in memory, pivot_root -> the shell, behind walls
//! ```
//! All of it goes with the shell; nothing that it wrote is kept.

use crate::{
    failure::{Failure, FailureCode},
    image::{build::obtain, show::by_hash, streams::Streams},
    plan::image_asked::ImageAsked,
    program::{Program, need_root},
    progress::Listener,
};
use rustix::{
    mount::{MountFlags, mount},
    process::Signal,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
};
use tilemark_image::{FileName, mount_root};
use tilemark_record::places::Places;
use tilemark_sys::{
    namespace::{Namespaces, own_mounts},
    process::{Ended, Spawn, program_in_memory},
};

/// What may be written in the shell: it is memory of the host.
const WRITTEN_MAX: u64 = 1 << 30;
/// What a shell answers for a program that a signal ended is this and the signal's number (POSIX, "Exit Status for Commands").
const SIGNALLED: i32 = 128;

/// Runs a command in a copy of an image, or a shell where there is none; returns the code that it ended with.
///
/// # Errors
/// When the image cannot be had, or the host does not make the namespaces.
pub fn shell(
    program: &Program,
    places: &Places,
    image: &str,
    command: &[String],
    offline: bool,
    listener: &mut dyn Listener,
) -> Result<u8, Failure> {
    need_root("a shell in an image")?;
    let folder = match by_hash(&places.cache, image)? {
        Some(image) => image.folder().to_owned(),
        None => obtain(places, &ImageAsked::called(image)?, offline, listener)?.folder,
    };
    let root = folder.join(FileName::RootErofs.as_str());
    let remedy = "check where the output goes, such as the free space there";
    let copying = |error: io::Error| {
        let message = "cannot copy what a shell in an image reads and writes";
        Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy)
    };
    let mut streams = Streams::of_caller().map_err(copying)?;
    // Mount namespaces are a thread's own; what it mounts goes with it and all that it starts.
    let inside = || inside(program, &places.cache, &root, command, &mut streams);
    let ended = thread::scope(|scope| scope.spawn(inside).join());
    let ended = ended.unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    streams.finish().map_err(copying)?;
    Ok(u8::try_from(ended).unwrap_or(u8::MAX))
}

fn inside(
    program: &Program,
    cache: &Path,
    root: &Path,
    command: &[String],
    streams: &mut Streams,
) -> Result<i32, Failure> {
    let step = |what: &'static str| {
        move |error: io::Error| {
            let message = format!("cannot {what} for a shell in an image");
            Failure::caused_by(
                &error,
                FailureCode::HostUnfit,
                message,
                "check that root may make namespaces and mounts here",
            )
        }
    };
    own_mounts().map_err(|error| step("make a mount namespace")(error.into()))?;
    let place = PathBuf::from(cache);
    // The image's file is held open below the memory that hides its folder.
    let image = fs::File::open(root).map_err(step("open the image"))?;
    let by_descriptor = PathBuf::from(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&image)));
    mount("tmpfs", &place, "tmpfs", MountFlags::NODEV | MountFlags::NOSUID, None)
        .map_err(|error| step("mount memory")(error.into()))?;
    let (lower, scratch) = (place.join("image"), place.join("scratch"));
    for folder in [&lower, &scratch] {
        fs::create_dir(folder).map_err(step("make a folder"))?;
    }
    mount_root(&by_descriptor, &lower)?;
    let namespaces =
        Namespaces::PID | Namespaces::MOUNT | Namespaces::UTS | Namespaces::IPC | Namespaces::NETWORK;
    let terminal = std::env::var("TERM").unwrap_or_else(|_| "dumb".to_owned());
    let spawn = || {
        let agent = program_in_memory("tilemark-agent", program.agent)?;
        Spawn::descriptor(agent, "tilemark-agent")?
            .arguments([Path::new("shell"), &lower, &scratch])?
            .argument(WRITTEN_MAX.to_string())?
            .arguments(command)?
            .environment(["PATH=/usr/sbin:/usr/bin:/sbin:/bin".to_owned(), format!("TERM={terminal}")])
    };
    let spawn =
        spawn().map_err(step("prepare the start"))?.namespaces(namespaces).dies_with_thread(Signal::KILL);
    let child = streams.hand(spawn).start().map_err(|error| {
        Failure::from_error(FailureCode::HostUnfit, &error, "check that root may make namespaces here")
    })?;
    streams.copy_input();
    match child.wait().map_err(step("wait"))? {
        Ended::Exited(code) => Ok(code),
        Ended::Signalled(signal) => Ok(SIGNALLED + signal),
    }
}
