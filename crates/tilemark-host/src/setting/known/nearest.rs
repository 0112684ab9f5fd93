//! Which keys a user may have meant.

use tilemark_units::distance;

/// Keys that are shown at most.
const SHOWN_MAX: usize = 3;

/// The keys that are the nearest to one that does not exist: few letters differ, or one is a part of the other.
pub(super) fn among<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Vec<String> {
    let far = 2 + key.len() / 4;
    let mut all: Vec<(usize, &str)> = known
        .map(|candidate| {
            let is_part = key.len() > 2 && candidate.split('.').any(|part| part == key);
            (if is_part { 0 } else { distance(key, candidate) }, candidate)
        })
        .filter(|(distance, _)| *distance <= far)
        .collect();
    all.sort();
    all.into_iter().take(SHOWN_MAX).map(|(_, candidate)| candidate.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_a_few_letters_apart_are_near() {
        let known = ["thp", "thp.defrag", "ksm", "vm.swappiness"];
        assert_eq!(among("vm.swapiness", known.into_iter()), ["vm.swappiness"]);
        assert_eq!(among("defrag", known.into_iter()), ["thp.defrag"]);
        assert_eq!(among("entirely.different", known.into_iter()), Vec::<String>::new());
    }
}
