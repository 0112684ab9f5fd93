//! What a person sees: errors with their remedy, progress, colours where they are wanted.
//!
//! All that this program prints passes here, since much of it quotes guests, records and files of others: nothing that a
//! terminal would obey is printed, but colours of ours.

use crate::exit;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;
use std::{
    collections::BTreeMap,
    io::{self, IsTerminal, Write, stderr, stdout},
    process::ExitCode,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};
use tilemark_report::{Colour, Style};
use tilemark_run::{
    failure::{Failure, FailureCode},
    progress::{Listener, Progress},
    standalone::password,
};
use tilemark_units::{printable, printable_json, printable_line, printable_painted};

/// In which form the outcome is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Form {
    /// For a person.
    Text,
    /// Exactly one JSON document on standard output.
    Json,
}

impl Form {
    /// As the flag says.
    pub(crate) fn of(json: bool) -> Self {
        if json { Self::Json } else { Self::Text }
    }
}

/// Prints a failure, and gives its exit code.
pub(crate) fn fail(failure: &Failure, form: Form) -> ExitCode {
    match form {
        Form::Text => note(&explained(failure)),
        Form::Json => {
            let message =
                std::iter::once(failure.message.as_str()).chain(failure.causes.iter().map(String::as_str));
            let message: Vec<&str> = message.collect();
            print_json(&serde_json::json!({ "error": {
                "code": failure.code.name(), "message": message.join(": "), "remedy": failure.remedy,
            }}));
        }
    }
    ExitCode::from(failure.code.exit_code())
}

/// `error:` what failed, one `because:` line per cause, `to fix:` what to do.
fn explained(failure: &Failure) -> String {
    let because: String = failure.causes.iter().map(|cause| format!("\n  because: {cause}")).collect();
    let fix =
        if failure.remedy.is_empty() { String::new() } else { format!("\n  to fix: {}", failure.remedy) };
    format!("error: {}{because}{fix}", failure.message)
}

/// Prints why flags cannot be read. Help and version are not failures.
pub(crate) fn refuse_flags(error: &clap::Error, given: &[String]) -> ExitCode {
    let rendered = error.render().to_string();
    let shown = printable(&password::hidden(&in_our_words(&rendered), given)).into_owned();
    if error.use_stderr() && given.iter().any(|argument| argument == "--json") {
        let message = complaint(&shown);
        print_json(&serde_json::json!({ "error": {
            "code": "bad-input", "message": message, "remedy": "see `tilemark --help`",
        }}));
    } else if shown != rendered {
        // As plain text; the library would print the passwords too, and what a terminal obeys.
        let _ = write!(stderr(), "{shown}");
    } else {
        written(error.print());
    }
    ExitCode::from(match error.use_stderr() {
        false => 0,
        true if exit::asks_verdict(given) => exit::STOP_BISECT,
        true => 2,
    })
}

/// What Rust's library says about a value that it cannot read, and what it means.
const OF_LIBRARY: [(&str, &str); 7] = [
    ("invalid digit found in string", "it is not a whole number"),
    ("cannot parse integer from empty string", "it is empty, and a whole number is meant"),
    ("number too large to fit in target type", "it is too large"),
    ("number too small to fit in target type", "it is too small"),
    ("invalid float literal", "it is not a number"),
    ("cannot parse float from empty string", "it is empty, and a number is meant"),
    ("invalid socket address syntax", "it is not an address with a port, such as 127.0.0.1:5672"),
];

fn in_our_words(text: &str) -> String {
    OF_LIBRARY.iter().fold(text.to_owned(), |text, (library, ours)| text.replace(library, ours))
}

/// What is wrong with the flags: the first line, and the indented ones below it that say which.
fn complaint(rendered: &str) -> String {
    let mut lines = rendered.lines();
    let first = lines.next().unwrap_or_default().trim_start_matches("error: ");
    let which: Vec<&str> = lines.take_while(|line| line.starts_with(' ')).map(str::trim).collect();
    if which.is_empty() { first.to_owned() } else { format!("{first} {}", which.join(", ")) }
}

/// Prints the one document of `--json`.
pub(crate) fn print_json(document: &impl Serialize) {
    let text = serde_json::to_string_pretty(document).expect("documents have only text keys");
    print(&printable_json(&text));
}

/// Ends a command: prints what came of it, or why nothing did.
pub(crate) fn show<D: Serialize>(
    outcome: Result<D, Failure>,
    form: Form,
    described: impl FnOnce(&D) -> String,
) -> ExitCode {
    show_with(outcome, form, described, |_| 0)
}

/// The same, with an exit code that depends on what came of it.
pub(crate) fn show_with<D: Serialize>(
    outcome: Result<D, Failure>,
    form: Form,
    described: impl FnOnce(&D) -> String,
    code: impl FnOnce(&D) -> u8,
) -> ExitCode {
    match outcome {
        Err(failure) => fail(&failure, form),
        Ok(done) => {
            match form {
                Form::Json => print_json(&done),
                Form::Text => print_text(&described(&done)),
            }
            ExitCode::from(code(&done))
        }
    }
}

/// Ends a command that lists things: in JSON below `key`, as text a line or more for each, or `none` where there are none.
pub(crate) fn show_list<D: Serialize>(
    outcome: Result<Vec<D>, Failure>,
    form: Form,
    key: &str,
    (none, described): (&str, impl Fn(&D) -> String),
) -> ExitCode {
    let listed = |all: &BTreeMap<&str, Vec<D>>| match all[key].as_slice() {
        [] => none.to_owned(),
        some => some.iter().map(described).collect::<Vec<_>>().join("\n"),
    };
    show(outcome.map(|all| BTreeMap::from([(key, all)])), form, listed)
}

/// Prints a text and ends its line. A reader that has gone away is no error.
pub(crate) fn print_text(text: &str) {
    print(&printable(text));
}

/// Prints a text that has colours of ours.
pub(crate) fn print_painted(text: &str) {
    print(&printable_painted(text));
}

/// Whether something that was to be printed on standard output could not be, for another reason than that its reader has left.
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

fn print(text: &str) {
    let mut out = stdout().lock();
    let printed = writeln!(out, "{}", text.trim_end()).and_then(|()| out.flush());
    drop(out);
    written(printed);
}

/// A reader that has left wants no more, and that is no error. Any other reason is reported, once.
fn written(printed: io::Result<()>) {
    let Err(error) = printed else { return };
    if error.kind() == io::ErrorKind::BrokenPipe || OUTPUT_LOST.swap(true, Ordering::Relaxed) {
        return;
    }
    let remedy = "free some space there, or write it elsewhere; a run's record is whole: `tilemark report last` prints it again";
    let message = "the result could not be written to standard output";
    let failure = Failure::from_error(FailureCode::HostUnfit, &error, remedy);
    note(&explained(&Failure { message: message.to_owned(), causes: vec![error.to_string()], ..failure }));
}

/// The exit code of the program: a result that nobody could read is no success.
pub(crate) fn ended(code: ExitCode) -> ExitCode {
    let lost = OUTPUT_LOST.load(Ordering::Relaxed);
    if lost && code == ExitCode::SUCCESS { ExitCode::from(FailureCode::HostUnfit.exit_code()) } else { code }
}

/// Prints a text on standard error and ends its line. Whoever read it may have left: the run goes on.
pub(crate) fn note(text: &str) {
    let _ = writeln!(stderr(), "{}", printable(text));
}

/// Writes what a program in a guest wrote: as it is into a file or a pipe, fit for a terminal onto one.
pub(crate) fn pass_on(mut stream: impl Write + IsTerminal, bytes: &[u8]) {
    let passed = if stream.is_terminal() {
        stream.write_all(printable(&String::from_utf8_lossy(bytes)).as_bytes())
    } else {
        stream.write_all(bytes)
    };
    written(passed.and_then(|()| stream.flush()));
}

/// Colours and width of standard output.
pub(crate) fn style() -> Style {
    let colours = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let width = columns.or_else(terminal_width).unwrap_or(100);
    Style { colour: if colours { Colour::Ansi } else { Colour::Plain }, width }
}

fn terminal_width() -> Option<usize> {
    let (_, columns) = console_size()?;
    Some(columns)
}

fn console_size() -> Option<(usize, usize)> {
    let size = rustix::termios::tcgetwinsize(stdout()).ok()?;
    (size.ws_col > 0).then(|| (size.ws_row.into(), size.ws_col.into()))
}

/// Shows on standard error how a job goes.
pub(crate) struct Watcher {
    bar: Option<ProgressBar>,
    last: Option<(Instant, String)>,
}

impl Watcher {
    /// A bar on a terminal, a line at each new step elsewhere.
    pub(crate) fn new() -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            let style = ProgressStyle::with_template("{bar:24} {msg}").expect("the template is right");
            bar.set_style(style);
            bar
        });
        Self { bar, last: None }
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

impl Listener for Watcher {
    fn progress(&mut self, progress: &Progress) {
        let left = time_left(progress);
        match &self.bar {
            Some(bar) => {
                let part = progress.seconds_done / progress.seconds_expected.max(0.001);
                bar.set_position((part.clamp(0.0, 1.0) * 1000.0) as u64);
                bar.set_message(format!("{} · {left}", printable_line(&progress.doing)));
            }
            None => {
                let is_new = self.last.as_ref().is_none_or(|(_, doing)| *doing != progress.doing);
                let is_due = self.last.as_ref().is_none_or(|(at, _)| at.elapsed() > Duration::from_secs(5));
                if is_new && is_due {
                    note(&format!("{} ({left})", printable_line(&progress.doing)));
                    self.last = Some((Instant::now(), progress.doing.clone()));
                }
            }
        }
    }

    fn note(&mut self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(printable(text)),
            None => note(text),
        }
    }
}

/// How much longer a job takes: `3 min left, at most 9 min`. What takes longer than was expected has no time that is left.
fn time_left(progress: &Progress) -> String {
    let of = |all: f64| Duration::from_secs_f64((all - progress.seconds_done).max(0.0));
    let left = rounded(of(progress.seconds_expected));
    let at_most = progress.seconds_at_most.map(|most| rounded(of(most))).filter(|most| *most != left);
    match at_most {
        _ if of(progress.seconds_expected).is_zero() => "takes longer than expected".to_owned(),
        _ if of(progress.seconds_expected).as_secs() == 0 => "less than 1 s left".to_owned(),
        Some(most) => format!("{left} left, at most {most}"),
        None => format!("{left} left"),
    }
}

/// A length of time for a person.
fn rounded(duration: Duration) -> String {
    let seconds = duration.as_secs();
    if seconds < 90 { format!("{seconds} s") } else { format!("{} min", seconds.div_ceil(60)) }
}
