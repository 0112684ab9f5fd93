//! The jobs that call the kernel, without files: messages, signals, and what is quick. And jumps, which need no kernel.

use super::kernels::{BadJob, expect};
use std::{
    hint::black_box,
    io::{self, Read, Write},
    net::{Ipv4Addr, TcpListener, TcpStream},
    os::unix::net::UnixDatagram,
    panic::{catch_unwind, resume_unwind},
};

const PAGE: usize = 4096;
const TCP_BYTES: usize = 1 << 10;
const DATAGRAM_BYTES: usize = 512;
/// Nested calls that a jump leaves at once.
const NESTED: u32 = 8;

/// Sends blocks through a pipe.
pub(super) fn pipe(blocks: u32) -> Result<(), BadJob> {
    let (mut reader, mut writer) = io::pipe()?;
    let (mut sent, mut received) = ([0_u8; PAGE], [0_u8; PAGE]);
    for number in 0..blocks {
        sent[..4].copy_from_slice(&number.to_ne_bytes());
        sent[PAGE - 1] = number as u8;
        writer.write_all(&sent)?;
        reader.read_exact(&mut received)?;
        expect("a block from a pipe", received == sent, true)?;
    }
    Ok(())
}

/// Sends messages between two sockets.
pub(super) fn datagram(messages: u32) -> Result<(), BadJob> {
    let (sender, receiver) = UnixDatagram::pair()?;
    let (mut sent, mut received) = ([0_u8; DATAGRAM_BYTES], [0_u8; DATAGRAM_BYTES]);
    for number in 0..messages {
        sent[..4].copy_from_slice(&number.to_ne_bytes());
        sender.send(&sent)?;
        let length = receiver.recv(&mut received)?;
        expect("the length of a message", length, sent.len())?;
        expect("a message", received == sent, true)?;
    }
    Ok(())
}

/// Sends messages over a connection within the guest.
pub(super) fn tcp(messages: u32) -> Result<(), BadJob> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let mut client = TcpStream::connect(listener.local_addr()?)?;
    let (mut server, from) = listener.accept()?;
    expect("who connected", from, client.local_addr()?)?;
    client.set_nodelay(true)?;
    let (mut sent, mut received) = ([0_u8; TCP_BYTES], [0_u8; TCP_BYTES]);
    for number in 0..messages {
        sent[..4].copy_from_slice(&number.to_ne_bytes());
        sent[TCP_BYTES - 1] = number as u8;
        client.write_all(&sent)?;
        server.read_exact(&mut received)?;
        expect("a message over TCP", received == sent, true)?;
    }
    drop(client);
    expect("the bytes after the last message", server.read(&mut received)?, 0)
}

/// Sends signals to its own thread: the handler has run as often.
pub(super) fn signal(signals: u32) -> Result<(), BadJob> {
    let handled = tilemark_sys::thread::signal_itself(signals)?;
    expect("the number of handled signals", handled, u64::from(signals))
}

/// Leaves nested calls at once, and what was thrown arrives.
pub(super) fn jump(jumps: u32) -> Result<(), BadJob> {
    for number in 0..jumps {
        let landed = catch_unwind(|| nested(NESTED, number));
        let found = landed.err().and_then(|thrown| thrown.downcast::<u32>().ok()).map(|found| *found);
        expect("what a jump brings", found, Some(number))?;
    }
    Ok(())
}

#[inline(never)]
fn nested(depth: u32, number: u32) -> u32 {
    if depth == 0 {
        // Nothing is printed, unlike by a panic.
        resume_unwind(Box::new(number));
    }
    black_box(nested(black_box(depth - 1), number)) + 1
}

/// Asks the kernel who this is, what time it is and what is allowed.
pub(super) fn system(rounds: u32) -> Result<(), BadJob> {
    let (process, user) = (std::process::id(), rustix::process::getuid());
    let mut before = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    for _ in 0..rounds {
        let found = rustix::process::getpid().as_raw_nonzero().get();
        expect("the process's id", u32::try_from(found).ok(), Some(process))?;
        expect("the process's user", rustix::process::getuid() == user, true)?;
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let is_allowed = files.current.is_some_and(|most| files.maximum.is_none_or(|limit| most <= limit));
        expect("whether the limit of open files is within its bound", is_allowed, true)?;
        expect("the system's name", rustix::system::uname().sysname() == c"Linux", true)?;
        let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
        expect("whether time went on", now >= before, true)?;
        before = now;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jumps_leave_as_many_calls_as_there_are_and_print_nothing() {
        jump(100).unwrap();
        let thrown = catch_unwind(|| nested(3, 7)).unwrap_err();
        assert_eq!(*thrown.downcast::<u32>().unwrap(), 7);
    }

    #[test]
    fn signals_of_threads_at_the_same_time_are_counted_apart() {
        std::thread::scope(|scope| {
            let threads: Vec<_> = (1..5).map(|times| scope.spawn(move || signal(1_000 * times))).collect();
            threads.into_iter().for_each(|thread| thread.join().unwrap().unwrap());
        });
    }
}
