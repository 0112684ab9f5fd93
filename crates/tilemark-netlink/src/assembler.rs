//! Programs of BPF (eBPF), as far as the filter of an uplink needs them: steps, and jumps forward to a name.

use std::collections::BTreeMap;
use tilemark_sys::bpf::Instruction;

/// A register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Register(pub(crate) u8);

/// Where results are, and what the program ends with.
pub(crate) const R0: Register = Register(0);
const R1: Register = Register(1);
pub(crate) const R2: Register = Register(2);
const R3: Register = Register(3);
const R4: Register = Register(4);
const R5: Register = Register(5);
/// The frame with its facts: kept over calls.
pub(crate) const FRAME: Register = Register(6);
/// Kept over calls.
pub(crate) const R7: Register = Register(7);
/// The end of the stack.
const STACK: Register = Register(10);

/// How many bytes are read or written.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Size {
    One,
    Two,
    Four,
}

/// When a jump is taken: its register beside a number, both of 32 bits without a sign.
#[derive(Debug, Clone, Copy)]
pub(crate) enum When {
    Equal,
    Unequal,
    Above,
    Below,
    /// One of these bits is set.
    Bits,
    /// What was looked up is there.
    Found,
    /// It is not.
    Missing,
}

/// Functions of the kernel, of linux/bpf.h.
const LOOK_UP: i32 = 1;
const UPDATE: i32 = 2;
const STORE_BYTES: i32 = 9;
const REDIRECT: i32 = 23;
const LOAD_BYTES: i32 = 26;

/// `struct __sk_buff`: the kind of frame, whether it has a tag of a VLAN, the device.
pub(crate) const FRAME_KIND: i16 = 16;
pub(crate) const FRAME_IS_TAGGED: i16 = 20;
const FRAME_DEVICE: i16 = 40;

/// A program that is being written.
#[derive(Debug, Default)]
pub(crate) struct Assembler {
    steps: Vec<Instruction>,
    jumps: Vec<(usize, &'static str)>,
    names: BTreeMap<&'static str, usize>,
}

impl Assembler {
    fn step(&mut self, code: u8, to: Register, from: Register, offset: i16, number: i32) {
        // The first register is in the lower half: all that this runs on is little-endian.
        let [o0, o1] = offset.to_ne_bytes();
        let [n0, n1, n2, n3] = number.to_ne_bytes();
        self.steps.push([code, to.0 | (from.0 << 4), o0, o1, n0, n1, n2, n3]);
    }

    pub(crate) fn copy(&mut self, to: Register, from: Register) {
        self.step(0xbf, to, from, 0, 0);
    }

    pub(crate) fn set(&mut self, to: Register, number: i32) {
        self.step(0xb7, to, R0, 0, number);
    }

    /// Keeps what the kernel gives the program: the frame.
    pub(crate) fn begin(&mut self) {
        self.copy(FRAME, R1);
    }

    /// A fact of the frame.
    pub(crate) fn fact(&mut self, to: Register, offset: i16) {
        self.step(0x61, to, FRAME, offset, 0);
    }

    /// Reads from the stack: `place` is below its end, and a multiple of the size.
    pub(crate) fn read(&mut self, to: Register, size: Size, place: i16) {
        self.step([0x71, 0x69, 0x61][size as usize], to, STACK, place, 0);
    }

    pub(crate) fn write(&mut self, from: Register, size: Size, place: i16) {
        self.step([0x73, 0x6b, 0x63][size as usize], STACK, from, place, 0);
    }

    pub(crate) fn write_number(&mut self, number: i32, size: Size, place: i16) {
        self.step([0x72, 0x6a, 0x62][size as usize], STACK, R0, place, number);
    }

    /// Turns four bytes as they are on the wire into a number.
    pub(crate) fn wire_to_number(&mut self, register: Register) {
        self.step(0xdc, register, R0, 0, 32);
    }

    pub(crate) fn jump(&mut self, when: When, register: Register, number: u32, name: &'static str) {
        let code = match when {
            When::Equal => 0x16,
            When::Unequal => 0x56,
            When::Above => 0x26,
            When::Below => 0xa6,
            When::Bits => 0x46,
            // Of all 64 bits: only by them the kernel's verifier knows a pointer that is none.
            When::Found => 0x55,
            When::Missing => 0x15,
        };
        self.jumps.push((self.steps.len(), name));
        self.step(code, register, R0, 0, number.cast_signed());
    }

    pub(crate) fn go(&mut self, name: &'static str) {
        self.jumps.push((self.steps.len(), name));
        self.step(0x05, R0, R0, 0, 0);
    }

    /// Names the next step.
    pub(crate) fn here(&mut self, name: &'static str) {
        self.names.insert(name, self.steps.len());
    }

    fn place(&mut self, register: Register, place: i16) {
        self.copy(register, STACK);
        self.step(0x07, register, R0, 0, place.into());
    }

    fn call(&mut self, function: i32) {
        self.step(0x85, R0, R0, 0, function);
    }

    /// Copies bytes of the frame to the stack; a frame that is too short goes to `short`.
    pub(crate) fn load(&mut self, offset: i32, bytes: i32, place: i16, short: &'static str) {
        self.copy(R1, FRAME);
        self.set(R2, offset);
        self.place(R3, place);
        self.set(R4, bytes);
        self.call(LOAD_BYTES);
        self.jump(When::Unequal, R0, 0, short);
    }

    /// Copies bytes of the stack into the frame.
    pub(crate) fn store(&mut self, offset: i32, bytes: i32, place: i16) {
        self.copy(R1, FRAME);
        self.set(R2, offset);
        self.place(R3, place);
        self.set(R4, bytes);
        self.set(R5, 0);
        self.call(STORE_BYTES);
    }

    fn table(&mut self, table: i32) {
        // Two instructions; the second holds the upper half of the number.
        self.step(0x18, R1, Register(1), 0, table);
        self.step(0, R0, R0, 0, 0);
    }

    /// Looks a key up that is on the stack: the result is 0 where it is not there.
    pub(crate) fn look_up(&mut self, table: i32, key: i16) {
        self.table(table);
        self.place(R2, key);
        self.call(LOOK_UP);
    }

    /// Puts a key with its value into a table.
    pub(crate) fn note(&mut self, table: i32, key: i16, value: i16) {
        self.table(table);
        self.place(R2, key);
        self.place(R3, value);
        self.set(R4, 0);
        self.call(UPDATE);
    }

    /// Sends the frame out by the device that it came in by, and ends.
    pub(crate) fn send_back(&mut self) {
        self.fact(R1, FRAME_DEVICE);
        self.set(R2, 0);
        self.call(REDIRECT);
        self.step(0x95, R0, R0, 0, 0);
    }

    /// Ends with a number.
    pub(crate) fn end(&mut self, with: i32) {
        self.set(R0, with);
        self.step(0x95, R0, R0, 0, 0);
    }

    /// The program, with its jumps.
    pub(crate) fn finish(mut self) -> Vec<Instruction> {
        for (place, name) in &self.jumps {
            let over = self.names[name] - place - 1;
            let over = i16::try_from(over).expect("programs here are short and go forward");
            self.steps[*place][2..4].copy_from_slice(&over.to_ne_bytes());
        }
        self.steps
    }
}
