//! A fleet run of hosts that shells of this machine play.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

mod played;

use flate2::{Compression, write::GzEncoder};
use played::Played;
use std::{
    env, fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Command, Stdio},
    sync::Mutex,
    thread,
    time::Duration,
};
use tilemark_fleet::{End, PlannedHost, SiteEngine, Slurm, Step, Watch, collect_all, plan, status, verdict};

#[test]
fn a_host_waits_for_its_turn_also_when_the_command_waits_no_longer() {
    let played = Played::new(&["n1", "n2", "n3"], Some(1), "");
    played.file("wait", b"");
    let none = Watch { at_most: Some(Duration::ZERO), ..Watch::default() };
    played.run(none, &|_| ()).unwrap();
    assert_eq!((played.at(Step::Submitted), played.at(Step::Waiting)), (1, 2));
    // The same again: the one that measures has the turn.
    played.run(none, &|_| ()).unwrap();
    assert_eq!((played.at(Step::Submitted), played.at(Step::Waiting)), (1, 2));
    fs::remove_file(played.home.path().join("wait")).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    assert_eq!(played.at(Step::Over), 3);
}

#[test]
fn hosts_that_measure_in_turn_are_not_all_submitted_by_a_command_that_does_not_wait() {
    let played = Played::new(&["n1", "n2", "n3"], Some(1), "");
    let error = played.run(Watch { detach: true, ..Watch::default() }, &|_| ()).unwrap_err();
    assert!(error.to_string().contains("at most 1 host"), "{error}");
    assert_eq!(played.at(Step::Waiting), 3);
}

#[test]
fn a_fleet_run_that_goes_on_may_be_given_another_number_of_turns() {
    let played = Played::new(&["n1", "n2", "n3"], None, "");
    played.file("wait", b"");
    // One of them has its work from an earlier command: it has the turn, wherever it is in the order.
    let mut fleet = played.folder.read().unwrap();
    for number in 0..3 {
        fleet.hosts.iter_mut().for_each(|host| host.step = Step::Waiting);
        fleet.hosts[number].step = Step::Submitting;
        played.folder.write(&fleet).unwrap();
        let watch = Watch { at_once: Some(1), at_most: Some(Duration::ZERO), ..Watch::default() };
        played.run(watch, &|_| ()).unwrap();
        let hosts = played.folder.read().unwrap().hosts;
        assert_eq!((hosts[number].step, played.at(Step::Waiting)), (Step::Submitted, 2));
        assert_eq!(played.folder.read().unwrap().at_once, Some(1));
    }
}

#[test]
fn one_host_with_a_damaged_archive_stops_no_other() {
    let played = Played::new(&["n1", "n2", "n3"], None, "");
    let mut archive = GzEncoder::new(Vec::new(), Compression::fast());
    archive.write_all(&[b'x'; 2048]).unwrap();
    played.file("hosts/n2/archive", &archive.finish().unwrap());
    played.run(Watch::default(), &|_| ()).unwrap();
    let found = verdict::of(played.folder.path()).unwrap();
    let ends: Vec<(&str, End)> = found.hosts.iter().map(|host| (&*host.name, host.end)).collect();
    assert_eq!(ends, [("n1", End::Unfit), ("n2", End::NoAnswer), ("n3", End::Unfit)]);
    let because = &found.hosts[1].because;
    assert!(because.starts_with("its record is not whole: ") && because.contains("on n2"), "{because}");
}

/// Set where this test program is a process of its own: the folder of programs that play Slurm's.
const ALONE: &str = "TILEMARK_TEST_SLURM";

/// The folder of played programs, in a process of its own that finds them first: the path is that of a whole process. `None` where that process was
/// started and has succeeded.
fn alone(test: &str, programs: &[(&str, &str)]) -> Option<PathBuf> {
    if let Some(folder) = env::var_os(ALONE) {
        return Some(folder.into());
    }
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in programs {
        let program = folder.path().join(name);
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    }
    let mut path = folder.path().as_os_str().to_owned();
    path.push(":");
    path.push(env::var_os("PATH").unwrap());
    let mut alone = Command::new(env::current_exe().unwrap());
    // Of a broker that is measured from this machine, and of a job of the submitter's own that Slurm began again.
    alone.env("TILEMARK_BROKER_PASSWORD", "secret").env("SLURM_RESTART_COUNT", "2");
    let output = alone.args(["--exact", test]).env("PATH", path).env(ALONE, folder.path()).output().unwrap();
    let printed = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && printed.contains("1 passed"), "{printed}");
    None
}

#[test]
fn the_work_of_a_host_can_be_changed_by_its_owner_only_whatever_the_umask_of_the_login() {
    let played = Played::new(&["n1"], None, "umask 000");
    played.run(Watch::default(), &|_| ()).unwrap();
    let mut place = played.home.path().join("hosts/n1/fleet-jobs");
    for part in [played.folder.read().unwrap().id, "n1".to_owned(), "job.sh".to_owned()] {
        assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o022, 0, "{}", place.display());
        place.push(part);
    }
    assert_eq!(fs::metadata(&place).unwrap().permissions().mode() & 0o022, 0, "{}", place.display());
}

const QUEUE: (&str, &str) =
    ("squeue", "cd \"$TILEMARK_TEST_SLURM\"; cat lines; [ ! -e next ] || mv next lines");

#[test]
fn a_job_that_is_held_or_beyond_a_limit_never_starts_and_its_reason_is_printed_once() {
    let name = "a_job_that_is_held_or_beyond_a_limit_never_starts_and_its_reason_is_printed_once";
    let Some(folder) = alone(name, &[QUEUE]) else { return };
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1", "n2", "n3"], None);
    played.submitted();
    let id = played.folder.read().unwrap().id;
    let states = ["PENDING|JobHeldUser", "REQUEUE_HOLD|None", "PENDING|QOSMaxWallDurationPerJobLimit"];
    let queue: String =
        (1..).zip(states).map(|(n, state)| format!("tilemark-{id}-n{n}|{n}|{state}\n")).collect();
    fs::write(folder.join("lines"), queue).unwrap();
    let notes = Mutex::new(Vec::new());
    // Long enough for `lost_after`; without the rule the jobs are waited for until then.
    let watch = Watch { at_most: Some(Duration::from_secs(30)), ..Watch::default() };
    played.run(watch, &|note| notes.lock().unwrap().push(note.to_owned())).unwrap();
    for (host, reason) in played.folder.read().unwrap().hosts.iter().zip([
        "Slurm's job 1 is PENDING (JobHeldUser); ",
        "Slurm's job 2 is REQUEUE_HOLD (None); ",
        "Slurm's job 3 is PENDING (QOSMaxWallDurationPerJobLimit); ",
    ]) {
        let end = host.end.as_ref().unwrap_or_else(|| panic!("{} has no end", host.name));
        assert_eq!(end.end, End::NeverStarted);
        assert!(end.because.starts_with(reason), "{end:?}");
        let printed = format!("{}: {}", host.name, reason.trim_end_matches("; "));
        assert_eq!(notes.lock().unwrap().iter().filter(|note| **note == printed).count(), 1, "{notes:?}");
    }
}

/// Plays systemd: it notes its words, and runs what it is asked to in the environment that a unit would have.
const SYSTEMD_RUN: &str = r#"#!/bin/sh
for word; do echo "$word"; done >"$TILEMARK_HOME/words"
home=
while [ "$1" != sh ]; do
    [ "$1" != --setenv ] || home=$2
    shift
done
[ -n "$home" ] || exit 1
env -i "PATH=$PATH" "$home" setsid "$@" </dev/null >/dev/null 2>&1 &
"#;

#[test]
fn a_host_with_systemd_runs_its_work_as_a_unit_that_knows_its_home() {
    // A host that was booted by systemd has a folder that this machine need not have.
    let has_systemd = "exec unshare --mount --propagation private sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/system && exec sh'";
    if !Command::new("unshare").args(["--mount", "true"]).status().is_ok_and(|status| status.success()) {
        println!("skipped: a mount namespace needs root");
        return;
    }
    let played = Played::new(&["n1"], None, has_systemd);
    let systemd_run = played.file("bin/systemd-run", SYSTEMD_RUN.as_bytes());
    fs::set_permissions(&systemd_run, PermissionsExt::from_mode(0o755)).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    assert_eq!(played.at(Step::Over), 1);
    let (id, home) =
        (played.folder.read().unwrap().id, played.home.path().join("hosts/n1").display().to_string());
    let words = fs::read_to_string(format!("{home}/words")).unwrap();
    let unit = format!("tilemark-fleet-{id}-n1");
    let (setenv, job) = (format!("TILEMARK_HOME={home}"), format!("{home}/fleet-jobs/{id}/n1/job.sh"));
    let expected = ["--quiet", "--collect", "--unit", &unit, "--setenv", &setenv, "sh", &job];
    assert_eq!(words.lines().collect::<Vec<&str>>(), expected);
    let found = verdict::of(played.folder.path()).unwrap();
    assert_eq!(found.hosts[0].end, End::Unfit, "its work ran: {}", found.hosts[0].because);
}

#[test]
fn places_and_passwords_of_the_submitting_machine_go_to_no_host_of_slurm() {
    let name = "places_and_passwords_of_the_submitting_machine_go_to_no_host_of_slurm";
    let sbatch =
        ("sbatch", "env >\"$TILEMARK_TEST_SLURM/variables\"; cat >\"$TILEMARK_TEST_SLURM/script\"; echo 7");
    let Some(folder) = alone(name, &[sbatch, QUEUE]) else { return };
    fs::write(folder.join("lines"), "").unwrap();
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1"], None);
    played.run(Watch { detach: true, ..Watch::default() }, &|_| ()).unwrap();
    assert_eq!(played.folder.read().unwrap().hosts[0].job.as_deref(), Some("7"));
    let variables = fs::read_to_string(folder.join("variables")).unwrap();
    assert!(env::var("TILEMARK_BROKER_PASSWORD").is_ok() && !variables.contains("PASSWORD"), "{variables}");
    assert!(!variables.contains("SLURM_RESTART_COUNT"), "{variables}");
    let script = fs::read_to_string(folder.join("script")).unwrap();
    // Where the keeper of the job is killed, its work ends.
    assert!(script.trim_end().ends_with("setpriv --pdeathsig INT sh -c \"$body\" </dev/null"), "{script}");
    let (before, _) = script.split_once("body=").unwrap();
    let shown = format!("{before}echo \"${{TILEMARK_HOME-none}} ${{TMPDIR-none}} $SLURM_RESTART_COUNT\"");
    let mut sh = Command::new("sh");
    sh.args(["-c", &shown]).env("TILEMARK_HOME", "/h").env("TMPDIR", "/t").env("SLURM_RESTART_COUNT", "1");
    assert_eq!(String::from_utf8(sh.output().unwrap().stdout).unwrap(), "none none 1\n");
}

#[test]
fn a_job_that_slurm_took_though_its_answer_came_too_late_is_waited_for() {
    let name = "a_job_that_slurm_took_though_its_answer_came_too_late_is_waited_for";
    let sbatch = "cat >/dev/null; for word; do case $word in --job-name=*) name=${word#--job-name=} ;; esac; done\n\
                  case $name in *-n1) echo \"$name|7|RUNNING|None\" >>\"$TILEMARK_TEST_SLURM/lines\" ;; esac\n\
                  echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2; exit 1";
    // Its own job has the node, so no question gets there.
    let srun = "echo 'srun: error: Unable to allocate resources: Requested nodes are busy' >&2; exit 1";
    let Some(folder) = alone(name, &[("sbatch", sbatch), ("srun", srun), QUEUE]) else { return };
    fs::write(folder.join("lines"), "").unwrap();
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1", "n2"], None);
    played.run(Watch { detach: true, ..Watch::default() }, &|_| ()).unwrap();
    let hosts = played.folder.read().unwrap().hosts;
    assert_eq!((hosts[0].step, hosts[0].job.as_deref()), (Step::Submitted, Some("7")), "{:?}", hosts[0].end);
    let end = hosts[1].end.as_ref().unwrap();
    assert_eq!((end.end, hosts[1].job.as_deref()), (End::NeverStarted, None));
    assert!(end.because.contains("Socket timed out"), "{end:?}");
}

/// A host whose work was submitted to a Slurm that is played: the folder that is its home and has what the queue says, and the id. Nothing
/// in the process that starts the test again for it.
fn submitted_to_slurm(test: &str) -> Option<(PathBuf, Played, String)> {
    let srun = ("srun", "export TILEMARK_HOME=\"$TILEMARK_TEST_SLURM\"; exec sh");
    let folder = alone(test, &[srun, QUEUE, ("scancel", "")])?;
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1"], None);
    played.submitted();
    let id = played.folder.read().unwrap().id;
    Some((folder, played, id))
}

#[test]
fn a_run_that_slurm_no_longer_knows_is_not_over_while_it_measures() {
    let name = "a_run_that_slurm_no_longer_knows_is_not_over_while_it_measures";
    let Some((folder, played, id)) = submitted_to_slurm(name) else { return };
    fs::write(folder.join("lines"), format!("tilemark-{id}-n1|1|COMPLETED|None\n")).unwrap();
    // This process plays the run, which a killed step of Slurm left behind.
    let attempt = folder.join("fleet-jobs").join(&id).join("n1/attempt-0");
    fs::create_dir_all(&attempt).unwrap();
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let start = stat.rsplit(')').next().unwrap().split_whitespace().nth(19).unwrap();
    fs::write(attempt.join("began"), format!("{boot}{}\n{start}\n", std::process::id())).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    let host = &played.folder.read().unwrap().hosts[0];
    let end = host.end.as_ref().unwrap();
    assert_eq!((host.step, end.end), (Step::Submitted, End::NoAnswer));
    assert_eq!(end.because, "its attempt 0 still measures; `tilemark fleet collect` later");
}

#[test]
fn a_collection_has_the_queue_s_words_for_a_job_that_left_nothing() {
    let name = "a_collection_has_the_queue_s_words_for_a_job_that_left_nothing";
    let Some((folder, played, id)) = submitted_to_slurm(name) else { return };
    for words in ["PENDING|Priority", "TIMEOUT|TimeLimit"] {
        fs::write(folder.join("lines"), format!("tilemark-{id}-n1|4|{words}\n")).unwrap();
        collect_all(&played.folder, &|_| ()).unwrap();
        let end = played.folder.read().unwrap().hosts[0].end.clone().unwrap();
        let (state, reason) = words.split_once('|').unwrap();
        assert_eq!(
            (end.end, end.because),
            (End::NeverStarted, format!("Slurm's job 4 is {state} ({reason})"))
        );
    }
}

#[test]
fn a_record_comes_home_over_srun_from_a_partition_whose_jobs_are_short() {
    let name = "a_record_comes_home_over_srun_from_a_partition_whose_jobs_are_short";
    // As Slurm refuses what is above the limit of a partition.
    let srun = "for word; do case $word in --time=*) [ \"${word#--time=}\" -le 30 ] || {\n\
                echo 'srun: error: Unable to allocate resources: Requested time limit is invalid (missing or exceeds some limit)' >&2\n\
                exit 1; } ;; esac; done\nexport TILEMARK_HOME=\"$TILEMARK_TEST_SLURM\"; exec sh";
    let sinfo = "echo 'long|infinite'; echo 'test*|30:00'";
    let Some(folder) = alone(name, &[("srun", srun), ("sinfo", sinfo), QUEUE]) else { return };
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1"], None);
    played.submitted();
    let attempt = folder.join("fleet-jobs").join(played.folder.read().unwrap().id).join("n1/attempt-0");
    fs::create_dir_all(&attempt).unwrap();
    fs::write(attempt.join("log"), "error: no room\n").unwrap();
    fs::write(attempt.join("exit"), "3\n").unwrap();
    fs::write(folder.join("lines"), "").unwrap();
    collect_all(&played.folder, &|_| ()).unwrap();
    assert_eq!(played.folder.read().unwrap().hosts[0].end, None);
    assert_eq!(played.folder.end("n1", 0).unwrap().end, End::Unfit);
}

#[test]
fn a_job_and_its_questions_have_the_account_and_the_time_of_the_site() {
    let name = "a_job_and_its_questions_have_the_account_and_the_time_of_the_site";
    let noted = |then: &str| format!("echo \"${{0##*/}} $*\" >>\"$TILEMARK_TEST_SLURM/words\"; {then}");
    let (sbatch, srun) =
        (noted("cat >/dev/null; echo 7"), noted("export TILEMARK_HOME=\"$TILEMARK_TEST_SLURM\"; exec sh"));
    let Some(folder) = alone(name, &[("sbatch", &sbatch), ("srun", &srun), QUEUE]) else { return };
    fs::write(folder.join("lines"), "").unwrap();
    let asked = |seconds| Slurm {
        account: Some("a".to_owned()),
        qos: Some("q".to_owned()),
        time_s: Some(seconds),
        ..Slurm::default()
    };
    let played = |seconds| {
        Played::with(tempfile::tempdir().unwrap(), SiteEngine::Slurm(asked(seconds)), &["n1"], None)
    };
    let fleet = played(90);
    fleet.run(Watch { detach: true, ..Watch::default() }, &|_| ()).unwrap();
    // `plan` there says that it takes 90 s.
    let planned = plan(&fleet.folder.read().unwrap()).unwrap();
    assert!(
        planned[0].notes.iter().any(|note| note.contains("its `time`, which is 1 min 30 s")),
        "{planned:?}"
    );
    let fleet = played(151);
    let planned = plan(&fleet.folder.read().unwrap()).unwrap();
    assert!(planned[0].notes.iter().all(|note| !note.contains("`time`")), "{planned:?}");
    let words = fs::read_to_string(folder.join("words")).unwrap();
    for (program, time) in [("sbatch ", "--time=2"), ("srun ", "--time=1"), ("srun ", "--time=2")] {
        let is_so = |line: &str| {
            ["--account=a", "--qos=q", time].iter().all(|flag| line.split(' ').any(|word| word == *flag))
        };
        assert!(
            words.lines().any(|line| line.starts_with(program) && is_so(line)),
            "{program}{time}: {words}"
        );
    }
}

#[test]
fn the_job_of_a_question_whose_srun_was_killed_is_ended_at_once() {
    let name = "the_job_of_a_question_whose_srun_was_killed_is_ended_at_once";
    // The job goes on without its srun, until somebody ends it by its name.
    let srun = "for word; do case $word in --job-name=*) echo \"${word#--job-name=}\" >>\"$TILEMARK_TEST_SLURM/jobs\" ;; esac; done; kill -9 $$";
    let squeue = "cd \"$TILEMARK_TEST_SLURM\"; for word; do case $word in --name=*) grep -xsn \"${word#--name=}\" jobs ;; esac; done; exit 0";
    let scancel = "cd \"$TILEMARK_TEST_SLURM\"; for word; do case $word in --name=*) sed -i \"/^${word#--name=}$/d\" jobs ;; esac; done";
    let programs = [("srun", srun), ("squeue", squeue), ("scancel", scancel)];
    let Some(folder) = alone(name, &programs) else { return };
    let engine = SiteEngine::Slurm(Slurm::default());
    let played = Played::with(tempfile::tempdir().unwrap(), engine, &["n1"], None);
    played.submitted();
    let asked: [&dyn Fn(); 3] = [
        &|| drop(plan(&played.folder.read().unwrap()).unwrap()),
        &|| drop(status(&played.folder).unwrap()),
        &|| collect_all(&played.folder, &|_| ()).unwrap(),
    ];
    for ask in asked {
        ask();
        assert_eq!(fs::read_to_string(folder.join("jobs")).unwrap(), "", "left in the queue");
    }
}

#[test]
fn an_attempt_of_a_requeued_job_is_kept_beside_the_first() {
    let played = Played::new(&["n1"], None, "");
    played.run(Watch::default(), &|_| ()).unwrap();
    let id = played.folder.read().unwrap().id;
    let home = played.home.path().join("hosts/n1");
    let script = home.join("fleet-jobs").join(&id).join("n1/job.sh");
    // As Slurm starts it again: the same script, and the same number of restarts a second time does nothing.
    for _ in 0..2 {
        let mut job = Command::new("sh");
        job.arg(&script).env("TILEMARK_HOME", &home).env("SLURM_RESTART_COUNT", "1");
        assert!(job.status().unwrap().success());
    }
    // What a killed collection left is not an attempt.
    let left = played.folder.attempt("n1", 0).with_file_name(".attempt-killed");
    fs::create_dir_all(left.join("record")).unwrap();
    collect_all(&played.folder, &|_| ()).unwrap();
    assert!(!left.exists());
    assert_eq!(played.folder.attempts("n1"), [0, 1]);
    assert_eq!([0, 1].map(|number| played.folder.end("n1", number).unwrap().end), [End::Unfit; 2]);
}

#[test]
fn a_host_that_has_other_work_under_the_same_id_is_not_given_ours() {
    let played = Played::new(&["n1"], None, "");
    let id = played.folder.read().unwrap().id;
    let theirs = played.file(&format!("hosts/n1/fleet-jobs/{id}/n1/job.sh"), b"of somebody else");
    played.run(Watch::default(), &|_| ()).unwrap();
    let end = played.folder.read().unwrap().hosts[0].end.clone().unwrap();
    assert_eq!(end.end, End::Unfit);
    assert!(end.because.starts_with("it has other work under the id of this fleet run"), "{end:?}");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "of somebody else");
    assert!(!theirs.with_file_name("attempt-0").exists());
}

/// What is known of a host whose program prints these documents.
fn planned_with(plan_document: &str, doctor: &str) -> PlannedHost {
    let played = Played::new(&["n1"], None, "");
    let program = format!(
        "#!/bin/sh\ncase $1 in\n--version) echo tilemark 1 ;;\nplan) echo '{plan_document}' ;;\ndoctor) echo '{doctor}' ;;\nesac\n"
    );
    fs::write(played.home.path().join("program"), program).unwrap();
    plan(&played.folder.read().unwrap()).unwrap().remove(0)
}

#[test]
fn a_document_of_a_host_that_cannot_be_read_is_named() {
    let (whole, cut) = (r#"{"expected": {"time": "90s"}}"#, r#"{"expected": {"#);
    let findings = r#"{"findings": [{"key": "swap"}]}"#;
    let names = |all: &[String], text: &str| all.iter().any(|one| one.contains(text));
    let planned = planned_with(whole, findings);
    assert!(planned.fit && planned.time.as_deref() == Some("90s"), "{planned:?}");
    assert!(names(&planned.notes, "`tilemark doctor` there names swap"), "{planned:?}");
    assert!(!names(&planned.notes, "could not be read"), "{planned:?}");
    let failed = r#"{"error": {"message": "no room"}}"#;
    for (doctor, why) in [
        (r#"{"findings": [{"#, "EOF while parsing"),
        ("", "it is empty"),
        ("{}", "no `findings`"),
        (failed, "no room"),
    ] {
        let planned = planned_with(whole, doctor);
        assert!(planned.fit, "{planned:?}");
        let note =
            planned.notes.iter().find(|note| note.starts_with("its `tilemark doctor` could not be read: "));
        assert!(note.is_some_and(|note| note.contains(why)), "{doctor}: {planned:?}");
    }
    let odd_time = r#"{"expected": {"time": "soon"}}"#;
    for (plan, why) in [
        (cut, "EOF while parsing"),
        ("", "it is empty"),
        ("{}", "no `expected.time`"),
        (odd_time, "\"soon\""),
    ] {
        let planned = planned_with(plan, findings);
        assert!(!planned.fit && planned.time.is_none(), "{planned:?}");
        let problem = planned.problems[0].starts_with("its plan could not be read: ");
        assert!(problem && planned.problems[0].contains(why), "{plan}: {planned:?}");
    }
}

#[test]
fn a_plan_whose_carrier_is_cut_leaves_nothing_on_the_host() {
    let cut = "export TMPDIR=$TILEMARK_HOME/tmp; mkdir -p \"$TMPDIR\"; sh | sed -u '/^hash /q'; exit";
    let played = Played::new(&["n1"], None, cut);
    let planned = plan(&played.folder.read().unwrap()).unwrap();
    assert!(planned[0].problems[0].contains("was cut"), "{planned:?}");
    let place = played.home.path().join("hosts/n1/tmp");
    assert_eq!(fs::read_dir(place).unwrap().count(), 0);
}

#[test]
fn an_attempt_that_was_lost_comes_home_once_its_run_has_closed_the_record() {
    let played = Played::new(&["n1"], None, "");
    played.submitted();
    let id = played.folder.read().unwrap().id;
    let attempt = played.home.path().join("hosts/n1/fleet-jobs").join(id).join("n1/attempt-0");
    fs::create_dir_all(&attempt).unwrap();
    // The script is gone, and the run that it started ends a little later.
    fs::write(attempt.join("began"), "another boot\n1\n1\n").unwrap();
    let mut run = Command::new("sh");
    run.args(["-c", "sleep 0.3; mkdir record; echo closed >record/closed"]).current_dir(&attempt);
    let mut run = run.spawn().unwrap();
    collect_all(&played.folder, &|_| ()).unwrap();
    assert_eq!(played.folder.end("n1", 0).unwrap().end, End::Lost);
    assert!(played.folder.attempt("n1", 0).join("record/closed").exists());
    run.wait().unwrap();
}

#[test]
fn an_archive_that_a_host_could_not_finish_is_made_again() {
    let played = Played::new(&["n1"], None, "");
    played.submitted();
    let place = format!("hosts/n1/fleet-jobs/{}/n1", played.folder.read().unwrap().id);
    played.file(&format!("{place}/attempt-0/exit"), b"3\n");
    played.file(&format!("{place}/attempt-0/log"), b"error: no room\n");
    // The disk had its name before the power went, and not its bytes.
    played.file(&format!("{place}/attempt-0.tar.gz"), b"");
    collect_all(&played.folder, &|_| ()).unwrap();
    let end = played.folder.end("n1", 0).unwrap();
    assert_eq!((end.end, &*end.because), (End::Unfit, "no room"));
}

#[test]
fn an_attempt_that_was_only_taken_is_not_lost() {
    let played = Played::new(&["n1"], None, "");
    played.submitted();
    let id = played.folder.read().unwrap().id;
    let attempt = played.home.path().join("hosts/n1/fleet-jobs").join(id).join("n1/attempt-0");
    fs::create_dir_all(&attempt).unwrap();
    // As job.sh, on a slow disk.
    let mut job = Command::new("sh");
    let begins = "sleep 0.3; { cat /proc/sys/kernel/random/boot_id && echo $$ && cut -d' ' -f22 /proc/$$/stat; } >began.new; mv began.new began; read -r _";
    let mut job = job.args(["-c", begins]).current_dir(&attempt).stdin(Stdio::piped()).spawn().unwrap();
    for _ in 0..2 {
        collect_all(&played.folder, &|_| ()).unwrap();
        assert_eq!(played.folder.end("n1", 0), None);
        assert_eq!((played.at(Step::Submitted), &played.folder.read().unwrap().hosts[0].end), (1, &None));
        while !attempt.join("began").exists() {
            thread::sleep(Duration::from_millis(10));
        }
    }
    drop(job.stdin.take());
    job.wait().unwrap();
}

#[test]
fn a_host_of_slurm_that_died_is_waited_for_once_its_job_is_queued_again() {
    let name = "a_host_of_slurm_that_died_is_waited_for_once_its_job_is_queued_again";
    let Some((folder, played, id)) = submitted_to_slurm(name) else { return };
    let line = |words: &str| format!("tilemark-{id}-n1|1|{words}\n");
    // Each look at the queue moves on to what comes next.
    let run = |first: &str, next: &str, at_most: u64| {
        fs::write(folder.join("next"), line(next)).unwrap();
        fs::write(folder.join("lines"), line(first)).unwrap();
        let watch = Watch { at_most: Some(Duration::from_secs(at_most)), ..Watch::default() };
        played.run(watch, &|_| ()).unwrap();
        let host = played.folder.read().unwrap().hosts.remove(0);
        (host.step, host.end.map(|end| end.end))
    };
    // It waits for two minutes before it begins again, however short `lost_after` is.
    assert_eq!(run("RUNNING|None", "PENDING|BeginTime", 5), (Step::Submitted, None));
    // The command that saw it running has ended, and another one goes on.
    let gone = "PENDING|ReqNodeNotAvail";
    assert_eq!(run(gone, gone, 60), (Step::Submitted, Some(End::Lost)));
    // Its host may be back in an hour.
    assert_eq!(run("RUNNING|None", "PENDING|ReqNodeNotAvail", 60), (Step::Submitted, Some(End::Lost)));
    // The first attempt comes home, and the second one is still to come.
    let attempt = folder.join("fleet-jobs").join(&id).join("n1/attempt-0");
    fs::create_dir_all(&attempt).unwrap();
    fs::write(attempt.join("began"), "another boot\n1\n1\n").unwrap();
    assert_eq!(run("NODE_FAIL|None", "NODE_FAIL|None", 60), (Step::Submitted, None));
    assert_eq!(played.folder.end("n1", 0).unwrap().end, End::Lost);
    // What was over for us has begun again.
    let mut fleet = played.folder.read().unwrap();
    fleet.hosts[0].step = Step::Over;
    played.folder.write(&fleet).unwrap();
    for (state, words) in
        [("RUNNING|None", "Slurm's job 1 is RUNNING (None)"), ("COMPLETED|None", "collected")]
    {
        fs::write(folder.join("lines"), line(state)).unwrap();
        assert_eq!(status(&played.folder).unwrap(), [("n1".to_owned(), words.to_owned())]);
    }
}

#[test]
fn a_host_that_is_given_up_while_it_may_measure_holds_nobody_up_and_is_a_reason_of_the_verdict() {
    // The carrier of the host that begins is cut once it measures.
    let cut = "[ ! -e $TILEMARK_HOME/../../cut-$0 ] || { echo 'ssh: No route to host' >&2; exit 255; }";
    let played = Played::new(&["n1", "n2"], Some(1), cut);
    let wait = played.file("wait", b"");
    let first = Mutex::new(None);
    let notes = Mutex::new(Vec::new());
    played
        .run(Watch::default(), &|note| {
            notes.lock().unwrap().push(note.to_owned());
            let Some(name) = note.strip_suffix(": submitted") else { return };
            if first.lock().unwrap().get_or_insert_with(|| name.to_owned()) == name {
                played.file(&format!("cut-{name}"), b"");
            } else {
                fs::remove_file(&wait).unwrap();
            }
        })
        .unwrap();
    let first = first.into_inner().unwrap().unwrap();
    let passed = format!("{first}: its turn passes on, though its work may go on");
    let notes = notes.into_inner().unwrap();
    assert_eq!(notes.iter().filter(|note| **note == passed).count(), 1, "{notes:?}");
    assert_eq!((played.at(Step::Submitted), played.at(Step::Over)), (1, 1));
    // It is so also when its record comes home.
    fs::remove_file(played.home.path().join(format!("cut-{first}"))).unwrap();
    played.run(Watch::default(), &|_| ()).unwrap();
    assert_eq!(played.at(Step::Over), 2);
    let found = verdict::of(played.folder.path()).unwrap();
    let reason = format!(
        "more hosts than `--at-once` allows may have measured at the same time: {first} was given up, and the next host began"
    );
    assert!(found.reasons.contains(&reason), "{:?}", found.reasons);
}
