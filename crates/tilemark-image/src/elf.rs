//! What is looked at in a kernel and its modules: a section, and whether there is a note.

use object::{
    LittleEndian,
    elf::FileHeader64,
    read::elf::{FileHeader, ProgramHeader, SectionHeader},
};

/// A 64-bit little-endian ELF file. Its bytes may come from anybody: what is damaged is absent.
#[derive(Debug)]
pub struct Elf<'b> {
    bytes: &'b [u8],
    header: &'b FileHeader64<LittleEndian>,
}

impl<'b> Elf<'b> {
    /// `None` when it is no 64-bit little-endian ELF file.
    pub fn new(bytes: &'b [u8]) -> Option<Self> {
        let header = FileHeader64::<LittleEndian>::parse(bytes).ok()?;
        header.is_little_endian().then_some(Self { bytes, header })
    }

    /// The content of the section of this name.
    pub fn section(&self, name: &str) -> Option<&'b [u8]> {
        let sections = self.header.sections(LittleEndian, self.bytes).ok()?;
        let (_, section) = sections.section_by_name(LittleEndian, name.as_bytes())?;
        section.data(LittleEndian, self.bytes).ok()
    }

    /// Whether a note of this owner and kind is in one of the program's note segments.
    pub fn has_note(&self, owner: &str, kind: u32) -> bool {
        let segments = self.header.program_headers(LittleEndian, self.bytes).unwrap_or_default();
        segments.iter().any(|segment| {
            let Ok(Some(mut notes)) = segment.notes(LittleEndian, self.bytes) else { return false };
            while let Ok(Some(note)) = notes.next() {
                if note.name() == owner.as_bytes() && note.n_type(LittleEndian) == kind {
                    return true;
                }
            }
            false
        })
    }
}

/// Small ELF files for the tests of this crate.
#[cfg(test)]
pub(crate) mod sample {
    /// A file with one section, as a module has its `.modinfo`.
    pub(crate) fn with_section(name: &str, content: &[u8]) -> Vec<u8> {
        let names = format!("\0{name}\0.shstrtab\0");
        let content_at = 64;
        let names_at = content_at + content.len();
        let table_at = names_at + names.len();
        let mut elf = header();
        elf[40..48].copy_from_slice(&(table_at as u64).to_le_bytes());
        elf[58..60].copy_from_slice(&64u16.to_le_bytes());
        elf[60..62].copy_from_slice(&3u16.to_le_bytes());
        elf[62..64].copy_from_slice(&2u16.to_le_bytes());
        elf.extend_from_slice(content);
        elf.extend_from_slice(names.as_bytes());
        let name_of_names = name.len() as u32 + 2;
        for (name, offset, length) in
            [(0, 0, 0), (1, content_at, content.len()), (name_of_names, names_at, names.len())]
        {
            let mut section = [0; 64];
            section[..4].copy_from_slice(&name.to_le_bytes());
            section[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
            section[32..40].copy_from_slice(&(length as u64).to_le_bytes());
            elf.extend_from_slice(&section);
        }
        elf
    }

    /// A file with one note segment that has two notes, the second of them with this owner and kind.
    pub(crate) fn with_note(owner: &str, kind: u32) -> Vec<u8> {
        let mut elf = header();
        elf[32..40].copy_from_slice(&64u64.to_le_bytes());
        elf[54..56].copy_from_slice(&56u16.to_le_bytes());
        elf[56..58].copy_from_slice(&1u16.to_le_bytes());
        let mut notes = Vec::new();
        for (owner, kind) in [("Other", 1), (owner, kind)] {
            for field in [owner.len() as u32 + 1, 3, kind] {
                notes.extend_from_slice(&field.to_le_bytes());
            }
            notes.extend_from_slice(owner.as_bytes());
            notes.push(0);
            notes.resize(notes.len().next_multiple_of(4), 0);
            notes.extend_from_slice(&[1, 2, 3, 0]);
        }
        let mut segment = [0; 56];
        segment[0] = 4;
        segment[8..16].copy_from_slice(&120u64.to_le_bytes());
        segment[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
        elf.extend_from_slice(&segment);
        elf.extend_from_slice(&notes);
        elf
    }

    fn header() -> Vec<u8> {
        let mut header = vec![0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        header
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_section_is_found_by_its_name() {
        let file = sample::with_section(".modinfo", b"depends=virtio\0");
        let elf = Elf::new(&file).unwrap();
        assert_eq!(elf.section(".modinfo"), Some(&b"depends=virtio\0"[..]));
        assert_eq!(elf.section(".text"), None);
    }

    #[test]
    fn a_note_is_found_by_owner_and_kind() {
        let file = sample::with_note("Xen", 18);
        let elf = Elf::new(&file).unwrap();
        assert!(elf.has_note("Xen", 18));
        assert!(!elf.has_note("Xen", 17));
        assert!(!elf.has_note("GNU", 18));
    }

    #[test]
    fn tables_at_offsets_beyond_the_file_are_ignored() {
        for place in [u64::MAX, u64::MAX - 8, u64::MAX - 30] {
            let mut sections = sample::with_section(".modinfo", b"name=x\0");
            sections[40..48].copy_from_slice(&place.to_le_bytes());
            let mut notes = sample::with_note("Xen", 18);
            notes[32..40].copy_from_slice(&place.to_le_bytes());
            // Tables of no length: every entry is where the first one is.
            sections[58..60].fill(0);
            notes[54..56].fill(0);
            assert_eq!(Elf::new(&sections).unwrap().section(".modinfo"), None);
            assert!(!Elf::new(&notes).unwrap().has_note("Xen", 18));
        }
    }

    proptest! {
        #[test]
        fn no_damage_makes_it_panic(at in 0usize..250, value: u8, cut in 0usize..250) {
            for mut file in [sample::with_section(".modinfo", b"name=x\0"), sample::with_note("Xen", 18)] {
                if let Some(byte) = file.get_mut(at) {
                    *byte = value;
                }
                for part in [&file[..], &file[..cut.min(file.len())]] {
                    if let Some(elf) = Elf::new(part) {
                        let _ = elf.section(".modinfo");
                        let _ = elf.has_note("Xen", 18);
                    }
                }
            }
        }
    }
}
