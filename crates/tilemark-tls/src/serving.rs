//! The server's end.

use rustls::{
    ServerConfig, ServerConnection,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    version::TLS13,
};
use std::{fmt, sync::Arc};

/// A server's certificate and key: TLS 1.3, clients without certificates.
#[derive(Clone)]
pub struct ServerTls {
    config: Arc<ServerConfig>,
}

impl fmt::Debug for ServerTls {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ServerTls").finish_non_exhaustive()
    }
}

/// What is wrong with a certificate or its key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServerTlsError {
    /// The certificate's text has none.
    #[error("{0}")]
    Certificate(String),
    /// The key's text has none.
    #[error("{0}")]
    Key(String),
    /// They do not belong together, or cannot be used.
    #[error("certificate and key cannot be used together: {0}")]
    Both(String),
}

impl ServerTls {
    /// From PEM texts: a certificate, those of the authorities between it and one that clients know after it, and its key.
    ///
    /// # Errors
    /// Where a text has no certificate or no key, or both do not belong together.
    pub fn of_pem(certificate: &str, key: &str) -> Result<Self, ServerTlsError> {
        let chain: Vec<CertificateDer<'static>> =
            CertificateDer::pem_slice_iter(certificate.as_bytes()).collect::<Result<_, _>>().map_err(
                |error| ServerTlsError::Certificate(format!("the certificate cannot be read: {error}")),
            )?;
        if chain.is_empty() {
            return Err(ServerTlsError::Certificate("it holds no certificate".to_owned()));
        }
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())
            .map_err(|_| ServerTlsError::Key("it holds no private key that can be read".to_owned()))?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_protocol_versions(&[&TLS13])
            .expect("this provider has TLS 1.3")
            .with_no_client_auth()
            .with_single_cert(chain, key)
            .map_err(|error| ServerTlsError::Both(error.to_string()))?;
        // Each handshake is a whole one: no tickets, which clients would have to read first.
        config.send_tls13_tickets = 0;
        Ok(Self { config: Arc::new(config) })
    }

    pub(crate) fn connection(&self) -> ServerConnection {
        ServerConnection::new(Arc::clone(&self.config))
            .expect("the configuration was checked when it was built")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Secured, Tls};

    fn made() -> (String, String) {
        let made = rcgen::generate_simple_self_signed(["broker.test".to_owned()]).unwrap();
        (made.cert.pem(), made.signing_key.serialize_pem())
    }

    #[test]
    fn both_ends_talk_and_each_sees_the_end() {
        let (certificate, key) = made();
        let tls = ServerTls::of_pem(&certificate, &key).unwrap();
        let (mut server, mut client) =
            (Secured::serving(&tls), Secured::new(&Tls::to_guest("127.0.0.1".parse().unwrap())));
        let (mut to_server, mut to_client) = (Vec::new(), Vec::new());
        let (mut at_server, mut at_client) = (Vec::new(), Vec::new());
        for _ in 0..4 {
            let sent = std::mem::take(client.seal(&mut to_server));
            server.open(&sent, &mut at_server).unwrap();
            let sent = std::mem::take(server.seal(&mut to_client));
            client.open(&sent, &mut at_client).unwrap();
        }
        assert!(!server.is_handshaking() && !client.is_handshaking());
        let sent = std::mem::take(client.seal(&mut b"AMQP".to_vec()));
        server.open(&sent, &mut at_server).unwrap();
        assert_eq!(at_server, b"AMQP");
        server.close();
        assert!(server.has_to_send(), "it says that it ends");
    }

    #[test]
    fn a_file_that_is_not_a_certificate_or_key_is_named() {
        let (certificate, key) = made();
        let (other, _) = made();
        let wrong = |certificate: &str, key: &str| ServerTls::of_pem(certificate, key).unwrap_err();
        assert!(matches!(wrong("hello", &key), ServerTlsError::Certificate(_)));
        assert!(matches!(wrong(&key, &key), ServerTlsError::Certificate(_)));
        assert!(matches!(wrong(&certificate, "hello"), ServerTlsError::Key(_)));
        assert!(matches!(wrong(&certificate, &certificate), ServerTlsError::Key(_)));
        assert!(matches!(wrong(&other, &key), ServerTlsError::Both(_)));
    }
}
