//! Images in the cache: listed, moved and removed by the command itself.

use crate::{
    failure::{Failure, FailureCode, place_failed},
    guests::database_disks::store_file,
    image::build::ready,
    job::lock::{self, WhenBusy},
    job::recover,
    job::types::ImageReady,
    plan::image_asked::ImageAsked,
};
use serde::Serialize;
use std::path::Path;
use tilemark_image::{
    ImageCache, ImageError, Reserved, Sha256Hash, Silent, Standing, disk_store::remove_store,
};
use tilemark_plan::builtin::{BUILTINS, Builtin};
use tilemark_record::places::Places;
use tilemark_sys::files::Place;
use tilemark_units::Bytes;

/// An image as a list shows it.
#[derive(Debug, Clone, Serialize)]
pub struct ListedImage {
    /// Its name: the hash of its lock.
    pub name: String,
    /// What it was built from.
    pub spec: Option<String>,
    /// Kernel of its guests.
    pub kernel: Option<String>,
    /// Bytes of its files.
    pub bytes: Option<u64>,
    /// Whether it is what its specification leads to.
    pub current: bool,
    /// What is wrong with it.
    pub problem: Option<String>,
}

impl ListedImage {
    /// A line for a person.
    pub fn text(&self) -> String {
        let short: String = self.name.chars().take(12).collect();
        let replaced = if self.current { "" } else { "  (replaced by a newer one)" };
        match (&self.problem, &self.spec, &self.kernel, self.bytes) {
            (None, Some(spec), Some(kernel), Some(bytes)) => {
                format!("{short}  {spec}, kernel {kernel}, {}{replaced}", Bytes::new(bytes).rounded())
            }
            (problem, ..) => format!("{short}  {}", problem.as_deref().unwrap_or("cannot be read")),
        }
    }
}

/// All images.
pub fn list(places: &Places) -> Result<Vec<ListedImage>, Failure> {
    let cache = ImageCache::open(&places.cache)?;
    let listed = cache.list()?.into_iter().map(|cached| {
        let image = cached.image.as_ref().ok().map(|image| ready(image, None));
        ListedImage {
            name: cached.name.to_string(),
            spec: cached.image.as_ref().ok().map(|image| image.spec().name.clone()),
            kernel: image.as_ref().map(|image| image.kernel.clone()),
            bytes: image.as_ref().map(|image| image.size.get()),
            current: cached.standing == Standing::Current,
            problem: cached.image.as_ref().err().map(ToString::to_string),
        }
    });
    Ok(listed.collect())
}

/// Writes an image into one file.
pub fn export(places: &Places, name: &str, file: &Path) -> Result<ImageReady, Failure> {
    let cache = ImageCache::open(&places.cache)?;
    let bad = |error| {
        let message = format!("cannot write {}", file.display());
        Failure::caused_by(&error, FailureCode::BadInput, message, "check the path")
    };
    let place = Place::of_file(file).map_err(|error| place_failed(error, bad))?;
    let exported = cache.export(name, place.path());
    let failed = |error| of_file(error, place.path()).shown_as(place.path(), file);
    exported.map(|image| ready(&image, None)).map_err(failed)
}

/// Takes an image from a file; `expected` is the name that it must have ([`ImageCache::import`]).
pub fn import(places: &Places, file: &Path, expected: Option<&str>) -> Result<ImageReady, Failure> {
    let expected = expected.map(named).transpose()?;
    let cache = ImageCache::open(&places.cache)?;
    cache
        .import(file, expected, &reserved()?, &mut Silent)
        .map(|image| ready(&image, None))
        .map_err(|error| of_file(error, file))
}

/// What the scenarios inside the program have their images made of: whole, and without the files that are added last.
fn reserved() -> Result<Vec<Reserved>, Failure> {
    let mut reserved = Vec::new();
    for Builtin { name, .. } in BUILTINS {
        let asked = ImageAsked::of_builtin(name)?;
        let spec = asked.spec()?;
        for spec in [Some(spec.clone()), spec.without_own_files()].into_iter().flatten() {
            reserved.push(Reserved { of: format!("the built-in scenario `{name}`"), spec });
        }
    }
    Ok(reserved)
}

fn named(name: &str) -> Result<Sha256Hash, Failure> {
    name.parse().map_err(|_| {
        Failure::new(
            FailureCode::BadInput,
            format!("`{name}` is not the name of an image"),
            "give all 64 digits that `tilemark image export` printed",
        )
    })
}

/// A file that the user named wrongly is the user's to correct.
fn of_file(error: ImageError, file: &Path) -> Failure {
    match &error {
        ImageError::Io { path, .. } if path == file => {
            Failure::from_error(FailureCode::BadInput, &error, "check the path")
        }
        _ => error.into(),
    }
}

/// What is to be removed from the cache.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Unwanted {
    /// The image of this name, or of a unique start of it, or the current one of this specification.
    pub name: Option<String>,
    /// Every image that nothing leads to any more ([`ImageCache::unused`]).
    pub unused: bool,
    /// The prepared disks of databases.
    pub disks: bool,
}

/// Something that was removed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Removed {
    /// What it was: `image` or `disks`.
    pub kind: &'static str,
    /// Name of an image; the file of the disks.
    pub name: String,
    /// What an image was built from; nothing where it could not be read.
    pub spec: Option<String>,
    /// Bytes of the host's disk that are free again.
    pub bytes: u64,
}

impl Removed {
    /// A line for a person.
    pub fn text(&self) -> String {
        let size = Bytes::new(self.bytes).rounded();
        match (self.kind, &self.spec) {
            ("image", spec) => {
                let short: String = self.name.chars().take(12).collect();
                format!("removed image {short} ({}), {size}", spec.as_deref().unwrap_or("could not be read"))
            }
            _ => format!("removed the prepared disks of databases, {}, {size}", self.name),
        }
    }
}

/// Removes from the cache what is unwanted; refuses while a run, guests or a build may use it.
pub fn remove(places: &Places, unwanted: &Unwanted) -> Result<Vec<Removed>, Failure> {
    let no_run_begins = lock::take(&places.state, "image-remove", WhenBusy::Stop)?;
    let removed = remove_alone(places, unwanted);
    lock::release(no_run_begins);
    removed
}

/// The same, while no run can begin.
fn remove_alone(places: &Places, unwanted: &Unwanted) -> Result<Vec<Removed>, Failure> {
    // Guests, and runs beside others, hold no lock.
    let under_way = recover::under_way(places)?;
    if !under_way.is_empty() {
        return Err(Failure::new(
            FailureCode::HostUnfit,
            format!("{} may use what is to be removed", under_way.join(", ")),
            "wait until it is over, or end guests with `tilemark guests down`",
        ));
    }
    let cache = ImageCache::open(&places.cache)?;
    let mut names: Vec<Sha256Hash> = Vec::new();
    if let Some(name) = &unwanted.name {
        names.push(cache.find_name(name)?);
    }
    if unwanted.unused {
        names.extend(cache.unused()?);
    }
    let mut removed = Vec::new();
    for name in names {
        removed.push(remove_image(&cache, name)?);
    }
    if unwanted.disks {
        removed.extend(remove_disks(&store_file(&places.cache))?);
    }
    Ok(removed)
}

fn remove_image(cache: &ImageCache, name: Sha256Hash) -> Result<Removed, Failure> {
    let whole_name = name.to_string();
    let spec = cache.find(&whole_name).ok().map(|image| image.spec().name.clone());
    let bytes = cache.remove(name, &mut Silent)?;
    Ok(Removed { kind: "image", name: whole_name, spec, bytes })
}

fn remove_disks(store: &Path) -> Result<Option<Removed>, Failure> {
    let name = store.display().to_string();
    let bytes = remove_store(store)?;
    Ok(bytes.map(|bytes| Removed { kind: "disks", name, spec: None, bytes }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::show::{self, show};
    use crate::{
        fakes::places_in,
        job::state_folder::{Keeper, boot_id},
    };
    use std::fs;
    use tilemark_image::{ImageLock, ImageSpec, LockedFile, LockedFiles};

    const ALL: Unwanted = Unwanted { name: None, unused: true, disks: true };

    fn places(home: &Path) -> Places {
        let places = places_in(home);
        fs::create_dir_all(&places.cache).unwrap();
        fs::write(store_file(&places.cache), vec![1; 1 << 20]).unwrap();
        fs::write(places.cache.join("other"), "no image and no disk").unwrap();
        places
    }

    /// An exported image of this specification, as somebody else would make it.
    fn exported(spec: &ImageSpec, file: &Path) {
        let locked =
            |content: &[u8]| LockedFile { sha256: Sha256Hash::of(content), bytes: content.len() as u64 };
        let contents: [&[u8]; 3] = [b"root", b"kernel", b"modules"];
        let [root_erofs, vmlinux, initrd] = contents.map(locked);
        let files = LockedFiles { root_erofs, vmlinux, initrd };
        let lock =
            ImageLock { format: 1, spec: spec.key(), kernel: "6.1".to_owned(), files, packages: vec![] };
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().join(lock.image_name().to_string());
        fs::create_dir(&place).unwrap();
        let texts = [("image.lock", lock.to_toml()), ("image.toml", spec.to_toml())];
        let names = ["root.erofs", "vmlinux", "initrd"].into_iter().zip(contents);
        let texts = texts.iter().map(|(name, text)| (*name, text.as_bytes()));
        let members: Vec<_> = texts.chain(names).collect();
        for (name, content) in &members {
            fs::write(place.join(name), content).unwrap();
        }
        let members = members.iter().map(|(name, _)| format!("{}/{name}", lock.image_name()));
        let mut tar = std::process::Command::new("tar");
        let made = tar.arg("--format=gnu").arg("-C").arg(folder.path()).arg("-cf").arg(file).args(members);
        assert!(made.status().unwrap().success());
    }

    #[test]
    fn an_image_that_the_built_in_shop_would_use_is_imported_by_its_whole_name_only() {
        let home = tempfile::tempdir().unwrap();
        let (places, file) = (places(home.path()), home.path().join("shop.tar"));
        let shop = ImageAsked::called("shop").unwrap();
        let shop = ImageSpec { name: "harmless".to_owned(), ..shop.spec().unwrap().clone() };
        // Without its pages and rows it is an image inside the program.
        for (spec, of) in
            [(shop.without_own_files().unwrap(), "image `consolidation`"), (shop, "scenario `shop`")]
        {
            exported(&spec, &file);
            let refused = import(&places, &file, None).unwrap_err();
            assert_eq!(refused.code, FailureCode::BadInput);
            assert!(
                refused.message.starts_with(&format!("runs of the built-in {of} would use")),
                "{refused:?}"
            );
            assert!(list(&places).unwrap().is_empty());
        }
        exported(
            &ImageSpec { packages: vec!["hello".to_owned()], ..ImageSpec::built_in("first-look").unwrap() },
            &file,
        );
        assert!(import(&places, &file, None).unwrap_err().message.contains("`first-look`"), "by its name");
        let own = ImageSpec {
            name: "own".to_owned(),
            packages: vec!["hello".to_owned()],
            ..ImageSpec::built_in("first-look").unwrap()
        };
        exported(&own, &file);
        import(&places, &file, None).unwrap();
    }

    #[test]
    fn an_image_in_roots_cache_is_shown_to_another_user_and_the_hint_names_what_was_asked() {
        let home = tempfile::tempdir().unwrap();
        let (roots, own) = (places(&home.path().join("root")), home.path().join("user"));
        let file = home.path().join("shop.tar");
        let shop = ImageAsked::called("shop").unwrap();
        exported(shop.spec().unwrap(), &file);
        let show = |roots: &Path| show::shown_of(&own, Some(roots), "shop").unwrap();
        let text = show(&roots.cache).text("shop");
        assert!(
            text.contains("not built yet") && text.contains("`sudo tilemark image build shop`"),
            "{text}"
        );
        let tar = std::process::Command::new("tar").arg("-tf").arg(&file).output().unwrap();
        let name = String::from_utf8(tar.stdout).unwrap().split('/').next().unwrap().to_owned();
        import(&roots, &file, Some(&name)).unwrap();
        let shown = show(&roots.cache);
        assert_eq!((shown.name.as_deref(), &shown.cache), (Some(name.as_str()), &roots.cache));
        let by_name = show::shown_of(&own, Some(&roots.cache), &name[..8]).unwrap();
        assert_eq!(by_name.folder, shown.folder);
        assert_eq!(show(home.path()).name, None, "nobody has it there");
    }

    #[test]
    fn an_image_is_shown_by_any_unique_beginning_of_its_name() {
        let home = tempfile::tempdir().unwrap();
        let (places, file) = (places(home.path()), home.path().join("own.tar"));
        exported(
            &ImageSpec {
                name: "own".to_owned(),
                packages: Vec::new(),
                ..ImageSpec::built_in("first-look").unwrap()
            },
            &file,
        );
        import(&places, &file, None).unwrap();
        let name = list(&places).unwrap()[0].name.clone();
        for length in [1, 5, 12, 64] {
            assert_eq!(show(&places, &name[..length]).unwrap().name.as_ref(), Some(&name), "{length} digits");
        }
        assert_eq!(show(&places, "shop").unwrap().name, None, "a name comes first");
    }

    #[test]
    fn disks_are_removed_on_request_and_nothing_else_is() {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        assert_eq!(remove(&places, &Unwanted { disks: false, ..ALL }).unwrap(), []);
        let removed = remove(&places, &ALL).unwrap();
        assert_eq!((removed.len(), removed[0].kind), (1, "disks"));
        assert!(!store_file(&places.cache).exists() && places.cache.join("other").exists());
        assert_eq!(remove(&places, &ALL).unwrap(), []);
        let unknown = Unwanted { name: Some("none-such".to_owned()), ..Unwanted::default() };
        assert_eq!(remove(&places, &unknown).unwrap_err().code, FailureCode::BadInput);
    }

    #[test]
    fn nothing_is_removed_while_a_run_or_guests_are_under_way() {
        let home = tempfile::tempdir().unwrap();
        let places = places(home.path());
        let run = lock::take(&places.state, "a-run", WhenBusy::Stop).unwrap();
        assert!(remove(&places, &ALL).unwrap_err().message.contains("a-run"));
        lock::release(run);
        let under_way = serde_json::json!({
            "id": "guests-1", "kind": "guests", "boot_id": boot_id().unwrap(), "record": null, "cgroup": null,
            "keeper": Keeper::of(std::process::id()).unwrap(),
        });
        let folder = places.state.join("guests-1");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("under-way.json"), under_way.to_string()).unwrap();
        let refused = remove(&places, &ALL).unwrap_err();
        assert!(refused.message.contains("guests-1") && refused.code.exit_code() == 3, "{refused:?}");
        assert!(store_file(&places.cache).exists());
        fs::remove_dir_all(folder).unwrap();
        assert_eq!(remove(&places, &ALL).unwrap().len(), 1);
    }
}
