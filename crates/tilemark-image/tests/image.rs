//! Builds the image `first-look` for real: needs root, mmdebstrap, erofs-utils, an archive and minutes, so it runs in
//! CI and where it is asked for.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use tilemark_image::{FileName, ImageCache, ImageError, ImageSpec, Network, Progress, Step};

/// Shows what the build does, with its times.
struct Shown(Instant);

impl Progress for Shown {
    fn step(&mut self, step: Step) {
        println!("{:6.1} s  {step}", self.0.elapsed().as_secs_f64());
    }
    fn line(&mut self, _: &str) {}
}

/// Whether to go on; in CI nothing is skipped.
fn wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|value| value == "1");
    if set("TILEMARK_TEST_IMAGE_BUILD") || set("TILEMARK_CI") {
        return true;
    }
    println!("skipped: building an image takes minutes; TILEMARK_TEST_IMAGE_BUILD=1 asks for it");
    false
}

/// A cache that is kept where `TILEMARK_TEST_IMAGE_CACHE` says so.
struct CacheFolder {
    path: PathBuf,
    _temporary: Option<tempfile::TempDir>,
}

fn cache_folder() -> CacheFolder {
    if let Some(path) = std::env::var_os("TILEMARK_TEST_IMAGE_CACHE") {
        return CacheFolder { path: path.into(), _temporary: None };
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    CacheFolder { path: folder.path().to_owned(), _temporary: Some(folder) }
}

#[test]
fn first_look_is_built_found_again_and_the_same_when_built_twice() {
    if !wanted() {
        return;
    }
    let folder = cache_folder();
    let mut progress = Shown(Instant::now());
    let cache = ImageCache::open(&folder.path).unwrap();
    let spec = ImageSpec::built_in("first-look").unwrap();
    let image = cache.ensure(&spec, Network::Allowed, &mut progress).unwrap();
    println!(
        "{:6.1} s  built {} in {}",
        progress.0.elapsed().as_secs_f64(),
        image.name(),
        image.folder().display()
    );
    for file in FileName::ALL {
        println!("          {file}: {} bytes", image.locked(file).bytes);
    }
    image.verify().unwrap();
    println!("{:6.1} s  verified", progress.0.elapsed().as_secs_f64());
    let found = cache.ensure(&spec, Network::Forbidden, &mut progress).unwrap();
    assert_eq!(found.name(), image.name());
    for package in ["nginx-light", "fio", "linux-image-cloud-amd64"] {
        assert!(image.lock().packages.iter().any(|locked| locked.name == package), "{package}");
    }

    let again = cache.refresh(&spec, &mut progress).unwrap();
    println!("{:6.1} s  built again: {}", progress.0.elapsed().as_secs_f64(), again.name());
    assert_eq!(again.lock(), image.lock(), "the archive may have changed in between; if not, builds differ");
    let left: Vec<_> = fs::read_dir(folder.path.join("images")).unwrap().collect();
    assert_eq!(left.len(), 3, "by-spec, lock and one image: {left:?}");

    look_inside(&image.path(FileName::RootErofs));
}

/// Unpacks the root file system and looks for what must and must not be there.
fn look_inside(root: &Path) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let tree = folder.path().join("tree");
    let unpacked = Command::new("fsck.erofs")
        .arg(format!("--extract={}", tree.display()))
        .arg(root)
        .output()
        .expect("the tool is installed");
    assert!(unpacked.status.success(), "{unpacked:?}");
    for there in ["usr/sbin/nginx", "usr/bin/fio", "etc/nginx/nginx.conf", "etc/hosts", "var/log/nginx"] {
        assert!(tree.join(there).exists(), "{there}");
    }
    for gone in
        ["etc/hostname", "etc/resolv.conf", "etc/machine-id", "etc/apt", "var/lib/apt", "usr/share/doc"]
    {
        assert!(tree.join(gone).symlink_metadata().is_err(), "{gone}");
    }
    let host = fs::read_to_string("/etc/hostname").unwrap_or_default();
    let host = host.trim();
    if host.len() >= 4 && host != "localhost" {
        let hits = Command::new("grep")
            .args(["-rlw", "--binary-files=text", host])
            .arg(tree.join("etc"))
            .output()
            .unwrap();
        assert_eq!(String::from_utf8_lossy(&hits.stdout), "", "the host's name {host}");
    }
}

#[test]
fn without_a_network_the_build_says_that_the_archive_cannot_be_reached_and_leaves_nothing() {
    const INSIDE: &str = "TILEMARK_TEST_INSIDE";
    const NAME: &str =
        "without_a_network_the_build_says_that_the_archive_cannot_be_reached_and_leaves_nothing";
    if std::env::var_os(INSIDE).is_none() {
        if wanted() {
            let mut unshare = Command::new("unshare");
            unshare.args(["--net", "--mount", "--"]).arg(std::env::current_exe().unwrap());
            let status = unshare.args([NAME, "--exact", "--nocapture"]).env(INSIDE, "1").status().unwrap();
            assert!(status.success());
        }
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let cache = ImageCache::open(folder.path()).unwrap();
    let spec = ImageSpec::built_in("first-look").unwrap();
    let error = cache.ensure(&spec, Network::Allowed, &mut Shown(Instant::now())).unwrap_err();
    assert!(
        matches!(&error, ImageError::MirrorUnreachable { output } if output.contains("Failed to fetch")),
        "{error}"
    );
    let left = fs::read_dir(folder.path().join("images")).unwrap().count();
    assert_eq!(left, 2, "by-spec and the lock only");
    assert!(cache.list().unwrap().is_empty());
}
