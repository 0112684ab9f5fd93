//! Disks that hold a database before their guest starts.
//!
//! ```text
//! no template of this kind -> a native twin makes and loads it on blank disks, ends it in order -> its disks are kept
//! before each repeat: every guest's disks are cloned from the template by reflink; they go with the guest
//! ```
//! Templates stay in the disk store of the cache. One twin makes them, whatever the backend: the bytes are the same.

use crate::{
    image_job::image_failed,
    pipeline::guest_failed,
    services,
    wire::{Failure, FailureCode},
};
use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Reply, Request, Service};
use tilemark_guests::{Backend, Expected, NativeBackend, StartMode, disk_file_name, make_ready};
use tilemark_image::disk_store::DiskStore;
use tilemark_plan::{
    plan::{GuestPlan, MacAddress, Point, guest_address},
    scenario::{DiskMedium, Role},
};

/// Room in the disk store; only what disks hold is taken from the host.
const STORE_BYTES: u64 = 256 << 30;
/// Begins the names of templates.
const TEMPLATE: &str = "database-template-";
/// A fresh server of either kind stands within this.
const SERVER_WITHIN: Duration = Duration::from_secs(120);
/// The slowest load that is waited for: a tenth of what two processors and a common disk do.
const LOAD_BYTES_PER_S: u64 = 3_000_000;

/// The file of the cache that is the disk store.
pub(crate) fn store_file(cache: &Path) -> PathBuf {
    cache.join("disks.xfs")
}

/// The disk store, mounted where guests' disks are made.
pub(crate) struct DatabaseDisks {
    store: DiskStore,
    folder: PathBuf,
}

impl DatabaseDisks {
    /// Mounts the cache's disk store on `folder`.
    pub(crate) fn open(cache: &Path, folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(cache).map_err(crate::measure::state_failed)?;
        let store = DiskStore::open(&store_file(cache), folder, STORE_BYTES).map_err(image_failed)?;
        // Nobody else has it: what is no template was left by a run that was killed.
        for name in store.disks().map_err(image_failed)? {
            if !name.starts_with(TEMPLATE) {
                store.remove_disk(&name).map_err(image_failed)?;
            }
        }
        Ok(Self { store, folder: folder.to_owned() })
    }

    /// Gives every database of a point its disks, as fresh as its template. Says how long templates took that were not
    /// there.
    pub(crate) fn prepare(
        &self,
        point: &Point,
        native: &NativeBackend,
        maker: &str,
        progress: &dyn Fn(&str),
    ) -> Result<Duration, Failure> {
        let mut on_templates = Duration::ZERO;
        for guest in point.guests.iter().filter(|guest| guest.role == Role::Database) {
            if guest.disks.iter().any(|disk| disk.on != DiskMedium::Store) || guest.disks.is_empty() {
                continue;
            }
            let service = services::service(point, guest);
            let template = Template::of(guest, &service, maker);
            if !template.is_whole(&self.store, guest)? {
                let began = Instant::now();
                self.make(&template, guest, &service, native, progress)?;
                on_templates += began.elapsed();
            }
            for index in 0..guest.disks.len() {
                let name = disk_file_name(&guest.name, index);
                self.store.remove_disk(&name).map_err(image_failed)?;
                self.store.clone_disk(&template.disk(index), &name).map_err(image_failed)?;
            }
        }
        Ok(on_templates)
    }

    /// Has a native twin make and load the database, and keeps its disks.
    fn make(
        &self,
        template: &Template,
        like: &GuestPlan,
        service: &Service,
        native: &NativeBackend,
        progress: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let parameters = service.store.clone().unwrap_or_default();
        let (database, size) = (parameters.database.name(), parameters.data.get() as f64 / 1e6);
        progress(&match service.store {
            Some(_) => format!("loading {size:.0} MB into {database}, once: the template of all its guests"),
            None => format!("making an empty {database}, once: the template of all its guests"),
        });
        let guest = maker_of(like);
        self.remove_half_made(template, &guest)?;
        // Nobody is let into a template.
        let service = Service { credentials: None, ..service.clone() };
        let within = SERVER_WITHIN + Duration::from_secs(parameters.data.get() / LOAD_BYTES_PER_S);
        let kept = self.fill(template, &guest, &service, native, within);
        if kept.is_err() {
            // The first error is the one to report.
            let _ = self.remove_half_made(template, &guest);
        }
        kept
    }

    /// Removes what a template that was not finished left: the disks that its maker had, and those that were kept already.
    fn remove_half_made(&self, template: &Template, maker: &GuestPlan) -> Result<(), Failure> {
        for index in 0..maker.disks.len() {
            self.store.remove_disk(&disk_file_name(&maker.name, index)).map_err(image_failed)?;
        }
        template.remove_older(&self.store)
    }

    fn fill(
        &self,
        template: &Template,
        guest: &GuestPlan,
        service: &Service,
        native: &NativeBackend,
        within: Duration,
    ) -> Result<(), Failure> {
        let id = native.start(guest, StartMode::Boot).map_err(guest_failed)?;
        let kept = self.keep(template, Expected { plan: guest, id, service }, native, within);
        kept.and(native.stop(id).map_err(guest_failed))
    }

    /// Waits until the database is loaded, ends it and keeps its disks.
    fn keep(
        &self,
        template: &Template,
        expected: Expected<'_>,
        native: &NativeBackend,
        within: Duration,
    ) -> Result<(), Failure> {
        let guest = expected.plan;
        let mut ready = make_ready(native, expected, within).map_err(guest_failed)?;
        let ended = ready.session.ask(&Request::StopService, within).map_err(guest_failed)?;
        if let Reply::Failed { message, remedy } = ended {
            return Err(Failure::told(FailureCode::GuestFailed, message, remedy));
        }
        // From the last to the first: the template is whole when its first disk is there.
        for index in (0..guest.disks.len()).rev() {
            let name = disk_file_name(&guest.name, index);
            self.store.clone_disk(&name, &template.disk(index)).map_err(image_failed)?;
            let path = self.folder.join(template.disk(index));
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(crate::measure::state_failed)?;
        }
        Ok(())
    }
}

/// A guest of its own beside those of any point: its address is none of theirs.
fn maker_of(like: &GuestPlan) -> GuestPlan {
    let index = tilemark_guests::GUESTS_MAX - 1;
    GuestPlan {
        name: "template-maker".to_owned(),
        index,
        mac: MacAddress::of_guest(index),
        address: guest_address(index),
        ..like.clone()
    }
}

/// The template of a database.
struct Template {
    /// What is wanted of it.
    kind: String,
    /// The name: kind, and the hash of what makes it.
    name: String,
}

impl Template {
    fn of(guest: &GuestPlan, service: &Service, maker: &str) -> Self {
        let parameters = service.store.clone().unwrap_or_default();
        let disks: Vec<String> = guest.disks.iter().map(|disk| disk.size.to_string()).collect();
        let wanted = format!(
            "{} {:?} {} {}",
            guest.memory,
            parameters.durability,
            disks.join(","),
            service.store.is_some()
        );
        let short = |text: &str| crate::sha256(text.as_bytes()).chars().take(16).collect::<String>();
        let (database, bytes) = (parameters.database.name(), parameters.data.get());
        let kind = format!("{TEMPLATE}{database}-{bytes}-{}-", short(&wanted));
        Self { name: format!("{kind}{}", short(maker)), kind }
    }

    fn disk(&self, index: usize) -> String {
        format!("{}-{index}.disk", self.name)
    }

    /// Whether all disks are there with their whole length.
    fn is_whole(&self, store: &DiskStore, guest: &GuestPlan) -> Result<bool, Failure> {
        let mut sizes = Vec::new();
        for index in 0..guest.disks.len() {
            let path = store.disk_path(&self.disk(index)).map_err(image_failed)?;
            sizes.push(fs::metadata(path).map_or(0, |file| file.len()));
        }
        Ok(guest.disks.iter().zip(sizes).all(|(disk, size)| disk.size.get() == size))
    }

    /// Removes what is left of this template, and those that older programs or images made.
    fn remove_older(&self, store: &DiskStore) -> Result<(), Failure> {
        for name in store.disks().map_err(image_failed)? {
            if name.starts_with(&self.kind) {
                store.remove_disk(&name).map_err(image_failed)?;
            }
        }
        Ok(())
    }
}
