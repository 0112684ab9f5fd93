//! One kept-alive connection: requests from the mix, answers checked byte by byte.

use super::{
    chunks::{Chunks, Piece},
    factory::{Expected, Mix},
    response::{After, Head, parse},
};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};
use std::sync::{Arc, atomic::Ordering};
use tilemark_load::{Answer, Conversation, Progress, Tls, Verdict};

/// The load's end of one connection.
pub(super) struct WebConversation {
    mix: Arc<Mix>,
    random: ChaCha8Rng,
    /// Place in the mix of the file that was asked for.
    asked: usize,
    reading: Reading,
    /// The beginning of a head that came in pieces.
    partial_head: Vec<u8>,
    chunks: Chunks,
    /// The end of what came of a body in which a text is looked for.
    tail: Vec<u8>,
    is_found: bool,
    trouble: Trouble,
}

#[derive(Debug, Clone, Copy)]
enum Reading {
    /// Nothing was asked.
    Nothing,
    Head,
    Body {
        head: Head,
        received: u64,
        verdict: Verdict,
    },
}

/// Why the last answer was not right. Data, made into words only when asked.
#[derive(Debug, Clone, Copy)]
enum Trouble {
    None,
    Status(u16),
    Length {
        expected: u64,
        found: u64,
    },
    Byte {
        at: u64,
    },
    /// The text that the body must contain is not in it.
    Missing,
    /// It was sent elsewhere, with this status.
    Redirect(u16),
    /// The port wants TLS, and was asked without.
    WantsTls,
    Text(&'static str),
}

impl WebConversation {
    pub(super) fn new(mix: Arc<Mix>, random: ChaCha8Rng) -> Self {
        Self {
            mix,
            random,
            asked: 0,
            reading: Reading::Nothing,
            partial_head: Vec::with_capacity(1024),
            chunks: Chunks::new(),
            tail: Vec::new(),
            is_found: false,
            trouble: Trouble::None,
        }
    }

    /// Draws a file by its weight.
    fn draw(&mut self) -> usize {
        let files = &self.mix.files;
        if files.len() == 1 {
            return 0;
        }
        // Weights are 32 bits each: the remainder's bias is below 2^-24.
        let drawn = self.random.next_u64() % self.mix.weight;
        files.partition_point(|file| file.weight_up_to <= drawn)
    }

    fn broken(&mut self, why: &'static str, verdict: Verdict) -> Progress {
        self.trouble = Trouble::Text(why);
        self.reading = Reading::Nothing;
        Progress::Broken(verdict)
    }

    /// What a head alone says about the answer.
    fn judge_head(&mut self, head: &Head) -> Verdict {
        let file = &self.mix.files[self.asked];
        if head.status != file.status {
            self.trouble = match head.status {
                300..=399 if head.status != 304 => Trouble::Redirect(head.status),
                status => Trouble::Status(status),
            };
            return Verdict::Failed;
        }
        if head.is_chunked || !file.has_body {
            Verdict::Right
        } else {
            self.judge_length(head.content_length)
        }
    }

    /// Whether a body may be so long.
    fn judge_length(&mut self, found: u64) -> Verdict {
        let expected = match &self.mix.files[self.asked].expected {
            Expected::Body(body) => body.len() as u64,
            Expected::Length(length) | Expected::Contains(_, Some(length)) => *length,
            Expected::Any | Expected::Contains(_, None) => return Verdict::Right,
            // The first answer to any connection of the load says how long they all must be.
            Expected::SameLength(first) => {
                let not_yet = u64::MAX;
                first
                    .compare_exchange(not_yet, found, Ordering::Relaxed, Ordering::Relaxed)
                    .map_or_else(|known| known, |_| found)
            }
        };
        if found == expected {
            return Verdict::Right;
        }
        self.trouble = Trouble::Length { expected, found };
        Verdict::Wrong
    }

    /// Takes bytes that follow a head.
    fn body(&mut self, head: Head, received: u64, verdict: Verdict, bytes: &[u8]) -> Progress {
        if head.is_chunked {
            return self.chunked_body(head, received, verdict, bytes);
        }
        let left = head.content_length - received;
        if bytes.len() as u64 > left {
            return self.broken("more bytes came than the answer announced", Verdict::Wrong);
        }
        let verdict = self.compare(received, verdict, bytes);
        let received = received + bytes.len() as u64;
        if received < head.content_length {
            self.reading = Reading::Body { head, received, verdict };
            return Progress::More;
        }
        self.ended(head, received, verdict)
    }

    /// Takes bytes of a body in chunks.
    fn chunked_body(&mut self, head: Head, received: u64, verdict: Verdict, bytes: &[u8]) -> Progress {
        let (mut received, mut verdict, mut rest) = (received, verdict, bytes);
        while !rest.is_empty() {
            match self.chunks.next(&mut rest) {
                Piece::None => {}
                Piece::Data(data) => {
                    verdict = self.compare(received, verdict, data);
                    received += data.len() as u64;
                }
                Piece::End if !rest.is_empty() => {
                    return self.broken("more bytes came than the answer announced", Verdict::Wrong);
                }
                Piece::End => {
                    if verdict == Verdict::Right {
                        verdict = self.judge_length(received);
                    }
                    return self.ended(head, received, verdict);
                }
                Piece::Malformed => {
                    return self.broken("a chunk of the answer is malformed", Verdict::Failed);
                }
            }
        }
        self.reading = Reading::Body { head, received, verdict };
        Progress::More
    }

    /// Compares bytes of a body, which come after `received` others, with what they must be.
    fn compare(&mut self, received: u64, verdict: Verdict, bytes: &[u8]) -> Verdict {
        if verdict != Verdict::Right {
            return verdict;
        }
        match &self.mix.files[self.asked].expected {
            Expected::Body(body) => {
                let from = received as usize;
                // One comparison of memory for each read; which byte differs is looked for only when one does.
                let expected = body.get(from..).unwrap_or_default();
                let expected = &expected[..bytes.len().min(expected.len())];
                if expected != bytes {
                    let same = expected.iter().zip(bytes).take_while(|(a, b)| a == b).count();
                    self.trouble = Trouble::Byte { at: received + same as u64 };
                    return Verdict::Wrong;
                }
            }
            Expected::Contains(text, _) if !self.is_found => {
                self.is_found = is_found(text, &mut self.tail, bytes);
            }
            _ => {}
        }
        verdict
    }

    /// The answer is whole.
    fn ended(&mut self, head: Head, received: u64, verdict: Verdict) -> Progress {
        self.reading = Reading::Nothing;
        let must_contain = matches!(self.mix.files[self.asked].expected, Expected::Contains(..));
        let verdict = if verdict == Verdict::Right && must_contain && !self.is_found {
            self.trouble = Trouble::Missing;
            Verdict::Wrong
        } else {
            verdict
        };
        let answer = Answer { verdict, body_bytes: received };
        match head.after {
            After::Keep => Progress::Answered(answer),
            After::Close => Progress::Last(answer),
        }
    }

    fn head(&mut self, bytes: &[u8]) -> Progress {
        if self.partial_head.is_empty() {
            return match parse(bytes) {
                Ok(Some(head)) => self.after_head(head, &bytes[head.bytes..]),
                Ok(None) => {
                    self.partial_head.extend_from_slice(bytes);
                    Progress::More
                }
                Err(_) if self.mix.tls.is_none() && bytes.starts_with(&TLS_ALERT) => {
                    self.reading = Reading::Nothing;
                    self.trouble = Trouble::WantsTls;
                    Progress::Broken(Verdict::Failed)
                }
                Err(bad) => self.broken(bad.text(), Verdict::Failed),
            };
        }
        let known = self.partial_head.len();
        self.partial_head.extend_from_slice(bytes);
        match parse(&self.partial_head) {
            Ok(Some(head)) => {
                self.partial_head.clear();
                // The head's end lies in these bytes: without them it was not whole.
                self.after_head(head, &bytes[head.bytes - known..])
            }
            Ok(None) => Progress::More,
            Err(bad) => self.broken(bad.text(), Verdict::Failed),
        }
    }

    fn after_head(&mut self, head: Head, rest: &[u8]) -> Progress {
        let verdict = self.judge_head(&head);
        if matches!(self.trouble, Trouble::Status(BAD_REQUEST)) && self.mix.tls.is_none() && wants_tls(rest) {
            self.trouble = Trouble::WantsTls;
        }
        let file = &self.mix.files[self.asked];
        let head = if file.has_body { head } else { Head { content_length: 0, is_chunked: false, ..head } };
        self.body(head, 0, verdict, rest)
    }
}

/// The status with which servers answer plain HTTP on a port for TLS.
const BAD_REQUEST: u16 = 400;
/// How a server that does not know HTTP before TLS refuses it: a record with an alert, of any version (RFC 8446, 5.1).
const TLS_ALERT: [u8; 2] = [21, 3];
/// What servers write into that answer: nginx, Apache, those in Go, and Tomcat.
const WANTS_TLS: [&str; 4] = [
    "plain HTTP request was sent to HTTPS port",
    "speaking plain HTTP to an SSL-enabled server port",
    "sent an HTTP request to an HTTPS server",
    "This combination of host and port requires TLS",
];
/// So much of such an answer is looked at.
const LOOKED_AT: usize = 2048;

/// Whether the beginning of an answer's body says that the port is for TLS.
fn wants_tls(body: &[u8]) -> bool {
    let start = String::from_utf8_lossy(&body[..body.len().min(LOOKED_AT)]);
    WANTS_TLS.iter().any(|text| start.contains(text))
}

/// Looks for a text, not empty, that may be cut by the pieces in which a body comes; `tail` is the end of the pieces before.
fn is_found(text: &[u8], tail: &mut Vec<u8>, bytes: &[u8]) -> bool {
    let is_in = |bytes: &[u8]| bytes.windows(text.len()).any(|part| part == text);
    let keep = text.len() - 1;
    tail.extend_from_slice(&bytes[..bytes.len().min(keep)]);
    let is_found = is_in(tail) || is_in(bytes);
    if bytes.len() > keep {
        tail.clear();
        tail.extend_from_slice(&bytes[bytes.len() - keep..]);
    } else if tail.len() > keep {
        tail.drain(..tail.len() - keep);
    }
    is_found
}

impl Conversation for WebConversation {
    fn tls(&self) -> Option<&Tls> {
        self.mix.tls.as_ref()
    }

    fn connected(&mut self, _wire: usize, _out: &mut Vec<u8>) -> Progress {
        self.reading = Reading::Nothing;
        Progress::Ready
    }

    fn request(&mut self, outs: &mut [Vec<u8>]) {
        self.asked = self.draw();
        self.partial_head.clear();
        self.chunks = Chunks::new();
        self.tail.clear();
        self.is_found = false;
        self.reading = Reading::Head;
        self.trouble = Trouble::None;
        outs[0].extend_from_slice(&self.mix.files[self.asked].request);
    }

    fn received(&mut self, _wire: usize, bytes: &[u8], _outs: &mut [Vec<u8>]) -> Progress {
        match self.reading {
            Reading::Nothing => self.broken(
                "the server spoke first, as databases, mail and SSH servers do: it is not a web server",
                Verdict::Wrong,
            ),
            Reading::Head => self.head(bytes),
            Reading::Body { head, received, verdict } => self.body(head, received, verdict, bytes),
        }
    }

    fn explain(&self) -> String {
        match self.trouble {
            Trouble::None => "no trouble".to_owned(),
            Trouble::Status(status) => format!("the answer's status is {status}"),
            Trouble::Length { expected, found } if self.mix.is_foreign => format!(
                "the answer's body has {found} bytes instead of {expected} (where lengths may differ, say so with \
                 `any_length` or `contains`)"
            ),
            Trouble::Length { expected, found } => {
                format!("the answer's body has {found} bytes instead of {expected}")
            }
            Trouble::WantsTls => "this port wants TLS, and was asked in plain HTTP: ask it with `https://`, or with `tls = true` in `[load.web]`"
                .to_owned(),
            Trouble::Missing => "the answer's body does not contain the expected text".to_owned(),
            Trouble::Redirect(status) => format!(
                "the answer's status is {status}: a redirect, which is not followed; ask for the address that it names"
            ),
            Trouble::Byte { at } => format!("byte {at} of the answer's body is wrong"),
            Trouble::Text(text) => text.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{WebFactory, fill_body};
    use super::*;
    use proptest::prelude::*;
    use tilemark_plan::workload::{WebFile, WebParameters};
    use tilemark_units::Bytes;

    fn conversation(path: Option<&str>) -> WebConversation {
        let files = vec![WebFile { size: Bytes::new(1000), weight: 1 }];
        let parameters = WebParameters { files, path: path.map(str::to_owned), ..WebParameters::default() };
        let target = "10.77.1.0:80".parse().unwrap();
        let mix = WebFactory::mix_of(&parameters, target).unwrap();
        let mut conversation = WebConversation::new(mix, WebFactory::random(1, 0));
        conversation.request(&mut [Vec::new()]);
        conversation
    }
    fn answer(status: &str, body: &[u8]) -> Vec<u8> {
        let mut bytes = format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\n\r\n", body.len()).into_bytes();
        bytes.extend_from_slice(body);
        bytes
    }
    fn right_body() -> Vec<u8> {
        let mut body = vec![0; 1000];
        fill_body(&mut body);
        body
    }
    fn hear(conversation: &mut WebConversation, bytes: &[u8]) -> Progress {
        conversation.received(0, bytes, &mut [])
    }
    fn ended(verdict: Verdict, body_bytes: u64) -> Progress {
        Progress::Answered(Answer { verdict, body_bytes })
    }

    proptest! {
        #[test]
        fn an_answer_is_right_however_it_is_cut(cuts in prop::collection::vec(1_usize..400, 1..20)) {
            let mut conversation = conversation(None);
            let bytes = answer("200 OK", &right_body());
            let mut rest = &bytes[..];
            for cut in cuts.iter().cycle() {
                let (part, after) = rest.split_at((*cut).min(rest.len()));
                rest = after;
                let progress = hear(&mut conversation, part);
                if rest.is_empty() {
                    prop_assert_eq!(progress, ended(Verdict::Right, 1000));
                    break;
                }
                prop_assert_eq!(progress, Progress::More);
            }
        }

        #[test]
        fn any_one_wrong_byte_is_found_and_named(at in 0_usize..1000, flip in 1_u8..=255) {
            let mut conversation = conversation(None);
            let mut body = right_body();
            body[at] ^= flip;
            prop_assert_eq!(hear(&mut conversation, &answer("200 OK", &body)), ended(Verdict::Wrong, 1000));
            prop_assert_eq!(conversation.explain(), format!("byte {at} of the answer's body is wrong"));
        }
    }

    #[test]
    fn a_shorter_body_and_another_status_are_distinguished() {
        let mut conversation = conversation(None);
        let short = answer("200 OK", &right_body()[..999]);
        assert_eq!(hear(&mut conversation, &short), ended(Verdict::Wrong, 999));
        assert_eq!(conversation.explain(), "the answer's body has 999 bytes instead of 1000");
        conversation.request(&mut [Vec::new()]);
        assert_eq!(hear(&mut conversation, &answer("503 Busy", b"sorry")), ended(Verdict::Failed, 5));
        assert_eq!(conversation.explain(), "the answer's status is 503");
    }

    #[test]
    fn bytes_beyond_the_answer_break_the_connection() {
        let mut conversation = conversation(None);
        let mut bytes = answer("200 OK", &right_body());
        bytes.push(0);
        assert_eq!(hear(&mut conversation, &bytes), Progress::Broken(Verdict::Wrong));
    }

    fn asking(parameters: &WebParameters) -> WebConversation {
        let mix = WebFactory::mix_of(parameters, "10.77.1.0:80".parse().unwrap()).unwrap();
        let mut conversation = WebConversation::new(mix, WebFactory::random(1, 0));
        conversation.request(&mut [Vec::new()]);
        conversation
    }
    fn own(contains: Option<&str>) -> WebParameters {
        let contains = contains.map(str::to_owned);
        WebParameters { path: Some("/".to_owned()), contains, ..WebParameters::default() }
    }

    proptest! {
        #[test]
        fn chunks_and_the_text_that_is_looked_for_are_found_however_they_are_cut(
            cuts in prop::collection::vec(1_usize..9, 1..30),
        ) {
            let bytes = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n\
                6;a=b\r\n world\r\n0\r\nX: y\r\n\r\n";
            for (text, verdict) in [("lo wo", Verdict::Right), ("low", Verdict::Wrong)] {
                let mut conversation = asking(&own(Some(text)));
                let mut rest = &bytes[..];
                for cut in cuts.iter().cycle() {
                    let (part, after) = rest.split_at((*cut).min(rest.len()));
                    rest = after;
                    let progress = hear(&mut conversation, part);
                    if rest.is_empty() {
                        prop_assert_eq!(progress, ended(verdict, 11));
                        break;
                    }
                    prop_assert_eq!(progress, Progress::More);
                }
            }
        }
    }

    #[test]
    fn a_malformed_chunk_breaks_the_connection() {
        for chunk in ["x\r\n", "ffffffffffffffffff\r\n", "1\r\nabc", "\r\n"] {
            let mut conversation = asking(&own(None));
            let bytes = format!("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n{chunk}");
            let progress = hear(&mut conversation, bytes.as_bytes());
            assert_eq!(progress, Progress::Broken(Verdict::Failed), "{chunk:?}");
        }
    }

    #[test]
    fn plain_http_on_a_port_for_tls_is_named() {
        let nginx = b"<html>\n<head><title>400 The plain HTTP request was sent to HTTPS port</title></head>";
        for bytes in [answer("400 Bad Request", nginx), vec![21, 3, 1, 0, 2, 2, 70]] {
            let mut asked = conversation(Some("/"));
            assert!(!matches!(hear(&mut asked, &bytes), Progress::More), "{bytes:?}");
            assert!(asked.explain().contains("this port wants TLS"), "{}", asked.explain());
        }
        let mut other = conversation(Some("/"));
        hear(&mut other, &answer("400 Bad Request", b"no such page"));
        assert_eq!(other.explain(), "the answer's status is 400");
    }

    #[test]
    fn a_redirect_is_not_followed_and_an_expected_status_is_right() {
        let mut conversation = asking(&own(None));
        assert_eq!(hear(&mut conversation, &answer("301 Moved", b"")), ended(Verdict::Failed, 0));
        assert!(conversation.explain().contains("301: a redirect, which is not followed"));
        let mut conversation = asking(&WebParameters { expect_status: Some(301), ..own(None) });
        assert_eq!(hear(&mut conversation, &answer("301 Moved", b"")), ended(Verdict::Right, 0));
        let head = WebParameters { method: Some("HEAD".to_owned()), ..own(None) };
        let bytes = b"HTTP/1.1 200 OK\r\nContent-Length: 12\r\n\r\n";
        assert_eq!(hear(&mut asking(&head), bytes), ended(Verdict::Right, 0));
    }

    #[test]
    fn a_server_that_is_not_ours_must_only_stay_as_long() {
        let mut conversation = conversation(Some("/"));
        for (body, verdict) in
            [(&b"hello"[..], Verdict::Right), (b"world", Verdict::Right), (b"ok", Verdict::Wrong)]
        {
            conversation.request(&mut [Vec::new()]);
            let expected = ended(verdict, body.len() as u64);
            assert_eq!(hear(&mut conversation, &answer("200 OK", body)), expected);
        }
    }
}
