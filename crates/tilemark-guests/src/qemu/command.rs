//! QEMU's command line. A template's and its clones' differ only in what says where memory and kernel come from.

use super::settings::{Accelerator, QemuSettings};
use crate::disks::LoopDisk;
use std::path::Path;
use tilemark_plan::{expect::LARGE_TRANSLATION, plan::GuestPlan};
use tilemark_units::Bytes;

/// Numbers under which QEMU is handed descriptors.
pub(super) mod number {
    pub(crate) const MONITOR: i32 = 10;
    pub(crate) const AGENT: i32 = 11;
    pub(crate) const TAP: i32 = 12;
    pub(crate) const CONSOLE: i32 = 13;
    pub(crate) const MEMORY: i32 = 14;
    pub(crate) const INITRAMFS: i32 = 15;
}

/// Size of the translator's buffer for each guest; QEMU's default is an eighth of the host's memory. An idle clone
/// fills 7 of 8 MiB with what it runs once (measured over 64 clones: 21.7 MiB of PSS each, with 4 MiB 18.3); a
/// full buffer is emptied and what still runs is translated again.
const TRANSLATION: Bytes = Bytes::from_mib(4);

/// The kernel's command line. `panic=-1` with `-no-reboot` makes a panic end QEMU. `earlyprintk` prints a panic that comes
/// before the console is ready; with `quiet` nothing else is printed that early.
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 earlyprintk=ttyS0,115200 quiet panic=-1 random.trust_cpu=on 8250.nr_uarts=1 net.ifnames=0";

/// What an emulated guest's kernel leaves out besides: work that nobody reads and that would be translated for each guest
/// anew (measured over 16 clones, twice in turn: idle, 0.20 % of a processor each instead of 0.33 %). Guests under KVM keep all
/// of it, as their distribution has it: their times are figures.
const EMULATED_KERNEL_ARGUMENTS: &str = "psi=0 nowatchdog tsc=nowatchdog apparmor=0";

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

/// What stands on QEMU's command line, after the program.
pub(super) fn arguments(
    settings: &QemuSettings,
    plan: &GuestPlan,
    disks: &[LoopDisk],
    birth: Birth,
) -> Vec<String> {
    let mut all = Vec::new();
    let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
    add("-name", format!("{},debug-threads=on", plan.name));
    let memory_backend = if birth == Birth::Boot { "" } else { ",memory-backend=ram" };
    add("-machine", format!("{}{memory_backend}", settings.machine));
    match settings.accelerator {
        Accelerator::Kvm => {
            add("-accel", "kvm".into());
            // `invtsc` would make its state impossible to save.
            add("-cpu", "host,migratable=on".into());
        }
        Accelerator::Emulated => {
            add("-accel", format!("tcg,tb-size={}", translation(plan).get() >> 20));
            // The kernel's generator is ready at once when there is an instruction for randomness.
            add("-cpu", "qemu64,+rdrand".into());
        }
    }
    add("-smp", plan.vcpus.to_string());
    add("-m", format!("{}k", plan.memory.get() / 1024));
    memory(&mut add, plan, birth);
    kernel(&mut add, settings, birth);
    devices(&mut add, settings);
    for (index, disk) in disks.iter().enumerate() {
        data_disk(&mut add, index, disk);
    }
    all.extend(["-nodefaults", "-no-user-config", "-no-reboot"].map(str::to_owned));
    all.extend(["-display", "none"].map(str::to_owned));
    all
}

fn translation(plan: &GuestPlan) -> Bytes {
    if plan.has_large_service() { LARGE_TRANSLATION } else { TRANSLATION }
}

fn memory(add: &mut impl FnMut(&str, String), plan: &GuestPlan, birth: Birth) {
    let share = match birth {
        Birth::Boot => return,
        Birth::Template => "on",
        Birth::Clone => "off",
    };
    let size = plan.memory.get();
    let path = format!("/proc/self/fd/{}", number::MEMORY);
    add("-object", format!("memory-backend-file,id=ram,size={size},mem-path={path},share={share}"));
}

/// A clone has its kernel in memory: QEMU need not read it again, which is most of what its start costs.
fn kernel(add: &mut impl FnMut(&str, String), settings: &QemuSettings, birth: Birth) {
    if birth == Birth::Clone {
        // Runs on by itself once the state is loaded.
        return add("-incoming", "defer".into());
    }
    add("-kernel", settings.vmlinux.display().to_string());
    add("-initrd", format!("/proc/self/fd/{}", number::INITRAMFS));
    add("-append", kernel_arguments(settings.accelerator));
}

fn kernel_arguments(accelerator: Accelerator) -> String {
    match accelerator {
        Accelerator::Kvm => KERNEL_ARGUMENTS.to_owned(),
        Accelerator::Emulated => format!("{KERNEL_ARGUMENTS} {EMULATED_KERNEL_ARGUMENTS}"),
    }
}

fn devices(add: &mut impl FnMut(&str, String), settings: &QemuSettings) {
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
    let root = option_value(&settings.root_erofs);
    let root = format!("driver=raw,node-name=root,read-only=on,file.driver=file,file.filename={root}");
    add("-blockdev", root);
    add("-device", "virtio-blk-pci,drive=root,serial=tilemark-root,num-queues=1".into());
    add("-netdev", format!("tap,id=net,fd={}", number::TAP));
    // The address is the template's; the agent gives each guest its own.
    add("-device", "virtio-net-pci,netdev=net,mac=52:54:00:ff:ff:fe,romfile=".into());
}

/// A path as the value of one of QEMU's options: a comma would begin the next option, and two are one of the value.
pub(super) fn option_value(path: &Path) -> String {
    path.display().to_string().replace(',', ",,")
}

fn data_disk(add: &mut impl FnMut(&str, String), index: usize, disk: &LoopDisk) {
    let device = option_value(disk.device());
    add(
        "-blockdev",
        format!(
            "driver=raw,node-name=disk{index},cache.direct=on,file.driver=host_device,file.aio=native,\
             file.filename={device}"
        ),
    );
    let sector = disk.sector_bytes();
    // QEMU takes no logical block larger than the physical one, and does not ask a loop device for either.
    add(
        "-device",
        format!(
            "virtio-blk-pci,drive=disk{index},serial=tilemark-disk{index},\
             logical_block_size={sector},physical_block_size={sector}"
        ),
    );
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disks::DiskFolders;
    use std::{fs, path::PathBuf};
    use tilemark_plan::{
        plan::{MacAddress, guest_address},
        scenario::Role,
        workload::BrokerService,
    };

    fn settings(accelerator: Accelerator) -> QemuSettings {
        QemuSettings {
            accelerator,
            binary: PathBuf::new(),
            machine: "pc".to_owned(),
            vmlinux: PathBuf::new(),
            initramfs: Vec::new(),
            root_erofs: PathBuf::new(),
            folder: PathBuf::new(),
            disks: DiskFolders { store: PathBuf::new(), memory: PathBuf::new() },
            walls: Default::default(),
        }
    }

    fn accelerator_of(accelerator: Accelerator, role: Role, broker: BrokerService) -> String {
        let settings = settings(accelerator);
        let plan = GuestPlan {
            name: "a".to_owned(),
            index: 0,
            tile: 1,
            role,
            broker,
            vcpus: 1,
            memory: Bytes::from_gib(1),
            working_set: Bytes::default(),
            disks: Vec::new(),
            mac: MacAddress::of_guest(0),
            address: guest_address(0),
            processors: Vec::new(),
            reaches: Vec::new(),
            asks: None,
        };
        let all = arguments(&settings, &plan, &[], Birth::Boot);
        let flag = all.iter().position(|argument| argument == "-accel").unwrap();
        all[flag + 1].clone()
    }

    #[test]
    fn what_a_large_service_runs_fits_the_translators_buffer() {
        for (role, broker, wanted) in [
            (Role::Broker, BrokerService::Reference, "tcg,tb-size=4"),
            (Role::Broker, BrokerService::Rabbitmq, "tcg,tb-size=128"),
            (Role::Broker, BrokerService::QpidBrokerJ, "tcg,tb-size=128"),
            (Role::Database, BrokerService::Reference, "tcg,tb-size=128"),
            (Role::Web, BrokerService::Reference, "tcg,tb-size=4"),
        ] {
            assert_eq!(accelerator_of(Accelerator::Emulated, role, broker), wanted);
            assert_eq!(accelerator_of(Accelerator::Kvm, role, broker), "kvm");
        }
    }

    #[test]
    fn a_comma_in_a_path_begins_no_option() {
        let with = QemuSettings {
            root_erofs: PathBuf::from("/a,file.driver=host_device/root"),
            ..settings(Accelerator::Kvm)
        };
        let mut all = Vec::new();
        devices(&mut |flag: &str, value: String| all.extend([flag.to_owned(), value]), &with);
        let wanted = "file.filename=/a,,file.driver=host_device/root";
        assert!(all.iter().any(|argument| argument.ends_with(wanted)), "{all:?}");
    }

    #[test]
    fn only_an_emulated_kernel_leaves_out_what_its_distribution_does() {
        let left_out = |accelerator| {
            EMULATED_KERNEL_ARGUMENTS
                .split(' ')
                .filter(move |argument| {
                    kernel_arguments(accelerator).split(' ').any(|given| given == *argument)
                })
                .count()
        };
        assert_eq!((left_out(Accelerator::Kvm), left_out(Accelerator::Emulated)), (0, 4));
    }

    #[test]
    fn a_guests_disk_has_the_sectors_of_its_loop_device() {
        let device = |path: &Path| {
            let mut all = Vec::new();
            let mut add = |flag: &str, value: String| all.extend([flag.to_owned(), value]);
            data_disk(&mut add, 0, &LoopDisk::stand_in(path));
            all.pop().unwrap()
        };
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tile-001-db-0.disk");
        assert!(device(&path).ends_with(",logical_block_size=512,physical_block_size=512"));
        fs::write(&path, "cloned").unwrap();
        assert!(device(&path).ends_with(",logical_block_size=4096,physical_block_size=4096"));
    }
}
