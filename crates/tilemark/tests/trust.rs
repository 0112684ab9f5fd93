//! A scenario from elsewhere that names a program: shown by `plan`, and not started without consent.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, real::Real};
use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf};

/// A program that plays QEMU and leaves a mark that it was started; and a scenario that names it.
fn hostile(home: &Home) -> (PathBuf, String) {
    let mark = home.path().join("was-started");
    let script = format!("#!/bin/sh\ntouch '{}'\necho QEMU emulator version 9.0.0\nexit 1\n", mark.display());
    let program = home.file("qemu", &script);
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let text = format!(
        "schema = 1\nname = \"t\"\nabout = \"t\"\n[[guest]]\nname = \"a\"\nrole = \"idle\"\n[ladder]\ntiles = [1]\n\
         [vary.which]\nkey = \"qemu.binary\"\nvalues = [\"{}\"]\n",
        program.display()
    );
    let file = home.file("hostile.toml", &text);
    // A search takes nothing that varies.
    let fixed = text.split("[vary").next().unwrap().to_owned()
        + &format!("[qemu]\nbinary = \"{}\"\n", program.display());
    home.file("plain.toml", &fixed);
    (mark, file.to_str().unwrap().to_owned())
}

#[test]
fn a_plan_names_the_programs_that_a_file_names_and_who_named_them() {
    let home = Home::new();
    let (mark, file) = hostile(&home);
    let said = home.says(&["plan", &file, "--on", "emulated"]);
    let wanted =
        format!("starts the program \"{}/qemu\" (`qemu.binary`); the file names it", home.path().display());
    assert!(said.words().contains(&wanted) && !mark.exists(), "{said:?}");
    // One that is there: `plan` refuses one that is not.
    let program = home.path().join("qemu");
    let typed = format!("qemu.binary={}", program.display());
    let typed = home.says(&["plan", "density", "--on", "emulated", "--tiles", "1", "--set", &typed]);
    let wanted = format!("As root   starts the program \"{}\" (`qemu.binary`)\n", program.display());
    assert!(typed.out.contains(&wanted), "{typed:?}");
    assert!(!home.says(&["plan", "density", "--on", "emulated", "--tiles", "1"]).out.contains("As root"));
}

#[test]
fn a_file_s_program_is_not_started_without_trust() {
    let Some(real) = Real::new() else { return };
    let (mark, file) = hostile(&real.home);
    let plain = file.replace("hostile.toml", "plain.toml");
    for command in [&["run", &file][..], &["capacity", &plain], &["ab", &plain, "--b", "measure.warmup=1s"]] {
        let said = real.home.says(&[command, &["--on", "emulated", "--offline"]].concat()).ended(2);
        let wanted = format!("starts the program \"{}/qemu\" (`qemu.binary`)", real.home.path().display());
        assert!(said.error.contains(&wanted) && said.error.contains("add `--trust`"), "{said:?}");
        assert!(!mark.exists(), "it was started: {command:?}");
        assert!(!real.home.path().join("runs").exists(), "a record was begun");
    }
    let said = real.home.says(&["run", &file, "--on", "emulated", "--offline", "--trust"]);
    assert!(mark.exists() && said.code != Some(2), "{said:?}");
}

#[test]
fn a_plan_says_whether_what_the_file_names_is_allowed() {
    let home = Home::new();
    let setting = "[host.setting]\n\"vm.swappiness\" = \"10\"\n[ladder]";
    let text = tilemark_fixtures::TILE.replacen("[ladder]", setting, 1).replace("10/s", "1000/s");
    let file = home.file("own.toml", &text);
    let plan = ["plan", file.to_str().unwrap(), "--on", "native"];
    let said = home.says(&plan);
    assert!(said.words().contains("the file names it: a run needs `--trust`"), "{said:?}");
    let said = home.says(&[&plan[..], &["--trust"]].concat());
    assert!(said.words().contains("the file names it: allowed by `--trust`"), "{said:?}");
}

#[test]
fn a_file_of_requests_that_a_file_names_is_not_read_without_trust() {
    let home = Home::new();
    let text = "schema = 1\nname = \"t\"\nabout = \"t\"\nheadline = \"own\"\n[[guest]]\nname = \"web\"\nrun = [\"/usr/bin/server\"]\nready = { port = 9000 }\n\
        [[load]]\nname = \"own\"\nguest = \"web\"\nrate = \"1000/s\"\n[load.web]\nrequest_file = \"requests.toml\"\n\
        [ladder]\ntiles = [1]\n";
    let file = home.file("own.toml", text);
    home.file("requests.toml", "[[request]]\npath = \"/secret\"\n");
    let plan = ["plan", file.to_str().unwrap(), "--on", "native", "--json"];
    let shown = home.says(&plan).ended(0);
    assert!(!shown.out.contains("/secret"), "it was read: {shown:?}");
    let load =
        home.says(&[&plan[..], &["--trust"]].concat()).json()["points"][0]["loads"][0]["work"]["web"].clone();
    assert_eq!(load["request"][0]["path"], "/secret", "{load}");
    assert!(load["request_file"].is_null(), "{load}");
    home.file("requests.toml", "[[request]]\n");
    let odd = home.says(&[&plan[..], &["--trust"]].concat()).ended(2);
    assert!(odd.message().contains("`path` is missing"), "{odd:?}");
    // What a link leads to is not the file beside the scenario that was agreed to.
    fs::remove_file(home.path().join("requests.toml")).unwrap();
    let secret = Home::new();
    let secret = secret.file("secret.toml", "[[request]]\npath = \"/SECRET\"\n");
    std::os::unix::fs::symlink(&secret, home.path().join("requests.toml")).unwrap();
    let misled = home.says(&[&plan[..], &["--trust"]].concat());
    assert!(misled.code == Some(2) && !format!("{misled:?}").contains("SECRET"), "{misled:?}");
    let message = misled.message();
    assert!(message.contains("requests.toml (`load.NAME.web.request_file`): a link leads out"), "{message}");
    let absolute = text.replace("requests.toml", secret.to_str().unwrap());
    fs::write(&file, absolute).unwrap();
    let read = home.says(&[&plan[..], &["--trust"]].concat());
    assert_eq!(read.json()["points"][0]["loads"][0]["work"]["web"]["request"][0]["path"], "/SECRET");
    fs::write(&file, text).unwrap();
    let Some(real) = Real::new() else { return };
    let run = ["run", file.to_str().unwrap(), "--on", "native", "--offline", "--json"];
    let message = real.home.says(&run).ended(2).message();
    let whole =
        format!("opens the file {:?} (`load.own.web.request_file`)", home.path().join("requests.toml"));
    assert!(message.contains(&whole), "{message}");
}

#[test]
fn nothing_of_a_file_that_only_a_scenario_names_is_in_a_message() {
    let home = Home::new();
    let secret = home.file("secret.toml", "root:$y$SECRET:19000:0\n");
    let secret = secret.to_str().unwrap();
    let tile = tilemark_fixtures::TILE.replace("10/s", "1000/s");
    let (with_key, with_table) = (format!("image = {secret:?}\n{tile}"), |table: &str| {
        tile.replacen("[ladder]", &format!("{table}\n[ladder]"), 1)
    });
    let hostile = [
        ("profile", with_table(&format!("[host]\nprofile = {secret:?}"))),
        ("image", with_table(&format!("[image]\nfrom = {secret:?}"))),
        ("image", with_key),
    ];
    for (what, text) in hostile {
        let file = home.file("hostile.toml", &text);
        let plan = ["plan", file.to_str().unwrap(), "--on", "native", "--json"];
        let said = home.says(&plan);
        assert!(!format!("{said:?}").contains("SECRET"), "{said:?}");
        let message = said.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.contains(&format!("names as its {what}, cannot be used")), "{said:?}");
        // Whether the file is there is not shown either.
        fs::rename(secret, home.path().join("away")).unwrap();
        assert_eq!(home.says(&plan).json()["error"], said.json()["error"]);
        fs::rename(home.path().join("away"), secret).unwrap();
        let trusted = home.says(&[&plan[..], &["--trust"]].concat());
        assert!(trusted.message().contains("line 1"), "{trusted:?}");
    }
}

#[test]
fn whether_a_file_is_there_that_only_a_scenario_names_is_not_shown() {
    let home = Home::new();
    let secret = home.file("secret", "root:$y$SECRET:19000:0\n");
    let secret = secret.to_str().unwrap();
    let with = |table: &str| {
        let tile = tilemark_fixtures::TILE.replace("10/s", "1000/s");
        tile.replacen("[ladder]", &format!("{table}\n[ladder]"), 1)
    };
    let command = "[[guest]]\nname = \"idle\"\nrole = \"idle\"\n[[load]]\nname = \"own\"\nguest = \"idle\"\n[load.command]\nrun = [\"a\"]\nfigure = '([0-9]+)'\n\
                   unit = \"s\"\nbetter = \"lower\"\n";
    let hostile = [
        ("emulated", with(&format!("[[guest]]\nname = \"own\"\nfrom = {secret:?}")), "guest.own.from"),
        ("native", with(&format!("{command}files = {{ a = {secret:?} }}")), "load.own.command.files"),
        ("emulated", with(&format!("[qemu]\nkernel = {secret:?}")), "qemu.kernel"),
        ("emulated", with(&format!("[qemu]\nbinary = {secret:?}")), "qemu.binary"),
        ("native", with(&format!("[image.files]\n\"/srv/file\" = {secret:?}")), "image.files"),
    ];
    for (on, text, key) in hostile {
        let file = home.file("hostile.toml", &text);
        let plan = ["plan", file.to_str().unwrap(), "--on", on, "--seed", "1"];
        let shown = || {
            let said = home.says(&plan);
            let as_json = home.says(&[&plan[..], &["--json"]].concat());
            assert_eq!((said.code, as_json.code), (Some(0), Some(0)), "{key}: {said:?} {as_json:?}");
            assert!(said.words().contains("the file names it: a run needs `--trust`"), "{key}: {said:?}");
            let named = |text: &str| -> Vec<String> {
                text.lines().filter(|line| line.contains("secret")).map(str::to_owned).collect()
            };
            (named(&said.out), named(&as_json.out), said.error)
        };
        let there = shown();
        assert!(!format!("{there:?}").contains("SECRET"), "{key}");
        fs::rename(secret, home.path().join("away")).unwrap();
        assert_eq!(shown(), there, "{key}");
        let trusted = home.says(&[&plan[..], &["--trust"]].concat());
        assert!(trusted.code != Some(0), "{key}: it is not there: {trusted:?}");
        fs::rename(home.path().join("away"), secret).unwrap();
    }
}

#[test]
fn a_qemu_that_plan_and_doctor_ask_sees_no_password() {
    let home = Home::new();
    let seen = home.path().join("seen");
    let program = home.file(
        "qemu-system-x86_64",
        &format!(
            "#!/bin/sh\n/usr/bin/env >>'{}'\ncase $1 in --version) echo 'QEMU emulator version 9.0.0' ;;\n\
             -machine) printf 'Supported machines are:\\npc PC\\n' ;; -cpu) printf 'Available CPUs:\\nqemu64\\nmax\\n' ;; esac\n",
            seen.display()
        ),
    );
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.path().display(), std::env::var("PATH").unwrap());
    let named = format!("qemu.binary={}", program.display());
    let plan = ["plan", "density", "--on", "emulated", "--tiles", "1", "--set", &named];
    for (command, wanted) in [(&plan[..], 0), (&["doctor"][..], 3)] {
        let mut asks = home.command(command);
        asks.env("TILEMARK_BROKER_PASSWORD", "secret")
            .env("TILEMARK_DATABASE_PASSWORD", "secret")
            .env("PATH", &path);
        let said = common::Said::of(&asks.output().unwrap());
        assert!(said.code == Some(0) || said.code == Some(wanted), "{said:?}");
        let variables = fs::read_to_string(&seen).expect("it was asked");
        assert!(!variables.contains("PASSWORD") && !variables.contains("secret"), "{command:?}: {variables}");
        assert!(variables.contains("LANG=C.UTF-8"), "{variables}");
        fs::remove_file(&seen).unwrap();
    }
}
