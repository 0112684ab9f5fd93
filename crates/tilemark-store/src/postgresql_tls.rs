//! TLS under the library of PostgreSQL: it asks for a stream that is secured, and rustls' own crate for tokio makes one.

use std::error::Error;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tilemark_tls::{Tls, TlsFailure};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::{TlsConnector, client};

/// Secures the library's sockets.
#[derive(Clone)]
pub(crate) struct Secure(pub(crate) Tls);

impl<S> MakeTlsConnect<S> for Secure
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = SecuredStream<S>;
    type TlsConnect = Self;
    type Error = Box<dyn Error + Send + Sync>;

    /// The name is the address's own, which ours is made of too.
    fn make_tls_connect(&mut self, _: &str) -> Result<Self, Self::Error> {
        Ok(self.clone())
    }
}

impl<S> TlsConnect<S> for Secure
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = SecuredStream<S>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<SecuredStream<S>, Self::Error>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        let shaking = TlsConnector::from(self.0.config()).connect(self.0.name(), stream);
        Box::pin(async move {
            match shaking.await {
                Ok(stream) => Ok(SecuredStream(Box::new(stream))),
                Err(error) => Err(TlsFailure::of_stream(error)),
            }
        })
    }
}

/// A secured socket of the library.
pub(crate) struct SecuredStream<S>(Box<client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for SecuredStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for SecuredStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        room: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(context, room)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for SecuredStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(context)
    }
}
