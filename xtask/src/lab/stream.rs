//! What a command prints, up to the word that ends it.

use std::io::{self, Read, Write};

/// Copies `from` to `to` as it comes, until `end` was read or `from` is over. What may be the beginning of `end` waits for
/// more; all else goes on at once.
pub(super) fn copy_until(mut from: impl Read, end: &[u8], mut to: impl Write) -> io::Result<()> {
    let mut buffer = vec![0; 64 << 10];
    let mut held: Vec<u8> = Vec::new();
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        held.extend_from_slice(&buffer[..length]);
        if let Some(all) = held.strip_suffix(end) {
            to.write_all(all)?;
            return to.flush();
        }
        let sure = held.len() - beginning_of(end, &held);
        to.write_all(&held[..sure])?;
        to.flush()?;
        held.drain(..sure);
    }
    to.write_all(&held)?;
    to.flush()
}

/// How many of the last bytes are the first ones of `end`.
fn beginning_of(end: &[u8], bytes: &[u8]) -> usize {
    (0..end.len()).rev().find(|&length| bytes.ends_with(&end[..length])).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives out its pieces one by one, and then an error where nothing more may be read.
    struct Pieces(Vec<&'static [u8]>);

    impl Read for Pieces {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            assert!(!self.0.is_empty(), "it was read after its end");
            let piece = self.0.remove(0);
            buffer[..piece.len()].copy_from_slice(piece);
            Ok(piece.len())
        }
    }

    fn copied(pieces: &[&'static [u8]]) -> String {
        let mut to = Vec::new();
        copy_until(Pieces(pieces.to_vec()), b"ENDE", &mut to).unwrap();
        String::from_utf8(to).unwrap()
    }

    #[test]
    fn the_end_is_found_wherever_it_is_cut_and_is_no_part_of_the_output() {
        assert_eq!(copied(&[b"helloENDE"]), "hello");
        assert_eq!(copied(&[b"hel", b"loE", b"ND", b"E"]), "hello");
        assert_eq!(copied(&[b"ENDE"]), "");
        assert_eq!(copied(&[b"ENENDENENDE"]), "ENENDEN");
    }

    #[test]
    fn what_only_begins_like_the_end_is_passed_on() {
        assert_eq!(copied(&[b"THE EN", b"D", b"", b"x"]), "THE END");
        assert_eq!(copied(&[b"THE EN", b"DxENDE"]), "THE ENDx");
    }

    #[test]
    fn what_cannot_be_the_end_does_not_wait_for_more() {
        struct One(Vec<Vec<u8>>);
        impl Write for &mut One {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0.push(bytes.to_vec());
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut to = One(Vec::new());
        copy_until(Pieces(vec![b"a line\n", b"another\n", b"ENDE"]), b"ENDE", &mut to).unwrap();
        assert_eq!(to.0, [b"a line\n".to_vec(), b"another\n".to_vec()]);
    }
}
