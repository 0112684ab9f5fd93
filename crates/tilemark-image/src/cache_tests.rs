//! The cache without building: images of a few bytes, put there as a build would.

use std::cell::RefCell;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::time::Duration;

use super::*;
use crate::Silent;
use crate::image::{FileName, LOCK_FILE as IMAGE_LOCK, SPEC_FILE};
use crate::lock::{FORMAT, ImageLock, LockedFile, LockedFiles};
use crate::spec::{ExtraFile, FileSource};

struct Fixture {
    _folder: TempDir,
    cache: ImageCache,
}

fn fixture() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    Fixture { cache: ImageCache::open(folder.path()).unwrap(), _folder: folder }
}

fn spec() -> ImageSpec {
    ImageSpec::built_in("first-look").unwrap()
}

/// The same with a page of the host's.
fn with_page() -> ImageSpec {
    let file = ExtraFile {
        path: "/srv/page".to_owned(),
        source: FileSource::Text("a page".to_owned()),
        sha256: Sha256Hash::of(b"a page"),
        mode: 0o644,
    };
    spec().with("scenario-a", &[], vec![file]).unwrap()
}

impl Fixture {
    /// Puts an image there whose root holds `root`.
    fn put(&self, root: impl AsRef<[u8]>) -> Image {
        self.put_for(&spec(), spec().key(), root)
    }

    /// Puts one there for a specification that had this key when it was built.
    fn put_for(&self, spec: &ImageSpec, key: Sha256Hash, root: impl AsRef<[u8]>) -> Image {
        let lock = self.cache.lock(&mut Silent).unwrap();
        let aside = self.cache.aside(&lock, PRIVATE_FOLDER).unwrap();
        let folder = aside.path().join("image");
        fs::create_dir(&folder).unwrap();
        let file = |name: FileName, content: &[u8]| {
            fs::write(folder.join(name.as_str()), content).unwrap();
            LockedFile { sha256: Sha256Hash::of(content), bytes: content.len() as u64 }
        };
        let lock = ImageLock {
            format: FORMAT,
            spec: key,
            kernel: "6.1.0".into(),
            files: LockedFiles {
                root_erofs: file(FileName::RootErofs, root.as_ref()),
                vmlinux: file(FileName::Vmlinux, b"kernel"),
                initrd: file(FileName::Initrd, b"modules"),
            },
            packages: vec![],
        };
        fs::write(folder.join(IMAGE_LOCK), lock.to_toml()).unwrap();
        fs::write(folder.join(SPEC_FILE), spec.to_toml()).unwrap();
        self.cache.keep(&Built { folder, name: lock.image_name() }).unwrap()
    }

    fn ensure(&self) -> Result<Image> {
        self.cache.ensure(&spec(), Network::Forbidden, &mut Silent)
    }
}

#[test]
fn offline_and_not_cached_is_refused_by_name() {
    let error = fixture().ensure().unwrap_err();
    assert!(error.to_string().starts_with("image `first-look` is not in the cache"), "{error}");
    assert!(error.remedy().contains("import"));
}

#[test]
fn a_kept_image_is_found_by_its_specification_without_the_network() {
    let fixture = fixture();
    let kept = fixture.put("root");
    let found = fixture.ensure().unwrap();
    assert_eq!(found.name(), kept.name());
    found.verify().unwrap();
    assert_eq!(fs::read_to_string(found.path(FileName::RootErofs)).unwrap(), "root");
}

#[test]
fn a_newer_image_takes_the_place_and_the_older_stays_in_the_list() {
    let fixture = fixture();
    let older = fixture.put("root");
    let newer = fixture.put("newer root");
    assert_eq!(fixture.ensure().unwrap().name(), newer.name());
    let standing =
        |name| fixture.cache.list().unwrap().iter().find(|cached| cached.name == name).unwrap().standing;
    assert_eq!(standing(older.name()), Standing::Replaced);
    assert_eq!(standing(newer.name()), Standing::Current);
    assert_eq!(fixture.cache.find("first-look").unwrap().name(), newer.name());
    assert_eq!(fixture.cache.find(&older.name().to_string()[..40]).unwrap().name(), older.name());
    assert!(matches!(fixture.cache.find("none-such"), Err(ImageError::UnknownImage { .. })));
}

#[test]
fn what_nothing_leads_to_is_unused_and_what_is_a_users_is_not() {
    let fixture = fixture();
    let older = fixture.put("root");
    let current = fixture.put("newer root");
    let of_older_program = fixture.put_for(&spec(), Sha256Hash::of(b"older recipe"), "older program's root");
    let own = ImageSpec { name: "own".to_owned(), ..spec() };
    let users = fixture.put_for(&own, Sha256Hash::of(b"own"), "own root");
    let mut unused = [older.name(), of_older_program.name()];
    unused.sort();
    assert_eq!(fixture.cache.unused().unwrap(), unused);
    for name in unused {
        assert!(fixture.cache.remove(name, &mut Silent).unwrap() > 0);
    }
    let mut left: Vec<Sha256Hash> = fixture.cache.list().unwrap().iter().map(|cached| cached.name).collect();
    left.sort();
    let mut kept = [current.name(), users.name()];
    kept.sort();
    assert_eq!(left, kept);
    assert_eq!(fixture.ensure().unwrap().name(), current.name());
}

#[test]
fn of_the_images_that_one_scenario_had_made_only_the_newest_is_in_use() {
    let fixture = fixture();
    let made = |called: &str, day: u64| {
        let spec = ImageSpec { name: called.to_owned(), ..spec() };
        let text = format!("{called} of day {day}");
        let image = fixture.put_for(&spec, Sha256Hash::of(text.as_bytes()), &text);
        let file = File::options().write(true).open(image.folder().join(SPEC_FILE)).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(day * 86_400)).unwrap();
        image.name()
    };
    let (second, first, third) = (made("scenario-a", 2), made("scenario-a", 1), made("scenario-a", 3));
    let (other, own) = ([made("scenario-b", 1), made("own", 1)], made("own", 2));
    let mut unused = [first, second];
    unused.sort();
    assert_eq!(fixture.cache.unused().unwrap(), unused);
    assert!([third, own].iter().chain(&other).all(|name| !unused.contains(name)));
}

#[test]
fn an_image_that_lacks_only_the_hosts_files_is_seen_before_it_is_made() {
    let fixture = fixture();
    let with_file = with_page();
    let look = |spec: &ImageSpec| ImageCache::look(fixture.cache.folder.parent().unwrap(), spec).unwrap();
    assert!(matches!(look(&with_file), InCache::Missing));
    let base = fixture.put("root");
    assert!(matches!(look(&with_file), InCache::BaseBuilt(image) if image.name() == base.name()));
    let whole = fixture.put_for(&with_file, with_file.key(), "root with a page");
    assert!(matches!(look(&with_file), InCache::Built(image) if image.name() == whole.name()));
    // Its own specification is read again, though it does not say where the page came from.
    assert_eq!(whole.spec().files[0].source, FileSource::InImage);
    assert_eq!(whole.spec().key(), with_file.key());
}

/// Looks at the copy of the base once it is whole, as the root file system is made of it.
struct LookAtCopy<'a> {
    cache: &'a Path,
    /// The mode of the folder that it is in, and of the program in it.
    seen: Vec<[u32; 2]>,
}

impl Progress for LookAtCopy<'_> {
    fn step(&mut self, step: Step) {
        if step != Step::FileSystem {
            return;
        }
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o7777;
        let entries = fs::read_dir(self.cache).unwrap().map(|entry| entry.unwrap().path());
        let builds = entries.filter(|path| path.file_name().unwrap().as_bytes().starts_with(b".build-"));
        self.seen.extend(builds.map(|build| [mode(&build), mode(&build.join("tree/bin/become-root"))]));
    }
    fn line(&mut self, _: &str) {}
}

#[test]
fn nobody_else_reaches_a_program_of_an_image_while_files_are_added_to_it() {
    if !rustix::process::geteuid().is_root() {
        return tilemark_fixtures::skipped("adding files to an image needs root");
    }
    let fixture = fixture();
    let tree = fixture._folder.path().join("base");
    fs::create_dir_all(tree.join("bin")).unwrap();
    let program = tree.join("bin/become-root");
    fs::write(&program, "#!/bin/sh").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let erofs = fixture._folder.path().join("base.erofs");
    let made = std::process::Command::new("mkfs.erofs").arg("--quiet").args([&erofs, &tree]).status();
    assert!(made.unwrap().success());
    fixture.put(fs::read(&erofs).unwrap());
    let mut progress = LookAtCopy { cache: &fixture.cache.folder, seen: Vec::new() };
    // In a mount namespace of this thread's own, as builds are.
    std::thread::scope(|scope| {
        let extend = || {
            tilemark_sys::namespace::own_mounts().unwrap();
            fixture.cache.ensure(&with_page(), Network::Forbidden, &mut progress).unwrap()
        };
        scope.spawn(extend).join().unwrap()
    });
    assert_eq!(progress.seen, [[0o700, 0o4755]]);
}

#[test]
fn a_removed_image_is_gone_with_all_that_led_to_it_even_a_damaged_one() {
    let fixture = fixture();
    let image = fixture.put("root");
    fs::write(image.path(FileName::RootErofs), "ROOT, changed").unwrap();
    let name = fixture.cache.find_name(&image.name().to_string()[..12]).unwrap();
    let bytes = fixture.cache.remove(name, &mut Silent).unwrap();
    assert!(bytes > "ROOT, changedkernelmodules".len() as u64, "{bytes} with lock and specification");
    assert!(fixture.cache.list().unwrap().is_empty());
    assert_eq!(fs::read_dir(fixture.cache.folder.join(BY_SPEC)).unwrap().count(), 0);
    let others = fs::read_dir(&fixture.cache.folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut others: Vec<_> = others.collect();
    others.sort();
    assert_eq!(others, [BY_SPEC, LOCK_FILE]);
    assert!(matches!(fixture.ensure(), Err(ImageError::NotCached { .. })));
}

#[test]
fn a_changed_byte_fails_verification_and_a_changed_size_fails_at_once() {
    let fixture = fixture();
    let image = fixture.put("root");
    let path = image.path(FileName::RootErofs);
    let file = fs::OpenOptions::new().write(true).open(&path).unwrap();
    assert!(fixture.ensure().is_ok() && fixture.ensure().is_ok());
    file.write_all_at(b"R", 0).unwrap();
    let error = fixture.ensure().unwrap_err();
    assert!(matches!(&error, ImageError::HashMismatch { path: found, .. } if *found == path), "{error}");
    assert!(error.remedy().contains("--refresh"));
    file.set_len(3).unwrap();
    assert!(matches!(fixture.ensure(), Err(ImageError::SizeMismatch { expected: 4, found: 3, .. })));
    // Building it again puts it right.
    fixture.put("root").verify().unwrap();
}

#[test]
fn what_was_not_touched_since_it_was_verified_is_not_read_again() {
    let fixture = fixture();
    let image = fixture.put("root");
    image.verify_if_touched(later()).unwrap();
    // Nobody can take a change back unseen: not by writing the old bytes again, not by setting times.
    let path = image.path(FileName::RootErofs);
    let marks = image.folder().join(".verified");
    let before = fs::read_to_string(&marks).unwrap();
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let next_tick = || std::thread::sleep(Duration::from_millis(20));
    next_tick();
    fs::write(&path, "rood").unwrap();
    fs::File::options().write(true).open(&path).unwrap().set_modified(modified).unwrap();
    assert!(matches!(image.verify_if_touched(later()), Err(ImageError::HashMismatch { .. })));
    assert_eq!(fs::read_to_string(&marks).unwrap(), before, "what fails is not marked as verified");
    // Marked as verified as it is now, it is not read: that is what a start saves.
    next_tick();
    fs::write(&path, "root").unwrap();
    image.verify_if_touched(later()).unwrap();
    assert_ne!(fs::read_to_string(&marks).unwrap(), before);
}

/// A time at which files that were written just now have settled.
fn later() -> SystemTime {
    SystemTime::now() + Duration::from_secs(3600)
}

#[test]
fn an_image_changed_just_now_is_not_marked_as_verified() {
    let fixture = fixture();
    let image = fixture.put("root");
    fixture.ensure().unwrap();
    // A change within the same tick of the clock would leave the same marks.
    let marks = image.folder().join(".verified");
    assert!(!marks.exists());
    image.verify_if_touched(later()).unwrap();
    assert!(marks.exists());
}

#[test]
fn a_changed_lock_no_longer_has_the_name() {
    let fixture = fixture();
    let path = fixture.put("root").folder().join(IMAGE_LOCK);
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("6.1.0", "6.1.1")).unwrap();
    assert!(matches!(fixture.ensure(), Err(ImageError::BadLock { .. })));
}

#[test]
fn what_an_interrupted_build_left_is_removed_by_the_next() {
    let fixture = fixture();
    let left = fixture.cache.folder.join(".build-left");
    fs::create_dir_all(left.join("tree/etc")).unwrap();
    assert!(fixture.cache.list().unwrap().is_empty());
    fixture.put("root");
    assert!(!left.exists());
    let builds = fs::read_dir(&fixture.cache.folder).unwrap();
    assert_eq!(
        builds.filter(|entry| entry.as_ref().unwrap().file_name().to_string_lossy().starts_with('.')).count(),
        0
    );
}

/// Lets the other build end as soon as the wait is announced.
struct EndOther(RefCell<Option<CacheLock>>, Vec<Step>);

impl Progress for EndOther {
    fn step(&mut self, step: Step) {
        self.1.push(step);
        self.0.take();
    }
    fn line(&mut self, _: &str) {}
}

#[test]
fn a_second_build_says_that_it_waits_and_then_goes_on() {
    let fixture = fixture();
    let other = fixture.cache.lock(&mut Silent).unwrap();
    let mut progress = EndOther(RefCell::new(Some(other)), Vec::new());
    fixture.cache.lock(&mut progress).unwrap();
    assert_eq!(progress.1, [Step::Waiting]);
}

#[test]
fn an_exported_image_comes_in_elsewhere_under_the_same_name() {
    let (here, there) = (fixture(), fixture());
    let image = here.put("root");
    let file = here.cache.folder.join("exported.tar");
    here.cache.export("first-look", &file).unwrap();
    let imported = there.cache.import(&file, Some(image.name()), &[], &mut Silent).unwrap();
    assert_eq!(imported.name(), image.name());
    imported.verify().unwrap();
    assert_eq!(there.ensure().unwrap().name(), image.name());
}

#[test]
fn no_imported_image_becomes_that_of_a_built_in_name_in_silence() {
    let (here, there) = (fixture(), fixture());
    let (own, hostile) = (there.put("root"), here.put("another root"));
    let file = here.cache.folder.join("exported.tar");
    let renamed = ImageSpec { name: "harmless".to_owned(), ..spec() };
    let other = fixture();
    let name = other.put_for(&renamed, renamed.key(), "a third root").name();
    other.cache.export(&name.to_string(), &file).unwrap();
    let refused = there.cache.import(&file, None, &[], &mut Silent).unwrap_err();
    assert!(matches!(refused, ImageError::ForBuiltIn { .. }), "by its content: {refused}");
    here.cache.export("first-look", &file).unwrap();
    let refused = there.cache.import(&file, None, &[], &mut Silent).unwrap_err();
    assert!(matches!(refused, ImageError::ForBuiltIn { .. }), "{refused}");
    let refused = there.cache.import(&file, Some(own.name()), &[], &mut Silent).unwrap_err();
    assert!(matches!(refused, ImageError::OtherImage { .. }), "{refused}");
    assert_eq!(there.cache.list().unwrap().len(), 1, "nothing of it is kept");
    assert_eq!(there.ensure().unwrap().name(), own.name());
    there.cache.import(&file, Some(hostile.name()), &[], &mut Silent).unwrap();
    assert_eq!(there.ensure().unwrap().name(), hostile.name());
}

#[test]
fn no_imported_image_takes_the_place_of_another_in_silence() {
    let (here, there) = (fixture(), fixture());
    let file = here.cache.folder.join("exported.tar");
    // What a user's scenario holds, and the same without its files, from which the next image is made.
    let whole = ImageSpec { packages: vec!["nginx".to_owned()], ..with_page() };
    for spec in [whole.without_own_files().unwrap(), whole] {
        let own = there.put_for(&spec, spec.key(), "own");
        let renamed = ImageSpec { name: "harmless".to_owned(), ..spec.clone() };
        let other = here.put_for(&renamed, renamed.key(), "another");
        here.cache.export(&other.name().to_string(), &file).unwrap();
        let refused = there.cache.import(&file, None, &[], &mut Silent).unwrap_err();
        assert!(matches!(refused, ImageError::WouldReplace { .. }), "{refused}");
        assert!(refused.to_string().contains(&own.name().short()), "{refused}");
        assert_eq!(there.cache.cached(&spec).unwrap().unwrap().name(), own.name());
        // The same again replaces nothing, and a whole name says what is meant.
        there.cache.export(&own.name().to_string(), &file).unwrap();
        there.cache.import(&file, None, &[], &mut Silent).unwrap();
        here.cache.export(&other.name().to_string(), &file).unwrap();
        there.cache.import(&file, Some(other.name()), &[], &mut Silent).unwrap();
        assert_eq!(there.cache.cached(&spec).unwrap().unwrap().name(), other.name());
    }
}

#[test]
fn no_damage_to_an_exported_image_gets_past_the_import() {
    let here = fixture();
    let root = "a root file system of some length".repeat(40);
    here.put(&root);
    let file = here.cache.folder.join("exported.tar");
    here.cache.export("first-look", &file).unwrap();
    let whole = fs::read(&file).unwrap();
    let whole_image = here.ensure().unwrap();
    let (whole_lock, name) = (whole_image.lock().clone(), Some(whole_image.name()));
    let damaged = here.cache.folder.join("damaged.tar");
    for at in (0..whole.len()).step_by(97) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&damaged, &bytes).unwrap();
        // A cache of its own each time: where the image is already, the damaged one would not be used.
        let there = fixture();
        // A byte between the members may change without harm; then all that is taken in is right.
        if let Ok(image) = there.cache.import(&damaged, name, &[], &mut Silent) {
            assert_eq!(*image.lock(), whole_lock, "byte {at}");
            image.verify().unwrap();
        }
    }
    for length in [0, 512, whole.len() / 2, whole.len() - 4096] {
        fs::write(&damaged, &whole[..length]).unwrap();
        let error = fixture().cache.import(&damaged, name, &[], &mut Silent).unwrap_err();
        assert!(matches!(error, ImageError::BadArchive { .. }), "{length}: {error}");
    }
}

#[test]
fn exporting_a_changed_image_is_refused() {
    let fixture = fixture();
    fs::write(fixture.put("root").path(FileName::Initrd), "MODULES").unwrap();
    let file = fixture.cache.folder.join("exported.tar");
    assert!(matches!(fixture.cache.export("first-look", &file), Err(ImageError::HashMismatch { .. })));
    assert!(!file.exists());
}

#[test]
fn a_pipe_in_place_of_an_archive_is_refused_and_nobody_waits_for_it() {
    let fixture = fixture();
    let pipe = fixture.cache.folder.join("exported.tar");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    // While somebody else builds: whoever opens a file with the lock held would keep others from building.
    let _other = fixture.cache.lock(&mut Silent).unwrap();
    let (says, said) = std::sync::mpsc::channel();
    let cache = fixture.cache.clone();
    let file = pipe.clone();
    std::thread::spawn(move || says.send(cache.import(&file, None, &[], &mut Silent).map(|_| ())));
    let refused = said.recv_timeout(Duration::from_secs(10)).expect("it waits").unwrap_err();
    assert!(matches!(&refused, ImageError::Io { path, .. } if *path == pipe), "{refused}");
    assert!(format!("{refused:?}").contains("not a plain file"), "{refused:?}");
}
