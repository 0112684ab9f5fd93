//! The kernel's counter files, read without allocation where they are read for each guest. Pure.
//!
//! Formats: proc(5), and Documentation/admin-guide/iostats.rst, accounting/psi.rst, scheduler/sched-stats.rst,
//! admin-guide/cgroup-v2.rst. A field that is not there is nothing, never 0.

/// Length of a clock tick as `/proc` counts: USER_HZ is 100 on x86-64 whatever the kernel's own HZ (asm-generic/param.h).
pub const TICK_NS: u64 = 10_000_000;
/// Page size that `/proc` counts in on x86-64.
pub const PAGE_BYTES: u64 = 4096;
/// A sector in diskstats is always 512 bytes (block/stat.rst), whatever the disk's own.
const SECTOR_BYTES: u64 = 512;

/// Ticks beyond this cannot be: 8,192 threads need 44,000 years for them. Sums of all kinds of time stay far within a `u64`.
const TICKS_MAX: u64 = 1 << 60;

/// Time of one processor thread, or of all, in ticks since boot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessorTicks {
    /// User mode, guests included.
    pub user: u64,
    /// User mode of niced processes.
    pub nice: u64,
    /// Kernel mode.
    pub system: u64,
    /// Idle.
    pub idle: u64,
    /// Idle while a disk request was open.
    pub iowait: u64,
    /// Interrupts.
    pub irq: u64,
    /// Deferred interrupt work, network packets above all.
    pub softirq: u64,
    /// Time that the hypervisor above gave to others.
    pub steal: u64,
}

impl ProcessorTicks {
    /// All of it; `guest` and `guest_nice` are contained in `user` and `nice`.
    pub fn total(&self) -> u64 {
        self.processes() + self.irq + self.softirq + self.idle + self.iowait + self.steal
    }

    /// What processes used.
    pub fn processes(&self) -> u64 {
        self.user + self.nice + self.system
    }
}

/// One processor thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadTicks {
    /// Its number.
    pub id: u32,
    /// Its time.
    pub ticks: ProcessorTicks,
}

/// `/proc/stat`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProcessor {
    /// The sum.
    pub all: ProcessorTicks,
    /// Each thread online.
    pub threads: Vec<ThreadTicks>,
}

/// Words of a line.
fn words(line: &[u8]) -> impl Iterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

fn lines(text: &[u8]) -> impl Iterator<Item = &[u8]> {
    text.split(|&byte| byte == b'\n')
}

fn number(word: &[u8]) -> Option<u64> {
    if word.is_empty() {
        return None;
    }
    word.iter().try_fold(0_u64, |sum, byte| {
        byte.is_ascii_digit().then_some(())?;
        sum.checked_mul(10)?.checked_add(u64::from(byte - b'0'))
    })
}

/// The number after `key` at the start of a line.
fn field(text: &[u8], key: &[u8]) -> Option<u64> {
    lines(text).find_map(|line| {
        let mut words = words(line);
        (words.next()? == key).then(|| words.next().and_then(number))?
    })
}

/// `/proc/stat`; nothing where its first line is not the sum.
pub fn parse_stat(text: &[u8]) -> Option<HostProcessor> {
    let mut all = None;
    let mut threads = Vec::new();
    for line in lines(text).take_while(|line| line.starts_with(b"cpu")) {
        let mut words = words(line);
        let name = words.next()?;
        let ticks = processor_ticks(words)?;
        match number(&name[3..]) {
            None => all = Some(ticks),
            Some(id) => threads.push(ThreadTicks { id: u32::try_from(id).ok()?, ticks }),
        }
    }
    Some(HostProcessor { all: all?, threads })
}

fn processor_ticks<'t>(words: impl Iterator<Item = &'t [u8]>) -> Option<ProcessorTicks> {
    let mut next = words.map(number);
    let mut take = || next.next()?.filter(|ticks| *ticks <= TICKS_MAX);
    Some(ProcessorTicks {
        user: take()?,
        nice: take()?,
        system: take()?,
        idle: take()?,
        iowait: take()?,
        irq: take()?,
        softirq: take()?,
        steal: take()?,
    })
}

/// Time that something waited, in microseconds since boot (or since the group was made).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureTotals {
    /// At least one task waited.
    pub some_us: u64,
    /// All tasks waited; nothing where the kernel has no such line.
    pub full_us: Option<u64>,
}

/// A pressure file.
pub fn parse_pressure(text: &[u8]) -> Option<PressureTotals> {
    let total = |name: &[u8]| {
        let line = lines(text).find(|line| line.starts_with(name))?;
        words(line).find_map(|word| number(word.strip_prefix(b"total=")?))
    };
    Some(PressureTotals { some_us: total(b"some")?, full_us: total(b"full") })
}

/// `/proc/meminfo`, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryNow {
    /// Could be given without swapping.
    pub available_bytes: u64,
    /// Swap in use.
    pub swap_used_bytes: u64,
}

/// `/proc/meminfo`.
pub fn parse_meminfo(text: &[u8]) -> Option<MemoryNow> {
    let bytes = |key: &[u8]| field(text, key)?.checked_mul(1024);
    let swap_used_bytes = bytes(b"SwapTotal:")?.saturating_sub(bytes(b"SwapFree:")?);
    Some(MemoryNow { available_bytes: bytes(b"MemAvailable:")?, swap_used_bytes })
}

/// Events of memory management since boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvents {
    /// Processes killed because memory ran out; nothing before Linux 4.13.
    pub oom_kills: Option<u64>,
    /// Pages read from swap.
    pub swap_in_pages: u64,
    /// Pages written to swap.
    pub swap_out_pages: u64,
}

/// `/proc/vmstat`.
pub fn parse_vmstat(text: &[u8]) -> Option<MemoryEvents> {
    Some(MemoryEvents {
        oom_kills: field(text, b"oom_kill"),
        swap_in_pages: field(text, b"pswpin")?,
        swap_out_pages: field(text, b"pswpout")?,
    })
}

/// `/proc/loadavg`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunQueue {
    /// Mean over a minute of tasks that run, wait to run or wait for a disk.
    pub load_1m: f64,
    /// Tasks that run or wait to run at this moment.
    pub runnable: u64,
}

/// `/proc/loadavg`.
pub fn parse_loadavg(text: &[u8]) -> Option<RunQueue> {
    let mut words = words(text);
    let load_1m =
        std::str::from_utf8(words.next()?).ok()?.parse().ok().filter(|load: &f64| load.is_finite())?;
    let runnable = words.nth(2)?.split(|&byte| byte == b'/').next().and_then(number)?;
    Some(RunQueue { load_1m, runnable })
}

/// One disk's counts since boot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DiskCounts {
    /// The kernel's name.
    pub name: String,
    /// Reads completed.
    pub reads: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Writes completed.
    pub writes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Milliseconds with a request open.
    pub busy_ms: u64,
    /// Milliseconds that requests were open, summed over requests.
    pub waited_ms: u64,
}

/// `/proc/diskstats`, without disks that never had a request.
pub fn parse_diskstats(text: &[u8]) -> Vec<DiskCounts> {
    lines(text).filter_map(disk).filter(|disk| disk.reads > 0 || disk.writes > 0).collect()
}

fn disk(line: &[u8]) -> Option<DiskCounts> {
    let mut words = words(line);
    let name = words.nth(2)?;
    let mut counts = words.map(number);
    let mut nth = |skipped: usize| counts.nth(skipped)?;
    Some(DiskCounts {
        reads: nth(0)?,
        read_bytes: nth(1)?.checked_mul(SECTOR_BYTES)?,
        writes: nth(1)?,
        written_bytes: nth(1)?.checked_mul(SECTOR_BYTES)?,
        busy_ms: nth(2)?,
        waited_ms: nth(0)?,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// One network interface's counts since it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InterfaceCounts {
    /// Its name.
    pub name: String,
    /// Bytes received.
    pub received_bytes: u64,
    /// Packets received.
    pub received_packets: u64,
    /// Packets lost on the way in.
    pub received_drops: u64,
    /// Bytes sent.
    pub sent_bytes: u64,
    /// Packets sent.
    pub sent_packets: u64,
    /// Packets lost on the way out.
    pub sent_drops: u64,
}

/// `/proc/net/dev`.
pub fn parse_net_dev(text: &[u8]) -> Vec<InterfaceCounts> {
    lines(text).skip(2).filter_map(interface).collect()
}

fn interface(line: &[u8]) -> Option<InterfaceCounts> {
    let colon = line.iter().position(|&byte| byte == b':')?;
    let name = words(&line[..colon]).next()?;
    let mut counts = words(&line[colon + 1..]).map(number);
    let mut nth = |skipped: usize| counts.nth(skipped)?;
    Some(InterfaceCounts {
        received_bytes: nth(0)?,
        received_packets: nth(0)?,
        received_drops: nth(1)?,
        sent_bytes: nth(4)?,
        sent_packets: nth(0)?,
        sent_drops: nth(1)?,
        name: String::from_utf8_lossy(name).into_owned(),
    })
}

/// Time of a process with its ended threads, or of one thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskStat {
    /// The process that it is a child of.
    pub parent: u64,
    /// User mode, guest mode included, in ticks.
    pub user_ticks: u64,
    /// Kernel mode, in ticks.
    pub system_ticks: u64,
    /// Both modes of its children that ended and that it waited for, with theirs, in ticks.
    pub ended_ticks: u64,
    /// Guest mode, in ticks, contained in `user_ticks`.
    pub guest_ticks: u64,
    /// Threads that live.
    pub threads: u64,
    /// Start after boot, in ticks: with the id it names one process for ever.
    pub start_ticks: u64,
}

/// `/proc/PID/stat` or `/proc/PID/task/TID/stat`. The name may hold blanks and parentheses, so the last `)` counts.
pub fn parse_task_stat(text: &[u8]) -> Option<TaskStat> {
    let name_end = text.iter().rposition(|&byte| byte == b')')?;
    let mut words = words(&text[name_end + 1..]); // field 3 is first
    let mut nth = |skipped: usize| words.nth(skipped).and_then(number);
    Some(TaskStat {
        parent: nth(1)?,                              // 4
        user_ticks: nth(9)?,                          // 14
        system_ticks: nth(0)?,                        // 15
        ended_ticks: nth(0)?.saturating_add(nth(0)?), // 16 and 17
        threads: nth(2)?,                             // 20
        start_ticks: nth(1)?,                         // 22
        guest_ticks: nth(20)?,                        // 43
    })
}

/// The name in such a text, which its process may choose: at most 15 bytes of anything.
pub fn parse_task_name(text: &[u8]) -> Option<String> {
    let start = text.iter().position(|&byte| byte == b'(')? + 1;
    let end = text.iter().rposition(|&byte| byte == b')')?;
    Some(String::from_utf8_lossy(text.get(start..end)?).into_owned())
}

/// Exact time of one thread, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadSchedule {
    /// It ran.
    pub ran_ns: u64,
    /// It could have run and waited for a processor.
    pub waited_ns: u64,
}

/// `/proc/PID/task/TID/schedstat`.
pub fn parse_schedstat(text: &[u8]) -> Option<ThreadSchedule> {
    let mut words = words(text).map(number);
    Some(ThreadSchedule { ran_ns: words.next()??, waited_ns: words.next()?? })
}

/// Resident bytes from `/proc/PID/statm`.
pub fn parse_statm(text: &[u8]) -> Option<u64> {
    words(text).nth(1).and_then(number)?.checked_mul(PAGE_BYTES)
}

/// Bytes that a process moved from and to disks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessIo {
    /// Read.
    pub read_bytes: u64,
    /// Written.
    pub written_bytes: u64,
}

/// `/proc/PID/io`.
pub fn parse_process_io(text: &[u8]) -> Option<ProcessIo> {
    Some(ProcessIo { read_bytes: field(text, b"read_bytes:")?, written_bytes: field(text, b"write_bytes:")? })
}

/// Proportional set size of a process, in bytes: its private memory and its share of what it shares.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pss {
    /// All of it.
    pub bytes: u64,
    /// Of that, shared memory, such as that of a template; nothing before Linux 5.9.
    pub shared_memory_bytes: Option<u64>,
}

/// `/proc/PID/smaps_rollup`.
pub fn parse_smaps_rollup(text: &[u8]) -> Option<Pss> {
    let bytes = |key: &[u8]| field(text, key)?.checked_mul(1024);
    Some(Pss { bytes: bytes(b"Pss:")?, shared_memory_bytes: bytes(b"Pss_Shmem:") })
}

/// Processor time of a control group in microseconds; every version 2 group has it, with or without a controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupProcessor {
    /// All.
    pub used_us: u64,
    /// In user mode.
    pub user_us: u64,
    /// In kernel mode.
    pub system_us: u64,
}

/// `cpu.stat` of a group.
pub fn parse_cpu_stat(text: &[u8]) -> Option<GroupProcessor> {
    Some(GroupProcessor {
        used_us: field(text, b"usage_usec")?,
        user_us: field(text, b"user_usec")?,
        system_us: field(text, b"system_usec")?,
    })
}

/// One number alone in a file.
pub fn parse_number(text: &[u8]) -> Option<u64> {
    words(text).next().and_then(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_gives_the_sum_and_each_thread() {
        let text = b"cpu  10 1 20 300 4 5 6 7 8 9\ncpu0 10 1 20 300 4 5 6 7 8 9\ncpu12 0 0 0 1 0 0 0 0 0 0\nintr 5\nctxt 1\n";
        let found = parse_stat(text).unwrap();
        assert_eq!(found.all.total(), 10 + 1 + 20 + 300 + 4 + 5 + 6 + 7);
        assert_eq!(found.all.processes(), 31);
        assert_eq!(found.threads.iter().map(|thread| thread.id).collect::<Vec<_>>(), [0, 12]);
        assert_eq!(parse_stat(b"intr 5\n"), None);
    }

    #[test]
    fn a_process_may_name_itself_anything() {
        let mut text =
            b"42 (a) b (c) S 1 42 42 0 -1 4194560 1 2 3 4 111 222 30 3 20 0 7 0 555 1000 2000".to_vec();
        text.extend_from_slice(
            b" 18446744073709551615 1 1 0 0 0 0 0 0 0 0 0 0 17 1 0 0 0 66 0 0 0 0 0 0 0 0 0 0\n",
        );
        let found = parse_task_stat(&text).unwrap();
        assert_eq!(
            found,
            TaskStat {
                parent: 1,
                user_ticks: 111,
                system_ticks: 222,
                ended_ticks: 33,
                threads: 7,
                start_ticks: 555,
                guest_ticks: 66
            }
        );
        assert_eq!(parse_task_name(&text).as_deref(), Some("a) b (c"));
        assert_eq!(parse_task_name(b")("), None);
    }

    #[test]
    fn pressure_without_a_full_line_is_read() {
        let text = b"some avg10=0.00 avg60=0.00 avg300=0.00 total=4453398\n";
        assert_eq!(parse_pressure(text), Some(PressureTotals { some_us: 4_453_398, full_us: None }));
        let text = b"some avg10=0.49 total=12\nfull avg10=0.49 total=11\n";
        assert_eq!(parse_pressure(text), Some(PressureTotals { some_us: 12, full_us: Some(11) }));
        assert_eq!(parse_pressure(b""), None);
    }

    #[test]
    fn disks_count_sectors_of_512_bytes() {
        let text =
            b" 254 0 vda 100 1 200 30 40 2 80 50 0 60 90 0 0 0 0 1 2\n   7 0 loop0 0 0 0 0 0 0 0 0 0 0 0\n";
        let disks = parse_diskstats(text);
        assert_eq!(disks.len(), 1);
        assert_eq!((disks[0].reads, disks[0].read_bytes), (100, 200 * 512));
        assert_eq!((disks[0].writes, disks[0].written_bytes), (40, 80 * 512));
        assert_eq!((disks[0].busy_ms, disks[0].waited_ms), (60, 90));
    }

    #[test]
    fn interfaces_may_have_no_space_after_their_colon() {
        let text = b"Inter-| Receive\n face |bytes\n  tap1:100 2 0 3 0 0 0 0 400 5 0 6 0 0 0 0\n    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0\n";
        let found = parse_net_dev(text);
        assert_eq!(found[0].name, "tap1");
        assert_eq!(
            (found[0].received_bytes, found[0].received_packets, found[0].received_drops),
            (100, 2, 3)
        );
        assert_eq!((found[0].sent_bytes, found[0].sent_packets, found[0].sent_drops), (400, 5, 6));
        assert_eq!(found[1].name, "lo");
    }

    #[test]
    fn small_files_are_read() {
        assert_eq!(parse_schedstat(b"11 22 33\n"), Some(ThreadSchedule { ran_ns: 11, waited_ns: 22 }));
        assert_eq!(parse_statm(b"100 20 3 4 0 5 0\n"), Some(20 * 4096));
        assert_eq!(
            parse_loadavg(b"0.29 0.16 0.07 3/88 6367\n"),
            Some(RunQueue { load_1m: 0.29, runnable: 3 })
        );
        let io = b"rchar: 1\nwchar: 2\nsyscr: 3\nsyscw: 4\nread_bytes: 5\nwrite_bytes: 6\ncancelled_write_bytes: 7\n";
        assert_eq!(parse_process_io(io), Some(ProcessIo { read_bytes: 5, written_bytes: 6 }));
        let group = b"usage_usec 30\nuser_usec 20\nsystem_usec 10\n";
        assert_eq!(parse_cpu_stat(group), Some(GroupProcessor { used_us: 30, user_us: 20, system_us: 10 }));
        let rollup = b"55-7f ---p 0 [rollup]\nRss: 9 kB\nPss: 7 kB\nPss_Anon: 4 kB\nPss_Shmem: 2 kB\n";
        let pss = Pss { bytes: 7 << 10, shared_memory_bytes: Some(2 << 10) };
        assert_eq!(parse_smaps_rollup(rollup), Some(pss));
        let events = parse_vmstat(b"pswpin 1\npswpout 2\noom_kill 3\n").unwrap();
        assert_eq!((events.swap_in_pages, events.swap_out_pages, events.oom_kills), (1, 2, Some(3)));
        let memory = b"MemTotal: 9 kB\nMemAvailable: 8 kB\nSwapTotal: 5 kB\nSwapFree: 4 kB\n";
        assert_eq!(
            parse_meminfo(memory),
            Some(MemoryNow { available_bytes: 8 << 10, swap_used_bytes: 1 << 10 })
        );
        assert_eq!(parse_meminfo(b"MemTotal: 9 kB\n"), None);
    }

    #[test]
    fn what_is_no_number_is_nothing() {
        assert_eq!(number(b""), None);
        assert_eq!(number(b"12x"), None);
        assert_eq!(number(b"99999999999999999999999"), None);
    }
}
