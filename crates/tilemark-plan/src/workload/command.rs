//! `command`: a program of the user's own.

use super::{
    facts::{At, Exclusive, Facts, InFlight, LoadKeys, Place},
    whole_seconds::check_whole_warmup,
};
use crate::JsonSchema;
use crate::problem::Say;
use crate::program::{OF_COMMANDS, Program};
use crate::scenario::{guest::Guest, measure::Measure, role::Role};
use regex_lite::Regex;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeMap, path::Path};
use tilemark_units::Span;
use tilemark_units::{nearest, there_is_no};

/// Bytes of a pattern. Each makes a few states, and a match takes at most so many steps for each byte of a line.
const PATTERN_BYTES_MAX: usize = 500;
/// Words of a command, and files that it brings along.
const WORDS_MAX: usize = 200;
const FILES_MAX: usize = 32;
/// Characters of a unit.
const UNIT_MAX: usize = 20;
const SILENCE_MAX: Span = Span::from_seconds(3600);

/// For a guest of any role: a program of your own, run in the guest or beside the load. Its words are read by exactly one pattern: `rate`, `latency` or
/// `figure`, a regular expression whose first group is the number. A program that ends with an exit code other than 0, prints no
/// number, prints over 16 MiB or does not end in time fails its repeat, with its last lines as the reason. Its output stays in the record. The load itself
/// takes no `rate`, and its `loop`, `arrival` and `connections` are not used. In the words of `run`, `{address}` and `{port}` are those of the guest, `{seconds}` is the measured time, `{total_seconds}` the same with
/// the warm-up, and `{seed}` a number that is another one in each repeat.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CommandParameters {
    /// The program and its arguments, such as `["my-load", "--seconds", "{total_seconds}"]`. A program that prints seconds
    /// begins with the warm-up; one with a `figure` begins with the measured seconds.
    pub run: Vec<String>,
    /// Where it runs: `"guest"`, or `"host"` beside the load, on the load's processors, as root.
    pub from: CommandFrom,
    /// Files that it needs, by the name that they have in its folder, where it is started: `{ "bench.sh" = "./bench.sh" }`. A path is relative to the scenario's
    /// file. At most 512 KiB together.
    pub files: BTreeMap<String, String>,
    /// Pattern of a rate a second. The program prints one value in every line that matches, such as `'tps: ([0-9.]+)'`. A value holds for the time since
    /// the line before it.
    /// Default: none.
    pub rate: Option<String>,
    /// Pattern of a latency. The program prints one in every line that matches, and each is an operation.
    /// Default: none.
    pub latency: Option<String>,
    /// Unit of the latencies: `"ns"`, `"us"`, `"ms"` or `"s"`.
    pub latency_unit: LatencyUnit,
    /// Pattern of the one figure that the program prints, which must be above 0. Only the last match counts.
    /// Default: none.
    pub figure: Option<String>,
    /// With `figure`: whether `"higher"` or `"lower"` is better.
    /// Default: none.
    pub better: Option<Better>,
    /// What the rate or the figure counts, such as `transactions` or `MB/s`. A `figure` needs it. Default: `operations`.
    pub unit: Option<String>,
    /// With `rate` and `latency`: a program that prints no value for so long fails. Default: `"10s"`.
    pub silence: Option<Span>,
}

/// Where a command runs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum CommandFrom {
    /// In the guest.
    #[default]
    Guest,
    /// Beside the load, on the host.
    Host,
}

/// Unit of a command's latencies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LatencyUnit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    #[default]
    Ms,
    /// Seconds.
    S,
}

impl LatencyUnit {
    /// Nanoseconds of one.
    pub const fn nanoseconds(self) -> f64 {
        match self {
            Self::Ns => 1.0,
            Self::Us => 1e3,
            Self::Ms => 1e6,
            Self::S => 1e9,
        }
    }
}

/// Which way a figure is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// More is better.
    Higher,
    /// Less is better.
    Lower,
}

impl CommandParameters {
    /// The places in the words of `run`, which are filled when it is started.
    pub const PLACES: [&str; 5] = ["{address}", "{port}", "{seconds}", "{total_seconds}", "{seed}"];

    /// How long it may print no value.
    pub fn silence(&self) -> Span {
        self.silence.unwrap_or(Span::from_seconds(10))
    }

    /// The patterns that are given, by their keys.
    pub fn patterns(&self) -> Vec<(&'static str, &str)> {
        let all = [("rate", &self.rate), ("latency", &self.latency), ("figure", &self.figure)];
        all.into_iter().filter_map(|(key, pattern)| Some((key, pattern.as_deref()?))).collect()
    }

    /// The unit of the one figure that it prints in place of a rate, and which way that is better.
    pub fn printed_figure(&self) -> Option<(&str, Better)> {
        self.figure.as_ref()?;
        Some((self.unit(), self.better?))
    }

    /// A pattern, compiled; what is wrong with it otherwise.
    ///
    /// # Errors
    /// The reason, as a fragment.
    pub fn compiled(pattern: &str) -> Result<Regex, String> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return Err(format!("has {} bytes, more than {PATTERN_BYTES_MAX}", pattern.len()));
        }
        let regex = Regex::new(pattern).map_err(|error| format!("is not a regular expression: {error}"))?;
        match regex.captures_len() {
            1 => Err("has no group for the number".to_owned()),
            _ => Ok(regex),
        }
    }

    fn check_run(&self, name: &str, say: &mut Say<'_>) {
        let is_bad = |word: &String| word.len() > 4096 || word.contains('\0');
        if self.run.first().is_none_or(String::is_empty)
            || self.run.len() > WORDS_MAX
            || self.run.iter().any(is_bad)
        {
            say(
                format!("load `{name}` runs no program: `run` has {} words", self.run.len()),
                "write the program and its arguments, such as `run = [\"my-load\", \"--quick\"]`, at most 200 words of 4096 bytes",
            );
        }
        for (place, near) in self.mistyped_places() {
            say(
                format!("load `{name}`: {}", there_is_no("place", place, &Self::PLACES)),
                &format!("write `{near}`"),
            );
        }
    }

    /// Words in braces that are nearly a place, with that place. All other braces are the program's own, such as `{print}` of awk.
    fn mistyped_places(&self) -> BTreeMap<&str, &'static str> {
        let places = self.run.iter().flat_map(|word| words_in_braces(word));
        let unknown = places.filter(|place| !Self::PLACES.contains(place));
        unknown.filter_map(|place| Some((place, nearest(place, &Self::PLACES)?))).collect()
    }

    fn check_patterns(&self, name: &str, say: &mut Say<'_>) {
        let patterns = self.patterns();
        if patterns.len() != 1 {
            say(
                format!("load `{name}` has {} patterns for the words of its command", patterns.len()),
                "write exactly one of `rate`, `latency` and `figure`, such as `rate = 'tps: ([0-9.]+)'`",
            );
        }
        for (key, pattern) in patterns {
            if let Err(why) = Self::compiled(pattern) {
                say(
                    format!("load `{name}`: `{key} = {pattern:?}` {why}"),
                    "write a regular expression whose first group is the number, such as 'tps: ([0-9.]+)'",
                );
            }
        }
        let has_figure = self.figure.is_some();
        if has_figure && (self.better.is_none() || self.unit.is_none()) {
            say(
                format!("load `{name}` has a `figure` and does not say what it is"),
                "add `unit = \"MB/s\"` and `better = \"higher\"` or `\"lower\"`",
            );
        }
        if !has_figure && self.better.is_some() {
            say(
                format!("load `{name}` has `better` without a `figure`"),
                "leave it out: a higher rate and a lower latency are better",
            );
        }
        if let Some(unit) = &self.unit
            && (unit.is_empty() || unit.chars().count() > UNIT_MAX)
        {
            say(format!("load `{name}` has the unit {unit:?}"), "write 1 to 20 characters");
        }
        if self.silence.is_some_and(|silence| silence.get().is_zero() || silence > SILENCE_MAX) {
            say(
                format!("load `{name}` has `silence = \"{}\"`", self.silence()),
                "write more than 0 and at most 1h",
            );
        }
    }

    fn check_files(&self, name: &str, say: &mut Say<'_>) {
        if self.files.len() > FILES_MAX {
            say(
                format!("load `{name}` brings {} files", self.files.len()),
                "bring 32 at most, or an archive",
            );
        }
        for (file, path) in &self.files {
            let is_plain = !file.starts_with('.')
                && file.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte));
            if file.is_empty() || file.len() > 100 || !is_plain || path.is_empty() {
                say(
                    format!("load `{name}` brings the file {file:?} from {path:?}"),
                    "name it by letters, digits, `.`, `_` and `-`, and give the path that it has on this host",
                );
            }
        }
    }

    /// The name of its program without folders.
    fn program(&self) -> &str {
        let program = self.run.first().map_or("", String::as_str);
        Path::new(program).file_name().and_then(|name| name.to_str()).unwrap_or_default()
    }
}

/// Lower-case words in braces, as places are written. Those after `$` or `%` are variables, of a shell or of curl.
fn words_in_braces(word: &str) -> Vec<&str> {
    let braces = Regex::new(r"[$%]?\{[a-z_]+\}").expect("a right literal");
    braces.find_iter(word).map(|found| found.as_str()).filter(|found| found.starts_with('{')).collect()
}

impl Facts for CommandParameters {
    fn role(&self) -> Role {
        Role::Idle
    }

    fn fits(&self, _role: Role) -> bool {
        true
    }

    fn place(&self) -> Place {
        match self.from {
            CommandFrom::Guest => Place::Inside,
            CommandFrom::Host => Place::Outside,
        }
    }

    fn unit(&self) -> &str {
        self.unit.as_deref().unwrap_or("operations")
    }

    fn starts_own_program(&self) -> bool {
        true
    }

    fn in_flight(&self, _at: At) -> InFlight {
        InFlight { state: "running", ..InFlight::steady(1, "command") }
    }

    /// Its program decides when it does what.
    fn is_flat_out(&self) -> bool {
        true
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, measure: &Measure, say: &mut Say<'_>) {
        let name = load.name;
        self.check_run(name, say);
        self.check_patterns(name, say);
        self.check_files(name, say);
        if self.run.iter().any(|word| word.contains("{total_seconds}")) {
            check_whole_warmup(name, "its command (`{total_seconds}`)", measure, say);
        }
        if load.rate.is_some() {
            say(
                format!("load `{name}` has a `rate`, but its command sets its own pace"),
                "leave out `rate`, and give the program its rate in `run`",
            );
        }
        if load.from.is_some() {
            say(
                format!(
                    "load `{name}` has `from`, and a command runs in the guest that it loads or on the host"
                ),
                "name the guest that it runs in as `guest`, and leave out `from`",
            );
        }
        let listens = |role: &Role| {
            matches!(role, Role::Web | Role::Broker | Role::Database | Role::Backend | Role::Program)
        };
        let serves = guest.roles().iter().any(listens);
        if !serves && self.run.iter().any(|word| word.contains("{port}")) {
            say(
                format!(
                    "load `{name}` uses `{{port}}`, and guest `{}` with role `{}` serves none",
                    guest.name,
                    guest.said_roles()
                ),
                "give the guest a role that serves, such as `web`, or write the port itself",
            );
        }
    }

    fn exclusive(&self) -> Option<Exclusive> {
        (self.from == CommandFrom::Guest).then_some(Exclusive::Inside)
    }

    fn programs(&self) -> Vec<Program> {
        let is_brought = self.files.contains_key(self.program()) || self.from == CommandFrom::Host;
        OF_COMMANDS.into_iter().filter(|known| known.name == self.program() && !is_brought).collect()
    }

    fn texts_mut(&mut self) -> Vec<&mut String> {
        self.files.values_mut().collect()
    }
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    /// What is reported of a scenario with these lines in its command.
    fn reported(load: &str, command: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"c\"\nabout = \"c\"\nheadline = \"l\"\n[[guest]]\nname = \"g\"\nrole = \"idle\"\n\
             [[load]]\nname = \"l\"\nguest = \"g\"\n{load}\n[load.command]\n{command}\n[ladder]\ntiles = [1]\n"
        );
        Draft::from_toml(&text, "t")
            .unwrap()
            .finish()
            .err()
            .map(|problems| problems.to_string())
            .unwrap_or_default()
    }

    #[test]
    fn every_mistake_in_a_command_is_named() {
        let run = "run = [\"a\"]\n";
        assert_eq!(reported("", &format!("{run}rate = 'tps: ([0-9.]+)'")), "");
        assert_eq!(reported("", &format!("{run}figure = '([0-9.]+)'\nunit = \"s\"\nbetter = \"lower\"")), "");
        let own_braces =
            "run = [\"awk\", \"{print}\", \"${sed}\", '{\"port\": {x}}', \"{seed}{port_}\"]\nrate = '(1)'";
        assert_eq!(reported("", own_braces).matches("there is no place").count(), 1, "of the last");
        for (load, command, wanted) in [
            ("", "rate = '(1)'", "runs no program"),
            (
                "",
                "run = [\"a\", \"--time={total_secnds}\"]\nrate = '(1)'",
                "load `l`: there is no place `{total_secnds}`. Did you mean `{total_seconds}`? There are: `{address}`, ",
            ),
            (
                "",
                "run = [\"a\", \"{address}{adress}\"]\nrate = '(1)'",
                "no place `{adress}`. Did you mean `{address}`?",
            ),
            ("", run, "has 0 patterns"),
            ("", "run = [\"a\"]\nrate = '(1)'\nlatency = '(1)'", "has 2 patterns"),
            ("", "run = [\"a\"]\nrate = '(1'", "is not a regular expression"),
            ("", "run = [\"a\"]\nrate = 'tps'", "has no group for the number"),
            ("", "run = [\"a\"]\nfigure = '(1)'", "does not say what it is"),
            ("", "run = [\"a\"]\nrate = '(1)'\nbetter = \"lower\"", "`better` without a `figure`"),
            ("", "run = [\"a\"]\nrate = '(1)'\nsilence = \"0s\"", "has `silence"),
            ("", "run = [\"a\"]\nrate = '(1)'\nunit = \"\"", "has the unit"),
            ("", "run = [\"a\"]\nrate = '(1)'\nfiles = { \"../a\" = \"b\" }", "brings the file"),
            ("", "run = [\"a\", \"{port}\"]\nrate = '(1)'", "serves none"),
            ("", "run = [\"a\"]\nrate = '(1)'\nlatency_unit = \"h\"", "latency_unit"),
            (
                "rate = \"1/s\"",
                "run = [\"a\"]\nrate = '(1)'",
                "has a `rate`, but its command sets its own pace",
            ),
            ("from = \"g\"", "run = [\"a\"]\nrate = '(1)'", "has `from`"),
        ] {
            let reported = reported(load, command);
            assert!(reported.contains(wanted), "{wanted}: {reported}");
        }
    }
}
