//! How long a bystander waits at most while another client asks much of the broker.
//!
//! ```text
//! bystander topics 40000     (bindings; 2,000 messages whose keys are compared with all of them)
//! bystander hang-up 40000    (exclusive queues with 10 bindings each, of a client that hangs up)
//! bystander requeue 1200000  (messages, rejected one by one, every second one first)
//! ```
//!
//! It starts a broker, prints how long the slowest of the bystander's questions took while the other client's work was done, and ends.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tilemark_amqp::{
    FrameKind, Inbox, LongStr, Method, PROTOCOL_HEADER, Properties, ShortStr, Table, put_frame, put_header,
    put_method,
};
use tilemark_broker::{Config, serve};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// A client with channel 1 open.
struct Client {
    socket: TcpStream,
    inbox: Inbox,
    out: Vec<u8>,
}

fn name(text: &str) -> ShortStr<'_> {
    ShortStr::cut(text)
}

impl Client {
    fn open(address: SocketAddr) -> Result<Self> {
        let socket = TcpStream::connect(address)?;
        socket.set_nodelay(true)?;
        let mut client = Self { socket, inbox: Inbox::new(1 << 20, 1 << 18), out: PROTOCOL_HEADER.to_vec() };
        let start_ok = Method::ConnectionStartOk {
            client_properties: Table::default(),
            mechanism: name("PLAIN"),
            response: LongStr(b"\0guest\0guest"),
            locale: name("en_US"),
        };
        put_method(&mut client.out, 0, &start_ok);
        put_method(
            &mut client.out,
            0,
            &Method::ConnectionTuneOk { channel_max: 0, frame_max: 0, heartbeat: 0 },
        );
        let open =
            Method::ConnectionOpen { virtual_host: name("/"), reserved_1: name(""), reserved_2: false };
        put_method(&mut client.out, 0, &open);
        client.ask(&Method::ChannelOpen { reserved_1: name("") })?;
        client.wait_for((20, 11))?;
        Ok(client)
    }

    fn ask(&mut self, method: &Method<'_>) -> Result<()> {
        put_method(&mut self.out, 1, method);
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        self.socket.write_all(&self.out)?;
        self.out.clear();
        Ok(())
    }

    /// Reads until a method of this class and number comes.
    fn wait_for(&mut self, ids: (u16, u16)) -> Result<()> {
        loop {
            while let Some(frame) = self.inbox.next_frame()? {
                if frame.kind != FrameKind::Method {
                    continue;
                }
                let method = Method::decode(frame.payload)?;
                if method.ids() == ids {
                    return Ok(());
                }
                if matches!(method, Method::ConnectionClose { .. } | Method::ChannelClose { .. }) {
                    return Err(format!("{method:?}").into());
                }
            }
            let count = self.socket.read(self.inbox.space())?;
            if count == 0 {
                return Err("the broker hung up".into());
            }
            self.inbox.received(count);
        }
    }

    /// Waits until all that was sent has been done.
    fn sync(&mut self) -> Result<()> {
        self.ask(&Method::BasicQos { prefetch_size: 0, prefetch_count: 0, global: false })?;
        self.wait_for((60, 11))
    }

    fn declare(&mut self, queue: &str, exclusive: bool) {
        let declare = Method::QueueDeclare {
            reserved_1: 0,
            queue: name(queue),
            passive: false,
            durable: false,
            exclusive,
            auto_delete: false,
            no_wait: true,
            arguments: Table::default(),
        };
        put_method(&mut self.out, 1, &declare);
    }

    fn bind(&mut self, queue: &str, key: &str) {
        let bind = Method::QueueBind {
            reserved_1: 0,
            queue: name(queue),
            exchange: name("amq.topic"),
            routing_key: name(key),
            no_wait: true,
            arguments: Table::default(),
        };
        put_method(&mut self.out, 1, &bind);
    }

    fn publish(&mut self, exchange: &str, key: &str) {
        let (exchange, routing_key) = (name(exchange), name(key));
        let publish =
            Method::BasicPublish { reserved_1: 0, exchange, routing_key, mandatory: false, immediate: false };
        put_method(&mut self.out, 1, &publish);
        put_header(&mut self.out, 1, 16, Properties::NONE);
        put_frame(&mut self.out, FrameKind::Body, 1, &[7; 16]);
    }
}

/// What is asked of the broker, once all is prepared.
fn prepare(client: &mut Client, what: &str, size: u64) -> Result<()> {
    match what {
        "topics" => {
            client.declare("q", true);
            for number in 0..size {
                let key = if number % 2 == 0 { format!("a.#.{number}") } else { format!("*.{number}.#.b") };
                client.bind("q", &key);
            }
        }
        "hang-up" => {
            for number in 0..size {
                let queue = format!("q{number}");
                client.declare(&queue, true);
                (0..10).for_each(|key| client.bind(&queue, &format!("{number}.{key}.#")));
            }
        }
        "requeue" => {
            client.declare("q", true);
            (0..size).for_each(|_| client.publish("", "q"));
            client.sync()?;
            let consume = Method::BasicConsume {
                reserved_1: 0,
                queue: name("q"),
                consumer_tag: name("c"),
                no_local: false,
                no_ack: false,
                exclusive: false,
                no_wait: true,
                arguments: Table::default(),
            };
            client.ask(&consume)?;
            (0..size).try_for_each(|_| client.wait_for((60, 60)))?;
            put_method(&mut client.out, 1, &Method::BasicCancel { consumer_tag: name("c"), no_wait: true });
        }
        _ => return Err("usage: bystander topics|hang-up|requeue SIZE".into()),
    }
    client.sync()
}

fn act(mut client: Client, what: &str, size: u64) -> Result<()> {
    match what {
        "topics" => (0..2000).for_each(|number| client.publish("amq.topic", &format!("a.{number}.x.y.b"))),
        "hang-up" => return Ok(()),
        _ => {
            for first in [2, 1] {
                for delivery_tag in (first..=size).step_by(2) {
                    put_method(&mut client.out, 1, &Method::BasicReject { delivery_tag, requeue: true });
                }
            }
        }
    }
    client.sync()
}

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [what, size] = &arguments[..] else {
        return Err("usage: bystander topics|hang-up|requeue SIZE".into());
    };
    let size: u64 = size.parse()?;
    let broker = serve(Config::new("127.0.0.1:0".parse()?))?;
    let mut client = Client::open(broker.address())?;
    prepare(&mut client, what, size)?;
    let mut bystander = Client::open(broker.address())?;
    let is_over = Arc::new(AtomicBool::new(false));
    let watched = Arc::clone(&is_over);
    // Its first question is asked before the work begins.
    bystander.sync()?;
    let watching = std::thread::spawn(move || {
        let mut slowest = Duration::ZERO;
        let mut answers = 0;
        while !watched.load(Ordering::Relaxed) {
            let asked = Instant::now();
            if bystander.sync().is_err() {
                return (Duration::MAX, answers);
            }
            slowest = slowest.max(asked.elapsed());
            answers += 1;
        }
        (slowest, answers)
    });
    let begun = Instant::now();
    act(client, what, size)?;
    if what == "hang-up" {
        while broker.statistics().queues > 0 {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
    let took = begun.elapsed();
    is_over.store(true, Ordering::Relaxed);
    let (slowest, answers) = watching.join().map_err(|_| "the bystander panicked")?;
    println!(
        "{what} {size}: done after {:.2} s; slowest of {answers} answers to a bystander: {:.1} ms",
        took.as_secs_f64(),
        slowest.as_secs_f64() * 1000.0
    );
    Ok(())
}
