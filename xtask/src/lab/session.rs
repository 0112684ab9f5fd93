//! `cargo xtask lab -- COMMAND`: boot, set up, run the command, pass on what it says and its exit code.

use super::{
    materials::{Materials, Options},
    server::Server,
    stream::copy_until,
};
use anyhow::{Context, Result, bail, ensure};
use std::{
    io::{self, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::ExitCode,
    thread,
};

const USAGE: &str =
    "usage: cargo xtask lab [--program FILE] [--with FILE]… [--image NAME] [--disk FILE] [--smt] [--append WORDS] -- COMMAND [ARGUMENT…]
  --program FILE  the `tilemark` to be tried, instead of the one that is built here
  --with FILE     one more program for the lab, on its PATH under its own name
  --image NAME    the image that its cache has, one inside `tilemark`, instead of `first-look`
  --disk FILE     its /var/lib/tilemark is in this file, which stays: a lab that is killed and started again had a power cut
  --smt           each of its two sockets has one core with two hardware threads, in place of two cores; it has no KVM then
  --append WORDS  further words for the command line of its kernel";
/// The lab itself failed: no code of the command's. As of containers and `env`.
const LAB_FAILED: u8 = 125;
/// What a shell calls the end of a program whose reader is gone: 128 and SIGPIPE.
const READER_GONE: i32 = 141;
const SET_UP: &str = include_str!("set_up.sh");
const COMMAND: &str = include_str!("command.sh");

/// Runs a command in a lab. The exit code is the command's, or 125 and a reason when there was no command to have one.
pub(crate) fn run(arguments: &[String]) -> ExitCode {
    match run_command(arguments) {
        Ok(code) => ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)),
        Err(error) => {
            eprintln!("lab: {error:#}");
            ExitCode::from(LAB_FAILED)
        }
    }
}

fn run_command(arguments: &[String]) -> Result<i32> {
    let (options, command) = parse(arguments)?;
    let materials = Materials::gather(options)?;
    let mut server = Server::boot(&materials)?;
    let mut script = shell(&["-eu", "-c", SET_UP, "lab"]);
    script.extend(materials.programs.iter().flat_map(|file| [file.name.clone(), file.bytes.to_string()]));
    let set_up = server.execute(script)?;
    ensure!(set_up.code == 0, "the lab could not be set up: {}", set_up.said.trim());
    let output = server.output.take().context("the output was taken")?;
    let error = server.error.take().context("the error output was taken")?;
    let end = random_word()?;
    let streams = [pass_on(output, &end, io::stdout()), pass_on(error, &end, io::stderr())];
    let mut script = shell(&["-c", COMMAND, "lab", &end]);
    script.extend(command);
    let executed = server.execute(script)?;
    for stream in streams {
        let _ = stream.join();
    }
    Ok(executed.code)
}

/// 32 digits that no command prints.
fn random_word() -> Result<String> {
    let mut bytes = [0; 16];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bytes)))
}

fn shell(arguments: &[&str]) -> Vec<String> {
    ["/bin/sh"].iter().chain(arguments).map(|&argument| argument.to_owned()).collect()
}

fn parse(arguments: &[String]) -> Result<(Options, Vec<String>)> {
    let mut options = Options::default();
    let mut rest = arguments;
    loop {
        rest = match rest {
            [flag, file, rest @ ..] if flag == "--program" && options.program.is_none() => {
                options.program = Some(PathBuf::from(file));
                rest
            }
            [flag, file, rest @ ..] if flag == "--with" => {
                options.with.push(PathBuf::from(file));
                rest
            }
            [flag, name, rest @ ..] if flag == "--image" && options.image.is_none() => {
                options.image = Some(name.clone());
                rest
            }
            [flag, file, rest @ ..] if flag == "--disk" && options.disk.is_none() => {
                options.disk = Some(PathBuf::from(file));
                rest
            }
            [flag, rest @ ..] if flag == "--smt" && !options.smt => {
                options.smt = true;
                rest
            }
            [flag, words, rest @ ..] if flag == "--append" && options.append.is_none() => {
                options.append = Some(words.clone());
                rest
            }
            [dashes, command @ ..] if dashes == "--" && !command.is_empty() => {
                return Ok((options, command.to_vec()));
            }
            _ => bail!("{USAGE}"),
        };
    }
}

/// Copies a stream as it comes. Where nobody reads any more, everything ends, as a command's own output would end it.
fn pass_on(from: UnixStream, end: &str, to: impl Write + Send + 'static) -> thread::JoinHandle<()> {
    let end = end.as_bytes().to_vec();
    thread::spawn(move || {
        if copy_until(from, &end, to).is_err() {
            std::process::exit(READER_GONE);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Option<(Options, Vec<String>)> {
        parse(&text.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).ok()
    }

    #[test]
    fn what_follows_the_dashes_is_the_commands_own() {
        let (options, command) =
            parsed("--with a --program t --with b --image i --disk d --smt --append w -- sh -c -- --with")
                .unwrap();
        let wanted = Options {
            program: Some("t".into()),
            with: vec!["a".into(), "b".into()],
            image: Some("i".into()),
            disk: Some("d".into()),
            smt: true,
            append: Some("w".into()),
        };
        assert_eq!(options, wanted);
        assert_eq!(command, ["sh", "-c", "--", "--with"]);
        assert_eq!(parsed("-- true").unwrap().0, Options::default());
    }

    #[test]
    fn a_lab_without_a_command_or_with_unknown_flags_is_refused() {
        for text in [
            "",
            "--",
            "true",
            "--program",
            "--program t",
            "--fast -- true",
            "--program a --program b -- true",
            "--image a --image b -- true",
            "--disk a --disk b -- true",
            "--smt --smt -- true",
        ] {
            assert!(parsed(text).is_none(), "{text}");
        }
    }
}
