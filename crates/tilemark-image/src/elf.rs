//! As much of 64-bit little-endian ELF as is needed to look into a kernel and its modules.

/// An ELF file of which the header was seen to be right.
#[derive(Debug)]
pub struct Elf<'b> {
    bytes: &'b [u8],
}

impl<'b> Elf<'b> {
    /// `None` when it is no 64-bit little-endian ELF file.
    pub fn new(bytes: &'b [u8]) -> Option<Self> {
        (bytes.get(..6)? == b"\x7fELF\x02\x01").then_some(Self { bytes })
    }

    /// The content of the section of this name.
    pub fn section(&self, name: &str) -> Option<&'b [u8]> {
        let names = self.section_at(self.u16(62)?)?;
        let names = self.slice(self.u64(names + 24)?, self.u64(names + 32)?)?;
        (0..self.u16(60)?).find_map(|index| {
            let header = self.section_at(index)?;
            let start = usize::try_from(self.u32(header)?).ok()?;
            let found = names.get(start..)?.split(|byte| *byte == 0).next()?;
            (found == name.as_bytes()).then(|| self.slice(self.u64(header + 24)?, self.u64(header + 32)?))?
        })
    }

    /// Whether a note of this owner and kind stands in one of the program's note segments.
    pub fn has_note(&self, owner: &str, kind: u32) -> bool {
        const NOTE_SEGMENT: u32 = 4;
        let Some(segments) = self.u16(56) else { return false };
        (0..segments).any(|index| {
            let found = (|| {
                let header = self.entry_at(self.u64(32)?, self.u16(54)?, index)?;
                let notes = self.slice(self.u64(header + 8)?, self.u64(header + 32)?)?;
                Some(self.u32(header)? == NOTE_SEGMENT && notes_have(notes, owner, kind))
            })();
            found == Some(true)
        })
    }

    fn section_at(&self, index: u16) -> Option<usize> {
        self.entry_at(self.u64(40)?, self.u16(58)?, index)
    }

    fn entry_at(&self, table: u64, entry_bytes: u16, index: u16) -> Option<usize> {
        let offset = table.checked_add(u64::from(entry_bytes) * u64::from(index))?;
        // Within the file, so that a field of it has a place that is a number.
        usize::try_from(offset).ok().filter(|offset| *offset < self.bytes.len())
    }

    fn slice(&self, offset: u64, length: u64) -> Option<&'b [u8]> {
        let start = usize::try_from(offset).ok()?;
        self.bytes.get(start..start.checked_add(usize::try_from(length).ok()?)?)
    }

    fn u16(&self, offset: usize) -> Option<u16> {
        Some(u16::from_le_bytes(self.bytes.get(offset..offset.checked_add(2)?)?.try_into().ok()?))
    }

    fn u32(&self, offset: usize) -> Option<u32> {
        u32_at(self.bytes, offset)
    }

    fn u64(&self, offset: usize) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes.get(offset..offset.checked_add(8)?)?.try_into().ok()?))
    }
}

/// The little-endian number at `offset`.
pub(crate) fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(offset..offset.checked_add(4)?)?.try_into().ok()?))
}

fn notes_have(mut notes: &[u8], owner: &str, kind: u32) -> bool {
    loop {
        let header = (u32_at(notes, 0), u32_at(notes, 4), u32_at(notes, 8));
        let (Some(name_bytes), Some(content_bytes), Some(found_kind)) = header else { return false };
        let name_end = (name_bytes as usize).saturating_add(12);
        let Some(name) = notes.get(12..name_end) else { return false };
        if found_kind == kind && name.strip_suffix(b"\0") == Some(owner.as_bytes()) {
            return true;
        }
        let next = name_end.next_multiple_of(4).saturating_add((content_bytes as usize).next_multiple_of(4));
        let Some(rest) = notes.get(next..) else { return false };
        notes = rest;
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

    /// A file with one note segment that has two notes, the second of them as told.
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
        header[..6].copy_from_slice(b"\x7fELF\x02\x01");
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
    fn tables_at_the_end_of_all_numbers_are_none() {
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
