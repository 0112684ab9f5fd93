//! What an image is to hold: `image.toml`. Read by hand rather than derived, so that all problems are reported at once.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tilemark_sys::text_file::read_text;
use tilemark_units::Sha256Hash;
use toml::{Table, Value};

use crate::{ImageError, Result};

/// Changes whenever the same specification would give another image, so that a new version builds again.
const RECIPE: u32 = 1;

/// Bytes of an `image.toml`: far more than one that names every package of a large image.
const SPEC_BYTES_MAX: u64 = 256 << 10;
/// Bytes of one that is kept with an image, where each file of a folder has an entry.
const KEPT_BYTES_MAX: u64 = 8 << 20;

/// The specifications inside the program, by name.
const BUILT_IN: [BuiltIn; 4] = [
    BuiltIn { name: "first-look", text: include_str!("../images/first-look.toml") },
    BuiltIn { name: "database", text: include_str!("../images/database.toml") },
    BuiltIn { name: "brokers", text: include_str!("../images/brokers.toml") },
    BuiltIn { name: "consolidation", text: include_str!("../images/consolidation.toml") },
];

/// Their names.
pub const BUILT_IN_NAMES: [&str; BUILT_IN.len()] =
    [BUILT_IN[0].name, BUILT_IN[1].name, BUILT_IN[2].name, BUILT_IN[3].name];

struct BuiltIn {
    name: &'static str,
    text: &'static str,
}

/// What an image is to hold.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ImageSpec {
    /// Only for people: two specifications that differ in nothing else are the same image.
    pub name: String,
    /// The release of Debian, such as `bookworm`.
    pub suite: String,
    /// The package of the guest's kernel, or one that depends on it.
    pub kernel: String,
    /// Packages, each `name` or `name=version`; what they need comes with them. Sorted.
    pub packages: Vec<String>,
    /// Kernel modules that programs in the image may load, besides those that every image has. Sorted.
    pub modules: Vec<String>,
    /// Files from elsewhere. Sorted by path.
    pub files: Vec<ExtraFile>,
}

/// A file from elsewhere, to be put into the image.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ExtraFile {
    /// Where it goes: absolute, without `.` and `..`.
    pub path: String,
    /// Where it comes from.
    pub source: FileSource,
    /// What its content must hash to.
    pub sha256: Sha256Hash,
    /// Permission bits, 0644 unless stated.
    pub mode: u32,
}

/// Where a file of an image comes from.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum FileSource {
    /// From there: `http:` or `https:`.
    Url(String),
    /// From a file of the host. No link is followed on the way to it.
    Host {
        /// The folder that it came with: that of a scenario, or the root.
        folder: PathBuf,
        /// Its name below that.
        name: PathBuf,
    },
    /// It is this text.
    Text(String),
    /// It is in an image that was built already; where it came from is not kept.
    InImage,
}

impl ImageSpec {
    /// A specification of the program's own.
    pub fn built_in(name: &str) -> Result<Self> {
        let found = BUILT_IN.iter().find(|spec| spec.name == name).ok_or_else(|| {
            ImageError::UnknownSpec { name: name.to_owned(), known: BUILT_IN_NAMES.join(", ") }
        })?;
        Self::parse(&format!("built-in image {name}"), found.text)
    }

    /// Reads an `image.toml`.
    pub fn read(path: &Path) -> Result<Self> {
        let text = read_text(path, SPEC_BYTES_MAX).map_err(ImageError::io("read", path))?;
        Self::parse(&path.display().to_string(), &text)
    }

    /// Reads the specification that is kept with an image: where the host's files came from is not in it.
    pub(crate) fn read_kept(path: &Path) -> Result<Self> {
        let text = read_text(path, KEPT_BYTES_MAX).map_err(ImageError::io("read", path))?;
        Self::parse_kept(&path.display().to_string(), &text)
    }

    /// Understands the text of one that is kept with an image.
    pub(crate) fn parse_kept(file: &str, text: &str) -> Result<Self> {
        Self::parse_as(file, text, Sources::MayBeMissing)
    }

    /// Understands the text of an `image.toml`; `file` names it in the error.
    pub fn parse(file: &str, text: &str) -> Result<Self> {
        Self::parse_as(file, text, Sources::Needed)
    }

    fn parse_as(file: &str, text: &str, sources: Sources) -> Result<Self> {
        let bad = |problems| ImageError::BadSpec { file: file.to_owned(), problems };
        let table =
            text.parse::<Table>().map_err(|error| bad(vec![error.to_string().trim_end().to_owned()]))?;
        let mut reader = Reader { problems: Vec::new(), sources };
        let spec = reader.spec(table);
        if reader.problems.is_empty() { Ok(spec) } else { Err(bad(reader.problems)) }
    }

    /// What the cache finds an image by: the hash of all that decides its content.
    pub fn key(&self) -> Sha256Hash {
        Sha256Hash::of(format!("recipe {RECIPE}\n{}", self.content()).as_bytes())
    }

    /// The specification as an `image.toml`, always written the same way.
    pub fn to_toml(&self) -> String {
        format!("name = {}\n{}", quoted(&self.name), self.content())
    }

    /// The same with these packages and files added.
    ///
    /// # Errors
    /// With all that is no package's name, and a path that two files have.
    pub fn with(mut self, name: &str, packages: &[String], files: Vec<ExtraFile>) -> Result<Self> {
        let odd = packages.iter().filter(|package| !is_package(package));
        let mut problems: Vec<String> =
            odd.map(|package| format!("`packages`: {package:?} is not the name of a package")).collect();
        name.clone_into(&mut self.name);
        self.packages.extend_from_slice(packages);
        self.packages.sort();
        self.packages.dedup();
        self.files.extend(files);
        self.files.sort();
        let twice = self.files.windows(2).filter(|pair| pair[0].path == pair[1].path);
        problems.extend(twice.map(|pair| format!("`files`: {} is there twice", pair[0].path)));
        if problems.is_empty() {
            return Ok(self);
        }
        Err(ImageError::BadSpec { file: "the scenario's `[image]`".to_owned(), problems })
    }

    /// The same without the host's files and texts, where it has any: an image of it can be built once for many of them.
    pub fn without_own_files(&self) -> Option<Self> {
        let (fetched, own): (Vec<ExtraFile>, Vec<ExtraFile>) =
            self.files.iter().cloned().partition(|file| matches!(file.source, FileSource::Url(_)));
        if own.is_empty() {
            return None;
        }
        let built_in = BUILT_IN_NAMES.iter().filter_map(|name| Self::built_in(name).ok());
        let base = Self { files: fetched, name: format!("{}-packages", self.name), ..self.clone() };
        // One that is there already has its own name.
        Some(built_in.into_iter().find(|spec| spec.key() == base.key()).unwrap_or(base))
    }

    fn content(&self) -> String {
        let packages: Vec<String> = self.packages.iter().map(|package| quoted(package)).collect();
        let mut text = format!(
            "suite = {}\nkernel = {}\npackages = [{}]\n",
            quoted(&self.suite),
            quoted(&self.kernel),
            packages.join(", ")
        );
        if !self.modules.is_empty() {
            let modules: Vec<String> = self.modules.iter().map(|module| quoted(module)).collect();
            writeln!(text, "modules = [{}]", modules.join(", ")).expect("writing to a string cannot fail");
        }
        for ExtraFile { path, source, sha256, mode } in &self.files {
            let path = quoted(path);
            // A file of the host is known by its content: wherever it lies, it makes the same image.
            let url = match source {
                FileSource::Url(url) => format!("url = {}\n", quoted(url)),
                FileSource::Host { .. } | FileSource::Text(_) | FileSource::InImage => String::new(),
            };
            write!(text, "\n[[files]]\npath = {path}\n{url}sha256 = \"{sha256}\"\nmode = \"{mode:04o}\"\n")
                .expect("writing to a string cannot fail");
        }
        text
    }
}

fn quoted(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}

/// Takes a table apart and collects what is wrong with it.
struct Reader {
    problems: Vec<String>,
    sources: Sources,
}

/// Whether each file must say where it comes from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sources {
    Needed,
    MayBeMissing,
}

impl Reader {
    fn spec(&mut self, mut table: Table) -> ImageSpec {
        let name = self.text(&mut table, "", "name", is_plain_name, "letters, digits and `-`");
        let suite = self.text(&mut table, "", "suite", is_plain_name, "the name of a release of Debian");
        let kernel = self.text(&mut table, "", "kernel", is_package, "the name of a package");
        let packages = self.packages(&mut table);
        let modules = self.modules(&mut table);
        let files = self.files(&mut table);
        self.nothing_left("", &table);
        ImageSpec { name, suite, kernel, packages, modules, files }
    }

    fn packages(&mut self, table: &mut Table) -> Vec<String> {
        match table.remove("packages") {
            Some(Value::Array(values)) => self.names("packages", "package", values, is_package),
            _ => {
                let problem = "`packages` must be a list of names of packages (it may be empty)";
                self.problems.push(problem.to_owned());
                Vec::new()
            }
        }
    }

    fn modules(&mut self, table: &mut Table) -> Vec<String> {
        match table.remove("modules") {
            None => Vec::new(),
            Some(Value::Array(values)) => self.names("modules", "kernel module", values, is_module),
            Some(_) => {
                self.problems.push("`modules` must be a list of names of kernel modules".to_owned());
                Vec::new()
            }
        }
    }

    /// A list of names, sorted, each once.
    fn names(&mut self, key: &str, what: &str, values: Vec<Value>, fits: fn(&str) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        for value in values {
            match value {
                Value::String(name) if fits(&name) => names.push(name),
                other => self.problems.push(format!("`{key}`: {other} is not the name of a {what}")),
            }
        }
        names.sort();
        names.dedup();
        names
    }

    fn files(&mut self, table: &mut Table) -> Vec<ExtraFile> {
        let values = match table.remove("files") {
            None => return Vec::new(),
            Some(Value::Array(values)) => values,
            Some(_) => {
                self.problems.push("`files` must be written as [[files]]".to_owned());
                return Vec::new();
            }
        };
        let mut files: Vec<ExtraFile> = Vec::new();
        for (index, value) in values.into_iter().enumerate() {
            let place = format!("files {}: ", index + 1);
            let Value::Table(mut table) = value else {
                self.problems.push(format!("{place}it must be written as [[files]]"));
                continue;
            };
            let file = self.extra_file(&place, &mut table);
            if files.iter().any(|known| known.path == file.path && !file.path.is_empty()) {
                self.problems.push(format!("{place}`path` {} is there twice", file.path));
            }
            files.push(file);
        }
        files.sort();
        files
    }

    fn extra_file(&mut self, place: &str, table: &mut Table) -> ExtraFile {
        let path = self.text(table, place, "path", is_path, "an absolute path without `.` and `..`");
        let source = if self.sources == Sources::MayBeMissing && !table.contains_key("url") {
            FileSource::InImage
        } else {
            FileSource::Url(self.text(
                table,
                place,
                "url",
                is_url,
                "a URL that starts with http:// or https://",
            ))
        };
        let is_hash = |text: &str| text.parse::<Sha256Hash>().is_ok();
        let sha256 = self.text(table, place, "sha256", is_hash, "64 hexadecimal digits");
        let mode = if table.contains_key("mode") {
            self.text(table, place, "mode", is_mode, "permission bits of 0777 at most, such as \"0755\"")
        } else {
            "0644".to_owned()
        };
        self.nothing_left(place, table);
        ExtraFile {
            path,
            source,
            // Where these do not parse, the problem is noted already and the value never used.
            sha256: sha256.parse().unwrap_or_else(|_| Sha256Hash::of(b"")),
            mode: u32::from_str_radix(&mode, 8).unwrap_or(0),
        }
    }

    fn text(
        &mut self,
        table: &mut Table,
        place: &str,
        key: &str,
        fits: impl Fn(&str) -> bool,
        wanted: &str,
    ) -> String {
        match table.remove(key) {
            Some(Value::String(text)) if fits(&text) => return text,
            Some(value) => self.problems.push(format!("{place}`{key}` must be {wanted}, and is {value}")),
            None => self.problems.push(format!("{place}`{key}` is missing: {wanted}")),
        }
        String::new()
    }

    fn nothing_left(&mut self, place: &str, table: &Table) {
        self.problems.extend(table.keys().map(|key| format!("{place}unknown key `{key}`")));
    }
}

fn is_plain_name(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_alphanumeric())
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Debian policy 5.6.1 and 5.6.12. Stricter than mmdebstrap, for which some forms are paths or patterns.
fn is_package(text: &str) -> bool {
    let (name, version) = text.split_once('=').unwrap_or((text, "0"));
    let lower = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() >= 2
        && name.bytes().next().is_some_and(lower)
        && name.bytes().all(|byte| lower(byte) || b"+-.".contains(&byte))
        && !version.is_empty()
        && version.bytes().all(|byte| byte.is_ascii_alphanumeric() || b".+-:~".contains(&byte))
}

/// As the kernel shows it: with underscores.
fn is_module(text: &str) -> bool {
    let known = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    !text.is_empty() && text.bytes().all(known)
}

fn is_path(text: &str) -> bool {
    let whole = text.strip_prefix('/').is_some_and(|rest| !rest.is_empty());
    whole && text[1..].split('/').all(|part| !["", ".", ".."].contains(&part)) && !text.contains('\0')
}

fn is_url(text: &str) -> bool {
    let known = text.starts_with("http://") || text.starts_with("https://");
    known && text.bytes().all(|byte| byte.is_ascii_graphic())
}

/// No set-user-ID bit: a build has the file on the host's disk, where it would give a user of the host the rights of root.
fn is_mode(text: &str) -> bool {
    text.len() <= 4 && u32::from_str_radix(text, 8).is_ok_and(|mode| mode <= 0o777)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problems(text: &str) -> Vec<String> {
        match ImageSpec::parse("image.toml", text) {
            Err(ImageError::BadSpec { problems, .. }) => problems,
            other => panic!("expected problems, got {other:?}"),
        }
    }

    #[test]
    fn each_built_in_image_is_valid_and_carries_its_name() {
        for name in BUILT_IN_NAMES {
            assert_eq!(ImageSpec::built_in(name).unwrap().name, name);
        }
        let error = ImageSpec::built_in("frist-look").unwrap_err();
        assert_eq!(
            error.to_string(),
            "no image specification `frist-look` is built in; there are: first-look, database, brokers, consolidation"
        );
    }

    #[test]
    fn a_file_of_an_image_has_no_set_user_id_bit() {
        let of =
            |mode: &str| format!("{}mode = \"{mode}\"\n", sample().to_toml().rsplit_once("mode").unwrap().0);
        assert_eq!(ImageSpec::parse("image.toml", &of("0777")).unwrap().files[0].mode, 0o777);
        for mode in ["4755", "2755", "1777", "1000", "7777"] {
            let found = problems(&of(mode));
            assert!(found.len() == 1 && found[0].contains("of 0777 at most"), "{mode}: {found:?}");
        }
    }

    #[test]
    fn all_problems_are_reported_at_once() {
        let text = r#"
            name = "my image"
            suite = 12
            package = ["nginx"]
            packages = ["nginx-light", "./local.deb", 3]
            modules = ["kvm_amd", "kvm-intel"]
            [[files]]
            path = "etc/../shadow"
            url = "ftp://host/file"
            sha256 = "abc"
            mode = "rwx"
            owner = "me"
        "#;
        assert_eq!(
            problems(text),
            [
                "`name` must be letters, digits and `-`, and is \"my image\"",
                "`suite` must be the name of a release of Debian, and is 12",
                "`kernel` is missing: the name of a package",
                "`packages`: \"./local.deb\" is not the name of a package",
                "`packages`: 3 is not the name of a package",
                "`modules`: \"kvm-intel\" is not the name of a kernel module",
                "files 1: `path` must be an absolute path without `.` and `..`, and is \"etc/../shadow\"",
                "files 1: `url` must be a URL that starts with http:// or https://, and is \"ftp://host/file\"",
                "files 1: `sha256` must be 64 hexadecimal digits, and is \"abc\"",
                "files 1: `mode` must be permission bits of 0777 at most, such as \"0755\", and is \"rwx\"",
                "files 1: unknown key `owner`",
                "unknown key `package`",
            ]
        );
        assert!(problems("suite = ")[0].contains("line 1"));
    }

    fn sample() -> ImageSpec {
        let mut spec = ImageSpec::built_in("first-look").unwrap();
        spec.modules.push("kvm_amd".into());
        spec.files.push(ExtraFile {
            path: "/opt/a".into(),
            source: FileSource::Url("https://host/a".into()),
            sha256: Sha256Hash::of(b"a"),
            mode: 0o755,
        });
        spec
    }

    #[test]
    fn what_is_written_is_read_back_the_same() {
        assert_eq!(ImageSpec::parse("image.toml", &sample().to_toml()).unwrap(), sample());
    }

    #[test]
    fn the_key_follows_the_content_and_not_the_name_order_or_comments() {
        let base =
            "name = 'a'\nsuite = 'bookworm'\nkernel = 'linux-image-amd64'\npackages = ['fio', 'nginx']";
        let same = "# x\nsuite = 'bookworm'\nname = 'b'\nkernel = 'linux-image-amd64'\npackages = ['nginx', 'fio', 'fio']";
        let key = |text: &str| ImageSpec::parse("image.toml", text).unwrap().key();
        assert_eq!(key(base), key(same));
        for change in [
            ("bookworm", "trixie"),
            ("'fio'", "'fio=3.33-3'"),
            ("linux-image-amd64", "linux-image-x"),
            ("]", "]\nmodules = ['kvm']"),
        ] {
            assert_ne!(key(base), key(&base.replace(change.0, change.1)), "{change:?}");
        }
        let mut other_mode = sample();
        other_mode.files[0].mode = 0o644;
        assert_ne!(sample().key(), other_mode.key());
    }
}
