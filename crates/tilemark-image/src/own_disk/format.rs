//! What a file begins with.

/// So much of a file is looked at: the mark of a CD lies the deepest.
pub(super) const HEAD_BYTES: usize = 34 << 10;

/// What a file is by its first bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    Qcow2,
    /// Nothing that is known: taken for a raw disk.
    Raw,
    /// Packed by this.
    Packed(&'static str),
    /// A CD.
    Installer,
    /// Another format of disks.
    Other(&'static str),
}

/// Marks, with the byte at which each begins.
const MARKS: [(usize, &[u8], Found); 16] = [
    (0, b"QFI\xfb", Found::Qcow2),
    (0, b"\xfd7zXZ\0", Found::Packed("xz")),
    (0, b"\x1f\x8b", Found::Packed("gzip")),
    (0, b"\x28\xb5\x2f\xfd", Found::Packed("zstd")),
    (0, b"BZh", Found::Packed("bzip2")),
    (0, b"PK\x03\x04", Found::Packed("zip")),
    (0, b"7z\xbc\xaf\x27\x1c", Found::Packed("7z")),
    (257, b"ustar", Found::Packed("tar")),
    (0, b"KDMV", Found::Other("VMDK")),
    (0, b"# Disk DescriptorFile", Found::Other("VMDK")),
    (64, b"\x7f\x10\xda\xbe", Found::Other("VDI")),
    (0, b"vhdxfile", Found::Other("VHDX")),
    (0, b"conectix", Found::Other("VHD")),
    (0, b"QED\0", Found::Other("QED")),
    (0, b"LUKS\xba\xbe", Found::Other("LUKS, which is encrypted")),
    // The second sector of 2,048 bytes after the system area (ECMA-119, 8.1).
    (32_769, b"CD001", Found::Installer),
];

/// What begins like this.
pub(super) fn of(head: &[u8]) -> Found {
    let begins = |(at, mark, _): &&(usize, &[u8], Found)| head.get(*at..at + mark.len()) == Some(*mark);
    MARKS.iter().find(begins).map_or(Found::Raw, |(_, _, found)| *found)
}
