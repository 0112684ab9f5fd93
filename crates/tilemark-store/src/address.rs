//! Where a database is and who asks.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use url::{ParseError, Url};

use crate::error::StoreError;
use crate::secret::Secret;

/// Which database it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Engine {
    /// MariaDB with InnoDB tables.
    Mariadb,
    /// PostgreSQL.
    Postgresql,
}

impl Engine {
    /// The name as its makers write it.
    pub fn name(self) -> &'static str {
        match self {
            Engine::Mariadb => "MariaDB",
            Engine::Postgresql => "PostgreSQL",
        }
    }
}

impl fmt::Display for Engine {
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

/// A database, from `mysql://USER:PASSWORD@HOST:PORT/DATABASE` or `postgres://…`. For a Unix socket leave the host away
/// or say `localhost` and add `?socket=PATH`. Printing it never shows the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseAddress {
    /// Which database.
    pub engine: Engine,
    /// How it is reached.
    pub endpoint: Endpoint,
    /// Who asks.
    pub user: String,
    /// Their password, if they need one.
    pub password: Option<Secret>,
    /// The database in the server.
    pub database: String,
}

impl FromStr for DatabaseAddress {
    type Err = StoreError;

    fn from_str(text: &str) -> Result<Self, StoreError> {
        // The text may hold a password, so no message repeats it.
        let url = Url::parse(text).map_err(|error| {
            StoreError::Address(match error {
                ParseError::InvalidPort => {
                    "the port is no number up to 65535 (in a password write / as %2F, # as %23 and ? as %3F)"
                }
                _ => "it is not a URL",
            })
        })?;
        let (engine, default_port) = match url.scheme() {
            "mysql" | "mariadb" => (Engine::Mariadb, 3306),
            "postgres" | "postgresql" => (Engine::Postgresql, 5432),
            _ => return Err(StoreError::Address("it starts with neither mysql:// nor postgres://")),
        };
        let port = url.port().unwrap_or(default_port);
        // Addresses of IPv6 stand in brackets in a URL only.
        let host = url.host_str().unwrap_or("localhost").trim_matches(['[', ']']).to_owned();
        let mut endpoint = Endpoint::Tcp { host, port };
        for (key, value) in url.query_pairs() {
            match key.as_ref() {
                "socket" => endpoint = Endpoint::Socket { path: PathBuf::from(value.as_ref()), port },
                _ => return Err(StoreError::Address("the only option after ? is socket=PATH")),
            }
        }
        let database = decode(url.path().trim_start_matches('/'))?;
        if database.is_empty() {
            return Err(StoreError::Address("the name of the database is missing after the host"));
        }
        if url.username().is_empty() {
            return Err(StoreError::Address("the user is missing before @"));
        }
        let password = url.password().map(decode).transpose()?.map(Secret::new);
        Ok(Self { engine, endpoint, user: decode(url.username())?, password, database })
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
        let scheme = match self.engine {
            Engine::Mariadb => "mysql",
            Engine::Postgresql => "postgres",
        };
        match &self.endpoint {
            Endpoint::Tcp { host, port } => {
                let (open, close) = if host.contains(':') { ("[", "]") } else { ("", "") };
                write!(f, "{scheme}://{}@{open}{host}{close}:{port}/{}", self.user, self.database)
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
    fn a_bad_address_is_named_without_repeating_it() {
        for text in [
            "",
            "web:tiger@db",
            "http://web:tiger@db/store",
            "mysql://web:tiger@db",
            "mysql://db/store",
            "mysql://web:tiger@db/store?ssl=1",
            "mysql://web:tiger%@db/store",
            "mysql://web:tiger/lily@db/store",
        ] {
            let error = text.parse::<DatabaseAddress>().unwrap_err();
            assert!(matches!(error, StoreError::Address(_)), "{text}: {error}");
            assert!(!format!("{error} {error:?}").contains("tiger"), "{error:?}");
        }
    }
}
