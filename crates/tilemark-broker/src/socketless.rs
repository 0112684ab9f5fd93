//! The broker without sockets, threads and a clock, for tests of whatever its peers may send.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::Config;
use crate::connection::Origin;
use crate::engine::BrokerCore;
use crate::ids::ConnectionId;

/// A peer of a [`SocketlessBroker`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Peer(u64);

/// A broker without sockets, threads, a journal and a clock: bytes of peers go in, and what they would be sent comes out.
///
/// ```
/// use tilemark_broker::{Config, SocketlessBroker};
/// let mut broker = SocketlessBroker::new(&Config::new("127.0.0.1:0".parse()?));
/// let peer = broker.connect();
/// broker.receive(peer, b"GET / HTTP/1.1\r\n");
/// assert_eq!(broker.take_answers(peer), b"AMQP\x00\x00\x09\x01");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct SocketlessBroker {
    engine: BrokerCore,
    now: Instant,
    peers: BTreeMap<Peer, Socket>,
    last_peer: u64,
}

/// What the event loop keeps of a socket.
#[derive(Debug)]
struct Socket {
    id: ConnectionId,
    /// Bytes that the engine has not taken yet: the start of a frame, or all since the peer was paused.
    left: Vec<u8>,
}

impl SocketlessBroker {
    /// An empty one.
    pub fn new(config: &Config) -> Self {
        let now = Instant::now();
        Self { engine: BrokerCore::new(config, now), now, peers: BTreeMap::new(), last_peer: 0 }
    }

    /// A peer on this machine that has sent nothing yet.
    pub fn connect(&mut self) -> Peer {
        self.last_peer += 1;
        let peer = Peer(self.last_peer);
        let id = self.engine.connect(Origin::ThisMachine);
        self.peers.insert(peer, Socket { id, left: Vec::new() });
        peer
    }

    /// Takes bytes of a peer. A peer that is paused is not listened to: what it sends meanwhile is left out.
    pub fn receive(&mut self, peer: Peer, bytes: &[u8]) {
        let Some(socket) = self.peers.get_mut(&peer) else { return };
        if !self.engine.is_paused(socket.id) {
            socket.left.extend_from_slice(bytes);
            self.engine.heard_from(socket.id);
            let used = self.engine.receive(socket.id, &socket.left);
            socket.left.drain(..used);
        }
        self.turn();
    }

    /// What a peer is sent. It counts as received.
    pub fn take_answers(&mut self, peer: Peer) -> Vec<u8> {
        let Some(socket) = self.peers.get(&peer) else { return Vec::new() };
        let answers = self.engine.outbox(socket.id).map_or_else(Vec::new, |outbox| outbox.unsent().to_vec());
        self.engine.was_sent(socket.id, answers.len());
        self.turn();
        answers
    }

    /// The peer hangs up.
    pub fn disconnect(&mut self, peer: Peer) {
        if let Some(socket) = self.peers.remove(&peer) {
            self.engine.disconnect(socket.id);
            self.turn();
        }
    }

    /// Lets time pass.
    pub fn pass(&mut self, time: Duration) {
        self.now += time;
        self.engine.set_now(self.now);
        self.engine.tick();
        self.turn();
    }

    /// As the event loop does after each round.
    fn turn(&mut self) {
        self.engine.turn();
        self.engine.take_touched(&mut Vec::new());
        self.engine.take_newly_paused();
        let resumed = self.engine.take_resumed();
        for socket in self.peers.values_mut().filter(|socket| resumed.contains(&socket.id)) {
            let used = self.engine.receive(socket.id, &socket.left);
            socket.left.drain(..used);
        }
    }
}
