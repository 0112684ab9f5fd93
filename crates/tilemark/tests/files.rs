//! Attacks on what the command writes: other users, links, modes and a strange umask. Root is needed to be attacked.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{
    Home, Said, TILEMARK, is_root,
    real::{Real, keeper_of},
    record::record_of,
    skipped,
};
use std::{
    collections::BTreeSet,
    fs::{self, Permissions},
    io::{Read, Write},
    os::unix::{
        fs::{MetadataExt, PermissionsExt, lchown, symlink},
        net::UnixStream,
    },
    path::{Path, PathBuf},
    process::Command,
    thread,
    time::Duration,
};

const NOBODY: u32 = 65534;

fn mode_of(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap_or_else(|error| panic!("{}: {error}", path.display())).mode() & 0o7777
}

fn all_below(path: &Path) -> Vec<PathBuf> {
    let mut all = vec![path.to_owned()];
    for entry in fs::read_dir(path).unwrap().flatten() {
        if entry.file_type().unwrap().is_dir() {
            all.extend(all_below(&entry.path()))
        } else {
            all.push(entry.path())
        }
    }
    all
}

/// The command under an umask.
fn under(umask: &str, home: &Home, arguments: &[&str]) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", "umask \"$1\"; shift; exec \"$@\"", "sh", umask, TILEMARK]).args(arguments);
    command.env("TILEMARK_HOME", home.path()).env("TILEMARK_LOCK_FOLDER", home.lock_folder());
    command
}

#[test]
fn state_is_for_root_alone_and_a_record_for_all_to_read_whatever_the_umask() {
    let Some(real) = Real::new() else { return };
    let home = &real.home;
    let [states, runs] = ["state", "runs"].map(|name| home.path().join(name));
    for umask in ["000", "077"] {
        let run = ["run", "web", "--on", "native", "--offline", "--tiles", "1", "--json"];
        let short =
            ["--set", "measure.repeats=1", "--set", "measure.warmup=1s", "--set", "measure.length=1s"];
        Said::of(&under(umask, home, &[&run[..], &short].concat()).output().unwrap()).measured();
        for path in all_below(&runs) {
            let wanted = if path.is_dir() { 0o755 } else { 0o644 };
            assert_eq!(
                format!("{:o}", mode_of(&path)),
                format!("{wanted:o}"),
                "umask {umask}: {}",
                path.display()
            );
        }
        let up = ["guests", "up", "1", "--on", "native", "--offline", "--no-memory", "--json"];
        Said::of(&under(umask, home, &up).output().unwrap()).ended(0);
        let folder = states.join("guests-1");
        for (path, wanted) in [
            (states.clone(), 0o700),
            (states.join("lock"), 0o600),
            (folder.clone(), 0o700),
            (folder.join("under-way.json"), 0o600),
            (folder.join("keeper.log"), 0o600),
            (folder.join("engine.sock"), 0o600),
            (home.lock_folder(), 0o700),
            (home.lock_folder().join("lock"), 0o600),
        ] {
            assert_eq!(
                format!("{:o}", mode_of(&path)),
                format!("{wanted:o}"),
                "umask {umask}: {}",
                path.display()
            );
        }
        assert_eq!(home.says(&["guests", "down"]).code, Some(0));
        real.all_gone(&BTreeSet::new(), &[]);
        for folder in [&states, &runs, &home.lock_folder()] {
            fs::remove_dir_all(folder).unwrap();
        }
    }
}

/// What a socket answers to a user, who asks as a client of ours does.
fn asked_as(user: u32, socket: PathBuf, line: &'static str) -> String {
    let asking = thread::spawn(move || {
        // Of this thread alone; it ends with it.
        let user = rustix::process::Uid::from_raw(user);
        rustix::thread::set_thread_res_uid(user, user, user).unwrap();
        let mut stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        // Refused before it is read, the connection may be closed by now.
        let _ = stream.write_all(line.as_bytes());
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        answer
    });
    asking.join().unwrap()
}

#[test]
fn another_user_gets_no_answer_of_the_guests_socket_where_its_modes_were_opened_too() {
    let Some(real) = Real::new() else { return };
    let home = &real.home;
    let up = ["guests", "up", "1", "--on", "native", "--offline", "--no-memory", "--json"];
    assert_eq!(home.says(&up).code, Some(0));
    let folder = keeper_of(&real).unwrap().folder;
    let socket = folder.join("engine.sock");
    // Somebody was careless; and folders above keep nobody out.
    for path in [home.path(), &home.path().join("state"), &folder, &socket] {
        fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let answer = asked_as(0, socket.clone(), "\"List\"\n");
    assert!(answer.contains("tile-001-idle"), "root gets no answer: {answer:?}");
    for line in
        ["\"List\"\n", "{\"Execute\":{\"guest\":\"tile-001-idle\",\"arguments\":[\"id\"]}}\n", "\"Down\"\n"]
    {
        assert_eq!(asked_as(NOBODY, socket.clone(), line), "", "it answered {line}");
    }
    for path in [&home.path().join("state"), &folder] {
        fs::set_permissions(path, Permissions::from_mode(0o700)).unwrap();
    }
    let listed = home.says(&["guests", "list", "--json"]).json();
    assert_eq!(listed["guests"][0]["ready"], 1, "the guests were ended: {listed}");
    assert_eq!(home.says(&["guests", "down"]).code, Some(0));
    real.all_gone(&BTreeSet::new(), &[]);
}

fn give_away(path: &Path) {
    all_below(path).iter().for_each(|path| lchown(path, Some(NOBODY), None).unwrap());
}

#[test]
fn nothing_is_written_into_a_record_of_another_user() {
    if !is_root() {
        return skipped("giving a record away needs root");
    }
    let home = Home::new();
    let record = record_of(&home, "20260101-000000-web");
    let own = home.says(&["report"]);
    assert!(own.error.contains("Report: ") && record.join("report.html").exists(), "{own:?}");
    fs::remove_file(record.join("report.html")).unwrap();
    give_away(&record);
    let before = all_below(&record);
    let said = home.says(&["report"]);
    assert_eq!(said.code, Some(0), "it can be read: {said:?}");
    let wanted = format!("No page was written into {}: it belongs to user {NOBODY}.", record.display());
    assert!(said.error.contains(&wanted) && said.error.contains("--html FILE"), "{said:?}");
    assert_eq!(all_below(&record), before);
    let page = home.path().join("page.html");
    assert_eq!(home.says(&["report", "--html", page.to_str().unwrap()]).code, Some(0));
    assert_eq!((fs::metadata(page).unwrap().uid(), all_below(&record)), (0, before));
}

/// A folder of another user with a link to one of root's, in which there is a precious file.
struct Trap {
    home: Home,
    theirs: PathBuf,
    precious: PathBuf,
}

impl Trap {
    fn new() -> Option<Self> {
        if !is_root() {
            skipped("giving a link away needs root");
            return None;
        }
        let home = Home::new();
        let precious = home.file("etc/precious", "precious");
        let theirs = home.path().join("theirs");
        fs::create_dir(&theirs).unwrap();
        symlink(precious.parent().unwrap(), theirs.join("way")).unwrap();
        symlink(&precious, theirs.join("precious")).unwrap();
        give_away(&theirs);
        Some(Self { home, theirs, precious })
    }

    /// What it says, when it has written nothing into root's folder.
    #[track_caller]
    fn springs_not(&self, arguments: &[&str]) -> Said {
        let said = self.home.says(arguments);
        let etc = self.precious.parent().unwrap();
        assert_eq!(all_below(etc), [etc, &self.precious], "{arguments:?}: {said:?}");
        assert_eq!(fs::read_to_string(&self.precious).unwrap(), "precious", "{arguments:?}: {said:?}");
        said
    }

    #[track_caller]
    fn refused(&self, arguments: &[&str], at: &Path) {
        let said = self.springs_not(arguments);
        assert_eq!(said.code, Some(3), "{arguments:?}: {said:?}");
        let why = format!("error: {} belongs to user {NOBODY}: nothing is written there", at.display());
        assert!(said.error.contains(&why) && said.error.contains("to fix: "), "{arguments:?}: {said:?}");
    }
}

#[test]
fn no_command_of_root_writes_through_a_link_of_another_user() {
    let Some(trap) = Trap::new() else { return };
    record_of(&trap.home, "20260101-000000-web");
    let way = trap.theirs.join("way");
    let through = |name: &str| way.join(name).to_str().unwrap().to_owned();
    let (page, folder) = (through("page"), through("folder"));
    trap.refused(&["report", "--html", &page], &way);
    trap.refused(&["report", "--csv", &page], &way);
    trap.refused(&["data", "store", "--size", "10MB", "--out", &folder], &way);
    trap.refused(&["image", "export", "none", &page], &way);
    trap.refused(&["broker", "--listen", "127.0.0.1:0", "--journal", &folder], &way);
    trap.refused(&["run", "web", "--on", "native", "--offline", "--output", &folder], &way);
    trap.refused(&["man", &folder], &way);
    // A page in a folder of theirs takes the place of a link.
    symlink(&trap.precious, trap.theirs.join("tilemark.1")).unwrap();
    let said = trap.springs_not(&["man", trap.theirs.to_str().unwrap()]);
    let page = fs::symlink_metadata(trap.theirs.join("tilemark.1")).unwrap();
    assert!(said.code == Some(0) && page.is_file(), "{said:?}");
    // In a folder that is theirs a run would write for minutes by its name.
    let empty = trap.theirs.join("empty");
    fs::create_dir(&empty).unwrap();
    give_away(&empty);
    let output = empty.to_str().unwrap();
    trap.refused(&["run", "web", "--on", "native", "--offline", "--output", output], &empty);
    trap.refused(&["broker", "--listen", "127.0.0.1:0", "--journal", output], &empty);
    // The last part of a path is never followed.
    let last = trap.theirs.join("precious");
    let said = trap.springs_not(&["report", "--html", last.to_str().unwrap()]);
    assert!(said.code == Some(3) && said.error.contains("is neither a plain file nor a folder"), "{said:?}");
}

#[test]
fn a_page_takes_the_place_of_no_device_pipe_or_folder() {
    let home = Home::new();
    record_of(&home, "20260101-000000-web");
    let pipe = home.path().join("pipe");
    let made = Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    // Like /dev/stdout, and without the risk.
    let link = home.path().join("link");
    symlink("/proc/self/fd/1", &link).unwrap();
    for path in [&pipe, &link] {
        let kind = fs::symlink_metadata(path).unwrap().file_type();
        for flag in ["--html", "--csv"] {
            home.says(&["report", flag, path.to_str().unwrap()])
                .ended(3)
                .with_error("is neither a plain file nor a folder: nothing is written there");
            assert_eq!(fs::symlink_metadata(path).unwrap().file_type(), kind);
        }
    }
    let folder = home.path().to_str().unwrap();
    for flag in ["--html", "--csv"] {
        home.says(&["report", flag, folder])
            .ended(2)
            .with_error(&format!("{folder} is a folder: name a file in it"));
    }
}

#[test]
fn one_measured_run_at_a_time_holds_across_homes() {
    let Some(real) = Real::new() else { return };
    let run = ["run", "web", "--on", "native", "--offline", "--tiles", "1", "--json"];
    let (first, under_way) = real.begin(&[&run[..], &["--set", "measure.length=60s"]].concat());
    let other = Home::new();
    symlink(real.home.path().join("cache"), other.path().join("cache")).unwrap();
    let mut second = other.command(&run);
    let second =
        Said::of(&second.env("TILEMARK_LOCK_FOLDER", real.home.lock_folder()).output().unwrap()).ended(3);
    let states = real.home.path().join("state");
    let wanted = format!("the run {} of {} is under way on this host", under_way.id, states.display());
    assert_eq!(second.json()["error"]["message"], wanted);
    assert!(!other.path().join("runs").exists(), "what was refused has no record");
    drop(first);
    real.all_gone(&BTreeSet::new(), under_way.cgroup.as_slice());
}
