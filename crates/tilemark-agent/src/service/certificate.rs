//! The certificate of a service that speaks TLS: made when it starts, signed by its own key.

use crate::error::{AgentError, step};
use std::{
    fs::{self, OpenOptions},
    io::Write,
    os::unix::fs::{OpenOptionsExt, chown},
    path::{Path, PathBuf},
};
use tilemark_workloads::sessions;

/// PEM texts.
pub(super) struct Certificate {
    pub(super) certificate: String,
    pub(super) key: String,
}

impl Certificate {
    pub(super) fn make() -> Result<Self, AgentError> {
        let text = |bytes| {
            String::from_utf8(bytes).map_err(|_| AgentError::Service("a certificate is not text".to_owned()))
        };
        let [certificate, key] = sessions::certificate().map(|file| text(file.contents));
        Ok(Self { certificate: certificate?, key: key? })
    }

    /// Writes both into a folder, for a server that reads files: this user and group own them, and nobody else reads the key.
    pub(super) fn write(&self, folder: &Path, owner: Option<(u32, u32)>) -> Result<Files, AgentError> {
        let files = Files { certificate: folder.join("server.crt"), key: folder.join("server.key") };
        for (path, text) in [(&files.certificate, &self.certificate), (&files.key, &self.key)] {
            let failed = || step(format!("write {}", path.display()));
            // A file that is there keeps its mode: begin again.
            let _ = fs::remove_file(path);
            let mut file =
                OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map_err(failed())?;
            file.write_all(text.as_bytes()).map_err(failed())?;
            if let Some((user, group)) = owner {
                chown(path, Some(user), Some(group)).map_err(failed())?;
            }
        }
        Ok(files)
    }
}

/// Where they are.
pub(super) struct Files {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn only_its_owner_reads_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let made = Certificate::make().unwrap();
        // A file of an earlier start, which everybody could read.
        fs::write(folder.path().join("server.key"), "old").unwrap();
        let files = made.write(folder.path(), None).unwrap();
        assert_eq!(fs::metadata(&files.key).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(fs::read_to_string(&files.key).unwrap().contains("PRIVATE KEY"));
        assert!(fs::read_to_string(&files.certificate).unwrap().contains("BEGIN CERTIFICATE"));
    }
}
