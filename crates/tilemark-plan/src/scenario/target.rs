//! What a guest of the map is put on: `node:0`, `node:0-1` or `cpus:2-3`.

/// Where a guest of the map is put.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    /// On the processors and memory of these nodes.
    Nodes(Vec<u32>),
    /// On these processors, and the memory of their nodes.
    Processors(Vec<u32>),
}

/// Numbers in a list: as many processors as Linux can be built for (`NR_CPUS`, arch/x86/Kconfig).
const NUMBERS_MAX: usize = 8192;

impl Target {
    /// Reads it. The error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let wrong = || format!("{text:?} is not a valid place of guests");
        let (what, list) = text.split_once(':').ok_or_else(wrong)?;
        let numbers = numbers(list).ok_or_else(wrong)?;
        match what {
            "node" => Ok(Self::Nodes(numbers)),
            "cpus" => Ok(Self::Processors(numbers)),
            _ => Err(wrong()),
        }
    }
}

/// Numbers as the kernel lists them, `0-3,8`; sorted, each once. Nothing where there is none.
fn numbers(list: &str) -> Option<Vec<u32>> {
    let mut all = Vec::new();
    for part in list.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last): (u32, u32) = (first.trim().parse().ok()?, last.trim().parse().ok()?);
        let count = usize::try_from(last.checked_sub(first)?).ok()?.checked_add(1)?;
        if count > NUMBERS_MAX - all.len() {
            return None;
        }
        all.extend(first..=last);
    }
    all.sort_unstable();
    all.dedup();
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_processors_are_lists_of_numbers() {
        assert_eq!(Target::parse("node:0"), Ok(Target::Nodes(vec![0])));
        assert_eq!(Target::parse("node:1,0"), Ok(Target::Nodes(vec![0, 1])));
        assert_eq!(Target::parse("cpus:2-3,8"), Ok(Target::Processors(vec![2, 3, 8])));
        for wrong in ["", "0", "node:", "node:a", "cpus:3-2", "cpu:1", "cpus:0-4000000000", "cpus:1,,2"] {
            assert!(Target::parse(wrong).is_err(), "{wrong}");
        }
    }
}
