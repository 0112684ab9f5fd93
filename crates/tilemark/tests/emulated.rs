//! Whole runs with emulated guests, for real: root, QEMU and an image are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Line,
    real::{Process, Real, Running, TIMEOUT, keeper_of, kills, moments},
    words,
};
use rustix::process::Signal;
use std::{
    collections::BTreeSet,
    fs, thread,
    time::{Duration, Instant},
};

/// Two emulated web guests, cloned from a template, under load for longer than any kill waits.
static RUN: Line = Line::new(|| {
    words(
        "run web --on emulated --offline --tiles 2 --set measure.repeats=1 --set measure.warmup=1s \
         --set measure.length=60s",
    )
});

/// Something that a run comes to; a kill is counted from there.
#[derive(Debug, Clone, Copy)]
enum Moment {
    /// The keeper lives.
    Keeper,
    /// The template boots.
    Template,
    /// Its clones are being made ready, beside each other.
    Clones,
    /// All are ready, and the load begins.
    Load,
}

/// Whether a process is a guest. QEMU is also asked for its version, and has no arguments yet as it begins and none any more as it ends.
fn is_guest(process: &Process) -> bool {
    process.name.starts_with("qemu-system")
        && fs::read(format!("/proc/{}/cmdline", process.pid))
            .is_ok_and(|arguments| !arguments.is_empty() && !arguments.ends_with(b"--version\0"))
}

impl Moment {
    fn wait(self, running: &mut Running<'_>) {
        let qemus = |real: &Real| {
            let keeper = i32::try_from(keeper_of(real)?.keeper?).ok()?;
            let all = Process::descendants(keeper);
            Some(all.iter().filter(|process| is_guest(process)).count())
        };
        running.until(&format!("{self:?}"), |real| match self {
            Self::Keeper => keeper_of(real).map(|_| ()),
            Self::Template => (qemus(real)? >= 1).then_some(()),
            Self::Clones => (qemus(real)? >= 2).then_some(()),
            Self::Load => {
                let mut runs = fs::read_dir(real.home.path().join("runs")).ok()?.flatten();
                runs.any(|run| {
                    fs::read_to_string(run.path().join("events.ndjson"))
                        .is_ok_and(|text| text.contains("guests-ready"))
                })
                .then_some(())
            }
        });
    }
}

/// Web and disk at the scenario's own rates, which are hundreds of requests a second for each guest: emulated ones are asked what they
/// can serve, and serve it.
#[test]
fn emulated_guests_of_the_first_look_prove_that_they_serve() {
    let Some(real) = Real::new() else { return };
    let short = ["--set", "measure.repeats=1", "--set", "measure.warmup=1s", "--set", "measure.length=5s"];
    let run = ["run", "first-look", "--on", "emulated", "--offline", "--tiles", "1", "--not-alone", "--json"];
    let said = real.start(&[&run[..], &short].concat()).said();
    let result = said.result();
    let proof = result.function.unwrap_or_else(|| panic!("{said:?}"));
    assert!(proof.proven, "{proof:?}");
    // Three loads of a few requests a second each; at the full rate it would be thousands, and most would fail.
    assert!((20..2_000).contains(&proof.asked), "{proof:?}");
    assert_eq!(proof.wrong, 0, "{proof:?}");
    assert!(result.sentence.starts_with("Emulated guests work: "), "{}", result.sentence);
}

/// A handshake takes an emulated guest many times as long, and its translator encrypts each byte: nothing may give up on it.
#[test]
#[ignore = "long; cargo xtask soak runs it"]
fn emulated_brokers_and_databases_serve_over_tls() {
    let broker = "load.messages.messaging.tls=true vary.size.values=[\"1KiB\"]";
    let store = "load.orders.store.tls=true load.orders.store.data=10MB load.orders.store.clients=2";
    for (scenario, image, settings, which) in [
        ("messaging", "first-look", broker, "guest.broker.broker=reference"),
        ("messaging", "brokers", broker, "guest.broker.broker=rabbitmq guest.broker.memory=1GiB"),
        ("oltp", "database", store, "load.orders.store.database=mariadb"),
        ("oltp", "database", store, "load.orders.store.database=postgresql"),
    ] {
        let Some(real) = Real::with_image(image) else { return };
        let short = "measure.repeats=1 measure.warmup=1s measure.length=4s";
        let run = "--preset quick --on emulated --offline --not-alone --tiles 1 --json";
        let mut words: Vec<&str> = ["run", scenario].into_iter().chain(run.split(' ')).collect();
        let settings = [short, settings, which].map(|list| list.split(' ')).into_iter().flatten();
        words.extend(settings.flat_map(|setting| ["--set", setting]));
        let said = real.start(&words).said();
        let result = said.result();
        let proof = result.function.unwrap_or_else(|| panic!("{which}: {said:?}"));
        assert!(proof.proven && proof.right > 0, "{which}: {proof:?}");
        assert_eq!((proof.wrong, proof.failed), (0, 0), "{which}: {proof:?}");
        println!("{}", serde_json::json!({"which": which, "right": proof.right}));
    }
}

/// The processes of a command, once a QEMU is among them where one is wanted: on a busy machine a child may still be about to become it.
fn descendants(running: &Running, with_qemu: bool) -> BTreeSet<Process> {
    let until = Instant::now() + TIMEOUT;
    loop {
        let processes = Process::descendants(running.child.id() as i32);
        if !with_qemu || processes.iter().any(|process| process.name.starts_with("qemu-system")) {
            return processes;
        }
        assert!(Instant::now() < until, "no QEMU: {processes:#?}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_killed_command_leaves_nothing_of_emulated_guests() {
    let Some(real) = Real::new() else { return };
    let all = [Moment::Keeper, Moment::Template, Moment::Clones, Moment::Load];
    // One at each moment: every kill boots a template again.
    let after = moments(kills(all.len()), Duration::from_millis(1500));
    for (number, after) in after.into_iter().enumerate() {
        let moment = all[number % all.len()];
        let mut running = real.start(&RUN[..]);
        moment.wait(&mut running);
        thread::sleep(after);
        let under_way = keeper_of(&real).unwrap();
        let processes = descendants(&running, !matches!(moment, Moment::Keeper));
        assert_eq!(running.child.try_wait().unwrap(), None, "{}", running.error());
        running.signal(Signal::KILL);
        running.child.wait().unwrap();
        println!("killed {after:?} after {moment:?}: {} processes", processes.len());
        real.all_gone(&processes, under_way.cgroup.as_slice());
        fs::remove_dir_all(real.home.path().join("runs")).unwrap();
    }
}

/// A guest that boots cannot be hurried: the first Ctrl-C waits for it, the second does not.
#[test]
fn a_second_ctrl_c_ends_everything_at_once() {
    let Some(real) = Real::new() else { return };
    let mut running = real.start(&[&RUN[..], &["--json"]].concat());
    Moment::Template.wait(&mut running);
    let (under_way, processes) = (keeper_of(&real).unwrap(), Process::descendants(running.child.id() as i32));
    for said in ["Ctrl-C again stops everything immediately", "ending everything"] {
        running.signal(Signal::INT);
        running.until(said, |real| {
            fs::read_to_string(real.home.path().join("error"))
                .is_ok_and(|text| text.contains(said))
                .then_some(())
        });
    }
    let said = running.said().ended(5);
    let error = &said.json()["error"];
    assert_eq!(error["code"], "interrupted", "{said:?}");
    assert!(error["message"].as_str().unwrap().contains("stopped by a second Ctrl-C"), "{said:?}");
    assert!(real.home.says(&["runs"]).out.contains("unfinished"));
    real.all_gone(&processes, under_way.cgroup.as_slice());
}
