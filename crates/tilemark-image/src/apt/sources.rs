//! The host's apt sources, in both forms that apt reads, and the choice among them for a suite.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use crate::{ImageError, Result};

/// Whose signatures are taken for a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Keys {
    /// Those that apt trusts for every source.
    Trusted,
    /// Key files or fingerprints, as apt writes them.
    Named(String),
    /// A key written into the sources file itself.
    Inline(String),
}

/// One archive with the suites and components taken from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AptSource {
    /// Where it is.
    pub uri: String,
    /// Its suites, such as `bookworm-updates`.
    pub suites: Vec<String>,
    /// Its components, such as `main`.
    pub components: Vec<String>,
    /// Whose signatures are taken for it.
    pub keys: Keys,
    /// `trusted=yes` and date checks, as apt writes them in the one-line form.
    pub options: Vec<String>,
}

/// Options that decide whether an archive is accepted; those on languages, targets and the like are left out.
const KEPT_OPTIONS: [&str; 3] = ["trusted", "check-valid-until", "check-date"];

/// All sources of binary packages for this machine under `/etc/apt` (or the folder given).
pub(crate) fn host_sources(etc_apt: &Path) -> Result<Vec<AptSource>> {
    let mut sources = Vec::new();
    let main = etc_apt.join("sources.list");
    sources.extend(one_line_sources(&read_if_there(&main)?));
    let parts = etc_apt.join("sources.list.d");
    let mut files: Vec<PathBuf> = match fs::read_dir(&parts) {
        Ok(entries) => entries.filter_map(|entry| Some(entry.ok()?.path())).collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(ImageError::io("read", &parts)(error)),
    };
    files.sort();
    for file in files {
        match file.extension().and_then(|ending| ending.to_str()) {
            Some("list") => sources.extend(one_line_sources(&read_if_there(&file)?)),
            Some("sources") => sources.extend(deb822_sources(&read_if_there(&file)?)),
            _ => {}
        }
    }
    Ok(sources)
}

/// Those of the host's sources that carry `suite`; if none does, the host's Debian archives turned to it: a mirror of
/// Debian carries all suites. Empty if there is neither.
pub(crate) fn sources_for_suite(sources: &[AptSource], suite: &str) -> Vec<AptSource> {
    let of_distribution = |source: &&AptSource| source.components.iter().any(|component| component == "main");
    let own: Vec<AptSource> = sources
        .iter()
        .filter(of_distribution)
        .filter_map(|source| {
            let keep = |named: &&String| base_and_pocket(named).base == suite && is_stable_pocket(named);
            let suites: Vec<String> = source.suites.iter().filter(keep).cloned().collect();
            (!suites.is_empty()).then(|| AptSource { suites, ..source.clone() })
        })
        .collect();
    if own.iter().any(|source| source.suites.iter().any(|named| named == suite)) {
        return own;
    }
    let mut turned: Vec<AptSource> = Vec::new();
    for source in sources.iter().filter(of_distribution) {
        let archive = source.uri.trim_end_matches('/').rsplit('/').next();
        let suites = match archive {
            Some("debian") => vec![suite.to_owned(), format!("{suite}-updates")],
            Some("debian-security") => vec![format!("{suite}-security")],
            _ => continue,
        };
        if turned.iter().all(|known| known.uri != source.uri) {
            turned.push(AptSource { suites, ..source.clone() });
        }
    }
    if turned.iter().any(|source| source.suites.iter().any(|named| named == suite)) {
        turned
    } else {
        Vec::new()
    }
}

impl AptSource {
    /// The source in apt's one-line form; `key_file` holds an inline key.
    pub fn to_line(&self, key_file: &Path) -> Vec<String> {
        let mut options = vec!["arch=amd64".to_owned()];
        match &self.keys {
            Keys::Trusted => {}
            Keys::Named(names) => options.push(format!("signed-by={names}")),
            Keys::Inline(_) => options.push(format!("signed-by={}", key_file.display())),
        }
        options.extend(self.options.iter().cloned());
        let options = options.join(" ");
        let components = self.components.join(" ");
        self.suites.iter().map(|suite| format!("deb [{options}] {} {suite} {components}", self.uri)).collect()
    }
}

struct SuiteParts<'s> {
    base: &'s str,
    pocket: &'s str,
}

fn base_and_pocket(suite: &str) -> SuiteParts<'_> {
    let (base, pocket) = suite.split_once(['-', '/']).unwrap_or((suite, ""));
    SuiteParts { base, pocket }
}

/// Backports and proposed updates are on some hosts and not on others; an image must not depend on that.
fn is_stable_pocket(suite: &str) -> bool {
    matches!(base_and_pocket(suite).pocket, "" | "updates" | "security")
}

fn read_if_there(file: &Path) -> Result<String> {
    match fs::read(file) {
        Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(ImageError::io("read", file)(error)),
    }
}

/// `deb [option=value …] URI SUITE COMPONENT…`. Lines that apt would refuse are left out: apt itself reports them.
pub fn one_line_sources(text: &str) -> Vec<AptSource> {
    text.lines().filter_map(|line| one_line_source(line.split('#').next()?.trim())).collect()
}

fn one_line_source(line: &str) -> Option<AptSource> {
    let rest = line.strip_prefix("deb")?;
    let rest = rest.strip_prefix(char::is_whitespace)?.trim_start();
    let (options, rest) = match rest.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?,
        None => ("", rest),
    };
    let mut words = rest.split_whitespace();
    let uri = words.next()?.to_owned();
    let suites = vec![words.next()?.to_owned()];
    let components = words.map(str::to_owned).collect();
    let mut source = AptSource { uri, suites, components, keys: Keys::Trusted, options: Vec::new() };
    for (name, value) in options.split_whitespace().filter_map(|option| option.split_once('=')) {
        match name.trim_end_matches(['+', '-']) {
            "arch" if !value.split(',').any(|architecture| architecture == "amd64") => return None,
            "signed-by" => source.keys = Keys::Named(value.to_owned()),
            name if KEPT_OPTIONS.contains(&name) => source.options.push(format!("{name}={value}")),
            _ => {}
        }
    }
    supported(source)
}

/// Paragraphs of `Field: value`, continued on indented lines.
pub fn deb822_sources(text: &str) -> Vec<AptSource> {
    let text: String = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .fold(String::new(), |text, line| text + line + "\n");
    text.split("\n\n").flat_map(paragraph_sources).collect()
}

fn paragraph_sources(paragraph: &str) -> Vec<AptSource> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in paragraph.lines() {
        if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push('\n');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let field = |name: &str| fields.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str());
    let words = |name| -> Vec<String> {
        field(name).unwrap_or_default().split_whitespace().map(str::to_owned).collect()
    };
    let off = field("enabled")
        .is_some_and(|value| ["no", "false", "0", "off"].contains(&value.to_ascii_lowercase().as_str()));
    let other_machine =
        !words("architectures").is_empty() && !words("architectures").contains(&"amd64".to_owned());
    if off || other_machine || !words("types").contains(&"deb".to_owned()) {
        return Vec::new();
    }
    let keys = match field("signed-by") {
        None => Keys::Trusted,
        Some(value) if value.contains("BEGIN PGP") => Keys::Inline(inline_key(value)),
        Some(value) => Keys::Named(value.split_whitespace().collect::<Vec<_>>().join(",").replace(",,", ",")),
    };
    let options =
        KEPT_OPTIONS.iter().filter_map(|name| Some(format!("{name}={}", field(name)?))).collect::<Vec<_>>();
    let source = |uri| AptSource {
        uri,
        suites: words("suites"),
        components: words("components"),
        keys: keys.clone(),
        options: options.clone(),
    };
    words("uris").into_iter().filter_map(|uri| supported(source(uri))).collect()
}

/// In deb822 a line with one dot means an empty one.
fn inline_key(value: &str) -> String {
    let lines = value.trim().lines().map(|line| if line.trim() == "." { "" } else { line.trim() });
    lines.fold(String::new(), |key, line| key + line + "\n")
}

/// Installation media come and go, and a suite that ends in `/` is a flat archive, no distribution.
fn supported(source: AptSource) -> Option<AptSource> {
    let fits = !source.uri.starts_with("cdrom:") && !source.suites.iter().any(|suite| suite.ends_with('/'));
    fits.then_some(source)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE_LINE: &str = "\
# a comment
deb http://deb.debian.org/debian bookworm main contrib # why
deb [arch=amd64,i386 signed-by=/k.gpg trusted=yes lang=de] http://mirror/debian bookworm-updates main
deb [ arch=arm64 ] http://ports/debian bookworm main
deb-src http://deb.debian.org/debian bookworm main
deb cdrom:[Debian]/ bookworm main
deb http://third.party/ ./
";

    #[test]
    fn the_one_line_form_is_read_and_what_cannot_serve_is_left_out() {
        let sources = one_line_sources(ONE_LINE);
        assert_eq!(sources.len(), 2, "{sources:?}");
        assert_eq!(sources[0].components, ["main", "contrib"]);
        assert_eq!(sources[0].keys, Keys::Trusted);
        assert_eq!(sources[1].keys, Keys::Named("/k.gpg".into()));
        assert_eq!(sources[1].options, ["trusted=yes"]);
        assert_eq!(
            sources[1].to_line(Path::new("/inline")),
            ["deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://mirror/debian bookworm-updates main"]
        );
    }

    const DEB822: &str = "\
Types: deb deb-src
# in the middle
URIs: http://a/debian http://b/debian
Suites: bookworm
  bookworm-updates
Components: main
Signed-By: /usr/share/keyrings/one.gpg

Types: deb
URIs: http://off/debian
Suites: bookworm
Components: main
Enabled: no

Types: deb
URIs: http://key/debian
Suites: bookworm
Components: main
Check-Valid-Until: no
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
 abc
 -----END PGP PUBLIC KEY BLOCK-----
";

    #[test]
    fn deb822_is_read_with_continued_lines_several_uris_and_inline_keys() {
        let sources = deb822_sources(DEB822);
        let uris: Vec<&str> = sources.iter().map(|source| source.uri.as_str()).collect();
        assert_eq!(uris, ["http://a/debian", "http://b/debian", "http://key/debian"]);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[0].keys, Keys::Named("/usr/share/keyrings/one.gpg".into()));
        let key = "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\nabc\n-----END PGP PUBLIC KEY BLOCK-----\n";
        assert_eq!(sources[2].keys, Keys::Inline(key.into()));
        assert_eq!(
            sources[2].to_line(Path::new("/tmp/key.asc")),
            ["deb [arch=amd64 signed-by=/tmp/key.asc check-valid-until=no] http://key/debian bookworm main"]
        );
    }

    fn source(uri: &str, suites: &[&str], component: &str) -> AptSource {
        AptSource {
            uri: uri.into(),
            suites: suites.iter().map(|suite| (*suite).to_owned()).collect(),
            components: vec![component.into()],
            keys: Keys::Trusted,
            options: vec![],
        }
    }

    #[test]
    fn the_suite_is_taken_where_the_host_has_it_without_backports_and_third_parties() {
        let host = [
            source(
                "http://m/debian",
                &["bookworm", "bookworm-updates", "bookworm-backports", "trixie"],
                "main",
            ),
            source("http://s/debian-security", &["bookworm-security"], "main"),
            source("http://docker/linux/debian", &["bookworm"], "stable"),
        ];
        let chosen = sources_for_suite(&host, "bookworm");
        assert_eq!(chosen.len(), 2);
        assert_eq!(chosen[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(chosen[1].suites, ["bookworm-security"]);
    }

    #[test]
    fn a_mirror_of_debian_serves_other_suites_and_nothing_else_does() {
        let host = [
            source("http://m/debian/", &["trixie"], "main"),
            source("http://m/debian/", &["trixie-updates"], "main"),
            source("http://s/debian-security", &["trixie-security"], "main"),
            source("https://deb.nodesource.com/node_20.x", &["nodistro"], "main"),
        ];
        let chosen = sources_for_suite(&host, "bookworm");
        let suites: Vec<&[String]> = chosen.iter().map(|source| &source.suites[..]).collect();
        assert_eq!(suites, [&["bookworm", "bookworm-updates"][..], &["bookworm-security"][..]]);
        let ubuntu = [source("http://archive.ubuntu.com/ubuntu", &["noble"], "main")];
        assert!(sources_for_suite(&ubuntu, "bookworm").is_empty());
    }

    #[test]
    fn both_forms_are_found_in_the_folder_and_other_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let parts = folder.path().join("sources.list.d");
        fs::create_dir(&parts).unwrap();
        fs::write(folder.path().join("sources.list"), ONE_LINE).unwrap();
        fs::write(parts.join("debian.sources"), DEB822).unwrap();
        fs::write(parts.join("old.list.save"), ONE_LINE).unwrap();
        assert_eq!(host_sources(folder.path()).unwrap().len(), 5);
        assert_eq!(host_sources(&folder.path().join("none")).unwrap().len(), 0);
    }
}
