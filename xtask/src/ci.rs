//! The whole CI. Every part runs, also after a failure; all failures are reported at the end, with the
//! minutes of each part.

use crate::{
    decisions, figures, notices, profiles, promises, scenarios, schema, supply, test_pool, walls, words,
    workspace,
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
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

/// Runs all parts.
pub(crate) fn run() -> Result<()> {
    let mut parts = Vec::new();
    let mut part = |name: &'static str, work: &dyn Fn() -> Result<()>| {
        println!("\n== {name}");
        let began = Instant::now();
        let failure = work().err().map(|error| format!("{error:#}"));
        if let Some(failure) = &failure {
            println!("failed: {failure}");
        }
        parts.push(Part { name, took: began.elapsed(), failure });
    };
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
    part("images, tests' build", &images_and_tests);
    part("tests", &tests);
    part("examples in documents", &examples);
    part("lints", &|| {
        cargo(&[
            "clippy",
            "--workspace",
            "--all-targets",
            "--all-features",
            "--locked",
            "--",
            "-D",
            "warnings",
        ])
    });
    part("documents of the code", &documents);
    report(&parts)
}

fn report(parts: &[Part]) -> Result<()> {
    println!("\n== minutes");
    for part in parts {
        let word = if part.failure.is_some() { "FAILED" } else { "ok" };
        println!("{:>6.1}  {:<24} {word}", part.took.as_secs_f64() / 60.0, part.name);
    }
    let total: Duration = parts.iter().map(|part| part.took).sum();
    println!("{:>6.1}  all", total.as_secs_f64() / 60.0);
    let failed: Vec<&str> =
        parts.iter().filter(|part| part.failure.is_some()).map(|part| part.name).collect();
    println!("{} passed, {} failed", parts.len() - failed.len(), failed.len());
    if failed.is_empty() { Ok(()) } else { bail!("failed: {}", failed.join(", ")) }
}

pub(crate) fn cargo(arguments: &[&str]) -> Result<()> {
    finish(command(arguments), arguments)
}

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(arguments).current_dir(workspace());
    command
}

fn finish(mut command: Command, arguments: &[&str]) -> Result<()> {
    let status = command.status().context("cargo does not start")?;
    if status.success() { Ok(()) } else { bail!("cargo {} ended with {status}", arguments.join(" ")) }
}

fn documents() -> Result<()> {
    let arguments = ["doc", "--workspace", "--no-deps", "--locked"];
    let mut cargo = command(&arguments);
    cargo.env("RUSTDOCFLAGS", "-D warnings");
    finish(cargo, &arguments)
}

/// Where cargo puts what it builds.
pub(crate) fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
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

/// Builds the images beside the tests: most of an image's time is waiting for packages and for one processor.
fn images_and_tests() -> Result<()> {
    thread::scope(|scope| {
        let images = scope.spawn(image);
        let tests = built_tests();
        images.join().map_err(|_| anyhow!("the thread that builds images panicked"))??;
        tests.map(drop)
    })
}

/// Builds all tests, and returns cargo's messages about them.
fn built_tests() -> Result<String> {
    let mut arguments = WORKSPACE_TESTS.to_vec();
    arguments.extend(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = command(&arguments)
        .stderr(std::process::Stdio::inherit())
        .output()
        .context("cargo does not start")?;
    if !output.status.success() {
        bail!("cargo {} ended with {}", arguments.join(" "), output.status);
    }
    String::from_utf8(output.stdout).context("cargo's messages are no text")
}

/// All layers in one build profile. Each layer says loudly what it skips; with `TILEMARK_CI=1` a skip is a failure.
fn tests() -> Result<()> {
    let agent = workspace().join("target/agent/x86_64-unknown-linux-gnu/release/tilemark-agent");
    let mut environment = vec![("TILEMARK_TEST_AGENT", agent.into_os_string())];
    if let Some(image) = image()? {
        environment.push(("TILEMARK_TEST_IMAGE", image.into_os_string()));
        environment.push(("TILEMARK_TEST_CACHE", target().join("test-home/cache").into_os_string()));
    }
    test_pool::run(&built_tests()?, &environment)
}

/// The examples in the documents of the code.
fn examples() -> Result<()> {
    cargo(&[&WORKSPACE_TESTS[..], &["--doc"]].concat())
}
