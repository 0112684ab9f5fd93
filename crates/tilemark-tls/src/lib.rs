//! TLS on a wire, between its socket and the conversation: the conversation reads and writes what is inside. It opens no socket itself.

mod serving;

pub use rustls::{ClientConfig, pki_types::ServerName};
pub use serving::{ServerTls, ServerTlsError};

use rustls::{
    AlertDescription, CertificateError, ClientConnection, Connection, DigitallySignedStruct, Error,
    RootCertStore, SignatureScheme,
    client::{
        Resumption, WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, UnixTime, pem::PemObject},
    version::TLS13,
};
use std::{
    io::{self, Read, Write},
    net::IpAddr,
    sync::Arc,
};

/// How a conversation's wires are secured.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

/// Which certificates of a server are accepted.
#[derive(Debug, Clone, Copy)]
pub enum Trust<'a> {
    /// Any whose key signs the handshake.
    Anybody,
    /// One that an authority of this PEM text has signed, for any name.
    Authorities(&'a str),
    /// One that an authority of this PEM text has signed, for the name that the server is asked by.
    AuthoritiesAndName(&'a str),
}

impl Tls {
    /// TLS 1.3 to a guest at that address. A guest makes its certificate itself, so that nobody has signed it: any one is accepted whose key signs
    /// the handshake. What a handshake costs is then the same as with a signed one, but for the lookup of who signed it.
    pub fn to_guest(address: IpAddr) -> Self {
        Self::with(ServerName::IpAddress(address.into()), AnyName::of_anybody())
    }

    /// TLS 1.3 to a server by its name, or by its address where it has none. `ca`: PEM text of authorities; one of them must have signed its
    /// certificate, which must be for that name; `None`: as with a guest, any certificate is accepted.
    ///
    /// # Errors
    /// In words, where the name or the certificates are none.
    pub fn to_server(name: Option<&str>, address: IpAddr, ca: Option<&str>) -> Result<Self, String> {
        let trust = ca.map_or(Trust::Anybody, Trust::AuthoritiesAndName);
        Self::to_host(name.unwrap_or(&address.to_string()), trust)
    }

    /// TLS 1.3 to a server by its name or address.
    ///
    /// # Errors
    /// As of [`Tls::to_server`].
    pub fn to_host(host: &str, trust: Trust<'_>) -> Result<Self, String> {
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| format!("{host:?} is neither a name nor an address"))?;
        let verifier = match trust {
            Trust::Anybody => AnyName::of_anybody(),
            Trust::Authorities(ca) => AnyName::signed(of_authorities(ca)?),
            Trust::AuthoritiesAndName(ca) => of_authorities(ca)?,
        };
        Ok(Self::with(name, verifier))
    }

    /// What a library that does TLS itself needs: how its wires are secured.
    pub fn config(&self) -> Arc<ClientConfig> {
        Arc::clone(&self.config)
    }

    /// The name that the server is asked by.
    pub fn name(&self) -> ServerName<'static> {
        self.name.clone()
    }

    fn with(name: ServerName<'static>, verifier: Arc<dyn ServerCertVerifier>) -> Self {
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("this provider has TLS 1.3")
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        // Each handshake is a whole one.
        config.resumption = Resumption::disabled();
        Self { config: Arc::new(config), name }
    }
}

/// The certificates of a PEM text.
fn roots_of(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| format!("a certificate cannot be read: {error}"))?;
        // Stores of distributions hold some that this library does not take; the others count.
        let _ = roots.add(certificate);
    }
    if roots.is_empty() { Err("no certificate of an authority can be used".to_owned()) } else { Ok(roots) }
}

/// Accepts what one of these authorities has signed, for the name that it is asked by.
fn of_authorities(ca: &str) -> Result<Arc<dyn ServerCertVerifier>, String> {
    let roots = Arc::new(roots_of(ca)?);
    let verifier =
        WebPkiServerVerifier::builder_with_provider(roots, Arc::new(ring::default_provider())).build();
    Ok(verifier.map_err(|error| format!("the certificates of authorities cannot be used: {error}"))?)
}

/// Accepts a certificate whose key signs the handshake, whatever its name.
#[derive(Debug)]
struct AnyName {
    /// Checks who signed it, then the name. `None`: anybody may have signed it.
    signed: Option<Arc<dyn ServerCertVerifier>>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl AnyName {
    /// Whoever signed it.
    fn of_anybody() -> Arc<dyn ServerCertVerifier> {
        Self::verifier(None)
    }

    fn signed(by: Arc<dyn ServerCertVerifier>) -> Arc<dyn ServerCertVerifier> {
        Self::verifier(Some(by))
    }

    fn verifier(signed: Option<Arc<dyn ServerCertVerifier>>) -> Arc<dyn ServerCertVerifier> {
        Arc::new(Self { signed, algorithms: ring::default_provider().signature_verification_algorithms })
    }
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(signed) = &self.signed else { return Ok(ServerCertVerified::assertion()) };
        match signed.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is the last that is checked: all else is right.
            Err(Error::InvalidCertificate(error)) if is_of_name(&error) => {
                Ok(ServerCertVerified::assertion())
            }
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signature, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signature, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

const fn is_of_name(error: &CertificateError) -> bool {
    matches!(error, CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. })
}

/// What ends a wire: the peer does not speak TLS, or not as it must.
#[derive(Debug, Clone, thiserror::Error)]
#[error("TLS: {text}")]
pub struct TlsFailure {
    text: String,
    /// Another attempt would end in the same way.
    pub is_final: bool,
    /// Which of the mistakes that have a remedy of their own it is.
    pub fault: TlsFault,
}

/// A mistake of whoever set up a server or named it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TlsFault {
    /// The server's certificate is for another name.
    OtherName,
    /// No authority that is accepted has signed the server's certificate.
    UnknownAuthority,
    /// The server's certificate is not accepted for another reason, such as its age.
    Certificate,
    /// The peer does not speak TLS, or no version that is spoken here.
    NotTls,
    /// Anything else.
    Other,
}

impl TlsFailure {
    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), is_final: false, fault: TlsFault::Other }
    }
}

impl TlsFailure {
    /// What a library that does TLS itself says about a handshake that failed: a failure of TLS, or the socket's own error.
    pub fn of_stream(error: io::Error) -> Box<dyn std::error::Error + Send + Sync> {
        match error.get_ref().and_then(|inner| inner.downcast_ref::<Error>()) {
            Some(tls) => Box::new(Self::from(tls.clone())),
            None => Box::new(error),
        }
    }
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> Self {
        let is_final = matches!(
            error,
            Error::InvalidCertificate(_) | Error::InvalidMessage(_) | Error::PeerIncompatible(_)
        );
        let (fault, text) = match &error {
            Error::InvalidCertificate(reason) if is_of_name(reason) => {
                (TlsFault::OtherName, format!("the server's certificate is for another name ({error})"))
            }
            // One of the same name as the right one, with another key, has not signed it either.
            Error::InvalidCertificate(CertificateError::UnknownIssuer | CertificateError::BadSignature) => (
                TlsFault::UnknownAuthority,
                "no authority that is accepted has signed the server's certificate".to_owned(),
            ),
            Error::InvalidCertificate(_) => {
                (TlsFault::Certificate, format!("the server's certificate is not accepted ({error})"))
            }
            Error::InvalidMessage(_) => {
                (TlsFault::NotTls, format!("the server does not speak TLS on this port ({error})"))
            }
            Error::PeerIncompatible(_)
            | Error::AlertReceived(AlertDescription::ProtocolVersion | AlertDescription::HandshakeFailure) => {
                (TlsFault::NotTls, format!("the server does not speak TLS 1.3 ({error})"))
            }
            _ => (TlsFault::Other, error.to_string()),
        };
        Self { text, is_final, fault }
    }
}

/// The TLS of one socket, of either end.
pub struct Secured {
    connection: Connection,
    /// What is to be sent on the socket.
    sealed: Vec<u8>,
}

impl Secured {
    /// One whose handshake begins with what [`Secured::seal`] returns first.
    ///
    /// # Panics
    /// Never: the configuration was checked when it was built.
    pub fn new(tls: &Tls) -> Self {
        let connection = ClientConnection::new(Arc::clone(&tls.config), tls.name.clone());
        let mut connection = connection.expect("the configuration was checked when it was built");
        // A request is bounded by who writes it, and all of it is sealed at once.
        connection.set_buffer_limit(None);
        Self { connection: connection.into(), sealed: Vec::with_capacity(512) }
    }

    /// One of a server, which waits for the client's first word.
    ///
    /// # Panics
    /// Never: the configuration was checked when it was built.
    pub fn serving(tls: &ServerTls) -> Self {
        let mut connection = tls.connection();
        connection.set_buffer_limit(None);
        Self { connection: connection.into(), sealed: Vec::new() }
    }

    /// Says that nothing more will be sent: the next [`Secured::seal`] has it.
    pub fn close(&mut self) {
        self.connection.send_close_notify();
    }

    /// Whether the peers have not agreed yet.
    pub fn is_handshaking(&self) -> bool {
        self.connection.is_handshaking()
    }

    /// Whether something is to be sent though the conversation has written nothing.
    pub fn has_to_send(&self) -> bool {
        !self.sealed.is_empty() || self.connection.wants_write()
    }

    /// Seals all of `out`, and empties it. What is to be sent then, from its beginning.
    pub fn seal(&mut self, out: &mut Vec<u8>) -> &mut Vec<u8> {
        // Both write into memory without a limit.
        let _ = self.connection.writer().write_all(out);
        out.clear();
        while self.connection.wants_write() {
            if self.connection.write_tls(&mut self.sealed).is_err() {
                break;
            }
        }
        &mut self.sealed
    }

    /// Opens what came on the socket. The plain text is in `plain`, and nothing else is.
    ///
    /// # Errors
    /// When the peer does not keep TLS, or its certificate is not accepted.
    pub fn open(&mut self, mut received: &[u8], plain: &mut Vec<u8>) -> Result<(), TlsFailure> {
        plain.clear();
        while !received.is_empty() {
            match self.connection.read_tls(&mut received) {
                // It takes nothing after the peer has said that it closes.
                Ok(0) => return Err(TlsFailure::of("bytes came after the peer had closed")),
                Ok(_) => {}
                // It reads from memory, and its buffer has room since it was emptied.
                Err(_) => return Err(TlsFailure::of("a record is longer than it may be")),
            }
            let count = self.connection.process_new_packets()?.plaintext_bytes_to_read();
            let length = plain.len();
            plain.resize(length + count, 0);
            let read = self.connection.reader().read_exact(&mut plain[length..]);
            read.map_err(|_| TlsFailure::of("it had less than it said"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustls::{
        ServerConfig, ServerConnection,
        pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer},
    };

    fn server() -> ServerConnection {
        let made = rcgen::generate_simple_self_signed(["guest".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let mut connection = ServerConnection::new(Arc::new(config)).unwrap();
        connection.set_buffer_limit(None);
        connection
    }
    /// Carries bytes both ways until neither side has any. What the client could read of them.
    fn carry(
        client: &mut Secured,
        server: &mut ServerConnection,
        piece: usize,
    ) -> Result<Vec<u8>, TlsFailure> {
        let (mut all, mut plain) = (Vec::new(), Vec::new());
        loop {
            let sealed = std::mem::take(client.seal(&mut Vec::new()));
            for mut bytes in sealed.chunks(piece) {
                server.read_tls(&mut bytes).unwrap();
                server.process_new_packets()?;
            }
            let mut answer = Vec::new();
            while server.wants_write() {
                server.write_tls(&mut answer).unwrap();
            }
            for bytes in answer.chunks(piece) {
                client.open(bytes, &mut plain)?;
                all.extend_from_slice(&plain);
            }
            if answer.is_empty() && !client.has_to_send() {
                return Ok(all);
            }
        }
    }

    #[test]
    fn a_conversation_is_the_same_within_tls_however_it_is_cut() {
        for piece in [1, 7, 1_000, 100_000] {
            let tls = Tls::to_guest("10.77.1.0".parse().unwrap());
            let (mut client, mut server) = (Secured::new(&tls), server());
            assert!(client.is_handshaking());
            carry(&mut client, &mut server, piece).unwrap();
            assert!(!client.is_handshaking());
            client.seal(&mut b"GET /".to_vec());
            carry(&mut client, &mut server, piece).unwrap();
            let mut asked = [0; 5];
            server.reader().read_exact(&mut asked).unwrap();
            assert_eq!(&asked, b"GET /");
            let body: Vec<u8> = (0..100_000_u32).map(|byte| byte as u8).collect();
            for part in body.chunks(30_000) {
                server.writer().write_all(part).unwrap();
            }
            assert_eq!(carry(&mut client, &mut server, piece).unwrap(), body);
        }
    }

    #[test]
    fn what_comes_after_a_peer_has_closed_is_an_error_and_no_endless_loop() {
        let tls = Tls::to_guest("10.77.1.0".parse().unwrap());
        let (mut client, mut server) = (Secured::new(&tls), server());
        carry(&mut client, &mut server, 1_000).unwrap();
        server.send_close_notify();
        let mut bytes = Vec::new();
        server.write_tls(&mut bytes).unwrap();
        client.open(&bytes, &mut Vec::new()).unwrap();
        client.open(b"x", &mut Vec::new()).unwrap_err();
    }

    #[test]
    fn what_is_not_tls_and_a_changed_record_are_errors() {
        let tls = Tls::to_guest("10.77.1.0".parse().unwrap());
        let mut client = Secured::new(&tls);
        client.open(b"HTTP/1.1 400 Bad Request\r\n", &mut Vec::new()).unwrap_err();
        let (mut client, mut server) = (Secured::new(&tls), server());
        carry(&mut client, &mut server, 1_000).unwrap();
        server.writer().write_all(b"right").unwrap();
        let mut record = Vec::new();
        server.write_tls(&mut record).unwrap();
        *record.last_mut().unwrap() ^= 1;
        client.open(&record, &mut Vec::new()).unwrap_err();
    }
}
