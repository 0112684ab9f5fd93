//! Takes the kernel proper out of Debian's `vmlinuz`.
//!
//! A `vmlinuz` is a small loader with the compressed ELF kernel behind it. Guests are given the ELF itself: QEMU enters
//! it by PVH, and no guest spends its first second unpacking.

use crate::command::Tool;
use crate::elf::Elf;
use crate::{ImageError, Result};

/// The Linux boot protocol (Documentation/arch/x86/boot.rst): where these fields of the header are.
const SETUP_SECTORS_AT: usize = 0x1f1;
const MAGIC_AT: usize = 0x202;
const PAYLOAD_OFFSET_AT: usize = 0x248;
const PAYLOAD_BYTES_AT: usize = 0x24c;
const SECTOR_BYTES: usize = 512;
/// The kernel's build appends the unpacked size, except where the form has it at its end anyway (gzip).
const SIZE_BYTES: usize = 4;
/// Of LZ4's legacy form, which is what `lz4 -l` and so the kernel's build write.
const LZ4_LEGACY_BLOCK_BYTES: usize = 8 << 20;
/// No kernel is longer, unpacked: Debian's have 30 to 70 MB.
const KERNEL_BYTES_MAX: usize = 256 << 20;
/// `XEN_ELFNOTE_PHYS32_ENTRY`: where PVH enters (xen/include/public/elfnote.h).
const PVH_ENTRY_NOTE: u32 = 18;

/// How a payload or a module is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Compression {
    Lz4Legacy,
    Gzip,
    Xz,
    Zstd,
    None,
}

impl Compression {
    fn of(bytes: &[u8]) -> Option<Self> {
        let known: [(&[u8], Self); 5] = [
            (&[0x02, 0x21, 0x4c, 0x18], Self::Lz4Legacy),
            (&[0x1f, 0x8b], Self::Gzip),
            (&[0xfd, b'7', b'z', b'X', b'Z', 0], Self::Xz),
            (&[0x28, 0xb5, 0x2f, 0xfd], Self::Zstd),
            (b"\x7fELF", Self::None),
        ];
        known.into_iter().find(|(magic, _)| bytes.starts_with(magic)).map(|(_, compression)| compression)
    }
}

/// The ELF kernel inside of a `vmlinuz`; `file` names it in errors.
///
/// # Errors
/// When it has no boot header, its payload is damaged or in an unknown form, or the kernel cannot be entered by PVH.
pub fn extract_vmlinux(file: &str, vmlinuz: &[u8]) -> Result<Vec<u8>> {
    let refuse = |reason: &'static str| ImageError::Kernel { file: file.to_owned(), reason: reason.into() };
    let payload =
        payload(vmlinuz).ok_or_else(|| refuse("it has no Linux boot header of version 2.08 or later"))?;
    let compression = Compression::of(payload).ok_or_else(|| {
        refuse("its payload is in a form that is not known here (known: LZ4, gzip, xz, zstd and none)")
    })?;
    let without_size = &payload[..payload.len() - SIZE_BYTES];
    let kernel = match compression {
        Compression::Lz4Legacy => unpack_lz4_legacy(without_size, KERNEL_BYTES_MAX)
            .ok_or_else(|| refuse("its LZ4 data is damaged"))?,
        Compression::Gzip => unpack_by_tool("gzip", "gzip", &["-dc"], payload)?,
        Compression::Xz => unpack_by_tool("xz", "xz-utils", &["-dc", "--single-stream"], payload)?,
        Compression::Zstd => unpack_by_tool("zstd", "zstd", &["-dcq"], without_size)?,
        Compression::None => payload.to_vec(),
    };
    let elf = Elf::new(&kernel).ok_or_else(|| refuse("what it holds is not a 64-bit ELF file"))?;
    if !elf.has_note("Xen", PVH_ENTRY_NOTE) {
        return Err(refuse("it cannot be entered by PVH (CONFIG_PVH is off)"));
    }
    Ok(kernel)
}

/// A kernel module as the kernel loads it without help of its own: uncompressed.
pub(crate) fn unpack_module(file: &str, bytes: Vec<u8>) -> Result<Vec<u8>> {
    match Compression::of(&bytes) {
        Some(Compression::None) => Ok(bytes),
        Some(Compression::Gzip) => unpack_by_tool("gzip", "gzip", &["-dc"], &bytes),
        Some(Compression::Xz) => unpack_by_tool("xz", "xz-utils", &["-dc"], &bytes),
        Some(Compression::Zstd) => unpack_by_tool("zstd", "zstd", &["-dcq"], &bytes),
        Some(Compression::Lz4Legacy) | None => Err(ImageError::Kernel {
            file: file.to_owned(),
            reason: "it is not a kernel module of a known form".into(),
        }),
    }
}

/// The little-endian number at `offset`.
fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

fn payload(vmlinuz: &[u8]) -> Option<&[u8]> {
    if vmlinuz.get(MAGIC_AT..MAGIC_AT + 4)? != b"HdrS" {
        return None;
    }
    // Zero means four, for the oldest of loaders.
    let setup_sectors = match vmlinuz.get(SETUP_SECTORS_AT)? {
        0 => 4,
        sectors => usize::from(*sectors),
    };
    let offset = usize::try_from(u32_at(vmlinuz, PAYLOAD_OFFSET_AT)?).ok()?;
    let length = usize::try_from(u32_at(vmlinuz, PAYLOAD_BYTES_AT)?).ok()?;
    let start = (setup_sectors + 1) * SECTOR_BYTES + offset;
    vmlinuz.get(start..start.checked_add(length)?).filter(|payload| payload.len() > SIZE_BYTES)
}

/// `None` where it is damaged, or longer than `limit` when it is unpacked: a thousandth of that can pack it.
fn unpack_lz4_legacy(bytes: &[u8], limit: usize) -> Option<Vec<u8>> {
    let mut unpacked = Vec::new();
    let mut rest = bytes.get(4..)?;
    while !rest.is_empty() {
        let length = usize::try_from(u32_at(rest, 0)?).ok()?;
        let block = rest.get(4..length.checked_add(4)?)?;
        let start = unpacked.len();
        if start >= limit {
            return None;
        }
        unpacked.resize(start + LZ4_LEGACY_BLOCK_BYTES, 0);
        let written = lz4_flex::block::decompress_into(block, &mut unpacked[start..]).ok()?;
        unpacked.truncate(start + written);
        rest = &rest[4 + length..];
    }
    Some(unpacked)
}

fn unpack_by_tool(
    tool: &'static str,
    package: &'static str,
    arguments: &[&str],
    packed: &[u8],
) -> Result<Vec<u8>> {
    use std::io::{Seek, Write};
    // By way of a file, so that nobody waits for the other at a full pipe.
    let feed = || {
        let mut file = tempfile::tempfile()?;
        file.write_all(packed)?;
        file.rewind()?;
        Ok(file)
    };
    let input = feed().map_err(ImageError::io("write in", &std::env::temp_dir()))?;
    Tool::new(tool, package).args(arguments).stdin(input).output()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::sample;

    /// A `vmlinuz` around this payload, with the header's four fields and nothing else right.
    fn vmlinuz(payload: &[u8]) -> Vec<u8> {
        let setup_sectors = 2;
        let offset = 100;
        let mut file = vec![0; (setup_sectors + 1) * SECTOR_BYTES + offset];
        file[SETUP_SECTORS_AT] = 2;
        file[MAGIC_AT..MAGIC_AT + 4].copy_from_slice(b"HdrS");
        file[PAYLOAD_OFFSET_AT..PAYLOAD_OFFSET_AT + 4].copy_from_slice(&100u32.to_le_bytes());
        file[PAYLOAD_BYTES_AT..PAYLOAD_BYTES_AT + 4].copy_from_slice(&(payload.len() as u32).to_le_bytes());
        file.extend_from_slice(payload);
        file.extend_from_slice(b"relocations and the like");
        file
    }

    /// An ELF kernel of more than one LZ4 block.
    fn kernel() -> Vec<u8> {
        let mut kernel = sample::with_note("Xen", PVH_ENTRY_NOTE);
        kernel.resize(LZ4_LEGACY_BLOCK_BYTES + 12345, 0x5a);
        kernel
    }

    fn lz4_legacy(content: &[u8]) -> Vec<u8> {
        let mut packed = vec![0x02, 0x21, 0x4c, 0x18];
        for block in content.chunks(LZ4_LEGACY_BLOCK_BYTES) {
            let block = lz4_flex::block::compress(block);
            packed.extend_from_slice(&(block.len() as u32).to_le_bytes());
            packed.extend_from_slice(&block);
        }
        packed.extend_from_slice(&(content.len() as u32).to_le_bytes());
        packed
    }

    fn reason(file: &[u8]) -> String {
        extract_vmlinux("vmlinuz", file).unwrap_err().to_string()
    }

    #[test]
    fn an_lz4_kernel_of_several_blocks_comes_out_unchanged() {
        assert!(extract_vmlinux("vmlinuz", &vmlinuz(&lz4_legacy(&kernel()))).unwrap() == kernel());
    }

    #[test]
    fn a_kernel_without_end_is_not_unpacked() {
        let packed = lz4_legacy(&kernel());
        let packed = &packed[..packed.len() - SIZE_BYTES];
        assert!(unpack_lz4_legacy(packed, LZ4_LEGACY_BLOCK_BYTES + 1).is_some());
        assert!(unpack_lz4_legacy(packed, LZ4_LEGACY_BLOCK_BYTES).is_none());
    }

    #[test]
    fn gzip_xz_and_zstd_come_out_too() {
        use std::io::Write;
        for (tool, size_appended) in [("gzip", false), ("xz", true), ("zstd", true)] {
            let mut plain = tempfile::NamedTempFile::new().unwrap();
            plain.write_all(&kernel()).unwrap();
            let packed = Tool::new(tool, tool).args(["-1", "-c", "-q"]).arg(plain.path()).output();
            let Ok(mut packed) = packed else {
                tilemark_fixtures::skipped(&format!("{tool} is not installed"));
                continue;
            };
            if size_appended {
                packed.extend_from_slice(&(kernel().len() as u32).to_le_bytes());
            }
            assert!(extract_vmlinux("vmlinuz", &vmlinuz(&packed)).unwrap() == kernel(), "{tool}");
        }
    }

    #[test]
    fn a_file_that_is_not_a_bootable_kernel_is_refused_with_the_reason() {
        assert!(reason(b"MZ").contains("no Linux boot header"));
        assert!(reason(&vmlinuz(b"LZMA-or-so")).contains("form that is not known"));
        assert!(reason(&vmlinuz(&lz4_legacy(b"text"))).contains("not a 64-bit ELF"));
        assert!(reason(&vmlinuz(&lz4_legacy(&sample::with_note("GNU", 3)))).contains("PVH"));
        let whole = vmlinuz(&lz4_legacy(&kernel()));
        assert!(reason(&whole[..whole.len() - 1000]).contains("no Linux boot header"));
        let mut damaged = lz4_legacy(&kernel());
        damaged[4] ^= 0xff;
        assert!(reason(&vmlinuz(&damaged)).contains("LZ4 data is damaged"));
    }
}
