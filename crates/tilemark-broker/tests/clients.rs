//! Third-party clients against the broker: pika and Celery (Debian: python3-pika, python3-celery), amqp091-go (needs `go`), lapin (built by
//! cargo, the first time for about a minute) and RabbitMQ's PerfTest (fetched by Maven).

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use tilemark_broker::{Config, ServerTls, serve};

/// A client that is there.
#[derive(Clone, Debug)]
enum Client {
    Pika,
    /// The program that was built of `go_client` or `lapin_client`.
    Program(PathBuf),
}

/// A client is missing: CI may not skip, others get a message.
fn skip<T>(reason: &str) -> Option<T> {
    assert!(std::env::var_os("TILEMARK_CI").is_none(), "{reason}, and CI may not skip");
    eprintln!("skipped: {reason}");
    None
}

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests")
}

impl Client {
    fn pika() -> Option<Self> {
        let found =
            Command::new("/usr/bin/python3").args(["-c", "import pika"]).stderr(Stdio::null()).status();
        if found.is_ok_and(|status| status.success()) {
            Some(Self::Pika)
        } else {
            skip("python3-pika is not installed")
        }
    }

    /// Builds the program once; the folder of this test's binaries outlives the test.
    fn go() -> Option<Self> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("go_client");
            let mut build = Command::new("go");
            build.arg("build").arg("-o").arg(&program).arg(".").current_dir(tests_folder().join("go_client"));
            match build.output() {
                Err(_) => skip("go is not installed"),
                Ok(output) if output.status.success() => Some(program),
                Ok(output) => {
                    skip(&format!("go_client does not build: {}", String::from_utf8_lossy(&output.stderr)))
                }
            }
        });
        program.clone().map(Self::Program)
    }

    /// Built apart from the workspace, so that nothing else waits for tokio.
    fn lapin() -> Option<Self> {
        static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
        let program = PROGRAM.get_or_init(|| {
            let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("lapin");
            let mut build = Command::new(env!("CARGO"));
            build.args(["build", "--locked", "--quiet", "--target-dir"]).arg(&target);
            build.current_dir(tests_folder().join("lapin_client"));
            match build.output() {
                Err(_) => skip("cargo cannot be started"),
                Ok(output) if output.status.success() => Some(target.join("debug/lapin-client")),
                Ok(output) => {
                    skip(&format!("lapin_client does not build: {}", String::from_utf8_lossy(&output.stderr)))
                }
            }
        });
        program.clone().map(Self::Program)
    }

    fn play(&self, address: SocketAddr, scenario: &str) {
        self.play_with(address, &[scenario]);
    }

    fn play_with(&self, address: SocketAddr, scenario: &[&str]) {
        let output = self.command(address, scenario).output().expect("the client was found");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{self:?} {scenario:?}: {said}");
    }

    fn command(&self, address: SocketAddr, scenario: &[&str]) -> Command {
        let mut command = match self {
            Self::Pika => {
                let mut command = Command::new("/usr/bin/python3");
                command.arg(tests_folder().join("pika_client.py"));
                command
            }
            Self::Program(program) => Command::new(program),
        };
        command.arg(address.port().to_string()).args(scenario);
        command
    }

    fn play_with_new_broker(&self, scenario: &str) {
        let broker = serve(Config::new("127.0.0.1:0".parse().expect("an address"))).expect("a free port");
        self.play(broker.address(), scenario);
        broker.stop().expect("a good end");
    }
}

macro_rules! scenarios {
    ($($test:ident: $client:ident $scenario:literal;)*) => {
        $(#[test]
        fn $test() {
            if let Some(client) = Client::$client() {
                client.play_with_new_broker($scenario);
            }
        })*
    };
}

scenarios! {
    pika_publishes_and_consumes: pika "publish_and_consume";
    pika_gets_confirms_and_returns: pika "confirm_and_return";
    pika_nacks_and_requeues: pika "nack_and_requeue";
    pika_commits_and_rolls_back: pika "transactions";
    pika_uses_topics_and_fanout: pika "topics_and_fanout";
    pika_gets_its_errors: pika "errors";
    pika_gets_dead_letters_as_of_rabbitmq: pika "dead_letters";
    pika_finds_the_keys_of_dead_letters: pika "keys_of_dead_letters";
    pika_sees_messages_expire_as_in_rabbitmq: pika "expiry";
    pika_uses_headers_and_exchanges_of_exchanges: pika "headers_and_exchanges";
    go_publishes_and_consumes: go "publish_and_consume";
    go_gets_confirms_and_returns: go "confirm";
    go_nacks_and_requeues: go "nack";
    go_commits_and_rolls_back: go "transactions";
    go_uses_topics: go "topics";
    lapin_publishes_and_consumes: lapin "publish_and_consume";
    lapin_gets_confirms_and_returns: lapin "confirm";
    lapin_nacks_and_requeues: lapin "nack";
    lapin_commits_and_rolls_back: lapin "transactions";
    lapin_uses_topics: lapin "topics";
}

/// pika's TLS is OpenSSL's, which checks the certificate and its name.
#[test]
fn pika_does_over_tls_what_it_does_without() {
    let Some(client) = Client::pika() else { return };
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let tls =
        ServerTls::of_pem(&made.cert.pem(), &made.signing_key.serialize_pem()).expect("they belong together");
    let folder = tempfile::tempdir().expect("a temporary folder");
    let ca = folder.path().join("ca.pem");
    std::fs::write(&ca, made.cert.pem()).expect("a file in it");
    for scenario in [
        "publish_and_consume",
        "confirm_and_return",
        "nack_and_requeue",
        "transactions",
        "topics_and_fanout",
        "errors",
    ] {
        let config =
            Config { tls: Some(tls.clone()), ..Config::new("127.0.0.1:0".parse().expect("an address")) };
        let broker = serve(config).expect("a free port");
        let mut command = client.command(broker.address(), &[scenario]);
        let output = command.env("TILEMARK_TEST_CA", &ca).output().expect("the client was found");
        assert!(output.status.success(), "{scenario}: {}", String::from_utf8_lossy(&output.stderr));
        // Without TLS it is not let in.
        let output = client.command(broker.address(), &[scenario]).output().expect("the client was found");
        assert!(!output.status.success(), "{scenario}: a connection without TLS was served");
        broker.stop().expect("a good end");
    }
}

/// A worker of Celery; it ends with the test, also when it fails, and its children with it.
struct Worker(Child);

impl Worker {
    fn start(port: u16, log: &Path) -> Self {
        let mut command = celery(port);
        command.args(["-m", "celery", "--app", "celery_app", "worker", "--concurrency", "2"]);
        command.args(["--without-mingle", "--loglevel", "INFO", "--logfile"]).arg(log);
        Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().expect("python3 was found"))
    }

    /// Asks it to finish its tasks and to end.
    fn end(mut self) {
        let asked = Command::new("kill").arg(self.0.id().to_string()).status().expect("kill is there");
        assert!(asked.success() && self.0.wait().expect("our child").success());
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // Its own children leave when their pipe to it breaks.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn celery(port: u16) -> Command {
    let mut command = Command::new("/usr/bin/python3");
    command.current_dir(tests_folder().join("celery_app")).env("PYTHONDONTWRITEBYTECODE", "1");
    // A worker of root's warns of it.
    command.env("TILEMARK_TEST_PORT", port.to_string()).env("C_FORCE_ROOT", "1");
    command
}

/// Its exchange and its queues are durable, so that the broker needs a journal.
#[test]
fn celery_runs_tasks_with_retries_times_and_orders() {
    let found = Command::new("/usr/bin/python3").args(["-c", "import celery"]).stderr(Stdio::null()).status();
    if !found.is_ok_and(|status| status.success()) {
        return skip("python3-celery is not installed").unwrap_or(());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let config = Config {
        journal: Some(folder.path().join("journal")),
        ..Config::new("127.0.0.1:0".parse().expect("an address"))
    };
    let broker = serve(config).expect("a free port");
    let port = broker.address().port();
    let log = folder.path().join("worker.log");
    let worker = Worker::start(port, &log);
    let output = celery(port).arg("celery_app.py").output().expect("python3 was found");
    let said = String::from_utf8_lossy(&output.stderr);
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(output.status.success(), "{said}\nthe worker:\n{log}");
    worker.end();
    assert!(!log.contains("Connection to broker lost"), "{log}");
    broker.stop().expect("a good end");
}

/// The folder with PerfTest and all that it needs.
fn perf_test() -> Option<PathBuf> {
    static LIBRARIES: OnceLock<Option<PathBuf>> = OnceLock::new();
    let libraries = LIBRARIES.get_or_init(|| {
        let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("perf_test");
        let mut fetch = Command::new("mvn");
        fetch.args(["--batch-mode", "--quiet", "dependency:copy-dependencies", "--file"]);
        fetch.arg(tests_folder().join("perf_test/pom.xml"));
        fetch.arg("-DincludeScope=runtime").arg(format!("-DoutputDirectory={}", folder.display()));
        match fetch.output() {
            Err(_) => skip("mvn is not installed"),
            Ok(output) if output.status.success() => Some(folder),
            Ok(output) => {
                skip(&format!("Maven cannot fetch PerfTest: {}", String::from_utf8_lossy(&output.stdout)))
            }
        }
    });
    libraries.clone()
}

#[test]
fn perf_test_gets_all_that_it_published() {
    let Some(libraries) = perf_test() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    // Its exchange is durable.
    let config = Config {
        journal: Some(folder.path().into()),
        ..Config::new("127.0.0.1:0".parse().expect("an address"))
    };
    let broker = serve(config).expect("a free port");
    let uri = format!("amqp://guest:guest@{}", broker.address());
    // Its consumers wait for the answer to a commit in the thread that deliveries may fill: they need a prefetch there.
    let exchanges = [
        "--autoack --size 16 --pmessages 5000 --cmessages 5000",
        "--confirm 100 --multi-ack-every 50 --qos 100 --flag persistent --pmessages 2000 --cmessages 2000",
        "--ptxsize 10 --ctxsize 10 --qos 100 --pmessages 2000 --cmessages 2000",
        "--type topic --exchange news --routing-key k.x --consumers 3 --pmessages 1000 --cmessages 1000",
    ];
    for exchange in exchanges {
        let mut command = Command::new("java");
        command.arg("-cp").arg(libraries.join("*")).args(["com.rabbitmq.perf.PerfTest", "--uri", &uri]);
        // It ends when it has got all, and without success after ten minutes.
        let output =
            command.args(["--time", "600"]).args(exchange.split(' ')).output().expect("Maven needs it");
        let said = String::from_utf8_lossy(&output.stdout);
        let all = output.status.success() && said.contains("Consumer reached message limit");
        assert!(all, "{exchange}: {said}{}", String::from_utf8_lossy(&output.stderr));
    }
    let done = broker.stop().expect("a good end");
    assert_eq!((done.published, done.delivered), (5000 + 2000 + 2000 + 1000, 5000 + 2000 + 2000 + 3000));
}

const JOURNAL: &str = "TILEMARK_TEST_JOURNAL";

/// Not a test: the broker process that the tests below kill. It is this program, started again.
#[test]
#[ignore = "no test but a process: the tests that kill it start it"]
fn broker_process() {
    let Some(folder) = std::env::var_os(JOURNAL) else { return };
    let config =
        Config { journal: Some(folder.into()), ..Config::new("127.0.0.1:0".parse().expect("an address")) };
    let broker = serve(config).expect("a free port and a free journal");
    println!("\nlistening on {}", broker.address());
    broker.wait().expect("it is killed before it ends");
}

/// Ends with the test, also when it fails.
struct Process(Child, SocketAddr);

impl Process {
    fn start(folder: &Path) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("we run from a file"))
            .args(["--exact", "broker_process", "--ignored", "--nocapture"])
            .env(JOURNAL, folder)
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program starts again");
        let lines = BufReader::new(child.stdout.take().expect("piped above")).lines();
        let mut addresses =
            lines.map_while(Result::ok).filter_map(|line| line.strip_prefix("listening on ")?.parse().ok());
        let address = addresses.next().expect("the broker says where it listens");
        Self(child, address)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // `kill` is SIGKILL; a process that is gone already is as good.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn kill_between_store_and_recovered(client: &Client) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let killed = Process::start(folder.path());
    client.play(killed.1, "store");
    drop(killed);
    let next = Process::start(folder.path());
    client.play(next.1, "recovered");
}

#[test]
fn what_was_confirmed_to_pika_survives_a_kill() {
    if let Some(client) = Client::pika() {
        kill_between_store_and_recovered(&client);
    }
}

#[test]
fn what_was_confirmed_to_go_survives_a_kill() {
    if let Some(client) = Client::go() {
        kill_between_store_and_recovered(&client);
    }
}

#[test]
fn what_was_confirmed_to_lapin_survives_a_kill() {
    if let Some(client) = Client::lapin() {
        kill_between_store_and_recovered(&client);
    }
}

#[test]
fn what_was_confirmed_survives_a_kill_in_the_midst_of_publishing() {
    let Some(client) = Client::pika() else { return };
    let folder = tempfile::tempdir().expect("a temporary folder");
    let killed = Process::start(folder.path());
    let mut publisher = client
        .command(killed.1, &["publish_until_killed"])
        .stdout(Stdio::piped())
        .spawn()
        .expect("the client was found");
    let lines = BufReader::new(publisher.stdout.take().expect("piped above")).lines();
    let mut confirmed = lines.map_while(Result::ok);
    let before = confirmed.by_ref().take(300).count();
    drop(killed);
    let all = before + confirmed.count();
    assert!(publisher.wait().expect("our child").success() && before == 300, "{before} were confirmed");
    let next = Process::start(folder.path());
    client.play_with(next.1, &["confirmed_are_there", &all.to_string()]);
}
