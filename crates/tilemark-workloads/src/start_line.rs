//! Where all that begin together wait for the word of the thread that leads them.

use std::{
    sync::{Condvar, Mutex, PoisonError},
    time::Instant,
};

/// Opens once: with the origin of everybody's time, or never.
#[derive(Default)]
pub(crate) struct StartLine {
    word: Mutex<Option<Option<Instant>>>,
    changed: Condvar,
}

impl StartLine {
    /// Lets all begin at this moment; `None`: not at all. The first word counts.
    pub(crate) fn give(&self, word: Option<Instant>) {
        self.word.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(word);
        self.changed.notify_all();
    }
}

/// One that is to begin. If it is dropped before the word is given, nobody begins.
pub(crate) struct Starter<'a>(pub(crate) &'a StartLine);

impl Starter<'_> {
    /// Waits for the word.
    pub(crate) fn wait(&self) -> Option<Instant> {
        let word = self.0.word.lock().unwrap_or_else(PoisonError::into_inner);
        let word = self.0.changed.wait_while(word, |word| word.is_none());
        word.unwrap_or_else(PoisonError::into_inner).flatten()
    }
}

impl Drop for Starter<'_> {
    fn drop(&mut self) {
        self.0.give(None);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    /// What two get that wait while this is done.
    fn waited(word: impl FnOnce(&StartLine)) -> [Option<Instant>; 2] {
        let line = StartLine::default();
        let starters = [Starter(&line), Starter(&line)];
        thread::scope(|scope| {
            let waiting = starters.each_ref().map(|starter| scope.spawn(|| starter.wait()));
            word(&line);
            waiting.map(|waiting| waiting.join().unwrap())
        })
    }

    #[test]
    fn all_begin_at_the_same_moment_and_the_first_word_counts() {
        let origin = Some(Instant::now());
        let given = waited(|line| {
            line.give(origin);
            line.give(None);
        });
        assert_eq!(given, [origin; 2]);
    }

    #[test]
    fn none_begins_when_one_has_gone_before() {
        let given = waited(|line| {
            drop(Starter(line));
            line.give(Some(Instant::now()));
        });
        assert_eq!(given, [None; 2]);
    }
}
