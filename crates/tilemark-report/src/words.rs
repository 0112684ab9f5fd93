//! Words that a report explains where they are used, and once more at its end.

/// A word with its meaning.
pub(crate) struct Word {
    /// How markup refers to it.
    pub(crate) key: &'static str,
    /// The word.
    pub(crate) word: &'static str,
    /// What it means.
    pub(crate) meaning: &'static str,
}

const fn word(key: &'static str, word: &'static str, meaning: &'static str) -> Word {
    Word { key, word, meaning }
}

/// All of them, by the alphabet of the words.
pub(crate) const WORDS: [Word; 34] = [
    word(
        "achieved",
        "achieved",
        "The share of the demand that was answered correctly before the load ended.",
    ),
    word(
        "backend",
        "backend",
        "Where guests run: KVM (the processor's own virtualization), emulated (QEMU translates every instruction), native (no guest at all).",
    ),
    word(
        "cannot-tell",
        "cannot tell",
        "There is not enough to say whether the figures can be trusted, or which answer is right.",
    ),
    word(
        "emulated",
        "emulated",
        "QEMU translated every instruction. Correct answers then show that guests work; their times say nothing about how fast this host is.",
    ),
    word("errors", "errors", "The part of the requests that failed or were answered with the wrong bytes."),
    word(
        "fairness",
        "fairness",
        "Jain's index: 1 when all guests got the same, 1/n when one of n guests got everything.",
    ),
    word(
        "gate",
        "gate",
        "The limits on latency, errors and achieved share that every load of a step must keep. A step holds where the whole interval of every figure lies within its limit, breaks where one lies beyond it or a guest or service failed, and is undecided otherwise.",
    ),
    word(
        "guest",
        "guest",
        "One virtual machine, or its native twin: the same service in namespaces, without a virtual machine.",
    ),
    word("guest-work", "guest work", "Processor time spent inside guests, doing what they are for."),
    word("idle", "idle", "CPU time that was not used."),
    word(
        "interval",
        "interval",
        "A 95 % confidence interval over repeats: if the whole measurement were made 100 times, about 95 of the intervals would contain the true value. It needs at least three repeats.",
    ),
    word(
        "latency",
        "latency",
        "From the intended start of a request to its last byte. A late start counts: it is what a user would feel.",
    ),
    word(
        "lateness",
        "lateness",
        "How long after its intended time a request was sent. That is the load generator's fault; it is kept apart from latency and never hidden.",
    ),
    word("limit", "bottleneck", "The resource that ran out first. The figures are listed under Evidence."),
    word(
        "load",
        "load",
        "What is sent to guests, and the processor time that sending takes. It has processors of its own.",
    ),
    word(
        "not-trusted",
        "not trusted",
        "Something is known to have spoiled figures. They are shown, struck through.",
    ),
    word(
        "offered",
        "offered",
        "Requests a second that the users of all guests ask for, whether or not they are answered.",
    ),
    word("other", "other", "Processor time of everything on this host that is not part of the run."),
    word(
        "overhead",
        "QEMU and host kernel",
        "Processor time that the host spends on behalf of guests: devices, network, exits.",
    ),
    word("p50", "p50", "Half of the requests were answered faster, half slower."),
    word(
        "p99",
        "p99",
        "99 of 100 requests were answered within this time. It is computed from all requests of all kept repeats, and is given only where 20 requests or more lie beyond it.",
    ),
    word(
        "pss",
        "memory per guest",
        "Proportional set size: memory of the guest's process on the host, shared pages split among those who share them. Read after load.",
    ),
    word(
        "ready",
        "ready",
        "A guest is ready when it has its own identity, its agent has answered the host, its service answers, and it can be reached over the network. Counted from the start of the first guest. The time to make templates is not included.",
    ),
    word(
        "repeat",
        "repeat",
        "One pass over a step, with fresh guests. Repeats come in random order. A discarded repeat is counted and shown, and is not used in any figure.",
    ),
    word(
        "resolution",
        "smallest change visible",
        "A change of this size is seen in 95 of 100 comparisons of two sides whose repeats scatter like these. A smaller one can be missed. When two separate runs are compared, the difference from run to run is added to it.",
    ),
    word(
        "slowdown",
        "slowdown",
        "How many times as long a request takes as with one tile: by mean latency in an open loop, by the inverse of a guest's throughput in a closed one.",
    ),
    word("steal", "steal", "Processor time that the hypervisor under this host took away."),
    word("throughput", "served", "Requests answered correctly in a second, all guests together."),
    word("tile", "tile", "The smallest set of guests that is repeated, with its loads."),
    word("trusted", "trusted", "No check found anything that spoils the figures."),
    word(
        "twin",
        "native twin",
        "The same services, loads, disks and network on the host's own kernel, without virtual machines.",
    ),
    word(
        "vcpus-per-thread",
        "vCPUs per thread",
        "Virtual processors of all guests for each hardware thread that guests may use.",
    ),
    word(
        "within",
        "within the gate",
        "The number of kept repeats in which every load and guest was within every limit.",
    ),
    word("worst-guest", "worst guest", "The guest of the headline load with the highest p99."),
];

/// The meaning of `key`.
pub(crate) fn meaning(key: &str) -> Option<&'static Word> {
    WORDS.iter().find(|word| word.key == key)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_in_order_and_once() {
        assert!(WORDS.is_sorted_by(|a, b| a.key < b.key), "keys are sorted and unique");
    }

    #[test]
    fn every_column_of_the_table_is_explained() {
        for column in crate::view::columns(crate::view::RateColumn::Served) {
            assert!(meaning(column.word).is_some(), "no meaning of {}", column.word);
        }
    }
}
