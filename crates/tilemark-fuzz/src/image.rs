//! Images: archives that somebody exported, what they hold, and what a mirror says about packages.

use crate::record::memory_folder;
use std::{fs, path::Path};
use tilemark_image::{
    ExtraFile, FileSource, ImageCache, ImageLock, ImageSpec, LockedFile, LockedFiles, LockedPackage,
    Sha256Hash, Silent,
    foreign::{Elf, deb822_sources, extract_vmlinux, locked_packages, one_line_sources},
};

/// Begins a file of an archive: the bytes between are its contents.
const NEXT: &[u8] = b"\n====\n";

/// The first byte decides: an archive as it is, or the contents of one whose hashes are made to fit, since no random change would
/// hit on a right hash.
pub fn take_archive(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let archive = if first % 2 == 0 { rest.to_vec() } else { archive_of(rest) };
    let folder = tempfile::tempdir_in(memory_folder()).expect("a folder can be made");
    let file = folder.path().join("image.tar");
    fs::write(&file, archive).expect("a file can be written");
    let cache = ImageCache::open(&folder.path().join("cache")).expect("a folder can be made");
    if let Ok(image) = cache.import(&file, None, &[], &mut Silent) {
        let _ = (image.verify(), cache.list());
    }
    // Nothing may be written beside the cache and the archive.
    let names = fs::read_dir(folder.path()).expect("it is there").flatten().count();
    assert_eq!(names, 2, "something was written beside the cache");
}

/// An archive with the given specification and contents, and the lock that fits them.
fn archive_of(bytes: &[u8]) -> Vec<u8> {
    let mut contents = Vec::new();
    let mut rest = bytes;
    while let Some(at) = rest.windows(NEXT.len()).position(|window| window == NEXT) {
        contents.push(&rest[..at]);
        rest = &rest[at + NEXT.len()..];
    }
    contents.push(rest);
    let content = |place: usize| contents.get(place).copied().unwrap_or_default();
    let spec = String::from_utf8_lossy(content(0)).into_owned();
    let key =
        ImageSpec::parse("image.toml", &spec).map_or(Sha256Hash::of(spec.as_bytes()), |spec| spec.key());
    let lock = lock(key, [content(1), content(2), content(3)]);
    let name = lock.image_name();
    let files = [
        ("image.lock", lock.to_toml().into_bytes()),
        ("image.toml", spec.into_bytes()),
        ("root.erofs", content(1).to_vec()),
        ("vmlinux", content(2).to_vec()),
        ("initrd", content(3).to_vec()),
    ];
    let mut builder = tar::Builder::new(Vec::new());
    for (file, content) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(content.len() as u64);
        header.set_mode(0o644);
        builder
            .append_data(&mut header, format!("{name}/{file}"), content.as_slice())
            .expect("memory takes it");
    }
    builder.into_inner().expect("memory takes it")
}

fn lock(spec: Sha256Hash, contents: [&[u8]; 3]) -> ImageLock {
    let [root_erofs, vmlinux, initrd] =
        contents.map(|content| LockedFile { sha256: Sha256Hash::of(content), bytes: content.len() as u64 });
    let package = LockedPackage {
        name: "nginx-light".to_owned(),
        version: "1.22.1-9".to_owned(),
        architecture: "amd64".to_owned(),
        sha256: Sha256Hash::of(b"package"),
    };
    ImageLock {
        format: 1,
        spec,
        kernel: "6.1.0-56-cloud-amd64".to_owned(),
        files: LockedFiles { root_erofs, vmlinux, initrd },
        packages: vec![package],
    }
}

fn own_spec() -> ImageSpec {
    ImageSpec {
        name: "own".to_owned(),
        suite: "bookworm".to_owned(),
        kernel: "linux-image-cloud-amd64".to_owned(),
        packages: vec!["nginx-light".to_owned(), "fio=3.33-3".to_owned()],
        modules: vec!["dm_mod".to_owned()],
        files: vec![ExtraFile {
            path: "/opt/tool.jar".to_owned(),
            source: FileSource::Url("https://repo1.maven.org/maven2/tool.jar".to_owned()),
            sha256: Sha256Hash::of(b"tool"),
            mode: 0o755,
        }],
    }
}

pub(crate) fn archives() -> Vec<Vec<u8>> {
    let spec = own_spec().to_toml();
    let contents = [spec.as_bytes(), b"root", b"kernel", b"modules"].join(NEXT);
    vec![[&[1][..], &contents].concat(), [&[0][..], &archive_of(&contents)].concat()]
}

/// Takes `image.toml` or `image.lock`.
pub fn take_specification(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    if let Ok(spec) = ImageSpec::parse("image.toml", text) {
        let again = ImageSpec::parse("image.toml", &spec.to_toml()).expect("what it writes it reads");
        assert_eq!((&again, again.key()), (&spec, spec.key()));
    }
    if let Ok(lock) = ImageLock::parse(text) {
        assert_eq!(ImageLock::parse(&lock.to_toml()).as_ref(), Ok(&lock));
    }
    let _ = text.parse::<Sha256Hash>();
}

pub(crate) fn specifications() -> Vec<Vec<u8>> {
    let built_in = tilemark_image::BUILT_IN_NAMES
        .map(|name| ImageSpec::built_in(name).expect("a name of the list").to_toml().into_bytes());
    let own = own_spec();
    let lock = lock(own.key(), [b"root", b"kernel", b"modules"]);
    built_in.into_iter().chain([own.to_toml().into_bytes(), lock.to_toml().into_bytes()]).collect()
}

/// Payloads that programs unpack: their forms are theirs to fuzz, and a program an input would be slow.
const BY_PROGRAMS: [&[u8]; 3] =
    [&[0x1f, 0x8b], &[0xfd, b'7', b'z', b'X', b'Z', 0], &[0x28, 0xb5, 0x2f, 0xfd]];

/// Takes a kernel or a module.
pub fn take_elf(bytes: &[u8]) {
    if let Some(elf) = Elf::new(bytes) {
        let _ = (elf.section(".modinfo"), elf.section(".text"), elf.has_note("Xen", 18));
    }
    let is_for_program = |magic: &&[u8]| bytes.windows(magic.len()).any(|window| window == *magic);
    if !BY_PROGRAMS.iter().any(is_for_program) {
        let _ = extract_vmlinux("vmlinuz", bytes);
    }
}

pub(crate) fn elves() -> Vec<Vec<u8>> {
    let note = with_note("Xen", 18);
    let mut packed = vec![0x02, 0x21, 0x4c, 0x18];
    let block = lz4_flex::block::compress(&note);
    packed.extend_from_slice(&(block.len() as u32).to_le_bytes());
    packed.extend_from_slice(&block);
    packed.extend_from_slice(&(note.len() as u32).to_le_bytes());
    let plain = [&note[..], &[0; 4]].concat();
    vec![
        with_section(".modinfo", b"depends=virtio,virtio_ring\0name=x\0"),
        vmlinuz(&packed),
        vmlinuz(&plain),
        note,
    ]
}

/// A boot header of Linux with this payload.
fn vmlinuz(payload: &[u8]) -> Vec<u8> {
    let mut file = vec![0; 2 * 512];
    file[0x1f1] = 1;
    file[0x202..0x206].copy_from_slice(b"HdrS");
    file[0x24c..0x250].copy_from_slice(&(payload.len() as u32).to_le_bytes());
    file.extend_from_slice(payload);
    file
}

fn elf_header() -> Vec<u8> {
    let mut header = vec![0; 64];
    header[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    header
}

/// A file with one section.
fn with_section(name: &str, content: &[u8]) -> Vec<u8> {
    let names = format!("\0{name}\0.shstrtab\0");
    let names_at = 64 + content.len();
    let mut elf = elf_header();
    elf[40..48].copy_from_slice(&((names_at + names.len()) as u64).to_le_bytes());
    elf[58..60].copy_from_slice(&64_u16.to_le_bytes());
    elf[60..62].copy_from_slice(&3_u16.to_le_bytes());
    elf[62..64].copy_from_slice(&2_u16.to_le_bytes());
    elf.extend_from_slice(content);
    elf.extend_from_slice(names.as_bytes());
    for (name, offset, length) in
        [(0, 0, 0), (1, 64, content.len()), (name.len() as u32 + 2, names_at, names.len())]
    {
        let mut section = [0; 64];
        section[..4].copy_from_slice(&name.to_le_bytes());
        section[24..32].copy_from_slice(&(offset as u64).to_le_bytes());
        section[32..40].copy_from_slice(&(length as u64).to_le_bytes());
        elf.extend_from_slice(&section);
    }
    elf
}

/// A file with one note.
fn with_note(owner: &str, kind: u32) -> Vec<u8> {
    let mut elf = elf_header();
    elf[32..40].copy_from_slice(&64_u64.to_le_bytes());
    elf[54..56].copy_from_slice(&56_u16.to_le_bytes());
    elf[56..58].copy_from_slice(&1_u16.to_le_bytes());
    let mut notes = Vec::new();
    for field in [owner.len() as u32 + 1, 4, kind] {
        notes.extend_from_slice(&field.to_le_bytes());
    }
    notes.extend_from_slice(owner.as_bytes());
    notes.resize((notes.len() + 1).next_multiple_of(4), 0);
    notes.extend_from_slice(&[1, 2, 3, 0]);
    let mut segment = [0; 56];
    segment[0] = 4;
    segment[8..16].copy_from_slice(&120_u64.to_le_bytes());
    segment[32..40].copy_from_slice(&(notes.len() as u64).to_le_bytes());
    elf.extend_from_slice(&segment);
    elf.extend_from_slice(&notes);
    elf
}

/// Takes sources and records of packages.
pub fn take_packages(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    for source in one_line_sources(&text).into_iter().chain(deb822_sources(&text)) {
        let _ = source.to_line(Path::new("/key.asc"));
    }
    let (wanted, records) = text.split_once("\n====\n").unwrap_or((&text, &text));
    let _ = locked_packages(wanted, records);
}

pub(crate) fn packages() -> Vec<Vec<u8>> {
    let hash = Sha256Hash::of(b"package");
    let records = format!(
        "nginx-light=1.22.1-9\n====\nPackage: nginx-light\nVersion: 1.22.1-9\nArchitecture: amd64\nSHA256: {hash}\n"
    );
    let one_line =
        "deb [arch=amd64 signed-by=/k.gpg trusted=yes] http://deb.debian.org/debian bookworm main # why\n";
    let deb822 = "Types: deb\nURIs: http://a/debian http://b/debian\nSuites: bookworm\n  bookworm-updates\n\
        Components: main\nEnabled: yes\nSigned-By:\n -----BEGIN PGP PUBLIC KEY BLOCK-----\n .\n abc\n";
    vec![records.into_bytes(), one_line.into(), deb822.into()]
}
