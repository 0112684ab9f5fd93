//! What a load declares on a broker, and takes away again.

use std::time::Duration;

use tilemark_amqp::{Method, ShortStr, Table, TableBuilder};

use crate::{BrokerAddress, LoadError, Session};
use tilemark_plan::workload::MessagingMode as Mode;

/// A queue that nobody uses is deleted after twice our timeout and this. Every consumer must start sooner.
const UNUSED: Duration = Duration::from_secs(60);

/// The argument of a queue that names its time, ms.
const EXPIRES: &str = "x-expires";

/// Where a publisher sends to.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) exchange: String,
    pub(crate) routing_key: String,
}

/// A queue of the load.
#[derive(Clone, Debug)]
pub(crate) struct QueueName {
    pub(crate) name: String,
    /// The queue or topic of the settings that it belongs to.
    pub(crate) group: u16,
    /// Subscribers that share it.
    pub(crate) subscribers: u16,
}

/// Declared queues and exchange. Dropping it deletes them.
#[derive(Debug)]
pub(crate) struct Topology {
    session: Option<Session>,
    broker: BrokerAddress,
    timeout: Duration,
    exchange: Option<String>,
    pub(crate) queues: Vec<QueueName>,
    pub(crate) destinations: Vec<Destination>,
    declared: usize,
}

/// The shape of what is declared.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) mode: Mode,
    pub(crate) groups: u16,
    pub(crate) subscribers: u16,
    pub(crate) durable: bool,
}

impl Topology {
    /// Declares under names that contain `run`; when one fails, those before it are deleted. Queues of a load that is
    /// killed expire, and so does its exchange. A broker that does not know queues that expire gets them without that.
    pub(crate) fn declare(
        broker: &BrokerAddress,
        timeout: Duration,
        run: &str,
        shape: Shape,
    ) -> Result<Self, LoadError> {
        let session = Session::open(broker, timeout)?;
        let mut topology = Self {
            session: Some(session),
            broker: broker.clone(),
            timeout,
            exchange: None,
            queues: queue_names(run, shape),
            destinations: destinations(run, shape),
            declared: 0,
        };
        topology.declare_all(run, shape)?;
        Ok(topology)
    }

    fn declare_all(&mut self, run: &str, shape: Shape) -> Result<(), LoadError> {
        let kind = match shape.mode {
            Mode::Shared => None,
            Mode::Fanout => Some("fanout"),
            Mode::Topic => Some("topic"),
        };
        let Some(session) = &mut self.session else { return Ok(()) };
        if let Some(kind) = kind {
            let name = exchange_name(run);
            self.exchange = Some(name.clone());
            declare_exchange(session, &name, kind, shape.durable).inspect_err(|error| {
                if is_somebody_elses(error) {
                    self.exchange = None;
                }
            })?;
        }
        let mut expires = Some(UNUSED + 2 * self.timeout);
        for (index, queue) in self.queues.iter().enumerate() {
            // Counted before it is tried: an answer may be lost after the broker has declared.
            self.declared = index + 1;
            let mut declared = declare_queue(session, &queue.name, shape.durable, expires);
            if declared.as_ref().is_err_and(knows_no_expiry) {
                expires = None;
                // The refusal took the connection with it.
                *session = Session::open(&self.broker, self.timeout)?;
                declared = declare_queue(session, &queue.name, shape.durable, expires);
            }
            declared.inspect_err(|error| {
                if is_somebody_elses(error) {
                    self.declared = index;
                }
            })?;
            if let Some(exchange) = &self.exchange {
                let routing_key = &self.destinations[usize::from(queue.group)].routing_key;
                bind(session, &queue.name, exchange, routing_key)?;
            }
        }
        Ok(())
    }

    /// Deletes everything and says goodbye.
    pub(crate) fn delete(mut self) -> Result<(), LoadError> {
        let Some(mut session) = self.session.take() else { return Ok(()) };
        self.delete_with(&mut session)?;
        self.declared = 0;
        self.exchange = None;
        session.close()
    }

    fn delete_with(&self, session: &mut Session) -> Result<(), LoadError> {
        for queue in &self.queues[..self.declared] {
            let queue = ShortStr::cut(&queue.name);
            let delete = Method::QueueDelete {
                reserved_1: 0,
                queue,
                if_unused: false,
                if_empty: false,
                no_wait: false,
            };
            let deleted = session.call(&delete, "delete a queue", |method| {
                matches!(method, Method::QueueDeleteOk { .. }).then_some(())
            });
            self.unless_gone(deleted, session)?;
        }
        if let Some(exchange) = &self.exchange {
            let exchange = ShortStr::cut(exchange);
            let delete = Method::ExchangeDelete { reserved_1: 0, exchange, if_unused: false, no_wait: false };
            let deleted = session.call(&delete, "delete an exchange", |method| {
                matches!(method, Method::ExchangeDeleteOk {}).then_some(())
            });
            self.unless_gone(deleted, session)?;
        }
        Ok(())
    }

    /// A queue goes with its last consumer, an exchange with its last queue. A broker that says so by 404 takes our channel
    /// with it.
    fn unless_gone(&self, deleted: Result<(), LoadError>, session: &mut Session) -> Result<(), LoadError> {
        if let Err(LoadError::ChannelClosed { code: 404, .. }) = deleted {
            *session = Session::open(&self.broker, self.timeout)?;
            return Ok(());
        }
        deleted
    }
}

impl Drop for Topology {
    fn drop(&mut self) {
        if self.declared == 0 && self.exchange.is_none() {
            return;
        }
        // After an error: over a new connection, since the old one may be what failed. If the broker is gone, so is
        // what was declared, or nobody can delete it.
        drop(self.session.take());
        if let Ok(mut session) = Session::open(&self.broker, self.timeout.min(Duration::from_secs(5))) {
            let _ = self.delete_with(&mut session);
        }
    }
}

fn exchange_name(run: &str) -> String {
    format!("tilemark-{run}")
}

fn queue_names(run: &str, shape: Shape) -> Vec<QueueName> {
    let groups = 0..shape.groups;
    match shape.mode {
        Mode::Shared => groups
            .map(|group| QueueName {
                name: format!("tilemark-{run}-{group}"),
                group,
                subscribers: shape.subscribers,
            })
            .collect(),
        Mode::Fanout | Mode::Topic => groups
            .flat_map(|group| (0..shape.subscribers).map(move |number| (group, number)))
            .map(|(group, number)| QueueName {
                name: format!("tilemark-{run}-{group}-{number}"),
                group,
                subscribers: 1,
            })
            .collect(),
    }
}

fn destinations(run: &str, shape: Shape) -> Vec<Destination> {
    let groups = 0..shape.groups;
    groups
        .map(|group| match shape.mode {
            Mode::Shared => {
                Destination { exchange: String::new(), routing_key: format!("tilemark-{run}-{group}") }
            }
            Mode::Fanout => Destination { exchange: exchange_name(run), routing_key: String::new() },
            Mode::Topic => {
                Destination { exchange: exchange_name(run), routing_key: format!("topic.{group}") }
            }
        })
        .collect()
}

/// 405 and 406 in answer to a declaration: the name is taken.
fn taken(error: LoadError) -> LoadError {
    match error {
        LoadError::ChannelClosed { code: 405 | 406, text } => LoadError::DeclaredOtherwise { text },
        error => error,
    }
}

/// What was in the way is not ours to delete.
const fn is_somebody_elses(error: &LoadError) -> bool {
    matches!(error, LoadError::DeclaredOtherwise { .. })
}

/// The broker has no queues that expire: 540, as the specification names what is not implemented, or Broker-J's own 542
/// for an argument that it does not know. RabbitMQ knows it. Any other refusal would only come again.
fn knows_no_expiry(error: &LoadError) -> bool {
    matches!(error, LoadError::Closed { code: 540 | 542, text } if text.contains(EXPIRES))
}

/// An exchange goes with its last queue, also a durable one: nobody but this load knows it.
fn declare_exchange(session: &mut Session, name: &str, kind: &str, durable: bool) -> Result<(), LoadError> {
    let declare = Method::ExchangeDeclare {
        reserved_1: 0,
        exchange: ShortStr::cut(name),
        kind: ShortStr::cut(kind),
        passive: false,
        durable,
        auto_delete: true,
        internal: false,
        no_wait: false,
        arguments: Table::default(),
    };
    session
        .call(&declare, "declare an exchange", |method| {
            matches!(method, Method::ExchangeDeclareOk {}).then_some(())
        })
        .map_err(taken)
}

/// A transient queue goes with its last consumer. A durable one, and one whose load was killed before it consumed, go when
/// nobody has used them for as long as `expires` says. Where the broker does not know that, they stay after a kill.
fn declare_queue(
    session: &mut Session,
    name: &str,
    durable: bool,
    expires: Option<Duration>,
) -> Result<(), LoadError> {
    let mut arguments = TableBuilder::new();
    if let Some(expires) = expires {
        let ms = i64::try_from(expires.as_millis()).unwrap_or(i64::MAX);
        arguments = arguments.integer(EXPIRES, ms);
    }
    let declare = Method::QueueDeclare {
        reserved_1: 0,
        queue: ShortStr::cut(name),
        passive: false,
        durable,
        exclusive: false,
        auto_delete: !durable,
        no_wait: false,
        arguments: arguments.as_table(),
    };
    session
        .call(&declare, "declare a queue", |method| {
            matches!(method, Method::QueueDeclareOk { .. }).then_some(())
        })
        .map_err(taken)
}

fn bind(session: &mut Session, queue: &str, exchange: &str, routing_key: &str) -> Result<(), LoadError> {
    let bind = Method::QueueBind {
        reserved_1: 0,
        queue: ShortStr::cut(queue),
        exchange: ShortStr::cut(exchange),
        routing_key: ShortStr::cut(routing_key),
        no_wait: false,
        arguments: Table::default(),
    };
    session.call(&bind, "bind a queue", |method| matches!(method, Method::QueueBindOk {}).then_some(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::Acknowledging;
    use crate::subscriber::Subscriber;
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Instant;
    use tilemark_amqp::{Inbox, LongStr, put_method};
    use tilemark_broker::{Broker, Config, serve};

    const TIMEOUT: Duration = Duration::from_secs(30);
    const SHAPE: Shape = Shape { mode: Mode::Topic, groups: 2, subscribers: 1, durable: false };
    const SHARED: Shape = Shape { mode: Mode::Shared, ..SHAPE };

    fn broker() -> (Broker, BrokerAddress) {
        let broker = serve(Config::new("127.0.0.1:0".parse().unwrap())).unwrap();
        let address = BrokerAddress::guest(broker.address());
        (broker, address)
    }

    #[test]
    fn a_name_that_is_declared_otherwise_is_refused_and_what_bears_it_stays() {
        let (broker, address) = broker();
        let mut user = Session::open(&address, TIMEOUT).unwrap();
        // Ours would expire.
        declare_queue(&mut user, "tilemark-queue-1-0", false, None).unwrap();
        // Ours would be for topics.
        declare_exchange(&mut user, "tilemark-exchange", "fanout", false).unwrap();
        for (run, name) in [("queue", "'tilemark-queue-1-0'"), ("exchange", "'tilemark-exchange'")] {
            let error = Topology::declare(&address, TIMEOUT, run, SHAPE).unwrap_err();
            let is_named = matches!(&error, LoadError::DeclaredOtherwise { text } if text.contains(name));
            assert!(is_named, "{error}");
        }
        user.close().unwrap();
        let left = broker.stop().unwrap();
        assert_eq!((left.queues, left.exchanges), (1, 1), "the user's, and nothing of ours");
    }

    /// How a scripted broker refuses queues that expire.
    #[derive(Clone, Copy, Debug)]
    enum Refusal {
        Connection(u16, &'static str),
        Channel(u16, &'static str),
    }

    /// A broker that says what it has to, but for queues that expire. Of each queue that is declared it reports whether it
    /// is to expire.
    fn scripted(refusal: Refusal) -> (BrokerAddress, Receiver<bool>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = BrokerAddress::guest(listener.local_addr().unwrap());
        let (tell, declared) = channel();
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let tell = tell.clone();
                std::thread::spawn(move || follow_script(client, refusal, &tell));
            }
        });
        (address, declared)
    }

    fn follow_script(mut client: TcpStream, refusal: Refusal, tell: &Sender<bool>) {
        client.read_exact(&mut [0; 8]).unwrap();
        let start = Method::ConnectionStart {
            version_major: 0,
            version_minor: 9,
            server_properties: Table::default(),
            mechanisms: LongStr(b"PLAIN"),
            locales: LongStr(b"en_US"),
        };
        say(&mut client, 0, &start);
        let mut inbox = Inbox::new(1 << 16, 1 << 16);
        while let Ok(count @ 1..) = client.read(inbox.space()) {
            inbox.received(count);
            while let Some(frame) = inbox.next_frame().unwrap() {
                let method = Method::decode(frame.payload).unwrap();
                if let Method::QueueDeclare { arguments, .. } = method {
                    tell.send(arguments.get(EXPIRES).is_some()).unwrap();
                }
                if let Some(answer) = answer(&method, refusal) {
                    say(&mut client, frame.channel, &answer);
                }
            }
        }
    }

    fn answer<'a>(method: &Method<'a>, refusal: Refusal) -> Option<Method<'a>> {
        let none = ShortStr::default();
        Some(match *method {
            Method::ConnectionStartOk { .. } => {
                Method::ConnectionTune { channel_max: 0, frame_max: 0, heartbeat: 0 }
            }
            Method::ConnectionOpen { .. } => Method::ConnectionOpenOk { reserved_1: none },
            Method::ChannelOpen { .. } => Method::ChannelOpenOk { reserved_1: LongStr(b"") },
            Method::QueueDeclare { arguments, .. } if arguments.get(EXPIRES).is_some() => match refusal {
                Refusal::Connection(reply_code, text) => {
                    let reply_text = ShortStr::cut(text);
                    Method::ConnectionClose { reply_code, reply_text, class_id: 50, method_id: 10 }
                }
                Refusal::Channel(reply_code, text) => {
                    let reply_text = ShortStr::cut(text);
                    Method::ChannelClose { reply_code, reply_text, class_id: 50, method_id: 10 }
                }
            },
            Method::QueueDeclare { queue, .. } => {
                Method::QueueDeclareOk { queue, message_count: 0, consumer_count: 0 }
            }
            Method::QueueDelete { .. } => Method::QueueDeleteOk { message_count: 0 },
            Method::ConnectionClose { .. } => Method::ConnectionCloseOk {},
            _ => return None,
        })
    }

    /// A client that has gone already need not hear it.
    fn say(client: &mut TcpStream, channel: u16, method: &Method<'_>) {
        let mut wire = Vec::new();
        put_method(&mut wire, channel, method);
        let _ = client.write_all(&wire);
    }

    #[test]
    fn only_a_broker_that_knows_no_expiry_is_retried_without_it() {
        let broker_j = "Error creating queue 'q': Unsupported queue declare argument(s) : x-expires";
        for refusal in [
            Refusal::Connection(542, broker_j),
            Refusal::Connection(540, "NOT_IMPLEMENTED - argument 'x-expires' of a queue is not supported"),
        ] {
            let (address, declared) = scripted(refusal);
            Topology::declare(&address, TIMEOUT, "run", SHARED).unwrap().delete().unwrap();
            assert_eq!(declared.try_iter().collect::<Vec<_>>(), [true, false, false], "{refusal:?}");
        }
    }

    #[test]
    fn any_other_refusal_of_a_queue_is_reported_at_once() {
        for refusal in [
            Refusal::Connection(403, "ACCESS_REFUSED - not for guest: x-expires"),
            Refusal::Connection(540, "NOT_IMPLEMENTED - queue 'q' is durable and there is no journal"),
            Refusal::Connection(541, "INTERNAL_ERROR"),
            Refusal::Channel(403, "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused"),
            Refusal::Channel(404, "NOT_FOUND - no vhost"),
            Refusal::Channel(405, "RESOURCE_LOCKED - cannot obtain exclusive access to locked queue 'q'"),
            Refusal::Channel(406, "PRECONDITION_FAILED - inequivalent arg 'x-expires' for queue 'q'"),
        ] {
            let (address, declared) = scripted(refusal);
            let error = Topology::declare(&address, TIMEOUT, "run", SHARED).unwrap_err();
            let (Refusal::Connection(_, text) | Refusal::Channel(_, text)) = refusal;
            assert!(error.to_string().ends_with(text), "{refusal:?}: {error}");
            assert_eq!(declared.try_iter().collect::<Vec<_>>(), [true], "{refusal:?}");
        }
    }

    #[test]
    fn a_refusal_of_something_else_is_not_taken_for_a_declaration() {
        let (_broker, address) = broker();
        let mut session = Session::open(&address, TIMEOUT).unwrap();
        let unknown = Method::BasicAck { delivery_tag: 7, multiple: false };
        let error = session.call(&unknown, "answer", |_| None::<()>).unwrap_err();
        assert!(matches!(error, LoadError::ChannelClosed { code: 406, .. }), "{error}");
    }

    #[test]
    fn a_load_that_is_killed_leaves_no_exchange_when_its_consumers_are_gone() {
        let (broker, address) = broker();
        let mut topology = Topology::declare(&address, TIMEOUT, "run", SHAPE).unwrap();
        let acknowledging = Acknowledging { every: 0, prefetch: 0 };
        for queue in &topology.queues {
            let session = Session::open(&address, TIMEOUT).unwrap();
            let ledger = crate::Ledger::new(1);
            drop(Subscriber::start(session, &queue.name, acknowledging, 0, ledger, 16).unwrap());
        }
        // Nobody deletes anything, as after a kill.
        drop(topology.session.take());
        std::mem::forget(topology);
        let until = Instant::now() + TIMEOUT;
        while broker.statistics().connections > 0 {
            assert!(Instant::now() < until, "the broker does not notice that the consumers are gone");
            std::thread::sleep(Duration::from_millis(20));
        }
        let left = broker.stop().unwrap();
        assert_eq!((left.queues, left.exchanges), (0, 0));
    }
}
