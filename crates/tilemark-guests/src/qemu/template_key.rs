//! By what a template is known: image, kernel, agent, QEMU's version, its full command line, and the service. A clone is only
//! ever made from a template with its own key.

use super::{
    command::{Birth, Drives, arguments},
    settings::{QemuSettings, QemuVersion},
};
use crate::error::{GuestError, file};
use std::{
    fs::{self, File},
    io,
    path::Path,
    time::SystemTime,
};
use tilemark_agent_protocol::Service;
use tilemark_plan::plan::GuestPlan;
use tilemark_sys::file_mark::file_mark;
use tilemark_units::Sha256Hash;

/// The key of a template for guests such as this one, at the time `now`.
pub(super) fn template_key(
    settings: &QemuSettings,
    version: QemuVersion,
    plan: &GuestPlan,
    service: &Service,
    now: SystemTime,
) -> Result<String, GuestError> {
    // A template serves guests of any name: the name on the command line is none of its business.
    let like = GuestPlan { name: "template".to_owned(), ..plan.clone() };
    let mut key = version.to_string().into_bytes();
    key.extend(
        arguments(settings, version, &like, Drives::default(), Birth::Template).join("\0").into_bytes(),
    );
    // A path may come to hold something else while a run goes on: a kernel that is built again, a QEMU installed over
    // the old one.
    let image = settings.image.as_ref();
    let of_image = image.into_iter().flat_map(|image| [&image.vmlinux, &image.root_erofs]);
    for path in [&settings.binary].into_iter().chain(of_image).chain(&settings.firmware) {
        key.extend(path.as_os_str().as_encoded_bytes());
        key.extend(content_mark(path, now)?.into_bytes());
    }
    for disk in &plan.disks {
        key.extend(disk.size.get().to_be_bytes());
        key.extend(format!("{} {} {}", disk.cache.name(), disk.aio.name(), disk.iothread).into_bytes());
    }
    key.extend(image.iter().flat_map(|image| &image.initramfs));
    key.extend(serde_json::to_vec(service).expect("a service is plain data"));
    Ok(Sha256Hash::of(&key).to_string())
}

/// Represents the content of a file, mostly without reading hundreds of megabytes: a template lives no longer than its
/// run, so this need not mean anything on another host or after a copy. A file that was changed just now is hashed.
fn content_mark(path: &Path, now: SystemTime) -> Result<String, GuestError> {
    let found = fs::metadata(path).map_err(file("look at", path))?;
    match file_mark(&found, now) {
        Some(mark) => Ok(mark),
        None => content_hash(path).map_err(file("read", path)),
    }
}

fn content_hash(path: &Path) -> io::Result<String> {
    File::open(path).and_then(Sha256Hash::of_reader).map(|hash| hash.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        disks::DiskFolders,
        qemu::settings::{Accelerator, BootFiles},
    };
    use std::{collections::BTreeSet, path::PathBuf, time::Duration};
    use tilemark_plan::scenario::Role;
    use tilemark_units::Bytes;

    #[test]
    fn a_template_is_known_by_what_its_files_hold_and_not_by_their_paths() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| {
            let path = folder.path().join(name);
            fs::write(&path, name).unwrap();
            path
        };
        let mut settings = QemuSettings {
            accelerator: Accelerator::Emulated,
            binary: place("qemu"),
            machine: "pc".to_owned(),
            cpu: None,
            more: Vec::new(),
            firmware: Some(place("firmware")),
            image: Some(BootFiles {
                vmlinux: place("vmlinux"),
                initramfs: b"agent".to_vec(),
                root_erofs: place("root"),
            }),
            agent: Vec::new(),
            tsc_khz: None,
            folder: PathBuf::new(),
            disks: DiskFolders { store: PathBuf::new(), memory: PathBuf::new() },
            walls: Default::default(),
            cgroup: None,
        };
        let version = QemuVersion { major: 7, minor: 2, micro: 0 };
        let mut plan = tilemark_fixtures::guest(0, Role::Idle);
        let service = Service { is_emulated: true, ..Service::new(Role::Idle, plan.memory, 1) };
        let now = SystemTime::now();
        let key = |settings: &QemuSettings, plan: &GuestPlan| {
            template_key(settings, version, plan, &service, now).unwrap()
        };
        let mut keys = BTreeSet::from([key(&settings, &plan)]);
        plan.name = "b".to_owned();
        assert!(keys.contains(&key(&settings, &plan)), "a guest's name makes no other template");
        // The same path and as many bytes, and yet another kernel, image, QEMU or firmware.
        for name in ["vmlinux", "root", "qemu", "firmware"] {
            fs::write(folder.path().join(name), name.to_uppercase()).unwrap();
            assert!(keys.insert(key(&settings, &plan)), "{name} was replaced unnoticed");
        }
        settings.image.as_mut().unwrap().initramfs = b"other".to_vec();
        assert!(keys.insert(key(&settings, &plan)), "another agent");
        plan.memory = Bytes::from_mib(128);
        assert!(keys.insert(key(&settings, &plan)), "another memory");
        fs::remove_file(&settings.image.as_ref().unwrap().vmlinux).unwrap();
        let missing = template_key(&settings, version, &plan, &service, now).unwrap_err().to_string();
        assert!(missing.starts_with("cannot look at") && missing.ends_with("vmlinux"), "{missing}");
    }

    #[test]
    fn a_file_changed_just_now_is_known_by_its_hash_and_an_older_one_is_not_read() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "kernel").unwrap();
        let hash = content_hash(file.path()).unwrap();
        let now = SystemTime::now();
        assert_eq!(content_mark(file.path(), now).unwrap(), hash);
        assert_ne!(content_mark(file.path(), now + Duration::from_secs(60)).unwrap(), hash);
    }
}
