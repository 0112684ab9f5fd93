//! One answer on a wire, read as its bytes come.

use crate::web::response::{After, Head, parse};

/// An answer that is being read.
#[derive(Debug, Default)]
pub(super) struct Answer {
    head: Option<Head>,
    /// The beginning of a head that came in pieces.
    partial_head: Vec<u8>,
    received: u64,
}

/// A whole answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Whole {
    pub(super) status: u16,
    pub(super) bytes: u64,
    pub(super) closes: bool,
}

impl Answer {
    /// Forgets what came: another answer begins.
    pub(super) fn begin(&mut self) {
        self.head = None;
        self.partial_head.clear();
        self.received = 0;
    }

    /// Takes all of `bytes`. `body` gets each part of the body with its place. `None`: the answer goes on.
    pub(super) fn take(
        &mut self,
        bytes: &[u8],
        body: &mut dyn FnMut(u16, u64, &[u8]),
    ) -> Result<Option<Whole>, &'static str> {
        let (head, rest) = match self.head {
            Some(head) => (head, bytes),
            None => match self.take_head(bytes)? {
                Some(found) => found,
                None => return Ok(None),
            },
        };
        if self.received + rest.len() as u64 > head.content_length {
            return Err("more bytes came than the answer announced");
        }
        if !rest.is_empty() {
            body(head.status, self.received, rest);
        }
        self.received += rest.len() as u64;
        let is_whole = self.received == head.content_length;
        Ok(is_whole.then_some(Whole {
            status: head.status,
            bytes: self.received,
            closes: head.after == After::Close,
        }))
    }

    /// The head, once it is whole, with what follows it.
    fn take_head<'a>(&mut self, bytes: &'a [u8]) -> Result<Option<(Head, &'a [u8])>, &'static str> {
        let known = self.partial_head.len();
        let parsed = if known == 0 {
            parse(bytes)
        } else {
            self.partial_head.extend_from_slice(bytes);
            parse(&self.partial_head)
        };
        let Some(head) = parsed.map_err(crate::web::response::BadHead::text)? else {
            if known == 0 {
                self.partial_head.extend_from_slice(bytes);
            }
            return Ok(None);
        };
        if head.is_chunked {
            return Err("the answer comes in chunks, and pages of this site have a Content-Length");
        }
        self.head = Some(head);
        // The head's end lies in these bytes: without them it was not whole.
        Ok(Some((head, &bytes[head.bytes - known..])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_answer_is_the_same_however_it_is_cut(cuts in prop::collection::vec(1_usize..60, 1..20)) {
            let bytes = b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 10\r\n\r\n0123456789";
            let (mut answer, mut rest, mut body) = (Answer::default(), &bytes[..], Vec::new());
            for cut in cuts.iter().cycle() {
                let (part, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                let whole = answer.take(part, &mut |_, at, part| {
                    assert_eq!(at, body.len() as u64);
                    body.extend_from_slice(part);
                }).unwrap();
                if rest.is_empty() {
                    prop_assert_eq!(whole, Some(Whole { status: 200, bytes: 10, closes: false }));
                    break;
                }
                prop_assert_eq!(whole, None);
            }
            prop_assert_eq!(&body, b"0123456789");
        }
    }

    #[test]
    fn what_comes_beyond_an_answer_is_refused() {
        let mut answer = Answer::default();
        let more = answer.take(b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab", &mut |_, _, _| {});
        assert_eq!(more, Err("more bytes came than the answer announced"));
        answer.begin();
        let unchanged =
            answer.take(b"HTTP/1.1 304 Not Modified\r\nConnection: close\r\n\r\n", &mut |_, _, _| {});
        assert_eq!(unchanged, Ok(Some(Whole { status: 304, bytes: 0, closes: true })));
    }
}
