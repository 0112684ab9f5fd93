//! TLS on a wire, between its socket and the conversation: the conversation reads and writes what is inside. It opens no socket itself.

use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, Error, RootCertStore,
    SignatureScheme,
    client::{
        Resumption,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
    version::TLS13,
};
use std::{
    io::{Read, Write},
    net::IpAddr,
    sync::Arc,
};

/// How a conversation's wires are secured.
#[derive(Debug, Clone)]
pub struct Tls {
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
}

impl Tls {
    /// TLS 1.3 to a guest at that address. A guest makes its certificate itself, so that nobody has signed it: any one is accepted whose key signs
    /// the handshake. What a handshake costs is then the same as with a signed one, but for the lookup of who signed it.
    pub fn to_guest(address: IpAddr) -> Self {
        Self::with(ServerName::IpAddress(address.into()), None)
    }

    /// TLS 1.3 to a server by its name, or by its address where it has none. `ca`: PEM text of authorities; one of them must have signed its
    /// certificate, which must be for that name; `None`: as with a guest, any certificate is accepted.
    ///
    /// # Errors
    /// In words, where the name or the certificates are none.
    pub fn to_server(name: Option<&str>, address: IpAddr, ca: Option<&str>) -> Result<Self, String> {
        let name = match name {
            Some(text) => ServerName::try_from(text.to_owned())
                .map_err(|_| format!("{text:?} is neither a name nor an address"))?,
            None => ServerName::IpAddress(address.into()),
        };
        let roots = ca.map(roots_of).transpose()?;
        Ok(Self::with(name, roots))
    }

    fn with(name: ServerName<'static>, roots: Option<RootCertStore>) -> Self {
        let provider = ring::default_provider();
        let verifier = AnyCertificate { algorithms: provider.signature_verification_algorithms };
        let builder = ClientConfig::builder_with_provider(Arc::new(provider))
            .with_protocol_versions(&[&TLS13])
            .expect("this provider has TLS 1.3");
        let mut config = match roots {
            Some(roots) => builder.with_root_certificates(roots).with_no_client_auth(),
            None => {
                builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
            }
        };
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

/// Accepts a certificate by its key alone.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
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

/// What ends a wire: the peer does not speak TLS, or not as it must.
#[derive(Debug, thiserror::Error)]
#[error("TLS: {text}")]
pub struct TlsFailure {
    text: String,
    /// Another attempt would end in the same way.
    pub is_final: bool,
}

impl TlsFailure {
    fn of(text: &str) -> Self {
        Self { text: text.to_owned(), is_final: false }
    }
}

impl From<Error> for TlsFailure {
    fn from(error: Error) -> Self {
        let is_final = matches!(
            error,
            Error::InvalidCertificate(_) | Error::InvalidMessage(_) | Error::PeerIncompatible(_)
        );
        let text = match &error {
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => format!("the server's certificate is for another name ({error})"),
            Error::InvalidCertificate(CertificateError::UnknownIssuer) => {
                "no authority that is accepted has signed the server's certificate".to_owned()
            }
            Error::InvalidCertificate(_) => format!("the server's certificate is not accepted ({error})"),
            Error::InvalidMessage(_) => format!("the server does not speak TLS on this port ({error})"),
            _ => error.to_string(),
        };
        Self { text, is_final }
    }
}

/// The TLS of one socket.
pub struct Secured {
    connection: ClientConnection,
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
        Self { connection, sealed: Vec::with_capacity(512) }
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
