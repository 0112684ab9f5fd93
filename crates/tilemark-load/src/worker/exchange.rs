//! What happens on a connection: events, answers, requests, breaks.

use super::{Buffers, Links, STOP_TOKEN, Worker};
use crate::{
    clock,
    connection::{Doing, Stage, place_of, token_of},
    conversation::{Answer, Progress, Verdict},
    lane::{Due, closed_loop_due},
};
use rustix::{
    event::epoll::{Event, EventFlags},
    io::Errno,
    net::RecvFlags,
};
use std::{cmp::Reverse, os::fd::OwnedFd};

/// Reads of one wire for one event: a peer that sends without end must not keep the worker from its other work. The event comes again.
const READS_AT_ONCE: usize = 8;

impl Worker {
    /// Works on one event. The time after it.
    pub(super) fn handle(
        &mut self,
        event: Event,
        epoll: &OwnedFd,
        links: &Links,
        buffers: &mut Buffers,
    ) -> u64 {
        let token = event.data.u64();
        if token == STOP_TOKEN {
            return self.seen;
        }
        let (place, wire) = place_of(token);
        let connection = &mut self.connections[place];
        if connection.doing == Doing::Down {
            return self.seen;
        }
        if connection.wires[wire].stage == Stage::Connecting {
            match connection.wires[wire].connect_result() {
                Ok(()) => self.connected(place, wire, epoll, links),
                Err(errno) => {
                    let now = clock::now();
                    self.broke(place, now, Verdict::Failed, &|| format!("connecting: {errno}"), links);
                }
            }
            return clock::now();
        }
        let flags = event.flags;
        if flags.contains(EventFlags::OUT)
            && let Err(errno) = connection.flush(wire, epoll)
        {
            let now = clock::now();
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
            return now;
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            return self.receive(place, wire, epoll, links, buffers);
        }
        clock::now()
    }

    /// A wire is connected: TLS begins where the conversation wants it, or the conversation itself.
    fn connected(&mut self, place: usize, wire: usize, epoll: &OwnedFd, links: &Links) {
        let connection = &mut self.connections[place];
        connection.reason = None;
        connection.wires[wire].connected();
        if connection.wires[wire].stage == Stage::Greeting {
            self.greet(place, wire, epoll, links);
        } else if let Err(errno) = connection.flush(wire, epoll) {
            let now = clock::now();
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
        }
    }

    /// A wire can carry the conversation, which may greet.
    fn greet(&mut self, place: usize, wire: usize, epoll: &OwnedFd, links: &Links) {
        let connection = &mut self.connections[place];
        connection.wires[wire].stage = Stage::Greeting;
        let progress = connection.conversation.connected(wire, &mut connection.outs[wire]);
        // Also takes the socket out of waiting to write.
        if let Err(errno) = connection.flush(wire, epoll) {
            let now = clock::now();
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
            return;
        }
        if progress == Progress::Ready && connection.is_ready_with(wire) {
            self.connection_is_free(place, epoll, links);
        }
    }

    /// Reads what came on a wire. The time after it.
    fn receive(
        &mut self,
        place: usize,
        wire: usize,
        epoll: &OwnedFd,
        links: &Links,
        buffers: &mut Buffers,
    ) -> u64 {
        for _ in 0..READS_AT_ONCE {
            let connection = &mut self.connections[place];
            let Some(socket) = &connection.wires[wire].socket else { return self.seen };
            let count = match rustix::net::recv(socket, &mut buffers.received[..], RecvFlags::empty()) {
                Ok((count, _)) => count,
                Err(Errno::AGAIN) => return clock::now(),
                Err(Errno::INTR) => continue,
                Err(errno) => {
                    let now = clock::now();
                    self.broke(place, now, Verdict::Failed, &|| format!("receiving: {errno}"), links);
                    return now;
                }
            };
            let now = clock::now();
            if count == 0 {
                self.closed_by_peer(place, now, links);
                return now;
            }
            let opened = connection.wires[wire].open(&buffers.received[..count], &mut buffers.plain);
            let bytes = match opened {
                Ok(bytes) => bytes,
                Err(failure) => {
                    if failure.is_final && !self.is_started {
                        self.is_wrong = Some((connection.target, failure.to_string()));
                    }
                    self.broke(place, now, Verdict::Failed, &|| failure.to_string(), links);
                    return now;
                }
            };
            if bytes.is_some() && connection.wires[wire].stage == Stage::Securing {
                self.greet(place, wire, epoll, links);
            }
            let connection = &mut self.connections[place];
            if connection.doing == Doing::Down {
                return now;
            }
            let progress = match bytes {
                Some(bytes) if !bytes.is_empty() => {
                    connection.conversation.received(wire, bytes, &mut connection.outs)
                }
                // What came was TLS's own.
                _ => Progress::More,
            };
            if let Err(errno) = connection.flush_all(epoll) {
                self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
                return now;
            }
            match progress {
                Progress::More if count == buffers.received.len() => {}
                Progress::More => return now,
                other => {
                    self.progressed(place, wire, other, now, epoll, links);
                    return now;
                }
            }
        }
        clock::now()
    }

    fn progressed(
        &mut self,
        place: usize,
        wire: usize,
        progress: Progress,
        now: u64,
        epoll: &OwnedFd,
        links: &Links,
    ) {
        let connection = &mut self.connections[place];
        match (progress, connection.doing) {
            (Progress::More, _) => {}
            (Progress::Pause(length), _) => self.pause(place, wire, now, length, epoll, links),
            (Progress::Held { answer, closes, length }, Doing::Asking(_)) => {
                let until = connection.hold(answer, closes, now + length);
                self.pauses.push(Reverse((until, token_of(place, wire) as usize)));
            }
            (Progress::Ready, Doing::Connecting) => {
                if connection.is_ready_with(wire) {
                    self.connection_is_free(place, epoll, links);
                }
            }
            (Progress::Answered(answer), Doing::Asking(due)) => {
                self.answered(place, due, answer, now, links);
                self.connection_is_free(place, epoll, links);
            }
            (Progress::Last(answer), Doing::Asking(due)) => {
                self.answered_last(place, due, answer, now, links)
            }
            (Progress::Broken(verdict), Doing::Asking(_)) => {
                let said = self.connections[place].conversation.explain();
                self.broke(place, now, verdict, &|| said.clone(), links);
            }
            (Progress::Broken(_), Doing::Connecting | Doing::Resting) if !self.is_started => {
                let reason = self.connections[place].conversation.explain();
                self.is_wrong = Some((self.connections[place].target, reason.clone()));
                self.broke(place, now, Verdict::Failed, &|| reason.clone(), links);
            }
            (_, _) => {
                let why = || "the peer spoke unasked, or refused the connection".to_owned();
                self.broke(place, now, Verdict::Failed, &why, links);
            }
        }
    }

    /// A request was answered, and the peer closes.
    fn answered_last(&mut self, place: usize, due: Due, answer: Answer, now: u64, links: &Links) {
        self.answered(place, due, answer, now, links);
        self.connections[place].close();
        self.retries.push(Reverse((now, place)));
    }

    /// Reads nothing of a wire for so long.
    fn pause(&mut self, place: usize, wire: usize, now: u64, length: u64, epoll: &OwnedFd, links: &Links) {
        let until = now + length;
        match self.connections[place].wires[wire].pause(until, epoll) {
            Ok(()) => self.pauses.push(Reverse((until, token_of(place, wire) as usize))),
            Err(errno) => {
                self.broke(place, now, Verdict::Failed, &|| format!("pausing: {errno}"), links);
            }
        }
    }

    /// Reads again from the wires whose pause is over.
    pub(super) fn resume(&mut self, now: u64, epoll: &OwnedFd, links: &Links) {
        while let Some(Reverse((time, token))) = self.pauses.peek().copied() {
            if time > now {
                return;
            }
            self.pauses.pop();
            let (place, wire) = place_of(token as u64);
            let connection = &mut self.connections[place];
            if connection.doing == Doing::Down {
                continue;
            }
            if let Err(errno) = connection.wires[wire].resume(time, epoll) {
                self.broke(place, now, Verdict::Failed, &|| format!("reading on: {errno}"), links);
                continue;
            }
            if let (Some(held), Doing::Asking(due)) = (connection.take_held(time), connection.doing) {
                if held.closes {
                    self.answered_last(place, due, held.answer, now, links);
                } else {
                    self.answered(place, due, held.answer, now, links);
                    self.connection_is_free(place, epoll, links);
                }
            }
        }
    }

    /// A request was answered, correctly or not.
    fn answered(&mut self, place: usize, due: Due, answer: Answer, now: u64, links: &Links) {
        self.asking -= 1;
        let connection = &mut self.connections[place];
        connection.doing = Doing::Resting;
        connection.proved_good();
        let lane = connection.lane;
        if answer.verdict != Verdict::Right {
            self.report_trouble(place, None, links);
        } else if now >= self.origin + self.timing.warmup_ns && now < self.end {
            self.tallies[lane].in_time += 1;
        }
        self.note(lane, due, now, answer, links);
    }

    /// A connection can take a request: the one that waited longest, or in a closed loop the next.
    pub(super) fn connection_is_free(&mut self, place: usize, epoll: &OwnedFd, links: &Links) {
        let now = clock::now();
        self.connections[place].doing = Doing::Resting;
        let lane = self.connections[place].lane;
        let may_ask = self.is_started && self.lanes[lane].is_closed_loop() && now < self.end;
        if may_ask {
            self.count_offered(lane, now, links);
            self.ask(place, closed_loop_due(now), now, epoll, links);
        } else if let Some(due) = self.lanes[lane].freed(place as u32, self.seen, now) {
            self.ask(place, due, now, epoll, links);
        }
    }

    /// Sends a request.
    pub(super) fn ask(&mut self, place: usize, due: Due, now: u64, epoll: &OwnedFd, links: &Links) {
        self.asking += 1;
        let connection = &mut self.connections[place];
        connection.doing = Doing::Asking(due);
        connection.conversation.request(&mut connection.outs);
        if let Err(errno) = connection.flush_all(epoll) {
            self.broke(place, now, Verdict::Failed, &|| format!("sending: {errno}"), links);
        }
    }

    /// The peer closed: in order when nothing was asked, a failure when something was.
    fn closed_by_peer(&mut self, place: usize, now: u64, links: &Links) {
        let connection = &mut self.connections[place];
        if let (Some(held), Doing::Asking(due)) = (connection.take_any_held(), connection.doing) {
            // Its bytes are all here.
            return self.answered_last(place, due, held.answer, now, links);
        }
        let why = || "the peer closed the connection before the answer was whole".to_owned();
        self.broke(place, now, Verdict::Failed, &why, links);
    }

    /// A connection is no more. Its request, if any, ends like `verdict`; it is made again after a pause.
    pub(super) fn broke(
        &mut self,
        place: usize,
        now: u64,
        verdict: Verdict,
        why: &dyn Fn() -> String,
        links: &Links,
    ) {
        let connection = &mut self.connections[place];
        let lane = connection.lane;
        match connection.doing {
            Doing::Asking(due) => {
                self.asking -= 1;
                self.report_trouble(place, Some(why), links);
                self.note(lane, due, now, Answer { verdict, body_bytes: 0 }, links);
            }
            Doing::Resting => self.lanes[lane].lost(place as u32),
            Doing::Down | Doing::Connecting => {
                connection.reason = Some(why());
                if self.is_started {
                    self.report_trouble(place, Some(why), links);
                }
            }
        }
        let connection = &mut self.connections[place];
        connection.close();
        let pause = connection.next_backoff();
        self.retries.push(Reverse((now + pause, place)));
    }
}
