//! Connections to many hosts are many open files, more than the usual 1,024.

use crate::error::FleetError;
use tilemark_sys::limits::raise_open_files;

/// Of one host: three streams, the carrier's process, and a file that is being received. While the carrier is started, the other ends of
/// the streams too.
const FILES_OF_HOST: u64 = 8;
/// Standard streams, the lock, the queue, documents that are written, records that are read.
const FILES_BESIDE: u64 = 64;

/// Raises the soft limit of open files to the hard one, and sees whether that is enough for so many hosts at the same time.
///
/// # Errors
/// When it is not, with both numbers.
pub(crate) fn suffice_for(hosts: usize) -> Result<(), FleetError> {
    within(hosts, raise_open_files())
}

/// Raises the soft limit of open files to the hard one, and returns how many hosts it suffices for at the same time: one at least.
pub(crate) fn hosts_at_once() -> usize {
    raise_open_files().map_or(usize::MAX, hosts_within)
}

fn hosts_within(limit: u64) -> usize {
    usize::try_from(limit.saturating_sub(FILES_BESIDE) / FILES_OF_HOST).unwrap_or(usize::MAX).max(1)
}

fn within(hosts: usize, limit: Option<u64>) -> Result<(), FleetError> {
    let wanted = FILES_BESIDE + FILES_OF_HOST * hosts as u64;
    match limit {
        Some(limit) if limit < wanted => Err(FleetError::FewFiles { hosts, wanted, limit }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_asked_with_the_files_that_there_are() {
        assert_eq!([10, 72, 512, 576].map(hosts_within), [1, 1, 56, 64]);
    }

    #[test]
    fn a_hard_limit_that_is_too_low_is_refused_with_both_numbers() {
        assert!(within(1_000, None).is_ok() && within(1_000, Some(8_064)).is_ok());
        let error = within(1_000, Some(8_063)).expect_err("one file is missing");
        let text =
            "1000 hosts at the same time need up to 8064 open files in one process, and the limit is 8063";
        assert_eq!(error.to_string(), text);
        assert!(error.remedy().contains("`ulimit -Hn 8064`") && error.remedy().contains("--at-once"));
        assert!(!error.is_bad_input());
    }
}
