//! The machine code of the probe. It has no absolute address, so the same bytes run natively and copied into a guest.
//!
//! Registers, alike in every routine: `rdi` where to work, `rsi` turns left, so that a routine that is stopped in the
//! middle shows how far it came. Each ends with `ret`; in a guest the stack leads that to a `hlt`.

use std::arch::global_asm;
use std::slice;

global_asm!(
    ".pushsection .text.tilemark_probe,\"ax\",@progbits",
    // Global, because the compiler may put this assembly and its callers into different object files.
    ".p2align 6",
    // Eight plain instructions a turn: arithmetic, a store, a load, a branch.
    ".globl tilemark_probe_plain",
    ".hidden tilemark_probe_plain",
    "tilemark_probe_plain:",
    "mov eax, 12345",
    "2: imul rax, rax, 1103515245",
    "add rax, rdi",
    "mov [rdi + 64], rax",
    "mov rdx, [rdi + 128]",
    "xor rax, rdx",
    "lea rcx, [rax + rdx]",
    "dec rsi",
    "jnz 2b",
    "ret",
    ".globl tilemark_probe_plain_end",
    ".hidden tilemark_probe_plain_end",
    "tilemark_probe_plain_end:",
    ".p2align 6",
    // One cmpxchg16b a turn, which finds what it expects and stores the turn.
    ".globl tilemark_probe_exchange",
    ".hidden tilemark_probe_exchange",
    "tilemark_probe_exchange:",
    "push rbx",
    "2: mov rax, [rdi]",
    "mov rdx, [rdi + 8]",
    "mov rbx, rsi",
    "xor ecx, ecx",
    "lock cmpxchg16b [rdi]",
    "dec rsi",
    "jnz 2b",
    "pop rbx",
    "ret",
    ".globl tilemark_probe_exchange_end",
    ".hidden tilemark_probe_exchange_end",
    "tilemark_probe_exchange_end:",
    // Guest only from here on.
    ".p2align 6",
    // A turn points the page at rdx to the other frame, reloads CR3 and reads the page. rdi: its page-table entry; r8, r9:
    // the two entries; r10, r11: what each frame holds. A wrong word leaves by port 0x11.
    ".globl tilemark_probe_tables",
    ".hidden tilemark_probe_tables",
    "tilemark_probe_tables:",
    "2: mov [rdi], r8",
    "mov rax, cr3",
    "mov cr3, rax",
    "cmp [rdx], r10",
    "jne 3f",
    "xchg r8, r9",
    "xchg r10, r11",
    "dec rsi",
    "jnz 2b",
    "ret",
    "3: out 0x11, al",
    "hlt",
    ".globl tilemark_probe_tables_end",
    ".hidden tilemark_probe_tables_end",
    "tilemark_probe_tables_end:",
    ".p2align 6",
    // First touch of one page a turn.
    ".globl tilemark_probe_touch",
    ".hidden tilemark_probe_touch",
    "tilemark_probe_touch:",
    "2: mov [rdi], rsi",
    "add rdi, 4096",
    "dec rsi",
    "jnz 2b",
    "ret",
    ".globl tilemark_probe_touch_end",
    ".hidden tilemark_probe_touch_end",
    "tilemark_probe_touch_end:",
    ".p2align 6",
    // One port write a turn, which carries 42 to the host.
    ".globl tilemark_probe_exits",
    ".hidden tilemark_probe_exits",
    "tilemark_probe_exits:",
    "mov al, 42",
    "2: out 0x10, al",
    "dec rsi",
    "jnz 2b",
    "ret",
    ".globl tilemark_probe_exits_end",
    ".hidden tilemark_probe_exits_end",
    "tilemark_probe_exits_end:",
    ".popsection",
);

unsafe extern "sysv64" {
    fn tilemark_probe_plain(buffer: *mut u8, turns: u64);
    fn tilemark_probe_exchange(buffer: *mut u8, turns: u64);
    static tilemark_probe_plain_end: u8;
    static tilemark_probe_exchange_end: u8;
    static tilemark_probe_tables: u8;
    static tilemark_probe_tables_end: u8;
    static tilemark_probe_touch: u8;
    static tilemark_probe_touch_end: u8;
    static tilemark_probe_exits: u8;
    static tilemark_probe_exits_end: u8;
}

/// The port that [`Routine::Exits`] writes to.
pub(super) const PORT_TURN: u16 = 0x10;
/// The port by which [`Routine::Tables`] says that it read a wrong word.
pub(super) const PORT_WRONG: u16 = 0x11;
/// What arrives at [`PORT_TURN`].
pub(super) const TOKEN: u8 = 42;

/// A routine that can run in the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Routine {
    /// Plain instructions.
    Plain,
    /// `cmpxchg16b`.
    Exchange,
    /// Page-table writes with CR3 reloads.
    Tables,
    /// First touches of pages.
    Touch,
    /// Port writes.
    Exits,
}

impl Routine {
    /// Its machine code.
    pub(super) fn bytes(self) -> &'static [u8] {
        let (start, end) = match self {
            Self::Plain => (tilemark_probe_plain as *const u8, &raw const tilemark_probe_plain_end),
            Self::Exchange => (tilemark_probe_exchange as *const u8, &raw const tilemark_probe_exchange_end),
            Self::Tables => (&raw const tilemark_probe_tables, &raw const tilemark_probe_tables_end),
            Self::Touch => (&raw const tilemark_probe_touch, &raw const tilemark_probe_touch_end),
            Self::Exits => (&raw const tilemark_probe_exits, &raw const tilemark_probe_exits_end),
        };
        let length = end as usize - start as usize;
        // SAFETY: both labels enclose one routine of the assembly above, in memory that is never written. There is no
        // safe way to read the bytes of code.
        unsafe { slice::from_raw_parts(start, length) }
    }
}

/// Where the native twins of the routines work: 256 bytes, aligned as `cmpxchg16b` demands.
#[repr(C, align(64))]
pub(super) struct Scratch([u8; 256]);

impl Scratch {
    /// Zeroes.
    pub(super) fn new() -> Self {
        Self([0; 256])
    }

    /// [`Routine::Plain`] on this processor.
    pub(super) fn plain(&mut self, turns: u64) {
        assert!(turns > 0, "the routine counts down to zero");
        // SAFETY: the routine stays within 136 bytes of the buffer and keeps the sysv64 rules for registers. Running the very
        // bytes that the guest runs is the point; no Rust code compiles to them.
        unsafe { tilemark_probe_plain(self.0.as_mut_ptr(), turns) }
    }

    /// [`Routine::Exchange`] on this processor.
    pub(super) fn exchange(&mut self, turns: u64) {
        assert!(turns > 0, "the routine counts down to zero");
        // SAFETY: as above, within the first 16 bytes, which are aligned to 16; every x86-64 processor that KVM supports has
        // `cmpxchg16b`.
        unsafe { tilemark_probe_exchange(self.0.as_mut_ptr(), turns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_routine_is_a_few_instructions_that_end_where_the_guest_returns() {
        for routine in [Routine::Plain, Routine::Exchange, Routine::Tables, Routine::Touch, Routine::Exits] {
            let bytes = routine.bytes();
            assert!((8..128).contains(&bytes.len()), "{routine:?} has {} bytes", bytes.len());
            assert!(bytes.contains(&0xc3), "{routine:?} never returns");
        }
    }

    #[test]
    fn the_exchange_stores_the_last_turn() {
        let mut scratch = Scratch::new();
        scratch.exchange(7);
        assert_eq!(scratch.0[0], 1); // turns are counted down to one
        assert_eq!(scratch.0[8], 0);
    }

    #[test]
    fn the_plain_loop_writes_where_it_should() {
        let mut scratch = Scratch::new();
        scratch.plain(3);
        assert_ne!(scratch.0[64..72], [0; 8]);
        assert_eq!(scratch.0[..64], [0; 64]);
        assert_eq!(scratch.0[72..], [0; 184]);
    }
}
