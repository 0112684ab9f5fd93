//! Whose certificates a load alone accepts.

use crate::failure::{Failure, FailureCode};
use std::path::{Path, PathBuf};
use tilemark_plan::workload::REQUEST_FILE_BYTES_MAX;
use tilemark_sys::text_file::read_text;

/// Where distributions keep the certificates of the authorities that a host accepts.
const HOST_CA: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// What was asked about certificates.
#[derive(Debug, Clone, Default)]
pub struct Trust {
    /// File with the certificates of authorities; `None`: those of the host.
    pub ca: Option<PathBuf>,
    /// Any certificate is accepted.
    pub insecure: bool,
}

impl Trust {
    /// PEM text of authorities; nothing where any certificate is accepted.
    ///
    /// # Errors
    /// When the file cannot be read, or the host has none.
    pub(super) fn ca(&self) -> Result<Option<String>, Failure> {
        match &self.ca {
            Some(file) => text_of(file, "--ca", REQUEST_FILE_BYTES_MAX).map(Some),
            None if self.insecure => Ok(None),
            None => {
                let remedy =
                    "install ca-certificates, give `--ca FILE`, or accept any certificate with `--insecure`";
                ca_of_host(remedy).map(Some)
            }
        }
    }
}

/// The text of a file that a flag names.
///
/// # Errors
/// When it is no plain file of UTF-8 text, or longer than `most` bytes.
pub(super) fn text_of(file: &Path, flag: &str, most: u64) -> Result<String, Failure> {
    read_text(file, most).map_err(|error| {
        let message = format!("cannot read `{flag} {}`", file.display());
        Failure::caused_by(&error, FailureCode::BadInput, message, "give the path of a file of UTF-8 text")
    })
}

/// The authorities that this host accepts.
///
/// # Errors
/// When it has none; `remedy` says what to do.
pub(super) fn ca_of_host(remedy: &str) -> Result<String, Failure> {
    let found = HOST_CA.iter().find_map(|path| read_text(Path::new(path), REQUEST_FILE_BYTES_MAX).ok());
    found.ok_or_else(|| {
        Failure::new(
            FailureCode::HostUnfit,
            format!("this host has no certificates of authorities: there is no {}", HOST_CA.join(", no ")),
            remedy,
        )
    })
}
