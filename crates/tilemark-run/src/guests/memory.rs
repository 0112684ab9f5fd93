//! What guests' memory comes to, held against what the host has less since they were started.

use tilemark_guests::{GuestId, GuestManager, ReadyGuest};
use tilemark_host::telemetry::Pss;
use tilemark_plan::plan;
use tilemark_record::summary::MemoryFigures;
use tilemark_units::Bytes;

/// What guests that run take now, by what `pss` says about each of their processes; nothing where one cannot be read.
pub(crate) fn of_guests(
    manager: &dyn GuestManager,
    guests: &[ReadyGuest],
    pss: impl Fn(u32) -> Option<Pss>,
) -> Option<MemoryFigures> {
    let ids: Vec<GuestId> = guests.iter().map(|guest| guest.id).collect();
    let read = |processes: &Vec<u32>| -> Option<Vec<Pss>> {
        let parts: Vec<Pss> = processes.iter().filter_map(|pid| pss(*pid)).collect();
        // A guest of which nothing could be read has an unknown size, and not none.
        (!parts.is_empty()).then_some(parts)
    };
    let sizes: Option<Vec<Vec<Pss>>> = manager.all_processes(&ids).iter().map(read).collect();
    figures(&sizes?)
}

/// From the sizes of every guest's processes; nothing without guests.
fn figures(guests: &[Vec<Pss>]) -> Option<MemoryFigures> {
    let mib = |bytes: u64| Bytes::new(bytes).as_mib();
    let sizes: Vec<f64> = guests.iter().map(|parts| mib(parts.iter().map(|part| part.bytes).sum())).collect();
    let own = |part: &Pss| Some(part.bytes.saturating_sub(part.shared_memory_bytes?));
    let own: Option<u64> = guests.iter().flatten().map(own).sum();
    (!sizes.is_empty()).then(|| MemoryFigures {
        pss_mib_per_guest: sizes.iter().sum::<f64>() / sizes.len() as f64,
        pss_mib_max: sizes.iter().copied().fold(0.0, f64::max),
        own_mib: own.map(mib),
        available_fell_mib: None,
    })
}

/// The same with the fall of the memory that the host could give, where both say the same of real guests. Services of native
/// twins keep much in the page cache, which is available.
pub(crate) fn beside_available(
    memory: MemoryFigures,
    backend: plan::Backend,
    before: Option<Bytes>,
    after: Option<Bytes>,
) -> MemoryFigures {
    let fell = match backend {
        plan::Backend::Native => None,
        plan::Backend::Kvm | plan::Backend::Emulated => {
            before.zip(after).map(|(before, after)| before.as_mib() - after.as_mib())
        }
    };
    MemoryFigures { available_fell_mib: fell, ..memory }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(mib: u64, shared_mib: Option<u64>) -> Pss {
        Pss { bytes: mib << 20, shared_memory_bytes: shared_mib.map(|mib| mib << 20) }
    }

    #[test]
    fn what_a_guest_shares_with_its_template_is_not_its_own() {
        let guests = [vec![of(90, Some(30)), of(10, Some(0))], vec![of(60, Some(20))]];
        let found = figures(&guests).unwrap();
        assert_eq!((found.pss_mib_per_guest, found.pss_mib_max, found.own_mib), (80.0, 100.0, Some(110.0)));
        // A kernel that does not count them apart leaves it unknown.
        assert_eq!(figures(&[vec![of(90, None)]]).unwrap().own_mib, None);
        assert_eq!(figures(&[]), None);
    }

    #[test]
    fn memory_of_twins_is_not_compared_with_what_is_available() {
        let (before, after) = (Some(Bytes::from_gib(3)), Some(Bytes::from_gib(2)));
        let fell =
            |backend| beside_available(MemoryFigures::default(), backend, before, after).available_fell_mib;
        assert_eq!(fell(plan::Backend::Kvm), Some(1024.0));
        assert_eq!(fell(plan::Backend::Native), None);
    }
}
