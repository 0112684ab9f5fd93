//! The whole CI. Every part runs, also after a failure; all failures are reported at the end, with the
//! minutes of each part. The lab's tests run before the others, and those that wait beside them. Tests leave a part of the processors
//! free, and what only the compiler does takes that.

use crate::{
    cargo::{cargo, cargo_command, cargo_program, ended, target, without_ours, workspace},
    decisions, figures,
    idle::idle,
    notices, profiles, promises, scenarios, schema, supply,
    test_pool::TestPrograms,
    walls, words,
};
use anyhow::{Context, Result, anyhow, bail};
use std::{
    cell::OnceCell,
    io::{self, BufRead, BufReader, Write},
    path::PathBuf,
    process::{Command, Stdio},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};
use tilemark_units::counted;

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
    let building = OnceCell::new();
    part("build, images", &|| {
        let _ = building.set(build_and_images()?);
        Ok(())
    });
    let programs = building.into_inner();
    let beside = thread::scope(|scope| {
        let programs = &programs;
        let (made, images_are_made) = mpsc::channel();
        let waiting = scope.spawn(move || {
            let images = timed("other images, beside the lab", &|| other_images(programs));
            let _ = made.send(());
            [images, timed("tests that wait, beside all", &|| built(programs)?.run_waiting())]
        });
        let beside = scope.spawn(|| beside_the_tests(programs));
        part("tests in the lab", &|| built(programs)?.run_first());
        // A thread that panicked made no image: the tests that need one say so.
        let _ = images_are_made.recv();
        part("tests", &|| built(programs)?.run_others());
        let mut beside = beside.join()?;
        beside.extend(waiting.join()?);
        thread::Result::Ok(beside)
    });
    if let Some(programs) = &programs {
        programs.list_slowest();
    }
    parts.extend(beside.map_err(|_| anyhow!("a thread beside the tests panicked"))?);
    report(&parts, began.elapsed())
}

/// One after another: cargo's have its lock on the target folder. No test runs cargo.
fn beside_the_tests(programs: &Option<TestPrograms>) -> Vec<Part> {
    let lints =
        ["clippy", "--workspace", "--all-targets", "--all-features", "--locked", "--", "-D", "warnings"];
    let examples = [&WORKSPACE_TESTS[..], &["--doc"]].concat();
    vec![
        timed("lints, beside the tests", &|| idle_cargo(&lints)),
        timed("documents, beside them", &|| idle_cargo(&["doc", "--workspace", "--no-deps", "--locked"])),
        timed("examples in documents", &|| idle_cargo(&examples)),
        timed("tests that only compute", &|| built(programs)?.run_computing()),
    ]
}

/// Runs cargo where it gets only the processor time that nothing else wants, and prints its output in one piece: tests print
/// meanwhile.
fn idle_cargo(arguments: &[&str]) -> Result<()> {
    let mut command = idle(&cargo_program());
    command.args(arguments).current_dir(workspace());
    without_ours(&mut command);
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
    let failed: Vec<String> =
        parts.iter().filter_map(|part| Some(format!("{}: {}", part.name, part.failure.as_ref()?))).collect();
    println!("{} passed, {} failed", parts.len() - failed.len(), failed.len());
    if failed.is_empty() {
        Ok(())
    } else {
        bail!("{} failed:\n  {}", counted(failed.len() as u64, "part"), failed.join("\n  "))
    }
}

/// The images that the lab's tests need; the folder of the first look's.
fn images_of_the_lab() -> Result<Option<PathBuf>> {
    let program = tilemark();
    // Before its tests, which have less time for it. Without one they say that they are skipped.
    match crate::lab::find_qemu() {
        Ok(qemu) => println!("the lab's QEMU: {}", qemu.display()),
        Err(error) => println!("no lab: {error:#}"),
    }
    let folder = image_of("first-look", Command::new(&program))?;
    image_of(crate::lab::IMAGE, Command::new(&program))?;
    Ok(folder)
}

/// The images that only the other tests need.
fn other_images(programs: &Option<TestPrograms>) -> Result<()> {
    built(programs)?;
    for name in ["brokers", "consolidation", "database"] {
        image_of(name, idle(tilemark().as_os_str()))?;
    }
    Ok(())
}

/// The program that was built.
fn tilemark() -> PathBuf {
    target().join("debug/tilemark")
}

/// Has the program build an image, or find it in the tests' cache, and gives its folder.
/// `None`: not root, and the tests that need it say that they are skipped.
fn image_of(name: &str, mut program: Command) -> Result<Option<PathBuf>> {
    let home = target().join("test-home");
    let output = program
        .args(["image", "build", name, "--json"])
        .current_dir(workspace())
        .env("TILEMARK_HOME", &home)
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("{} does not start", program.get_program().display()))?;
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

/// Builds all programs and tests in one go, so that both processors always have something to compile. The lab's images are built beside
/// that, from the moment that the program which builds them is there: most of an image's time is waiting for packages and for one
/// processor. Gives the tests, with what they find in their environment.
fn build_and_images() -> Result<TestPrograms> {
    let (image, messages) = thread::scope(|scope| {
        let mut images = None;
        let tests = built_tests(&mut || images = Some(scope.spawn(images_of_the_lab)));
        let image = images
            .map(|images| images.join().map_err(|_| anyhow!("the thread that builds images panicked"))?);
        let messages = tests?;
        let image = image.context("cargo named no program `tilemark` among what it built")??;
        anyhow::Ok((image, messages))
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
fn built(programs: &Option<TestPrograms>) -> Result<&TestPrograms> {
    programs.as_ref().context("the tests were not built")
}

/// Builds all tests and the programs that they start, and returns cargo's messages about them. Calls `has_program` as soon as
/// `tilemark` is built.
fn built_tests(has_program: &mut dyn FnMut()) -> Result<String> {
    let mut arguments = WORKSPACE_TESTS.to_vec();
    arguments.extend(["--no-run", "--message-format", "json-render-diagnostics"]);
    let mut cargo =
        cargo_command(&arguments).stdout(Stdio::piped()).spawn().context("cargo does not start")?;
    let output = cargo.stdout.take().context("cargo has no output")?;
    let mut messages = String::new();
    for line in BufReader::new(output).lines() {
        let line = line.context("cargo's messages are no text")?;
        if is_program(&line, "tilemark") {
            has_program();
        }
        messages.push_str(&line);
        messages.push('\n');
    }
    ended(cargo.wait()?, &arguments)?;
    Ok(messages)
}

/// Whether a message of cargo says that a program of this name was built: not its tests.
fn is_program(message: &str, name: &str) -> bool {
    let message: serde_json::Value = serde_json::from_str(message).unwrap_or_default();
    let of_target = &message["target"];
    message["executable"].is_string()
        && message["profile"]["test"] == false
        && of_target["name"] == name
        && of_target["kind"] == serde_json::json!(["bin"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_is_not_its_tests_and_no_other_message() {
        let message = |test: bool, kind: &str, executable: Option<&str>| {
            let target = serde_json::json!({"name": "tilemark", "kind": [kind]});
            serde_json::json!({"executable": executable, "profile": {"test": test}, "target": target})
                .to_string()
        };
        assert!(is_program(&message(false, "bin", Some("/t/tilemark")), "tilemark"));
        assert!(!is_program(&message(false, "bin", Some("/t/tilemark")), "xtask"));
        for other in [
            message(true, "bin", Some("/t/tilemark-1")),
            message(true, "test", Some("/t/tilemark-2")),
            message(false, "lib", None),
            "Compiling".to_owned(),
        ] {
            assert!(!is_program(&other, "tilemark"), "{other}");
        }
    }
}
