//! What a broker with a journal does when the disk does not.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use tilemark_amqp::{Method, Properties};

use crate::engine::testing::{Lab, QueueFlags, Quick, ack, declare, get, publish};
use crate::journal::{Disk, Recovered, ThreadWriter, Writer};

/// A disk that stores nothing, and fails on demand.
struct Stuck(Arc<AtomicBool>);

impl Writer for Stuck {
    fn is_idle(&self) -> bool {
        false
    }
    fn submit(&mut self, _: crate::journal::Batch) {}
    fn stored(&self) -> u64 {
        0
    }
    fn failure(&self) -> Option<String> {
        self.0.load(Ordering::Relaxed).then(|| "no space left on device".to_owned())
    }
}

fn stuck_lab() -> (Lab, Arc<AtomicBool>) {
    let mut lab = Lab::new();
    let fails = Arc::new(AtomicBool::new(false));
    lab.engine.restore(&Recovered::default(), Box::new(Stuck(Arc::clone(&fails))));
    (lab, fails)
}

const DURABLE: QueueFlags = QueueFlags { durable: true, exclusive: false, auto_delete: false };

#[test]
fn nothing_durable_is_confirmed_or_committed_before_it_is_stored() {
    let (mut lab, _) = stuck_lab();
    let (publisher, committer) = (lab.client(), lab.client());
    lab.ask(publisher, &declare("q", DURABLE));
    lab.ask(publisher, &Method::ConfirmSelect { no_wait: false });
    lab.bytes(publisher, &publish(1, "", "q", Properties::PERSISTENT, b"x"));
    lab.ask(committer, &Method::TxSelect {});
    lab.bytes(committer, &publish(1, "", "q", Properties::PERSISTENT, b"y"));
    assert!(lab.ask(committer, &Method::TxCommit {}).is_empty());
    assert!(lab.hear(publisher).is_empty());
    // What promises nothing waits for nothing, on a channel where nothing waits before it.
    let transient = lab.client();
    lab.ask(transient, &Method::ConfirmSelect { no_wait: false });
    lab.bytes(transient, &publish(1, "", "q", Properties::NONE, b"z"));
    assert_eq!(lab.hear(transient), ["BasicAck { delivery_tag: 1, multiple: false }"]);
}

/// A disk whose flushes take until the test allows them. Each reports what it covers.
struct Gated {
    unflushed: Vec<u8>,
    flushes: mpsc::Sender<Vec<u8>>,
    allowed: mpsc::Receiver<()>,
}

impl Disk for Gated {
    fn segments(&mut self) -> io::Result<Vec<u64>> {
        Ok(Vec::new())
    }
    fn read(&mut self, _: u64) -> io::Result<Vec<u8>> {
        Ok(Vec::new())
    }
    fn append(&mut self, _: u64, bytes: &[u8]) -> io::Result<()> {
        self.unflushed.extend_from_slice(bytes);
        Ok(())
    }
    fn sync(&mut self) -> io::Result<()> {
        // A test that has ended asks nothing more.
        let _ = self.flushes.send(std::mem::take(&mut self.unflushed));
        let _ = self.allowed.recv();
        Ok(())
    }
    fn remove(&mut self, _: u64) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_confirm_comes_after_the_flush_that_covers_its_message() {
    // The broker is dropped last and waits for its disk, which waits for nobody once the test has ended.
    let mut lab = Lab::new();
    let (flushes, begun) = mpsc::channel();
    let (allow, allowed) = mpsc::channel();
    let wake = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).unwrap();
    let disk = Gated { unflushed: Vec::new(), flushes, allowed };
    lab.engine.restore(&Recovered::default(), Box::new(ThreadWriter::start(Box::new(disk), wake).unwrap()));
    let publisher = lab.client();
    lab.ask(publisher, &declare("q", DURABLE));
    lab.ask(publisher, &Method::ConfirmSelect { no_wait: false });
    let until = Instant::now() + Duration::from_secs(30);
    for tag in 1..=20 {
        let body = format!("message {tag}.");
        lab.bytes(publisher, &publish(1, "", "q", Properties::PERSISTENT, body.as_bytes()));
        let mut is_flushed = false;
        loop {
            let said = lab.hear(publisher);
            if !said.is_empty() {
                assert_eq!(said, [format!("BasicAck {{ delivery_tag: {tag}, multiple: false }}")]);
                break;
            }
            if let Ok(covered) = begun.try_recv() {
                assert_eq!(lab.hear(publisher), [""; 0], "the flush has only begun");
                is_flushed |= covered.windows(body.len()).any(|window| window == body.as_bytes());
                allow.send(()).unwrap();
            }
            assert!(Instant::now() < until, "neither a flush nor a confirm of {body}");
            std::thread::yield_now();
        }
        assert!(is_flushed, "{body} was confirmed and not flushed");
    }
}

#[test]
fn a_disk_that_fails_ends_those_who_rely_on_it_and_nobody_else() {
    let (mut lab, fails) = stuck_lab();
    let (publisher, bystander) = (lab.client(), lab.client());
    lab.ask(publisher, &declare("q", DURABLE));
    lab.ask(publisher, &Method::ConfirmSelect { no_wait: false });
    lab.bytes(publisher, &publish(1, "", "q", Properties::PERSISTENT, b"x"));
    fails.store(true, Ordering::Relaxed);
    let said = lab.hear(publisher).join("");
    assert!(said.contains("reply_code: 541") && said.contains("no space left"), "{said}");
    assert!(lab.ask(bystander, &get("q", true))[0].starts_with("BasicGetOk"));
    lab.bytes(bystander, &publish(1, "", "q", Properties::PERSISTENT, b"x"));
    assert!(lab.hear(bystander).join("").contains("reply_code: 541"));
}

#[test]
fn a_journal_stays_small_however_much_passes_through_it() {
    let mut lab = Lab::new();
    lab.engine.restore(&Recovered::default(), Box::new(Quick::default()));
    lab.engine.journal_mut().expect("restored above").set_segment_bytes(20_000);
    let client = lab.client();
    lab.ask(client, &declare("kept", DURABLE));
    lab.ask(client, &declare("q", DURABLE));
    // One message that stays, in front of thousands that do not.
    lab.bytes(client, &publish(1, "", "kept", Properties::PERSISTENT, b"old"));
    for tag in 1..=2000 {
        lab.bytes(client, &publish(1, "", "q", Properties::PERSISTENT, &[7; 1000]));
        lab.ask(client, &get("q", false));
        lab.send(client, 1, &ack(tag));
        let journal = lab.engine.journal_mut().expect("restored above");
        assert!(journal.segment_count() <= 4, "{} segments after {tag} messages", journal.segment_count());
    }
    let journal = lab.engine.journal_mut().expect("restored above");
    assert_eq!(journal.live_messages(), 1);
    lab.send(client, 1, &get("kept", true));
    assert_eq!(lab.bodies(client), ["old"]);
    assert_eq!(lab.engine.journal_mut().expect("restored above").live_messages(), 0);
}
