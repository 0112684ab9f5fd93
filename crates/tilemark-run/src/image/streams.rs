//! The standard streams of a shell in an image. A file, pipe or device of the caller is never handed to it: a program of the image could
//! open it again through `/proc/self/fd` to write, and change its mode. It gets a pipe in its place, and threads of this command copy.
//! A terminal is handed as it is, since a shell needs one; its owner and mode are restored.

use rustix::{
    fs::{Gid, Mode, Stat, Uid, fchmod, fchown, fstat},
    termios::isatty,
};
use std::{
    fs::File,
    io::{self, PipeWriter},
    os::fd::{BorrowedFd, OwnedFd, RawFd},
    thread::{self, JoinHandle},
};
use tilemark_sys::process::Spawn;

/// Pipes for the shell, and what copies its output.
pub(super) struct Streams {
    handed: Vec<(OwnedFd, RawFd)>,
    /// The caller's input, and the pipe that it is copied to.
    input: Option<(File, PipeWriter)>,
    copied: Vec<JoinHandle<io::Result<u64>>>,
    _terminals: Terminals,
}

impl Streams {
    /// Makes a pipe for each standard stream of this process that is not a terminal.
    pub(super) fn of_caller() -> io::Result<Self> {
        Self::of([rustix::stdio::stdin(), rustix::stdio::stdout(), rustix::stdio::stderr()])
    }

    fn of(all: [BorrowedFd<'static>; 3]) -> io::Result<Self> {
        let (handed, copied) = (Vec::new(), Vec::new());
        let mut streams = Self { handed, input: None, copied, _terminals: Terminals::of(all) };
        let [stdin, stdout, stderr] = all;
        if !isatty(stdin) {
            let (reader, writer) = io::pipe()?;
            streams.handed.push((reader.into(), 0));
            streams.input = Some((File::from(stdin.try_clone_to_owned()?), writer));
        }
        let mut before: Option<(Stat, PipeWriter)> = None;
        for (stream, number) in [(stdout, 1), (stderr, 2)] {
            if isatty(stream) {
                continue;
            }
            let found = fstat(stream)?;
            let writer = match before.take() {
                // One pipe for one file: what the shell writes to both stays in its order.
                Some((other, writer)) if is_same(&other, &found) => writer,
                _ => streams.output(stream)?,
            };
            before = Some((found, writer.try_clone()?));
            streams.handed.push((writer.into(), number));
        }
        Ok(streams)
    }

    fn output(&mut self, stream: BorrowedFd<'_>) -> io::Result<PipeWriter> {
        let (mut reader, writer) = io::pipe()?;
        let mut to = File::from(stream.try_clone_to_owned()?);
        self.copied.push(thread::spawn(move || io::copy(&mut reader, &mut to)));
        Ok(writer)
    }

    /// The shell gets the pipes, and this process keeps no end of them that the shell has.
    pub(super) fn hand(&mut self, spawn: Spawn) -> Spawn {
        self.handed.drain(..).fold(spawn, |spawn, (end, number)| spawn.hand(end, number))
    }

    /// Copies the caller's input from now on; to be called when the shell runs, since input that is read is gone. Nobody waits for the
    /// copying: it ends with the input or with this process.
    pub(super) fn copy_input(&mut self) {
        if let Some((mut from, mut writer)) = self.input.take() {
            thread::spawn(move || io::copy(&mut from, &mut writer));
        }
    }

    /// Waits until all that the shell wrote is copied; to be called when it has ended.
    pub(super) fn finish(mut self) -> io::Result<()> {
        self.handed.clear();
        for copied in self.copied.drain(..) {
            match copied.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)) {
                // Whoever read it has ended; the shell's next write found that out too.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => {
                    other?;
                }
            }
        }
        Ok(())
    }
}

fn is_same(one: &Stat, other: &Stat) -> bool {
    (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)
}

/// The caller's terminals, which the image's programs have as their own: they could open them to all users of the host, and that would
/// stay.
struct Terminals(Vec<(BorrowedFd<'static>, Stat)>);

impl Terminals {
    fn of(streams: [BorrowedFd<'static>; 3]) -> Self {
        let terminals = streams.into_iter().filter(|stream| isatty(stream));
        Self(terminals.filter_map(|stream| Some((stream, fstat(stream).ok()?))).collect())
    }
}

impl Drop for Terminals {
    /// Restores owner and mode. Whatever the kernel refuses was not changed by the image either.
    fn drop(&mut self) {
        for (stream, found) in &self.0 {
            let _ = fchown(stream, Some(Uid::from_raw(found.st_uid)), Some(Gid::from_raw(found.st_gid)));
            let _ = fchmod(stream, Mode::from_raw_mode(found.st_mode & 0o7777));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        fs,
        io::{Read, Seek, Write},
        os::{fd::AsFd, unix::fs::MetadataExt},
        path::{Path, PathBuf},
        time::Duration,
    };

    /// Runs a script of a shell with these files as its streams, and returns what is in them then, and whose they are.
    fn run(files: &[PathBuf; 3], script: &str) -> ([String; 3], [(u32, u32); 3]) {
        let open = |file: &PathBuf| File::options().read(true).append(true).open(file).unwrap();
        // For as long as this process is, as the streams of a process are.
        let held = files.each_ref().map(|file| &*Box::leak(Box::new(open(file))));
        let mut streams = Streams::of(held.map(AsFd::as_fd)).unwrap();
        let spawn = Spawn::path(Path::new("/bin/sh")).unwrap().arguments(["-c", script]).unwrap();
        let child = streams.hand(spawn).start().unwrap();
        streams.copy_input();
        child.wait().unwrap();
        streams.finish().unwrap();
        let whose = |file: &PathBuf| fs::metadata(file).map(|found| (found.mode(), found.uid())).unwrap();
        (files.each_ref().map(|file| fs::read_to_string(file).unwrap()), files.each_ref().map(whose))
    }

    #[test]
    fn input_of_a_shell_that_does_not_start_is_left_to_the_next_program() {
        let mut input = tempfile::tempfile().unwrap();
        input.write_all(b"for the next one").unwrap();
        input.rewind().unwrap();
        let input: &File = Box::leak(Box::new(input));
        let streams = Streams::of([input.as_fd(), rustix::stdio::stdout(), rustix::stdio::stderr()]).unwrap();
        thread::sleep(Duration::from_millis(50));
        drop(streams);
        let mut left = String::new();
        (&*input).read_to_string(&mut left).unwrap();
        assert_eq!(left, "for the next one");
    }

    #[test]
    fn a_file_that_is_a_stream_of_the_caller_is_reached_through_a_pipe_only() {
        let folder = tempfile::tempdir().unwrap();
        let files = ["in", "out", "error"].map(|name| folder.path().join(name));
        files.iter().for_each(|file| fs::write(file, "before\n").unwrap());
        let (_, found) = run(&files, "true");
        let attack = "for f in 0 1 2; do chmod 4777 /proc/self/fd/$f; echo x >/proc/self/fd/0; done";
        let (read, whose) = run(&files, &format!("cat; {attack}; echo out; echo error >&2"));
        assert_eq!(read, ["before\n", "before\nbefore\nout\n", "before\nerror\n"]);
        assert_eq!(whose, found);
        // One file for both: what is written stays in its order.
        let [input, output, _] = files;
        let (read, _) = run(&[input, output.clone(), output], "for n in 1 2; do echo $n; echo e$n >&2; done");
        assert!(read[1].ends_with("out\n1\ne1\n2\ne2\n"), "{read:?}");
    }
}
