//! `image.lock`: what an image holds, to the byte. Its hash is the image's name.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tilemark_units::Sha256Hash;

/// The form of the file; a reader of another form refuses it.
pub(crate) const FORMAT: u32 = 1;

/// What an image holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImageLock {
    /// The version of this form.
    pub format: u32,
    /// What was asked for: [`crate::ImageSpec::key`].
    pub spec: Sha256Hash,
    /// The version of the guest's kernel, as `uname -r` shows it.
    pub kernel: String,
    /// The image's files.
    pub files: LockedFiles,
    /// Every package of the image and the kernel's, sorted by name.
    pub packages: Vec<LockedPackage>,
}

/// The image's files.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFiles {
    /// The root file system.
    #[serde(rename = "root.erofs")]
    pub root_erofs: LockedFile,
    /// The uncompressed kernel.
    pub vmlinux: LockedFile,
    /// The kernel modules for the boot.
    pub initrd: LockedFile,
}

/// The content of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedFile {
    /// Its hash.
    pub sha256: Sha256Hash,
    /// Its size in bytes.
    pub bytes: u64,
}

/// A package as the archive had it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LockedPackage {
    /// Its name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// `amd64` or `all`.
    pub architecture: String,
    /// The hash of the package file, signed for by the archive.
    pub sha256: Sha256Hash,
}

impl ImageLock {
    /// The text of the file: always the same for the same content.
    pub fn to_toml(&self) -> String {
        let body = toml::to_string(self).expect("a lock has only tables, lists, texts and small numbers");
        format!("# What this image holds; its name is the hash of this file. Written by tilemark.\n{body}")
    }

    /// The name that an image with this lock has.
    pub fn image_name(&self) -> Sha256Hash {
        Sha256Hash::of(self.to_toml().as_bytes())
    }

    /// Reads the text of the file; the error says what is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lock: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        if lock.format != FORMAT {
            return Err(format!("its format is {}, and this version reads {FORMAT}", lock.format));
        }
        // The name is the hash of the text, so there must be one text only.
        if lock.to_toml() != text {
            return Err("it was changed by hand".to_owned());
        }
        Ok(lock)
    }
}

/// Package records as `apt-cache show` prints them, each with its hash; `wanted` is what is installed, `name=version`
/// a line. The error names what has no record.
pub fn locked_packages(wanted: &str, records: &str) -> Result<Vec<LockedPackage>, String> {
    let mut known: BTreeMap<(&str, &str), LockedPackage> = BTreeMap::new();
    for record in records.split("\n\n") {
        let field = |name: &str| record.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        let fields = (field("Package"), field("Version"), field("Architecture"), field("SHA256"));
        let (Some(name), Some(version), Some(architecture), Some(hash)) = fields else { continue };
        let sha256 = hash.trim().parse().map_err(|_| format!("`{name}` has `{hash}` for a SHA-256"))?;
        let package = LockedPackage {
            name: name.to_owned(),
            version: version.to_owned(),
            architecture: architecture.to_owned(),
            sha256,
        };
        known.entry((name, version)).or_insert(package);
    }
    let mut packages = Vec::new();
    for line in wanted.lines() {
        let key = line.split_once('=').ok_or_else(|| format!("`{line}` is not a name and version"))?;
        packages.push(known.get(&key).ok_or_else(|| format!("the archive has no record of {line}"))?.clone());
    }
    packages.sort();
    packages.dedup();
    Ok(packages)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn sample() -> ImageLock {
        let file =
            |content: &[u8]| LockedFile { sha256: Sha256Hash::of(content), bytes: content.len() as u64 };
        ImageLock {
            format: FORMAT,
            spec: Sha256Hash::of(b"spec"),
            kernel: "6.1.0-56-cloud-amd64".into(),
            files: LockedFiles {
                root_erofs: file(b"root"),
                vmlinux: file(b"kernel"),
                initrd: file(b"modules"),
            },
            packages: vec![LockedPackage {
                name: "fio".into(),
                version: "3.33-3".into(),
                architecture: "amd64".into(),
                sha256: Sha256Hash::of(b"fio"),
            }],
        }
    }

    #[test]
    fn a_lock_is_read_back_the_same_and_keeps_its_name() {
        let read = ImageLock::parse(&sample().to_toml()).unwrap();
        assert_eq!(read, sample());
        assert_eq!(read.image_name(), sample().image_name());
    }

    #[test]
    fn any_change_gives_another_name() {
        let mut newer = sample();
        newer.packages[0].version = "3.34-1".into();
        let mut other_kernel = sample();
        other_kernel.files.vmlinux.bytes += 1;
        assert_ne!(newer.image_name(), sample().image_name());
        assert_ne!(other_kernel.image_name(), sample().image_name());
    }

    #[test]
    fn another_format_and_unknown_fields_are_refused() {
        let text = sample().to_toml();
        assert!(
            ImageLock::parse(&text.replace("format = 1", "format = 2")).unwrap_err().contains("format is 2")
        );
        assert!(ImageLock::parse(&text.replace("kernel =", "kernels =")).is_err());
        assert!(ImageLock::parse(&format!("{text}# a comment\n")).unwrap_err().contains("by hand"));
    }

    const RECORDS: &str = "Package: fio\nVersion: 3.33-3\nArchitecture: amd64\nDescription: a\n line\nSHA256: \
        0000000000000000000000000000000000000000000000000000000000000001\n\nPackage: fio\nVersion: 3.34\n\
        Architecture: amd64\nSHA256: 0000000000000000000000000000000000000000000000000000000000000002\n\n\
        Package: adduser\nVersion: 1\nArchitecture: all\nSHA256: \
        0000000000000000000000000000000000000000000000000000000000000003\n";

    #[test]
    fn the_hash_is_that_of_the_installed_version() {
        let packages = locked_packages("fio=3.33-3\nadduser=1\n", RECORDS).unwrap();
        let ends: Vec<String> = packages
            .iter()
            .map(|package| format!("{} {}", package.name, &package.sha256.to_string()[60..]))
            .collect();
        assert_eq!(ends, ["adduser 0003", "fio 0001"]);
    }

    #[test]
    fn a_package_without_a_record_is_named() {
        assert!(locked_packages("fio=9\n", RECORDS).unwrap_err().contains("fio=9"));
    }
}
