//! The whole CI. Every part runs, also after a failure; all failures are reported at the end, with the
//! minutes of each part. The lab's tests run before the others; they leave more than one of two processors free, and what only the
//! compiler does takes those.

use crate::{
    cargo::{cargo, cargo_command, cargo_program, ended, target, workspace},
    decisions, figures, notices, profiles, promises, scenarios, schema, supply,
    test_pool::TestPrograms,
    walls, words,
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    cell::OnceCell,
    io::{self, Write},
    path::PathBuf,
    process::Command,
    thread,
    time::{Duration, Instant},
};

const WORKSPACE_TESTS: [&str; 4] = ["test", "--workspace", "--all-features", "--locked"];

struct Part {
    name: &'static str,
    took: Duration,
    failure: Option<String>,
}

/// Runs one part and prints how it failed.
fn timed(name: &'static str, work: &dyn Fn() -> Result<()>) -> Part {
    println!("\n== {name}");
    let began = Instant::now();
    let failure = work().err().map(|error| format!("{error:#}"));
    if let Some(failure) = &failure {
        println!("{name} failed: {failure}");
    }
    Part { name, took: began.elapsed(), failure }
}

/// Runs all parts.
pub(crate) fn run() -> Result<()> {
    let began = Instant::now();
    let mut parts = Vec::new();
    let mut part = |name, work: &dyn Fn() -> Result<()>| parts.push(timed(name, work));
    part("format", &|| cargo(&["fmt", "--all", "--check"]));
    part("walls between crates", &walls::check);
    part("promises have their tests", &promises::check);
    part("words", &words::check);
    part("licences, sources", &supply::check);
    part("notices are fresh", &notices::check_fresh);
    part("schemas are fresh", &schema::check_fresh);
    part("page of scenarios is fresh", &scenarios::check_fresh);
    part("page of the host's settings is fresh", &profiles::check_fresh);
    part("decisions are listed", &decisions::check);
    part("page of figures is fresh", &figures::check_fresh);
    part("build", &|| cargo(&["build", "--workspace", "--all-features", "--locked"]));
    let programs = OnceCell::new();
    part("images, tests' build", &|| {
        let _ = programs.set(images_and_tests()?);
        Ok(())
    });
    let beside = thread::scope(|scope| {
        let beside = scope.spawn(beside_the_lab);
        part("tests in the lab", &|| built(&programs)?.run_first());
        beside.join()
    });
    part("tests", &|| built(&programs)?.run_others());
    part("examples in documents", &examples);
    parts.extend(beside.map_err(|_| anyhow!("the thread beside the lab panicked"))?);
    report(&parts, began.elapsed())
}

/// One after another: each has cargo's lock on the target folder.
fn beside_the_lab() -> Vec<Part> {
    let lints =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    vec![
        timed("lints, beside the lab", &|| idle_cargo(&lints)),
        timed("documents, beside it", &|| idle_cargo(&["doc", "--workspace", "--no-deps", "--locked"])),
    ]
}

/// Gives way to everything: by the class `SCHED_IDLE` (sched(7)) within a session, and by the session's own weight among sessions,
/// which the kernel shares processors between where `autogroup` is on. Ends with this program.
const IDLE: &str =
    "echo 19 2>/dev/null >/proc/self/autogroup; exec setpriv --pdeathsig TERM chrt --idle 0 \"$@\"";

/// Runs cargo where it gets only the processor time that nothing else wants, and prints its output in one piece: the lab's tests
/// print meanwhile.
fn idle_cargo(arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("setsid");
    command.args(["sh", "-c", IDLE, "sh"]).arg(cargo_program()).args(arguments).current_dir(workspace());
    // For the documents.
    command.env("RUSTDOCFLAGS", "-D warnings");
    let output = command.output().context("setsid (package util-linux) does not start")?;
    let mut text = output.stdout;
    text.extend(output.stderr);
    // Where nobody reads the output, the result still counts.
    let _ = io::stdout().lock().write_all(&text);
    ended(output.status, arguments)
}

fn report(parts: &[Part], all: Duration) -> Result<()> {
    println!("\n== minutes");
    for part in parts {
        let word = if part.failure.is_some() { "FAILED" } else { "ok" };
        println!("{:>6.1}  {:<24} {word}", part.took.as_secs_f64() / 60.0, part.name);
    }
    println!("{:>6.1}  all", all.as_secs_f64() / 60.0);
    let failed: Vec<&str> =
        parts.iter().filter(|part| part.failure.is_some()).map(|part| part.name).collect();
    println!("{} passed, {} failed", parts.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

/// Builds the images of guests and of the lab with the program that was built, or finds them in the tests' cache; the
/// folder of the first.
/// `None`: not root, and the tests that need them say that they are skipped.
fn image() -> Result<Option<PathBuf>> {
    let folder = image_of("first-look")?;
    image_of("database")?;
    image_of(crate::lab::IMAGE)?;
    image_of("brokers")?;
    image_of("consolidation")?;
    Ok(folder)
}

fn image_of(name: &str) -> Result<Option<PathBuf>> {
    let home = target().join("test-home");
    let output = Command::new(target().join("debug/tilemark"))
        .args(["image", "build", name, "--json"])
        .current_dir(workspace())
        .env("TILEMARK_HOME", &home)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("the program was not built")?;
    let document: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("`image build` printed no JSON")?;
    match document["folder"].as_str() {
        Some(folder) => Ok(Some(PathBuf::from(folder))),
        None if std::env::var_os("TILEMARK_CI").is_none() => {
            println!("skipped: {}", document["error"]["message"]);
            Ok(None)
        }
        None => bail!("{}", document["error"]["message"]),
    }
}

/// Builds the images beside the tests: most of an image's time is waiting for packages and for one processor. Gives the tests, all
/// in one build profile, with what they find in their environment.
fn images_and_tests() -> Result<TestPrograms> {
    let (image, messages) = thread::scope(|scope| {
        let images = scope.spawn(image);
        let tests = built_tests();
        anyhow::Ok((images.join().map_err(|_| anyhow!("the thread that builds images panicked"))??, tests?))
    })?;
    let agent = workspace().join("target/agent/x86_64-unknown-linux-gnu/release/tilemark-agent");
    let mut environment = vec![("TILEMARK_TEST_AGENT", agent.into_os_string())];
    if let Some(image) = image {
        environment.push(("TILEMARK_TEST_IMAGE", image.into_os_string()));
        environment.push(("TILEMARK_TEST_CACHE", target().join("test-home/cache").into_os_string()));
    }
    TestPrograms::new(&messages, environment)
}

/// Each layer reports loudly what it skips; with `TILEMARK_CI=1` a skip is a failure.
fn built(programs: &OnceCell<TestPrograms>) -> Result<&TestPrograms> {
    programs.get().context("the tests were not built")
}

/// Builds all tests, and returns cargo's messages about them.
fn built_tests() -> Result<String> {
    let mut arguments = WORKSPACE_TESTS.to_vec();
    arguments.extend(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = cargo_command(&arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    ended(output.status, &arguments)?;
    String::from_utf8(output.stdout).context("cargo's messages are no text")
}

/// The examples in the documents of the code.
fn examples() -> Result<()> {
    cargo(&[&WORKSPACE_TESTS[..], &["--doc"]].concat())
}
