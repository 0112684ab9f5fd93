//! Disks that hold a database before their guest starts.
//!
//! ```text
//! no template of this kind -> a native twin makes and loads it on blank disks, ends it in order -> its disks are kept
//! before each repeat: every guest's disks are cloned from the template by reflink; they go with the guest
//! ```
//! Templates stay in the disk store of the cache. One twin makes them, whatever the backend: the bytes are the same. Disks
//! of guests go with them; what a run that was killed left is removed by the next run that needs the store, or by `recover`.

use crate::{
    failure::{Failure, FailureCode, state_failed},
    guests::services,
};
use std::{
    fs, io,
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::{Reply, Request, Service};
use tilemark_guests::{Expected, GuestManager, NativeManager, StartMode, disk_file_name, make_ready};
use tilemark_image::{ImageError, disk_store::DiskStore};
use tilemark_plan::{
    plan::{GuestPlan, MacAddress, Point, guest_address},
    scenario::{DiskMedium, Role},
    workload::StoreDurability,
};
use tilemark_sys::namespace::own_mounts;
use tilemark_units::Sha256Hash;

/// Room in the disk store; only what disks hold is taken from the host.
pub(crate) const STORE_BYTES: u64 = 256 << 30;
/// Begins the names of templates.
const TEMPLATE: &str = "database-template-";
/// A fresh server of either kind is ready within this.
const SERVER_WITHIN: Duration = Duration::from_secs(120);
/// The slowest load that is waited for: a tenth of what two processors and a common disk do.
const LOAD_BYTES_PER_S: u64 = 3_000_000;

/// Who has just left the store may still have it: a process that is being started holds copies of all open files for a moment.
const FREE_WITHIN: Duration = Duration::from_secs(5);

/// The file of the cache that is the disk store.
pub(crate) fn store_file(cache: &Path) -> PathBuf {
    cache.join("disks.xfs")
}

/// Mounts the disk store, and waits for it so long where somebody has it.
fn open_when_free(
    cache: &Path,
    folder: &Path,
    capacity_bytes: u64,
    within: Duration,
) -> Result<DiskStore, ImageError> {
    let until = Instant::now() + within;
    loop {
        match DiskStore::open(&store_file(cache), folder, capacity_bytes) {
            Err(ImageError::StoreBusy { .. }) if Instant::now() < until => {
                thread::sleep(Duration::from_millis(20));
            }
            opened => return opened,
        }
    }
}

/// Removes from the cache's disk store what runs left there that were killed, and names it. Nothing where somebody has the
/// store, and in a cache that cannot be written: no run could leave anything there.
pub(crate) fn remove_left(cache: &Path) -> Result<Vec<String>, Failure> {
    let file = store_file(cache);
    if !file.exists() {
        return Ok(Vec::new());
    }
    let removed = thread::scope(|scope| {
        let remover = scope.spawn(|| {
            own_mounts().map_err(|error| {
                let message = format!("cannot mount the disk store {} for itself alone", file.display());
                let remedy = "check that root may make mount namespaces here";
                Failure::caused_by(&error, FailureCode::HostUnfit, message, remedy)
            })?;
            // Over the cache, as this thread alone sees it: no folder is made that could be left.
            match DiskStore::open(&file, cache, STORE_BYTES) {
                Err(ImageError::StoreBusy { .. }) => Ok(Vec::new()),
                Err(ImageError::Io { source, .. }) if source.kind() == io::ErrorKind::ReadOnlyFilesystem => {
                    Ok(Vec::new())
                }
                opened => remove_left_in(&opened?),
            }
        });
        remover.join()
    });
    removed.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// Nobody else has this store: what no run leaves that ends by itself was left by one that was killed.
fn remove_left_in(store: &DiskStore) -> Result<Vec<String>, Failure> {
    let disks = store.disks()?;
    let left: Vec<String> = disks.iter().filter(|name| is_left(name, &disks)).cloned().collect();
    left.iter().try_for_each(|name| store.remove_disk(name))?;
    Ok(left)
}

/// Whether a disk is a guest's, or of a template that was not finished: a template's first disk is kept last.
fn is_left(name: &str, disks: &[String]) -> bool {
    let of_template = name.strip_prefix(TEMPLATE).and_then(|_| name.rsplit_once('-'));
    of_template.is_none_or(|(template, _)| !disks.contains(&template_disk(template, 0)))
}

fn template_disk(template: &str, index: usize) -> String {
    format!("{template}-{index}.disk")
}

/// The disk store, mounted where guests' disks are made.
pub(crate) struct DatabaseDisks {
    store: DiskStore,
    folder: PathBuf,
}

impl DatabaseDisks {
    /// Mounts the cache's disk store on `folder`.
    pub(crate) fn open(cache: &Path, folder: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(cache).map_err(state_failed)?;
        let store = open_when_free(cache, folder, STORE_BYTES, FREE_WITHIN)?;
        remove_left_in(&store)?;
        Ok(Self { store, folder: folder.to_owned() })
    }

    /// Gives every database of a point its disks, as fresh as its template. Says how long templates took that were not
    /// there.
    pub(crate) fn prepare(
        &self,
        point: &Point,
        native: &NativeManager,
        maker: &str,
        progress: &dyn Fn(&str),
    ) -> Result<Duration, Failure> {
        let mut on_templates = Duration::ZERO;
        for guest in point.guests.iter().filter(|guest| guest.serves(Role::Database)) {
            if guest.disks.iter().any(|disk| disk.on != DiskMedium::Store) || guest.disks.is_empty() {
                continue;
            }
            let service = services::database(point, guest);
            let template = Template::of(guest, &service, maker);
            if !template.is_whole(&self.store, guest)? {
                let began = Instant::now();
                self.make(&template, guest, &service, native, progress)?;
                on_templates += began.elapsed();
            }
            for index in 0..guest.disks.len() {
                let name = disk_file_name(&guest.name, index);
                self.store.remove_disk(&name)?;
                self.store.clone_disk(&template.disk(index), &name)?;
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
        native: &NativeManager,
        progress: &dyn Fn(&str),
    ) -> Result<(), Failure> {
        let parameters = service.store().cloned().unwrap_or_default();
        let database = parameters.database.name();
        let data = service.holds.as_ref().and_then(|work| work.facts().data()).unwrap_or_default();
        let held = match service.holds {
            Some(_) => format!("{:.0} MB of rows in {database}", data.get() as f64 / 1e6),
            None => match &service.sql {
                Some(sql) => format!("a {database} with what {sql} makes"),
                None => format!("an empty {database}"),
            },
        };
        progress(&format!("making {held}, once: the template of all its guests"));
        let guest = maker_of(like);
        self.remove_half_made(template, &guest)?;
        // Nobody is let into a template.
        let service = Service { credentials: None, ..service.clone() };
        let within = SERVER_WITHIN + Duration::from_secs(data.get() / LOAD_BYTES_PER_S);
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
            self.store.remove_disk(&disk_file_name(&maker.name, index))?;
        }
        template.remove_older(&self.store)
    }

    fn fill(
        &self,
        template: &Template,
        guest: &GuestPlan,
        service: &Service,
        native: &NativeManager,
        within: Duration,
    ) -> Result<(), Failure> {
        let id = native.start(guest, StartMode::Boot)?;
        let kept = self.keep(template, Expected { plan: guest, id, service }, native, within);
        kept.and(native.stop(id).map_err(Failure::from))
    }

    /// Waits until the database is loaded, ends it and keeps its disks.
    fn keep(
        &self,
        template: &Template,
        expected: Expected<'_>,
        native: &NativeManager,
        within: Duration,
    ) -> Result<(), Failure> {
        let guest = expected.plan;
        let mut ready = make_ready(native, expected, within)?;
        let ended = ready.session.ask(&Request::StopService, within)?;
        if let Reply::Failed { message, remedy } = ended {
            return Err(Failure::new(FailureCode::GuestFailed, message, remedy));
        }
        // From the last to the first: the template is whole when its first disk is there.
        for index in (0..guest.disks.len()).rev() {
            let name = disk_file_name(&guest.name, index);
            self.store.clone_disk(&name, &template.disk(index))?;
            let path = self.folder.join(template.disk(index));
            fs::File::open(&path).and_then(|file| file.sync_all()).map_err(state_failed)?;
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
        network: None,
        reaches: Vec::new(),
        asks: None,
        ..like.clone()
    }
}

/// What is wanted of the template of a guest's disks, as a name: guests with the same share it.
pub(crate) fn template_kind(point: &Point, guest: &GuestPlan) -> String {
    Template::of(guest, &services::database(point, guest), "").kind
}

/// A part of the names of templates: those that stay in caches are found again only by the same.
const fn durability_name(durability: StoreDurability) -> &'static str {
    match durability {
        StoreDurability::Full => "Full",
        StoreDurability::Relaxed => "Relaxed",
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
        let parameters = service.store().cloned().unwrap_or_default();
        let disks: Vec<String> = guest.disks.iter().map(|disk| disk.size.to_string()).collect();
        let durability = durability_name(parameters.durability);
        let holds_store = service.store().is_some();
        let mut wanted = format!("{} {durability} {} {holds_store}", guest.memory, disks.join(","));
        let (database, mut bytes) = (parameters.database.name(), parameters.data.get());
        if let Some(facts) = service.holds.as_ref().map(|work| work.facts())
            && let Some(rows) = facts.rows()
        {
            wanted += &format!(" {rows}");
            bytes = facts.data().unwrap_or_default().get();
        }
        if let Some(sql) = &service.sql {
            // What is in it is known by the image.
            wanted += &format!(" sql {sql}");
        }
        let short = |text: &str| Sha256Hash::of(text.as_bytes()).to_string()[..16].to_owned();
        let kind = format!("{TEMPLATE}{database}-{bytes}-{}-", short(&wanted));
        Self { name: format!("{kind}{}", short(maker)), kind }
    }

    fn disk(&self, index: usize) -> String {
        template_disk(&self.name, index)
    }

    /// Whether all disks are there with their whole length.
    fn is_whole(&self, store: &DiskStore, guest: &GuestPlan) -> Result<bool, Failure> {
        let mut sizes = Vec::new();
        for index in 0..guest.disks.len() {
            let path = store.disk_path(&self.disk(index))?;
            sizes.push(fs::metadata(path).map_or(0, |file| file.len()));
        }
        Ok(guest.disks.iter().zip(sizes).all(|(disk, size)| disk.size.get() == size))
    }

    /// Removes what is left of this template, and those that older programs or images made.
    fn remove_older(&self, store: &DiskStore) -> Result<(), Failure> {
        for name in store.disks()? {
            if name.starts_with(&self.kind) {
                store.remove_disk(&name)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use rustix::fs::{FlockOperation, flock};
    use std::fs::File;
    use tilemark_plan::{builtin::builtin, resolve::Request};

    #[test]
    fn templates_in_caches_of_earlier_versions_are_found_by_their_names() {
        let text = builtin("oltp").unwrap().text;
        for (durability, name) in [
            ("full", "database-template-mariadb-100000000-d7649f03cc315748-"),
            ("relaxed", "database-template-mariadb-100000000-300b033ebadca23f-"),
        ] {
            let settings = [("load.orders.store.durability".to_owned(), durability.to_owned())].into();
            let point = &plan_of(text, &Request { settings, ..ladder() }).points[0];
            assert_eq!(template_kind(point, &point.guests[0]), name, "{durability}");
        }
    }

    #[test]
    fn a_template_is_shared_by_loads_that_want_the_same_tables_of_sysbench() {
        let text = builtin("sysbench").unwrap().text;
        let kind = |settings: &[(&str, &str)]| {
            let settings = tilemark_fixtures::settings(settings);
            let point = &plan_of(text, &Request { settings, ..ladder() }).points[0];
            template_kind(point, &point.guests[0])
        };
        let plain = kind(&[]);
        for same in [("load.transactions.sysbench.threads", "3"), ("measure.repeats", "4")] {
            assert_eq!(kind(&[same]), plain, "{same:?}");
        }
        let others = [
            vec![("load.transactions.sysbench.rows", "20000")],
            vec![("load.transactions.sysbench.tables", "2")],
            // As many rows in all.
            vec![("load.transactions.sysbench.tables", "2"), ("load.transactions.sysbench.rows", "5000")],
            vec![("guest.db.memory", "1GiB")],
        ];
        let kinds: Vec<String> = others.iter().map(|settings| kind(settings)).collect();
        let mut all: Vec<&String> = kinds.iter().chain([&plain]).collect();
        all.sort();
        all.dedup();
        assert_eq!(all.len(), 1 + kinds.len(), "{all:?}");
    }

    /// What three runs left that were killed: one with a guest, one that made a template, one that kept a template's disks.
    const LEFT: [&str; 3] =
        ["database-template-postgresql-9-half-made-1.disk", "template-maker-1.disk", "tile-001-db-0.disk"];
    const TEMPLATE_DISKS: [&str; 2] =
        ["database-template-mariadb-9-like-made-0.disk", "database-template-mariadb-9-like-made-1.disk"];
    /// As small as a store may be.
    const SMALL: u64 = 0;

    #[test]
    fn remains_of_killed_runs_in_the_store_are_removed_and_whole_templates_stay() {
        if !rustix::process::geteuid().is_root() {
            return tilemark_fixtures::skipped("mounting a disk store needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let (cache, folder) = (home.path().join("cache"), home.path().join("disks"));
        assert_eq!(remove_left(&cache).unwrap(), Vec::<String>::new(), "there is no store");
        // A thread of its own: its mounts end with it.
        let in_own_mounts = |test: &(dyn Fn() + Sync)| {
            let thread = || {
                own_mounts().unwrap();
                test();
            };
            thread::scope(|scope| scope.spawn(thread).join().unwrap());
        };
        in_own_mounts(&|| {
            let store = open_when_free(&cache, &folder, SMALL, FREE_WITHIN).unwrap();
            for name in LEFT.iter().chain(&TEMPLATE_DISKS) {
                File::create(folder.join(name)).unwrap();
            }
            assert_eq!(remove_left(&cache).unwrap(), Vec::<String>::new(), "somebody has it");
            assert_eq!(store.disks().unwrap().len(), LEFT.len() + TEMPLATE_DISKS.len());
            let busy = open_when_free(&cache, &folder, SMALL, Duration::from_millis(50)).unwrap_err();
            assert!(matches!(busy, ImageError::StoreBusy { .. }), "{busy}");
        });
        // The thread's mounts end shortly after the thread.
        let until = Instant::now() + Duration::from_secs(60);
        let removed = loop {
            let removed = remove_left(&cache).unwrap();
            if !removed.is_empty() || Instant::now() > until {
                break removed;
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert_eq!(removed, LEFT);
        assert_eq!(remove_left(&cache).unwrap(), Vec::<String>::new(), "once is enough");
        in_own_mounts(&|| {
            let held = File::open(store_file(&cache)).unwrap();
            flock(&held, FlockOperation::LockExclusive).unwrap();
            thread::scope(|scope| {
                // It is left while somebody waits for it.
                scope.spawn(move || {
                    thread::sleep(Duration::from_millis(100));
                    drop(held);
                });
                let store = open_when_free(&cache, &folder, SMALL, Duration::from_secs(60)).unwrap();
                assert_eq!(store.disks().unwrap(), TEMPLATE_DISKS);
            });
        });
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        assert!(!mounts.contains(home.path().to_str().unwrap()), "it was mounted where others see it");
    }
}
