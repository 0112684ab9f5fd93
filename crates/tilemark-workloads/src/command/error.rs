//! What can be wrong with a user's command.

use crate::threads::NO_THREAD;
use std::io;

/// A command that could not be run, or gave no figure.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CommandError {
    #[error("there is no program `{0}`")]
    Absent(String),
    #[error("cannot run `{program}`")]
    NotStarted {
        program: String,
        #[source]
        source: io::Error,
    },
    #[error("a thread that follows a command cannot be started")]
    NoThread(#[source] io::Error),
    #[error("cannot put the command's files in place")]
    Files(#[source] io::Error),
    #[error("the pattern `{pattern}` {why}")]
    Pattern { pattern: String, why: String },
    #[error("`{program}` ended with {how}: {last}")]
    Failed { program: String, how: String, last: String },
    #[error("`{program}` ended after {after:.1} s of {wanted:.0} s")]
    Early { program: String, after: f64, wanted: f64 },
    #[error("the values of `{program}` cover {covered:.1} s of the {length:.0} s that were measured")]
    Sparse { program: String, covered: f64, length: f64 },
    #[error("`{program}` printed nothing for {seconds:.1} s")]
    Silent { program: String, seconds: f64 },
    #[error("no line of `{program}` matched `{pattern}` for {seconds:.1} s; its last lines: {last}")]
    NoMatch { program: String, pattern: String, seconds: f64, last: String },
    #[error("`{pattern}` took {text:?} out of a line of `{program}`, which is not a valid number: {why}")]
    NotANumber { program: String, pattern: String, text: String, why: &'static str },
    #[error(
        "the last figure of `{program}` is {text}, which is not a number above 0: figures are compared by their ratios"
    )]
    NoFigure { program: String, text: String },
    #[error("`{program}` printed more than {most} bytes; its last lines: {last}")]
    Flood { program: String, most: usize, last: String },
    #[error(
        "`{program}` had not ended {seconds:.1} s after the measured seconds began, so its figure is missing"
    )]
    Endless { program: String, seconds: f64 },
}

impl CommandError {
    /// What the reader should do.
    pub(crate) const fn remedy(&self) -> &'static str {
        match self {
            Self::Absent(_) => {
                "use an image that has it, or bring it along: `files = { \"NAME\" = \"./NAME\" }`"
            }
            Self::NotStarted { .. } => {
                "see that it is a program or a script whose first line names its interpreter"
            }
            Self::NoThread(_) => NO_THREAD,
            Self::Files(_) => "give the guest more memory: the files are kept in it",
            Self::Pattern { .. } => "write a regular expression whose first group is the number",
            Self::Failed { .. } => {
                "run the same in a guest by hand: `tilemark guests up`, `tilemark guests exec`"
            }
            Self::Early { .. } => {
                "let it run for `{total_seconds}`, or measure shorter with `measure.length`"
            }
            Self::Sparse { .. } => "let it print its rate more often, such as once a second",
            Self::Silent { .. } => {
                "a program that doesn't write to a terminal may keep its lines back: run it with `stdbuf -oL`, or give it a longer `silence`"
            }
            Self::NoMatch { .. } | Self::NotANumber { .. } => {
                "correct the pattern: its first group must be the number"
            }
            Self::NoFigure { .. } => {
                "let it print a figure above 0 last, or count what it does with `rate` or `latency`"
            }
            Self::Flood { .. } => "let it print less, such as one line a second",
            Self::Endless { .. } => "let it end after `{seconds}`, or measure longer with `measure.length`",
        }
    }
}
