//! Makes an installed tree into the root of guests: what is the host's, what differs from build to build and what no
//! guest reads goes; extra files and the modules for services come in.
//!
//! Everything here runs as root on a tree whose symbolic links may point anywhere, so no path is followed through
//! one that leaves the tree.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::modules::{KernelModule, modules_dep};
use crate::{ImageError, Result};

/// Removed with all that is below.
const REMOVED: [&str; 29] = [
    // The host's identity and how it reaches the network (mmdebstrap copies the first two).
    "etc/hostname",
    "etc/resolv.conf",
    "etc/machine-id",
    "var/lib/dbus/machine-id",
    "etc/apt",
    "etc/dpkg/dpkg.cfg.d/99mmdebstrap",
    // Differs from build to build.
    "etc/.pwd.lock",
    "etc/passwd-",
    "etc/group-",
    "etc/shadow-",
    "etc/gshadow-",
    "etc/subuid-",
    "etc/subgid-",
    "var/lib/dpkg/available",
    "var/lib/dpkg/available-old",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/diversions-old",
    "var/lib/dpkg/statoverride-old",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/triggers/Lock",
    "var/lib/systemd/deb-systemd-helper-enabled",
    // No guest reads them.
    "var/lib/apt",
    "usr/share/doc",
    "usr/share/man",
    "usr/share/info",
    "usr/share/lintian",
    "usr/share/bug",
    "usr/share/doc-base",
];
/// Emptied, but there: programs expect the folder.
const EMPTIED: [&str; 9] = [
    "var/cache",
    "var/backups",
    "var/tmp",
    "tmp",
    "run",
    "dev",
    "boot",
    "usr/share/locale",
    "var/lib/dpkg/updates",
];
/// Where the host keys of a shell server would be: two guests must not share them.
const SSH_FOLDER: &str = "etc/ssh";
const LOG_FOLDER: &str = "var/log";
const PYTHON_FOLDER: &str = "usr/lib";
const HOSTS: &str = "127.0.0.1 localhost\n::1 localhost ip6-localhost\n";

/// The installed tree of a guest.
pub(crate) struct Tree {
    root: PathBuf,
}

impl Tree {
    pub(crate) fn new(root: PathBuf) -> Result<Self> {
        let root = root.canonicalize().map_err(ImageError::io("read", &root))?;
        Ok(Self { root })
    }

    /// Takes out what guests shall not have.
    pub(crate) fn clean(&self) -> Result<()> {
        for path in REMOVED {
            self.remove(Path::new(path))?;
        }
        for folder in EMPTIED {
            for name in self.names_in(Path::new(folder))? {
                self.remove(&Path::new(folder).join(name))?;
            }
        }
        for name in self.names_in(Path::new(SSH_FOLDER))? {
            if name.starts_with("ssh_host_") {
                self.remove(&Path::new(SSH_FOLDER).join(name))?;
            }
        }
        self.remove_below(Path::new(LOG_FOLDER), &|kind, _| kind == Kind::Other)?;
        // Compiled Python carries the time of its source, which erofs sets again.
        self.remove_below(Path::new(PYTHON_FOLDER), &|kind, name| {
            kind == Kind::Folder && name == "__pycache__"
        })?;
        self.add_file(Path::new("etc/hosts"), HOSTS.as_bytes(), 0o644)
    }

    /// Adds modules that services may load, and their `modules.dep`.
    pub(crate) fn add_modules(&self, kernel: &str, modules: &[KernelModule]) -> Result<()> {
        let folder = Path::new("usr/lib/modules").join(kernel);
        for module in modules {
            self.add_file(&folder.join(format!("{}.ko", module.name)), &module.content, 0o644)?;
        }
        self.add_file(&folder.join("modules.dep"), modules_dep(modules).as_bytes(), 0o644)
    }

    /// Adds a file, and the folders above it. `path` is relative to the tree.
    pub(crate) fn add_file(&self, path: &Path, content: &[u8], mode: u32) -> Result<()> {
        let add = || {
            let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?;
            let folder = self.make_folders(path.parent().unwrap_or(Path::new("")))?;
            let target = folder.join(name);
            // A link of this name is replaced, not followed.
            match fs::remove_file(&target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            fs::write(&target, content)?;
            fs::set_permissions(&target, fs::Permissions::from_mode(mode))
        };
        add().map_err(ImageError::io("write", &self.root.join(path)))
    }

    /// Where the tree is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// The folder of this name with all above it, seen to be in the tree.
    fn make_folders(&self, folder: &Path) -> io::Result<PathBuf> {
        let mut at = self.root.clone();
        for part in folder {
            at.push(part);
            match fs::create_dir(&at) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => at = self.inside(&at)?,
            }
        }
        Ok(at)
    }

    /// The real path of something that exists, if that is in the tree.
    fn inside(&self, path: &Path) -> io::Result<PathBuf> {
        let real = path.canonicalize()?;
        if real.starts_with(&self.root) {
            Ok(real)
        } else {
            Err(io::Error::other("a link leads out of the image"))
        }
    }

    fn remove(&self, path: &Path) -> Result<()> {
        let whole = self.root.join(path);
        let remove = || {
            let folder = whole.parent().expect("it is below the tree");
            if !folder.try_exists()? {
                return Ok(());
            }
            let target = self.inside(folder)?.join(whole.file_name().expect("it has a name"));
            match fs::symlink_metadata(&target) {
                Ok(found) if found.is_dir() => fs::remove_dir_all(&target),
                Ok(_) => fs::remove_file(&target),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
            }
        };
        remove().map_err(ImageError::io("remove", &whole))
    }

    fn names_in(&self, folder: &Path) -> Result<Vec<String>> {
        let whole = self.root.join(folder);
        let names = || {
            if !whole.try_exists()? {
                return Ok(Vec::new());
            }
            let entries = fs::read_dir(self.inside(&whole)?)?;
            entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
        };
        names().map_err(ImageError::io("read", &whole))
    }

    /// Removes whatever fits, at any depth, without following links.
    fn remove_below(&self, folder: &Path, fits: &dyn Fn(Kind, &str) -> bool) -> Result<()> {
        for name in self.names_in(folder)? {
            let path = folder.join(&name);
            let whole = self.root.join(&path);
            let found = fs::symlink_metadata(&whole).map_err(ImageError::io("read", &whole))?;
            let kind = if found.is_dir() { Kind::Folder } else { Kind::Other };
            if fits(kind, &name) {
                self.remove(&path)?;
            } else if kind == Kind::Folder {
                self.remove_below(&path, fits)?;
            }
        }
        Ok(())
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Folder,
    Other,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    struct Fixture {
        _folder: tempfile::TempDir,
        outside: PathBuf,
        tree: Tree,
    }

    fn fixture() -> Fixture {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        let outside = folder.path().join("outside");
        fs::create_dir_all(&outside).unwrap();
        fs::write(outside.join("precious"), "host").unwrap();
        for path in [
            "etc/hostname",
            "etc/apt/apt.conf.d/99mmdebstrap",
            "etc/ssh/ssh_host_rsa_key",
            "etc/ssh/sshd_config",
            "etc/nginx/nginx.conf",
            "var/log/nginx/access.log",
            "var/cache/apt/pkgcache.bin",
            "usr/lib/python3/__pycache__/a.pyc",
            "usr/lib/python3/a.py",
            "usr/share/doc/fio/copyright",
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "x").unwrap();
        }
        Fixture { tree: Tree::new(root).unwrap(), outside, _folder: folder }
    }

    impl Fixture {
        fn has(&self, path: &str) -> bool {
            self.tree.root().join(path).symlink_metadata().is_ok()
        }
    }

    #[test]
    fn the_hosts_identity_logs_caches_and_documents_are_removed_and_the_rest_stays() {
        let fixture = fixture();
        fixture.tree.clean().unwrap();
        let gone = [
            "etc/hostname",
            "etc/apt",
            "etc/ssh/ssh_host_rsa_key",
            "var/log/nginx/access.log",
            "var/cache/apt",
        ];
        let gone_too = ["usr/lib/python3/__pycache__", "usr/share/doc"];
        assert_eq!(gone.into_iter().chain(gone_too).find(|path| fixture.has(path)), None);
        let kept = [
            "etc/ssh/sshd_config",
            "etc/nginx/nginx.conf",
            "var/log/nginx",
            "var/cache",
            "usr/lib/python3/a.py",
        ];
        assert_eq!(kept.into_iter().find(|path| !fixture.has(path)), None);
        assert_eq!(fs::read_to_string(fixture.tree.root().join("etc/hosts")).unwrap(), HOSTS);
    }

    #[test]
    fn links_that_lead_out_are_removed_or_refused_and_never_followed() {
        let fixture = fixture();
        let root = fixture.tree.root();
        fs::remove_dir_all(root.join("usr/share/doc")).unwrap();
        symlink(&fixture.outside, root.join("usr/share/doc")).unwrap();
        symlink(fixture.outside.join("precious"), root.join("etc/resolv.conf")).unwrap();
        symlink(&fixture.outside, root.join("opt")).unwrap();
        fixture.tree.clean().unwrap();
        assert!(!fixture.has("usr/share/doc") && !fixture.has("etc/resolv.conf"));
        assert!(fixture.tree.add_file(Path::new("opt/precious"), b"guest", 0o644).is_err());
        symlink(&fixture.outside, root.join("var/backups")).unwrap();
        assert!(fixture.tree.clean().is_err());
        assert_eq!(fs::read_to_string(fixture.outside.join("precious")).unwrap(), "host");
    }

    #[test]
    fn a_file_is_added_with_its_mode_and_folders_in_place_of_a_link() {
        let fixture = fixture();
        symlink(fixture.outside.join("precious"), fixture.tree.root().join("etc/tool")).unwrap();
        fixture.tree.add_file(Path::new("etc/tool"), b"guest", 0o755).unwrap();
        fixture.tree.add_file(Path::new("a/b/c"), b"deep", 0o600).unwrap();
        let mode = |path| fixture.tree.root().join(path).metadata().unwrap().permissions().mode() & 0o7777;
        assert_eq!((mode("etc/tool"), mode("a/b/c")), (0o755, 0o600));
        assert_eq!(fs::read_to_string(fixture.outside.join("precious")).unwrap(), "host");
    }
}
