//! Limits of this process, which whatever it starts inherits (getrlimit(2)).

use std::{fs, io};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::thread::{CapabilitySet, capabilities};
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

    /// Takes what [`Self::read`] gives. A hard limit that could not be raised again is not lowered: it is to be restored later.
    pub(super) fn write(self, text: &str) -> io::Result<()> {
        let limit = |word: &str| match word {
            NONE => Ok(None),
            number => number.parse().map(Some).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput)),
        };
        let mut words = text.split_whitespace();
        let current = limit(words.next().unwrap_or_default())?;
        let maximum = words.next().map_or(Ok(current), limit)?;
        let most = getrlimit(self.resource()).maximum;
        if is_lower(maximum, most) && !may_raise() {
            let why =
                "it could not be raised again, which needs CAP_SYS_RESOURCE in the host's user namespace";
            return Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
        }
        Ok(setrlimit(self.resource(), Rlimit { current, maximum })?)
    }
}

fn is_lower(limit: Option<u64>, than: Option<u64>) -> bool {
    limit.is_some_and(|limit| than.is_none_or(|than| limit < than))
}

/// Whether this thread may raise a hard limit. Root in many containers may not: it lacks the capability, or has it in a user namespace of
/// its own, and the kernel asks for that of the host's (setrlimit(2)).
fn may_raise() -> bool {
    capabilities(None).is_ok_and(|own| own.effective.contains(CapabilitySet::SYS_RESOURCE))
        && fs::read_to_string("/proc/self/uid_map").is_ok_and(|map| is_map_of_host(&map))
}

/// Whether the user namespace with this map of users is the host's, which has all of them as they are (user_namespaces(7)).
fn is_map_of_host(map: &str) -> bool {
    map.split_whitespace().eq(["0", "0", "4294967295"])
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CapabilitySets, set_capabilities};
    use std::process::Command;

    #[test]
    fn a_limit_is_read_as_it_is_written() {
        let limit = Limit::LockedMemory;
        let found = limit.read();
        limit.write(&found).unwrap();
        assert_eq!(limit.read(), found);
        assert_eq!(limit.write("many").unwrap_err().kind(), io::ErrorKind::InvalidInput);
    }

    /// In the environment of this test where it runs in a user namespace.
    const IN_NAMESPACE: &str = "TILEMARK_TEST_IN_USER_NAMESPACE";

    /// A process with several threads can enter no user namespace: so this test is started in one.
    #[test]
    fn root_of_a_user_namespace_lowers_no_hard_limit() {
        if std::env::var_os(IN_NAMESPACE).is_some() {
            let own = capabilities(None).unwrap();
            assert!(own.effective.contains(CapabilitySet::SYS_RESOURCE), "{own:?}");
            let limit = Limit::OpenFiles;
            let found = limit.read();
            assert_eq!(limit.write("64").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
            assert_eq!(limit.read(), found);
            return;
        }
        let in_namespace = ["--user", "--map-root-user"];
        if !Command::new("unshare").args(in_namespace).arg("true").status().is_ok_and(|ended| ended.success())
        {
            println!("skipped: this host lets this user make no user namespace");
            return;
        }
        let test = "setting::reach::limit::tests::root_of_a_user_namespace_lowers_no_hard_limit";
        let mut again = Command::new("unshare");
        again.args(in_namespace).arg(std::env::current_exe().unwrap()).args(["--exact", test]);
        let output = again.env(IN_NAMESPACE, "1").output().unwrap();
        let shown = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success() && shown.contains("1 passed"), "{shown}");
    }

    #[test]
    fn the_user_namespace_of_the_host_has_all_users_as_they_are() {
        assert!(is_map_of_host("         0          0 4294967295\n"));
        for map in ["0 0 1\n", "0 100000 65536\n", "0 0 1\n1 1 4294967294\n", ""] {
            assert!(!is_map_of_host(map), "{map}");
        }
    }

    #[test]
    fn a_hard_limit_that_could_not_be_raised_again_is_not_lowered() {
        // Only this thread is without it.
        let own = capabilities(None).unwrap();
        let less = CapabilitySets { effective: own.effective - CapabilitySet::SYS_RESOURCE, ..own };
        set_capabilities(None, less).unwrap();
        let limit = Limit::LockedMemory;
        let found = limit.read();
        let error = limit.write("4096").unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        assert!(error.to_string().contains("CAP_SYS_RESOURCE"), "{error}");
        assert_eq!(limit.read(), found);
        assert!(is_lower(Some(1), None) && is_lower(Some(1), Some(2)));
        assert!(!is_lower(None, Some(1)) && !is_lower(Some(2), Some(2)) && !is_lower(None, None));
    }
}
