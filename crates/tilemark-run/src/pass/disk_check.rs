//! What a guest says about its disks, held against what the host counted on them each second. A guest whose clock
//! runs wrong, or whose requests never reach its disk, says more than was done.

use crate::pass::load_figures::LoadReports;
use std::sync::{Mutex, PoisonError};
use tilemark_guests::{GuestId, GuestManager};
use tilemark_plan::{
    plan::{self, LoadPlan, Point},
    scenario::LoopKind,
};
use tilemark_record::summary::{Incident, IncidentKind};

/// The host's counts of requests on the disks of a point's disk guests, reading after reading.
pub(crate) struct DiskCounts<'a> {
    manager: &'a dyn GuestManager,
    /// The place of each disk load in the point's list, and its guest.
    watched: Vec<(u32, GuestId)>,
    readings: Mutex<Vec<Vec<Option<u64>>>>,
}

/// What the host counted for one disk load: at the start of the measurement, after each second of it, and at
/// the end of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct HostCount {
    /// The load's place in the point's list.
    pub(crate) place: u32,
    /// Requests up to each reading.
    pub(crate) readings: Vec<u64>,
}

impl<'a> DiskCounts<'a> {
    pub(crate) fn of(manager: &'a dyn GuestManager, point: &Point, guests: &[GuestId]) -> Self {
        let is_counted = |load: &LoadPlan| load.work.facts().is_counted_on_disks();
        let loads = (0..).zip(&point.loads).filter(|(_, load)| is_counted(load));
        let watched = loads.map(|(place, load)| (place, guests[load.guest as usize])).collect();
        Self { manager, watched, readings: Mutex::default() }
    }

    /// Reads all of them now.
    pub(crate) fn read(&self) {
        if self.watched.is_empty() {
            return;
        }
        let of = |(_, guest): &(u32, GuestId)| self.manager.disk_requests(*guest).ok().flatten();
        let reading = self.watched.iter().map(of).collect();
        self.readings.lock().unwrap_or_else(PoisonError::into_inner).push(reading);
    }

    /// What was read; nothing of a disk whose count could not be had each time.
    pub(crate) fn into_counts(self) -> Vec<HostCount> {
        let readings = self.readings.into_inner().unwrap_or_else(PoisonError::into_inner);
        let of = |(index, (place, _)): (usize, &(u32, GuestId))| {
            let readings: Option<Vec<u64>> = readings.iter().map(|reading| reading[index]).collect();
            Some(HostCount { place: *place, readings: readings.filter(|readings| !readings.is_empty())? })
        };
        self.watched.iter().enumerate().filter_map(of).collect()
    }
}

/// Who says more than the host counted: the first of them in a sentence, and how many do so too.
pub(crate) fn overstatements(point: &Point, reports: &LoadReports, counts: &[HostCount]) -> Option<Incident> {
    let seconds = u32::try_from(point.measure.length.get().as_secs()).unwrap_or(u32::MAX);
    let of = |count: &HostCount| {
        let load = &point.loads[count.place as usize];
        let guest = &point.guests[load.guest as usize].name;
        let under_way = load.in_flight(&point.guests[load.guest as usize]).count;
        let completed = reports.completed_by_second(count.place, seconds);
        let what = overstatement(load, point.backend, under_way, &completed, &count.readings)?;
        Some(Incident { kind: IncidentKind::Unproven, what, guest: Some(guest.clone()) })
    };
    let mut all = counts.iter().filter_map(of);
    let mut first = all.next()?;
    let others = all.count();
    if others > 0 {
        first.what += &format!("; {others} more say too much");
    }
    Some(first)
}

fn overstatement(
    load: &LoadPlan,
    backend: plan::Backend,
    under_way: u64,
    completed: &[u64],
    readings: &[u64],
) -> Option<String> {
    let (first, last) = (*readings.first()?, *readings.last()?);
    let seconds = completed.len() as u64;
    let all: u64 = completed.iter().sum();
    // On a busy host a reading may come most of a second late, and requests are under way at either end.
    let slack = all / seconds.max(1) + 2 * under_way;
    let over = |said: u64, counted: u64| said > counted.saturating_sub(first) + slack;
    let sentence = |after: &str, said: u64, counted: u64| {
        let counted = counted.saturating_sub(first);
        format!("it says {said} requests to its disk {after}, and the host counted {counted} on it")
    };
    if over(all, last) {
        return Some(sentence("in all", all, last));
    }
    if load.demand.loop_kind() == LoopKind::Open {
        // A request belongs to the second of its intended start, and may have been done in a later one.
        return None;
    }
    if backend == plan::Backend::Emulated {
        // fio counts its seconds from when it has started, which takes an emulated guest seconds of the host's clock.
        return None;
    }
    // A whole second of grace: what was said to be done by then must have been counted a second later.
    let sums = completed.iter().scan(0, |sum, count| {
        *sum += count;
        Some(*sum)
    });
    (1..).zip(sums.zip(readings.iter().skip(2))).find_map(|(second, (said, counted))| {
        over(said, *counted).then(|| sentence(&format!("by second {second}"), said, *counted))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_plan::plan::Backend::{Emulated, Native};

    const DISK: &str = r#"
schema = 1
name = "disk"
about = "A disk."
guest = [{ name = "disk", role = "disk", disk = [{ size = "64MiB", on = "memory" }] }]
load = [{ name = "disk", guest = "disk", loop = "closed", disk = { saturate = true, depth = 4 } }]
ladder.tiles = [1]
measure = { warmup = "1s", length = "3s", repeats = 3 }
"#;

    fn overstatement_of(backend: plan::Backend, completed: &[u64], readings: &[u64]) -> Option<String> {
        let plan = plan_of(DISK, &ladder());
        let (load, guest) = (&plan.points[0].loads[0], &plan.points[0].guests[0]);
        overstatement(load, backend, load.in_flight(guest).count, completed, readings)
    }

    #[test]
    fn what_the_host_counted_too_is_believed() {
        assert_eq!(overstatement_of(Native, &[100, 100, 100], &[50, 150, 250, 350, 352]), None);
        // Almost a second late, and what is under way.
        assert_eq!(overstatement_of(Native, &[100, 100, 100], &[50, 60, 150, 250, 250]), None);
    }

    #[test]
    fn a_guest_that_says_more_in_all_is_named_with_both_counts() {
        let said = overstatement_of(Native, &[100, 100, 100], &[50, 110, 170, 220, 230]).unwrap();
        assert_eq!(said, "it says 300 requests to its disk in all, and the host counted 180 on it");
    }

    #[test]
    fn a_second_that_never_reached_the_disk_is_found_though_the_sum_is_right() {
        let said = overstatement_of(Native, &[300, 0, 0], &[0, 10, 100, 200, 300]).unwrap();
        assert_eq!(said, "it says 300 requests to its disk by second 1, and the host counted 100 on it");
    }
    #[test]
    fn an_emulated_tool_that_starts_seconds_late_is_believed_and_its_sum_is_not() {
        assert_eq!(overstatement_of(Emulated, &[100, 100, 100], &[0, 0, 0, 0, 300]), None);
        assert!(overstatement_of(Native, &[100, 100, 100], &[0, 0, 0, 0, 300]).is_some());
        assert!(overstatement_of(Emulated, &[100, 100, 100], &[0, 0, 0, 0, 100]).is_some());
    }
}
