//! The file that says which guest belongs where: a glob of names, then nodes or processors.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use tilemark_plan::facts::Fact;
use tilemark_units::{matches_glob, ranges};

use super::PinError;
use crate::read::{list::parse_list, memory::numa_nodes};
use crate::view::HostView;

/// What guests can be bound to on this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// The processors of each node that are online; empty for a node that has memory only.
    pub nodes: BTreeMap<u32, BTreeSet<u32>>,
    /// Processors that are online.
    pub online: BTreeSet<u32>,
    /// Processors that exist.
    pub present: BTreeSet<u32>,
}

impl Machine {
    /// Reads them. A kernel without NUMA is one node.
    pub fn of(host: &dyn HostView) -> Self {
        let listed = |file: &str| -> BTreeSet<u32> {
            let text = host.read(&format!("/sys/devices/system/cpu/{file}")).ok();
            text.and_then(|text| parse_list(&text)).into_iter().flatten().collect()
        };
        let online = listed("online");
        let mut present = listed("present");
        present.extend(&online);
        let nodes = match numa_nodes(host) {
            Fact::Value(nodes) if !nodes.is_empty() => {
                let own =
                    |threads: &[u32]| threads.iter().copied().filter(|id| online.contains(id)).collect();
                nodes.iter().map(|node| (node.id, own(&node.threads))).collect()
            }
            Fact::Value(_) | Fact::Missing(_) => BTreeMap::from([(0, online.clone())]),
        };
        Self { nodes, online, present }
    }

    /// The nodes that these processors are in.
    fn nodes_of(&self, processors: &BTreeSet<u32>) -> BTreeSet<u32> {
        let near = self.nodes.iter().filter(|(_, own)| !own.is_disjoint(processors));
        near.map(|(node, _)| *node).collect()
    }
}

/// Where a guest is to be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Target {
    /// Processors that its threads may use.
    pub processors: BTreeSet<u32>,
    /// Nodes that its memory moves to.
    pub nodes: BTreeSet<u32>,
}

/// A line of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinLine {
    /// Which guests.
    pub glob: String,
    /// Where they belong.
    pub target: Target,
}

/// The whole file. The first line whose glob matches a guest's name counts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinMap {
    /// In the order of the file.
    pub lines: Vec<PinLine>,
}

impl PinMap {
    /// Reads the file's text: `web-* 0-1` binds to nodes, `db cpus 4-7,12` to processors; `#` begins a comment.
    ///
    /// # Errors
    /// All lines that cannot be followed on this host, each with its number and why.
    pub fn parse(text: &str, machine: &Machine) -> Result<Self, PinError> {
        let (mut lines, mut problems) = (Vec::new(), Vec::new());
        for (number, line) in (1..).zip(text.lines()) {
            let words: Vec<&str> = line.split('#').next().unwrap_or_default().split_whitespace().collect();
            let target = match words.as_slice() {
                [] => continue,
                [glob, ..] if glob.contains(['[', ']', '{', '}', '\\']) => {
                    Err(format!("{glob} has a wildcard other than * and ?"))
                }
                [glob] => Err(format!("{glob} has no nodes or processors after it")),
                [_, nodes] if *nodes != "cpus" => on_nodes(nodes, machine),
                [_, "cpus", processors] => on_processors(processors, machine),
                [_, place @ ..] => Err(format!(
                    "{} is neither a list of nodes such as 0-1,3 nor cpus with a list of processors such as 4-7,12",
                    place.join(" ")
                )),
            };
            match target {
                Ok(target) => lines.push(PinLine { glob: words[0].to_owned(), target }),
                Err(why) => problems.push(format!("line {number}: {why}")),
            }
        }
        if lines.is_empty() && problems.is_empty() {
            problems.push("it has no line with a guest".to_owned());
        }
        if problems.is_empty() { Ok(Self { lines }) } else { Err(PinError::Map { problems }) }
    }

    /// Where a guest of this name belongs; `None` for one that is to be left alone.
    pub fn target_of(&self, name: &str) -> Option<&Target> {
        self.lines.iter().find(|line| matches_glob(&line.glob, name)).map(|line| &line.target)
    }
}

fn numbers(text: &str, what: &str) -> Result<BTreeSet<u32>, String> {
    match parse_list(text) {
        Some(numbers) if !numbers.is_empty() => Ok(numbers.into_iter().collect()),
        _ => Err(format!("{text} is not a list of {what} such as 0-1,3")),
    }
}

fn on_nodes(text: &str, machine: &Machine) -> Result<Target, String> {
    let nodes = numbers(text, "nodes")?;
    let known = || ranges(machine.nodes.keys());
    let mut processors = BTreeSet::new();
    for node in &nodes {
        match machine.nodes.get(node) {
            None => return Err(format!("there is no node {node} on this host; its nodes are {}", known())),
            Some(own) => processors.extend(own),
        }
    }
    if processors.is_empty() {
        return Err(format!("node {text} has no processor that is online"));
    }
    Ok(Target { processors, nodes })
}

fn on_processors(text: &str, machine: &Machine) -> Result<Target, String> {
    let processors = numbers(text, "processors")?;
    if let Some(missing) = processors.difference(&machine.online).next() {
        let state = if machine.present.contains(missing) { "is offline" } else { "does not exist" };
        return Err(format!("processor {missing} {state}; online are {}", ranges(&machine.online)));
    }
    Ok(Target { nodes: machine.nodes_of(&processors), processors })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn machine() -> Machine {
        Machine {
            nodes: BTreeMap::from([
                (0, BTreeSet::from([0, 1, 4, 5])),
                (1, BTreeSet::from([2, 3, 6])),
                (2, BTreeSet::new()),
            ]),
            online: (0..7).collect(),
            present: (0..8).collect(),
        }
    }

    fn problems(text: &str) -> String {
        match PinMap::parse(text, &machine()).unwrap_err() {
            PinError::Map { problems } => problems.join("\n"),
            other => panic!("{other}"),
        }
    }

    #[test]
    fn the_lines_of_the_paper_are_followed_in_their_order() {
        let text =
            "# guests of two nodes\npostgres1 0-1\nnode0-*   0  # all of them\n\n*-db cpus 4-6\nnode0-db 1\n";
        let map = PinMap::parse(text, &machine()).unwrap();
        let of = |name| map.target_of(name).map(|target| (ranges(&target.processors), ranges(&target.nodes)));
        assert_eq!(of("postgres1"), Some(("0-6".to_owned(), "0-1".to_owned())));
        assert_eq!(of("node0-db"), Some(("0-1,4-5".to_owned(), "0".to_owned())));
        assert_eq!(of("tile-1-db"), Some(("4-6".to_owned(), "0-1".to_owned())));
        assert_eq!(of("postgres12"), None);
    }

    #[test]
    fn all_lines_that_cannot_be_followed_are_named_at_once() {
        let text = "a 3\nb 0-x\nc cpus 7\nd cpus 9\ne 2\nf\ng nodes 1\nh[12] 0\ni cpus\nj 0, 1\n";
        let no_place =
            "is neither a list of nodes such as 0-1,3 nor cpus with a list of processors such as 4-7,12";
        let expected = format!(
            "line 1: there is no node 3 on this host; its nodes are 0-2\n\
             line 2: 0-x is not a list of nodes such as 0-1,3\n\
             line 3: processor 7 is offline; online are 0-6\n\
             line 4: processor 9 does not exist; online are 0-6\n\
             line 5: node 2 has no processor that is online\n\
             line 6: f has no nodes or processors after it\n\
             line 7: nodes 1 {no_place}\n\
             line 8: h[12] has a wildcard other than * and ?\n\
             line 9: cpus {no_place}\n\
             line 10: 0, 1 {no_place}"
        );
        assert_eq!(problems(text), expected);
        assert_eq!(problems("# nothing\n"), "it has no line with a guest");
    }
}
