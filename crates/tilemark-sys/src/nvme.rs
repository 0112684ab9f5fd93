//! Interrupt coalescing of an NVMe controller, by its administration commands (`linux/nvme_ioctl.h`).

use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io,
    os::{fd::AsRawFd, unix::fs::FileTypeExt},
    path::Path,
};

/// `_IOWR('N', 0x41, struct nvme_admin_cmd)`.
const ADMIN_COMMAND: libc::Ioctl = 0xC048_4E41_u32 as libc::Ioctl;
/// Commands and the feature, from the NVM Express Base Specification 2.0, sections 5.15 and 5.27.1.6.
const GET_FEATURES: u8 = 0x0a;
const SET_FEATURES: u8 = 0x09;
const INTERRUPT_COALESCING: u32 = 0x08;
/// The time is counted in so many microseconds.
const STEP_USECS: u32 = 100;

/// A value of a controller: it holds for all disks and all interrupts of the controller but those of its administration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NvmeCoalescing {
    /// How many completed requests share one interrupt, 1 to 256. It has no effect while [`Self::Usecs`] is 0.
    Requests,
    /// How long an interrupt waits for more of them, in microseconds: 0 to 25,500, in steps of 100. With 0 it does not wait.
    Usecs,
}

/// `struct nvme_passthru_cmd`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[repr(C)]
struct Command {
    opcode: u8,
    flags: u8,
    reserved: u16,
    namespace: u32,
    words_2_3: [u32; 2],
    metadata: u64,
    address: u64,
    metadata_bytes: u32,
    bytes: u32,
    /// Words 10 to 15 of the command.
    words: [u32; 6],
    timeout_ms: u32,
    result: u32,
}

const _: () = assert!(size_of::<Command>() == 72);

/// Carries out a command, and leaves the device's answer in it.
type Device<'d> = &'d dyn Fn(&mut Command) -> io::Result<()>;

impl NvmeCoalescing {
    /// Its value now.
    ///
    /// # Errors
    /// `Unsupported` where the disk is none of NVMe; what the kernel or the device answered.
    pub fn read(self, disk: &str) -> io::Result<String> {
        self.read_from(&|command| pass(disk, command))
    }

    /// Sets it; the other one stays as it is. It lasts until the controller is reset.
    ///
    /// # Errors
    /// As [`Self::read`]; `InvalidInput` for a text that is no value; a controller may refuse to be set.
    pub fn write(self, disk: &str, text: &str) -> io::Result<()> {
        self.write_to(&|command| pass(disk, command), text)
    }

    fn read_from(self, device: Device<'_>) -> io::Result<String> {
        let [threshold, time] = now(device)?;
        let value = match self {
            // The threshold is counted from 0.
            Self::Requests => u32::from(threshold) + 1,
            Self::Usecs => u32::from(time) * STEP_USECS,
        };
        Ok(value.to_string())
    }

    fn write_to(self, device: Device<'_>, text: &str) -> io::Result<()> {
        let wrong = |why: &str| {
            io::Error::new(io::ErrorKind::InvalidInput, format!("{} is not a {why}", text.trim()))
        };
        let number: Option<u32> = text.trim().parse().ok();
        let [mut threshold, mut time] = now(device)?;
        match self {
            Self::Requests => {
                let counted = number.and_then(|number| number.checked_sub(1));
                threshold = counted
                    .and_then(|number| number.try_into().ok())
                    .ok_or_else(|| wrong("number from 1 to 256"))?;
            }
            Self::Usecs => {
                let steps =
                    number.filter(|number| number % STEP_USECS == 0).map(|number| number / STEP_USECS);
                time = steps
                    .and_then(|steps| steps.try_into().ok())
                    .ok_or_else(|| wrong("number of microseconds from 0 to 25500 in steps of 100"))?;
            }
        }
        let value = u32::from_le_bytes([threshold, time, 0, 0]);
        device(&mut command(SET_FEATURES, [INTERRUPT_COALESCING, value, 0, 0, 0, 0]))
    }
}

/// The threshold and the time.
fn now(device: Device<'_>) -> io::Result<[u8; 2]> {
    let mut asked = command(GET_FEATURES, [INTERRUPT_COALESCING, 0, 0, 0, 0, 0]);
    device(&mut asked)?;
    let [threshold, time, ..] = asked.result.to_le_bytes();
    Ok([threshold, time])
}

fn command(opcode: u8, words: [u32; 6]) -> Command {
    Command { opcode, words, ..Command::default() }
}

fn pass(disk: &str, command: &mut Command) -> io::Result<()> {
    if disk.contains('/') {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    // To open another kind of device may have an effect: a watchdog begins to watch.
    let path = Path::new("/dev").join(disk);
    let not_nvme = || io::Error::new(io::ErrorKind::Unsupported, format!("{disk} is not an NVMe disk"));
    if !path.metadata()?.file_type().is_block_device() {
        return Err(not_nvme());
    }
    let file = File::open(path)?;
    // SAFETY: the request reads and writes one structure of this size, which lives until the call is over; it names no further memory.
    let status = unsafe { libc::ioctl(file.as_raw_fd(), ADMIN_COMMAND, std::ptr::from_mut(command)) };
    match status {
        0 => Ok(()),
        1.. => Err(io::Error::other(format!(
            "the controller of {disk} refused it with the NVMe status {status:#x}"
        ))),
        _ => match io::Error::last_os_error() {
            // Drivers of other disks do not know the request.
            error if matches!(error.raw_os_error(), Some(libc::ENOTTY | libc::EINVAL)) => Err(not_nvme()),
            error => Err(error),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn each_value_is_read_and_set_and_the_other_one_stays() {
        let held = Cell::new(0x0507_u32);
        let device = |command: &mut Command| {
            assert_eq!((command.words[0], command.namespace, command.bytes), (8, 0, 0));
            match command.opcode {
                0x0a => command.result = held.get(),
                0x09 => held.set(command.words[1]),
                other => panic!("command {other:#x}"),
            }
            Ok(())
        };
        let [requests, usecs] = [NvmeCoalescing::Requests, NvmeCoalescing::Usecs];
        assert_eq!(
            (requests.read_from(&device).unwrap(), usecs.read_from(&device).unwrap()),
            ("8".into(), "500".into())
        );
        requests.write_to(&device, "256\n").unwrap();
        assert_eq!(held.get(), 0x05ff);
        usecs.write_to(&device, "25500").unwrap();
        assert_eq!(held.get(), 0xffff);
        requests.write_to(&device, "1").unwrap();
        usecs.write_to(&device, "0").unwrap();
        assert_eq!(held.get(), 0);
        for (value, text) in
            [(requests, "0"), (requests, "257"), (requests, "many"), (usecs, "150"), (usecs, "25600")]
        {
            assert_eq!(
                value.write_to(&device, text).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{text}"
            );
        }
        assert_eq!(held.get(), 0);
    }

    #[test]
    fn what_is_no_nvme_disk_is_named() {
        let error = NvmeCoalescing::Usecs.read("null").unwrap_err();
        assert_eq!(
            (error.kind(), error.to_string().as_str()),
            (io::ErrorKind::Unsupported, "null is not an NVMe disk")
        );
        assert_eq!(NvmeCoalescing::Usecs.read("absent").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(
            NvmeCoalescing::Usecs.read("../dev/null").unwrap_err().kind(),
            io::ErrorKind::InvalidInput
        );
    }
}
