//! Where this user's things are, and how an ordinary user finds those of root.

use tilemark_record::places::{Places, Surroundings};

/// Where this user's things are.
pub(crate) fn places() -> Places {
    Places::of(&Surroundings::of_this_process())
}

/// Where those of root are, for an ordinary user who sees none; nothing for root.
pub(crate) fn roots_are_apart(command: &str) -> String {
    if tilemark_run::program::is_root() {
        String::new()
    } else {
        format!(" Those of root: `sudo tilemark {command}`.")
    }
}
