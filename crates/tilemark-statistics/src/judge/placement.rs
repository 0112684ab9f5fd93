//! Whether the kernel kept guests, their load and interrupts where the plan puts them. It enters no figure and discards nothing: the
//! figures are those of where guests really were, which the note says.

use tilemark_record::placement::{
    GuestPlaceFigures, InterruptFigures, LoadPlaceFigures, PlaceFigures, ThreadFigures,
};
use tilemark_record::summary::{RepeatSummary, SettingRead};
use tilemark_units::counted;

/// What was read in all repeats, in a sentence or two. Nothing where no guest was to be in a place, and the load was in its own.
pub(crate) fn notes(kept: &[&RepeatSummary]) -> Vec<String> {
    let load: Vec<&LoadPlaceFigures> =
        kept.iter().filter_map(|repeat| repeat.place.as_ref()?.load.as_ref()).collect();
    let in_place: Vec<Option<bool>> = kept.iter().map(|repeat| repeat.is_load_in_place).collect();
    let of_load = if load.is_empty() { bound(&in_place).into_iter().collect() } else { of_load(&load) };
    let settings = kept.iter().flat_map(|repeat| &repeat.settings);
    of_load.into_iter().chain(of_guests(kept)).chain(vectors(settings)).collect()
}

/// The vectors of interrupts that a setting moves and the kernel delivered elsewhere.
fn vectors<'r>(settings: impl Iterator<Item = &'r SettingRead>) -> Option<String> {
    let known = settings.filter_map(|read| Some((read, read.set.as_ref()?, read.effective.as_ref()?)));
    let known: Vec<_> = known.collect();
    let elsewhere: Vec<_> = known.iter().filter(|(read, ..)| read.is_elsewhere).collect();
    let (first, set, effective) = elsewhere.first()?;
    Some(format!(
        "{} of {} of interrupts not delivered to the processors set ({}: set to {set}, delivered to {effective}); some hardware moves one \
         with its next interrupt only",
        elsewhere.len(),
        counted(known.len() as u64, "vector"),
        first.what
    ))
}

/// The threads of the load that were not where the plan has them, and what could not be read of it.
fn of_load(read: &[&LoadPlaceFigures]) -> Vec<String> {
    let sum = |of: fn(&LoadPlaceFigures) -> u32| read.iter().map(|load| u64::from(of(load))).sum::<u64>();
    let (all, elsewhere) = (sum(|load| load.threads_count), sum(|load| load.threads_elsewhere));
    let example = read.iter().find_map(|load| elsewhere_in(&load.threads)).map(in_words);
    let repeats = counted(read.len() as u64, "repeat");
    let moved = (elsewhere > 0).then(|| {
        format!(
            "placement of the load, read under load in {repeats}: {}",
            share_elsewhere(elsewhere, all, example)
        )
    });
    let first = read.iter().find_map(|load| load.unread.as_ref());
    let unread = first.map(|why| format!("the placement of the load could not be read completely: {why}"));
    moved.into_iter().chain(unread).collect()
}

/// The share of repeats in which the load was not bound to where the plan has it: all that is known where nothing was read meanwhile.
fn bound(in_place: &[Option<bool>]) -> Option<String> {
    let elsewhere = in_place.iter().filter(|is_there| **is_there == Some(false)).count();
    (elsewhere > 0).then(|| {
        format!(
            "in {elsewhere} of {} the kernel did not keep all threads of the load on the processors planned",
            counted(in_place.len() as u64, "repeat")
        )
    })
}

fn of_guests(kept: &[&RepeatSummary]) -> Vec<String> {
    let read: Vec<&PlaceFigures> = kept.iter().filter_map(|repeat| repeat.place.as_ref()).collect();
    let guests: Vec<&GuestPlaceFigures> =
        read.iter().flat_map(|read| &read.guests).filter(|guest| guest.is_planned).collect();
    if guests.is_empty() {
        return Vec::new();
    }
    let repeats = counted(read.len() as u64, "repeat");
    let found = [threads(&guests), pages(&guests)].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let mut notes = vec![format!("placement, read under load in {repeats}: {found}")];
    notes.extend(interrupts(&read));
    notes.extend(unread(&guests));
    notes
}

/// Fewer interrupts on guests' processors are not worth a note.
const SOME: f64 = 0.05;

/// Where interrupts of devices were served. They stay where the host has them: a guest shares its processors with those that come there.
/// In words, not in percent, so that the notes of many steps are the same one; the record has the counts.
fn interrupts(read: &[&PlaceFigures]) -> Option<String> {
    let known: Vec<&InterruptFigures> = read.iter().filter_map(|read| read.interrupts.as_ref()).collect();
    let sum =
        |of: fn(&InterruptFigures) -> u64| known.iter().map(|found| u128::from(of(found))).sum::<u128>();
    let of_guests = sum(|found| found.on_guests);
    let all = of_guests + sum(|found| found.on_load) + sum(|found| found.elsewhere);
    let part = of_guests as f64 / all.max(1) as f64;
    let how_many = if part >= 0.5 { "most" } else { "some" };
    (part >= SOME).then(|| {
        format!(
            "{how_many} interrupts of devices were served on processors of guests; `host.setting.\"irq.DEVICE.affinity\"` moves them"
        )
    })
}

fn threads(guests: &[&GuestPlaceFigures]) -> Option<String> {
    let all: u64 = guests.iter().map(|guest| u64::from(guest.threads_count)).sum();
    let elsewhere: u64 = guests.iter().map(|guest| u64::from(guest.threads_elsewhere)).sum();
    if all == 0 {
        return None;
    }
    if elsewhere == 0 {
        // Without their number, so that the notes of many steps are the same one.
        return Some("every thread on the processors planned".to_owned());
    }
    let of_guest =
        |guest: &&GuestPlaceFigures| Some((guest.guest.clone(), elsewhere_in(&guest.threads)?.clone()));
    let example = guests.iter().find_map(of_guest);
    let example = example.map(|(guest, thread)| format!("in {guest}: {}", in_words(&thread)));
    Some(share_elsewhere(elsewhere, all, example))
}

/// So many of all threads, with one of them.
fn share_elsewhere(elsewhere: u64, all: u64, example: Option<String>) -> String {
    let example = example.map(|example| format!(" ({example})")).unwrap_or_default();
    format!("{elsewhere} of {} not on the processors planned{example}", counted(all, "thread"))
}

fn in_words(thread: &ThreadFigures) -> String {
    let ThreadFigures { name, planned, allowed, ran_on, .. } = thread;
    format!("{name:?}, planned on {planned}, may run on {allowed}, last ran on {ran_on}")
}

fn elsewhere_in(threads: &[ThreadFigures]) -> Option<&ThreadFigures> {
    threads.iter().find(|thread| thread.is_elsewhere)
}

fn pages(guests: &[&GuestPlaceFigures]) -> Option<String> {
    let all: u128 =
        guests.iter().flat_map(|guest| guest.memory_bytes.values()).map(|bytes| u128::from(*bytes)).sum();
    let elsewhere: u128 = guests.iter().map(|guest| u128::from(guest.memory_bytes_elsewhere)).sum();
    (all > 0).then(|| format!("{} of the pages on the node planned", share(all - elsewhere.min(all), all)))
}

/// A part in percent, never rounded up to all of it.
fn share(part: u128, all: u128) -> String {
    if part == all {
        return "100 %".to_owned();
    }
    format!("{:.1} %", (1000.0 * part as f64 / all as f64).floor() / 10.0)
}

/// What could not be read, with the first reason.
fn unread(guests: &[&GuestPlaceFigures]) -> Option<String> {
    let reasons: Vec<&String> = guests.iter().filter_map(|guest| guest.unread.as_ref()).collect();
    let first = reasons.first()?;
    Some(format!(
        "the placement of {} of {} could not be read completely: {first}",
        reasons.len(),
        counted(guests.len() as u64, "guest")
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(threads_elsewhere: u32, memory: &[(u32, u64)], bytes_elsewhere: u64) -> GuestPlaceFigures {
        let thread = ThreadFigures {
            name: "nginx".to_owned(),
            planned: "1".to_owned(),
            allowed: "0-1".to_owned(),
            ran_on: 0,
            is_elsewhere: true,
        };
        GuestPlaceFigures {
            guest: "tile-001-web".to_owned(),
            is_planned: true,
            threads: if threads_elsewhere == 0 { Vec::new() } else { vec![thread] },
            threads_count: 5,
            threads_elsewhere,
            memory_bytes: memory.iter().copied().collect(),
            memory_bytes_elsewhere: bytes_elsewhere,
            unread: None,
        }
    }

    fn said(guests: &[GuestPlaceFigures]) -> String {
        let guests: Vec<&GuestPlaceFigures> = guests.iter().collect();
        [threads(&guests), pages(&guests), unread(&guests)]
            .into_iter()
            .flatten()
            .collect::<Vec<_>>()
            .join("; ")
    }

    #[test]
    fn interrupts_on_processors_of_guests_are_a_note_from_a_twentieth_on() {
        let said = |on_guests, on_load, elsewhere| {
            let figures = PlaceFigures {
                interrupts: Some(InterruptFigures { on_guests, on_load, elsewhere }),
                ..PlaceFigures::default()
            };
            interrupts(&[&figures, &PlaceFigures::default()]).unwrap_or_default()
        };
        assert!(
            said(50, 30, 20).starts_with("most interrupts of devices were served on processors of guests")
        );
        assert!(said(5, 90, 5).starts_with("some interrupts"), "{}", said(5, 90, 5));
        assert_eq!([said(4, 90, 6), said(0, 0, 0), said(0, u64::MAX, 1)], [""; 3]);
    }

    #[test]
    fn a_load_that_was_not_bound_is_said_with_its_share() {
        assert_eq!(bound(&[Some(true), None]), None);
        let said = bound(&[Some(false), None, Some(true), Some(false)]).unwrap();
        assert_eq!(
            said,
            "in 2 of 4 repeats the kernel did not keep all threads of the load on the processors planned"
        );
    }

    #[test]
    fn threads_of_the_load_that_were_elsewhere_are_said_with_their_share_and_an_example() {
        let kept = LoadPlaceFigures { threads_count: 4, ..LoadPlaceFigures::default() };
        assert_eq!(of_load(&[]), [""; 0]);
        assert_eq!(of_load(&[&kept, &kept]), [""; 0]);
        let thread = ThreadFigures {
            name: "load-0".to_owned(),
            planned: "0".to_owned(),
            allowed: "0-3".to_owned(),
            ran_on: 2,
            is_elsewhere: true,
        };
        let moved = LoadPlaceFigures { threads: vec![thread], threads_elsewhere: 1, ..kept.clone() };
        let blind = LoadPlaceFigures { unread: Some("denied".to_owned()), ..kept.clone() };
        assert_eq!(
            of_load(&[&kept, &moved, &blind]),
            [
                "placement of the load, read under load in 3 repeats: 1 of 12 threads not on the processors planned (\"load-0\", planned on 0, may run on 0-3, \
                 last ran on 2)",
                "the placement of the load could not be read completely: denied"
            ]
        );
    }

    #[test]
    fn vectors_that_are_delivered_elsewhere_than_set_are_said_with_their_share() {
        let vector = |number: u32, set: Option<&str>, effective: Option<&str>| SettingRead {
            what: format!("irq.eth0.affinity (interrupt {number})"),
            set: set.map(str::to_owned),
            effective: effective.map(str::to_owned),
            is_elsewhere: effective == Some("0"),
            ..SettingRead::default()
        };
        let (moved, kept) = (vector(26, Some("2-3"), Some("0")), vector(27, Some("2-3"), Some("3")));
        // What another side sets, and what no kernel says.
        let (unset, unknown) = (vector(26, None, Some("1")), vector(28, Some("2-3"), None));
        assert_eq!(vectors([&kept, &unset, &unknown].into_iter()), None);
        assert_eq!(
            vectors([&kept, &moved, &unset, &unknown, &moved].into_iter()).unwrap(),
            "2 of 3 vectors of interrupts not delivered to the processors set (irq.eth0.affinity (interrupt 26): set to 2-3, delivered to \
             0); some hardware moves one with its next interrupt only"
        );
    }

    #[test]
    fn a_placement_that_was_kept_is_said_in_few_words() {
        let both = [guest(0, &[(1, 4096)], 0), guest(0, &[(1, 4096)], 0)];
        assert_eq!(
            said(&both),
            "every thread on the processors planned; 100 % of the pages on the node planned"
        );
    }

    #[test]
    fn what_the_kernel_did_otherwise_has_its_share_and_an_example() {
        let both = [guest(0, &[(1, 992)], 0), guest(1, &[(0, 8), (1, 0)], 8)];
        assert_eq!(
            said(&both),
            "1 of 10 threads not on the processors planned (in tile-001-web: \"nginx\", planned on 1, may run on 0-1, last ran on 0); \
             99.2 % of the pages on the node planned"
        );
        assert_eq!(share(99_999, 100_000), "99.9 %");
    }

    #[test]
    fn what_cannot_be_read_is_said_with_its_reason() {
        let blind = GuestPlaceFigures {
            unread: Some("its memory cannot be read: denied".to_owned()),
            ..guest(0, &[], 0)
        };
        assert_eq!(
            said(&[blind]),
            "every thread on the processors planned; the placement of 1 of 1 guest could not be read completely: its memory cannot be read: denied"
        );
    }
}
