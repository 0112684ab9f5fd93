//! An image that is asked for by name, by path or by a scenario, as it can be built: with the packages that the scenario's guests need,
//! and with the files of the host that it brings.

use crate::{
    failure::{Failure, FailureCode},
    plan::prepare::text_of,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs::{self, Metadata},
    io::{self, Read},
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::OnceLock,
};
use tilemark_image::{BUILT_IN_NAMES, ExtraFile, FileSource, ImageError, ImageSpec, OF_SCENARIO, Sha256Hash};
use tilemark_plan::{
    builtin::builtin,
    guest_image::{ImageFile, ImageTable, RequestedImage, is_beside, is_image_file},
    image_needs::{ImageNeed, image_needs},
    parse::Draft,
    plan::shell_word,
    scenario::Scenario,
};
use tilemark_sys::below::{Below, is_link};

/// Files of the host in one image, those of folders counted one by one.
const FILES_MAX: usize = 10_000;
/// Bytes of all of them: each is in memory while it is added.
const BYTES_MAX: u64 = 1 << 30;
/// Folders inside each other.
const DEPTH_MAX: usize = 32;
/// What every image begins with that names none.
const PLAIN: &str = "first-look";

/// An image that is asked for; paths of the host in it are absolute.
#[derive(Debug, Clone)]
pub struct ImageAsked {
    /// The real path of the scenario's folder, where it brings files.
    folder: PathBuf,
    /// What it shall be.
    requested: RequestedImage,
    /// What it is called where the scenario makes it. Empty where no scenario asks for it.
    name: String,
    /// What nobody trusts yet.
    untrusted: Untrusted,
    /// What is to be built, once it was asked for: its files are hashed for it, which may be a GiB.
    spec: OnceLock<ImageSpec>,
}

/// What of an image only the scenario's file names, while nobody trusts that file.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Untrusted {
    /// Its `image.toml`: what is in it is in no message.
    pub(crate) specification: bool,
    /// Files that did not come with the scenario: they are not looked up.
    pub(crate) files: bool,
}

impl ImageAsked {
    /// The image of a scenario that was read from `origin`.
    ///
    /// # Errors
    /// When a file that it brings is absent, or leads out of the scenario's folder.
    pub(crate) fn of_scenario(
        scenario: &Scenario,
        origin: &str,
        untrusted: Untrusted,
    ) -> Result<Self, Failure> {
        let mut requested = scenario.image.clone();
        let mut real_folder = PathBuf::new();
        if let RequestedImage::Made(made) = &mut requested {
            let folder = Path::new(origin).parent().map(Path::to_owned).unwrap_or_default();
            made.from
                .iter_mut()
                .filter(|from| is_image_file(from))
                .for_each(|from| *from = beside(&folder, from));
            let base = base_of(made, untrusted)?;
            let has: BTreeSet<String> =
                base.packages.iter().chain(&made.packages).map(|name| bare(name)).collect();
            for ImageNeed { program, .. } in image_needs(scenario) {
                let first = program.packages[0].to_owned();
                let is_there = program.packages.iter().any(|name| has.contains(*name));
                if !is_there && !made.packages.contains(&first) {
                    made.packages.push(first);
                }
            }
            for file in made.files.values_mut() {
                match file {
                    ImageFile::Host(path) if is_beside(path) || !untrusted.files => {
                        (real_folder, *path) = found(&folder, path)?;
                    }
                    ImageFile::Host(_) | ImageFile::Text { .. } => {}
                }
            }
        }
        Ok(Self {
            folder: real_folder,
            requested,
            name: format!("{OF_SCENARIO}{}", scenario.name),
            untrusted,
            spec: OnceLock::new(),
        })
    }

    /// The image of that name inside the program or at that path, or of the scenario that is called so.
    ///
    /// # Errors
    /// When there is neither, or the scenario has mistakes.
    pub fn called(text: &str) -> Result<Self, Failure> {
        let requested = RequestedImage::Named(text.to_owned());
        let named = || Self {
            folder: PathBuf::new(),
            requested,
            name: String::new(),
            untrusted: Untrusted::default(),
            spec: OnceLock::new(),
        };
        if BUILT_IN_NAMES.contains(&text) {
            return Ok(named());
        }
        let is_scenario = if is_image_file(text) {
            // An `image.toml` has no such key.
            Path::new(text).exists()
                && text_of(text)?.lines().any(|line| line.trim_start().starts_with("schema"))
        } else {
            builtin(text).is_some()
        };
        if !is_scenario {
            return Ok(named());
        }
        let scenario = Draft::from_toml(&text_of(text)?, text)?.finish()?;
        // Who names a scenario's file to build its image asks for what it brings.
        Self::of_scenario(&scenario, text, Untrusted { specification: is_image_file(text), files: false })
    }

    /// The image of a scenario inside the program.
    ///
    /// # Errors
    /// When there is none of this name.
    pub(crate) fn of_builtin(name: &str) -> Result<Self, Failure> {
        let scenario = Draft::from_toml(&text_of(name)?, name)?.finish()?;
        Self::of_scenario(&scenario, name, Untrusted::default())
    }

    /// What is to be built, with its files as this was first asked for.
    ///
    /// # Errors
    /// When what it begins with is not known, or a file of the host cannot be read.
    pub fn spec(&self) -> Result<&ImageSpec, Failure> {
        if let Some(spec) = self.spec.get() {
            return Ok(spec);
        }
        let spec = self.read_spec()?;
        Ok(self.spec.get_or_init(|| spec))
    }

    fn read_spec(&self) -> Result<ImageSpec, Failure> {
        match &self.requested {
            RequestedImage::Named(name) if self.name.is_empty() && !is_image_file(name) => {
                spec_called(name, Untrusted::default()).map_err(or_a_scenario)
            }
            RequestedImage::Named(name) => spec_called(name, self.untrusted),
            RequestedImage::Made(made) => {
                let base = base_of(made, self.untrusted)?;
                Ok(base.with(&self.name, &made.packages, files_of(&made.files, &self.folder)?)?)
            }
        }
    }

    /// Whether it brings files that are not looked up.
    pub(crate) fn has_unread_files(&self) -> bool {
        self.untrusted.files
    }

    /// How people know it: `` `web` ``, or ``of the scenario `shop` ``.
    pub(crate) fn said(&self) -> String {
        match &self.requested {
            RequestedImage::Named(name) => format!("`{name}`"),
            RequestedImage::Made(_) => {
                format!("of the scenario `{}`", self.name.trim_start_matches(OF_SCENARIO))
            }
        }
    }
}

/// The name of a package without its version.
fn bare(package: &str) -> String {
    package.split('=').next().unwrap_or_default().to_owned()
}

fn base_of(made: &ImageTable, untrusted: Untrusted) -> Result<ImageSpec, Failure> {
    match &made.from {
        Some(name) => spec_called(name, untrusted),
        None => Ok(ImageSpec { packages: Vec::new(), ..spec_called(PLAIN, Untrusted::default())? }),
    }
}

/// A name inside the program, or the path of an `image.toml`.
fn spec_called(image: &str, untrusted: Untrusted) -> Result<ImageSpec, Failure> {
    if !is_image_file(image) {
        return Ok(ImageSpec::built_in(image)?);
    }
    ImageSpec::read(Path::new(image)).map_err(|error| match error {
        _ if untrusted.specification => untrusted_file(image, "image", "image show"),
        ImageError::Io { .. } => {
            let remedy =
                format!("check the path; images inside the program are: {}", BUILT_IN_NAMES.join(", "));
            Failure::from_error(FailureCode::BadInput, &error, remedy)
        }
        error => error.into(),
    })
}

/// A file that only a scenario's file names cannot be used. The reason would quote the file, which may be one that the scenario's author
/// may not read.
pub(super) fn untrusted_file(path: &str, what: &str, command: &str) -> Failure {
    refused(
        format!("{path:?}, which the scenario's file names as its {what}, cannot be used"),
        &format!("correct it; `tilemark {command} {}` shows why", shell_word(path)),
    )
}

/// Where no scenario asks for the image, a scenario may be named in place of it.
fn or_a_scenario(failure: Failure) -> Failure {
    let remedy =
        format!("{}; or a scenario: a name from `tilemark scenarios list`, or its path", failure.remedy);
    Failure { remedy, ..failure }
}

/// A path as seen from a scenario's folder.
fn beside(folder: &Path, path: &str) -> String {
    folder.join(path).to_string_lossy().into_owned()
}

fn refused(message: String, remedy: &str) -> Failure {
    Failure::new(FailureCode::BadInput, message, remedy)
}

/// The real paths of a scenario's folder, and of a file or folder that the scenario brings.
fn found(folder: &Path, path: &str) -> Result<(PathBuf, String), Failure> {
    let remedy = "correct the path in `[image.files]`: it is as seen from the scenario's file";
    let failed = |error: std::io::Error| {
        let message = format!("`[image.files]` needs {}, which cannot be used", folder.join(path).display());
        Failure::caused_by(&error, FailureCode::BadInput, message, remedy)
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let real = fs::canonicalize(folder.join(path)).map_err(failed)?;
    let real_folder = fs::canonicalize(folder).map_err(failed)?;
    // A scenario from elsewhere must not reach the host's own files by a link.
    if is_beside(path) && !real.starts_with(&real_folder) {
        return Err(refused(
            format!(
                "`[image.files]` has {path}, which leads out of the scenario's folder to {}",
                real.display()
            ),
            "write its absolute path there if you trust the scenario",
        ));
    }
    let text = real.to_str().map(str::to_owned).ok_or_else(|| {
        refused(format!("`[image.files]` has {real:?}, which is not UTF-8"), "give it a plain name")
    })?;
    Ok((real_folder, text))
}

/// The files of an image, those of folders one by one, each with its hash. Those below `folder` came with the scenario.
fn files_of(requested: &BTreeMap<String, ImageFile>, folder: &Path) -> Result<Vec<ExtraFile>, Failure> {
    let mut gathered = Gathered::default();
    for (path, file) in requested {
        match file {
            ImageFile::Text { text } => gathered.files.push(ExtraFile {
                path: path.clone(),
                sha256: Sha256Hash::of(text.as_bytes()),
                source: FileSource::Text(text.clone()),
                mode: 0o644,
            }),
            ImageFile::Host(host) => gathered.add(path, &OnHost::of(Path::new(host), folder), 0)?,
        }
    }
    Ok(gathered.files)
}

/// A path on the host: a folder, and a name below it. Its real path was found before; whoever may write there can have put a link in it
/// since, so none is followed any more.
struct OnHost {
    folder: PathBuf,
    name: PathBuf,
}

impl OnHost {
    fn of(path: &Path, folder: &Path) -> Self {
        let folder = if path.starts_with(folder) { folder } else { Path::new("/") };
        let name = path.strip_prefix(folder).unwrap_or(path);
        Self { folder: folder.to_owned(), name: name.to_owned() }
    }

    fn path(&self) -> PathBuf {
        self.folder.join(&self.name)
    }
}

#[derive(Default)]
struct Gathered {
    files: Vec<ExtraFile>,
    bytes: u64,
}

impl Gathered {
    fn add(&mut self, path: &str, host: &OnHost, depth: usize) -> Result<(), Failure> {
        let found = Below::folder(&host.folder).and_then(|folder| folder.open(&host.name));
        self.add_found(path, host, found, depth)
    }

    fn add_found(
        &mut self,
        path: &str,
        host: &OnHost,
        found: io::Result<Below>,
        depth: usize,
    ) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            let message = format!("cannot read {}, which `[image.files]` brings", host.path().display());
            Failure::caused_by(&error, FailureCode::BadInput, message, "check the path and who may read it")
        };
        let found = match found {
            Ok(found) if found.metadata().is_dir() => return self.add_folder(path, host, &found, depth),
            Ok(found) if found.metadata().is_file() => found,
            Err(error) if !is_link(&error) => return Err(failed(error)),
            _ => {
                let host = host.path();
                return Err(refused(
                    format!(
                        "{}, which `[image.files]` brings, is neither a file nor a folder",
                        host.display()
                    ),
                    "put the file itself there: links and devices are not brought",
                ));
            }
        };
        let length = found.metadata().len();
        self.bytes += length;
        if self.files.len() == FILES_MAX || self.bytes > BYTES_MAX {
            return Err(refused(
                format!("the files of `[image.files]` are more than {FILES_MAX}, or than 1 GiB together"),
                "bring fewer, or make a package or an archive of them",
            ));
        }
        // Some files of the kernel have no length and no end: one that holds more than it says is not read on.
        let content = found.file().map_err(failed)?;
        let sha256 = Sha256Hash::of_reader(content.take(length)).map_err(failed)?;
        let source = FileSource::Host { folder: host.folder.clone(), name: host.name.clone() };
        let mode = mode_of(found.metadata());
        self.files.push(ExtraFile { path: path.to_owned(), source, sha256, mode });
        Ok(())
    }

    fn add_folder(&mut self, path: &str, host: &OnHost, found: &Below, depth: usize) -> Result<(), Failure> {
        let failed = |error: io::Error| {
            let host = host.path();
            let message = format!("cannot read the folder {}, which `[image.files]` brings", host.display());
            Failure::caused_by(&error, FailureCode::BadInput, message, "check who may read it")
        };
        if depth == DEPTH_MAX {
            let message = format!("{} lies more than {DEPTH_MAX} folders deep", host.path().display());
            return Err(refused(message, "bring a folder with fewer folders inside each other"));
        }
        for entry in found.names().map_err(failed)? {
            let Some(name) = entry.to_str().filter(|name| !name.contains(char::is_control)) else {
                let entry = host.path().join(entry);
                return Err(refused(format!("{entry:?} has no plain name"), "rename it, or leave it out"));
            };
            let below = OnHost { folder: host.folder.clone(), name: host.name.join(name) };
            self.add_found(&format!("{path}/{name}"), &below, found.open(Path::new(name)), depth + 1)?;
        }
        Ok(())
    }
}

/// Who owns a file on the host means nothing in a guest.
fn mode_of(found: &Metadata) -> u32 {
    if found.permissions().mode() & 0o111 == 0 { 0o644 } else { 0o755 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn scenario(image: &str) -> Scenario {
        let text = format!(
            "schema = 1\nname = \"site\"\nabout = \"s\"\n{image}\n[[guest]]\nname = \"g\"\nrole = \"web\"\npages = \"/srv/site\"\n\
             [ladder]\ntiles = [1]\n"
        );
        Draft::from_toml(&text, "test").unwrap().finish().unwrap()
    }

    /// The specification of a scenario's image in a folder that has `app/index.php`, `app/deep/run.sh` and a link to /etc/hostname.
    fn spec_in(folder: &Path, image: &str) -> Result<ImageSpec, Failure> {
        fs::create_dir_all(folder.join("app/deep")).unwrap();
        fs::write(folder.join("app/index.php"), "<?php").unwrap();
        fs::write(folder.join("app/deep/run.sh"), "#!/bin/sh").unwrap();
        fs::set_permissions(folder.join("app/deep/run.sh"), fs::Permissions::from_mode(0o700)).unwrap();
        let _ = symlink("/etc/passwd", folder.join("link"));
        let origin = folder.join("site.toml");
        ImageAsked::of_scenario(&scenario(image), origin.to_str().unwrap(), Untrusted::default())?
            .spec()
            .cloned()
    }

    #[test]
    fn a_scenarios_image_has_what_its_guests_need_and_its_own_packages_and_files() {
        let folder = tempfile::tempdir().unwrap();
        let image = "[image]\npackages = [\"redis\"]\n[image.files]\n\"/srv/site\" = \"app\"\n\"/srv/a.txt\" = { text = \"a\" }";
        let spec = spec_in(folder.path(), image).unwrap();
        assert_eq!(
            (spec.name.as_str(), &spec.packages[..]),
            ("scenario-site", &["nginx-light", "php8.2-fpm", "redis"].map(str::to_owned)[..])
        );
        let files: Vec<(&str, u32)> = spec.files.iter().map(|file| (file.path.as_str(), file.mode)).collect();
        assert_eq!(
            files,
            [("/srv/a.txt", 0o644), ("/srv/site/deep/run.sh", 0o755), ("/srv/site/index.php", 0o644)]
        );

        // Known by what it holds: another content is another image, another place of the same content is not.
        let elsewhere = tempfile::tempdir().unwrap();
        assert_eq!(spec_in(elsewhere.path(), image).unwrap().key(), spec.key());
        assert_ne!(spec_in(folder.path(), &image.replace("\"a\" }", "\"b\" }")).unwrap().key(), spec.key());
        // All but the host's files is an image that others can share.
        let base = spec.without_own_files().unwrap();
        assert_eq!((base.files.len(), base.without_own_files()), (0, None));
    }

    #[test]
    fn an_image_that_has_a_program_already_gets_no_second_package_of_it() {
        let folder = tempfile::tempdir().unwrap();
        let spec = spec_in(folder.path(), "[image]\nfrom = \"consolidation\"").unwrap();
        assert_eq!(spec.key(), ImageSpec::built_in("consolidation").unwrap().key());
    }

    #[test]
    fn files_are_hashed_once_however_often_an_image_is_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("page"), "first").unwrap();
        let origin = folder.path().join("site.toml");
        let image = scenario("[image.files]\n\"/srv/page\" = \"page\"");
        let asked = ImageAsked::of_scenario(&image, origin.to_str().unwrap(), Untrusted::default()).unwrap();
        let key = asked.spec().unwrap().key();
        fs::remove_file(folder.path().join("page")).unwrap();
        assert_eq!(asked.spec().unwrap().key(), key);
    }

    #[test]
    fn what_is_exchanged_for_a_link_before_it_is_hashed_is_refused() {
        for exchanged in ["app", "app/deep", "app/deep/page", ""] {
            let base = tempfile::tempdir().unwrap();
            let site = base.path().join("site");
            fs::create_dir_all(site.join("app/deep")).unwrap();
            fs::write(site.join("app/deep/page"), "a page").unwrap();
            let origin = site.join("site.toml");
            let image = scenario("[image.files]\n\"/srv/page\" = \"app/deep/page\"\n\"/srv/app\" = \"app\"");
            let asked =
                ImageAsked::of_scenario(&image, origin.to_str().unwrap(), Untrusted::default()).unwrap();
            let place = site.join(exchanged);
            fs::rename(&place, base.path().join("moved")).unwrap();
            symlink(base.path().join("moved"), place.components().collect::<PathBuf>()).unwrap();
            let refused = asked.spec().unwrap_err();
            assert!(refused.message.contains("is neither a file nor a folder"), "{exchanged}: {refused:?}");
        }
    }

    #[test]
    fn files_that_cannot_be_brought_are_named() {
        let folder = tempfile::tempdir().unwrap();
        for (files, wanted) in [
            ("\"/a\" = \"none\"", "needs"),
            ("\"/a\" = \"link\"", "leads out of the scenario's folder to /etc/passwd"),
            ("\"/a\" = \"/dev/null\"", "is neither a file nor a folder"),
            (
                "\"/srv/site\" = \"app\"\n\"/srv/site/index.php\" = \"app/index.php\"",
                "/srv/site/index.php is there twice",
            ),
        ] {
            let refused = spec_in(folder.path(), &format!("[image.files]\n{files}")).unwrap_err();
            assert!(refused.message.contains(wanted), "{wanted}: {refused:?}");
            assert_eq!(refused.code, FailureCode::BadInput);
        }
        symlink("/etc/passwd", folder.path().join("app/inner")).unwrap();
        let refused = spec_in(folder.path(), "[image.files]\n\"/srv/site\" = \"app\"").unwrap_err();
        assert!(
            refused.message.contains("app/inner, which `[image.files]` brings, is neither"),
            "{refused:?}"
        );
        let odd = spec_in(folder.path(), "[image]\npackages = [\"no package\"]").unwrap_err();
        assert!(odd.message.contains("\"no package\" is not the name of a package"), "{odd:?}");
    }

    #[test]
    fn an_image_of_a_scenario_is_not_another_scenario() {
        let mut asks = scenario("");
        asks.image = RequestedImage::Named("shop".to_owned());
        let absent =
            ImageAsked::of_scenario(&asks, "site.toml", Untrusted::default()).unwrap().spec().unwrap_err();
        assert!(absent.message.contains("no image specification `shop`"), "{absent:?}");
        assert_eq!(absent.remedy, "use one of these names, or the path of an image.toml");
    }

    #[test]
    fn an_image_is_called_by_its_name_its_file_or_its_scenario() {
        assert_eq!(ImageAsked::called("database").unwrap().spec().unwrap().name, "database");
        assert_eq!(ImageAsked::called("oltp").unwrap().spec().unwrap().name, "database");
        assert_eq!(ImageAsked::called("shop").unwrap().spec().unwrap().name, "scenario-shop");
        assert!(
            ImageAsked::called("none")
                .unwrap()
                .spec()
                .unwrap_err()
                .message
                .contains("no image specification `none`")
        );
        let absent = |image: &str| ImageAsked::called(image).unwrap().spec().unwrap_err().remedy;
        assert!(
            absent("none").ends_with("or a scenario: a name from `tilemark scenarios list`, or its path")
        );
        assert!(absent("./none.toml").contains("inside the program are: first-look, database, brokers, "));
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image.toml");
        fs::write(&path, ImageSpec::built_in("brokers").unwrap().to_toml()).unwrap();
        assert_eq!(ImageAsked::called(path.to_str().unwrap()).unwrap().spec().unwrap().name, "brokers");
    }
}
