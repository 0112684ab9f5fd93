//! Firmware of machines: found as QEMU finds it, and looked at before a guest is started with it.

use super::program::asked;
use crate::error::{GuestError, file};
use std::{
    fs::{self, File},
    io::Read,
    path::{Path, PathBuf},
};

/// QEMU maps an image in steps of this size (`x86_bios_rom_init`).
const STEP_BYTES: u64 = 64 << 10;
/// The largest image that fits below 4 GiB.
const LARGEST_BYTES: u64 = 16 << 20;
/// Where the signature of a firmware volume of UEFI is (PI specification, volume 3, `EFI_FIRMWARE_VOLUME_HEADER`).
const SIGNATURE_AT: usize = 40;
const SIGNATURE: &[u8] = b"_FVH";

/// What x86 machines but `microvm` have by themselves.
pub const USUAL_FIRMWARE: &str = "bios-256k.bin";

/// The image that is named: by its path, or as QEMU finds a name in its own folders.
///
/// # Errors
/// When there is none, or it has a size that QEMU does not map.
pub fn find_firmware(binary: &Path, named: &str) -> Result<PathBuf, GuestError> {
    let path = if named.contains('/') { PathBuf::from(named) } else { in_folders_of(binary, named)? };
    check(&path).map_err(|why| GuestError::Firmware { named: named.to_owned(), why })?;
    Ok(path)
}

fn in_folders_of(binary: &Path, named: &str) -> Result<PathBuf, GuestError> {
    let text = asked(binary, &["-L", "help"])?;
    let found = text.lines().map(|folder| Path::new(folder.trim()).join(named)).find(|path| path.is_file());
    found.ok_or_else(|| GuestError::Firmware {
        named: named.to_owned(),
        why: format!(
            "it is in none of the folders of {}: {}",
            binary.display(),
            text.lines().collect::<Vec<_>>().join(", ")
        ),
    })
}

/// Says why QEMU cannot map a file as firmware.
fn check(path: &Path) -> Result<(), String> {
    let found = fs::metadata(path).map_err(|error| error.to_string())?;
    let bytes = found.len();
    if !found.is_file() || bytes == 0 || bytes % STEP_BYTES != 0 || bytes > LARGEST_BYTES {
        return Err(format!(
            "it has {bytes} bytes: an image has a multiple of 65536 bytes, at most 16777216"
        ));
    }
    Ok(())
}

/// Refuses an image that [`find_firmware`] found for guests that are started from a kernel. Guests that boot from a disk of their own
/// may have any.
///
/// # Errors
/// When it cannot be read, or is UEFI firmware: QEMU hands the kernel of an image to a BIOS only, as an ELF file.
pub fn loads_kernels(path: &Path, named: &str) -> Result<(), GuestError> {
    let mut start = [0; SIGNATURE_AT + SIGNATURE.len()];
    File::open(path).and_then(|mut file| file.read_exact(&mut start)).map_err(file("read", path))?;
    if &start[SIGNATURE_AT..] == SIGNATURE {
        let why = "it is UEFI firmware, which does not load the ELF kernel that guests without `from` are started from";
        return Err(GuestError::Firmware { named: named.to_owned(), why: why.to_owned() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn firmware_that_cannot_load_a_kernel_is_refused_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str, bytes: Vec<u8>| {
            let path = folder.path().join(name);
            fs::write(&path, bytes).unwrap();
            path.display().to_string()
        };
        let mut uefi = vec![0; 128 << 10];
        uefi[SIGNATURE_AT..SIGNATURE_AT + 4].copy_from_slice(SIGNATURE);
        let binary = Path::new("/nowhere/qemu");
        let why = |named: &str| find_firmware(binary, named).unwrap_err().to_string();
        assert!(why(&place("odd", vec![0; 1000])).contains("it has 1000 bytes"));
        assert!(why(&place("empty", Vec::new())).contains("it has 0 bytes"));
        assert!(why(&folder.path().display().to_string()).contains("multiple of 65536"));
        assert!(why("/nowhere/bios.bin").contains("No such file"));
        let sound = place("bios", vec![0; 256 << 10]);
        assert_eq!(find_firmware(binary, &sound).unwrap(), Path::new(&sound));
        loads_kernels(sound.as_ref(), "bios").unwrap();
        // A disk boots by it.
        let uefi = find_firmware(binary, &place("uefi", uefi)).unwrap();
        let refused = loads_kernels(&uefi, "OVMF.fd").unwrap_err().to_string();
        assert!(refused.contains("`qemu.firmware = \"OVMF.fd\"`: it is UEFI firmware"), "{refused}");
    }

    #[test]
    fn a_name_is_looked_for_in_the_folders_that_qemu_lists() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(data.join("own.bin"), vec![0; 64 << 10]).unwrap();
        let qemu = folder.path().join("qemu");
        fs::write(&qemu, format!("#!/bin/sh\necho /nowhere/data\necho {}\n", data.display())).unwrap();
        fs::set_permissions(&qemu, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(find_firmware(&qemu, "own.bin").unwrap(), data.join("own.bin"));
        let absent = find_firmware(&qemu, "other.bin").unwrap_err().to_string();
        assert!(absent.contains("/nowhere/data") && absent.contains("other.bin"), "{absent}");
    }
}
