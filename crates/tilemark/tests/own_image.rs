//! Images that a scenario makes: a shop with its own pages and rows, whole and natively; a shell in an image; what an image lacks. Most
//! need root and images.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{Home, Said, TILEMARK, is_root, real::Real, skipped, words};
use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::MetadataExt,
    process::Command,
};

const RUN: [&str; 5] = ["--on", "native", "--offline", "--not-alone", "--json"];

/// A scenario with one guest of these lines, and these lines before it.
fn scenario(home: &Home, before: &str, guest: &str) -> String {
    let text = format!(
        "schema = 1\nname = \"own\"\nabout = \"Own.\"\n{before}\n[[guest]]\nname = \"guest\"\n{guest}\n[ladder]\ntiles = [1]\n"
    );
    home.file("own.toml", &text).to_str().unwrap().to_owned()
}

fn planned(home: &Home, before: &str, guest: &str) -> Said {
    home.says(&["plan", &scenario(home, before, guest), "--on", "native"])
}

#[test]
fn a_shop_with_its_own_pages_and_rows_is_served_from_an_image_with_them() {
    let Some(real) = Real::with_image("consolidation") else { return };
    let short = words("--set measure.repeats=1 --set measure.warmup=1s --set measure.length=4s");
    let run = [&["run", "shop", "--tiles", "1"], &RUN[..], &short].concat();
    let result = real.home.says(&run).measured().result();
    let record = real.record(&result.run);
    let load = &record.repeats().unwrap()[0].summary().unwrap().loads[0];
    assert!(load.completed > 50 && load.failed == 0 && load.wrong == 0, "{load:?}");

    let shown = real.home.says(&["image", "show", "shop", "--json"]).json();
    for role in ["web with PHP", "database (MariaDB)"] {
        assert!(shown["roles"].as_array().unwrap().contains(&role.into()), "{shown}");
    }
    let packages = shown["packages"].as_array().unwrap();
    assert!(packages.iter().any(|package| package["name"] == "php8.2-mysql"), "{packages:?}");
    assert_eq!(shown["files"][0]["path"], "/srv/shop.sql");
    // What the packages brought is in it unchanged, with set-user-id bits; what the scenario brought is there too.
    let script = "stat -c %a /usr/bin/su && head -c 12 /srv/shop/index.php";
    let inside = real.home.says(&["image", "shell", "shop", "--offline", "--", "sh", "-c", script]);
    assert_eq!((inside.code, inside.out.as_str()), (Some(0), "4755\n<!doctype ht"), "{inside:?}");
}

#[test]
fn a_shell_in_an_image_has_no_network_and_nothing_of_it_is_kept() {
    let Some(real) = Real::new() else { return };
    let shell = |script: &str| {
        real.home.says(&["image", "shell", "first-look", "--offline", "--", "sh", "-c", script])
    };
    let said =
        shell("echo changed >/srv/new && cat /srv/new && ls /sys/class/net && ls /sbin/nginx && exit 7");
    assert_eq!((said.code, said.out.as_str()), (Some(7), "changed\nlo\n/sbin/nginx\n"), "{said:?}");
    let said = shell("ls /srv; ls -d /root/.* /home/* 2>/dev/null; cat /proc/1/comm");
    assert!(!said.out.contains("new") && said.out.contains("tilemark"), "{said:?}");
    assert!(real.left(&BTreeSet::new(), &[]).is_empty(), "{:?}", real.left(&BTreeSet::new(), &[]));
    let said = shell("kill -TERM $$");
    assert_eq!(said.code, Some(128 + 15), "{said:?}");
    // All that is written is memory, 1 GiB of it at most, wherever it is.
    for folder in ["/tmp", "/run", "/dev/shm", "/srv"] {
        let said = shell(&format!("head -c 1100000000 /dev/zero >{folder}/much; echo code $?"));
        assert!(!said.out.contains("code 0"), "{folder}: {said:?}");
    }
    let said =
        shell("head -c 600000000 /dev/zero >/tmp/a && head -c 600000000 /dev/zero >/dev/shm/b; echo code $?");
    assert!(!said.out.contains("code 0"), "two folders together: {said:?}");
    let said = shell("stat -c %a /tmp /run /dev/shm && echo a >/tmp/a && cat /tmp/a");
    assert_eq!(said.out, "1777\n755\n1777\na\n", "{said:?}");
    // The walls of native twins: nothing is mounted, and no other process of the host is seen.
    let said = shell("mount -t tmpfs none /mnt; echo code $?; ls -d /proc/[0-9]* | wc -l");
    assert!(!said.out.contains("code 0"), "{said:?}");
}

#[test]
fn a_shell_in_an_image_changes_no_file_of_the_host_that_is_its_input_or_output() {
    let Some(real) = Real::new() else { return };
    let files = ["input", "output", "errors"].map(|name| real.home.file(name, "before\n"));
    let whose =
        || files.each_ref().map(|file| fs::metadata(file).map(|it| (it.mode(), it.uid(), it.gid())).unwrap());
    let shell = |script: &str, errors: File| {
        let arguments = ["image", "shell", "first-look", "--offline", "--", "sh", "-c", script];
        let mut command = Command::new(TILEMARK);
        command.args(arguments).env("TILEMARK_HOME", real.home.path());
        command.env("TILEMARK_LOCK_FOLDER", real.home.lock_folder()).stdin(File::open(&files[0]).unwrap());
        let output = File::options().append(true).open(&files[1]).unwrap();
        command.stdout(output).stderr(errors).status().unwrap()
    };
    let found = whose();
    let script = "cat; for f in 0 1 2; do chmod 4777 /proc/self/fd/$f; chown 1:1 /proc/self/fd/$f; echo x >/proc/self/fd/0; \
        done; echo out; echo error >&2";
    assert!(shell(script, File::create(&files[2]).unwrap()).success());
    assert_eq!(whose(), found);
    let read = || files.each_ref().map(|file| fs::read_to_string(file).unwrap());
    assert_eq!(read(), ["before\n", "before\nbefore\nout\n", "error\n"]);
    // One file for both: what is written stays in its order.
    let both = File::options().append(true).open(&files[1]).unwrap();
    assert!(shell("for n in 1 2 3; do echo $n; echo e$n >&2; done", both).success());
    assert!(read()[1].ends_with("out\n1\ne1\n2\ne2\n3\ne3\n"), "{:?}", read());
}

#[test]
fn what_is_certainly_absent_is_named_by_plan_before_an_image_is_built() {
    let home = Home::new();
    home.file("app/index.php", "<?php");
    home.file("start.sh", "#!/bin/sh");
    let ready = "ready = { port = 9000 }";
    for (before, guest, wanted) in [
        ("", format!("run = [\"/opt/app\"]\n{ready}"), "has no /opt/app, the `run` of guest `guest`"),
        ("", "role = \"web\"\npages = \"/srv/site\"".to_owned(), "image `first-look` has no PHP"),
        ("[image]", "role = \"web\"\npages = \"/srv/site\"".to_owned(), "has no /srv/site, the `pages` of"),
        (
            "[image]",
            "role = \"database\"\nsql = \"/srv/rows.sql\"".to_owned(),
            "has no /srv/rows.sql, the `sql` of",
        ),
        ("[image.files]\n\"/srv/site\" = \"nowhere\"", "role = \"web\"".to_owned(), "needs"),
        (
            "[image.files]\n\"/opt/start.sh\" = \"start.sh\"",
            format!("run = [\"/opt/start.sh\"]\n{ready}"),
            "may not be executed",
        ),
        ("[image]\npackages = [\"No Name\"]", "role = \"web\"".to_owned(), "is not the name of a package"),
    ] {
        let said = planned(&home, before, &guest);
        assert!(said.code == Some(2) && said.error.contains(wanted), "{wanted}: {said:?}");
    }
    // What may be there, for all that is known, is no mistake.
    let files = "[image]\npackages = [\"redis-server\"]\n[image.files]\n\"/srv/site\" = \"app\"";
    planned(
        &home,
        files,
        &format!("role = \"web\"\npages = \"/srv/site\"\nrun = [\"redis-server\"]\n{ready}"),
    )
    .ended(0)
    .with_output("of the scenario `own`, not in the cache");
}

#[test]
fn a_program_that_an_image_in_the_cache_lacks_is_named_by_plan() {
    let Some(real) = Real::new() else { return };
    let of =
        |program: &str| planned(&real.home, "", &format!("run = [\"{program}\"]\nready = {{ port = 9000 }}"));
    for program in ["no-such-program", "/usr/bin/no-such-program", "/bin/no-such-program"] {
        let said = of(program);
        assert!(said.code == Some(2) && said.error.contains(&format!("has no {program}")), "{said:?}");
    }
    for program in ["nginx", "/bin/sh", "/usr/bin/awk"] {
        assert_eq!(of(program).code, Some(0), "{program}");
    }
}

#[test]
fn files_that_did_not_come_with_a_scenario_need_trust() {
    if !is_root() {
        return skipped("a run needs root");
    }
    let home = Home::new();
    home.file("beside.txt", "beside");
    std::os::unix::fs::symlink("/etc/passwd", home.path().join("link")).unwrap();
    let run = |file: &str| {
        let path = scenario(&home, &format!("[image.files]\n\"/srv/file\" = \"{file}\""), "role = \"web\"");
        home.says(&[&["run", &path], &RUN[..]].concat())
    };
    let said = run("/etc/passwd");
    assert!(said.code == Some(2) && said.out.contains("needs trust"), "{said:?}");
    let said = run("link");
    assert!(said.code == Some(2) && said.out.contains("leads out of the scenario's folder"), "{said:?}");
    // Nothing but the image is missing here.
    let said = run("beside.txt");
    assert!(said.code == Some(3) && said.out.contains("is not in the cache"), "{said:?}");
    assert!(fs::read_dir(home.path().join("runs")).map_or(true, |mut runs| runs.next().is_none()));
}

#[test]
fn a_shop_is_a_scenario_of_forty_lines_at_most() {
    let shown = Home::new().says(&["scenarios", "show", "shop"]).out;
    assert!(shown.contains("pages = \"/srv/shop\"") && shown.lines().count() <= 40, "{shown}");
}
