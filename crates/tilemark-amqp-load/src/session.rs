//! A connection to a broker, with one channel.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags};
use tilemark_amqp::{Inbox, LongStr, Method, PROTOCOL_HEADER, ShortStr, TableBuilder, put_method};

use crate::input::{Notice, interpret};
use crate::secured::{ReceiveError, SecuredWire, Tried};
use crate::{BrokerAddress, LoadError};

/// The channel that each session uses.
pub(crate) const CHANNEL: u16 = 1;
/// What we ask for; brokers commonly offer the same.
const FRAME_MAX: usize = 131_072;
/// The receive buffer: large enough that one system call brings thousands of small messages.
const RECEIVE_BYTES: usize = 512 * 1024;

/// What one attempt to send or receive brought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moved {
    Bytes(usize),
    /// The socket's buffer is full or empty.
    WouldBlock,
}

/// Whether the broker lets us publish, and for how long it did not (`connection.blocked`).
#[derive(Debug, Default)]
pub(crate) struct Blockade {
    since: Option<(Instant, String)>,
    before: Duration,
}

impl Blockade {
    /// Begins or ends it, where that is what the broker says.
    pub(crate) fn hear(&mut self, notice: &Notice<'_>) {
        match notice {
            Notice::Blocked(reason) => {
                self.since.get_or_insert_with(|| (Instant::now(), reason.clone()));
            }
            Notice::Unblocked => {
                if let Some((since, _)) = self.since.take() {
                    self.before += since.elapsed();
                }
            }
            Notice::Method(_) | Notice::Other => {}
        }
    }

    /// All the time in which publishers had to wait.
    pub(crate) fn total(&self) -> Duration {
        self.before + self.since.as_ref().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// Why the broker did not do `what` within our timeout.
    pub(crate) fn error(&self, what: &'static str, timeout: Duration) -> LoadError {
        match &self.since {
            Some((_, reason)) => LoadError::Blocked { reason: reason.clone(), timeout },
            None => LoadError::Stalled { what, timeout },
        }
    }
}

/// Connects to the first address that answers. If none does, the first failure is reported.
fn connect(sockets: &[SocketAddr], timeout: Duration) -> Result<TcpStream, LoadError> {
    let mut failed = None;
    for &address in sockets {
        match TcpStream::connect_timeout(&address, timeout) {
            Ok(stream) => return Ok(stream),
            Err(source) => failed = failed.or(Some(LoadError::Connect { address, source })),
        }
    }
    Err(failed.expect("a broker's host has at least one address"))
}

/// An open connection with an open channel.
#[derive(Debug)]
pub struct Session {
    stream: TcpStream,
    /// Its TLS, where the broker wants it.
    secured: Option<Box<SecuredWire>>,
    pub(crate) inbox: Inbox,
    pub(crate) frame_max: usize,
    pub(crate) blockade: Blockade,
    timeout: Duration,
}

impl Session {
    /// Connects, identifies itself and opens a channel. Nothing may take longer than `timeout`.
    pub fn open(broker: &BrokerAddress, timeout: Duration) -> Result<Self, LoadError> {
        let stream = connect(&broker.sockets, timeout)?;
        stream.set_nodelay(true).map_err(LoadError::Socket)?;
        let inbox = Inbox::new(RECEIVE_BYTES, FRAME_MAX);
        let secured = SecuredWire::of(broker)?.map(Box::new);
        let mut session =
            Self { stream, secured, inbox, frame_max: FRAME_MAX, blockade: Blockade::default(), timeout };
        session.secure()?;
        session.shake_hands(broker)?;
        let open = Method::ChannelOpen { reserved_1: ShortStr::default() };
        session.call(&open, "open a channel", |method| {
            matches!(method, Method::ChannelOpenOk { .. }).then_some(())
        })?;
        Ok(session)
    }

    /// Agrees on keys, where there is TLS.
    fn secure(&mut self) -> Result<(), LoadError> {
        let deadline = Instant::now() + self.timeout;
        while self.secured.as_ref().is_some_and(|secured| secured.is_handshaking() || secured.has_to_send()) {
            self.flush()?;
            if self.secured.as_ref().is_some_and(|secured| !secured.is_handshaking()) {
                continue;
            }
            self.wait(PollFlags::IN, deadline.saturating_duration_since(Instant::now()))?;
            if self.receive()? == Moved::WouldBlock && Instant::now() >= deadline {
                return Err(self.blockade.error("shake hands over TLS", self.timeout));
            }
        }
        Ok(())
    }

    /// Sends what was sealed and is not sent, as far as it fits; says whether nothing is left of it.
    fn flush(&mut self) -> Result<bool, LoadError> {
        match &mut self.secured {
            Some(secured) => {
                secured.flush(&self.stream).map_err(|error| LoadError::Socket(io::Error::from(error)))
            }
            None => Ok(true),
        }
    }

    fn shake_hands(&mut self, broker: &BrokerAddress) -> Result<(), LoadError> {
        self.send_all(&PROTOCOL_HEADER)?;
        self.wait_for("greet", |method| matches!(method, Method::ConnectionStart { .. }).then_some(()))?;
        let capabilities = TableBuilder::new()
            .truth("publisher_confirms", true)
            .truth("basic.nack", true)
            .truth("connection.blocked", true)
            .truth("consumer_cancel_notify", true)
            .truth("authentication_failure_close", true);
        let properties = TableBuilder::new()
            .text("product", "Tilemark load")
            .text("version", env!("CARGO_PKG_VERSION"))
            .table("capabilities", &capabilities);
        let response = format!("\0{}\0{}", broker.user, broker.password);
        let start_ok = Method::ConnectionStartOk {
            client_properties: properties.as_table(),
            mechanism: ShortStr::cut("PLAIN"),
            response: LongStr(response.as_bytes()),
            locale: ShortStr::cut("en_US"),
        };
        self.send_on(0, &start_ok)?;
        let (channel_max, frame_max) = self.wait_for_tune().map_err(|error| match error {
            // A broker that was not asked for a reason hangs up; one that was says 403, and Broker-J 530.
            LoadError::HungUp | LoadError::Closed { code: 403 | 530, .. } => {
                LoadError::WrongPassword { user: broker.user.clone() }
            }
            error => error,
        })?;
        self.frame_max = match frame_max {
            0 => FRAME_MAX,
            limit => FRAME_MAX.min(limit as usize),
        };
        let frame_max = u32::try_from(self.frame_max).expect("at most 128 KiB");
        // Heartbeat 0: a load that is stopped in a debugger should not be cut off; our own timeout is the limit.
        self.send_on(0, &Method::ConnectionTuneOk { channel_max, frame_max, heartbeat: 0 })?;
        let virtual_host = ShortStr::cut(&broker.virtual_host);
        let open =
            Method::ConnectionOpen { virtual_host, reserved_1: ShortStr::default(), reserved_2: false };
        self.send_on(0, &open)?;
        self.wait_for("open the connection", |method| {
            matches!(method, Method::ConnectionOpenOk { .. }).then_some(())
        })
    }

    fn wait_for_tune(&mut self) -> Result<(u16, u32), LoadError> {
        self.wait_for("answer the credentials", |method| match method {
            Method::ConnectionTune { channel_max, frame_max, .. } => Some((*channel_max, *frame_max)),
            _ => None,
        })
    }

    fn send_on(&mut self, channel: u16, method: &Method<'_>) -> Result<(), LoadError> {
        let mut wire = Vec::new();
        put_method(&mut wire, channel, method);
        self.send_all(&wire)
    }

    /// Sends a method on the session's channel.
    pub(crate) fn send(&mut self, method: &Method<'_>) -> Result<(), LoadError> {
        self.send_on(CHANNEL, method)
    }

    /// Sends a method and waits for the answer that `accept` takes; other methods are passed over.
    pub fn call<R>(
        &mut self,
        method: &Method<'_>,
        what: &'static str,
        accept: impl FnMut(&Method<'_>) -> Option<R>,
    ) -> Result<R, LoadError> {
        self.send(method)?;
        self.wait_for(what, accept)
    }

    pub(crate) fn wait_for<R>(
        &mut self,
        what: &'static str,
        mut accept: impl FnMut(&Method<'_>) -> Option<R>,
    ) -> Result<R, LoadError> {
        let deadline = Instant::now() + self.timeout;
        loop {
            while let Some(frame) = self.inbox.next_frame().map_err(LoadError::Malformed)? {
                let notice = interpret(&frame)?;
                self.blockade.hear(&notice);
                if let Notice::Method(method) = notice
                    && let Some(result) = accept(&method)
                {
                    return Ok(result);
                }
            }
            self.wait(PollFlags::IN, deadline.saturating_duration_since(Instant::now()))?;
            if self.receive()? == Moved::WouldBlock && Instant::now() >= deadline {
                return Err(self.blockade.error(what, self.timeout));
            }
        }
    }

    /// Waits until the socket is ready, at most for `limit`.
    pub(crate) fn wait(&self, mut flags: PollFlags, limit: Duration) -> Result<PollFlags, LoadError> {
        if let Some(secured) = &self.secured {
            if secured.has_plain() && flags.contains(PollFlags::IN) {
                return Ok(PollFlags::IN);
            }
            if secured.has_to_send() {
                flags |= PollFlags::OUT;
            }
        }
        let limit = Timespec { tv_sec: limit.as_secs().cast_signed(), tv_nsec: limit.subsec_nanos().into() };
        let mut sockets = [PollFd::new(&self.stream, flags)];
        match poll(&mut sockets, Some(&limit)) {
            Ok(_) => Ok(sockets[0].revents()),
            Err(Errno::INTR) => Ok(PollFlags::empty()),
            Err(error) => Err(LoadError::Socket(error.into())),
        }
    }

    /// How long the broker may take for anything.
    pub(crate) const fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets for how long [`Session::receive_waiting`] waits.
    pub(crate) fn set_receive_wait(&self, limit: Duration) -> Result<(), LoadError> {
        self.stream.set_read_timeout(Some(limit)).map_err(LoadError::Socket)
    }

    /// Takes what comes in, waiting a moment when there is nothing: one system call between a message and its receiver.
    pub(crate) fn receive_waiting(&mut self) -> Result<Moved, LoadError> {
        self.receive_with(RecvFlags::empty())
    }

    /// Takes what has come in, without waiting.
    pub(crate) fn receive(&mut self) -> Result<Moved, LoadError> {
        self.receive_with(RecvFlags::DONTWAIT)
    }

    fn receive_with(&mut self, flags: RecvFlags) -> Result<Moved, LoadError> {
        if let Some(secured) = &mut self.secured {
            return match secured.receive(&self.stream, self.inbox.space(), flags) {
                Ok(Tried::Bytes(count)) => {
                    self.inbox.received(count);
                    Ok(Moved::Bytes(count))
                }
                Ok(Tried::WouldBlock) => Ok(Moved::WouldBlock),
                Ok(Tried::HungUp) => Err(LoadError::HungUp),
                Err(ReceiveError::Socket(error)) => Err(LoadError::Socket(io::Error::from(error))),
                Err(ReceiveError::Tls(why)) => Err(LoadError::Tls(why)),
            };
        }
        match rustix::net::recv(&self.stream, self.inbox.space(), flags) {
            Ok((0, _)) => Err(LoadError::HungUp),
            Ok((count, _)) => {
                self.inbox.received(count);
                Ok(Moved::Bytes(count))
            }
            Err(Errno::AGAIN | Errno::INTR) => Ok(Moved::WouldBlock),
            Err(error) => Err(self.socket_error(error)),
        }
    }

    /// Sends as much as fits, without waiting.
    pub(crate) fn try_send(&mut self, bytes: &[u8]) -> Result<Moved, LoadError> {
        if let Some(secured) = &mut self.secured {
            return match secured.send(&self.stream, bytes) {
                Ok(Tried::Bytes(count)) => Ok(Moved::Bytes(count)),
                Ok(Tried::WouldBlock | Tried::HungUp) => Ok(Moved::WouldBlock),
                Err(error) => Err(self.socket_error(error)),
            };
        }
        match rustix::net::send(&self.stream, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(count) => Ok(Moved::Bytes(count)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Moved::WouldBlock),
            Err(error) => Err(self.socket_error(error)),
        }
    }

    /// A broker that closes a connection may have said why before; that says more than the socket does.
    fn socket_error(&mut self, error: Errno) -> LoadError {
        if error == Errno::PIPE {
            while let Ok(Moved::Bytes(_)) = self.receive() {}
        }
        while let Ok(Some(frame)) = self.inbox.next_frame() {
            if let Err(reason) = interpret(&frame) {
                return reason;
            }
        }
        LoadError::Socket(io::Error::from(error))
    }

    /// Sends all of it, waiting when the broker does not read.
    pub(crate) fn send_all(&mut self, mut bytes: &[u8]) -> Result<(), LoadError> {
        let mut deadline = Instant::now() + self.timeout;
        while !bytes.is_empty() || !self.flush()? {
            match self.try_send(bytes)? {
                // Nothing but the end of what was sealed is left: it is waited for below.
                Moved::Bytes(0) => {
                    self.wait(PollFlags::OUT, deadline.saturating_duration_since(Instant::now()))?;
                }
                Moved::Bytes(count) => {
                    bytes = &bytes[count..];
                    deadline = Instant::now() + self.timeout;
                }
                Moved::WouldBlock if Instant::now() >= deadline => {
                    return Err(self.blockade.error("read", self.timeout));
                }
                Moved::WouldBlock => {
                    self.wait(PollFlags::OUT, deadline.saturating_duration_since(Instant::now()))?;
                }
            }
        }
        Ok(())
    }

    /// Says goodbye. When this returns, the broker has taken all that was sent.
    pub fn close(mut self) -> Result<(), LoadError> {
        let close = Method::ConnectionClose {
            reply_code: 200,
            reply_text: ShortStr::default(),
            class_id: 0,
            method_id: 0,
        };
        self.send_on(0, &close)?;
        self.wait_for("close the connection", |method| {
            matches!(method, Method::ConnectionCloseOk {}).then_some(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_broker::{Config, serve};

    const TIMEOUT: Duration = Duration::from_secs(30);

    /// A port that speaks TLS with a certificate for `localhost`, and hands all that is in it to the reference broker; and the
    /// certificate as PEM text.
    fn tls_in_front(of: SocketAddr) -> (SocketAddr, String) {
        use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
        use std::{
            io::{Read, Write},
            net::TcpListener,
            sync::Arc,
            thread,
        };
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let config = Arc::new(config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let config = Arc::clone(&config);
                thread::spawn(move || {
                    let mut broker = TcpStream::connect(of).unwrap();
                    let mut client = client;
                    let mut tls = rustls::ServerConnection::new(config).unwrap();
                    for stream in [&client, &broker] {
                        stream.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
                    }
                    let idle = |error: &io::Error| {
                        matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
                    };
                    let mut bytes = [0; 16384];
                    loop {
                        match tls.read_tls(&mut client) {
                            Ok(0) => return,
                            Ok(_) if tls.process_new_packets().is_err() => {
                                let _ = tls.write_tls(&mut client);
                                return;
                            }
                            Ok(_) => {}
                            Err(error) if idle(&error) => {}
                            Err(_) => return,
                        }
                        while let Ok(count @ 1..) = tls.reader().read(&mut bytes) {
                            broker.write_all(&bytes[..count]).unwrap();
                        }
                        match broker.read(&mut bytes) {
                            Ok(0) => return,
                            Ok(count) => tls.writer().write_all(&bytes[..count]).unwrap(),
                            Err(error) if idle(&error) => {}
                            Err(_) => return,
                        }
                        while tls.wants_write() {
                            if tls.write_tls(&mut client).is_err() {
                                return;
                            }
                        }
                    }
                });
            }
        });
        (address, made.cert.pem())
    }

    #[test]
    fn a_load_over_tls_loses_nothing_and_a_certificate_is_checked() {
        let broker = serve(Config::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let (front, pem) = tls_in_front(broker.address());
        let at = |host: &str| format!("amqps://{host}:{}", front.port()).parse::<BrokerAddress>().unwrap();
        let trusted = at("localhost").trusting(Some(pem.clone()));
        let messages = tilemark_plan::workload::MessagingParameters {
            count: 2_000,
            size: tilemark_units::Bytes::new(3_000),
            ..Default::default()
        };
        let load = crate::ThroughputLoad { messages, ..crate::ThroughputLoad::new(trusted) };
        let report = crate::throughput(&load).unwrap();
        assert_eq!((report.lost, report.damaged, report.duplicated), (0, 0, 0));
        assert_eq!(report.received, 2_000, "{report:?}");
        // Any certificate, by its address.
        Session::open(&at("127.0.0.1"), TIMEOUT).unwrap().close().unwrap();
        let other = Session::open(&at("127.0.0.1").trusting(Some(pem)), TIMEOUT).unwrap_err().to_string();
        assert!(other.contains("certificate is for another name"), "{other}");
        let stranger = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap().cert.pem();
        let unknown = Session::open(&at("localhost").trusting(Some(stranger)), TIMEOUT).unwrap_err();
        assert!(unknown.to_string().starts_with("TLS: "), "{unknown}");
        // A broker without TLS.
        let plain = BrokerAddress { sockets: vec![broker.address()], ..at("localhost") };
        let error = Session::open(&plain, TIMEOUT).unwrap_err();
        assert!(matches!(error, LoadError::Tls(_) | LoadError::HungUp), "{error}");
    }

    #[test]
    fn a_host_is_tried_at_each_of_its_addresses() {
        let broker = serve(Config::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let there = BrokerAddress::guest(broker.address());
        // Nobody else can have the broker's port on all addresses, so nobody listens at this one.
        let nobody = SocketAddr::new([127, 0, 0, 2].into(), broker.address().port());
        let host = BrokerAddress { sockets: vec![nobody, broker.address()], ..there.clone() };
        Session::open(&host, TIMEOUT).unwrap().close().unwrap();
        let error = Session::open(&BrokerAddress { sockets: vec![nobody; 2], ..there }, TIMEOUT).unwrap_err();
        assert!(matches!(error, LoadError::Connect { address, .. } if address == nobody), "{error}");
    }
}
