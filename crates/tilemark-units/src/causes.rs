//! An error with all that led to it.

use std::{error::Error, iter::successors};

/// An error and its causes in one line, parted by colons.
pub fn with_causes(error: &dyn Error) -> String {
    let causes = successors(error.source(), |&cause| cause.source());
    causes.fold(error.to_string(), |text, cause| format!("{text}: {cause}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    #[derive(Debug, thiserror::Error)]
    #[error("{0}")]
    struct Step(&'static str, #[source] Option<Box<dyn Error + Send + Sync>>);

    #[test]
    fn each_cause_follows_what_it_led_to() {
        let last = io::Error::other("no space left");
        let middle = io::Error::other(Step("the file was not written", Some(last.into())));
        let error = Step("the record is not whole", Some(middle.into()));
        assert_eq!(with_causes(&error), "the record is not whole: the file was not written: no space left");
        assert_eq!(with_causes(&Step("alone", None)), "alone");
    }
}
