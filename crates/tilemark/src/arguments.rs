//! Flags and commands, as the user writes them.

use clap::{Args, Parser, Subcommand, ValueEnum};
use std::path::PathBuf;

/// How many guests a Linux host carries before they get slow and what runs out first, what virtualization
/// costs there, and which change makes a difference.
#[derive(Debug, Parser)]
#[command(name = "tilemark", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Begin with `tilemark doctor`, then `tilemark quick`. Exit codes: 0 done and trusted, 1 a bug \
of ours, 2 bad scenario or flag, 3 host unfit, 4 a guest failed, 5 finished but not trusted, 6 host not restored."
)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// What this host has, what is missing, what that costs and how to mend it
    Doctor(JsonOnly),
    /// What would be done, with minutes, memory and disk; touches nothing
    Plan(PlanArguments),
    /// The first look: the capacity of this host for small mixed guests, in minutes
    Quick(QuickArguments),
    /// Measure a scenario at every step of its ladder
    Run(RunArguments),
    /// Search for the largest step that holds, and confirm it on both sides
    Capacity(CapacityArguments),
    /// Measure two sides in turn and say whether they differ
    Ab(AbArguments),
    /// Compare two records
    Compare(CompareArguments),
    /// Draw a record again: HTML, terminal or CSV
    Report(ReportArguments),
    /// List what was measured
    Runs(JsonOnly),
    /// Start guests, look at them, talk to them, end them
    #[command(subcommand)]
    Guests(GuestsCommand),
    /// A load alone, against any address
    #[command(subcommand)]
    Load(LoadCommand),
    /// The guest image
    #[command(subcommand)]
    Image(ImageCommand),
    /// The scenarios inside this program
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Remove what a killed run left behind
    Recover(JsonOnly),
    /// Print completions for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Only `--json`.
#[derive(Debug, Args)]
pub struct JsonOnly {
    /// Print one JSON document on standard output and everything else on standard error
    #[arg(long)]
    pub json: bool,
}

/// Where guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum On {
    /// kvm, or stop and say why not
    Auto,
    /// QEMU with the processor's own virtualization
    Kvm,
    /// QEMU's translator; proves function, measures nothing
    Emulated,
    /// Namespaces on the host kernel, no guest
    Native,
}

/// What all that resolve a scenario share.
#[derive(Debug, Args)]
pub struct Resolution {
    /// How guests exist
    #[arg(long, value_enum, default_value = "auto")]
    pub on: On,
    /// A size of the scenario: quick, host or published
    #[arg(long)]
    pub preset: Option<String>,
    /// Set a value of the scenario, such as `gate.p99=20ms` or `load.web.rate=300/s`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub set: Vec<(String, String)>,
    /// Seed of order, schedules and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// `tilemark plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// A scenario's name or file
    pub scenario: String,
    #[command(flatten)]
    pub resolution: Resolution,
    /// Tile counts instead of the ladder's
    #[arg(long, value_delimiter = ',')]
    pub tiles: Option<Vec<u32>>,
    /// Measure the native twin in the same blocks
    #[arg(long)]
    pub twin: bool,
    /// Print the plan as JSON
    #[arg(long)]
    pub json: bool,
}

/// What all that measure share.
#[derive(Debug, Args)]
pub struct Measuring {
    /// Put the record here instead of among the runs
    #[arg(long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Fetch nothing: the image must be cached
    #[arg(long)]
    pub offline: bool,
    /// Wait for another run to end instead of stopping
    #[arg(long)]
    pub wait: bool,
    /// Run beside another run; the verdict is then at most "cannot tell"
    #[arg(long)]
    pub not_alone: bool,
    /// Print the result as one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `tilemark run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// A scenario's name or file
    pub scenario: String,
    #[command(flatten)]
    pub resolution: Resolution,
    /// Tile counts instead of the ladder's
    #[arg(long, value_delimiter = ',')]
    pub tiles: Option<Vec<u32>>,
    /// Measure the native twin in the same blocks
    #[arg(long)]
    pub twin: bool,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// `tilemark capacity`.
#[derive(Debug, Args)]
pub struct CapacityArguments {
    /// A scenario's name or file
    pub scenario: String,
    #[command(flatten)]
    pub resolution: Resolution,
    /// End within this, such as 10m
    #[arg(long)]
    pub within: Option<String>,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// `tilemark quick`.
#[derive(Debug, Args)]
pub struct QuickArguments {
    /// End within this, such as 10m
    #[arg(long, default_value = "5m")]
    pub within: String,
    /// Seed of order, schedules and choices
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// `tilemark ab`.
#[derive(Debug, Args)]
pub struct AbArguments {
    /// A scenario's name or file
    pub scenario: String,
    #[command(flatten)]
    pub resolution: Resolution,
    /// A value of the first side, such as `qemu.machine=pc`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub a: Vec<(String, String)>,
    /// A value of the second side; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub b: Vec<(String, String)>,
    /// Tile counts instead of the ladder's first
    #[arg(long, value_delimiter = ',')]
    pub tiles: Option<Vec<u32>>,
    #[command(flatten)]
    pub verdict: ExitVerdict,
    #[command(flatten)]
    pub measuring: Measuring,
}

/// Exit codes for `git bisect run`.
#[derive(Debug, Args)]
pub struct ExitVerdict {
    /// Exit 0 when B is no worse, 1 when it is worse by more than the tolerance, 125 for anything else
    #[arg(long)]
    pub exit_verdict: bool,
    /// How much worse is not worse
    #[arg(long, default_value = "0%")]
    pub tolerance: String,
}

/// `tilemark compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The first run: an id, a unique start of one, `last` or a path
    pub a: String,
    /// The second run
    pub b: String,
    #[command(flatten)]
    pub verdict: ExitVerdict,
    /// Print the comparison as one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `tilemark report`.
#[derive(Debug, Args)]
pub struct ReportArguments {
    /// An id, a unique start of one, `last` or a path
    #[arg(default_value = "last")]
    pub run: String,
    /// Write the HTML page here instead of into the record
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Write the figures as CSV here
    #[arg(long, value_name = "FILE")]
    pub csv: Option<PathBuf>,
    /// Leave out host names and serial numbers
    #[arg(long)]
    pub redact: bool,
    /// Print the result as one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `tilemark guests`.
#[derive(Debug, Subcommand)]
pub enum GuestsCommand {
    /// Start guests and leave them running
    Up(GuestsUpArguments),
    /// What runs
    List(JsonOnly),
    /// Run a program in a guest
    Exec {
        /// The guest's name, as `guests list` shows it
        guest: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
    /// Print what a guest wrote on its console
    Console {
        /// The guest's name
        guest: String,
    },
    /// End guests and wait until all is gone
    Down {
        /// Which, as `guests list` shows it; all when left out
        id: Option<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark guests up`.
#[derive(Debug, Args)]
pub struct GuestsUpArguments {
    /// How many
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub count: u32,
    /// What they are for
    #[arg(long, default_value = "idle", value_parser = ["idle", "web", "disk"])]
    pub role: String,
    /// How they exist
    #[arg(long, value_enum, default_value = "auto")]
    pub on: On,
    /// Clone them from a template (the default)
    #[arg(long, conflicts_with = "boot")]
    pub clone: bool,
    /// Boot each by itself
    #[arg(long)]
    pub boot: bool,
    /// Memory of each
    #[arg(long, default_value = "96MiB")]
    pub memory: String,
    /// Do not wait ten idle seconds to read their memory
    #[arg(long)]
    pub no_memory: bool,
    /// Fetch nothing: the image must be cached
    #[arg(long)]
    pub offline: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `tilemark load`.
#[derive(Debug, Subcommand)]
pub enum LoadCommand {
    /// GET requests against a web server
    Web(LoadWebArguments),
}

/// `tilemark load web`.
#[derive(Debug, Args)]
pub struct LoadWebArguments {
    /// Such as http://127.0.0.1:8080/index.html; the host must be an address
    pub url: String,
    /// Connections
    #[arg(long, default_value_t = 32)]
    pub connections: u32,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 10)]
    pub seconds: u64,
    /// Requests a second, at intended times; without it each connection asks again when it was answered
    #[arg(long)]
    pub rate: Option<f64>,
    /// How requests of a rate are spread
    #[arg(long, value_parser = ["even", "poisson"], default_value = "poisson")]
    pub arrival: String,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub json: bool,
}

/// `tilemark image`.
#[derive(Debug, Subcommand)]
pub enum ImageCommand {
    /// Build an image, or find it in the cache
    Build {
        /// `first-look`, or the path of an image.toml
        #[arg(default_value = "first-look")]
        image: String,
        /// Resolve packages anew even if it is cached
        #[arg(long)]
        refresh: bool,
        /// Fetch nothing
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// What is cached
    List(JsonOnly),
    /// Write an image into one file
    Export {
        /// Its name, or a unique start of it
        name: String,
        /// The file
        file: PathBuf,
    },
    /// Take an image from a file
    Import {
        /// The file
        file: PathBuf,
    },
}

/// `tilemark scenarios`.
#[derive(Debug, Subcommand)]
pub enum ScenariosCommand {
    /// Their names and what they measure
    List(JsonOnly),
    /// The text of one
    Show {
        /// Its name
        name: String,
    },
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}
