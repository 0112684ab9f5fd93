//! Sockets around the engine: one thread, epoll, level-triggered.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, sockopt};

use tilemark_tls::ServerTls;

use crate::config::{Config, Notice};
use crate::connection::Origin;
use crate::engine::{BrokerCore, Statistics};
use crate::ids::ConnectionId;
use crate::secured::{Received, SEALED_AT_ONCE, SecuredSocket};
use crate::slab::Key;

/// One read takes at most this much of a peer, so that none keeps the others waiting.
const READ_BYTES: usize = 256 * 1024;
/// What the last read left is in front of it: less than a frame, or what a paused peer had sent.
const BUFFER_BYTES: usize = 2 * READ_BYTES;
const LISTENER: u64 = u64::MAX;
const WAKE: u64 = u64::MAX - 1;
/// Short, so that a peer is dropped after two of its heartbeat's intervals, and not half an interval later.
const TICK: Duration = Duration::from_millis(250);
/// After a failed accept (no descriptors left) others are served for this long before the next try.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// At the end, peers have this long to answer `connection.close`, and the disk to store what was taken.
const FAREWELL: Duration = Duration::from_secs(5);

/// What the loop and its owner share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) stop: AtomicBool,
    pub(crate) wake: OwnedFd,
    pub(crate) statistics: Mutex<Statistics>,
}

impl Shared {
    pub(crate) fn ask_to_end(&self) {
        self.stop.store(true, Ordering::Release);
        // Fails only when the counter is full, and then the loop is awake already.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
    }
}

#[derive(Debug)]
struct Socket {
    id: ConnectionId,
    stream: TcpStream,
    /// Bytes that were read and not used.
    left: Vec<u8>,
    interest: EventFlags,
    /// Where what is said is secured.
    secured: Option<Box<SecuredSocket>>,
    /// We have said our last word and wait for the peer to hang up.
    is_shut: bool,
}

#[derive(Debug)]
pub(crate) struct EventLoop {
    epoll: OwnedFd,
    listener: TcpListener,
    accept_again: Option<Instant>,
    engine: BrokerCore,
    /// By the index of the connection's key.
    sockets: Vec<Option<Socket>>,
    buffer: Vec<u8>,
    touched: Vec<ConnectionId>,
    shared: Arc<Shared>,
    next_tick: Instant,
    tls: Option<ServerTls>,
    notify: fn(&Notice),
    /// The failure of the journal was reported to the operator.
    has_reported_failure: bool,
}

impl EventLoop {
    pub(crate) fn new(
        listener: TcpListener,
        engine: BrokerCore,
        shared: Arc<Shared>,
        config: &Config,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        epoll::add(&epoll, &shared.wake, EventData::new_u64(WAKE), EventFlags::IN)?;
        Ok(Self {
            epoll,
            listener,
            accept_again: None,
            engine,
            sockets: Vec::new(),
            buffer: vec![0; BUFFER_BYTES],
            touched: Vec::new(),
            shared,
            next_tick: Instant::now() + TICK,
            tls: config.tls.clone(),
            notify: config.notify,
            has_reported_failure: false,
        })
    }

    /// Serves until the owner asks for the end.
    pub(crate) fn run(mut self) -> io::Result<Statistics> {
        let mut events = Vec::with_capacity(256);
        while !self.shared.stop.load(Ordering::Acquire) {
            self.round(&mut events)?;
        }
        self.engine.shut_down();
        let end = Instant::now() + FAREWELL;
        self.next_tick = Instant::now();
        while Instant::now() < end && !(self.engine.is_settled() && self.sockets.iter().all(Option::is_none))
        {
            self.round(&mut events)?;
        }
        if self.engine.is_settled() {
            self.engine.close_journal();
            while Instant::now() < end && !self.engine.is_settled() {
                self.round(&mut events)?;
            }
        }
        self.publish_statistics();
        Ok(self.engine.statistics())
    }

    fn round(&mut self, events: &mut Vec<epoll::Event>) -> io::Result<()> {
        let timeout = self.timeout();
        let timeout = rustix::time::Timespec {
            tv_sec: timeout.as_secs().cast_signed(),
            tv_nsec: timeout.subsec_nanos().into(),
        };
        events.clear();
        match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(events), Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
        let now = Instant::now();
        self.engine.set_now(now);
        for event in events.iter() {
            match event.data.u64() {
                LISTENER => self.accept(now),
                WAKE => drain(&self.shared.wake),
                token => self.socket_event(Key::from_u64(token), event.flags),
            }
        }
        if self.accept_again.is_some_and(|at| at <= now) {
            self.accept_again = None;
            epoll::modify(&self.epoll, &self.listener, EventData::new_u64(LISTENER), EventFlags::IN)?;
        }
        if now >= self.next_tick {
            self.next_tick = now + TICK;
            self.engine.tick();
            self.publish_statistics();
            self.report_failure();
        }
        for id in self.engine.take_resumed() {
            self.resume(id);
        }
        self.engine.turn();
        self.flush_touched();
        Ok(())
    }

    fn timeout(&self) -> Duration {
        if self.engine.has_work() {
            return Duration::ZERO;
        }
        let engine = &self.engine;
        let deadlines =
            [Some(self.next_tick), engine.next_resumption(), engine.next_alarm(), self.accept_again];
        let next = deadlines.into_iter().flatten().min().unwrap_or(self.next_tick);
        next.saturating_duration_since(Instant::now())
    }

    fn report_failure(&mut self) {
        if !self.has_reported_failure
            && let Some(error) = self.engine.journal_failure()
        {
            self.has_reported_failure = true;
            (self.notify)(&Notice::JournalFailed { error });
        }
    }

    fn publish_statistics(&self) {
        *self.shared.statistics.lock().unwrap_or_else(PoisonError::into_inner) = self.engine.statistics();
    }

    fn accept(&mut self, now: Instant) {
        loop {
            match self.listener.accept() {
                Ok((stream, peer)) => {
                    // A peer that is gone before it was set up is of no interest.
                    let _ = self.welcome(stream, peer);
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == io::ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.accept_again = Some(now + ACCEPT_PAUSE);
                    // Without interest the listener does not wake us until the pause is over.
                    let _ = epoll::modify(
                        &self.epoll,
                        &self.listener,
                        EventData::new_u64(LISTENER),
                        EventFlags::empty(),
                    );
                    return;
                }
            }
        }
    }

    fn welcome(&mut self, stream: TcpStream, peer: SocketAddr) -> io::Result<()> {
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        sockopt::set_socket_keepalive(&stream, true)?;
        sockopt::set_tcp_keepidle(&stream, Duration::from_secs(30))?;
        sockopt::set_tcp_keepintvl(&stream, Duration::from_secs(10))?;
        sockopt::set_tcp_keepcnt(&stream, 3)?;
        let is_here = peer.ip().to_canonical().is_loopback();
        let id = self.engine.connect(if is_here { Origin::ThisMachine } else { Origin::Elsewhere });
        let interest = EventFlags::IN;
        if let Err(error) = epoll::add(&self.epoll, &stream, EventData::new_u64(id.to_u64()), interest) {
            self.engine.disconnect(id);
            return Err(error.into());
        }
        let place = id.index as usize;
        if self.sockets.len() <= place {
            self.sockets.resize_with(place + 1, || None);
        }
        let secured = self.tls.as_ref().map(|tls| Box::new(SecuredSocket::new(tls)));
        self.sockets[place] =
            Some(Socket { id, stream, left: Vec::new(), interest, secured, is_shut: false });
        Ok(())
    }

    fn socket(&mut self, id: ConnectionId) -> Option<&mut Socket> {
        self.sockets.get_mut(id.index as usize)?.as_mut().filter(|socket| socket.id == id)
    }

    fn socket_event(&mut self, id: ConnectionId, flags: EventFlags) {
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.read(id);
        }
        if flags.contains(EventFlags::OUT) {
            self.flush(id);
        }
    }

    fn read(&mut self, id: ConnectionId) {
        let Some(Some(socket)) = self.sockets.get_mut(id.index as usize) else { return };
        if socket.id != id {
            return;
        }
        if socket.secured.is_some() {
            self.read_secured(id);
            return;
        }
        let left = socket.left.len();
        self.buffer[..left].copy_from_slice(&socket.left);
        let end = BUFFER_BYTES.min(left + READ_BYTES);
        match rustix::net::recv(&socket.stream, &mut self.buffer[left..end], RecvFlags::DONTWAIT) {
            Ok((0, _)) => self.drop_socket(id),
            Ok((count, _)) => {
                let total = left + count;
                self.engine.heard_from(id);
                let used = self.engine.receive(id, &self.buffer[..total]);
                socket.left.clear();
                socket.left.extend_from_slice(&self.buffer[used..total]);
                self.set_interest(id);
            }
            Err(Errno::AGAIN | Errno::INTR) => {}
            Err(_) => self.drop_socket(id),
        }
    }

    fn read_secured(&mut self, id: ConnectionId) {
        let Some(Some(socket)) = self.sockets.get_mut(id.index as usize) else { return };
        let Some(secured) = &mut socket.secured else { return };
        match secured.receive(&socket.stream, &mut self.buffer) {
            Received::Nothing => return,
            Received::Over => {
                self.drop_socket(id);
                return;
            }
            Received::Some => {}
        }
        let mut bytes = std::mem::take(&mut socket.left);
        bytes.extend_from_slice(&secured.plain);
        let has_to_send = secured.has_to_send();
        self.engine.heard_from(id);
        let used = self.engine.receive(id, &bytes);
        bytes.drain(..used);
        if let Some(socket) = self.socket(id) {
            socket.left = bytes;
        }
        if has_to_send {
            self.flush(id);
        } else {
            self.set_interest(id);
        }
    }

    /// Goes on with a peer that had been paused: first with what it had sent already.
    fn resume(&mut self, id: ConnectionId) {
        let Some(socket) = self.socket(id) else { return };
        let mut left = std::mem::take(&mut socket.left);
        let used = self.engine.receive(id, &left);
        left.drain(..used);
        if let Some(socket) = self.socket(id) {
            socket.left = left;
        }
        self.engine.heard_from(id);
        self.set_interest(id);
    }

    /// Reads unless the peer is paused, writes when something waits.
    fn set_interest(&mut self, id: ConnectionId) {
        let Some(Some(socket)) = self.sockets.get_mut(id.index as usize) else { return };
        if socket.id != id {
            return;
        }
        let mut wanted = EventFlags::empty();
        wanted.set(EventFlags::IN, !self.engine.is_paused(id));
        let mut has_to_send = self.engine.outbox(id).is_some_and(|outbox| !outbox.is_empty());
        if let Some(secured) = &socket.secured {
            // Before both ends agree nothing can be said, however long the outbox is.
            has_to_send = secured.has_to_send() || (has_to_send && !secured.is_handshaking());
        }
        wanted.set(EventFlags::OUT, has_to_send);
        if wanted != socket.interest
            && epoll::modify(&self.epoll, &socket.stream, EventData::new_u64(id.to_u64()), wanted).is_ok()
        {
            socket.interest = wanted;
        }
    }

    fn flush_touched(&mut self) {
        let mut touched = std::mem::take(&mut self.touched);
        self.engine.take_touched(&mut touched);
        for id in touched.drain(..) {
            self.flush(id);
        }
        self.touched = touched;
        // Those whom this turn has paused.
        for id in self.engine.take_newly_paused() {
            self.set_interest(id);
        }
    }

    fn flush(&mut self, id: ConnectionId) {
        loop {
            let Some(outbox) = self.engine.outbox(id) else { return };
            if outbox.is_empty() {
                break;
            }
            let Some(Some(socket)) = self.sockets.get(id.index as usize) else { return };
            if socket.secured.is_some() {
                break;
            }
            match rustix::net::send(
                &socket.stream,
                outbox.unsent(),
                SendFlags::NOSIGNAL | SendFlags::DONTWAIT,
            ) {
                Ok(count) => {
                    let is_all = count == outbox.len();
                    self.engine.was_sent(id, count);
                    if !is_all {
                        break;
                    }
                }
                Err(Errno::AGAIN) => break,
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.drop_socket(id);
                    return;
                }
            }
        }
        if self.tls.is_some() && !self.flush_secured(id) {
            self.drop_socket(id);
            return;
        }
        self.set_interest(id);
        self.end_if_over(id);
    }

    /// Seals and sends as much as the socket takes; `false` where it takes nothing any more.
    fn flush_secured(&mut self, id: ConnectionId) -> bool {
        let Some(Some(socket)) = self.sockets.get_mut(id.index as usize) else { return true };
        let Some(secured) = socket.secured.as_mut().filter(|_| socket.id == id) else { return true };
        loop {
            match secured.flush(&socket.stream) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(_) => return false,
            }
            let Some(outbox) = self.engine.outbox(id) else { return true };
            if outbox.is_empty() || secured.is_handshaking() {
                return true;
            }
            let part = &outbox.unsent()[..outbox.len().min(SEALED_AT_ONCE)];
            let count = part.len();
            secured.seal(part);
            self.engine.was_sent(id, count);
        }
    }

    /// When the last word is sent, waits for the peer to hang up: dropping the socket at once could take the last word back.
    fn end_if_over(&mut self, id: ConnectionId) {
        let is_over =
            self.engine.is_ended(id) && self.engine.outbox(id).is_none_or(|outbox| outbox.is_empty());
        if !is_over {
            return;
        }
        let Some(socket) = self.socket(id) else { return };
        if let Some(secured) = &mut socket.secured {
            if secured.has_to_send() {
                return;
            }
            if !socket.is_shut {
                secured.say_goodbye(&socket.stream);
            }
        }
        if socket.is_shut || socket.stream.shutdown(std::net::Shutdown::Write).is_err() {
            self.drop_socket(id);
        } else {
            socket.is_shut = true;
        }
    }

    fn drop_socket(&mut self, id: ConnectionId) {
        if self.socket(id).is_some()
            && let Some(socket) = self.sockets[id.index as usize].take()
        {
            // Closing takes it out of epoll, too; asking first keeps stale events of a duplicated descriptor away.
            let _ = epoll::delete(&self.epoll, socket.stream.as_fd());
        }
        self.engine.disconnect(id);
    }
}

fn drain(wake: &OwnedFd) {
    let mut count = [0; 8];
    // An eventfd that nobody has raised since says EAGAIN, which is as good.
    let _ = rustix::io::read(wake, &mut count);
}
