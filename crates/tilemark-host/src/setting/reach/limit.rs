//! Limits of this process, which whatever it starts inherits (getrlimit(2)).

use std::io;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde::{Deserialize, Serialize};

/// A limit of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Limit {
    /// Open files.
    OpenFiles,
    /// Bytes of memory that may be locked.
    LockedMemory,
    /// Processes and threads of the user.
    Processes,
}

/// No limit, as it is read and written.
const NONE: &str = "unlimited";

impl Limit {
    fn resource(self) -> Resource {
        match self {
            Self::OpenFiles => Resource::Nofile,
            Self::LockedMemory => Resource::Memlock,
            Self::Processes => Resource::Nproc,
        }
    }

    /// Soft limit and hard limit, `1024 4096`; one number where they are equal.
    pub(super) fn read(self) -> String {
        let Rlimit { current, maximum } = getrlimit(self.resource());
        let shown = |limit: Option<u64>| limit.map_or_else(|| NONE.to_owned(), |limit| limit.to_string());
        if current == maximum { shown(current) } else { format!("{} {}", shown(current), shown(maximum)) }
    }

    /// Takes what [`Self::read`] gives.
    pub(super) fn write(self, text: &str) -> io::Result<()> {
        let limit = |word: &str| match word {
            NONE => Ok(None),
            number => number.parse().map(Some).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput)),
        };
        let mut words = text.split_whitespace();
        let current = limit(words.next().unwrap_or_default())?;
        let maximum = words.next().map_or(Ok(current), limit)?;
        Ok(setrlimit(self.resource(), Rlimit { current, maximum })?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_read_as_it_is_written() {
        let limit = Limit::LockedMemory;
        let found = limit.read();
        limit.write(&found).unwrap();
        assert_eq!(limit.read(), found);
        assert_eq!(limit.write("many").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }
}
