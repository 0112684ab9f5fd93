//! Flags and commands, as the user writes them.

use crate::values;
use clap::{Args, CommandFactory, Parser, Subcommand, ValueEnum, builder::NonEmptyStringValueParser};
use std::{ffi::OsString, path::PathBuf};
use tilemark_run::plan_words::{Arrival, CONFIRM_BLOCKS, Span};

/// Measures how many guests a Linux/KVM host carries before they get slow, the first bottleneck, what virtualization
/// costs, and which change makes a difference.
#[derive(Debug, Parser)]
#[command(name = "tilemark", version, propagate_version = true, max_term_width = 100)]
pub(crate) struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// The commands.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Show what this host has, what is missing, and how to fix it
    Doctor(DoctorArguments),
    /// Show what a run would do and what would stop it; changes nothing
    Plan(PlanArguments),
    /// Measure how many small guests this host carries, in minutes
    Quick(QuickArguments),
    /// Measure a scenario at every step of its ladder
    Run(RunArguments),
    /// Search for the largest tile count that holds, and confirm it
    Capacity(CapacityArguments),
    /// Measure roles alone and in pairs: which slow each other down?
    Interference(InterferenceArguments),
    /// Measure two configurations in turn: do they differ?
    Ab(AbArguments),
    /// Measure many hosts by ssh or Slurm: one verdict
    #[command(subcommand)]
    Fleet(FleetCommand),
    /// Compare runs, or sets of runs, each with the first
    Compare(CompareArguments),
    /// Show the report of a run again: terminal, HTML or CSV
    Report(ReportArguments),
    /// List, show, tag and remove what was measured; keep baselines
    Runs(RunsArguments),
    /// Start guests, list them, run programs in them, end them
    #[command(subcommand)]
    Guests(GuestsCommand),
    /// Send a load to any address, without guests
    #[command(subcommand)]
    Load(LoadCommand),
    /// Make data for a load, as files or in a database
    #[command(subcommand)]
    Data(DataCommand),
    /// Run the reference AMQP 0-9-1 broker until Ctrl-C
    Broker(BrokerArguments),
    /// Build, list, move and remove guest images
    #[command(subcommand)]
    Image(ImageCommand),
    /// Show, apply, try and restore settings of this host, by profile
    #[command(subcommand)]
    Host(HostCommand),
    /// List or print the scenarios inside this program
    #[command(subcommand)]
    Scenarios(ScenariosCommand),
    /// Remove everything that a killed run left on this host
    Recover(JsonOnly),
    /// Print the licences of all code in this program
    Notices,
    /// Print completions for a shell
    Completion {
        /// Which shell
        shell: clap_complete::Shell,
    },
    /// Write the pages of the manual into a folder
    Man {
        /// The folder; it is made if it is missing. `man -l DIR/tilemark.1` shows the first page
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Only `--json`.
#[derive(Debug, Args)]
pub(crate) struct JsonOnly {
    /// Print one JSON document on standard output and everything else on standard error
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark doctor`.
#[derive(Debug, Args)]
pub(crate) struct DoctorArguments {
    #[command(flatten)]
    pub(crate) site: SiteFile,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// What of other machines belongs to a run on this host.
#[derive(Debug, Args)]
pub(crate) struct SiteFile {
    /// Site file. Its `[[client]]` machines send the loads that have `from = "clients"` (docs/clients.md). Its `[network]` names a
    /// bridge of this host, which guests are connected to, and their addresses (docs/own-bridge.md)
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
}

/// Where guests run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum On {
    /// kvm; where KVM is not usable, stop and print the reason
    Auto,
    /// QEMU with hardware virtualization
    Kvm,
    /// QEMU's translator: it shows that guests work, and its times mean nothing
    Emulated,
    /// No guests: the same services in namespaces on the host's kernel
    Native,
}

/// How what is sent at a rate is spread in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Arrivals {
    /// Equal gaps
    Even,
    /// Independent users: exponential gaps
    Poisson,
}

impl From<Arrivals> for Arrival {
    fn from(arrivals: Arrivals) -> Self {
        match arrivals {
            Arrivals::Even => Self::Even,
            Arrivals::Poisson => Self::Poisson,
        }
    }
}

/// Which subscribers get a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Delivery {
    /// One subscriber of its queue
    Shared,
    /// All subscribers
    Fanout,
    /// All subscribers of its topic
    Topic,
}

/// What all that resolve a scenario share.
#[derive(Debug, Args)]
pub(crate) struct Resolution {
    /// Where guests run
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) on: On,
    /// Use a preset of the scenario, such as quick, host or published
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// Set one value of the scenario, such as `gate.p99=20ms` or `load.web.rate=300/s`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Allow the scenario's file to use programs and files of this host as root, to change settings of the host, and to run QEMU
    /// without its sandbox (`qemu.walls = "off"`); `plan` lists all of them
    #[arg(long)]
    pub(crate) trust: bool,
    /// Seed of the order, the schedules and all random choices. Default: a new one, which is printed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
}

/// `tilemark plan`.
#[derive(Debug, Args)]
pub(crate) struct PlanArguments {
    /// What is planned. `plan SCENARIO` is `plan run SCENARIO`
    #[command(subcommand)]
    pub(crate) command: PlanCommand,
}

/// The command line with `run` where `plan` is followed by none of the commands that it plans.
pub(crate) fn with_planned_command(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    let plan = PlanCommand::augment_subcommands(clap::Command::new("plan"));
    let others = ["help", "-h", "--help", "-V", "--version"];
    let names_one = given.get(2).and_then(|next| next.to_str()).is_some_and(|next| {
        plan.get_subcommands().any(|known| known.get_name() == next) || others.contains(&next)
    });
    if given.get(1).is_some_and(|command| command == "plan") && !names_one {
        given.insert(2, "run".into());
    }
    given
}

/// Another command than those that `plan` plans, where `plan` is followed by one: `compare` of `plan compare one two`. It would
/// be taken for a scenario.
pub(crate) fn unplanned_command(given: &[OsString]) -> Option<String> {
    let is_plan = given.get(1).is_some_and(|command| command == "plan") && given.get(2)? == "run";
    let named = given.get(3).filter(|_| is_plan)?.to_str()?;
    Arguments::command().get_subcommands().any(|known| known.get_name() == named).then(|| named.to_owned())
}

/// How a plan is printed.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct PlanForm {
    /// Print the scenario as resolved, as TOML, instead of the plan: with the preset, all settings and tile counts in place
    #[arg(long, conflicts_with = "json")]
    pub(crate) resolved: bool,
}

/// The commands whose work can be planned.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanCommand {
    /// Plan `tilemark run`; `plan SCENARIO` is the same
    Run {
        #[command(flatten)]
        arguments: RunArguments,
        #[command(flatten)]
        form: PlanForm,
    },
    /// Plan `tilemark capacity`
    Capacity {
        #[command(flatten)]
        arguments: CapacityArguments,
        #[command(flatten)]
        form: PlanForm,
    },
    /// Plan `tilemark ab`
    Ab {
        #[command(flatten)]
        arguments: AbArguments,
        #[command(flatten)]
        form: PlanForm,
    },
    /// Plan `tilemark interference`
    Interference {
        #[command(flatten)]
        arguments: InterferenceArguments,
        #[command(flatten)]
        form: PlanForm,
    },
    /// Plan `tilemark host try`
    #[command(subcommand)]
    Host(PlanHostCommand),
    /// Plan `tilemark quick`
    Quick {
        #[command(flatten)]
        arguments: QuickArguments,
        #[command(flatten)]
        form: PlanForm,
    },
}

/// The commands of `host` whose work can be planned; `host plan` is about a profile.
#[derive(Debug, Subcommand)]
pub(crate) enum PlanHostCommand {
    /// Plan `tilemark host try`
    Try {
        #[command(flatten)]
        arguments: Box<TryArguments>,
        #[command(flatten)]
        form: PlanForm,
    },
}

/// What all that measure share.
#[derive(Debug, Args)]
pub(crate) struct Measuring {
    /// Write the record into this folder instead of the folder of all runs
    #[arg(long, value_name = "DIR")]
    pub(crate) output: Option<PathBuf>,
    /// Download nothing: the image must be in the cache
    #[arg(long)]
    pub(crate) offline: bool,
    /// Wait until another run has ended, instead of stopping
    #[arg(long)]
    pub(crate) wait: bool,
    /// Wait until other programs use little CPU time, at most this long, such as 10m: before the first repeat, and after each repeat
    /// that they disturbed. The programs that use much are shown
    #[arg(long, value_name = "TIME", conflicts_with = "not_alone")]
    pub(crate) wait_quiet: Option<Span>,
    /// Run at the same time as another run; the verdict is then at best "cannot tell"
    #[arg(long)]
    pub(crate) not_alone: bool,
    /// Start this shell command, such as a profiler, as root when the measured seconds of a repeat begin. It gets SIGINT when they
    /// end, and is killed if it goes on. Guests' names and pids are in its environment
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) hook_before: Option<String>,
    /// Run this shell command as root when the measured seconds of a repeat are over, while its guests are still there
    #[arg(long, value_name = "COMMAND", value_parser = NonEmptyStringValueParser::new())]
    pub(crate) hook_after: Option<String>,
    /// Print the result as one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Further repeats for a record.
#[derive(Debug, Args)]
pub(crate) struct Continuing {
    /// Add repeats to a record, and judge all its repeats together. RUN is an id, a unique prefix of an id, `last` or a path.
    /// Default: the newest record of this scenario on this host
    #[arg(long, value_name = "RUN", num_args = 0..=1, conflicts_with = "output")]
    pub(crate) more: Option<Option<String>>,
}

/// `tilemark run`.
#[derive(Debug, Args)]
pub(crate) struct RunArguments {
    /// A scenario inside the program by its name, or a file by its path
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Tile counts to use instead of the scenario's ladder, such as 1,2,4
    #[arg(long, value_delimiter = ',', value_parser = values::one_of_tiles, value_name = "COUNTS")]
    pub(crate) tiles: Option<Vec<u32>>,
    /// Also measure the native twin, in the same blocks
    #[arg(long)]
    pub(crate) twin: bool,
    /// End within this time, such as 10m, after a whole block of repeats
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) site: SiteFile,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark capacity`.
#[derive(Debug, Args)]
pub(crate) struct CapacityArguments {
    /// A scenario inside the program by its name, or a file by its path
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Afterwards measure the answer once more, together with its native twin: this gives the cost of virtualization
    #[arg(long)]
    pub(crate) twin: bool,
    /// End within this time, such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) site: SiteFile,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark interference`.
#[derive(Debug, Args)]
pub(crate) struct InterferenceArguments {
    /// A scenario inside the program by its name, or a file by its path. Its ladder is not used
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    #[command(flatten)]
    pub(crate) site: SiteFile,
    /// Number of further blocks for pairs that look slow; 0: none
    #[arg(long, default_value_t = CONFIRM_BLOCKS, value_name = "NUMBER")]
    pub(crate) confirm: u32,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark quick`.
#[derive(Debug, Args)]
pub(crate) struct QuickArguments {
    /// End within this time, such as 10m
    #[arg(long, default_value = "5m", value_name = "TIME")]
    pub(crate) within: Span,
    /// Seed of the order, the schedules and all random choices. Default: a new one, which is printed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    #[command(flatten)]
    pub(crate) continuing: Continuing,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// `tilemark ab`.
#[derive(Debug, Args)]
pub(crate) struct AbArguments {
    /// A scenario inside the program by its name, or a file by its path
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Set one value of the first side, such as `qemu.machine=pc`; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub(crate) a: Vec<(String, String)>,
    /// Set one value of the second side; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub(crate) b: Vec<(String, String)>,
    /// Tile counts to use instead of the first of the scenario's ladder
    #[arg(long, value_delimiter = ',', value_parser = values::one_of_tiles, value_name = "COUNTS")]
    pub(crate) tiles: Option<Vec<u32>>,
    /// End within this time, such as 20m, after a whole pair; with fewer pairs only larger differences can be shown
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<Span>,
    #[command(flatten)]
    pub(crate) site: SiteFile,
    #[command(flatten)]
    pub(crate) verdict: ExitVerdict,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// Exit codes for `git bisect run`.
#[derive(Debug, Args)]
pub(crate) struct ExitVerdict {
    /// For `git bisect run`: exit 0 when B cannot be worse than A by more than the tolerance (also when B is better), 1 when B is
    /// worse by more or fails where A does not, 125 when it is not certain or guests of A fail too (bisect skips the commit), 128
    /// when no other commit could change it, such as a bad flag or a missing QEMU (bisect stops)
    #[arg(long)]
    pub(crate) exit_verdict: bool,
    /// Largest slowdown of a primary measure that is accepted. With 0% equal sides almost always end in 125
    #[arg(long, default_value = "0%", value_name = "PERCENT")]
    pub(crate) tolerance: String,
    /// The same for p99, which varies more [default: --tolerance]
    #[arg(long, value_name = "PERCENT")]
    pub(crate) tolerance_p99: Option<String>,
}

/// `tilemark compare`.
#[derive(Debug, Args)]
pub(crate) struct CompareArguments {
    /// The first side: a run (an id, a unique prefix of an id, `last` or a path), or the name of a baseline
    #[arg(value_name = "RUN")]
    pub(crate) a: String,
    /// The second side. A verdict needs at least 3 runs on each side
    #[arg(value_name = "RUN")]
    pub(crate) b: String,
    /// Further sides; each is compared with the first one
    #[arg(value_name = "RUN")]
    pub(crate) more: Vec<String>,
    /// Write the comparison as an HTML page into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write it as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Write it as JUnit XML into this file: a test case for each gate and measure, which fails where a side is worse
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
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
    /// Show one run: when, where, with what, its answer, tags and note
    Show {
        /// The run: an id, a unique prefix of an id, `last` or a path
        #[arg(default_value = "last", value_name = "RUN")]
        run: String,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Remove records of runs, with all their files
    Rm {
        /// The runs: ids, unique prefixes of ids, `last` or paths
        #[arg(required = true, value_name = "RUN")]
        runs: Vec<String>,
        /// Remove them; without this flag they are listed
        #[arg(long)]
        yes: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Add tags to a run, or take them away. The closed record is not changed
    Tag {
        /// The run: an id, a unique prefix of an id, `last` or a path
        #[arg(value_name = "RUN")]
        run: String,
        /// Tags: letters, digits, `.`, `-`, `_`. Without tags, those of the run are listed
        #[arg(value_name = "TAG")]
        tags: Vec<String>,
        /// Take these tags away instead
        #[arg(long)]
        remove: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Write a note of a run, beside its record
    Note {
        /// The run: an id, a unique prefix of an id, `last` or a path
        #[arg(value_name = "RUN")]
        run: String,
        /// The note; it takes the place of an earlier one, and an empty one removes it. Without it, the note is printed
        #[arg(value_name = "TEXT")]
        text: Option<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Show the runs of one scenario over time: capacity, p99 and throughput, what changed between them, and where a level changed
    Trend {
        /// The scenario, by its name or by the path that it was run by
        scenario: String,
        /// Write it as an HTML page into this file
        #[arg(long, value_name = "FILE")]
        html: Option<PathBuf>,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Keep named sets of runs for `tilemark compare`: add runs, list the sets, take runs out
    Baseline {
        /// Name of the set. Without a name, all sets are listed
        name: Option<String>,
        /// Runs to add: ids, unique prefixes of ids, `last` or paths
        #[arg(value_name = "RUN")]
        runs: Vec<String>,
        /// Take these runs out of the set, or remove the whole set when no run is given; records are kept
        #[arg(long, requires = "name")]
        remove: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark report`.
#[derive(Debug, Args)]
pub(crate) struct ReportArguments {
    /// The run: an id, a unique prefix of an id, `last` or a path
    #[arg(default_value = "last", value_name = "RUN")]
    pub(crate) run: String,
    /// Write the HTML page into this file instead of into the record
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write the figures as CSV into this file
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
    /// List the guests that run
    List(JsonOnly),
    /// Run a program in a guest and exit with its exit code; its standard input is empty. At most ten minutes, 256 KiB of output and 64 KiB
    /// of errors
    Exec {
        /// The guest's name, as `guests list` shows it
        #[arg(value_name = "GUEST")]
        guest: String,
        /// The program and its arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true, value_name = "COMMAND")]
        command: Vec<String>,
    },
    /// Print what a guest wrote on its console
    Console {
        /// The guest's name
        #[arg(value_name = "GUEST")]
        guest: String,
    },
    /// End guests, and wait until nothing of them is left
    Down {
        /// Id of the guests to end, as `guests list` shows it. Default: all
        #[arg(value_name = "ID")]
        id: Option<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark guests up`.
#[derive(Debug, Args)]
pub(crate) struct GuestsUpArguments {
    /// Number of guests
    #[arg(value_parser = clap::value_parser!(u32).range(1..=1000), value_name = "NUMBER")]
    pub(crate) count: u32,
    /// Their role: the service that runs in them
    #[arg(long, default_value = "idle", value_parser = ["idle", "web", "disk"])]
    pub(crate) role: String,
    /// Where they run
    #[arg(long, value_enum, default_value = "auto")]
    pub(crate) on: On,
    /// Clone them from a template; this is the default
    #[arg(long, conflicts_with = "boot")]
    pub(crate) clone: bool,
    /// Boot each guest instead of cloning it
    #[arg(long)]
    pub(crate) boot: bool,
    /// Memory of each guest
    #[arg(long, default_value = "96MiB", value_name = "SIZE")]
    pub(crate) memory: tilemark_units::Bytes,
    /// Put them on processors and NUMA nodes, by keys of a scenario such as `place.guests=spread`, `place.map.*=cpus:0-1` and
    /// `guest.ROLE.vcpus=2`; may be repeated
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = values::key_value)]
    pub(crate) set: Vec<(String, String)>,
    /// Do not measure their memory use; this saves a wait of ten seconds
    #[arg(long)]
    pub(crate) no_memory: bool,
    /// Join them to the bridge of this host that `[network]` in the site file has, with addresses of its network (docs/own-bridge.md):
    /// other machines then reach their services
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    /// Download nothing: the image must be in the cache
    #[arg(long)]
    pub(crate) offline: bool,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load`.
#[derive(Debug, Subcommand)]
pub(crate) enum LoadCommand {
    /// Send requests to a web server, with or without TLS
    Web(LoadWebArguments),
    /// Send messages through an AMQP 0-9-1 broker as fast as it takes them
    MessagingThroughput(ThroughputArguments),
    /// Send messages through an AMQP 0-9-1 broker at a rate, and measure how long they take
    MessagingLatency(LatencyArguments),
    /// Run an online-store workload (log in, search, order) on a database that `data store --into` filled
    Store(LoadStoreArguments),
}

/// `tilemark load messaging-throughput`; the defaults are the standard run.
#[derive(Debug, Args)]
pub(crate) struct ThroughputArguments {
    /// The broker: amqp://USER@HOST:PORT/VIRTUAL-HOST, such as amqp://guest:guest@127.0.0.1:5672; with TLS amqps://. Set the password in
    /// TILEMARK_BROKER_PASSWORD instead: other users can see a password in the address
    #[arg(long, value_name = "URL")]
    pub(crate) broker: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Size of a message: in bytes, or with a unit, such as 1KiB
    #[arg(long, default_value_t = 16, value_parser = values::bytes, value_name = "BYTES")]
    pub(crate) size: usize,
    /// Number of queues, or of topics
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) queues: u16,
    /// Publishers of each queue or topic
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) publishers: u16,
    /// Subscribers of each queue or topic
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) subscribers: u16,
    /// Which subscribers get a message
    #[arg(long, value_enum, default_value = "shared")]
    pub(crate) mode: Delivery,
    /// Use durable queues and persistent messages
    #[arg(long)]
    pub(crate) durable: bool,
    /// Maximum number of unconfirmed publishes; 0: publisher confirms are off
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) confirms: u32,
    /// Acknowledge after this many messages; 0: automatic acknowledgement
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) ack: u32,
    /// Messages that a subscriber may hold unacknowledged; 0: no limit
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) prefetch: u16,
    /// Publishes in a transaction; 0: no transactions
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    pub(crate) transactions: u32,
    /// Messages of each publisher. Default: no limit, the load ends by time alone
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..), value_name = "NUMBER")]
    pub(crate) count: Option<u64>,
    /// How long to publish: in seconds, or with a unit, such as 10m
    #[arg(long, default_value_t = 10, value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) seconds: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// Whose certificates are accepted, where an address has TLS.
#[derive(Debug, Args)]
pub(crate) struct TrustArguments {
    /// With amqps://: file with PEM certificates of the authorities that may have signed the broker's certificate. Default: those of
    /// this host
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// With amqps://: accept any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
}

/// `tilemark load messaging-latency`.
#[derive(Debug, Args)]
pub(crate) struct LatencyArguments {
    /// The broker: amqp://USER@HOST:PORT/VIRTUAL-HOST, such as amqp://guest:guest@127.0.0.1:5672; with TLS amqps://. Set the password in
    /// TILEMARK_BROKER_PASSWORD instead: other users can see a password in the address
    #[arg(long, value_name = "URL")]
    pub(crate) broker: String,
    #[command(flatten)]
    pub(crate) trust: TrustArguments,
    /// Size of a message: in bytes, or with a unit, such as 1KiB
    #[arg(long, default_value_t = 16, value_parser = values::bytes, value_name = "BYTES")]
    pub(crate) size: usize,
    /// Messages per second, sent at intended times; a whole number, such as 500 or 500/s
    #[arg(long, default_value_t = 1000, value_parser = values::whole_rate, value_name = "NUMBER")]
    pub(crate) rate: u64,
    /// Use a durable queue and persistent messages
    #[arg(long)]
    pub(crate) durable: bool,
    /// How long to publish: in seconds, or with a unit, such as 10m
    #[arg(long, default_value_t = 10, value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) seconds: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark broker`.
#[derive(Debug, Args)]
pub(crate) struct BrokerArguments {
    /// Address to listen on; port 0 chooses a free port. Default: 127.0.0.1:5672, with TLS 127.0.0.1:5671
    #[arg(long, value_name = "ADDRESS:PORT")]
    pub(crate) listen: Option<std::net::SocketAddr>,
    /// Secure every connection by TLS 1.3 with the PEM certificates in this file: the server's own first, then those of the authorities above it
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub(crate) tls_cert: Option<PathBuf>,
    /// File with the PEM key of that certificate
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub(crate) tls_key: Option<PathBuf>,
    /// Folder of the journal. Without it, durable queues are refused
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Start with what is left of a damaged journal. Without it, the broker does not start
    #[arg(long, requires = "journal")]
    pub(crate) accept_damage: bool,
    /// Memory for messages, queues and connections, such as 512MiB; above it publishers wait. Default: 40 % of the
    /// host's memory
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory_limit: Option<tilemark_units::Bytes>,
    /// Read the journal in DIR, print what is in it and what is damaged, and end: exit code 0 where all is whole, else 3
    #[arg(long, value_name = "DIR", conflicts_with_all = ["journal", "accept_damage", "memory_limit", "listen", "tls_cert", "tls_key"])]
    pub(crate) check: Option<PathBuf>,
}

/// `tilemark data`.
#[derive(Debug, Subcommand)]
pub(crate) enum DataCommand {
    /// Make the online store's customers, orders and products, as CSV or directly in a database
    Store(DataStoreArguments),
}

/// `tilemark data store`.
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("target").required(true))]
pub(crate) struct DataStoreArguments {
    /// Size of the data as CSV, 10MB to 100GB; with `--as ds2` a DVD Store 2 size: S, M, L, or 1MB to 4095GB
    #[arg(long, value_name = "SIZE")]
    pub(crate) size: String,
    /// Seed of the data: the same seed gives the same bytes, with any number of threads
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Format of the files
    #[arg(long, value_parser = ["csv"], default_value = "csv")]
    pub(crate) format: String,
    /// Use the row counts of another benchmark: DVD Store 2
    #[arg(long = "as", value_parser = ["ds2"], value_name = "BENCHMARK")]
    pub(crate) like: Option<String>,
    /// Threads that make rows. Default: as many as the host has processors
    #[arg(long, value_name = "NUMBER")]
    pub(crate) threads: Option<usize>,
    /// Folder for the CSV files, new or empty
    #[arg(long, value_name = "DIR", group = "target")]
    pub(crate) out: Option<PathBuf>,
    /// Load the data into this empty database instead: mysql://USER@HOST:PORT/NAME or postgres://…, with ?socket=PATH for a
    /// socket, ?ssl-mode=required or ?sslmode=require for TLS. Set the password in TILEMARK_DATABASE_PASSWORD instead: other users can see a password in the address
    #[arg(long, value_name = "URL", group = "target")]
    pub(crate) into: Option<String>,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load store`; the defaults are those of the classic driver.
#[derive(Debug, Args)]
pub(crate) struct LoadStoreArguments {
    /// The database: mysql://USER@HOST:PORT/NAME or postgres://…, with ?socket=PATH for a socket. For TLS 1.3 add
    /// ?ssl-mode=required, or verify-ca or verify-identity with &ssl-ca=FILE (default: the authorities of this host). PostgreSQL:
    /// ?sslmode=require, verify-ca or verify-full, &sslrootcert=FILE. Set the password in TILEMARK_DATABASE_PASSWORD instead: other
    /// users can see a password in the address
    #[arg(long, value_name = "URL")]
    pub(crate) database: String,
    /// Number of clients, each with one connection
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) clients: u32,
    /// How long to measure: in seconds, or with a unit, such as 10m
    #[arg(long, default_value_t = 60, value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) seconds: u64,
    /// Load before the measurement: in seconds, or with a unit, such as 2m
    #[arg(long, default_value_t = 60, value_parser = values::warmup, value_name = "SECONDS")]
    pub(crate) warmup: u64,
    /// Length of the steady window in the result: the last seconds of the run. Default: all seconds after the load had settled
    #[arg(long, value_parser = values::whole_seconds, value_name = "SECONDS")]
    pub(crate) window: Option<u64>,
    /// Orders per second of all clients, at intended times, such as 50 or 50/s. Default (closed loop): each client sends its next order
    /// when its previous order is served
    #[arg(long, value_parser = values::rate, value_name = "RATE")]
    pub(crate) rate: Option<f64>,
    /// How the orders of a rate are spread in time
    #[arg(long, value_enum, default_value = "poisson")]
    pub(crate) arrival: Arrivals,
    /// Mean pause of a client after each order: in seconds, or with a unit, such as 500ms
    #[arg(long, default_value_t = 0.0, value_parser = values::seconds_and_parts, conflicts_with = "rate", value_name = "SECONDS")]
    pub(crate) think_time: f64,
    /// Percentage of orders that come from new customers
    #[arg(long, default_value_t = 20, value_name = "NUMBER")]
    pub(crate) new_customers: u32,
    /// Mean number of searches in the catalogue before an order
    #[arg(long, default_value_t = 3, value_name = "NUMBER")]
    pub(crate) searches: u32,
    /// Mean number of rows that a search asks for
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    pub(crate) search_rows: u32,
    /// Mean number of lines of an order
    #[arg(long, default_value_t = 5, value_name = "NUMBER")]
    pub(crate) items: u32,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    pub(crate) seed: u64,
    /// Print one JSON document on standard output
    #[arg(long)]
    pub(crate) json: bool,
}

/// `tilemark load web`.
#[derive(Debug, Args)]
pub(crate) struct LoadWebArguments {
    /// The URL, such as http://127.0.0.1:8080/index.html, with http or https. A name is looked up once
    #[arg(value_name = "URL")]
    pub(crate) url: String,
    /// File of requests with weights, instead of a path in the URL: TOML, an array of tables named request, with path, weight, method,
    /// headers, body, expect_status, contains, length, any_length
    #[arg(long, value_name = "FILE")]
    pub(crate) requests: Option<PathBuf>,
    /// Method of the requests. Default: GET
    #[arg(long, value_name = "METHOD")]
    pub(crate) method: Option<String>,
    /// A header of the requests, such as 'Accept: text/html'; may be given several times
    #[arg(long = "header", value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// Body of the requests; @FILE: the text of a file
    #[arg(long, value_name = "TEXT")]
    pub(crate) body: Option<String>,
    /// Status that an answer must have. Redirects are not followed. Default: 200
    #[arg(long, value_name = "STATUS")]
    pub(crate) expect_status: Option<u16>,
    /// Text that the body of an answer must contain
    #[arg(long, value_name = "TEXT")]
    pub(crate) contains: Option<String>,
    /// Accept answers of any length. Default: each must be as long as the first
    #[arg(long)]
    pub(crate) any_length: bool,
    /// File with PEM certificates of the authorities that may have signed the server's certificate. Default: those of this host
    #[arg(long, value_name = "FILE", conflicts_with = "insecure")]
    pub(crate) ca: Option<PathBuf>,
    /// Accept any certificate
    #[arg(long)]
    pub(crate) insecure: bool,
    /// Number of connections
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u32).range(1..), value_name = "NUMBER")]
    pub(crate) connections: u32,
    /// How long to measure: in seconds, or with a unit, such as 10m
    #[arg(long, default_value_t = 10, value_parser = values::seconds, value_name = "SECONDS")]
    pub(crate) seconds: u64,
    /// Requests per second, at intended times, such as 500 or 500/s. Default (closed loop): each connection sends its next
    /// request when the previous one is answered
    #[arg(long, value_parser = values::rate, value_name = "RATE")]
    pub(crate) rate: Option<f64>,
    /// How the requests of a rate are spread in time
    #[arg(long, value_enum, default_value = "poisson")]
    pub(crate) arrival: Arrivals,
    /// Seed of the schedule
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
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
        /// An image inside the program, such as `first-look`, the path of an image.toml, or a scenario
        #[arg(default_value = "first-look", value_name = "IMAGE")]
        image: String,
        /// Choose the newest packages again, even if the image is cached
        #[arg(long)]
        refresh: bool,
        /// Download nothing
        #[arg(long)]
        offline: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// List the images in the cache
    List(JsonOnly),
    /// Print what an image holds: roles that it can serve, files, packages with versions
    Show {
        /// An image inside the program, a unique prefix of an image's name, the path of an image.toml, or a scenario
        #[arg(default_value = "first-look", value_name = "IMAGE")]
        image: String,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Open a shell in a copy of an image, without a network; nothing of it is kept
    Shell {
        /// An image inside the program, a unique prefix of an image's name, the path of an image.toml, or a scenario
        #[arg(default_value = "first-look", value_name = "IMAGE")]
        image: String,
        /// Download nothing
        #[arg(long)]
        offline: bool,
        /// The command to run instead of a shell, after `--`
        #[arg(last = true)]
        command: Vec<String>,
    },
    /// Write an image into a file
    Export {
        /// The image: its name, a unique prefix of its name, or its specification's name
        name: String,
        /// The file to write
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Remove images, or the prepared disks of databases, while nothing runs
    #[command(group = clap::ArgGroup::new("unwanted").required(true).multiple(true))]
    Remove {
        /// The image: its name, a unique prefix of its name, or its specification's name
        #[arg(group = "unwanted", conflicts_with_all = ["unused", "disks"])]
        name: Option<String>,
        /// All images that newer ones have replaced, or that another version of this program built
        #[arg(long, group = "unwanted")]
        unused: bool,
        /// The prepared disks of databases; the next run that needs them makes new ones
        #[arg(long, group = "unwanted")]
        disks: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Read an image from a file into the cache
    Import {
        /// The file to read
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Accept only the image of this name, as `image export` printed it; an image inside the program needs it
        #[arg(long, value_name = "NAME")]
        sha256: Option<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
}

/// `tilemark host`.
#[derive(Debug, Subcommand)]
pub(crate) enum HostCommand {
    /// List all settings that a profile may name
    Settings(JsonOnly),
    /// Print the text of a profile, to copy and change
    Show {
        /// A profile inside the program by its name, or a file by its path
        #[arg(value_name = "PROFILE")]
        profile: String,
    },
    /// Show what a profile would change on this host; touches nothing
    Plan {
        /// A profile inside the program by its name, or a file by its path
        #[arg(value_name = "PROFILE")]
        profile: String,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Apply a profile: all of its settings or none. They stay until `host restore`, or until the host boots
    Apply {
        /// A profile inside the program by its name, or a file by its path
        #[arg(value_name = "PROFILE")]
        profile: String,
        /// Apply it; without this flag the plan is shown
        #[arg(long)]
        yes: bool,
        /// Also set this dangerous setting; may be repeated
        #[arg(long, value_name = "KEY")]
        allow: Vec<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Compare this host with a profile: exit 0 when all settings are as wanted, 1 when one differs
    Verify {
        /// A profile inside the program by its name, or a file by its path
        #[arg(value_name = "PROFILE")]
        profile: String,
        /// Also compare this dangerous setting; may be repeated
        #[arg(long, value_name = "KEY")]
        allow: Vec<String>,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Restore all settings that `host apply` changed. One that another program has changed since is left alone (exit code 6)
    Restore(JsonOnly),
    /// Show which profile is applied, with the values now and before
    Status(JsonOnly),
    /// Find out which settings of a profile improve performance on this host: all are screened together in a designed experiment, then
    /// each setting that seems to have an effect is confirmed alone
    Try(Box<TryArguments>),
    /// Print a profile in the format of another program. Settings that the format cannot hold are in its comments
    Export {
        /// A profile inside the program by its name, or a file by its path
        #[arg(value_name = "PROFILE")]
        profile: String,
        /// The format
        #[arg(long, value_enum)]
        format: ExportFormat,
    },
    /// Print a profile of tuned as a profile of Tilemark. Settings that Tilemark does not have are in its comments
    Import {
        /// The profile's file, such as /usr/lib/tuned/profiles/virtual-host/tuned.conf
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// Bind running guests of QEMU and libvirt to NUMA nodes or processors, and move their memory there. Only the guests that the file
    /// names are changed
    Pin {
        /// A file with one guest a line: a name, in which * and ? are wildcards, then nodes (`web-* 0-1`) or processors
        /// (`db cpus 4-7`)
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Also bind guests that are started later, until Ctrl-C
        #[arg(long)]
        watch: bool,
        #[command(flatten)]
        json: JsonOnly,
    },
    /// Undo `host pin` for guests that still run. A thread that another program has bound since is left alone (exit code 6)
    Unpin(JsonOnly),
}

/// `tilemark host try`.
#[derive(Debug, Args)]
pub(crate) struct TryArguments {
    /// A scenario inside the program by its name, or a file by its path. It is measured at the first step of its ladder
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// The settings to try: a profile inside the program by its name, or a file by its path
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: String,
    /// Also try this dangerous setting; may be repeated
    #[arg(long, value_name = "KEY")]
    pub(crate) allow: Vec<String>,
    /// Number of pairs of repeats that confirm each setting which seems to have an effect; 0 confirms none
    #[arg(long, default_value_t = 12, value_name = "NUMBER")]
    pub(crate) pairs: u32,
    /// Tile count to use instead of the first of the scenario's ladder
    #[arg(long, value_parser = values::tiles, value_name = "NUMBER")]
    pub(crate) tiles: Option<u32>,
    /// Write the settings that paid into this file as a profile. If the verdict is trusted, the profile stays applied
    #[arg(long, value_name = "FILE")]
    pub(crate) keep: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    #[command(flatten)]
    pub(crate) measuring: Measuring,
}

/// Formats of `tilemark host export`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// A profile of tuned
    Tuned,
    /// A file for /etc/sysctl.d
    Sysctl,
    /// Parameters for the boot loader
    KernelCmdline,
}

/// `tilemark fleet`.
#[derive(Debug, Subcommand)]
pub(crate) enum FleetCommand {
    /// Ask every host whether it is fit, and how long it would measure
    Plan(FleetPlanArguments),
    /// Measure a scenario on every host, and collect the records
    Run(FleetRunArguments),
    /// Show what each host of a fleet run is doing
    Status(FleetNamed),
    /// Copy the records of hosts that have ended to this machine; may be repeated
    Collect(FleetNamed),
    /// End the work of all hosts, and collect what they have finished
    Cancel(FleetNamed),
    /// Remove from the hosts what is collected and verified
    Clean(FleetNamed),
    /// Give the verdict of a fleet run again, as a page too
    Report(FleetReportArguments),
    /// Compare two runs of a fleet, host by host
    Compare(FleetCompareArguments),
    /// Measure the hosts that differed once more, together with as many hosts that did not
    Confirm(FleetConfirmArguments),
}

/// `tilemark fleet report`.
#[derive(Debug, Args)]
pub(crate) struct FleetReportArguments {
    /// The fleet run: its id, a unique prefix of it, `last` or a path
    #[arg(default_value = "last", value_name = "ID")]
    pub(crate) fleet: String,
    /// The fleet run of `fleet confirm`: only hosts that differ there too are named
    #[arg(long, value_name = "ID")]
    pub(crate) confirmed_by: Option<String>,
    /// Compare hosts that have the same first entry of `groups` in the site file, instead of hosts of equal hardware and settings
    #[arg(long)]
    pub(crate) site_groups: bool,
    #[command(flatten)]
    pub(crate) forms: FleetForms,
}

/// `tilemark fleet compare`.
#[derive(Debug, Args)]
pub(crate) struct FleetCompareArguments {
    /// The earlier fleet run: an id, a unique prefix of it or a path
    #[arg(value_name = "ID")]
    pub(crate) before: String,
    /// The later one. Hosts without a change in their facts are the controls
    #[arg(default_value = "last", value_name = "ID")]
    pub(crate) after: String,
    #[command(flatten)]
    pub(crate) forms: FleetForms,
}

/// `tilemark fleet confirm`.
#[derive(Debug, Args)]
pub(crate) struct FleetConfirmArguments {
    /// The fleet run whose hosts differ: its id, a unique prefix of it, `last` or a path
    #[arg(default_value = "last", value_name = "ID")]
    pub(crate) fleet: String,
    /// Draw the others, the order and the schedules from this seed. Default: a new one, which is printed
    #[arg(long, value_name = "NUMBER")]
    pub(crate) seed: Option<u64>,
    /// Compare hosts within the first of their `groups` in the site file, as `fleet report --site-groups` does
    #[arg(long)]
    pub(crate) site_groups: bool,
    /// Use the addresses and the engine of this site file, if they have changed
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// How a verdict about a fleet is written.
#[derive(Debug, Args)]
pub(crate) struct FleetForms {
    /// Write it as an HTML page into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write it as Markdown into this file
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
    /// Leave out host names, addresses and messages from the hosts
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// What every host of a fleet is to measure.
#[derive(Debug, Args)]
pub(crate) struct FleetWork {
    /// Search for the capacity of each host, as `tilemark capacity` does, instead of measuring the scenario's ladder
    #[arg(long)]
    pub(crate) capacity: bool,
    #[command(flatten)]
    pub(crate) resolution: Resolution,
    /// Tile counts to use instead of the scenario's ladder, such as 1,2,4
    #[arg(long, value_delimiter = ',', value_parser = values::one_of_tiles, value_name = "COUNTS", conflicts_with = "capacity")]
    pub(crate) tiles: Option<Vec<u32>>,
    /// Each host ends within this time, such as 10m
    #[arg(long, value_name = "TIME")]
    pub(crate) within: Option<Span>,
    /// Download nothing: each host must have the image in its cache
    #[arg(long)]
    pub(crate) offline: bool,
}

/// `tilemark fleet plan`.
#[derive(Debug, Args)]
pub(crate) struct FleetPlanArguments {
    /// A scenario inside the program by its name, or a file by its path, which is sent to the hosts
    #[arg(value_name = "SCENARIO")]
    pub(crate) scenario: String,
    /// The site file: the hosts, and by which engine they are used
    #[arg(long, value_name = "FILE")]
    pub(crate) site: PathBuf,
    #[command(flatten)]
    pub(crate) work: FleetWork,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// `tilemark fleet run`.
#[derive(Debug, Args)]
pub(crate) struct FleetRunArguments {
    /// A scenario inside the program by its name, or a file by its path, which is sent to the hosts
    #[arg(value_name = "SCENARIO", required_unless_present = "resume")]
    pub(crate) scenario: Option<String>,
    /// The site file: the hosts, and by which engine they are used. With --resume: reach the hosts as this file has them from now on
    #[arg(long, value_name = "FILE", required_unless_present = "resume")]
    pub(crate) site: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) work: FleetWork,
    /// Continue an interrupted fleet run: hosts that already have the job do not get it again. Default: the newest
    #[arg(long, value_name = "ID", num_args = 0..=1, conflicts_with_all = [
        "scenario", "capacity", "on", "preset", "set", "trust", "seed", "tiles", "within", "offline",
    ])]
    pub(crate) resume: Option<Option<String>>,
    /// At most this many hosts measure at the same time, where they share storage, power or cooling. Default: all; with --resume, as before
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) at_once: Option<u16>,
    /// Return when all is submitted; `fleet collect` copies the records to this machine
    #[arg(long, conflicts_with = "at_once")]
    pub(crate) detach: bool,
    /// Wait no longer than this, such as 2h. Hosts that have not ended then go on, and are listed; with --at-once, no further host begins
    #[arg(long, value_name = "TIME")]
    pub(crate) wait_at_most: Option<Span>,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// A fleet run.
#[derive(Debug, Args)]
pub(crate) struct FleetNamed {
    /// The fleet run: its id, a unique prefix of it, `last` or a path
    #[arg(default_value = "last", value_name = "ID")]
    pub(crate) fleet: String,
    /// Use the addresses and the engine of this site file, if they have changed
    #[arg(long, value_name = "FILE")]
    pub(crate) site: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) json: JsonOnly,
}

/// `tilemark scenarios`.
#[derive(Debug, Subcommand)]
pub(crate) enum ScenariosCommand {
    /// List the scenarios: their names and what they measure
    List(JsonOnly),
    /// Print the text of a scenario
    Show {
        /// Its name
        name: String,
    },
}
