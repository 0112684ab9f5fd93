//! The reference broker alone: `tilemark broker`.

use crate::{
    failure::{Failure, FailureCode, place_failed},
    standalone::trust::text_of,
};
use std::{
    net::{Ipv4Addr, SocketAddr},
    path::{Path, PathBuf},
};
use tilemark_broker::{BrokerError, Config, JournalCheck, ServerTls, ServerTlsError, serve};
use tilemark_plan::workload::REQUEST_FILE_BYTES_MAX;
use tilemark_sys::{
    files::{PRIVATE_FOLDER, Place},
    limits::raise_open_files,
};
use tilemark_units::Bytes;

pub use tilemark_broker::Notice;

/// How to run the reference broker.
#[derive(Debug)]
pub struct BrokerSettings {
    /// Where to listen; `None`: on loopback at AMQP's port, or at that for TLS.
    pub listen: Option<SocketAddr>,
    /// Files of a certificate and its key, with which every connection is secured.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Folder of the journal.
    pub journal: Option<PathBuf>,
    /// Start with what is left of a damaged journal.
    pub accept_damage: bool,
    /// Memory above which publishers wait; `None` for the broker's default.
    pub memory_limit: Option<Bytes>,
    /// Called with what an operator must know.
    pub notify: fn(&Notice),
}

/// The ports of AMQP, without TLS and with it.
const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;

/// A broker's certificate and key, from their files.
fn server_tls(certificate: &Path, key: &Path) -> Result<ServerTls, Failure> {
    let cert_text = text_of(certificate, "--tls-cert", REQUEST_FILE_BYTES_MAX)?;
    let key_text = text_of(key, "--tls-key", REQUEST_FILE_BYTES_MAX)?;
    ServerTls::of_pem(&cert_text, &key_text).map_err(|error| {
        let (certificate, key) = (certificate.display(), key.display());
        let (files, remedy) = match &error {
            ServerTlsError::Certificate(_) => (
                format!("`--tls-cert {certificate}`"),
                "give a PEM file that begins with the server's certificate",
            ),
            ServerTlsError::Key(_) => {
                (format!("`--tls-key {key}`"), "give a PEM file with the key, without a passphrase")
            }
            ServerTlsError::Both(_) => (
                format!("`--tls-cert {certificate}` and `--tls-key {key}`"),
                "give the key that the certificate was made with; the certificate must be of version 3",
            ),
        };
        Failure::new(FailureCode::BadInput, format!("cannot use {files}: {error}"), remedy)
    })
}

/// Reads a journal that no broker uses. Fails where it is damaged, and says what is lost.
pub fn check_journal(folder: &Path) -> Result<JournalCheck, Failure> {
    let check = tilemark_broker::check_journal(folder)?;
    if check.damage.is_some() {
        let message = format!("the journal in {} is damaged: {check}", folder.display());
        let remedy = "restore the folder from a copy, or start the broker with --accept-damage: it keeps what can be read";
        return Err(Failure::new(FailureCode::HostUnfit, message, remedy));
    }
    Ok(check)
}

/// Runs the reference broker until it fails or Ctrl-C or SIGTERM ends it: then its peers are warned, and what it has taken is
/// stored. `listening` is called with its address once.
pub fn run(settings: BrokerSettings, listening: impl FnOnce(SocketAddr)) -> Result<(), Failure> {
    let BrokerSettings { listen, tls, journal, accept_damage, memory_limit, notify } = settings;
    let tls = tls.map(|(certificate, key)| server_tls(&certificate, &key)).transpose()?;
    let usual = if tls.is_some() { TLS_PORT } else { PORT };
    let listen = listen.unwrap_or((Ipv4Addr::LOCALHOST, usual).into());
    raise_open_files();
    if let Some(folder) = &journal {
        let bad = |error| {
            let message = format!("cannot make the journal's folder {}", folder.display());
            let remedy = "name a folder that can be written";
            Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy)
        };
        let place = Place::of_folder(folder, PRIVATE_FOLDER).and_then(|_| Place::of_own_folder(folder));
        place.map_err(|error| place_failed(error, bad))?;
    }
    let mut config = Config { tls, journal, accept_damage, notify, ..Config::new(listen) };
    if let Some(limit) = memory_limit {
        config.memory_limit_bytes = limit.get();
    }
    let broker = serve(config)?;
    // It fails only where the signals have a handler already, which they have in no command that gets here.
    let _ = ctrlc::set_handler(broker.ender());
    listening(broker.address());
    broker.wait()?;
    Ok(())
}

impl From<BrokerError> for Failure {
    fn from(error: BrokerError) -> Self {
        let code = match &error {
            BrokerError::NoJournal { .. } => FailureCode::BadInput,
            _ => FailureCode::HostUnfit,
        };
        Self::from_error(code, &error, error.remedy())
    }
}
