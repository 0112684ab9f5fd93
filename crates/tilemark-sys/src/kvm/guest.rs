//! A guest of one vCPU in long mode, ring 0, with nothing in it but the routines of the probe.

use std::time::{Duration, Instant};

use kvm_bindings::{KVM_MAX_CPUID_ENTRIES, kvm_regs, kvm_segment, kvm_userspace_memory_region};
use kvm_ioctls::{Kvm, VcpuExit, VcpuFd, VmFd};
use vm_memory::{Bytes, GuestAddress, GuestMemoryBackend, GuestMemoryMmap};

use super::code::{PORT_TURN, PORT_WRONG, Routine, TOKEN};
use super::kick::{Kicker, thread_time};

/// The API version since Linux 2.6.22; the kernel's documentation says to refuse every other (api.rst, 4.1).
const API_VERSION: i32 = 12;
/// Guest memory: the first 16 MiB for everything, then what is touched for the first time.
const MEMORY_BYTES: usize = 96 << 20;
/// Where first touches begin.
pub(super) const TOUCH_START: u64 = 16 << 20;
/// Pages touched: 64 MiB of 4 KiB pages.
pub(super) const TOUCH_PAGES: u64 = (64 << 20) / 4096;

// Guest-physical addresses, one page each; the tables map the first GiB to itself in pages of 2 MiB.
const LEVEL_4: u64 = 0x1000;
const LEVEL_3: u64 = 0x2000;
const LEVEL_2: u64 = 0x3000;
const WINDOW_LEVEL_2: u64 = 0x4000;
pub(super) const WINDOW_LEVEL_1: u64 = 0x5000;
pub(super) const FRAMES: [u64; 2] = [0x6000, 0x7000];
/// What is written in each of [`FRAMES`].
pub(super) const FRAME_WORDS: [u64; 2] = [0x7469_6c65_6d61_726b, 0x6b72_616d_656c_6974];
const CODE: u64 = 0x8000;
const HALT: u64 = 0x8f00;
const STACK_TOP: u64 = 0xb000;
/// Scratch memory for the routines that also run natively.
pub(super) const SCRATCH: u64 = 0xc000;
/// The virtual address whose page changes under the guest: the first of the second GiB.
pub(super) const WINDOW: u64 = 1 << 30;

/// A page-table entry that is present and writable.
pub(super) const PRESENT_WRITABLE: u64 = 0b11;
/// The same for a page of 2 MiB.
const LARGE: u64 = PRESENT_WRITABLE | 1 << 7;

/// Why no guest code could be run.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// The device could not be opened.
    #[error("cannot open /dev/kvm")]
    Open(#[source] std::io::Error),
    /// The kernel speaks another API.
    #[error("/dev/kvm has API version {found}, not {API_VERSION}")]
    Version {
        /// The version it has.
        found: i32,
    },
    /// A step failed on the way to a running guest.
    #[error("{step} failed on /dev/kvm")]
    Step {
        /// Which step.
        step: &'static str,
        /// What the kernel said.
        #[source]
        source: std::io::Error,
    },
    /// Guest memory could not be had or written.
    #[error("cannot prepare 96 MiB of guest memory: {0}")]
    Memory(String),
    /// The guest ran, and not the code it was given.
    #[error("the guest did not return 42: {0}")]
    Proof(String),
}

impl ProbeError {
    /// What the reader should do.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Open(_) => {
                "load `kvm_intel` or `kvm_amd`, switch on virtualization in the firmware or in the hypervisor above, \
                 and join the group `kvm`"
            }
            Self::Version { .. } => "use a Linux kernel of this century",
            Self::Step { .. } => {
                "see the kernel's log; another hypervisor may hold the processor's extensions, or a \
                 seccomp or device policy may forbid them"
            }
            Self::Memory(_) => "free memory on the host",
            Self::Proof(_) => {
                "do not use this accelerator: it does not run guest code right; see the kernel's log"
            }
        }
    }
}

/// How a stretch of guest work ended.
#[derive(Debug, PartialEq)]
pub(super) enum End {
    /// All turns done.
    Finished,
    /// Kicked out at the deadline.
    OutOfTime,
    /// The vCPU stopped otherwise.
    Stopped(String),
}

/// A stretch of guest work.
#[derive(Debug)]
pub(super) struct Stretch {
    pub(super) end: End,
    pub(super) turns: u64,
    /// Of the clock on the wall.
    pub(super) elapsed: Duration,
    /// Of the thread's processor time.
    pub(super) used: Duration,
}

/// The guest. Its parts are dropped in this order: vCPU, VM, then the memory that the VM uses.
pub(super) struct Guest<'k> {
    vcpu: VcpuFd,
    _vm: VmFd,
    memory: GuestMemoryMmap,
    kicker: &'k Kicker,
}

impl<'k> Guest<'k> {
    pub(super) fn create(kicker: &'k Kicker) -> Result<Self, ProbeError> {
        let kvm = Kvm::new().map_err(|error| ProbeError::Open(error.into()))?;
        let found = kvm.get_api_version();
        if found != API_VERSION {
            return Err(ProbeError::Version { found });
        }
        let vm = kvm.create_vm().map_err(step("KVM_CREATE_VM"))?;
        // Only Intel processors without unrestricted guests need it, others may refuse it; the last pages below 4 GiB are free.
        let _ = vm.set_tss_address(0xfffb_d000);
        let memory = prepare_memory().map_err(ProbeError::Memory)?;
        let host_address = memory
            .get_host_address(GuestAddress(0))
            .map_err(|error| ProbeError::Memory(error.to_string()))?;
        let region = kvm_userspace_memory_region {
            slot: 0,
            flags: 0,
            guest_phys_addr: 0,
            memory_size: MEMORY_BYTES as u64,
            userspace_addr: host_address as u64,
        };
        // SAFETY: the region is mapped, exactly that long, and lives in `memory`, which is dropped after the VM. The crate
        // offers no safe way because it cannot know that.
        unsafe { vm.set_user_memory_region(region) }.map_err(step("KVM_SET_USER_MEMORY_REGION"))?;
        let vcpu = vm.create_vcpu(0).map_err(step("KVM_CREATE_VCPU"))?;
        let cpuid =
            kvm.get_supported_cpuid(KVM_MAX_CPUID_ENTRIES).map_err(step("KVM_GET_SUPPORTED_CPUID"))?;
        vcpu.set_cpuid2(&cpuid).map_err(step("KVM_SET_CPUID2"))?;
        enter_long_mode(&vcpu)?;
        Ok(Self { vcpu, _vm: vm, memory, kicker })
    }

    /// Runs a routine for `registers.rsi` turns or until the budget is over. `each_turn` is called for each port write.
    pub(super) fn run(
        &mut self,
        routine: Routine,
        registers: kvm_regs,
        budget: Duration,
        each_turn: &mut dyn FnMut(Instant),
    ) -> Stretch {
        let turns = registers.rsi;
        if let Err(reason) = self.set_up(routine, registers) {
            return self.stretch(End::Stopped(reason), 0, Duration::ZERO, Duration::ZERO);
        }
        let (start, start_used) = (Instant::now(), thread_time());
        let deadline = start + budget;
        self.kicker.arm(deadline);
        let end = loop {
            match next_exit(&mut self.vcpu) {
                Exit::Turn => each_turn(Instant::now()),
                Exit::Halt => break End::Finished,
                Exit::Interrupted => {}
                Exit::Other(what) => break End::Stopped(what),
            }
            if Instant::now() >= deadline {
                break End::OutOfTime;
            }
        };
        let (elapsed, used) = (start.elapsed(), thread_time() - start_used);
        self.kicker.rest();
        self.stretch(end, turns, elapsed, used)
    }

    fn stretch(&self, end: End, turns: u64, elapsed: Duration, used: Duration) -> Stretch {
        match (self.vcpu.get_regs(), end) {
            (Err(error), _) => {
                Stretch { end: End::Stopped(format!("KVM_GET_REGS: {error}")), turns: 0, elapsed, used }
            }
            (Ok(registers), end) => {
                let end = match end {
                    End::Stopped(what) => End::Stopped(format!("{what} {}", self.instruction(registers.rip))),
                    other => other,
                };
                Stretch { end, turns: turns.saturating_sub(registers.rsi), elapsed, used }
            }
        }
    }

    /// The bytes at an address, to name an instruction that an interpreting host does not know.
    fn instruction(&self, address: u64) -> String {
        let mut bytes = [0; 8];
        match self.memory.read_slice(&mut bytes, GuestAddress(address)) {
            Ok(()) => format!("(bytes {})", bytes.map(|byte| format!("{byte:02x}")).join(" ")),
            Err(_) => format!("(address {address:#x})"),
        }
    }

    fn set_up(&self, routine: Routine, mut registers: kvm_regs) -> Result<(), String> {
        self.memory.write_slice(routine.bytes(), GuestAddress(CODE)).map_err(|error| error.to_string())?;
        registers.rip = CODE;
        registers.rsp = STACK_TOP - 8;
        self.memory.write_obj(HALT, GuestAddress(registers.rsp)).map_err(|error| error.to_string())?;
        registers.rflags = 0b10; // the one bit that is always set; interrupts stay off
        self.vcpu.set_regs(&registers).map_err(|error| format!("KVM_SET_REGS: {error}"))
    }
}

enum Exit {
    Turn,
    Halt,
    Interrupted,
    Other(String),
}

fn next_exit(vcpu: &mut VcpuFd) -> Exit {
    match vcpu.run() {
        Ok(VcpuExit::IoOut(PORT_TURN, [TOKEN])) => Exit::Turn,
        Ok(VcpuExit::IoOut(PORT_WRONG, _)) => {
            Exit::Other("a page-table write was not seen after a reload of CR3".into())
        }
        Ok(VcpuExit::Hlt) => Exit::Halt,
        Ok(VcpuExit::Intr) => Exit::Interrupted,
        Ok(VcpuExit::InternalError) => Exit::Other("KVM stopped with an internal error".into()),
        Ok(VcpuExit::Shutdown) => Exit::Other("the guest met a fault that it has no handler for".into()),
        Ok(other) => Exit::Other(format!("the vCPU left with {other:?}")),
        Err(error) if error.errno() == libc::EINTR || error.errno() == libc::EAGAIN => Exit::Interrupted,
        Err(error) => Exit::Other(format!("KVM_RUN: {error}")),
    }
}

/// An ioctl's error with its name.
fn step(step: &'static str) -> impl Fn(kvm_ioctls::Error) -> ProbeError {
    move |error| ProbeError::Step { step, source: error.into() }
}

/// Memory with page tables, the two frames and the final `hlt` in it.
fn prepare_memory() -> Result<GuestMemoryMmap, String> {
    let memory: GuestMemoryMmap = GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY_BYTES)])
        .map_err(|error| error.to_string())?;
    let put = |address: u64, word: u64| {
        memory.write_obj(word, GuestAddress(address)).map_err(|error| error.to_string())
    };
    put(LEVEL_4, LEVEL_3 | PRESENT_WRITABLE)?;
    put(LEVEL_3, LEVEL_2 | PRESENT_WRITABLE)?;
    put(LEVEL_3 + 8, WINDOW_LEVEL_2 | PRESENT_WRITABLE)?;
    for entry in 0..512 {
        put(LEVEL_2 + 8 * entry, entry << 21 | LARGE)?;
    }
    put(WINDOW_LEVEL_2, WINDOW_LEVEL_1 | PRESENT_WRITABLE)?;
    put(WINDOW_LEVEL_1, FRAMES[0] | PRESENT_WRITABLE)?;
    for (frame, word) in FRAMES.into_iter().zip(FRAME_WORDS) {
        put(frame, word)?;
    }
    memory.write_obj(0xf4_u8, GuestAddress(HALT)).map_err(|error| error.to_string())?; // hlt
    Ok(memory)
}

/// Sets the state that a 64-bit kernel runs in (Intel SDM vol. 3A, 10.8.5): paging with PAE, EFER.LME and LMA, flat segments.
fn enter_long_mode(vcpu: &VcpuFd) -> Result<(), ProbeError> {
    let mut sregs = vcpu.get_sregs().map_err(step("KVM_GET_SREGS"))?;
    let code = kvm_segment {
        base: 0,
        limit: 0xffff_ffff,
        selector: 0x8,
        type_: 0xb,
        present: 1,
        s: 1,
        l: 1,
        g: 1,
        ..Default::default()
    };
    let data = kvm_segment { selector: 0x10, type_: 0x3, l: 0, db: 1, ..code };
    sregs.cs = code;
    for segment in [&mut sregs.ds, &mut sregs.es, &mut sregs.fs, &mut sregs.gs, &mut sregs.ss] {
        *segment = data;
    }
    sregs.cr0 = 0x8005_0033; // PG, AM, WP, NE, ET, MP, PE: what Linux runs with
    sregs.cr3 = LEVEL_4;
    sregs.cr4 = 1 << 5; // PAE
    sregs.efer = 1 << 8 | 1 << 10; // LME, LMA
    vcpu.set_sregs(&sregs).map_err(step("KVM_SET_SREGS"))
}
