//! What a worker reports to the account: samples, counts, processor time, errors.

use super::{Links, Tally, Worker};
use crate::{
    account::ERRORS_KEPT,
    clock::{self, SECOND_NS},
    conversation::Answer,
    lane::{Due, Lane},
    sample::{Ended, InTime, Message, SAMPLES_PER_CHUNK, Sample},
};

impl Worker {
    /// The second of the measurement to which `intended` belongs; `None` in the warm-up.
    pub(super) fn second_of(&self, intended: u64) -> Option<u32> {
        let start = self.origin + self.timing.warmup_ns;
        let into = intended.checked_sub(start)?;
        Some((into / SECOND_NS) as u32)
    }

    pub(super) fn count_offered(&mut self, lane: usize, intended: u64, links: &Links) {
        if let Some(second) = self.second_of(intended) {
            self.report_offered_before(lane, second, links);
            self.tallies[lane].offered += 1;
        }
    }

    /// Reports the counts of all seconds of a lane before `second`: nothing more will be intended in them.
    pub(super) fn report_offered_before(&mut self, lane: usize, second: u32, links: &Links) {
        let stream = self.lanes[lane].stream;
        let tally = &mut self.tallies[lane];
        while tally.second < second {
            let count = std::mem::take(&mut tally.offered);
            let _ = links.tell.send(Message::Offered { stream, second: tally.second, count });
            tally.second += 1;
        }
    }

    /// Once a second, at its end: what was offered, processor time, samples.
    pub(super) fn tick(&mut self, now: u64, links: &Links) {
        let cpu = clock::thread_cpu();
        let second = self.second_of(now).expect("ticks begin with the measurement");
        let ended = self.second_of(self.next_tick).expect("ticks begin with the measurement");
        if self.cpu_at_start == 0 {
            self.cpu_at_start = cpu;
        } else if self.next_tick <= self.end {
            // A worker that was held up for seconds reports their time as one.
            let cpu_ns = cpu - self.cpu_at_tick;
            let processor = self.thread.processor;
            let _ = links.tell.send(Message::Used { processor, second: ended - 1, cpu_ns });
        }
        self.cpu_at_tick = cpu;
        let last = self.seconds_of_measurement();
        for lane in 0..self.lanes.len() {
            self.report_offered_before(lane, second.min(last), links);
        }
        self.hand_over(links);
        self.next_tick += SECOND_NS;
    }

    /// How many seconds, the last one perhaps cut, the measurement has.
    pub(super) fn seconds_of_measurement(&self) -> u32 {
        let start = self.origin + self.timing.warmup_ns;
        self.end.saturating_sub(start).div_ceil(SECOND_NS) as u32
    }

    /// Gives the samples to the account.
    pub(super) fn hand_over(&mut self, links: &Links) {
        if self.samples.is_empty() {
            return;
        }
        let empty = links.recycled.try_recv().unwrap_or_else(|_| Vec::with_capacity(SAMPLES_PER_CHUNK));
        let full = std::mem::replace(&mut self.samples, empty);
        let _ = links.tell.send(Message::Samples(full));
    }

    /// Notes how a request of the measurement ended.
    pub(super) fn note(&mut self, lane: usize, due: Due, now: u64, answer: Answer, links: &Links) {
        let Some(second) = self.second_of(due.intended) else { return };
        let latency = now.saturating_sub(due.intended);
        let stream = self.lanes[lane].stream;
        let Answer { verdict, body_bytes } = answer;
        self.samples.push(Sample { stream, second, latency, lateness: due.lateness, body_bytes, verdict });
        if self.samples.len() == SAMPLES_PER_CHUNK {
            self.hand_over(links);
        }
    }

    /// Reports an error in words while there are few. Without `why` the conversation says it.
    pub(super) fn report_trouble(&mut self, place: usize, why: Option<&dyn Fn() -> String>, links: &Links) {
        let connection = &self.connections[place];
        let tally = &mut self.tallies[connection.lane];
        if tally.errors >= ERRORS_KEPT {
            return;
        }
        tally.errors += 1;
        let text = why.map_or_else(|| connection.conversation.explain(), |why| why());
        let stream = self.lanes[connection.lane].stream;
        let _ = links.tell.send(Message::Trouble { stream, text });
    }

    pub(super) fn report_end(&mut self, links: &Links) {
        let cpu = clock::thread_cpu();
        let start = self.origin + self.timing.warmup_ns;
        let seconds = self.seconds_of_measurement();
        for lane in 0..self.lanes.len() {
            self.report_offered_before(lane, seconds, links);
        }
        self.hand_over(links);
        let in_time =
            |(lane, tally): (&Lane, &Tally)| InTime { stream: lane.stream, completed: tally.in_time };
        let _ = links.tell.send(Message::Ended(Ended {
            schedule_ns: self.end.saturating_sub(start),
            in_time: self.lanes.iter().zip(&self.tallies).map(in_time).collect(),
            cpu_ns: if self.cpu_at_start == 0 { 0 } else { cpu - self.cpu_at_start },
        }));
    }
}
