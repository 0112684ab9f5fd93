//! QEMU's command line. A template's and its clones' differ only in what says where memory and kernel come from.

use super::settings::{Accelerator, BootFiles, QemuSettings, QemuVersion};
use crate::{
    disks::LoopDisk,
    group::Limits,
    own_disk::{AGENT_SERIAL, Overlay, SEED_SERIAL},
};
use serde_json::{Value, json};
use std::path::Path;
use tilemark_image::own_disk::DiskFormat;
use tilemark_plan::{
    expect::LARGE_TRANSLATION,
    place::VirtualNode,
    plan::{DiskPlan, GuestPlan},
    scenario::{DiskCache, DiskMedium},
};
use tilemark_units::Bytes;

/// Numbers under which QEMU is handed descriptors.
pub(super) mod number {
    pub(crate) const MONITOR: i32 = 10;
    pub(crate) const AGENT: i32 = 11;
    pub(crate) const TAP: i32 = 12;
    pub(crate) const CONSOLE: i32 = 13;
    pub(crate) const MEMORY: i32 = 14;
    pub(crate) const INITRAMFS: i32 = 15;
    /// Memory of the first node of a guest with huge pages and nodes; those of the others follow.
    pub(crate) const FIRST_NODE: i32 = 16;
    /// The second queue of the tap; further ones follow.
    pub(crate) const FIRST_QUEUE: i32 = 48;
    /// The end of the queues.
    const END: i32 = 63;
    /// The disk with the instructions for cloud-init, in place of the initramfs.
    pub(crate) const SEED: i32 = INITRAMFS;
    /// The disk that holds the agent.
    pub(crate) const AGENT_DISK: i32 = 63;

    /// The numbers of a tap's queues.
    pub(crate) fn of_queues() -> impl Iterator<Item = i32> {
        std::iter::once(TAP).chain(FIRST_QUEUE..END)
    }
}

/// Size of the translator's buffer; QEMU's default is an eighth of the host's memory. A full buffer is emptied, and what still runs is
/// translated again: a web guest boots in 4 s of processor time with this one, in 21 s with 4 MiB, and 32 MiB make it no faster
/// (docs/decisions/0122-the-translators-buffer.md).
const TRANSLATION: Bytes = Bytes::from_mib(16);

/// The same of a clone that only idles, of which there may be hundreds. It fills 7 of 8 MiB with what it runs once (measured over 64 clones:
/// 21.7 MiB of PSS each, with 4 MiB 18.3).
const IDLE_TRANSLATION: Bytes = Bytes::from_mib(4);

/// The kernel's command line. `panic=-1` with `-no-reboot` makes a panic end QEMU. `earlyprintk` prints a panic that comes
/// before the console is ready; with `quiet` nothing else is printed that early.
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 earlyprintk=ttyS0,115200 quiet panic=-1 random.trust_cpu=on 8250.nr_uarts=1 net.ifnames=0";

/// What an emulated guest's kernel leaves out in addition: work that nobody reads and that would be translated for each guest
/// again (measured over 16 clones, twice in turn: idle, 0.20 % of a processor each instead of 0.33 %). Guests under KVM keep all
/// of it, as their distribution has it: their times are figures. `no_timer_check`: on a busy host the kernel's own trial of its timer is over
/// before the emulated one ticks.
const EMULATED_KERNEL_ARGUMENTS: &str = "psi=0 nowatchdog apparmor=0 no_timer_check";

/// Where a guest's memory and first instruction come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Birth {
    /// Its own memory, the kernel.
    Boot,
    /// A shared file, the kernel.
    Template,
    /// A private copy of that file, the frozen state.
    Clone,
}

/// What a guest's drives are made of, beside the image's root.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drives<'a> {
    pub(super) data: &'a [LoopDisk],
    /// The disk of its own that it boots from, where it has one.
    pub(super) own: Option<&'a Overlay>,
}

/// What is on QEMU's command line, after the program.
pub(super) fn arguments(
    settings: &QemuSettings,
    version: QemuVersion,
    plan: &GuestPlan,
    drives: Drives<'_>,
    birth: Birth,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    add("-name", format!("{},debug-threads=on", plan.name));
    let memory_backend = if has_one_backend(plan, birth) { ",memory-backend=ram" } else { "" };
    add("-machine", format!("{}{memory_backend}", settings.machine));
    match settings.accelerator {
        Accelerator::Kvm => {
            add("-accel", "kvm".into());
        }
        Accelerator::Emulated => {
            // Where the plan places each processor, that is what the guest is to show.
            let one_thread = plan.vcpus > 1 && plan.place.is_none() && !version.sees_replaced_code();
            let thread = if one_thread { ",thread=single" } else { "" };
            add("-accel", format!("tcg,tb-size={}{thread}", translation(plan, birth).get() >> 20));
        }
    }
    add("-cpu", settings.cpu_model(drives.own.is_some()).to_owned());
    if let Some(firmware) = &settings.firmware {
        add("-bios", firmware.display().to_string());
    }
    add("-smp", processors(plan));
    add("-m", format!("{}k", plan.memory.get() / 1024));
    memory(&mut add, plan, birth);
    devices(&mut add);
    match (drives.own, &settings.image) {
        (Some(own), _) => own_disk(&mut add, own),
        (None, Some(image)) => {
            kernel(&mut add, settings, image, birth);
            root(&mut add, image);
        }
        // Whoever makes the settings has an image for such a guest.
        (None, None) => {}
    }
    network(&mut add, plan, drives.own.is_some());
    for (index, (disk, plan)) in drives.data.iter().zip(&plan.disks).enumerate() {
        data_disk(&mut add, index, disk, plan);
    }
    all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
    all.extend(["-display", "none"].map(str::to_owned));
    all.extend(settings.more.iter().cloned());
    all
}

fn translation(plan: &GuestPlan, birth: Birth) -> Bytes {
    match birth {
        _ if plan.has_large_service() => LARGE_TRANSLATION,
        Birth::Clone if plan.only_idles() => IDLE_TRANSLATION,
        Birth::Boot | Birth::Template | Birth::Clone => TRANSLATION,
    }
}

/// What a QEMU may use. The limits are a wall, and no guest that behaves reaches them: beside the guest's memory there are QEMU's own, page tables
/// of the host and of the guest, the translator's buffer and tables, the files of disks in memory, and of disks that the host caches: its
/// cache counts as memory of who fills it. Of a guest with a disk of its own, which the host caches too, nobody knows how much that is. Pages
/// that a clone shares with its template are the template's until they are written. Files of huge pages are not counted by the kernel.
pub(super) fn limits(settings: &QemuSettings, plan: &GuestPlan) -> Limits {
    let translated = match settings.accelerator {
        Accelerator::Kvm => 0,
        Accelerator::Emulated => translation(plan, Birth::Boot).get(),
    };
    let counts = |disk: &&DiskPlan| disk.on == DiskMedium::Memory || is_cached(disk.cache);
    let in_memory: u64 = plan.disks.iter().filter(counts).map(|disk| disk.size.get()).sum();
    let (memory, vcpus) = (plan.memory.get(), u64::from(plan.vcpus));
    let all = memory + memory / TABLES_PART + in_memory + translated;
    let all = Bytes::new(all + OF_QEMU.get() + OF_PROCESSOR.get() * vcpus);
    // The author of a scenario may add memory by arguments of his own.
    let is_known =
        plan.from.is_none() && !settings.more.iter().any(|argument| argument.contains("memory-backend"));
    let processes = THREADS + THREADS_OF_DISK * plan.disks.len() as u64 + THREADS_OF_PROCESSOR * vcpus;
    // Its threads are put on their processors one by one. A group's would hold the kernel's threads for its network too.
    Limits { memory: is_known.then_some(all), swap: all, processes, processors: Vec::new() }
}

/// QEMU itself, with its firmware and the buffers of its devices, and files that it reads through the host's cache, which the kernel takes
/// back first.
const OF_QEMU: Bytes = Bytes::from_mib(512);
/// For each processor: its stack and, in the translator, its tables of addresses.
const OF_PROCESSOR: Bytes = Bytes::from_mib(64);
/// Tables of pages, of the host and of the guest, are less than a hundredth of the memory.
const TABLES_PART: u64 = 64;
/// Threads of QEMU: for requests to disks it has up to 64, and as many again for a disk that has a thread of its own.
const THREADS: u64 = 256;
const THREADS_OF_DISK: u64 = 96;
/// For each processor: its own, and those of the queues that go with it.
const THREADS_OF_PROCESSOR: u64 = 4;

/// Whether all of its memory is one backend, `ram`. Without one, QEMU makes the memory itself.
fn has_one_backend(plan: &GuestPlan, birth: Birth) -> bool {
    birth != Birth::Boot || (plan.hugepages.is_some() && virtual_nodes(plan).is_empty())
}

fn virtual_nodes(plan: &GuestPlan) -> &[VirtualNode] {
    plan.place.as_ref().map_or(&[], |place| &place.virtual_nodes)
}

/// In a guest with nodes each processor has a socket of its own: no socket of a machine is on two nodes.
fn processors(plan: &GuestPlan) -> String {
    let count = plan.vcpus;
    if virtual_nodes(plan).is_empty() {
        count.to_string()
    } else {
        format!("{count},sockets={count},cores=1,threads=1")
    }
}

/// The engine makes files of huge pages: it may make larger ones than QEMU, which must not fill a disk.
fn memory(add: &mut impl FnMut(&str, String), plan: &GuestPlan, birth: Birth) {
    let size = plan.memory.get();
    let file = |id: &str, size: u64, number: i32, more: &str| {
        format!("memory-backend-file,id={id},size={size},mem-path=/proc/self/fd/{number},{more}")
    };
    match birth {
        Birth::Template => add("-object", file("ram", size, number::MEMORY, "share=on")),
        Birth::Clone => add("-object", file("ram", size, number::MEMORY, "share=off")),
        Birth::Boot if has_one_backend(plan, birth) => {
            add("-object", file("ram", size, number::MEMORY, ALL_AT_ONCE));
        }
        Birth::Boot => {
            for (place, node) in (0..).zip(virtual_nodes(plan)) {
                let (id, size) = (format!("ram{place}"), node.memory.get());
                let bound = format!("host-nodes={},policy=bind", node.node);
                let backend = match plan.hugepages {
                    Some(_) => file(&id, size, number::FIRST_NODE + place, &format!("{ALL_AT_ONCE},{bound}")),
                    None => format!("memory-backend-ram,id={id},size={size},{bound}"),
                };
                add("-object", backend);
                let last = node.first_vcpu + node.vcpus - 1;
                add("-numa", format!("node,nodeid={place},cpus={}-{last},memdev={id}", node.first_vcpu));
            }
        }
    }
}

/// Huge pages are taken before the guest begins: where there are too few, QEMU says so and does not end in the middle of a measurement.
const ALL_AT_ONCE: &str = "share=on,prealloc=on";

/// A clone has its kernel in memory: QEMU need not read it again, which is most of what its start costs.
fn kernel(add: &mut impl FnMut(&str, String), settings: &QemuSettings, image: &BootFiles, birth: Birth) {
    if birth == Birth::Clone {
        // Runs on by itself once the state is loaded.
        return add("-incoming", "defer".into());
    }
    add("-kernel", image.vmlinux.display().to_string());
    add("-initrd", format!("/proc/self/fd/{}", number::INITRAMFS));
    add("-append", kernel_arguments(settings.accelerator, counter_khz(settings)));
}

/// What a guest's counter counts in a millisecond, where it is the host's: an author's `-icount` has it count instructions.
fn counter_khz(settings: &QemuSettings) -> Option<u32> {
    settings.tsc_khz.filter(|_| !settings.more.iter().any(|argument| argument.contains("icount")))
}

/// QEMU's translator gives a guest the host's time-stamp counter. On a busy host a kernel that measures it by an emulated timer is sometimes wrong, and
/// its clock is then several times too fast (docs/decisions/0136-the-counter-of-emulated-guests.md). Where it is given the frequency, it need not
/// compare its clocks. KVM has a clock for its guests.
fn kernel_arguments(accelerator: Accelerator, tsc_khz: Option<u32>) -> String {
    let counter = tsc_khz.map(|khz| format!(" tsc=nowatchdog tsc_early_khz={khz}")).unwrap_or_default();
    match accelerator {
        Accelerator::Kvm => KERNEL_ARGUMENTS.to_owned(),
        Accelerator::Emulated => format!("{KERNEL_ARGUMENTS} {EMULATED_KERNEL_ARGUMENTS}{counter}"),
    }
}

fn devices(add: &mut impl FnMut(&str, String)) {
    let monitor = number::MONITOR;
    add("-chardev", format!("socket,id=monitor,fd={monitor}"));
    add("-mon", "chardev=monitor,mode=control".into());
    let console = format!("file,id=console,path=/proc/self/fd/{},append=on", number::CONSOLE);
    add("-chardev", console);
    add("-serial", "chardev:console".into());
    // A listening socket of ours: the host can connect before QEMU is that far.
    add("-chardev", format!("socket,id=agent,fd={},server=on,wait=off", number::AGENT));
    add("-device", "virtio-serial-pci,max_ports=2".into());
    add("-device", "virtserialport,chardev=agent,name=tilemark".into());
}

fn root(add: &mut impl FnMut(&str, String), image: &BootFiles) {
    let root = option_value(&image.root_erofs);
    let root = format!("driver=raw,node-name=root,read-only=on,file.driver=file,file.filename={root}");
    add("-blockdev", root);
    add("-device", "virtio-blk-pci,drive=root,serial=tilemark-root,num-queues=1".into());
}

fn network(add: &mut impl FnMut(&str, String), plan: &GuestPlan, has_own_disk: bool) {
    let net = plan.net;
    let vhost = if net.vhost { ",vhost=on" } else { "" };
    // The address is the template's; the agent gives each guest its own. Where others name the device, it is found by its address.
    let mac = if has_own_disk { plan.mac.to_string() } else { "52:54:00:ff:ff:fe".to_owned() };
    let device = format!("virtio-net-pci,netdev=net,mac={mac},romfile=");
    if net.queues <= 1 {
        add("-netdev", format!("tap,id=net,fd={}{vhost}", number::TAP));
        return add("-device", device);
    }
    let queues: Vec<String> =
        number::of_queues().take(net.queues as usize).map(|queue| queue.to_string()).collect();
    add("-netdev", format!("tap,id=net,fds={}{vhost}", queues.join(":")));
    // A vector for each queue and direction, one for changes of the device and one for its control queue.
    add("-device", format!("{device},mq=on,vectors={}", 2 * net.queues + 2));
}

/// The disk that a guest boots from by its firmware, the one for cloud-init, and the one with the agent. Each level of the first is named
/// here, so that QEMU follows nothing that a file says about another one. Nothing else is ever booted.
fn own_disk(add: &mut impl FnMut(&str, String), own: &Overlay) {
    add("-boot", "strict=on".into());
    let levels = &own.disk().levels;
    for (index, level) in levels.iter().enumerate().rev() {
        let mut drive = json!({
            "driver": level.format.name(), "node-name": format!("own-level{index}"), "read-only": true,
            "file": { "driver": "file", "filename": level.path.to_string_lossy() },
        });
        if level.format == DiskFormat::Qcow2 {
            let has_next = index + 1 < levels.len();
            drive["backing"] = if has_next { json!(format!("own-level{}", index + 1)) } else { Value::Null };
        }
        add("-blockdev", drive.to_string());
    }
    let overlay = json!({
        "driver": "qcow2", "node-name": "own", "backing": "own-level0", "discard": "unmap",
        "file": { "driver": "file", "filename": own.path().to_string_lossy(), "discard": "unmap" },
    });
    add("-blockdev", overlay.to_string());
    add("-device", "virtio-blk-pci,drive=own,serial=tilemark-own,bootindex=1".into());
    for (node, number, serial) in
        [("own-seed", number::SEED, SEED_SERIAL), ("own-agent", number::AGENT_DISK, AGENT_SERIAL)]
    {
        let drive = json!({
            "driver": "raw", "node-name": node, "read-only": true,
            "file": { "driver": "file", "filename": format!("/proc/self/fd/{number}"), "locking": "off" },
        });
        add("-blockdev", drive.to_string());
        add("-device", format!("virtio-blk-pci,drive={node},serial={serial},num-queues=1"));
    }
}

/// A path as the value of one of QEMU's options: a comma would begin the next option, and two are one of the value.
pub(super) fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn data_disk(add: &mut impl FnMut(&str, String), index: usize, disk: &LoopDisk, plan: &DiskPlan) {
    let device = option_value(disk.device());
    add(
        "-blockdev",
        format!(
            "driver=raw,node-name=disk{index},{},file.driver=host_device,file.aio={},file.filename={device}",
            cache_options(plan.cache),
            plan.aio.name(),
        ),
    );
    let mut more = String::new();
    if plan.iothread {
        add("-object", format!("iothread,id=iothread{index}"));
        more += &format!(",iothread=iothread{index}");
    }
    if !plan.cache.has_write_cache() {
        more += ",write-cache=off";
    }
    let sector = disk.sector_bytes();
    // QEMU takes no logical block larger than the physical one, and does not ask a loop device for either.
    add(
        "-device",
        format!(
            "virtio-blk-pci,drive=disk{index},serial=tilemark-disk{index},\
             logical_block_size={sector},physical_block_size={sector}{more}"
        ),
    );
}

/// Whether the host caches a disk.
fn is_cached(cache: DiskCache) -> bool {
    match cache {
        DiskCache::None | DiskCache::Directsync => false,
        DiskCache::Writeback | DiskCache::Writethrough | DiskCache::Unsafe => true,
    }
}

/// A cache mode as options of a node (qemu(1), `cache=`).
fn cache_options(cache: DiskCache) -> &'static str {
    match cache {
        DiskCache::None | DiskCache::Directsync => "cache.direct=on",
        DiskCache::Writeback | DiskCache::Writethrough => "cache.direct=off",
        DiskCache::Unsafe => "cache.direct=off,cache.no-flush=on",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::DiskFolders;
    use std::{fs, path::PathBuf};
    use tilemark_plan::{
        own_disk::OwnDisk,
        place::{GuestPlace, HugePageSize},
        scenario::{BrokerService, DiskAio, Net, Role},
    };
    use tilemark_units::Span;

    fn settings(accelerator: Accelerator) -> QemuSettings {
        QemuSettings {
            accelerator,
            binary: PathBuf::new(),
            machine: "pc".to_owned(),
            cpu: None,
            more: Vec::new(),
            firmware: None,
            image: Some(BootFiles {
                vmlinux: PathBuf::new(),
                initramfs: Vec::new(),
                root_erofs: PathBuf::new(),
            }),
            agent: Vec::new(),
            tsc_khz: None,
            folder: PathBuf::new(),
            disks: DiskFolders { store: PathBuf::new(), memory: PathBuf::new() },
            walls: Default::default(),
            cgroup: None,
        }
    }

    fn guest(role: Role, broker: BrokerService) -> GuestPlan {
        GuestPlan { broker, memory: Bytes::from_gib(1), ..tilemark_fixtures::guest(0, role) }
    }

    /// One that has no fault of an older one.
    const NEW: QemuVersion = QemuVersion { major: 10, minor: 0, micro: 2 };

    fn accelerator_of(
        accelerator: Accelerator,
        version: QemuVersion,
        plan: &GuestPlan,
        birth: Birth,
    ) -> String {
        let all = arguments(&settings(accelerator), version, plan, Drives::default(), birth);
        let flag = all.iter().position(|argument| argument == "-accel").unwrap();
        all[flag + 1].clone()
    }

    #[test]
    fn several_processors_share_a_thread_where_the_translator_misses_what_another_one_writes() {
        let of = |(major, minor, micro), vcpus| {
            let plan = GuestPlan { vcpus, ..guest(Role::Web, BrokerService::Reference) };
            let version = QemuVersion { major, minor, micro };
            [Accelerator::Emulated, Accelerator::Kvm]
                .map(|accelerator| accelerator_of(accelerator, version, &plan, Birth::Boot))
        };
        for (version, vcpus) in [((7, 2, 22), 1), ((8, 0, 5), 1), ((8, 1, 0), 2), ((10, 0, 2), 4)] {
            assert_eq!(of(version, vcpus), ["tcg,tb-size=16", "kvm"], "{version:?}, {vcpus}");
        }
        for (version, vcpus) in [((7, 2, 22), 2), ((8, 0, 5), 4)] {
            let wanted = ["tcg,tb-size=16,thread=single", "kvm"];
            assert_eq!(of(version, vcpus), wanted, "{version:?}, {vcpus}");
        }
        let placed = GuestPlan {
            vcpus: 2,
            place: Some(Default::default()),
            ..guest(Role::Web, BrokerService::Reference)
        };
        let old = QemuVersion { major: 7, minor: 2, micro: 22 };
        assert_eq!(accelerator_of(Accelerator::Emulated, old, &placed, Birth::Boot), "tcg,tb-size=16");
    }

    #[test]
    fn what_a_guest_runs_fits_the_translators_buffer() {
        let idle = guest(Role::Idle, BrokerService::Reference);
        for (plan, wanted, wanted_of_clone) in [
            (guest(Role::Broker, BrokerService::Reference), 16, 16),
            (guest(Role::Broker, BrokerService::Rabbitmq), 128, 128),
            (guest(Role::Broker, BrokerService::QpidBrokerJ), 128, 128),
            (guest(Role::Database, BrokerService::Reference), 128, 128),
            (guest(Role::Web, BrokerService::Reference), 16, 16),
            (idle.clone(), 16, 4),
            (GuestPlan { runs_command: true, ..idle }, 16, 16),
        ] {
            for (birth, mib) in
                [(Birth::Boot, wanted), (Birth::Template, wanted), (Birth::Clone, wanted_of_clone)]
            {
                let emulated = accelerator_of(Accelerator::Emulated, NEW, &plan, birth);
                assert_eq!(emulated, format!("tcg,tb-size={mib}"), "{plan:?}, {birth:?}");
                assert_eq!(accelerator_of(Accelerator::Kvm, NEW, &plan, birth), "kvm");
            }
        }
    }

    #[test]
    fn a_qemu_may_use_what_its_guest_has_and_what_it_needs_itself() {
        use crate::group::{played, written};
        let memory = |settings: &QemuSettings, plan: &GuestPlan| limits(settings, plan).memory.unwrap().get();
        let (kvm, emulated) = (settings(Accelerator::Kvm), settings(Accelerator::Emulated));
        let plan = guest(Role::Broker, BrokerService::Rabbitmq);
        let own = memory(&kvm, &plan) - plan.memory.get();
        assert!((512 << 20..1024 << 20).contains(&own), "{own}");
        assert_eq!(memory(&emulated, &plan) - memory(&kvm, &plan), LARGE_TRANSLATION.get());
        let disk = DiskPlan::new(Bytes::from_gib(1), DiskMedium::Memory);
        let on_disk = DiskPlan { on: DiskMedium::Store, ..disk.clone() };
        let with_disks = GuestPlan { disks: vec![disk, on_disk], ..plan.clone() };
        assert_eq!(memory(&kvm, &with_disks) - memory(&kvm, &plan), 1 << 30);
        let limits_of = limits(&kvm, &with_disks);
        assert!((256..1024).contains(&limits_of.processes), "{}", limits_of.processes);
        let mut cached = with_disks.clone();
        cached.disks[1].cache = DiskCache::Writeback;
        assert_eq!(memory(&kvm, &cached) - memory(&kvm, &with_disks), 1 << 30);
        let more = vec!["-object".to_owned(), "memory-backend-ram,id=mine,size=8G".to_owned()];
        assert_eq!(limits(&QemuSettings { more, ..kvm }, &plan).memory, None);
        let (_tree, run) = played("memory pids\n", "memory pids\n");
        let files = ["memory.max", "memory.swap.max", "pids.max"];
        let all = limits_of.memory.unwrap().get().to_string();
        assert_eq!(
            written(&run, &plan.name, &limits_of, &files),
            [all.clone(), all, limits_of.processes.to_string()]
        );
    }

    /// The values of a flag, in order.
    fn values<'a>(all: &'a [String], flag: &str) -> Vec<&'a str> {
        all.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1].as_str()).collect()
    }

    #[test]
    fn a_guest_without_a_place_has_unchanged_arguments() {
        let plan = guest(Role::Web, BrokerService::Reference);
        let placed =
            GuestPlan { place: Some(GuestPlace { nodes: vec![1], ..GuestPlace::default() }), ..plan.clone() };
        let of = |plan: &GuestPlan, birth| {
            arguments(&settings(Accelerator::Kvm), NEW, plan, Drives::default(), birth)
        };
        assert_eq!(of(&plan, Birth::Boot), of(&placed, Birth::Boot), "its memory is bound by its process");
        assert_eq!(of(&plan, Birth::Clone), of(&placed, Birth::Clone));
        let all = of(&plan, Birth::Boot);
        assert_eq!((values(&all, "-object"), values(&all, "-smp")), (vec![], vec!["1"]));
    }

    #[test]
    fn huge_pages_are_files_that_the_guest_takes_all_at_once() {
        let pages = Some(HugePageSize::TwoMebibytes);
        let plan = GuestPlan { hugepages: pages, ..guest(Role::Web, BrokerService::Reference) };
        let all = arguments(&settings(Accelerator::Kvm), NEW, &plan, Drives::default(), Birth::Boot);
        assert_eq!(
            values(&all, "-object"),
            ["memory-backend-file,id=ram,size=1073741824,mem-path=/proc/self/fd/14,share=on,prealloc=on"]
        );
        assert_eq!(values(&all, "-machine"), ["pc,memory-backend=ram"]);
    }

    #[test]
    fn a_guest_with_nodes_has_the_memory_of_each_on_its_own() {
        let node = |node, first_vcpu, vcpus, mib| VirtualNode {
            node,
            first_vcpu,
            vcpus,
            memory: Bytes::from_mib(mib),
        };
        let virtual_nodes = vec![node(2, 0, 2, 600), node(5, 2, 1, 424)];
        let place = Some(GuestPlace { virtual_nodes, ..GuestPlace::default() });
        let plan = GuestPlan { vcpus: 3, place, ..guest(Role::Web, BrokerService::Reference) };
        let all = arguments(&settings(Accelerator::Kvm), NEW, &plan, Drives::default(), Birth::Boot);
        assert_eq!(values(&all, "-smp"), ["3,sockets=3,cores=1,threads=1"]);
        assert_eq!(values(&all, "-machine"), ["pc"]);
        assert_eq!(
            values(&all, "-object"),
            [
                "memory-backend-ram,id=ram0,size=629145600,host-nodes=2,policy=bind",
                "memory-backend-ram,id=ram1,size=444596224,host-nodes=5,policy=bind"
            ]
        );
        assert_eq!(
            values(&all, "-numa"),
            ["node,nodeid=0,cpus=0-1,memdev=ram0", "node,nodeid=1,cpus=2-2,memdev=ram1"]
        );
        let plan = GuestPlan { hugepages: Some(HugePageSize::TwoMebibytes), ..plan };
        let all = arguments(&settings(Accelerator::Kvm), NEW, &plan, Drives::default(), Birth::Boot);
        assert_eq!(
            values(&all, "-object")[1],
            "memory-backend-file,id=ram1,size=444596224,mem-path=/proc/self/fd/17,share=on,prealloc=on,host-nodes=5,policy=bind"
        );
    }

    #[test]
    fn a_comma_in_a_path_begins_no_option() {
        let image = BootFiles {
            vmlinux: PathBuf::new(),
            initramfs: Vec::new(),
            root_erofs: PathBuf::from("/a,file.driver=host_device/root"),
        };
        let mut all = Vec::new();
        root(&mut |flag: &str, value: String| all.extend([flag.to_owned(), value]), &image);
        let wanted = "file.filename=/a,,file.driver=host_device/root";
        assert!(all.iter().any(|argument| argument.ends_with(wanted)), "{all:?}");
    }

    #[test]
    fn only_an_emulated_kernel_leaves_out_what_its_distribution_does() {
        let left_out = |accelerator| {
            let given = kernel_arguments(accelerator, None);
            EMULATED_KERNEL_ARGUMENTS
                .split(' ')
                .filter(|left_out| given.split(' ').any(|given| given == *left_out))
                .count()
        };
        assert_eq!((left_out(Accelerator::Kvm), left_out(Accelerator::Emulated)), (0, 4));
    }

    #[test]
    fn an_emulated_kernel_compares_its_clocks_unless_it_is_given_how_fast_the_counter_is() {
        let of = |accelerator, khz| {
            let all = kernel_arguments(accelerator, khz);
            all.split(' ').filter(|given| given.starts_with("tsc")).map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(of(Accelerator::Emulated, Some(2_300_018)), ["tsc=nowatchdog", "tsc_early_khz=2300018"]);
        assert!(of(Accelerator::Emulated, None).is_empty());
        assert!(of(Accelerator::Kvm, Some(2_300_018)).is_empty());
        let mut settings = QemuSettings { tsc_khz: Some(2_300_018), ..settings(Accelerator::Emulated) };
        assert_eq!(counter_khz(&settings), Some(2_300_018));
        settings.more = ["-icount", "shift=auto"].map(str::to_owned).to_vec();
        assert_eq!(counter_khz(&settings), None, "it has no counter of the host's");
    }

    #[test]
    fn each_cache_mode_has_qemus_own_options_and_a_disk_its_own_thread() {
        let disk = LoopDisk::unbound(Path::new("/dev/loop7"));
        let of = |cache, aio, iothread| {
            let plan =
                DiskPlan { cache, aio, iothread, ..DiskPlan::new(Bytes::from_mib(64), DiskMedium::Store) };
            let mut all = Vec::new();
            data_disk(&mut |flag: &str, value: String| all.extend([flag.to_owned(), value]), 0, &disk, &plan);
            all
        };
        for (cache, node, is_written_through) in [
            (DiskCache::None, "node-name=disk0,cache.direct=on,file", false),
            (DiskCache::Writeback, "node-name=disk0,cache.direct=off,file", false),
            (DiskCache::Writethrough, "node-name=disk0,cache.direct=off,file", true),
            (DiskCache::Directsync, "node-name=disk0,cache.direct=on,file", true),
            (DiskCache::Unsafe, "node-name=disk0,cache.direct=off,cache.no-flush=on,file", false),
        ] {
            let all = of(cache, DiskAio::Threads, false);
            assert!(values(&all, "-blockdev")[0].contains(node), "{all:?}");
            assert!(values(&all, "-blockdev")[0].contains("file.aio=threads"), "{all:?}");
            assert_eq!(
                values(&all, "-device")[0].ends_with(",write-cache=off"),
                is_written_through,
                "{all:?}"
            );
        }
        let own = of(DiskCache::None, DiskAio::IoUring, true);
        assert_eq!(values(&own, "-object"), ["iothread,id=iothread0"]);
        assert!(values(&own, "-device")[0].ends_with(",iothread=iothread0"), "{own:?}");
        assert!(values(&own, "-blockdev")[0].contains("file.aio=io_uring"), "{own:?}");
    }

    #[test]
    fn queues_are_handed_one_by_one_and_vhost_is_asked_for() {
        let of = |queues, vhost| {
            let net = Net { queues, vhost };
            let plan = GuestPlan { net, ..guest(Role::Web, BrokerService::Reference) };
            arguments(&settings(Accelerator::Kvm), NEW, &plan, Drives::default(), Birth::Boot)
        };
        assert_eq!(values(&of(1, false), "-netdev"), ["tap,id=net,fd=12"]);
        assert_eq!(values(&of(1, true), "-netdev"), ["tap,id=net,fd=12,vhost=on"]);
        let several = of(3, true);
        assert_eq!(values(&several, "-netdev"), ["tap,id=net,fds=12:48:49,vhost=on"]);
        let device = values(&several, "-device").into_iter().find(|value| value.starts_with("virtio-net"));
        assert!(device.unwrap().ends_with(",mq=on,vectors=8"), "{several:?}");
        assert_eq!(number::of_queues().count(), 16);
    }

    #[test]
    fn firmware_is_given_to_templates_and_their_clones_alike() {
        let with =
            QemuSettings { firmware: Some(PathBuf::from("/f/bios.bin")), ..settings(Accelerator::Kvm) };
        for birth in [Birth::Boot, Birth::Template, Birth::Clone] {
            let all =
                arguments(&with, NEW, &guest(Role::Web, BrokerService::Reference), Drives::default(), birth);
            assert_eq!(values(&all, "-bios"), ["/f/bios.bin"]);
        }
        let usual = arguments(
            &settings(Accelerator::Kvm),
            NEW,
            &guest(Role::Web, BrokerService::Reference),
            Drives::default(),
            Birth::Boot,
        );
        assert_eq!(values(&usual, "-bios"), Vec::<&str>::new());
    }

    #[test]
    fn a_guest_with_a_disk_of_its_own_boots_it_and_every_level_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name).display().to_string();
        tilemark_image::own_disk::write_overlay(place("d,a\"x.qcow2").as_ref(), Bytes::from_gib(2)).unwrap();
        let from = Some(OwnDisk { path: place("d,a\"x.qcow2"), boots_within: Span::from_seconds(60) });
        let plan = GuestPlan { from, ..guest(Role::Idle, BrokerService::Reference) };
        let folders = DiskFolders { store: folder.path().to_owned(), memory: PathBuf::new() };
        let overlay = Overlay::of_guest(&plan, 7, &folders).unwrap().unwrap();
        let drives = Drives { data: &[], own: Some(&overlay) };
        let settings = QemuSettings { image: None, ..settings(Accelerator::Emulated) };
        let all = arguments(&settings, NEW, &plan, drives, Birth::Boot);
        let drives: Vec<Value> =
            values(&all, "-blockdev").iter().map(|drive| serde_json::from_str(drive).unwrap()).collect();
        assert_eq!(drives[0]["file"]["filename"], place("d,a\"x.qcow2").as_str());
        assert_eq!((&drives[0]["read-only"], drives[0].get("backing")), (&json!(true), Some(&Value::Null)));
        assert_eq!((&drives[1]["backing"], &drives[1]["node-name"]), (&json!("own-level0"), &json!("own")));
        assert_eq!(drives[1]["file"]["filename"], place("tile-001-idle-7.overlay").as_str());
        assert_eq!(drives.len(), 4, "the seed and the agent");
        let devices = values(&all, "-device");
        assert!(
            devices
                .iter()
                .any(|device| device.starts_with("virtio-blk-pci,drive=own,")
                    && device.ends_with("bootindex=1"))
        );
        assert!(devices.iter().any(|device| device.contains(",mac=52:54:00:00:00:00,")), "{devices:?}");
        assert_eq!((values(&all, "-kernel"), values(&all, "-cpu")), (vec![], vec!["max,la57=off"]));
        assert_eq!(values(&all, "-accel"), ["tcg,tb-size=128"]);
        assert!(overlay.longest() > Bytes::from_gib(2).get());
        drop(overlay);
        assert!(!folder.path().join("a-7.overlay").exists(), "its overlay is left");
    }

    #[test]
    fn a_guests_disk_has_the_sectors_of_its_loop_device() {
        let device = |path: &Path| {
            let mut all = Vec::new();
            let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
            let plan = DiskPlan::new(Bytes::from_mib(64), DiskMedium::Store);
            data_disk(&mut add, 0, &LoopDisk::unbound(path), &plan);
            all.pop().unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tile-001-db-0.disk");
        assert!(device(&path).ends_with(",logical_block_size=512,physical_block_size=512"));
        fs::write(&path, "cloned").unwrap();
        assert!(device(&path).ends_with(",logical_block_size=4096,physical_block_size=4096"));
    }
}
