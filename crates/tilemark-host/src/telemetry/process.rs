//! The files of one watched set: its processes, the threads that matter, its control group.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Buffer, OpenFile};
use super::parse::{
    GroupProcessor, PressureTotals, ProcessIo, Pss, TICK_NS, TaskStat, parse_cpu_stat, parse_pressure,
    parse_process_io, parse_schedstat, parse_smaps_rollup, parse_statm, parse_task_stat,
};
use super::sample::{Used, UsedSource, VcpuKind, VcpuTime, Waits, Watched, WatchedKind, WatchedSample};

/// Beyond this many threads, a process's waiting is not read: one reading must stay cheap.
const THREADS_MAX: usize = 256;

/// Proportional set size of a process.
///
/// It walks the whole address space under the process's lock (some 3 ms for 96 MiB, 17 ms for 2 GiB), so it is for
/// before and after a measurement, never for each second.
///
/// # Errors
/// Where the process is gone or belongs to somebody else.
pub fn pss(pid: u32) -> io::Result<Pss> {
    let text = fs::read(format!("/proc/{pid}/smaps_rollup"))?;
    parse_smaps_rollup(&text)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "smaps_rollup without Pss"))
}

/// One watched set with its open files.
#[derive(Debug)]
pub(super) struct Tracked {
    name: Arc<str>,
    kind: WatchedKind,
    proc_folder: PathBuf,
    fixed_pids: Vec<u32>,
    group: Option<GroupFiles>,
    processes: Vec<Process>,
    /// Counts up when the processes are others than before.
    processes_generation: u64,
    /// Counts up when the threads that are read are others than before.
    threads_generation: u64,
}

#[derive(Debug)]
struct GroupFiles {
    processor: io::Result<OpenFile>,
    members: io::Result<OpenFile>,
    pressure: [Option<OpenFile>; 3],
}

impl Tracked {
    pub(super) fn new(root: &Path, watched: &Watched) -> Self {
        Self {
            name: watched.name.as_str().into(),
            kind: watched.kind,
            proc_folder: root.join("proc"),
            fixed_pids: watched.pids.clone(),
            group: watched.group.as_deref().map(GroupFiles::open),
            processes: Vec::new(),
            processes_generation: 0,
            threads_generation: 0,
        }
    }

    pub(super) fn sample(&mut self, buffer: &mut Buffer) -> WatchedSample {
        let mut missing = Vec::new();
        self.follow_members(buffer, &mut missing);
        let mut sum = Sum::default();
        let (kind, folder) = (self.kind, &self.proc_folder);
        let mut changed = false;
        for process in &mut self.processes {
            match process.add_to(&mut sum, kind, folder, buffer) {
                Ok(Threads::Same) => {}
                Ok(Threads::Changed) => changed = true,
                Err(error) => {
                    sum.lost = true;
                    missing.push(format!("process {}: {error}", process.pid));
                }
            }
        }
        self.threads_generation += u64::from(changed);
        let group_used = self.group.as_ref().and_then(|group| group.used(buffer));
        if kind == WatchedKind::QemuGuest && sum.vcpus.is_none() {
            missing.push("no thread is named as a virtual processor: QEMU needs `debug-threads=on`".into());
        }
        WatchedSample {
            name: self.name.clone(),
            kind,
            source: if group_used.is_some() { UsedSource::Group } else { UsedSource::Processes },
            processes: self.processes_generation,
            threads: self.threads_generation,
            used: group_used.or(sum.used()),
            vcpus: sum.vcpus.filter(|_| !sum.lost),
            waits: sum.waits.filter(|_| !sum.lost),
            resident_bytes: sum.resident_bytes.filter(|_| !sum.lost),
            io: sum.io.filter(|_| !sum.lost),
            pressure: self.group.as_ref().map_or([None; 3], |group| group.pressure(buffer)),
            missing,
        }
    }

    /// Opens processes that are new and forgets those that left.
    fn follow_members(&mut self, buffer: &mut Buffer, missing: &mut Vec<String>) {
        let pids = if self.fixed_pids.is_empty() {
            match self.group.as_ref().map(|group| group.members(buffer)) {
                Some(Ok(pids)) => pids,
                Some(Err(error)) => {
                    missing.push(format!("members of its control group: {error}"));
                    Vec::new()
                }
                None => Vec::new(),
            }
        } else {
            if !self.processes.is_empty() {
                return;
            }
            self.fixed_pids.clone()
        };
        let before = self.processes.len();
        self.processes.retain(|process| pids.contains(&process.pid));
        let mut changed = self.processes.len() != before;
        for pid in pids {
            if self.processes.iter().any(|process| process.pid == pid) {
                continue;
            }
            match Process::open(&self.proc_folder, pid) {
                Ok(process) => {
                    self.processes.push(process);
                    changed = true;
                }
                Err(error) => missing.push(format!("process {pid}: {error}")),
            }
        }
        self.processes_generation += u64::from(changed);
    }
}

impl GroupFiles {
    fn open(path: &Path) -> Self {
        let pressure = ["cpu.pressure", "memory.pressure", "io.pressure"];
        Self {
            processor: OpenFile::open(&path.join("cpu.stat")),
            members: OpenFile::open(&path.join("cgroup.procs")),
            pressure: pressure.map(|file| OpenFile::open(&path.join(file)).ok()),
        }
    }

    fn used(&self, buffer: &mut Buffer) -> Option<Used> {
        let GroupProcessor { used_us, user_us, .. } =
            parse_cpu_stat(self.processor.as_ref().ok()?.read_small(buffer).ok()?)?;
        let system_us = used_us.saturating_sub(user_us);
        Some(Used { user_ns: user_us.checked_mul(1000)?, system_ns: system_us.checked_mul(1000)? })
    }

    fn members(&self, buffer: &mut Buffer) -> Result<Vec<u32>, String> {
        let file = self.members.as_ref().map_err(ToString::to_string)?;
        let text = file.read_whole(buffer).map_err(|error| error.to_string())?;
        let numbers = text.split(|&byte| byte == b'\n').filter_map(super::parse::parse_number);
        Ok(numbers.filter(|&pid| pid != 0).filter_map(|pid| u32::try_from(pid).ok()).collect())
    }

    fn pressure(&self, buffer: &mut Buffer) -> [Option<PressureTotals>; 3] {
        let mut found = [None; 3];
        for (slot, file) in found.iter_mut().zip(&self.pressure) {
            let text = file.as_ref().and_then(|file| file.read_small(buffer).ok());
            *slot = text.and_then(parse_pressure);
        }
        found
    }
}

/// Whether the threads that are read are those of the last reading.
enum Threads {
    Same,
    Changed,
}

/// What the processes of a set add up to. A sum that does not fit its type is none: it is lost, and stays so.
#[derive(Default)]
struct Sum {
    user_ticks: u64,
    system_ticks: u64,
    processes: u64,
    vcpus: Option<VcpuTime>,
    waits: Option<Waits>,
    resident_bytes: Option<u64>,
    io: Option<ProcessIo>,
    lost: bool,
}

impl Sum {
    fn used(&self) -> Option<Used> {
        let known = self.processes > 0 && !self.lost;
        known.then_some(())?;
        Some(Used {
            user_ns: self.user_ticks.checked_mul(TICK_NS)?,
            system_ns: self.system_ticks.checked_mul(TICK_NS)?,
        })
    }

    fn add_process(&mut self, stat: &TaskStat) {
        self.processes += 1;
        let user = self.user_ticks.checked_add(stat.user_ticks);
        let system = self.system_ticks.checked_add(stat.system_ticks);
        match user.zip(system) {
            Some((user, system)) => (self.user_ticks, self.system_ticks) = (user, system),
            None => self.lost = true,
        }
    }

    fn add_resident(&mut self, bytes: u64) {
        match self.resident_bytes.unwrap_or(0).checked_add(bytes) {
            Some(sum) => self.resident_bytes = Some(sum),
            None => self.lost = true,
        }
    }

    fn add_io(&mut self, io: ProcessIo) {
        let so_far = self.io.unwrap_or_default();
        let read = so_far.read_bytes.checked_add(io.read_bytes);
        let written = so_far.written_bytes.checked_add(io.written_bytes);
        match read.zip(written) {
            Some((read_bytes, written_bytes)) => self.io = Some(ProcessIo { read_bytes, written_bytes }),
            None => self.lost = true,
        }
    }

    fn add_vcpu(&mut self, kind: VcpuKind, ran_ns: u64, waited_ns: u64, stat: TaskStat) {
        let none = VcpuTime { kind, ran_ns: 0, waited_ns: 0, system_ns: 0, guest_ns: 0 };
        let sum = self.vcpus.unwrap_or(none);
        let added = || {
            Some(VcpuTime {
                kind,
                ran_ns: sum.ran_ns.checked_add(ran_ns)?,
                waited_ns: sum.waited_ns.checked_add(waited_ns)?,
                system_ns: sum.system_ns.checked_add(stat.system_ticks.checked_mul(TICK_NS)?)?,
                guest_ns: sum.guest_ns.checked_add(stat.guest_ticks.checked_mul(TICK_NS)?)?,
            })
        };
        match added() {
            Some(sum) => self.vcpus = Some(sum),
            None => self.lost = true,
        }
    }

    fn add_wait(&mut self, waited_ns: u64) {
        let sum = self.waits.unwrap_or(Waits { waited_ns: 0, threads: 0 });
        match sum.waited_ns.checked_add(waited_ns) {
            Some(waited_ns) => self.waits = Some(Waits { waited_ns, threads: sum.threads + 1 }),
            None => self.lost = true,
        }
    }
}

#[derive(Debug)]
struct Process {
    pid: u32,
    stat: OpenFile,
    statm: Option<OpenFile>,
    io: Option<OpenFile>,
    threads: Vec<ThreadFiles>,
    /// How many threads lived when they were listed.
    listed: Option<u64>,
}

#[derive(Debug)]
struct ThreadFiles {
    id: u32,
    schedule: OpenFile,
    /// Only of a virtual processor.
    vcpu: Option<VcpuFiles>,
}

#[derive(Debug)]
struct VcpuFiles {
    kind: VcpuKind,
    stat: OpenFile,
}

impl Process {
    fn open(proc_folder: &Path, pid: u32) -> io::Result<Self> {
        let folder = proc_folder.join(pid.to_string());
        Ok(Self {
            pid,
            stat: OpenFile::open(&folder.join("stat"))?,
            statm: OpenFile::open(&folder.join("statm")).ok(),
            io: OpenFile::open(&folder.join("io")).ok(),
            threads: Vec::new(),
            listed: None,
        })
    }

    fn add_to(
        &mut self,
        sum: &mut Sum,
        kind: WatchedKind,
        proc_folder: &Path,
        buffer: &mut Buffer,
    ) -> io::Result<Threads> {
        let stat = parse_task_stat(self.stat.read_small(buffer)?)
            .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidData, "stat has another form"))?;
        sum.add_process(&stat);
        if let Some(bytes) = self.statm.as_ref().and_then(|file| parse_statm(file.read_small(buffer).ok()?)) {
            sum.add_resident(bytes);
        }
        if let Some(io) = self.io.as_ref().and_then(|file| parse_process_io(file.read_small(buffer).ok()?)) {
            sum.add_io(io);
        }
        let mut threads = Threads::Same;
        if self.listed != Some(stat.threads) {
            threads = self.list_threads(kind, proc_folder, buffer)?;
            self.listed = Some(stat.threads);
        }
        self.add_threads(sum, buffer);
        Ok(threads)
    }

    /// Opens the threads that matter and keeps those that were open.
    fn list_threads(
        &mut self,
        kind: WatchedKind,
        proc_folder: &Path,
        buffer: &mut Buffer,
    ) -> io::Result<Threads> {
        let folder = proc_folder.join(self.pid.to_string()).join("task");
        let mut ids = Vec::new();
        for entry in fs::read_dir(&folder)? {
            ids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        let before = self.threads.len();
        self.threads.retain(|thread| ids.contains(&thread.id));
        let mut threads = if self.threads.len() == before { Threads::Same } else { Threads::Changed };
        for id in ids {
            if self.threads.len() >= THREADS_MAX || self.threads.iter().any(|thread| thread.id == id) {
                continue;
            }
            // A thread may end while we look.
            if let Ok(Some(files)) = ThreadFiles::open(&folder.join(id.to_string()), id, kind, buffer) {
                self.threads.push(files);
                threads = Threads::Changed;
            }
        }
        Ok(threads)
    }

    fn add_threads(&self, sum: &mut Sum, buffer: &mut Buffer) {
        for thread in &self.threads {
            let Some(schedule) = thread.schedule.read_small(buffer).ok().and_then(parse_schedstat) else {
                continue;
            };
            sum.add_wait(schedule.waited_ns);
            let Some(vcpu) = &thread.vcpu else { continue };
            if let Some(stat) = vcpu.stat.read_small(buffer).ok().and_then(parse_task_stat) {
                sum.add_vcpu(vcpu.kind, schedule.ran_ns, schedule.waited_ns, stat);
            }
        }
    }
}

impl ThreadFiles {
    /// The files of a thread that matters; nothing for QEMU's other threads.
    fn open(folder: &Path, id: u32, kind: WatchedKind, buffer: &mut Buffer) -> io::Result<Option<Self>> {
        let mut vcpu = None;
        if kind == WatchedKind::QemuGuest {
            let name = OpenFile::open(&folder.join("comm"))?;
            match vcpu_kind(name.read_small(buffer)?) {
                None => return Ok(None),
                Some(kind) => vcpu = Some(VcpuFiles { kind, stat: OpenFile::open(&folder.join("stat"))? }),
            }
        }
        Ok(Some(Self { id, schedule: OpenFile::open(&folder.join("schedstat"))?, vcpu }))
    }
}

/// QEMU's names (accel/kvm/kvm-accel-ops.c, accel/tcg/tcg-accel-ops-mttcg.c and -rr.c): `CPU 0/KVM`, `CPU 0/TCG`, `ALL CPUs/TCG`.
fn vcpu_kind(name: &[u8]) -> Option<VcpuKind> {
    let name = name.trim_ascii_end();
    if !name.starts_with(b"CPU ") && !name.starts_with(b"ALL CPUs") {
        return None;
    }
    match () {
        () if name.ends_with(b"/KVM") => Some(VcpuKind::Kvm),
        () if name.ends_with(b"/TCG") => Some(VcpuKind::Tcg),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_processors_are_known_by_their_names() {
        assert_eq!(vcpu_kind(b"CPU 0/KVM\n"), Some(VcpuKind::Kvm));
        assert_eq!(vcpu_kind(b"CPU 12/TCG\n"), Some(VcpuKind::Tcg));
        assert_eq!(vcpu_kind(b"ALL CPUs/TCG\n"), Some(VcpuKind::Tcg));
        assert_eq!(vcpu_kind(b"qemu-system-x86\n"), None);
        assert_eq!(vcpu_kind(b"call_rcu\n"), None);
    }

    #[test]
    fn pss_of_this_process_is_some_memory() {
        assert!(pss(std::process::id()).unwrap().bytes > 0);
    }
}
