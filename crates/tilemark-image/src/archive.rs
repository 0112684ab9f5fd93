//! An image as one file: a plain tar of its folder, which carries its name, with the lock first. The name is the lock's
//! hash and the lock has those of the files, so every byte is checked as it comes.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;

use tar::{Archive, Builder, Entry, EntryType, Header};
use tilemark_sys::text_file::open_plain;
use tilemark_units::{HashingWriter, Sha256Hash};

use crate::bootstrap::EPOCH;
use crate::build::DISK_RESERVE;
use crate::files::{free_bytes, write_whole};
use crate::image::{FileName, Image, LOCK_FILE, SPEC_FILE};
use crate::lock::{ImageLock, LockedFile};
use crate::spec::ImageSpec;
use crate::{ImageError, Result};

/// No lock or specification comes near this; what does is not one.
const TEXT_BYTES_MAX: u64 = 8 << 20;

/// Writes the image aside and renames it to `target`.
pub(crate) fn write(image: &Image, target: &Path) -> Result<()> {
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || {
        let mut aside = tempfile::NamedTempFile::new_in(folder)?;
        let mut builder = Builder::new(aside.as_file_mut());
        let files = FileName::ALL.map(FileName::as_str);
        for file_name in [LOCK_FILE, SPEC_FILE].into_iter().chain(files) {
            let file = File::open(image.folder().join(file_name))?;
            let path = format!("{}/{file_name}", image.name());
            builder.append_data(&mut header(file.metadata()?.len()), path, file)?;
        }
        builder.into_inner()?.sync_all()?;
        aside.as_file().set_permissions(std::os::unix::fs::PermissionsExt::from_mode(0o644))?;
        aside.persist(target).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(ImageError::io("write", target))
}

fn header(bytes: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(EntryType::Regular);
    header.set_size(bytes);
    header.set_mode(0o644);
    header.set_mtime(EPOCH);
    header.set_uid(0);
    header.set_gid(0);
    header
}

/// Opens an exported image. A pipe would be waited for without end.
pub(crate) fn open(source: &Path) -> Result<File> {
    open_plain(source).map_err(ImageError::io("read", source))
}

/// Unpacks an exported image, which was opened from `source`, into `folder` and returns its name. Whatever is wrong, nothing of it is used.
pub(crate) fn read(file: File, source: &Path, folder: &Path) -> Result<Sha256Hash> {
    read_within(file, source, folder, free_bytes(folder)?)
}

fn read_within(file: File, source: &Path, folder: &Path, free: u64) -> Result<Sha256Hash> {
    let mut archive = Archive::new(file);
    let refuse = |reason: String| ImageError::BadArchive { path: source.to_owned(), reason };
    // What the reader says about a text that is no archive quotes it, and it may be any file of the host's.
    let broken = |error: io::Error| {
        refuse(match error.kind() {
            io::ErrorKind::UnexpectedEof => "it ends too early".to_owned(),
            _ if error.raw_os_error().is_some() => error.to_string(),
            _ => "it is not an archive that `tilemark image export` wrote, or it is damaged".to_owned(),
        })
    };
    // As they are: the reader would take long names and further headers, of whatever length, into memory. What we write has neither.
    let mut entries = archive.entries().map_err(broken)?.raw(true);
    let mut name = None;
    let mut next = |wanted: &str| {
        let entry =
            entries.next().ok_or_else(|| refuse(format!("it ends before {wanted}")))?.map_err(broken)?;
        let place = place_of(&entry)
            .filter(|place| place.file == wanted && *name.get_or_insert(place.image) == place.image);
        place
            .map(|place| Member { image: place.image, entry })
            .ok_or_else(|| refuse(format!("{wanted} is not where it should be")))
    };

    let Member { image: name, entry } = next(LOCK_FILE)?;
    let lock_text = text(entry).map_err(broken)?;
    let lock = ImageLock::parse(&lock_text)
        .map_err(|_| refuse(format!("its {LOCK_FILE} is not the lock of an image")))?;
    if lock.image_name() != name {
        return Err(refuse(format!(
            "{LOCK_FILE} has changed: its SHA-256 is {}, not {name}",
            lock.image_name()
        )));
    }
    let spec_text = text(next(SPEC_FILE)?.entry).map_err(broken)?;
    let spec = ImageSpec::parse_kept(SPEC_FILE, &spec_text)
        .map_err(|_| refuse(format!("its {SPEC_FILE} is not the specification of an image")))?;
    if spec.key() != lock.spec {
        let reason = "its image.toml is not what it was built from, or another version of tilemark built it";
        return Err(refuse(reason.to_owned()));
    }
    let files = [
        (FileName::RootErofs, &lock.files.root_erofs),
        (FileName::Vmlinux, &lock.files.vmlinux),
        (FileName::Initrd, &lock.files.initrd),
    ];
    check_room(files.map(|(_, locked)| locked.bytes), folder, free)?;
    for (file, locked) in files {
        let entry = next(file.as_str())?.entry;
        if entry.size() != locked.bytes {
            let reason = format!("{file} has {} bytes, and {LOCK_FILE} says {}", entry.size(), locked.bytes);
            return Err(refuse(reason));
        }
        let found = unpack(entry, &folder.join(file.as_str()), source)?;
        if found != *locked {
            return Err(refuse(format!(
                "{file} is not what {LOCK_FILE} says: its SHA-256 is {}",
                found.sha256
            )));
        }
    }
    write_whole(&folder.join(LOCK_FILE), lock_text.as_bytes())?;
    write_whole(&folder.join(SPEC_FILE), spec_text.as_bytes())?;
    Ok(name)
}

/// Refuses files that would fill the disk: whoever made the archive chose how long they are, and holes cost nothing there.
fn check_room(files: [u64; 3], folder: &Path, free: u64) -> Result<()> {
    let needed = files.into_iter().fold(DISK_RESERVE, u64::saturating_add);
    if needed <= free {
        return Ok(());
    }
    Err(ImageError::DiskShort {
        path: folder.to_owned(),
        free_mib: free >> 20,
        needed_mib: needed >> 20,
        what: "this image, with what must stay free,",
    })
}

/// A file of the archive and the image that it belongs to.
struct Member<'a> {
    image: Sha256Hash,
    entry: Entry<'a, File>,
}

/// A path `IMAGE/FILE`, taken apart.
struct Place {
    image: Sha256Hash,
    file: String,
}

fn place_of(entry: &Entry<'_, File>) -> Option<Place> {
    if entry.header().entry_type() != EntryType::Regular {
        return None;
    }
    let path = String::from_utf8(entry.path_bytes().into_owned()).ok()?;
    let (image, file) = path.split_once('/')?;
    Some(Place { image: image.parse().ok()?, file: file.to_owned() })
}

fn text(entry: Entry<'_, File>) -> io::Result<String> {
    if entry.size() > TEXT_BYTES_MAX {
        return Err(io::Error::other("a text in it is too long"));
    }
    let expected = entry.size();
    let mut text = String::new();
    entry.take(TEXT_BYTES_MAX).read_to_string(&mut text)?;
    if text.len() as u64 == expected { Ok(text) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

fn unpack(mut entry: Entry<'_, File>, target: &Path, source: &Path) -> Result<LockedFile> {
    let file = File::create_new(target).map_err(ImageError::io("write", target))?;
    // Whatever the umask: an image is read by all who use it.
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    file.set_permissions(readable).map_err(ImageError::io("write", target))?;
    let mut writer = HashingWriter::new(file);
    let mut bytes = 0;
    let mut buffer = vec![0; 1 << 20];
    loop {
        let read = entry.read(&mut buffer).map_err(ImageError::io("read", source))?;
        if read == 0 {
            return Ok(LockedFile { sha256: writer.finish(), bytes });
        }
        writer.write_all(&buffer[..read]).map_err(ImageError::io("write", target))?;
        bytes += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::LockedFiles;
    use std::io::Seek;

    #[test]
    fn a_long_name_and_further_headers_are_refused_before_they_are_read() {
        for kind in [EntryType::GNULongName, EntryType::GNULongLink, EntryType::XHeader] {
            let mut header = header(1 << 30);
            header.set_entry_type(kind);
            header.set_path("././@LongLink").unwrap();
            header.set_cksum();
            let mut file = tempfile::tempfile().unwrap();
            file.write_all(header.as_bytes()).unwrap();
            file.set_len((1 << 30) + (64 << 10)).unwrap();
            file.rewind().unwrap();
            let folder = tempfile::tempdir().unwrap();
            let refused = read(file.try_clone().unwrap(), "a.tar".as_ref(), folder.path()).unwrap_err();
            assert!(matches!(refused, ImageError::BadArchive { .. }), "{refused}");
            // The descriptors have one place in the file: what was read is before it.
            let read = file.stream_position().unwrap();
            assert!(read <= 64 << 10, "{read} bytes of {kind:?} were read");
        }
    }

    /// An archive that says that the root file system has so many bytes, with a lock that says how many. It is a hole, and the rest is absent.
    fn archive_of_hole(bytes: u64, locked: u64) -> File {
        let empty = |bytes| LockedFile { sha256: Sha256Hash::of(b""), bytes };
        let spec = ImageSpec::built_in("first-look").unwrap();
        let lock = ImageLock {
            format: crate::lock::FORMAT,
            spec: spec.key(),
            kernel: "6.1.0".to_owned(),
            files: LockedFiles { root_erofs: empty(locked), vmlinux: empty(0), initrd: empty(0) },
            packages: vec![],
        };
        let mut file = tempfile::tempfile().unwrap();
        let mut builder = Builder::new(&mut file);
        let place = |name: &str| format!("{}/{name}", lock.image_name());
        for (name, text) in [(LOCK_FILE, lock.to_toml()), (SPEC_FILE, spec.to_toml())] {
            builder.append_data(&mut header(text.len() as u64), place(name), text.as_bytes()).unwrap();
        }
        let mut root = header(bytes);
        root.set_path(place(FileName::RootErofs.as_str())).unwrap();
        root.set_cksum();
        builder.get_mut().write_all(root.as_bytes()).unwrap();
        drop(builder);
        let begins = file.metadata().unwrap().len().next_multiple_of(512);
        file.set_len(begins + bytes.next_multiple_of(512)).unwrap();
        file.rewind().unwrap();
        file
    }

    #[test]
    fn no_more_of_a_file_is_written_than_the_lock_says() {
        let folder = tempfile::tempdir().unwrap();
        let file = archive_of_hole(64 << 20, 4);
        let refused = read(file, "a.tar".as_ref(), folder.path()).unwrap_err();
        assert!(matches!(refused, ImageError::BadArchive { .. }), "{refused}");
        let written = std::fs::metadata(folder.path().join(FileName::RootErofs.as_str()));
        let written = written.map_or(0, |file| file.len());
        assert!(written <= 4, "{written} bytes were written");
    }

    #[test]
    fn an_image_that_would_fill_the_disk_is_refused_before_anything_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = 64 << 20;
        let take = |free| read_within(archive_of_hole(bytes, bytes), "a.tar".as_ref(), folder.path(), free);
        for free in [0, bytes, DISK_RESERVE, DISK_RESERVE + bytes - 1] {
            let refused = take(free).unwrap_err();
            assert!(matches!(refused, ImageError::DiskShort { .. }), "{free}: {refused}");
            assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "{free}");
        }
        let refused = take(DISK_RESERVE + bytes).unwrap_err();
        assert!(matches!(refused, ImageError::BadArchive { .. }), "by its hash: {refused}");
        // Sums that no number holds.
        let largest = read_within(
            archive_of_hole(1 << 20, i64::MAX as u64),
            "a.tar".as_ref(),
            folder.path(),
            u64::MAX >> 1,
        );
        assert!(matches!(largest, Err(ImageError::DiskShort { .. })), "{largest:?}");
    }
}
