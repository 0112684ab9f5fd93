//! Brokers as people use them: alone, in runs, and when something is wrong.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, Line, TILEMARK,
    real::{Process, Real},
    skipped, words,
};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};
use tilemark_broker::{Config, serve};
use tilemark_record::{result::RunResult, summary::RepeatSummary};

/// `tilemark broker` on a port of its own. Dropping it ends it.
struct Broker {
    child: Child,
    address: String,
}

impl Broker {
    fn start() -> Self {
        Self::of(Command::new(TILEMARK))
    }

    fn of(mut command: Command) -> Self {
        command.args(["broker", "--listen", "127.0.0.1:0"]);
        Self::listening(command)
    }

    fn listening(mut command: Command) -> Self {
        command.stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = String::new();
        BufReader::new(child.stderr.take().unwrap()).read_line(&mut said).unwrap();
        let address =
            said.strip_prefix("listening on ").and_then(|rest| rest.split([';', ' ']).next()).unwrap();
        Self { child, address: address.to_owned() }
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn load(what: &str, address: &str, more: &[&str]) -> common::Said {
    let broker = format!("amqp://{address}");
    // A count ends the load by itself: then the time is only a limit, which a slow machine must not reach.
    let seconds = if more.contains(&"--count") { "600" } else { "1" };
    Home::new().says(&[&["load", what, "--broker", &broker, "--seconds", seconds, "--json"], more].concat())
}

#[test]
fn both_loads_print_every_figure_that_they_promise() {
    let broker = Broker::start();
    let keys = words(
        "messages_per_s transfers_per_s megabytes_per_s lost duplicated reordered client_cpu_s latency_ms \
         send_lateness_us errors verdict",
    );
    let flat_out = load("messaging-throughput", &broker.address, &[]).json();
    let by_schedule = load("messaging-latency", &broker.address, &["--rate", "500"]).json();
    for document in [&flat_out, &by_schedule] {
        for key in &keys {
            assert!(document.get(key).is_some(), "no {key} in {document}");
        }
    }
    assert_eq!(flat_out["verdict"]["status"], "trusted", "{flat_out}");
    // On a busy machine the load itself is late, and says so.
    let verdict = &by_schedule["verdict"];
    let is_late = verdict["reasons"]
        .as_array()
        .unwrap()
        .iter()
        .all(|why| why.as_str().unwrap().contains("late at p99"));
    assert!(verdict["status"] == "trusted" || is_late, "{by_schedule}");
    // What goes as fast as it can has no intended time to be late for: null, and no 0 that may lie.
    assert_eq!(flat_out["latency_ms"], Value::Null);
    assert!(by_schedule["latency_ms"]["p50"].as_f64().unwrap() > 0.0, "{by_schedule}");
}

#[test]
fn every_shape_of_the_load_can_be_asked_for() {
    let broker = Broker::start();
    for shape in [
        ["--mode", "fanout", "--subscribers", "3", "--count", "1000"],
        ["--mode", "topic", "--queues", "2", "--count", "1000"],
        ["--transactions", "50", "--publishers", "2", "--count", "1000"],
    ] {
        let document = load("messaging-throughput", &broker.address, &shape).json();
        assert_eq!(document["verdict"]["status"], "trusted", "{shape:?}: {document}");
    }
    let settled = ["--confirms", "100", "--ack", "20", "--prefetch", "100", "--count", "1000"];
    let document = load("messaging-throughput", &broker.address, &settled).json();
    assert_eq!((&document["published"], &document["received"]), (&1000.into(), &1000.into()), "{document}");
}

#[test]
fn a_password_may_be_in_the_environment_and_one_in_the_address_is_warned_of() {
    let broker = Broker::start();
    let home = Home::new();
    let says = |credentials: &str, password: Option<&str>| {
        let address = format!("amqp://{credentials}@{}", broker.address);
        let mut command = home.command(&["load", "messaging-throughput", "--count", "1000", "--json"]);
        command.args(["--seconds", "600", "--broker", &address]).env_remove("TILEMARK_BROKER_PASSWORD");
        if let Some(password) = password {
            command.env("TILEMARK_BROKER_PASSWORD", password);
        }
        common::Said::of(&command.output().unwrap())
    };
    // Only who reads the variable is let in by the right one and refused with the wrong one.
    let apart = says("guest", Some("guest")).ended(0);
    assert!(!apart.error.contains("list of processes"), "{apart:?}");
    let wrong = says("guest", Some("secret-word"));
    wrong.fails_with(3, "the broker refused user 'guest'", "correct user and password");
    says("guest", None).fails_with(
        2,
        "no password for user `guest` of 127.0.0.1",
        "set TILEMARK_BROKER_PASSWORD",
    );
    let shown = says("somebody:secret-word", None);
    assert!(shown.error.contains("TILEMARK_BROKER_PASSWORD"), "{shown:?}");
    for said in [wrong, shown] {
        assert!(!format!("{said:?}").contains("secret-word"), "{said:?}");
    }
}

#[test]
fn a_broker_ends_in_order_by_ctrl_c_and_by_sigterm() {
    for signal in [Signal::INT, Signal::TERM] {
        let mut broker = Broker::start();
        kill_process(Pid::from_raw(broker.child.id() as i32).unwrap(), signal).unwrap();
        assert_eq!(broker.child.wait().unwrap().code(), Some(0), "{signal:?}");
    }
}

/// The program with far fewer open files than it needs, of which it may have more.
fn with_few_files() -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -S -n 48; exec \"$0\" \"$@\"", TILEMARK]);
    command
}

#[test]
fn a_broker_and_a_load_take_as_many_open_files_as_they_may_have() {
    let broker = Broker::of(with_few_files());
    let mut load = with_few_files();
    load.args(["load", "messaging-throughput", "--json", "--broker", &format!("amqp://{}", broker.address)]);
    load.args(["--queues", "40", "--count", "10", "--seconds", "600"]);
    let said = common::Said::of(&load.output().unwrap());
    assert_eq!((said.code, said.json()["received"].as_u64()), (Some(0), Some(400)), "{said:?}");
}

#[test]
fn a_broker_with_tls_serves_loads_over_it_and_names_what_is_wrong_with_its_files() {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let other = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: String| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let (certificate, key) = (file("crt", made.cert.pem()), file("key", made.signing_key.serialize_pem()));
    let stranger = file("stranger", other.signing_key.serialize_pem());
    let mut command = Command::new(TILEMARK);
    command.args(["broker", "--listen", "127.0.0.1:0", "--tls-cert", &certificate, "--tls-key", &key]);
    let broker = Broker::listening(command);
    let port = broker.address.rsplit(':').next().unwrap();
    let home = Home::new();
    let send = |url: &str, more: &[&str]| {
        let all = words("load messaging-throughput --count 1000 --seconds 600 --json --broker");
        home.says(&[&all[..], &[url], more].concat())
    };
    let secured = format!("amqps://localhost:{port}");
    let said = send(&secured, &["--ca", &certificate]);
    assert_eq!((said.code, said.json()["received"].as_u64()), (Some(0), Some(1000)), "{said:?}");
    send(&secured, &["--ca", "/nowhere/ca"]).fails_with(
        2,
        "cannot read `--ca /nowhere/ca`",
        "path of a file",
    );
    send(&format!("amqp://localhost:{port}"), &[]).fails_with(2, "speaks TLS", "amqps://");
    for (arguments, message) in [
        (["--tls-cert", "/nowhere/crt", "--tls-key", &key], "cannot read `--tls-cert /nowhere/crt`"),
        (["--tls-cert", &key, "--tls-key", &key], "it holds no certificate"),
        (["--tls-cert", &certificate, "--tls-key", &certificate], "it holds no private key that can be read"),
        (["--tls-cert", &certificate, "--tls-key", &stranger], "cannot be used together"),
        (["--tls-cert", &certificate, "--listen", "127.0.0.1:0"], "--tls-key"),
    ] {
        home.says(&[&["broker"][..], &arguments].concat()).ended(2).with_error(message);
    }
}

#[test]
fn what_is_wrong_is_named_with_its_remedy() {
    let broker = Broker::start();
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    for what in ["messaging-throughput", "messaging-latency"] {
        load(what, &nobody, &[]).fails_with(
            3,
            &format!("no broker answers at {nobody}"),
            "tilemark broker --listen",
        );
        let stranger = format!("somebody:secret-word@{}", broker.address);
        let refused = load(what, &stranger, &[]);
        refused.fails_with(3, "the broker refused user 'somebody'", "correct user and password");
        assert!(!format!("{refused:?}").contains("secret-word"), "{refused:?}");
        load(what, &broker.address, &["--size", "15"]).fails_with(2, "`size` is 15B", "use 16B to 16MiB");
        load(what, &broker.address, &["--durable"]).fails_with(3, "durable", "");
        let forever = ["load", what, "--broker", "amqp://127.0.0.1", "--json", "--seconds"];
        let forever = Home::new().says(&[&forever[..], &["86401"]].concat());
        forever.fails_with(2, "86401 is not in 1..=86400", "tilemark --help");
    }
    let both = ["--confirms", "1", "--transactions", "1"];
    load("messaging-throughput", &broker.address, &both).fails_with(
        2,
        "`transactions` is 1 and `confirms` is 1",
        "set one of them to 0",
    );
    let hangs_up = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = hangs_up.local_addr().unwrap().to_string();
    // It ends with the test's process.
    std::thread::spawn(move || hangs_up.incoming().for_each(drop));
    load("messaging-throughput", &address, &[]).fails_with(3, "", "look into the broker's log");
}

/// A load under way; it ends with the test.
struct RunningLoad(Child);

impl RunningLoad {
    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_raw(self.0.id() as i32).unwrap(), signal).unwrap();
    }

    fn ended_by(mut self, signal: Signal) -> common::Said {
        self.signal(signal);
        let read = |from: &mut dyn Read| {
            let mut text = String::new();
            from.read_to_string(&mut text).unwrap();
            text
        };
        let (out, error) = (read(self.0.stdout.as_mut().unwrap()), read(self.0.stderr.as_mut().unwrap()));
        common::Said { code: self.0.wait().unwrap().code(), out, error }
    }
}

impl Drop for RunningLoad {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_load_that_is_interrupted_prints_its_figures_and_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let config =
        Config { journal: Some(folder.path().into()), ..Config::new("127.0.0.1:0".parse().unwrap()) };
    let broker = serve(config).unwrap();
    let mut before = 0;
    for (what, more, signal) in [
        ("messaging-throughput", &["--mode", "topic", "--count", "1000000000"][..], Signal::INT),
        ("messaging-latency", &[], Signal::TERM),
    ] {
        let mut command = Command::new(TILEMARK);
        command.args(["load", what, "--broker", &format!("amqp://{}", broker.address())]);
        command.args(["--durable", "--seconds", "120", "--json"]).args(more);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let load = RunningLoad(child);
        let until = Instant::now() + Duration::from_secs(600);
        while broker.statistics().published == before {
            assert!(Instant::now() < until, "{what} publishes nothing");
            std::thread::sleep(Duration::from_millis(20));
        }
        let document = load.ended_by(signal).ended(5).json();
        let reasons = document["verdict"]["reasons"].to_string();
        assert!(reasons.contains("stopped by Ctrl-C or SIGTERM"), "{document}");
        let published = document["published"].as_u64().unwrap();
        let asked = match document["scheduled"].as_u64() {
            Some(scheduled) => scheduled,
            None => {
                let short =
                    format!("only {published} of 1000000000 messages were published when the load was ended");
                assert!(reasons.contains(&short), "{document}");
                1_000_000_000
            }
        };
        assert!(0 < published && published < asked, "{document}");
        assert_eq!((&document["received"], &document["lost"]), (&document["published"], &0.into()));
        // What it published in all its life is known when the broker's next second has ended.
        let sent = published + before;
        while broker.statistics().published < sent {
            std::thread::sleep(Duration::from_millis(20));
        }
        before = sent;
    }
    let left = broker.stop().unwrap();
    assert_eq!((left.queues, left.exchanges, left.messages), (0, 0, 0));
}

#[test]
fn a_second_ctrl_c_ends_a_load_whose_broker_never_answers() {
    for what in ["messaging-throughput", "messaging-latency"] {
        let hung = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut command = Command::new(TILEMARK);
        command.args(["load", what, "--json", "--broker", &format!("amqp://{}", hung.local_addr().unwrap())]);
        let child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut load = RunningLoad(child);
        let (_connection, _) = hung.accept().unwrap();
        load.signal(Signal::INT);
        let mut said = BufReader::new(load.0.stderr.take().unwrap()).lines();
        assert!(said.any(|line| line.unwrap().contains("Ctrl-C again stops it immediately")), "{what}");
        load.signal(Signal::INT);
        let mut out = String::new();
        load.0.stdout.as_mut().unwrap().read_to_string(&mut out).unwrap();
        // A load that waited for the broker to the end says that it did not answer, and ends with 3.
        assert_eq!(load.0.wait().unwrap().code(), Some(5), "{what}: {out}");
        assert!(out.contains("stopped by a second Ctrl-C"), "{what}: {out}");
    }
}

/// One tile, two seconds of each measurement.
static RUN: Line = Line::new(|| {
    words(
        "run messaging --on native --not-alone --json --tiles 1 --set measure.repeats=1 \
         --set measure.warmup=1s --set measure.length=2s --set",
    )
});

fn repeats(real: &Real, result: &RunResult) -> Vec<RepeatSummary> {
    let record = real.record(&result.run);
    record.repeats().unwrap().iter().map(|repeat| repeat.summary().unwrap()).collect()
}

#[test]
fn a_native_run_measures_a_broker_s_throughput_and_latency() {
    let Some(real) = Real::new() else { return };
    let sizes = ["vary.size.values=[\"16B\",\"1KiB\"]", "--offline"];
    let result = real.home.says(&[&RUN[..], &sizes].concat()).ended(5).result();
    assert_eq!(result.points.len(), 4, "two measures of two sizes");
    for summary in repeats(&real, &result) {
        let (load, point) = (&summary.loads[0], &result.points[summary.point]);
        assert_eq!((load.failed, load.wrong, load.unit.as_str()), (0, 0, "messages"), "{:?}", load.errors);
        match point.vary["measure"].as_str() {
            // How many come is the machine's business.
            "throughput" => assert!(load.completed > 0 && load.latency_ms.n == 0, "{load:?}"),
            _ => {
                assert_eq!((load.offered, load.completed, load.latency_ms.n), (2000, 2000, 2000));
                assert!(
                    load.latency_ms.deviation.is_some() && load.latency_ms.deviation_of_seconds.is_some()
                );
            }
        }
    }
    let page =
        fs::read_to_string(real.home.path().join("runs").join(&result.run).join("report.html")).unwrap();
    assert!(page.contains("beside what was published"));
    real.all_gone(&Default::default(), &[]);
}

/// Throughput and latency were measured, and no message was lost or wrong.
fn both_measures_are_clean(real: &Real, said: &common::Said) {
    assert_eq!(said.code, Some(5), "{said:?}");
    let result = said.result();
    assert_eq!(result.points.len(), 2, "two measures");
    for summary in repeats(real, &result) {
        let load = &summary.loads[0];
        assert!(load.completed > 0, "{load:?}");
        assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
    }
}

/// A broker with TLS in a guest serves nobody without it: each message that arrives came through it.
#[test]
fn a_native_run_measures_a_broker_over_tls_and_beside_one_without() {
    let Some(real) = Real::new() else { return };
    let sizes = ["vary.size.values=[\"1KiB\"]", "--offline", "--set", "load.messages.messaging.tls=true"];
    let said = real.home.says(&[&RUN[..], &sizes].concat());
    both_measures_are_clean(&real, &said);
    let sides = ["--a", "load.messages.messaging.tls=true", "--b", "load.messages.messaging.tls=false"];
    let one = ["vary.size.values=[\"1KiB\"]", "--set", "vary.measure.values=[\"latency\"]", "--offline"];
    let result = real.home.says(&[&["ab"][..], &RUN[1..], &one, &sides].concat()).ended(5).result();
    for summary in repeats(&real, &result) {
        assert_eq!(
            (summary.loads[0].completed, summary.loads[0].failed),
            (2000, 0),
            "{:?}",
            summary.loads[0]
        );
    }
    real.all_gone(&Default::default(), &[]);
}

/// The reference broker refuses durable queues where it has nowhere to keep them, so that every message is lost without its disk.
#[test]
fn the_reference_broker_keeps_durable_messages_on_the_disk_of_its_guest() {
    let Some(real) = Real::new() else { return };
    let file = real.home.path().join("durable.toml");
    let built_in = real.home.says(&["scenarios", "show", "messaging"]).out;
    let with_disk = built_in
        .replace("role = \"broker\"", "role = \"broker\"\n[[guest.disk]]\nsize = \"2GiB\"")
        .replace("[load.messaging]", "[load.messaging]\ndurable = true\nconfirms = 100");
    fs::write(&file, with_disk).unwrap();
    let scenario = file.to_str().unwrap();
    let only = ["--set", "vary.size.values=[\"1024B\"]", "--set", "vary.measure.values=[\"throughput\"]"];
    let result =
        real.home.says(&[&["run", scenario, "--offline"], &RUN[2..14], &only].concat()).ended(5).result();
    for summary in repeats(&real, &result) {
        let load = &summary.loads[0];
        assert!(load.completed > 0 && load.failed + load.wrong == 0, "{load:?}");
    }
}

#[test]
fn the_plan_of_counted_messages_says_that_they_may_end_it_sooner() {
    let plan = |preset| {
        let preset = ["--preset", preset, "--set", "guest.broker.vcpus=1"];
        let said =
            Home::new().says(&[&["plan", "messaging", "--on", "native"][..], &preset].concat()).ended(0);
        said.words()
    };
    let sooner = "less where a load has sent its `count` before its time is over";
    assert!(plan("published").contains(sooner));
    assert!(!plan("quick").contains(sooner));
}

/// Whether the tests' cache holds the image of the third-party brokers.
fn has_image_of_brokers(real: &Real) -> bool {
    let said = real.home.says(&["image", "list", "--json"]);
    let has = said.out.contains("\"brokers\"");
    if !has {
        skipped("the image `brokers` is not in the tests' cache: tilemark image build brokers");
    }
    has
}

#[test]
fn rabbitmq_and_broker_j_serve_a_run_and_the_password_is_in_no_file_or_process() {
    let Some(real) = Real::new() else { return };
    if !has_image_of_brokers(&real) {
        return;
    }
    for (broker, settings) in [("rabbitmq", "rabbitmq.conf"), ("qpid-broker-j", "qpid.json")] {
        let more = format!(
            "vary.size.values=[\"16B\"] --set guest.broker.memory=1GiB --set guest.broker.broker={broker} --offline"
        );
        let (mut running, under_way) = real.begin(&[&RUN[..], &words(&more)].concat());
        let file = running.until("the broker's settings", |_| settings_of(&under_way, settings));
        let password = password_in(&fs::read_to_string(&file).unwrap());
        let all = Process::descendants(running.child.id() as i32);
        for process in Process::descendants(under_way.keeper.unwrap() as i32).iter().chain(&all) {
            for file in ["cmdline", "environ"] {
                let text = fs::read(format!("/proc/{}/{file}", process.pid)).unwrap_or_default();
                assert!(!holds(&text, &password), "{file} of {process:?} has the password");
            }
        }
        let said = running.said().ended(5);
        let result = said.result();
        for summary in repeats(&real, &result) {
            let load = &summary.loads[0];
            assert_eq!((load.failed, load.wrong), (0, 0), "{:?}", load.errors);
            match result.points[summary.point].vary["measure"].as_str() {
                // How many come is the machine's business.
                "throughput" => assert!(load.completed > 0, "{load:?}"),
                // Two seconds of a schedule of 1,000 a second: none is skipped, and none is lost.
                _ => assert_eq!((load.offered, load.completed), (2000, 2000), "{load:?}"),
            }
        }
        assert!(!said.out.contains(&password) && !said.error.contains(&password));
        for file in files_below(&real.home.path().join("runs")) {
            assert!(!holds(&fs::read(&file).unwrap(), &password), "{} has the password", file.display());
        }
        real.all_gone(&all, under_way.cgroup.as_slice());
    }
}

#[test]
fn rabbitmq_serves_a_run_over_tls() {
    let Some(real) = Real::new() else { return };
    if !has_image_of_brokers(&real) {
        return;
    }
    let more = words(
        "vary.size.values=[\"1KiB\"] --set guest.broker.memory=1GiB --set guest.broker.broker=rabbitmq \
         --set load.messages.messaging.tls=true --offline",
    );
    let said = real.home.says(&[&RUN[..], &more].concat());
    both_measures_are_clean(&real, &said);
}

/// The broker's settings, seen through one of the run's processes that has the guest's root.
fn settings_of(under_way: &common::real::ActiveJob, name: &str) -> Option<PathBuf> {
    let all = Process::descendants(i32::try_from(under_way.keeper?).ok()?);
    let file =
        |process: &Process| PathBuf::from(format!("/proc/{}/root/run/tilemark/broker/{name}", process.pid));
    all.iter()
        .map(file)
        .find(|file| fs::read_to_string(file).is_ok_and(|text| !password_in(&text).is_empty()))
}

/// The 32 hexadecimal digits in a file of settings.
fn password_in(text: &str) -> String {
    let words = text.split(|character: char| !character.is_ascii_hexdigit());
    words.filter(|word| word.len() == 32).map(str::to_owned).next().unwrap_or_default()
}

fn holds(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap().flatten().map(|entry| entry.path());
    entries.flat_map(|path| if path.is_dir() { files_below(&path) } else { vec![path] }).collect()
}
