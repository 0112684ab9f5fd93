//! How throughput grows with tiles.

use tilemark_plan::plan::Backend::{Emulated, Kvm, Native};
use tilemark_record::summary::MemoryFigures;

use crate::run::{CLOSED, Run, ladder, of_scenario, of_scenario_on};

const STEPS: [u32; 7] = [1, 2, 4, 6, 8, 12, 16];

/// One disk guest a tile, flat out, whose throughput follows the law with these parameters.
fn by_law(tiles: &[u32], contention: f64, coherence: f64) -> Run {
    tiles.iter().fold(of_scenario(CLOSED, tiles), |run, &count| {
        run.at(count, |repeat| {
            let n = f64::from(count);
            let law = n / (1.0 + contention * (n - 1.0) + coherence * n * (n - 1.0));
            // Repeats scatter by a few thousandths.
            let wobble = 1.0 + f64::from(repeat.repeat % 3) / 1_000.0;
            repeat.loads[0].seconds = 20.0;
            repeat.loads[0].completed = (1e6 * law * wobble) as u64;
        })
    })
}

#[test]
fn seven_steps_have_a_law_with_its_intervals() {
    let judged = by_law(&STEPS, 0.05, 0.004).judged();
    let [fit] = judged.scaling.as_slice() else { panic!("one line of steps: {:?}", judged.scaling) };
    assert_eq!((fit.backend, fit.tiles.as_slice()), (Kvm, &STEPS[..]));
    assert_eq!(fit.one_tile.unit, "requests/s");
    for (figure, wanted) in [(fit.contention, 0.05), (fit.coherence, 0.004)] {
        assert!((figure.value - wanted).abs() < 0.05 * wanted, "{figure:?}");
        assert!(figure.low.unwrap() < wanted && wanted < figure.high.unwrap(), "{figure:?}");
    }
    // sqrt(0.95 / 0.004)
    assert!((fit.peak_tiles.unwrap() - 15.4).abs() < 0.3, "{fit:?}");
    assert!(fit.peak_low.unwrap() < 15.4 && 15.4 < fit.peak_high.unwrap(), "{fit:?}");
    assert!(fit.worst_deviation < 0.01, "{fit:?}");
}

#[test]
fn six_steps_and_emulated_ones_have_no_law() {
    assert_eq!(by_law(&STEPS[..6], 0.05, 0.004).judged().scaling, []);
    assert_eq!(of_scenario_on(CLOSED, &[Emulated], &STEPS).judged().scaling, []);
    // A step without a repeat that counts is none.
    let voided = by_law(&STEPS, 0.05, 0.004).at(12, |repeat| repeat.host.processor.steal = 0.5);
    assert_eq!(voided.judged().scaling, []);
}

#[test]
fn each_backend_has_a_law_of_its_own() {
    let judged = of_scenario_on(CLOSED, &[Kvm, Native], &STEPS).judged();
    let backends: Vec<_> = judged.scaling.iter().map(|fit| fit.backend).collect();
    assert_eq!(backends, [Kvm, Native]);
}

#[test]
fn a_load_at_a_rate_has_no_law_and_the_reason_is_given() {
    let judged = ladder(&[Kvm], &STEPS).judged();
    assert_eq!(judged.scaling, []);
    assert!(judged.missing["scaling"].starts_with("steady is sent at a rate"), "{:?}", judged.missing);
}

#[test]
fn memory_that_two_ways_of_counting_disagree_on_is_noted() {
    let notes = |fell: Option<f64>| {
        let memory =
            MemoryFigures { own_mib: Some(1000.0), available_fell_mib: fell, ..MemoryFigures::default() };
        let run = ladder(&[Kvm], &[1]).at(1, |repeat| repeat.memory = Some(memory.clone()));
        run.judged().points[0].notes.clone()
    };
    for close in [Some(950.0), Some(1050.0), None] {
        assert_eq!(notes(close), Vec::<String>::new(), "{close:?}");
    }
    for far in [940.0, 1060.0] {
        let noted = notes(Some(far));
        assert!(noted[0].contains("1000 MiB") && noted[0].contains("6.0 % apart"), "{noted:?}");
    }
    assert_eq!(
        ladder(&[Kvm], &[1]).judged().points[0].notes,
        Vec::<String>::new(),
        "nothing to hold it against"
    );
}
