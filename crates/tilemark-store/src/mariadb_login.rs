//! Logging in on MariaDB over TLS.
//!
//! The library keeps TLS to itself, so that our own wire could not go on over its connection. It still reads and writes the packets
//! of a log-in; what is done here is their order: greeting, request for TLS, handshake of TLS, user.

use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::OwnedFd;

use mysql::consts::{CapabilityFlags, MariadbCapabilities};
use mysql_common::collations::CollationId;
use mysql_common::io::ParseBuf;
use mysql_common::packets::{AuthPlugin, AuthSwitchRequest, HandshakePacket, HandshakeResponse, SslRequest};
use mysql_common::proto::MySerialize;
use tilemark_tls::{Tls, TlsFailure};

use crate::address::{DatabaseAddress, Endpoint};
use crate::error::StoreError;
use crate::mariadb::{CONNECT_TIMEOUT, PACKET_MAX, kept, not_let_in};
use crate::mariadb_wire::{Wire, broken};

/// First bytes of packets.
const OK: u8 = 0x00;
const OTHER_PLUGIN: u8 = 0xfe;

/// Bytes of a challenge; the server ends it with a zero.
const CHALLENGE_BYTES: usize = 20;

/// Opens a connection, secures it and logs in.
pub(crate) fn log_in(address: &DatabaseAddress, tls: &Tls) -> Result<Wire, StoreError> {
    let down = |source| StoreError::Down { address: address.to_string(), source: Box::new(source) };
    let mut wire = Wire::over(OwnedFd::from(connect(address).map_err(down)?));
    let greeting = kept(|| Greeting::read(&mut wire)).map_err(|error| not_let_in(address, error))?;
    if !greeting.offers.contains(CapabilityFlags::CLIENT_SSL) {
        return Err(StoreError::NoTls { address: address.to_string() });
    }
    kept(|| greeting.answer(&mut wire, address, tls)).map_err(|error| secured_or_let_in(address, error))?;
    Ok(wire)
}

/// The library's limit of time, for each of the host's addresses.
fn connect(address: &DatabaseAddress) -> io::Result<TcpStream> {
    let Endpoint::Tcp { host, port } = &address.endpoint else {
        return Err(io::Error::new(io::ErrorKind::Unsupported, "nothing is encrypted on a socket"));
    };
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for place in (host.as_str(), *port).to_socket_addrs()? {
        match TcpStream::connect_timeout(&place, CONNECT_TIMEOUT) {
            Ok(stream) => {
                stream.set_nodelay(true)?;
                return Ok(stream);
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// Separates a failure of TLS from the server's refusal of a user.
fn secured_or_let_in(address: &DatabaseAddress, error: mysql::Error) -> StoreError {
    match error {
        mysql::Error::IoError(error) if error.get_ref().is_some_and(|inner| inner.is::<TlsFailure>()) => {
            let inner = error.into_inner().expect("it has one");
            let source = *inner.downcast::<TlsFailure>().expect("it is one");
            StoreError::Tls { address: address.to_string(), source }
        }
        other => not_let_in(address, other),
    }
}

/// What a server says first.
struct Greeting {
    offers: CapabilityFlags,
    /// What it also offers, being MariaDB.
    offers_besides: MariadbCapabilities,
    version: (u16, u16, u16),
    challenge: Vec<u8>,
}

impl Greeting {
    fn read(wire: &mut Wire) -> Result<Self, mysql::Error> {
        let bytes = wire.read_packet()?;
        let said: HandshakePacket<'_> = ParseBuf(&bytes).parse(())?;
        if !said.capabilities().contains(CapabilityFlags::CLIENT_PROTOCOL_41) {
            return Err(broken("the server does not know the protocol of version 4.1".to_owned()));
        }
        let mut challenge = said.scramble_1_ref().to_vec();
        challenge.extend_from_slice(said.scramble_2_ref().unwrap_or_default());
        challenge.resize(CHALLENGE_BYTES, 0);
        // MariaDB leaves out the lowest bit, to say that it has capabilities of its own.
        let is_mariadb = !said.capabilities().contains(CapabilityFlags::CLIENT_LONG_PASSWORD);
        let offers_besides =
            if is_mariadb { said.mariadb_ext_capabilities() } else { MariadbCapabilities::empty() };
        Ok(Self {
            offers: said.capabilities(),
            offers_besides,
            version: said.server_version_parsed().unwrap_or((0, 0, 0)),
            challenge,
        })
    }

    /// What is wanted of it: what the library wants too, so that both kinds of connections do the same work.
    fn wanted(&self, has_database: bool) -> CapabilityFlags {
        let mut wanted = CapabilityFlags::CLIENT_PROTOCOL_41
            | CapabilityFlags::CLIENT_SECURE_CONNECTION
            | CapabilityFlags::CLIENT_LONG_PASSWORD
            | CapabilityFlags::CLIENT_TRANSACTIONS
            | CapabilityFlags::CLIENT_LOCAL_FILES
            | CapabilityFlags::CLIENT_MULTI_STATEMENTS
            | CapabilityFlags::CLIENT_MULTI_RESULTS
            | CapabilityFlags::CLIENT_PS_MULTI_RESULTS
            | CapabilityFlags::CLIENT_PLUGIN_AUTH
            | CapabilityFlags::CLIENT_LONG_FLAG
            | CapabilityFlags::CLIENT_SSL;
        wanted.set(CapabilityFlags::CLIENT_CONNECT_WITH_DB, has_database);
        wanted & self.offers
    }

    fn answer(&self, wire: &mut Wire, address: &DatabaseAddress, tls: &Tls) -> Result<(), mysql::Error> {
        let wanted = self.wanted(true);
        let packet_max = PACKET_MAX as u32;
        let collation = CollationId::UTF8MB4_GENERAL_CI as u8;
        wire.send_packet(&written(&SslRequest::new(wanted, packet_max, collation)))?;
        wire.secure(tls)?;
        let password = address.password.as_ref().map(|secret| secret.reveal());
        let answer = AuthPlugin::MysqlNativePassword.gen_data(password, &self.challenge);
        let besides = self.offers_besides & MariadbCapabilities::MARIADB_CLIENT_CACHE_METADATA;
        let user = HandshakeResponse::new(
            answer.as_deref(),
            self.version,
            Some(address.user.as_bytes()),
            Some(address.database.as_bytes()),
            Some(AuthPlugin::MysqlNativePassword),
            wanted,
            None,
            packet_max,
        )
        .with_mariadb_ext_capabilities(besides);
        wire.send_packet(&written(&user))?;
        let said = wire.read_packet()?;
        match said[0] {
            OK => Ok(()),
            OTHER_PLUGIN => answer_again(wire, &said, password),
            other => Err(broken(format!("the server answered a log-in with {other:#04x}"))),
        }
    }
}

/// The server wants the password in another way, or with another challenge.
fn answer_again(wire: &mut Wire, said: &[u8], password: Option<&str>) -> Result<(), mysql::Error> {
    let asked: AuthSwitchRequest<'_> = ParseBuf(said).parse(())?;
    let plugin = asked.auth_plugin();
    if plugin != AuthPlugin::MysqlNativePassword {
        let name = String::from_utf8_lossy(plugin.as_bytes()).into_owned();
        return Err(mysql::Error::DriverError(mysql::DriverError::UnknownAuthPlugin(name)));
    }
    let answer = plugin.gen_data(password, asked.plugin_data());
    wire.send_packet(answer.as_deref().unwrap_or_default())?;
    match wire.read_packet()?[0] {
        OK => Ok(()),
        other => Err(broken(format!("the server answered a log-in with {other:#04x}"))),
    }
}

fn written(packet: &impl MySerialize) -> Vec<u8> {
    let mut bytes = Vec::new();
    packet.serialize(&mut bytes);
    bytes
}
