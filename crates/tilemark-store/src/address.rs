//! Where a database is and who asks.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::{ParseError, Url};

use crate::error::StoreError;
use crate::secret::Secret;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DatabaseKind {
    /// MariaDB with InnoDB tables.
    Mariadb,
    /// PostgreSQL.
    Postgresql,
}

impl DatabaseKind {
    /// The name as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            DatabaseKind::Mariadb => "MariaDB",
            DatabaseKind::Postgresql => "PostgreSQL",
        }
    }
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How the server is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// Over the network.
    Tcp {
        /// Name or address.
        host: String,
        /// Port.
        port: u16,
    },
    /// By a Unix socket: the socket itself for MariaDB, the folder that holds it for PostgreSQL.
    Socket {
        /// Where it is.
        path: PathBuf,
        /// Part of the socket's name in PostgreSQL; MariaDB ignores it.
        port: u16,
    },
}

/// How the connections to a database are secured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseTls {
    /// Which certificates are accepted.
    pub check: CertificateCheck,
    /// The file of authorities that the address names; `None`: those of this host.
    pub ca_file: Option<PathBuf>,
    /// PEM text of the authorities, which whoever connects has read. Not used where any certificate is accepted.
    pub ca: Option<String>,
}

impl DatabaseTls {
    /// TLS where any certificate is accepted: nobody can read along, but the server may be another one.
    pub const fn of_any_certificate() -> Self {
        Self { check: CertificateCheck::Any, ca_file: None, ca: None }
    }
}

/// Which certificates of a server are accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CertificateCheck {
    /// Any.
    Any,
    /// One that an authority has signed, for any name.
    Authority,
    /// One that an authority has signed, for the host of the address.
    AuthorityAndName,
}

/// The option of an address for TLS, and that for its authorities, as the makers of each database call them.
const fn words(kind: DatabaseKind) -> (&'static str, &'static str) {
    match kind {
        DatabaseKind::Mariadb => ("ssl-mode", "ssl-ca"),
        DatabaseKind::Postgresql => ("sslmode", "sslrootcert"),
    }
}

impl CertificateCheck {
    /// The word for it in an address.
    const fn word(self, kind: DatabaseKind) -> &'static str {
        match (self, kind) {
            (Self::Any, DatabaseKind::Mariadb) => "required",
            (Self::Any, DatabaseKind::Postgresql) => "require",
            (Self::Authority, _) => "verify-ca",
            (Self::AuthorityAndName, DatabaseKind::Mariadb) => "verify-identity",
            (Self::AuthorityAndName, DatabaseKind::Postgresql) => "verify-full",
        }
    }
}

/// Whether TLS is wanted; `None`: it is not.
fn mode(kind: DatabaseKind, word: &str) -> Result<Option<CertificateCheck>, StoreError> {
    const ALL: [CertificateCheck; 3] =
        [CertificateCheck::Any, CertificateCheck::Authority, CertificateCheck::AuthorityAndName];
    let (off, wrong) = match kind {
        DatabaseKind::Mariadb => {
            ("disabled", "ssl-mode is none of disabled, required, verify-ca and verify-identity")
        }
        DatabaseKind::Postgresql => {
            ("disable", "sslmode is none of disable, require, verify-ca and verify-full")
        }
    };
    if word == off {
        return Ok(None);
    }
    if ["preferred", "prefer", "allow"].contains(&word) {
        return Err(StoreError::Address(
            "a measurement must know whether it is encrypted: write `required` (PostgreSQL: `require`) or leave it out",
        ));
    }
    let found = ALL.into_iter().find(|check| word == check.word(kind));
    found.map(Some).ok_or(StoreError::Address(wrong))
}

/// What follows the `?` of an address.
#[derive(Default)]
struct Options {
    socket: Option<PathBuf>,
    check: Option<CertificateCheck>,
    ca_file: Option<PathBuf>,
}

impl Options {
    fn read(kind: DatabaseKind, url: &Url) -> Result<Self, StoreError> {
        let mut options = Self::default();
        let (mode_word, ca_word) = words(kind);
        for (key, value) in url.query_pairs() {
            if key == "socket" {
                options.socket = Some(PathBuf::from(value.as_ref()));
            } else if key == mode_word {
                options.check = mode(kind, &value)?;
            } else if key == ca_word {
                // PostgreSQL's own word for those of the host.
                let is_of_host = kind == DatabaseKind::Postgresql && value == "system";
                options.ca_file = (!is_of_host).then(|| PathBuf::from(value.as_ref()));
            } else {
                return Err(StoreError::Address(match kind {
                    DatabaseKind::Mariadb => "options after ? are socket=PATH, ssl-mode=MODE and ssl-ca=FILE",
                    DatabaseKind::Postgresql => {
                        "options after ? are socket=PATH, sslmode=MODE and sslrootcert=FILE"
                    }
                }));
            }
        }
        options.check()
    }

    fn check(self) -> Result<Self, StoreError> {
        let checks = !matches!(self.check, None | Some(CertificateCheck::Any));
        if self.ca_file.is_some() && !checks {
            return Err(StoreError::Address(
                "a file of authorities is read only with `verify-ca`, or with `verify-identity` (PostgreSQL: `verify-full`)",
            ));
        }
        if self.socket.is_some() && self.check.is_some() {
            return Err(StoreError::Address(
                "nothing is encrypted on a socket: leave out TLS, or give host and port",
            ));
        }
        Ok(self)
    }

    fn tls(self) -> Option<DatabaseTls> {
        let ca_file = self.ca_file;
        self.check.map(|check| DatabaseTls { check, ca_file, ca: None })
    }
}

/// A database, from `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `postgres://…`. For a Unix socket leave the host away
/// or say `localhost` and add `?socket=PATH`. For TLS add `?ssl-mode=required` (or `verify-ca`, `verify-identity`, with
/// `&ssl-ca=FILE`), on PostgreSQL `?sslmode=require` (`verify-ca`, `verify-full`, with `&sslrootcert=FILE`). Printing it never
/// shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// Which database.
    pub kind: DatabaseKind,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// Who asks.
    pub user: String,
    /// Their password, if they need one.
    pub password: Option<Secret>,
    /// The database in the server.
    pub database: String,
    /// TLS of its connections; `None`: they are not encrypted.
    pub tls: Option<DatabaseTls>,
}

impl FromStr for DatabaseAddress {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        // The text may hold a password, so no message repeats it.
        let url = Url::parse(text).map_err(|error| {
            StoreError::Address(match error {
                ParseError::InvalidPort => {
                    "the port is not a number up to 65535 (in a password write / as %2F, # as %23 and ? as %3F)"
                }
                _ => "it is not a URL",
            })
        })?;
        let (kind, default_port) = match url.scheme() {
            "mysql" | "mariadb" => (DatabaseKind::Mariadb, 3306),
            "postgres" | "postgresql" => (DatabaseKind::Postgresql, 5432),
            _ => return Err(StoreError::Address("it starts with neither mysql:// nor postgres://")),
        };
        let port = url.port().unwrap_or(default_port);
        // Addresses of IPv6 have brackets in a URL only.
        let host = url.host_str().unwrap_or("localhost").trim_matches(['[', ']']).to_owned();
        let mut options = Options::read(kind, &url)?;
        let endpoint = match options.socket.take() {
            Some(path) => Endpoint::Socket { path, port },
            None => Endpoint::Tcp { host, port },
        };
        let database = decode(url.path().trim_start_matches('/'))?;
        if database.is_empty() {
            return Err(StoreError::Address("the name of the database is missing after the host"));
        }
        if url.username().is_empty() {
            return Err(StoreError::Address("the user is missing before @"));
        }
        let password = url.password().map(decode).transpose()?.map(Secret::new);
        Ok(Self { kind, endpoint, user: decode(url.username())?, password, database, tls: options.tls() })
    }
}

/// Undoes %XX.
fn decode(text: &str) -> Result<String, StoreError> {
    let broken =
        || StoreError::Address("it holds a % that is not followed by two hex digits of a UTF-8 text");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let pair = [rest.next().ok_or_else(broken)?, rest.next().ok_or_else(broken)?];
            let hex = std::str::from_utf8(&pair).map_err(|_| broken())?;
            bytes.push(u8::from_str_radix(hex, 16).map_err(|_| broken())?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).map_err(|_| broken())
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.kind {
            DatabaseKind::Mariadb => "mysql",
            DatabaseKind::Postgresql => "postgres",
        };
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{}@{open}{host}{close}:{port}/{}", self.user, self.database)?;
                match &self.tls {
                    Some(tls) => {
                        write!(f, "?{}={}", words(self.kind).0, tls.check.word(self.kind))
                    }
                    None => Ok(()),
                }
            }
            Endpoint::Socket { path, .. } => {
                write!(f, "{scheme}://{}@localhost/{}?socket={}", self.user, self.database, path.display())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_printed_without_its_password() {
        let address: DatabaseAddress = "mysql://web:t%40ger@db.test:3307/store".parse().unwrap();
        assert_eq!(address.password, Some(Secret::new("t@ger")));
        assert_eq!(address.to_string(), "mysql://web@db.test:3307/store");
        assert!(!format!("{address:?}").contains("ger"), "{address:?}");
        let address: DatabaseAddress = "postgres://web@localhost/store?socket=/tmp/pg".parse().unwrap();
        assert_eq!(address.endpoint, Endpoint::Socket { path: "/tmp/pg".into(), port: 5432 });
        let address: DatabaseAddress = "postgres://web@[::1]/store".parse().unwrap();
        assert_eq!(address.endpoint, Endpoint::Tcp { host: "::1".into(), port: 5432 });
        assert_eq!(address.to_string(), "postgres://web@[::1]:5432/store");
    }

    #[test]
    fn tls_is_asked_by_the_words_of_each_database_and_printed_with_the_address() {
        use CertificateCheck::{Any, Authority, AuthorityAndName};
        for (options, check, ca_file) in [
            ("mysql://web@db/store?ssl-mode=required", Some(Any), None),
            ("mysql://web@db/store?ssl-mode=disabled", None, None),
            ("mysql://web@db/store?ssl-mode=verify-ca&ssl-ca=/ca.pem", Some(Authority), Some("/ca.pem")),
            ("mysql://web@db/store?ssl-mode=verify-identity", Some(AuthorityAndName), None),
            ("postgres://web@db/store?sslmode=require", Some(Any), None),
            ("postgres://web@db/store?sslmode=disable", None, None),
            (
                "postgres://web@db/store?sslrootcert=/ca.pem&sslmode=verify-ca",
                Some(Authority),
                Some("/ca.pem"),
            ),
            ("postgres://web@db/store?sslmode=verify-full&sslrootcert=system", Some(AuthorityAndName), None),
        ] {
            let address: DatabaseAddress = options.parse().unwrap();
            let tls = check.map(|check| DatabaseTls { check, ca_file: ca_file.map(PathBuf::from), ca: None });
            assert_eq!(address.tls, tls, "{options}");
            let again: DatabaseAddress = address.to_string().parse().unwrap();
            assert_eq!(again.tls.map(|tls| tls.check), check, "{address}");
        }
    }

    #[test]
    fn a_bad_address_is_named_without_repeating_it() {
        for text in [
            "",
            "web:tiger@db",
            "http://web:tiger@db/store",
            "mysql://web:tiger@db",
            "mysql://db/store",
            "mysql://web:tiger@db/store?ssl=1",
            "mysql://web:tiger@db/store?sslmode=require",
            "mysql://web:tiger@db/store?ssl-mode=preferred",
            "mysql://web:tiger@db/store?ssl-mode=verify-full",
            "mysql://web:tiger@db/store?ssl-ca=/ca.pem",
            "mysql://web:tiger@db/store?ssl-mode=required&ssl-ca=/ca.pem",
            "mysql://web:tiger@localhost/store?socket=/tmp/s&ssl-mode=required",
            "postgres://web:tiger@db/store?ssl-mode=required",
            "postgres://web:tiger@db/store?sslmode=prefer",
            "postgres://web:tiger@db/store?sslmode=verify-identity",
            "postgres://web:tiger@db/store?sslrootcert=/ca.pem",
            "mysql://web:tiger%@db/store",
            "mysql://web:tiger/lily@db/store",
        ] {
            let error = text.parse::<DatabaseAddress>().unwrap_err();
            assert!(matches!(error, StoreError::Address(_)), "{text}: {error}");
            assert!(!format!("{error} {error:?}").contains("tiger"), "{error:?}");
        }
    }
}
