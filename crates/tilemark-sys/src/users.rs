//! Users whom nobody else on this host is, for programs that are to reach nothing of others.

use std::{fs, io};

/// Users whom distributions, containers and services leave alone: 1,879,048,192 to 2,147,483,647
/// (systemd, "Users, Groups, UIDs and GIDs on systemd Systems").
const FIRST_USER: u32 = 1_879_048_192;
/// How many one caller gets, each from [`first_of_own`] on.
pub const OWN_USERS: u32 = 1 << 12;
const CALLERS: u32 = 1 << 16;
const _: () = assert!(FIRST_USER + CALLERS * OWN_USERS == 1 << 31);

/// The users that there are in this user namespace: lines of the first one, its number outside, and how many.
const USERS: &str = "/proc/self/uid_map";

/// The first of [`OWN_USERS`] users, drawn again each time.
///
/// # Errors
/// When the kernel does not say which users there are.
pub fn first_of_own() -> io::Result<u32> {
    let mut random = [0; 4];
    rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty())?;
    let caller = u32::from_ne_bytes(random) % CALLERS;
    Ok(first_user(&fs::read_to_string(USERS)?, FIRST_USER + caller * OWN_USERS))
}

/// The first of the wanted users, where this namespace has them all. In a container with fewer, as with 65,536, those below its last
/// ones, where usually nobody else is either.
fn first_user(map: &str, wanted: u32) -> u32 {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(str::parse::<u32>);
        let (first, _, count) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some((first, first.saturating_add(count)))
    });
    let ranges: Vec<(u32, u32)> = ranges.collect();
    let has_all = |(first, end): &(u32, u32)| *first <= wanted && wanted + OWN_USERS <= *end;
    if ranges.iter().any(has_all) {
        return wanted;
    }
    let end = ranges.iter().map(|(_, end)| *end).max().unwrap_or(u32::MAX);
    end.saturating_sub(2 * OWN_USERS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_container_with_few_users_has_one_for_qemu_too() {
        assert_eq!(first_user("         0          0 4294967295\n", FIRST_USER), FIRST_USER);
        assert_eq!(first_user("0 100000 65536\n", FIRST_USER), 65_536 - 8_192);
    }
}
