//! Topic patterns in a tree of their words: words between dots, `*` for one word, `#` for any number of words.
//!
//! A key is compared with all patterns at once, word by word, so that its cost grows with the patterns that still fit and
//! not with all of them.

use std::collections::HashMap;

use crate::topology::Slot;

/// Patterns and what is bound with each.
#[derive(Debug)]
pub(crate) struct Patterns {
    nodes: Vec<Node>,
    free: Vec<u32>,
}

#[derive(Debug, Default)]
struct Node {
    parent: u32,
    words: HashMap<Box<[u8]>, u32>,
    slots: Vec<Slot>,
}

const ROOT: u32 = 0;

impl Node {
    fn hash(&self) -> Option<u32> {
        self.words.get(&b"#"[..]).copied()
    }
}

impl Patterns {
    pub(crate) fn new() -> Self {
        Self { nodes: vec![Node::default()], free: Vec::new() }
    }

    fn node(&self, index: u32) -> &Node {
        &self.nodes[index as usize]
    }

    /// What is bound with a pattern that has been added.
    pub(crate) fn find(&mut self, pattern: &[u8]) -> Option<&mut Vec<Slot>> {
        let node = self.node_of(pattern)?;
        Some(&mut self.nodes[node as usize].slots)
    }

    fn node_of(&self, pattern: &[u8]) -> Option<u32> {
        words(pattern).try_fold(ROOT, |node, word| self.node(node).words.get(word).copied())
    }

    /// What is bound with a pattern, which is added when it is new.
    pub(crate) fn add(&mut self, pattern: &[u8]) -> &mut Vec<Slot> {
        let mut at = ROOT;
        for word in words(pattern) {
            at = match self.node(at).words.get(word) {
                Some(&next) => next,
                None => self.add_child(at, word),
            };
        }
        &mut self.nodes[at as usize].slots
    }

    fn add_child(&mut self, parent: u32, word: &[u8]) -> u32 {
        let node = Node { parent, ..Node::default() };
        let index = match self.free.pop() {
            Some(index) => {
                self.nodes[index as usize] = node;
                index
            }
            None => {
                self.nodes.push(node);
                u32::try_from(self.nodes.len() - 1).expect("memory ends before 2^32 nodes")
            }
        };
        self.nodes[parent as usize].words.insert(word.into(), index);
        index
    }

    /// Forgets a pattern with which nothing is bound any more.
    pub(crate) fn prune(&mut self, pattern: &[u8]) {
        let Some(mut at) = self.node_of(pattern) else { return };
        let path: Vec<&[u8]> = words(pattern).collect();
        for word in path.iter().rev() {
            if !self.node(at).slots.is_empty() || !self.node(at).words.is_empty() {
                return;
            }
            let parent = self.node(at).parent;
            self.nodes[parent as usize].words.remove(*word);
            self.nodes[at as usize] = Node::default();
            self.free.push(at);
            at = parent;
        }
    }

    pub(crate) fn slots(&self) -> impl Iterator<Item = &Slot> {
        self.nodes.iter().flat_map(|node| &node.slots)
    }

    /// Calls `each` for what is bound with patterns that a key fits; one pattern may come twice. Returns how many nodes it
    /// has looked at.
    pub(crate) fn matching(&self, key: &[u8], mut each: impl FnMut(&Slot)) -> u64 {
        let key: Vec<&[u8]> = words(key).collect();
        // A node that was reached, and how many words of the key were used until there.
        let mut open = vec![(ROOT, 0)];
        let mut hashes = Vec::new();
        // From which word on a `#` has been followed: it is reached again and again, and need not be followed twice.
        let mut followed: HashMap<u32, usize> = HashMap::new();
        let mut looked_at = 0;
        while let Some((index, used)) = open.pop() {
            looked_at += 1;
            let node = self.node(index);
            if used == key.len() {
                node.slots.iter().for_each(&mut each);
            }
            self.step(node, &key, used, &mut open);
            hashes.extend(node.hash());
            while let Some(hash) = hashes.pop() {
                let until = followed.get(&hash).copied().unwrap_or(key.len() + 1);
                if until <= used {
                    continue;
                }
                followed.insert(hash, used);
                let node = self.node(hash);
                if until > key.len() {
                    node.slots.iter().for_each(&mut each);
                }
                for used in used..until {
                    looked_at += 1;
                    self.step(node, &key, used, &mut open);
                }
                hashes.extend(node.hash());
            }
        }
        looked_at
    }

    /// Notes where the next word of the key leads.
    fn step(&self, node: &Node, key: &[&[u8]], used: usize, open: &mut Vec<(u32, usize)>) {
        let Some(&word) = key.get(used) else { return };
        open.extend(node.words.get(word).filter(|_| word != b"#").map(|next| (*next, used + 1)));
        if word != b"*" {
            open.extend(node.words.get(&b"*"[..]).map(|next| (*next, used + 1)));
        }
    }
}

fn words(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'.').filter(move |_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use rand::rngs::StdRng;
    use rand::seq::IndexedRandom;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::slab::Slab;
    use crate::topology::Destination;

    /// Patterns that are bound with a queue each; which of them a key fits.
    fn fitting(patterns: &[String], key: &str) -> Vec<String> {
        let mut tree = Patterns::new();
        let mut names = Slab::new();
        for pattern in patterns {
            let queue = names.insert(pattern.clone());
            tree.add(pattern.as_bytes())
                .push(Slot { destination: Destination::Queue(queue), binding: queue });
        }
        let mut found = Vec::new();
        tree.matching(key.as_bytes(), |slot| found.extend(names.get(slot.binding).cloned()));
        found.sort();
        found.dedup();
        found
    }

    #[test]
    fn patterns_fit_the_keys_that_the_specification_says() {
        for (pattern, key, fits) in [
            ("*.stock.#", "usd.stock", true),
            ("*.stock.#", "eur.stock.db", true),
            ("*.stock.#", "stock.nasdaq", false),
            ("#", "", true),
            ("#", "a.b.c", true),
            ("#.#", "a", true),
            ("#.*.#", "", false),
            ("*", "", false),
            ("*", "a", true),
            ("*", "a.b", false),
            ("a.#.b", "a.b", true),
            ("a.#.b", "a.x.b.y.b", true),
            ("a.#.b", "a.x.b.y", false),
            ("#.a.#", "b.a", true),
            ("#.a.#.b", "a.a.b", true),
            ("a.*.c", "a..c", true),
            ("a.#", "a.#", true),
            ("a.b", "a.#", false),
            ("", "", true),
            ("", "a", false),
            ("a", "", false),
        ] {
            assert_eq!(!fitting(&[pattern.into()], key).is_empty(), fits, "{pattern} {key}");
        }
    }

    /// The rule as the specification has it, word by word.
    fn fits(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern.split_first(), key.split_first()) {
            (None, None) => true,
            (Some((&"#", rest)), None) => fits(rest, key),
            (Some((&"#", rest)), Some((_, later))) => fits(rest, key) || fits(pattern, later),
            (Some((word, rest)), Some((first, later))) => {
                (*word == "*" || word == first) && fits(rest, later)
            }
            _ => false,
        }
    }

    #[test]
    fn many_patterns_together_fit_what_each_fits_alone() {
        let mut rng = StdRng::seed_from_u64(5);
        let mut text = |words: &[&str]| {
            let count = rng.random_range(1..6);
            (0..count).map(|_| *words.choose(&mut rng).unwrap()).collect::<Vec<_>>().join(".")
        };
        let mut hits = 0;
        for _ in 0..300 {
            let mut patterns: Vec<String> = (0..40).map(|_| text(&["a", "b", "*", "#"])).collect();
            patterns.sort();
            patterns.dedup();
            let key = text(&["a", "b", "c", ""]);
            let words: Vec<&str> = if key.is_empty() { Vec::new() } else { key.split('.').collect() };
            let expected: Vec<String> = patterns
                .iter()
                .filter(|pattern| fits(&pattern.split('.').collect::<Vec<_>>(), &words))
                .cloned()
                .collect();
            hits += expected.len();
            assert_eq!(fitting(&patterns, &key), expected, "{key}");
        }
        assert!(hits > 1000, "{hits}");
    }

    #[test]
    fn a_key_is_compared_with_the_patterns_that_still_fit() {
        let mut tree = Patterns::new();
        let key = Slab::new().insert(());
        let slot = || Slot { destination: Destination::Queue(key), binding: key };
        for number in 0..4000 {
            tree.add(format!("news.{number}.#").as_bytes()).push(slot());
            tree.add(format!("#.{number}").as_bytes()).push(slot());
        }
        let mut found = 0;
        let looked_at = tree.matching(b"news.17.today.18", |_| found += 1);
        assert_eq!(found, 2);
        assert!(looked_at < 40, "{looked_at} nodes");
        // What is unbound leaves nothing behind.
        for number in 0..4000 {
            for pattern in [format!("news.{number}.#"), format!("#.{number}")] {
                tree.find(pattern.as_bytes()).unwrap().clear();
                tree.prune(pattern.as_bytes());
            }
        }
        assert_eq!((tree.nodes.len(), tree.node(ROOT).words.len()), (tree.free.len() + 1, 0));
    }
}
