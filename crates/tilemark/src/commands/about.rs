//! `tilemark notices`, `completion` and `man`: what the program says about itself.

use crate::{
    help,
    screen::{self, Form},
};
use clap_complete::Shell;
use std::{path::Path, process::ExitCode};
use tilemark_run::run::result::write_pages;

/// Our own licence is at the end of it too.
const LICENCES: &str = concat!(
    "Tilemark is under the Apache License 2.0; its text is at the end.\n\n",
    include_str!("../../../../THIRD-PARTY-NOTICES.txt")
);

/// Prints the licences.
pub(crate) fn notices() -> ExitCode {
    screen::print_text(LICENCES);
    ExitCode::SUCCESS
}

/// Prints the script that completes command lines in a shell.
pub(crate) fn completion(shell: Shell) -> ExitCode {
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut help::command(), "tilemark", &mut script);
    screen::print_text(&String::from_utf8_lossy(&script));
    ExitCode::SUCCESS
}

/// Writes the pages of the manual.
pub(crate) fn man(folder: &Path, form: Form) -> ExitCode {
    match write_pages(folder, &help::manual()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => screen::fail(&failure, form),
    }
}
