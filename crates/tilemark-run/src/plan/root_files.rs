//! What is in an image's root file system, without mounting it: what `dump.erofs` finds there. An image may be anybody's, so that program reads
//! it in a sandbox.

use std::{io, path::Path, time::Duration};
use tilemark_sys::{
    answer::{Most, answer},
    process::{Spawn, on_path},
    text_file::open_plain,
    walls::Walls,
};

/// Of one file it prints some hundred bytes, in milliseconds.
const MOST: Most = Most { bytes: 64 << 10, time: Duration::from_secs(10) };
/// The number under which it is handed the image, which may be in a folder that its user cannot enter.
const IMAGE: i32 = 3;

/// Whether the image has something at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum There {
    Yes,
    No,
    Unknown,
}

/// Looks into a root file system. Unknown where the tool is absent, or a folder on the way is a link.
pub(super) fn in_erofs(root: &Path, path: &str) -> There {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    let mut at = String::new();
    for (index, part) in parts.iter().enumerate() {
        let parent = std::mem::take(&mut at);
        at = format!("{parent}/{part}");
        let Ok(said) = dump(root, &at, MOST) else { return There::Unknown };
        if !said.contains("File : ") {
            // One that knows no `--path` prints nothing of the root either.
            return if index > 0 || is_looked_into(root) { There::No } else { There::Unknown };
        }
        if said.contains("symlink file") && index + 1 < parts.len() {
            // Debian's /bin, /sbin and /lib are links into /usr.
            if index > 0 || !["bin", "sbin", "lib", "lib64"].contains(part) {
                return There::Unknown;
            }
            at = format!("/usr/{part}");
        }
    }
    There::Yes
}

/// Whether the tool finds what every image has.
fn is_looked_into(root: &Path) -> bool {
    dump(root, "/usr", MOST).is_ok_and(|said| said.contains("File : "))
}

/// What the tool prints about a path of the image.
fn dump(root: &Path, path: &str, most: Most) -> io::Result<String> {
    let tool = on_path("dump.erofs").ok_or(io::ErrorKind::NotFound)?;
    let spawn = Spawn::path(&tool)?
        .argument(format!("--path={path}"))?
        .argument(format!("/proc/self/fd/{IMAGE}"))?
        .hand(open_plain(root)?.into(), IMAGE)
        .clean_environment()?
        .behind(Walls::of_reader()?);
    Ok(String::from_utf8_lossy(&answer(spawn, most)?).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::PermissionsExt, process::Command};
    use tempfile::TempDir;
    use tilemark_sys::passwords::BROKER_PASSWORD;

    /// Runs a test once more, with a program that plays `dump.erofs` and a password in the environment. True in that second process.
    fn plays(test: &str, script: &str) -> bool {
        const PLAYS: &str = "TILEMARK_TEST_PLAYS";
        if std::env::var_os(PLAYS).is_some() {
            return true;
        }
        let folder = open_folder();
        let program = folder.path().join("dump.erofs");
        fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
        let test = format!("plan::root_files::tests::{test}");
        let ended = Command::new(std::env::current_exe().unwrap())
            .args([&test, "--exact"])
            .env(PLAYS, "")
            .env(BROKER_PASSWORD, "secret")
            .env("PATH", format!("{}:/usr/bin:/bin", folder.path().display()))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&ended.stdout);
        assert!(ended.status.success() && printed.contains("1 passed"), "{printed}");
        false
    }

    /// A folder that others may look into: root's programs and images are in such.
    fn open_folder() -> TempDir {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        folder
    }

    #[test]
    fn whoever_reads_an_image_has_no_power_no_password_and_no_other_file() {
        let script = "while read -r line; do echo \"$line\"; done </proc/self/status; export -p; \
                      while read -r line; do echo \"$line\"; done </proc/self/limits; \
                      for number in 0 1 2 3 4 5 6 7 8 9; do [ -e /proc/self/fd/$number ] && echo \"open $number\"; done; \
                      read -r image </proc/self/fd/3; echo \"read $image\"; /bin/true && echo started";
        if !plays("whoever_reads_an_image_has_no_power_no_password_and_no_other_file", script) {
            return;
        }
        let folder = open_folder();
        let root = folder.path().join("root.erofs");
        fs::write(&root, "the image\n").unwrap();
        let said = dump(&root, "/usr", MOST).unwrap();
        let has = |line: &str| assert!(said.lines().any(|found| found.trim() == line), "no {line}: {said}");
        assert!(!said.contains("PASSWORD") && !said.contains("secret"), "{said}");
        let variables: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("export ")).collect();
        let names = variables.iter().map(|line| line.split('=').next().unwrap_or_default());
        assert_eq!(names.filter(|name| *name != "PWD").collect::<Vec<_>>(), ["LANG", "PATH"], "{said}");
        for line in [
            "NoNewPrivs:\t1",
            "Seccomp:\t2",
            "CapPrm:\t0000000000000000",
            "CapEff:\t0000000000000000",
            "read the image",
        ] {
            has(line);
        }
        assert!(!said.contains("started"), "{said}");
        let open: Vec<&str> = said.lines().filter_map(|line| line.strip_prefix("open ")).collect();
        assert_eq!(open, ["0", "1", "2", "3"]);
        for (limit, most) in
            [("file size", "0"), ("core file size", "1"), ("address space", "536870912"), ("cpu time", "10")]
        {
            let line = said.lines().find_map(|line| line.strip_prefix("Max ")?.strip_prefix(limit)).unwrap();
            assert_eq!(line.split_whitespace().take(2).collect::<Vec<_>>(), [most; 2], "{limit}");
        }
        if rustix::process::geteuid().is_root() {
            has("CapBnd:\t0000000000000000");
            has("Groups:");
            let users = said.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
            assert!(
                users.split_whitespace().all(|user| user.parse::<u32>().unwrap() > 65_536 / 2),
                "{users}"
            );
        }
    }

    #[test]
    fn what_a_damaged_image_makes_the_reader_print_or_wait_is_bounded() {
        let name = "what_a_damaged_image_makes_the_reader_print_or_wait_is_bounded";
        let script = "case $1 in --path=/flood) while :; do echo File : xxxxxxxxxxxxxxxxxxxxxxxxxxx; done ;; \
                      --path=/hang) exec 1>&-; while :; do :; done ;; *) while :; do :; done ;; esac";
        if !plays(name, script) {
            return;
        }
        let root = tempfile::NamedTempFile::new().unwrap();
        let failed = |path, most| dump(root.path(), path, most).unwrap_err().kind();
        fs::set_permissions(root.path(), fs::Permissions::from_mode(0o644)).unwrap();
        assert_eq!(failed("/flood", MOST), io::ErrorKind::FileTooLarge);
        assert_eq!(in_erofs(root.path(), "/flood"), There::Unknown);
        let short = Most { time: Duration::from_millis(500), ..MOST };
        assert_eq!(failed("/hang", short), io::ErrorKind::TimedOut);
        assert_eq!(failed("/wait", short), io::ErrorKind::TimedOut);
    }

    #[test]
    fn what_is_in_an_image_is_found_behind_the_sandbox() {
        let folder = open_folder();
        let (tree, root) = (folder.path().join("tree"), folder.path().join("root.erofs"));
        for made in ["usr/bin", "srv"] {
            fs::create_dir_all(tree.join(made)).unwrap();
        }
        fs::write(tree.join("usr/bin/server"), "#!/bin/sh\n").unwrap();
        std::os::unix::fs::symlink("usr/bin", tree.join("bin")).unwrap();
        std::os::unix::fs::symlink("usr", tree.join("srv/away")).unwrap();
        let made = Command::new("mkfs.erofs").arg("--quiet").args([&root, &tree]).status();
        if !made.is_ok_and(|made| made.success()) || dump(&root, "/usr", MOST).is_err() {
            return tilemark_fixtures::skipped("install erofs-utils");
        }
        // As where the cache is below root's own folder.
        fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o700)).unwrap();
        for (path, wanted) in [
            ("/usr/bin/server", There::Yes),
            ("/bin/server", There::Yes),
            ("/srv/away", There::Yes),
            ("/srv/away/bin/server", There::Unknown),
            ("/usr/bin/other", There::No),
            ("/opt/other", There::No),
        ] {
            assert_eq!(in_erofs(&root, path), wanted, "{path}");
        }
    }
}
