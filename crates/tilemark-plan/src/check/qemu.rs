//! What a scenario may say to QEMU beside its own keys: a processor model, options of the machine, further arguments. What Tilemark sets itself, or
//! what would open the sandbox, is refused by name.

use crate::{
    problem::Say,
    scenario::{DiskAio, Guest, QemuTable, Scenario},
};
use serde_json::json;
use tilemark_units::counted;

/// Arguments that a scenario may add.
const ARGUMENTS_MAX: usize = 64;
/// Bytes of one of them.
const ARGUMENT_BYTES_MAX: usize = 4096;

/// Flags that are refused, and what to do in their place.
const REFUSED: [(&[&str], &str); 12] = [
    (&["machine", "M"], "write `qemu.machine`"),
    (&["cpu"], "write `qemu.cpu`"),
    (&["m", "smp", "numa"], "write `memory` and `vcpus` of the guest, and `place`"),
    (&["accel", "enable-kvm", "no-kvm"], "choose the backend with `--on`"),
    (
        &["kernel", "initrd", "append", "dtb", "bios", "pflash"],
        "write `qemu.kernel` or `qemu.firmware`; the image has the rest",
    ),
    (&["name", "uuid"], "leave it out: guests are named by their tile"),
    (
        &["incoming", "loadvm", "S", "only-migratable", "snapshot", "no-shutdown", "action"],
        "leave it out: templates and clones are Tilemark's own, or write `measure.start = \"boot\"`",
    ),
    (
        &["qmp", "qmp-pretty", "mon", "monitor", "serial", "parallel", "debugcon", "pidfile", "daemonize"],
        "leave it out: the monitor, the console and the process are watched by Tilemark",
    ),
    (
        &["runas", "run-with", "chroot", "sandbox", "preconfig", "realtime", "overcommit"],
        "leave it out; `qemu.walls` says whether QEMU runs in its sandbox",
    ),
    (
        &["D", "d", "readconfig", "writeconfig", "nouserconfig", "L"],
        "leave it out: it reads or writes files of the host",
    ),
    (
        &["gdb", "s", "vnc", "spice", "display", "nographic", "sdl", "curses", "vga"],
        "leave it out: a guest has no screen, and listens nowhere on the host",
    ),
    (
        &["h", "help", "version", "nodefaults", "no-user-config", "no-reboot"],
        "leave it out: QEMU would end at once, or has it already",
    ),
];

/// Queues of a network device: as many files QEMU can be handed beside its others.
const QUEUES_MAX: u32 = 16;

/// Ids of devices and files that Tilemark gives QEMU itself.
const OWN_IDS: [&str; 9] =
    ["monitor", "console", "agent", "net", "root", "ram", "own", "own-seed", "own-agent"];
/// How ids of the levels of a guest's own disk begin.
const OWN_LEVEL: &str = "own-level";

/// Parts of a machine type's options that are set already.
const OWN_OF_MACHINE: [&str; 6] = ["accel", "memory-backend", "kernel", "initrd", "append", "type"];

/// Reports what no QEMU could be given.
pub(super) fn check(scenario: &Scenario, say: &mut Say<'_>) {
    let QemuTable { machine, cpu, firmware, args, .. } = &scenario.qemu;
    if let Some(option) = machine.as_deref().and_then(own_option) {
        say(
            format!("`qemu.machine` sets `{option}`, which Tilemark sets itself"),
            "leave out that option of the machine",
        );
    }
    for (key, value) in [("qemu.machine", machine), ("qemu.cpu", cpu), ("qemu.firmware", firmware)] {
        let Some(value) = value else { continue };
        if value.is_empty() || value.len() > ARGUMENT_BYTES_MAX || value.starts_with('-') {
            say(
                format!("`{key} = {:?}` is not a valid name", shown(value)),
                "write a name such as `q35` or `max`",
            );
        }
    }
    check_arguments(args, say);
    scenario.guest.iter().for_each(|guest| check_devices(guest, say));
    if scenario.qemu.kernel.is_some() && !scenario.guest.is_empty() && !scenario.needs_image() {
        say(
            "`qemu.kernel` changes nothing: every guest boots from a disk of its own".to_owned(),
            "leave it out: such a disk has its kernel",
        );
    }
}

/// Reports what the devices of a guest cannot be.
fn check_devices(guest: &Guest, say: &mut Say<'_>) {
    let Guest { name, vcpus, disk, net, .. } = guest;
    for disk in disk.iter().filter(|disk| disk.aio == Some(DiskAio::Native) && !disk.cache.is_direct()) {
        let cache = json!(disk.cache);
        say(
            format!(
                "guest `{name}`: `aio = \"native\"` does not go with `cache = {cache}`, which the host caches"
            ),
            "write `aio = \"threads\"`, or `cache = \"none\"`",
        );
    }
    // A guest without a processor is reported as such.
    let most = QUEUES_MAX.min((*vcpus).max(1));
    if !(1..=most).contains(&net.queues) {
        say(
            format!(
                "guest `{name}`: `net.queues = {}`, and a guest with {} uses 1 to {}",
                net.queues,
                counted(*vcpus, "processor"),
                most
            ),
            "write fewer queues, or more `vcpus`",
        );
    }
}

/// The option of a machine type that is ours.
fn own_option(machine: &str) -> Option<&str> {
    let mut names = machine.split(',').skip(1).map(|option| option.split('=').next().unwrap_or(option));
    names.find(|name| OWN_OF_MACHINE.contains(name))
}

fn check_arguments(args: &[String], say: &mut Say<'_>) {
    if args.len() > ARGUMENTS_MAX {
        say(format!("`qemu.args` has {} arguments", args.len()), "write 64 at most");
    }
    if let Some(long) = args.iter().find(|argument| argument.len() > ARGUMENT_BYTES_MAX) {
        say(format!("`qemu.args` has an argument of {} bytes", long.len()), "write 4096 bytes at most");
        return;
    }
    let mut is_value = false;
    for argument in args {
        let Some(flag) = flag_of(argument) else {
            if !is_value {
                say(
                    format!("`qemu.args`: {argument:?} belongs to no flag"),
                    "begin with a flag such as `-device`; a disk is a `[[guest.disk]]`",
                );
            }
            if let Some(id) = own_id(argument).filter(|_| is_value) {
                say(
                    format!("`qemu.args`: {argument:?} takes the id `{id}`, which Tilemark uses itself"),
                    "choose another id",
                );
            }
            if is_value && ["help", "?"].contains(&argument.rsplit(',').next().unwrap_or_default()) {
                say(
                    format!("`qemu.args`: {argument:?} makes QEMU print a list and end"),
                    "leave it out, and ask QEMU itself",
                );
            }
            is_value = false;
            continue;
        };
        if let Some((_, remedy)) = REFUSED.iter().find(|(flags, _)| flags.contains(&flag)) {
            say(format!("`qemu.args` must not hold `-{flag}`"), remedy);
        }
        is_value = true;
    }
}

/// The flag's name: QEMU takes it with one dash or two.
fn flag_of(argument: &str) -> Option<&str> {
    let rest = argument.strip_prefix('-')?;
    Some(rest.strip_prefix('-').unwrap_or(rest))
}

fn own_id(value: &str) -> Option<&str> {
    let mut ids =
        value.split(',').filter_map(|part| part.strip_prefix("id=").or(part.strip_prefix("node-name=")));
    let is_disk = |id: &str| {
        let number = id.strip_prefix("disk").or(id.strip_prefix("iothread"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    ids.find(|id| OWN_IDS.contains(id) || is_disk(id) || id.starts_with(OWN_LEVEL))
}

fn shown(text: &str) -> String {
    text.chars().take(60).collect()
}

#[cfg(test)]
mod tests {
    use crate::parse::Draft;

    fn said(qemu: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"t\"\nabout = \"a test\"\n[[guest]]\nname = \"idle\"\nrole = \"idle\"\n\
             [ladder]\ntiles = [1]\n[qemu]\n{qemu}\n"
        );
        match Draft::from_toml(&text, "t").and_then(|draft| draft.finish()) {
            Ok(_) => String::new(),
            Err(problems) => format!("{problems} ({})", problems.remedy()),
        }
    }

    #[test]
    fn arguments_of_ones_own_are_taken() {
        for qemu in [
            "args = []",
            "args = [\"-device\", \"virtio-rng-pci\", \"-no-hpet\"]",
            "args = [\"-global\", \"kvm-pit.lost_tick_policy=discard\"]",
            "cpu = \"max,-avx2\"\nmachine = \"q35,hpet=off\"",
        ] {
            assert_eq!(said(qemu), "", "{qemu}");
        }
    }

    #[test]
    fn devices_that_cannot_be_are_refused_with_what_to_write() {
        for (guest, wanted) in [
            (
                "[[guest.disk]]\nsize = \"64MiB\"\ncache = \"writeback\"\naio = \"native\"",
                "does not go with `cache = \"writeback\"`",
            ),
            ("[guest.net]\nqueues = 3", "a guest with 2 processors uses 1 to 2"),
            ("[guest.net]\nqueues = 0", "`net.queues = 0`"),
            (
                "[[guest.disk]]\nsize = \"64MiB\"\ncache = \"writeback\"\naio = \"io_uring\"\niothread = true",
                "",
            ),
            ("[guest.net]\nqueues = 2\nvhost = true", ""),
        ] {
            let text = format!(
                "schema = 1\nname = \"t\"\nabout = \"a test\"\n[[guest]]\nname = \"idle\"\nrole = \"idle\"\nvcpus = 2\n\
                 {guest}\n[ladder]\ntiles = [1]\n"
            );
            let said = match Draft::from_toml(&text, "t").and_then(|draft| draft.finish()) {
                Ok(_) => String::new(),
                Err(problems) => problems.to_string(),
            };
            assert!(said.contains(wanted) && said.is_empty() == wanted.is_empty(), "{guest}: {said}");
        }
    }

    #[test]
    fn what_is_tilemarks_own_or_opens_the_sandbox_is_refused_by_name() {
        for (qemu, wanted) in [
            ("args = [\"-daemonize\"]", "must not hold `-daemonize`"),
            ("args = [\"--incoming\", \"defer\"]", "must not hold `-incoming`"),
            ("args = [\"-qmp\", \"unix:/tmp/a\"]", "must not hold `-qmp`"),
            ("args = [\"-name\", \"a\"]", "must not hold `-name`"),
            ("args = [\"-runas\", \"root\"]", "must not hold `-runas`"),
            ("args = [\"-cpu\", \"max\"]", "write `qemu.cpu`"),
            ("args = [\"-vnc\", \":1\"]", "must not hold `-vnc`"),
            ("args = [\"-bios\", \"a\"]", "write `qemu.kernel` or `qemu.firmware`"),
            ("args = [\"-object\", \"iothread,id=iothread0\"]", "takes the id `iothread0`"),
            ("firmware = \"\"", "`qemu.firmware = \"\"` is not a valid name"),
            ("args = [\"disk.img\"]", "\"disk.img\" belongs to no flag"),
            ("args = [\"-device\", \"a\", \"b\"]", "\"b\" belongs to no flag"),
            ("args = [\"-device\", \"help\"]", "makes QEMU print a list and end"),
            ("args = [\"-netdev\", \"user,id=net\"]", "takes the id `net`"),
            ("args = [\"-blockdev\", \"driver=null-co,node-name=disk0\"]", "takes the id `disk0`"),
            ("machine = \"pc,accel=kvm\"", "sets `accel`, which Tilemark sets itself"),
            ("cpu = \"\"", "`qemu.cpu = \"\"` is not a valid name"),
            ("machine = \"-daemonize\"", "is not a valid name"),
        ] {
            let said = said(qemu);
            assert!(said.contains(wanted), "{qemu}: {said}");
        }
    }
}
