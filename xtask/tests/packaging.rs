//! What is installed: the tree of `make install`, the archive and the package for Debian.

#![allow(missing_docs, clippy::unwrap_used)]

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// The program that the whole build made; this package does not make it.
fn program() -> Option<PathBuf> {
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from);
    let program = target.join("debug/tilemark");
    if program.exists() {
        return Some(program);
    }
    assert!(std::env::var_os("TILEMARK_CI").is_none(), "the program was not built");
    println!("skipped: the program was not built");
    None
}

fn output(command: &mut Command) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{command:?}: {text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[test]
fn the_archive_and_the_package_hold_program_manual_completions_and_documents() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let script = workspace().join("packaging/package.sh");
    output(Command::new(script).env("LEVEL", "0").arg(&program).arg(folder.path()));
    let one = |ending: &str| {
        let names = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        names.into_iter().find(|path| path.to_str().unwrap().ends_with(ending)).unwrap()
    };
    let archive = output(Command::new("tar").arg("-tf").arg(one(".tar.xz")));
    let package = output(Command::new("dpkg-deb").arg("--contents").arg(one(".deb")));
    for part in [
        "bin/tilemark",
        "share/man/man1/tilemark.1",
        "share/man/man1/tilemark-host-apply.1",
        "share/bash-completion/completions/tilemark",
        "share/zsh/site-functions/_tilemark",
        "share/fish/vendor_completions.d/tilemark.fish",
        "share/doc/tilemark/README.md",
        "share/doc/tilemark/docs/scenarios.md",
        "share/doc/tilemark/scenarios/web.toml",
    ] {
        assert!(archive.contains(part), "{part} is not in the archive: {archive}");
        assert!(package.contains(part), "{part} is not in the package: {package}");
    }
    assert!(package.lines().all(|line| line.contains(" root/root ")), "{package}");
    let control = output(Command::new("dpkg-deb").arg("--field").arg(one(".deb")));
    assert!(
        control.contains("Depends: libc6 (>= 2.31), qemu-system-x86, mmdebstrap, erofs-utils, xfsprogs\n"),
        "{control}"
    );
    output(Command::new("sha256sum").args(["--check", "SHA256SUMS"]).current_dir(folder.path()));
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 3, "nothing else is left");
}

#[test]
fn uninstalling_removes_what_was_installed_and_no_file_of_others() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    let installed = folder.path().join("usr");
    output(Command::new(workspace().join("packaging/tree.sh")).arg(&program).arg(&installed));
    let others = ["bin/other", "share/man/man1/other.1", "share/doc/other"].map(|name| installed.join(name));
    others.iter().for_each(|other| fs::write(other, "").unwrap());
    let prefix = format!("PREFIX={}", installed.display());
    output(Command::new("make").args(["uninstall", &prefix]).current_dir(workspace()));
    let left = output(Command::new("find").arg(&installed).args(["-type", "f"]));
    let left: BTreeSet<&Path> = left.lines().map(Path::new).collect();
    assert_eq!(left, others.iter().map(PathBuf::as_path).collect());
}

#[test]
fn every_page_of_the_manual_is_sound() {
    let Some(program) = program() else { return };
    let folder = tempfile::tempdir().unwrap();
    output(Command::new(program).arg("man").arg(folder.path()));
    let mut pages = 0;
    for page in fs::read_dir(folder.path()).unwrap() {
        let page = page.unwrap().path();
        let groff = Command::new("groff")
            .args(["-man", "-ww", "-Kutf8", "-Tutf8", "-z"])
            .arg(&page)
            .output()
            .unwrap();
        let complaints = String::from_utf8_lossy(&groff.stderr).into_owned();
        assert!(groff.status.success() && complaints.is_empty(), "{}: {complaints}", page.display());
        pages += 1;
    }
    assert!(pages > 40, "{pages} pages");
}
