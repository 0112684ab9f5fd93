//! What the kernel reports of errors while something runs: ended processes, hung tasks, failed disks, machine checks.

use rustix::fs::{OFlags, SeekFrom, seek};
use std::{
    fs::{File, OpenOptions},
    io::{self, Read},
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

/// The least severe level that is an error (syslog(2): 0 emergency, 1 alert, 2 critical, 3 error).
const ERROR: u64 = 3;
/// No record is longer (`CONSOLE_EXT_LOG_MAX` of the kernel).
const RECORD_BYTES_MAX: usize = 8192;
/// More records than any kernel's log holds: a kernel that talks without end holds nobody up.
const RECORDS_MAX: usize = 100_000;

/// The kernel's log, read on from where it ended when it was opened.
#[derive(Debug)]
pub struct KernelLog {
    file: File,
}

impl KernelLog {
    /// From now on.
    ///
    /// # Errors
    /// Where `/dev/kmsg` is not there or may not be read: in containers, without root.
    pub fn from_now() -> io::Result<Self> {
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let file = OpenOptions::new().read(true).custom_flags(nonblocking).open(Path::new("/dev/kmsg"))?;
        seek(&file, SeekFrom::End(0))?;
        Ok(Self { file })
    }

    /// The errors that the kernel reported since this was asked last, in its words.
    pub fn errors(&mut self) -> Vec<String> {
        let mut record = vec![0; RECORD_BYTES_MAX];
        let mut errors = Vec::new();
        for _ in 0..RECORDS_MAX {
            match self.file.read(&mut record) {
                Ok(0) => break,
                Ok(length) => errors.extend(error_in(&record[..length])),
                // Records were overwritten before they were read: it goes on with the oldest that is there.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                // Nothing more for now, or nothing that can be read.
                Err(_) => break,
            }
        }
        errors
    }
}

/// The text of a record of `/dev/kmsg` that the kernel itself wrote as an error or worse: `PRIORITY,NUMBER,TIME,FLAGS;TEXT`,
/// where the priority's lowest three bits are the level and the others who wrote it, 0 being the kernel.
fn error_in(record: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(record);
    let (prefix, rest) = text.split_once(';')?;
    let priority: u64 = prefix.split(',').next()?.parse().ok()?;
    let said = rest.lines().next()?.trim();
    (priority <= ERROR && !said.is_empty() && !is_of_loop_in_memory(said)).then(|| said.to_owned())
}

/// The kernel asks a loop device once whether the file below it can have zeroes without being written, and one in memory cannot. It writes them
/// then: nothing has failed.
fn is_of_loop_in_memory(said: &str) -> bool {
    // Older kernels name the function first.
    said.contains("operation not supported error, dev loop") && said.contains("(WRITE_ZEROES)")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_that_the_kernel_itself_reports_are_taken() {
        let oom = b"3,812,90512,-;Out of memory: Killed process 4711 (nginx)\n SUBSYSTEM=none\n";
        assert_eq!(error_in(oom).as_deref(), Some("Out of memory: Killed process 4711 (nginx)"));
        let lost =
            b"3,1,2,-;I/O error, dev loop1, sector 8 op 0x1:(WRITE) flags 0x800 phys_seg 1 prio class 2\n";
        assert!(error_in(lost).is_some());
        let machine_check = b"0,813,90513,-;mce: [Hardware Error]: CPU 3: Machine Check: 0\n";
        assert!(error_in(machine_check).is_some());
        for other in [
            &b"4,1,2,-;a warning\n"[..],
            b"6,1,2,-;eth0: link up\n",
            // A daemon's error: facility 3.
            b"27,1,2,-;dhclient: failed\n",
            b"3,1,2,-;\n",
            b"3,1,2,-;blk_update_request: operation not supported error, dev loop2, sector 8 op 0x9:(WRITE_ZEROES) flags 0x800\n",
            b"3,1,2,-;operation not supported error, dev loop1, sector 524160 op 0x9:(WRITE_ZEROES) flags 0x800 phys_seg 0 prio class 2\n",
            b"no record",
        ] {
            assert_eq!(error_in(other), None, "{}", String::from_utf8_lossy(other));
        }
    }

    #[test]
    fn only_errors_from_now_on_are_read_without_waiting() {
        let Ok(mut log) = KernelLog::from_now() else { return println!("skipped: /dev/kmsg cannot be read") };
        let rest = records(&mut log.file);
        seek(&log.file, SeekFrom::Start(0)).unwrap();
        let all = records(&mut log.file);
        // The kernel may report something at this very moment, and not all that it reported since it booted.
        assert!(all == 0 || rest < all, "{rest} of {all}");
    }

    /// Records up to the end of the log.
    fn records(log: &mut File) -> usize {
        let mut record = vec![0; RECORD_BYTES_MAX];
        (0..RECORDS_MAX).take_while(|_| log.read(&mut record).is_ok_and(|length| length > 0)).count()
    }
}
