//! `tilemark-fuzz`: the names of the targets, their first inputs as files, and one input again without a fuzzer.

use std::{fs, path::Path, process::ExitCode};
use tilemark_fuzz::{ALL, target};

const USAGE: &str = "usage: tilemark-fuzz list | seeds NAME FOLDER | replay NAME FILE
  list                 each target: its name and whose bytes it takes
  seeds NAME FOLDER    write the target's first inputs into a folder that exists
  replay NAME FILE     give the target one input, such as one that a fuzzer found; a panic is shown with its place";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments.iter().map(String::as_str).collect::<Vec<_>>()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[&str]) -> Result<(), String> {
    let found = |name: &str| target(name).ok_or_else(|| format!("no target `{name}`; `list` names all"));
    match arguments {
        ["list"] => ALL.iter().for_each(|target| println!("{:<20} {}", target.name, target.about)),
        ["seeds", name, folder] => {
            for (number, seed) in (found(name)?.seeds)().into_iter().enumerate() {
                let file = Path::new(folder).join(format!("seed-{number:03}"));
                fs::write(&file, seed)
                    .map_err(|error| format!("could not write {}: {error}", file.display()))?;
            }
        }
        ["replay", name, file] => {
            let bytes = fs::read(file).map_err(|error| format!("could not read {file}: {error}"))?;
            (found(name)?.take)(&bytes);
            println!("{name} took {} bytes", bytes.len());
        }
        _ => return Err(USAGE.to_owned()),
    }
    Ok(())
}
