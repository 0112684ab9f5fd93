//! A fleet's site file, the folder of a fleet run, and what a host of the fleet answers: bytes that anybody may have written or changed.

use flate2::{Compression, write::GzEncoder};
use std::{
    fs::{self, File},
    io::{Seek, Write},
    path::Path,
};
use tar::EntryType;
use tilemark_fleet::{FleetFolder, Site, SiteEngine, read_host_answer, unpack_attempt, verdict};
use tilemark_report::{Colour, Style, redact_fleet};
use tilemark_units::Sha256Hash;

/// The number that an answer is known by.
const NONCE: &str = "7";
/// No input of the targets makes a larger file.
const ARCHIVE_BYTES_MAX: u64 = 1 << 20;

/// No JSON has this byte: it parts `fleet.json` from `end.json`.
const NEXT: u8 = 0xff;

/// Takes a text as a site file. What is accepted can be no flag and no other folder.
pub fn take_site_file(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(site) = Site::parse(text) else { return };
    assert!(site.hosts.len() <= 1000 && site.clients.len() <= 64);
    for client in &site.clients {
        assert!(!client.address.starts_with('-') && !client.name.starts_with(['-', '.']), "{client:?}");
        assert!(!client.name.contains(['/', '\0', '\n']), "{client:?}");
    }
    assert!(!site.program.starts_with('-'));
    for host in &site.hosts {
        assert!(!host.address.starts_with('-') && !host.name.starts_with(['-', '.']), "{host:?}");
        assert!(
            !host.name.contains(['/', '\0', '\n']) && host.user.iter().all(|user| !user.starts_with('-'))
        );
    }
    if let SiteEngine::Exec { command } = &site.engine {
        assert!(!command.is_empty());
    }
}

/// Takes bytes as `fleet.json`, and those behind the mark as `end.json` of an attempt.
pub fn take_fleet(bytes: &[u8]) {
    let parts: Vec<&[u8]> = bytes.splitn(2, |byte| *byte == NEXT).collect();
    let folder = tempfile::tempdir_in(crate::record::memory_folder()).expect("a folder can be made");
    fs::write(folder.path().join("fleet.json"), parts[0]).expect("a file can be written");
    if let Some(end) = parts.get(1) {
        let attempt = folder.path().join("hosts/n1/attempt-0");
        fs::create_dir_all(&attempt).expect("a folder can be made");
        fs::write(attempt.join("end.json"), end).expect("a file can be written");
    }
    let path = format!("{}/", folder.path().display());
    let found = FleetFolder::find(folder.path(), &path).expect("it has a fleet.json");
    if let Ok(fleet) = found.read() {
        for work in &fleet.hosts {
            let attempt = found.attempt(&work.name, 0);
            assert!(
                attempt.starts_with(folder.path())
                    && attempt.components().all(|part| part.as_os_str() != "..")
            );
        }
        assert!(!fleet.id.contains('/') && !fleet.id.starts_with('.'));
    }
    if let Ok(mut found) = verdict::of(folder.path()) {
        for _ in 0..2 {
            let _ =
                (found.html(), found.markdown(), found.terminal(Style { colour: Colour::Plain, width: 80 }));
            redact_fleet(&mut found);
        }
    }
}

/// Takes bytes as what comes through a carrier.
pub fn take_answer(bytes: &[u8]) {
    if let Ok((lines, parts)) = read_host_answer(bytes, NONCE) {
        assert!(lines.len() <= 10_000 && parts <= 100);
    }
}

/// Takes bytes as the tar that a host has compressed. It makes nothing outside of the folder, and no link in it.
pub fn take_archive(bytes: &[u8]) {
    let outside = tempfile::tempdir_in(crate::record::memory_folder()).expect("a folder can be made");
    let inside = outside.path().join("attempt-0");
    fs::create_dir(&inside).expect("a folder can be made");
    let _ = unpack_attempt(compressed(bytes), &inside, ARCHIVE_BYTES_MAX);
    assert_eq!(fs::read_dir(outside.path()).expect("it is there").count(), 1);
    assert_plain(&inside);
}

fn assert_plain(folder: &Path) {
    for entry in fs::read_dir(folder).expect("it is there").flatten() {
        let kind = entry.file_type().expect("it is there");
        assert!(kind.is_dir() || kind.is_file(), "{entry:?}");
        if kind.is_dir() {
            assert_plain(&entry.path());
        }
    }
}

fn compressed(bytes: &[u8]) -> File {
    let file = tempfile::tempfile_in(crate::record::memory_folder()).expect("a file can be made");
    let mut encoder = GzEncoder::new(file, Compression::none());
    encoder.write_all(bytes).expect("a file can be written");
    let mut file = encoder.finish().expect("a file can be written");
    file.rewind().expect("it is a file");
    file
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    let hash = Sha256Hash::of(b"a\nb");
    let with_part = format!(
        "Welcome!\n\ntilemark-fleet begin {NONCE}\nversion 1\npart p 3 {hash}\na\nb\n\ntilemark-fleet end {NONCE} 0\n"
    );
    let attempts = format!(
        "tilemark-fleet begin {NONCE}\nattempt 0 lost\nattempt 1 ended 5\nattempt 2 running\ntilemark-fleet end {NONCE} 3\n"
    );
    vec![with_part.into_bytes(), attempts.into_bytes()]
}

pub(crate) fn archives() -> Vec<Vec<u8>> {
    let mut builder = tar::Builder::new(Vec::new());
    // Longer than a header has room for: its name is in an entry of its own.
    let long = format!("record/{}", "x".repeat(150));
    for (name, kind) in [
        ("./exit", EntryType::Regular),
        ("./log", EntryType::Regular),
        ("record", EntryType::Directory),
        ("record/plan.json", EntryType::Regular),
        (&long, EntryType::Regular),
        ("junk", EntryType::Regular),
    ] {
        let text: &[u8] = if kind == EntryType::Directory { b"" } else { b"3\n" };
        let mut header = tar::Header::new_gnu();
        header.set_entry_type(kind);
        header.set_size(text.len() as u64);
        header.set_mode(0o644);
        builder.append_data(&mut header, name, text).expect("memory takes it");
    }
    vec![builder.into_inner().expect("memory takes it")]
}

pub(crate) fn site_files() -> Vec<Vec<u8>> {
    [
        "schema = 1\nengine = \"ssh\"\nlost_after = \"10s\"\n[[host]]\nname = \"n1\"\naddress = \"192.0.2.1\"\nuser = \"root\"\ngroups = [\"a\"]\n",
        "schema = 1\nengine = \"slurm\"\npartition = \"p\"\ncarrier = \"ssh\"\n[[host]]\nname = \"n1\"\n[[host]]\nname = \"n2\"\n",
        "schema = 1\nengine = \"exec\"\nexec = [\"ssh\", \"{user}@{address}\", \"{host}\"]\nprogram = \"/a/tilemark\"\n[[host]]\nname = \"n1\"\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

pub(crate) fn fleets() -> Vec<Vec<u8>> {
    let fleet = r#"{"schema":1,"id":"20260101-101010-web","scenario":"web","scenario_text":null,"flags":["run","web","--seed","7"],"seed":7,
        "version":"0.1.0","program_sha256":"00","asked_unix_s":1,"at_once":2,
        "site":{"engine":"ssh","program":"tilemark","lost_after_s":60,"hosts":[{"name":"n1","address":"a","user":null,"groups":["g"]}]},
        "hosts":[{"name":"n1","step":"submitted","job":"1","submitted_unix_s":1,"end":{"end":"no-answer","exit_code":null,"because":"b"}}]}"#;
    let end = r#"{"end":"unfit","exit_code":3,"because":"no image"}"#;
    let mut both = fleet.as_bytes().to_vec();
    both.push(NEXT);
    both.extend_from_slice(end.as_bytes());
    vec![fleet.into(), both, br#"{"hosts":["n1","n2"]}"#.to_vec()]
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn the_first_inputs_are_read() {
        for site in site_files() {
            Site::parse(std::str::from_utf8(&site).unwrap()).unwrap();
        }
        for answer in answers() {
            read_host_answer(&answer, NONCE).unwrap();
        }
        let folder = tempfile::tempdir().unwrap();
        unpack_attempt(compressed(&archives()[0]), folder.path(), ARCHIVE_BYTES_MAX).unwrap();
        let mut names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.sort();
        assert_eq!(names, ["exit", "log", "record"]);
        fs::write(folder.path().join("fleet.json"), &fleets()[0]).unwrap();
        let found = FleetFolder::find(folder.path(), &format!("{}/", folder.path().display())).unwrap();
        assert_eq!(found.read().unwrap().hosts.len(), 1);
    }
}
