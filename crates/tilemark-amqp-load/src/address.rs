//! Where a broker is and who we are there.

use std::fmt;
use std::net::{SocketAddr, ToSocketAddrs};
use std::str::FromStr;

use crate::LoadError;

/// A broker as users write it: `amqp://user:password@host:port/virtual-host`. Without user and password it is guest.
/// Printing it leaves the password out.
#[derive(Clone, PartialEq, Eq)]
pub struct BrokerAddress {
    /// All addresses of its host, at least one: `localhost` may be both of IPv6 and of IPv4.
    pub(crate) sockets: Vec<SocketAddr>,
    pub(crate) user: String,
    pub(crate) password: String,
    pub(crate) virtual_host: String,
    /// Whom to trust, where its connections use TLS.
    pub(crate) tls: Option<BrokerTls>,
}

/// The TLS of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct BrokerTls {
    /// The name that its certificate must have.
    pub(crate) name: String,
    /// PEM text of authorities, one of whom must have signed it; `None`: any certificate is accepted.
    pub(crate) ca: Option<String>,
}

impl BrokerAddress {
    /// A broker with guest's password and the virtual host that every broker has.
    pub fn guest(socket: SocketAddr) -> Self {
        Self {
            sockets: vec![socket],
            user: "guest".into(),
            password: "guest".into(),
            virtual_host: "/".into(),
            tls: None,
        }
    }

    /// All addresses of its host, at least one.
    pub fn sockets(&self) -> &[SocketAddr] {
        &self.sockets
    }

    /// Whether its connections use TLS.
    pub fn has_tls(&self) -> bool {
        self.tls.is_some()
    }

    /// The same over TLS, where any certificate is accepted: a guest makes its own.
    #[must_use]
    pub fn secured(self) -> Self {
        let name = self.sockets[0].ip().to_string();
        Self { tls: Some(BrokerTls { name, ca: None }), ..self }
    }

    /// The same where these authorities, as PEM text, may have signed its certificate; without TLS nothing changes.
    #[must_use]
    pub fn trusting(self, ca: Option<String>) -> Self {
        let tls = self.tls.map(|tls| BrokerTls { ca, ..tls });
        Self { tls, ..self }
    }

    /// The same broker for another user.
    #[must_use]
    pub fn with_user(self, user: impl Into<String>, password: impl Into<String>) -> Self {
        Self { user: user.into(), password: password.into(), ..self }
    }

    /// Reads an address; a user who has no password in it has the one that was given `apart`. That one is taken as it
    /// is: only addresses have percent encoding.
    pub fn read(text: &str, apart: Option<&str>) -> Result<Self, LoadError> {
        let shown = || without_password(text);
        let wrong = |reason| LoadError::Address { text: shown(), reason };
        let decoded =
            |part| decode(part).ok_or_else(|| wrong("a % is not followed by two hexadecimal digits"));
        let (rest, has_tls) = match (text.strip_prefix("amqp://"), text.strip_prefix("amqps://")) {
            (Some(rest), _) => (rest, false),
            (None, Some(rest)) => (rest, true),
            (None, None) => return Err(wrong("it does not start with amqp:// or amqps://")),
        };
        let (credentials, place) =
            rest.rsplit_once('@').map_or((None, rest), |(before, after)| (Some(before), after));
        let (place, path) = place.split_once('/').map_or((place, ""), |(place, path)| (place, path));
        let (user, password) = match credentials.map(|both| (both, both.split_once(':'))) {
            None => ("guest".to_owned(), "guest".to_owned()),
            Some((_, Some((user, password)))) => (decoded(user)?, decoded(password)?),
            Some((user, None)) => {
                let user = decoded(user)?;
                let password = apart
                    .ok_or_else(|| LoadError::NoPassword { user: user.clone(), host: place.to_owned() })?;
                (user, password.to_owned())
            }
        };
        Ok(Self {
            sockets: sockets(place, if has_tls { TLS_PORT } else { PORT }).map_err(wrong)?,
            tls: has_tls.then(|| BrokerTls { name: host_of(place).to_owned(), ca: None }),
            user,
            password,
            virtual_host: if path.is_empty() { "/".into() } else { decoded(path)? },
        })
    }
}

/// What errors show of an address. Whatever is before the last @ may hold a password, and where there is none so may
/// all that follows the first colon and is no port.
fn without_password(text: &str) -> String {
    if let Some((_, place)) = text.rsplit_once('@') {
        return place.to_owned();
    }
    let (scheme, rest) =
        text.split_once("://").map_or(("", text), |(scheme, rest)| (&text[..scheme.len() + 3], rest));
    let host_ends = if rest.starts_with('[') { rest.find(']').map_or(0, |end| end + 1) } else { 0 };
    let Some(colon) = rest[host_ends..].find(':').map(|at| host_ends + at) else { return text.to_owned() };
    let port = &rest[colon + 1..];
    if port.bytes().all(|byte| byte.is_ascii_digit()) {
        text.to_owned()
    } else {
        format!("{scheme}{}:…", &rest[..colon])
    }
}

/// The ports of AMQP, without TLS and with it.
const PORT: u16 = 5672;
const TLS_PORT: u16 = 5671;

/// The host of a place, without port and brackets.
fn host_of(place: &str) -> &str {
    match place.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(v6),
        None => place.split(':').next().unwrap_or(place),
    }
}

/// Looks a host up; without a port it is this one. The error says what is wrong with it.
fn sockets(place: &str, usual: u16) -> Result<Vec<SocketAddr>, &'static str> {
    let is_bare_v6 = place.ends_with(']');
    let has_port = place.contains(':') && !is_bare_v6;
    let place = if has_port { place.to_owned() } else { format!("{place}:{usual}") };
    let found: Vec<SocketAddr> = place.to_socket_addrs().map_err(|_| "the host is unknown")?.collect();
    if found.is_empty() { Err("the host has no address") } else { Ok(found) }
}

impl fmt::Display for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.has_tls() { "amqps" } else { "amqp" };
        write!(f, "{scheme}://{}@{}", self.user, self.sockets[0])
    }
}

impl fmt::Debug for BrokerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for BrokerAddress {
    type Err = LoadError;

    fn from_str(text: &str) -> Result<Self, LoadError> {
        Self::read(text, None)
    }
}

/// Undoes percent encoding.
fn decode(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut out = Vec::new();
    while let Some(byte) = bytes.next() {
        if byte == b'%' {
            let digits = [bytes.next()?, bytes.next()?];
            out.push(u8::from_str_radix(std::str::from_utf8(&digits).ok()?, 16).ok()?);
        } else {
            out.push(byte);
        }
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_as_users_write_it() {
        let address: BrokerAddress = "amqp://me:p%40ss@127.0.0.1:5673/%2f".parse().unwrap();
        assert_eq!(address.sockets, ["127.0.0.1:5673".parse::<SocketAddr>().unwrap()]);
        assert_eq!(
            (address.user.as_str(), address.password.as_str(), address.virtual_host.as_str()),
            ("me", "p@ss", "/")
        );
        let short: BrokerAddress = "amqp://127.0.0.1".parse().unwrap();
        assert_eq!(short, BrokerAddress::guest("127.0.0.1:5672".parse().unwrap()));
        let v6: BrokerAddress = "amqp://[::1]/x".parse().unwrap();
        assert_eq!((v6.to_string().as_str(), v6.virtual_host.as_str()), ("amqp://guest@[::1]:5672", "x"));
    }

    #[test]
    fn an_address_with_tls_has_its_port_and_the_name_of_its_certificate() {
        let read = |text: &str| text.parse::<BrokerAddress>().unwrap();
        let named = read("amqps://localhost/x");
        assert!(named.sockets.iter().all(|socket| socket.port() == 5671), "{:?}", named.sockets);
        assert_eq!(named.tls, Some(BrokerTls { name: "localhost".to_owned(), ca: None }));
        let v6 = read("amqps://[::1]:9").trusting(Some("pem".to_owned()));
        assert_eq!(v6.tls, Some(BrokerTls { name: "::1".to_owned(), ca: Some("pem".to_owned()) }));
        assert_eq!(v6.to_string(), "amqps://guest@[::1]:9");
        assert!(!read("amqp://127.0.0.1").trusting(Some("pem".to_owned())).has_tls());
    }

    #[test]
    fn a_password_may_be_given_apart_from_the_address() {
        let read = |text| BrokerAddress::read(text, Some("p%40:@/ss")).unwrap();
        assert_eq!(read("amqp://m%65@127.0.0.1"), read("amqp://me:p%2540%3a%40%2fss@127.0.0.1"));
        // What is in the address counts, and nobody named is guest.
        assert_eq!(read("amqp://me:own@127.0.0.1").password, "own");
        assert_eq!(read("amqp://127.0.0.1"), BrokerAddress::guest("127.0.0.1:5672".parse().unwrap()));
        let error = "amqp://me@127.0.0.1".parse::<BrokerAddress>().unwrap_err();
        assert_eq!(error.to_string(), "no password for user `me` of 127.0.0.1");
        assert_eq!(error.remedy(), "set TILEMARK_BROKER_PASSWORD");
    }

    #[test]
    fn neither_an_address_nor_its_error_shows_the_password() {
        let address: BrokerAddress = "amqp://me:secret@127.0.0.1".parse().unwrap();
        assert!(!format!("{address} {address:?}").contains("secret"));
        for wrong in [
            "http://me:secret@127.0.0.1",
            "amqp://me:secret@127.0.0.1:99999",
            "amqp://me:secret%4@[::1]",
            "amqp://me:secret",
            "amqp://me:7secret/x",
            "amqp://me:secret:1",
            "amqp://me:secret/x:1",
            "amqp://me:7/secret",
            "amqp://me:secret]",
        ] {
            let error = wrong.parse::<BrokerAddress>().unwrap_err();
            assert!(!format!("{error} {error:?}").contains("secret"), "{error}");
        }
        for shown in
            ["amqp://[::1]:99999", "amqp://[::1]/%zz", "amqp://127.0.0.1:99999", "http://127.0.0.1/x"]
        {
            let error = shown.parse::<BrokerAddress>().unwrap_err();
            assert!(error.to_string().contains(&format!("'{shown}'")), "{error}");
        }
    }
}
