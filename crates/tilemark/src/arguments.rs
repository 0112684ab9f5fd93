//! Flags and commands, as the user writes them.

use clap::{Args, Parser, Subcommand, ValueEnum, builder::RangedU64ValueParser};
use std::path::PathBuf;
use tilemark_run::plan_words::Span;

/// How many guests a Linux host carries before they get slow and what runs out first, what virtualization
/// costs there, and which change makes a difference.
#[derive(Debug, Parser)]
#[command(name = "tilemark", version, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Begin with `tilemark doctor`, then `tilemark quick`. Exit codes: 0 done and trusted, 1 a bug \
of ours, 2 bad scenario or flag, 3 host unfit, 4 a guest failed, 5 finished but not trusted, 6 host not restored."
)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
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
    /// Compare two runs, or two sets of runs
    Compare(CompareArguments),
    /// Draw a record again: HTML, terminal or CSV
    Report(ReportArguments),
    /// List what was measured, and keep sets of runs to compare with
    Runs(RunsArguments),
    /// Start guests, look at them, talk to them, end them
    #[command(subcommand)]
    Guests(GuestsCommand),
    /// A load alone, against any address
    #[command(subcommand)]
    Load(LoadCommand),
    /// Data for a load, as files
    #[command(subcommand)]
    Data(DataCommand),
    /// The reference AMQP 0-9-1 broker, until Ctrl-C
    Broker(BrokerArguments),
    /// The guest image
    #[command(subcommand)]
    Image(ImageCommand),
    /// The scenarios inside this program
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Remove what a killed run left behind
    Recover(JsonOnly),
    /// Print whose code is in this program, and the licences
    Notices,
    /// Print completions for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
}

/// Only `--json`.
#[derive(Debug, Args)]
pub(crate) struct JsonOnly {
    /// Print one JSON document on standard output and everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// Where guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
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
pub(crate) struct Resolution {
    /// How guests exist
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) on: On,
    /// A size of the scenario: quick, host or published
    #[arg(long)]
    pub(crate) preset: Option<String>,
    /// Set a value of the scenario, such as `gate.p99=20ms` or `load.web.rate=300/s`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Use the programs and files of this host that the scenario's file names, as root, and run QEMU without walls where it says
    /// `qemu.walls = "off"`; `plan` lists all of them
    #[arg(long)]
    pub(crate) trust: bool,
    /// Seed of order, schedules and choices; drawn and printed unless given
    #[arg(long)]
    pub(crate) seed: Option<u64>,
}

/// `tilemark plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// A scenario's name or file
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Tile counts instead of the ladder's
    #[arg(long, value_delimiter = ',')]
    pub(crate) tiles: Option<Vec<u32>>,
    /// Measure the native twin in the same blocks
    #[arg(long)]
    pub(crate) twin: bool,
    /// Print the plan as JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What all that measure share.
#[derive(Debug, Args)]
pub(crate) struct Measuring {
    /// Put the record here instead of among the runs
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Fetch nothing: the image must be cached
    #[arg(long)]
    pub(crate) offline: bool,
    /// Wait for another run to end instead of stopping
    #[arg(long)]
    pub(crate) wait: bool,
    /// Run beside another run; the verdict is then at most "cannot tell"
    #[arg(long)]
    pub(crate) not_alone: bool,
    /// Print the result as one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Further repeats for a record.
#[derive(Debug, Args)]
pub(crate) struct Continuing {
    /// Add repeats to a record and judge all of them together. RUN is an id, a unique start of one, `last` or a path; without it,
    /// the newest record of this scenario on this host
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with = "output")]
    pub(crate) more: Option<Option<String>>,
}

/// `tilemark run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A scenario's name or file
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Tile counts instead of the ladder's
    #[arg(long, value_delimiter = ',')]
    pub(crate) tiles: Option<Vec<u32>>,
    /// Measure the native twin in the same blocks
    #[arg(long)]
    pub(crate) twin: bool,
    /// End within this, such as 10m, after a whole block of repeats
    #[arg(long)]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark capacity`.
#[derive(Debug, Args)]
pub(crate) struct CapacityArguments {
    /// A scenario's name or file
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Measure the largest count that holds again, each repeat beside one of its native twin
    #[arg(long)]
    pub(crate) twin: bool,
    /// End within this, such as 10m
    #[arg(long)]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark quick`.
#[derive(Debug, Args)]
pub(crate) struct QuickArguments {
    /// End within this, such as 10m
    #[arg(long, default_value = "5m")]
    pub(crate) within: Span,
    /// Seed of order, schedules and choices; drawn and printed unless given
    #[arg(long)]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark ab`.
#[derive(Debug, Args)]
pub(crate) struct AbArguments {
    /// A scenario's name or file
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// A value of the first side, such as `qemu.machine=pc`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) a: Vec<(String, String)>,
    /// A value of the second side; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    pub(crate) b: Vec<(String, String)>,
    /// Tile counts instead of the ladder's first
    #[arg(long, value_delimiter = ',')]
    pub(crate) tiles: Option<Vec<u32>>,
    /// End within this, such as 20m, after a whole pair; fewer pairs show less
    #[arg(long)]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) verdict: ExitVerdict,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// Exit codes for `git bisect run`.
#[derive(Debug, Args)]
pub(crate) struct ExitVerdict {
    /// Exit 0 when B is no worse, 1 when it is worse by more than the tolerance, 125 for anything else
    #[arg(long)]
    pub(crate) exit_verdict: bool,
    /// Largest loss that still counts as no worse, for every measure that decides
    #[arg(long, default_value = "0%")]
    pub(crate) tolerance: String,
    /// The same for p99, which scatters more [default: that of --tolerance]
    #[arg(long, value_name = "TOLERANCE")]
    pub(crate) tolerance_p99: Option<String>,
}

/// `tilemark compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The first side: a run by id, unique start of an id, `last` or path; or the name of a baseline
    pub(crate) a: String,
    /// The second side. A verdict needs 3 runs of each side or more
    pub(crate) b: String,
    #[command(flatten)]
    pub(crate) verdict: ExitVerdict,
    /// Print the comparison as one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark runs`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct RunsArguments {
    #[command(subcommand)]
    pub(crate) command: Option<RunsCommand>,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// What can be done with runs.
#[derive(Debug, Subcommand)]
pub(crate) enum RunsCommand {
    /// Add runs to a named set, list sets, or take runs out; `tilemark compare` takes the name
    Baseline {
        /// Name of the set; all sets are listed without one
        name: Option<String>,
        /// Runs to add: ids, unique starts of ids, `last` or paths
        #[arg(value_name = "RUN")]
        runs: Vec<String>,
        /// Take these runs out, or remove the set where none is named; the records are kept
        #[arg(long, requires = "name")]
        remove: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// An id, a unique start of one, `last` or a path
    #[arg(default_value = "last")]
    pub(crate) run: String,
    /// Write the HTML page here instead of into the record
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the figures as CSV here
    #[arg(long, value_name = "FILE")]
    pub(crate) csv: Option<PathBuf>,
    /// Leave out host names and serial numbers
    #[arg(long)]
    pub(crate) redact: bool,
    /// Print the result as one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark guests`.
#[derive(Debug, Subcommand)]
pub(crate) enum GuestsCommand {
    /// Start guests and leave them running
    Up(GuestsUpArguments),
    /// What runs
    List(JsonOnly),
    /// Run a program in a guest, and end with its exit code; its standard input is empty
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
pub(crate) struct GuestsUpArguments {
    /// How many
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) count: u32,
    /// What they are for
    #[arg(long, default_value = "idle", value_parser = ["idle", "web", "disk"])]
    pub(crate) role: String,
    /// How they exist
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) on: On,
    /// Clone them from a template (the default)
    #[arg(long, conflicts_with = "boot")]
    pub(crate) clone: bool,
    /// Boot each by itself
    #[arg(long)]
    pub(crate) boot: bool,
    /// Memory of each
    #[arg(long, default_value = "96MiB")]
    pub(crate) memory: String,
    /// Do not wait ten idle seconds to read their memory
    #[arg(long)]
    pub(crate) no_memory: bool,
    /// Fetch nothing: the image must be cached
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load`.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// GET requests against a web server
    Web(LoadWebArguments),
    /// As many messages as an AMQP 0-9-1 broker takes
    MessagingThroughput(ThroughputArguments),
    /// How long messages take through an AMQP 0-9-1 broker at a rate
    MessagingLatency(LatencyArguments),
    /// An online store's customers at a database that `data store --into` has filled
    Store(LoadStoreArguments),
}

/// `tilemark load messaging-throughput`; the defaults are the standard run.
#[derive(Debug, Args)]
pub(crate) struct ThroughputArguments {
    /// amqp://USER@HOST:PORT/VIRTUAL-HOST, such as amqp://guest:guest@127.0.0.1:5672; the password may stand in
    /// TILEMARK_BROKER_PASSWORD
    #[arg(long)]
    pub(crate) broker: String,
    /// Bytes of a message
    #[arg(long, default_value_t = 16)]
    pub(crate) size: usize,
    /// Queues or topics
    #[arg(long, default_value_t = 1)]
    pub(crate) queues: u16,
    /// Publishers of each
    #[arg(long, default_value_t = 1)]
    pub(crate) publishers: u16,
    /// Subscribers of each
    #[arg(long, default_value_t = 1)]
    pub(crate) subscribers: u16,
    /// How messages find their subscribers
    #[arg(long, value_parser = ["shared", "fanout", "topic"], default_value = "shared")]
    pub(crate) mode: String,
    /// Durable queues and persistent messages
    #[arg(long)]
    pub(crate) durable: bool,
    /// Publishes that may wait for their confirm; 0 asks for none
    #[arg(long, default_value_t = 0)]
    pub(crate) confirms: u32,
    /// Acknowledge every so many; 0 is automatic
    #[arg(long, default_value_t = 0)]
    pub(crate) ack: u32,
    /// Messages a subscriber may hold unacknowledged; 0 is no limit
    #[arg(long, default_value_t = 0)]
    pub(crate) prefetch: u16,
    /// Publishes in a transaction; 0 uses none
    #[arg(long, default_value_t = 0)]
    pub(crate) transactions: u32,
    /// Messages of each publisher; without it only time ends the load
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// How long to publish, in seconds
    #[arg(long, default_value_t = 10, value_parser = seconds())]
    pub(crate) seconds: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load messaging-latency`.
#[derive(Debug, Args)]
pub(crate) struct LatencyArguments {
    /// amqp://USER@HOST:PORT/VIRTUAL-HOST, such as amqp://guest:guest@127.0.0.1:5672; the password may stand in
    /// TILEMARK_BROKER_PASSWORD
    #[arg(long)]
    pub(crate) broker: String,
    /// Bytes of a message
    #[arg(long, default_value_t = 16)]
    pub(crate) size: usize,
    /// Messages a second, at intended times
    #[arg(long, default_value_t = 1000)]
    pub(crate) rate: u64,
    /// Durable queue and persistent messages
    #[arg(long)]
    pub(crate) durable: bool,
    /// How long to publish, in seconds
    #[arg(long, default_value_t = 10, value_parser = seconds())]
    pub(crate) seconds: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark broker`.
#[derive(Debug, Args)]
pub(crate) struct BrokerArguments {
    /// Where to listen; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:5672")]
    pub(crate) listen: std::net::SocketAddr,
    /// Folder of the journal; without one durable queues are refused
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
}

/// `tilemark data`.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// The online store's customers, orders and products as CSV, or straight into a database
    Store(DataStoreArguments),
}

/// `tilemark data store`.
#[derive(Debug, Args)]
pub(crate) struct DataStoreArguments {
    /// Bytes of CSV, 10MB to 100GB; with `--as ds2` a label of the old kit
    #[arg(long)]
    pub(crate) size: String,
    /// The same seed gives the same bytes, whatever the threads
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Form of the files
    #[arg(long, value_parser = ["csv"], default_value = "csv")]
    pub(crate) format: String,
    /// Follow the row counts of the old kit
    #[arg(long = "as", value_parser = ["ds2"], value_name = "KIT")]
    pub(crate) like: Option<String>,
    /// Threads that make rows; all when left out
    #[arg(long)]
    pub(crate) threads: Option<usize>,
    /// The folder for CSV files, new or empty
    #[arg(long, value_name = "DIR", required_unless_present = "into")]
    pub(crate) out: Option<PathBuf>,
    /// Load it into this empty database instead: mysql://USER@HOST:PORT/NAME or postgres://…, ?socket=PATH for a
    /// socket; the password may stand in TILEMARK_DATABASE_PASSWORD
    #[arg(long, value_name = "URL", conflicts_with = "out")]
    pub(crate) into: Option<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load store`; the defaults are those of the classic driver.
#[derive(Debug, Args)]
pub(crate) struct LoadStoreArguments {
    /// mysql://USER@HOST:PORT/NAME or postgres://…, ?socket=PATH for a socket; the password may stand in
    /// TILEMARK_DATABASE_PASSWORD
    #[arg(long, value_name = "URL")]
    pub(crate) database: String,
    /// Clients, each with one connection
    #[arg(long, default_value_t = 1)]
    pub(crate) clients: u32,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 60, value_parser = seconds())]
    pub(crate) seconds: u64,
    /// Seconds of load before that, not measured
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(..=SECONDS_MAX))]
    pub(crate) warmup: u64,
    /// Seconds of the steady window that is told, the last ones; without it all that had settled
    #[arg(long)]
    pub(crate) window: Option<u64>,
    /// Orders a second of all clients, at intended times; without it each client orders again when it was served
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// How orders of a rate are spread
    #[arg(long, value_parser = ["even", "poisson"], default_value = "poisson")]
    pub(crate) arrival: String,
    /// Mean pause of a client after an order, in seconds
    #[arg(long, default_value_t = 0.0, conflicts_with = "rate")]
    pub(crate) think_time: f64,
    /// Orders of new customers, of 100
    #[arg(long, default_value_t = 20)]
    pub(crate) new_customers: u32,
    /// Looks at the catalogue before an order, mean
    #[arg(long, default_value_t = 3)]
    pub(crate) searches: u32,
    /// Rows asked for at each look, mean
    #[arg(long, default_value_t = 5)]
    pub(crate) search_rows: u32,
    /// Lines of an order, mean
    #[arg(long, default_value_t = 5)]
    pub(crate) items: u32,
    /// Seed of all draws
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load web`.
#[derive(Debug, Args)]
pub(crate) struct LoadWebArguments {
    /// Such as http://127.0.0.1:8080/index.html; the host must be an address
    pub(crate) url: String,
    /// Connections
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) connections: u32,
    /// How long to measure, in seconds
    #[arg(long, default_value_t = 10, value_parser = seconds())]
    pub(crate) seconds: u64,
    /// Requests a second, at intended times; without it each connection asks again when it was answered
    #[arg(long)]
    pub(crate) rate: Option<f64>,
    /// How requests of a rate are spread
    #[arg(long, value_parser = ["even", "poisson"], default_value = "poisson")]
    pub(crate) arrival: String,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark image`.
#[derive(Debug, Subcommand)]
pub(crate) enum ImageCommand {
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
        /// Its name, a unique start of it, or its specification's name
        name: String,
        /// The file
        file: PathBuf,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Remove images, or the prepared disks of databases, while nothing runs
    #[command(group = clap::ArgGroup::new("unwanted").required(true).multiple(true))]
    Remove {
        /// The image of this name, a unique start of it, or its specification's name
        #[arg(group = "unwanted", conflicts_with_all = ["unused", "disks"])]
        name: Option<String>,
        /// All that newer ones replaced, or that another version of this program built
        #[arg(long, group = "unwanted")]
        unused: bool,
        /// The prepared disks of databases; the next run that needs them makes them again
        #[arg(long, group = "unwanted")]
        disks: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Take an image from a file
    Import {
        /// The file
        file: PathBuf,
        /// Take only the image of this name, as `image export` printed it; needed for a built-in image
        #[arg(long, value_name = "NAME")]
        sha256: Option<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark scenarios`.
#[derive(Debug, Subcommand)]
pub(crate) enum ScenariosCommand {
    /// Their names and what they measure
    List(JsonOnly),
    /// The text of one
    Show {
        /// Its name
        name: String,
    },
}

/// No load lasts longer than a day: figures are kept for each second.
const SECONDS_MAX: u64 = 24 * 60 * 60;

/// A length of time in which something can be measured.
fn seconds() -> RangedU64ValueParser {
    clap::value_parser!(u64).range(1..=SECONDS_MAX)
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err(format!("`{text}` is not KEY=VALUE")),
    }
}
