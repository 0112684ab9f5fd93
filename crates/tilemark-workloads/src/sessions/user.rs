//! One user: a session after the other, page by page, over some wires.

use super::{
    answer::{Answer, Whole},
    site::{Visited, fraction},
};
use crate::web::response::NOT_MODIFIED;
use rand_chacha::{
    ChaCha8Rng,
    rand_core::{Rng, SeedableRng},
};
use std::{io::Write as _, sync::Arc};
use tilemark_load::{Conversation, Progress, Tls, Verdict};

/// The receive buffer of a user with a limited line, so that the server feels the limit.
const BUFFER_OF_LIMITED_LINE: usize = 32 * 1024;

/// The load's end of one user.
pub(super) struct User {
    site: Arc<Visited>,
    random: ChaCha8Rng,
    session: Session,
    wires: Vec<Wire>,
    page: PageUnderWay,
}

/// What the back end must have counted, too.
#[derive(Debug, Default)]
struct Session {
    id: u64,
    /// The page that was asked for last; `None`: the next page begins a session.
    page: Option<usize>,
    pages: u64,
    sum: u64,
}

/// One connection.
#[derive(Debug, Default)]
struct Wire {
    answer: Answer,
    asked: Asked,
    /// The server closes it after this answer.
    closes: bool,
}

/// What was asked on a wire.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Asked {
    #[default]
    Nothing,
    Page,
    /// A file by its place; it comes only if it has changed.
    File {
        file: usize,
        is_kept: bool,
    },
}

/// The page that is being asked for.
#[derive(Debug, Default)]
struct PageUnderWay {
    /// Its place among the site's pages.
    place: usize,
    /// The first line of the right answer.
    first_line: Vec<u8>,
    /// Files of it that were asked for.
    files_asked: usize,
    bytes: u64,
    trouble: Option<(Verdict, String)>,
}

impl User {
    pub(super) fn new(site: Arc<Visited>, seed: u64, number: u32) -> Self {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::from(number) + 1);
        let wires = (0..site.parallel).map(|_| Wire::default()).collect();
        Self { site, random, session: Session::default(), wires, page: PageUnderWay::default() }
    }

    /// The page that the user goes to now.
    fn go_on(&mut self) -> usize {
        let here = self.session.page;
        let next = here.and_then(|page| self.site.pages[page].next(&mut self.random));
        let page = next.unwrap_or_else(|| {
            self.session = Session { id: self.random.next_u64(), ..Session::default() };
            self.site.first
        });
        self.session.page = Some(page);
        page
    }

    fn ask_for_page(&mut self, out: &mut Vec<u8>) {
        let place = self.go_on();
        let value = self.random.next_u32();
        let session = &mut self.session;
        session.pages += 1;
        session.sum += u64::from(value);
        let page = &self.site.pages[place];
        let (id, name, bytes) = (session.id, &page.name, page.bytes);
        self.page = PageUnderWay { place, ..PageUnderWay::default() };
        // Written into memory: it can't fail.
        let _ = writeln!(
            self.page.first_line,
            "session {id:016x} page {name} is number {} with a sum of {}",
            session.pages, session.sum
        );
        let _ = write!(
            out,
            "GET /page.php?session={id:016x}&page={name}&value={value}&bytes={bytes} HTTP/1.1\r\n{}\r\n",
            self.site.host
        );
        self.wires[0].answer.begin();
        self.wires[0].asked = Asked::Page;
    }

    /// Asks for the next file of the page on a wire that is free.
    fn ask_for_file(&mut self, wire: usize, out: &mut Vec<u8>) {
        let page = &self.site.pages[self.session.page.expect("a page is under way")];
        let Some(wanted) = page.files.get(self.page.files_asked).filter(|_| !self.wires[wire].closes) else {
            return;
        };
        self.page.files_asked += 1;
        let is_kept = fraction(&mut self.random) < wanted.kept;
        let file = &self.site.files[wanted.file];
        out.extend_from_slice(if is_kept { &file.request_if_changed } else { &file.request });
        self.wires[wire].answer.begin();
        self.wires[wire].asked = Asked::File { file: wanted.file, is_kept };
    }

    /// A whole answer came on a wire.
    fn answered(&mut self, wire: usize, whole: Whole, outs: &mut [Vec<u8>]) -> Progress {
        let asked = std::mem::take(&mut self.wires[wire].asked);
        self.wires[wire].closes = whole.closes;
        self.page.bytes += whole.bytes;
        let expected = self.expected(asked);
        if whole.status != expected.0 {
            let what = format!("the answer's status is {}", whole.status);
            self.page.trouble.get_or_insert((Verdict::Failed, what));
        } else if whole.bytes != expected.1 {
            let what = format!("the answer's body has {} bytes instead of {}", whole.bytes, expected.1);
            self.page.trouble.get_or_insert((Verdict::Wrong, what));
        }
        if asked == Asked::Page && self.page.trouble.is_none() {
            for (wire, out) in outs.iter_mut().enumerate() {
                self.ask_for_file(wire, out);
            }
        } else if self.page.trouble.is_none() {
            self.ask_for_file(wire, &mut outs[wire]);
        }
        self.progress()
    }

    /// Status and length of the right answer.
    fn expected(&self, asked: Asked) -> (u16, u64) {
        match asked {
            Asked::Nothing => (0, 0),
            Asked::Page => {
                let page = &self.site.pages[self.session.page.expect("a page is under way")];
                (200, self.page.first_line.len() as u64 + page.bytes)
            }
            Asked::File { is_kept: true, .. } => (NOT_MODIFIED, 0),
            Asked::File { file, .. } => (200, self.site.files[file].body.len() as u64),
        }
    }

    /// How far the page has come.
    fn progress(&mut self) -> Progress {
        if self.wires.iter().any(|wire| wire.asked != Asked::Nothing) {
            return Progress::More;
        }
        let files = self.session.page.map_or(0, |page| self.site.pages[page].files.len());
        if self.page.trouble.is_none() && self.page.files_asked < files {
            return self.broken("the server closed every connection before the page had its files");
        }
        let verdict = self.page.trouble.as_ref().map_or(Verdict::Right, |(verdict, _)| *verdict);
        if verdict != Verdict::Right {
            // Nobody knows what the back end has counted.
            self.session.page = None;
        }
        let answer = tilemark_load::Answer { verdict, body_bytes: self.page.bytes };
        match self.wires.iter().any(|wire| wire.closes) {
            true => Progress::Last(answer),
            false => Progress::Answered(answer),
        }
    }

    fn broken(&mut self, why: &str) -> Progress {
        self.page.trouble = Some((Verdict::Failed, why.to_owned()));
        Progress::Broken(Verdict::Failed)
    }
}

/// Where a body first differs from what it must be, which is `first` and then `then`.
fn differs(at: u64, bytes: &[u8], first: &[u8], then: &[u8]) -> Option<u64> {
    let (at, first_length) = (at as usize, first.len());
    let (in_first, in_then) = bytes.split_at(first.len().saturating_sub(at).min(bytes.len()));
    let first = first.get(at..).unwrap_or_default();
    let then = then.get((at + in_first.len()).saturating_sub(first_length)..).unwrap_or_default();
    // One or two comparisons of memory; which byte differs is looked for only when one does.
    if first.starts_with(in_first) && then.starts_with(in_then) {
        return None;
    }
    let expected = first.iter().take(in_first.len()).chain(then);
    let same = expected.zip(bytes).take_while(|(one, other)| one == other).count();
    Some((at + same) as u64)
}

impl Conversation for User {
    fn wires(&self) -> usize {
        self.site.parallel
    }

    fn receive_buffer(&self) -> Option<usize> {
        self.site.receive.map(|_| BUFFER_OF_LIMITED_LINE)
    }

    fn tls(&self) -> Option<&Tls> {
        self.site.tls.as_ref()
    }

    fn connected(&mut self, wire: usize, _out: &mut Vec<u8>) -> Progress {
        self.wires[wire] = Wire::default();
        // A page that broke off may have been counted or not.
        self.session.page = None;
        Progress::Ready
    }

    fn request(&mut self, outs: &mut [Vec<u8>]) {
        self.ask_for_page(&mut outs[0]);
    }

    fn received(&mut self, wire: usize, bytes: &[u8], outs: &mut [Vec<u8>]) -> Progress {
        let asked = self.wires[wire].asked;
        if asked == Asked::Nothing {
            return self.broken("the server spoke unasked");
        }
        let (site, page) = (&self.site, &mut self.page);
        let mut check = |status: u16, at: u64, part: &[u8]| {
            let (first, then): (&[u8], &[u8]) = match asked {
                Asked::File { file, .. } => (&[], &site.files[file].body),
                _ => (&page.first_line, &site.padding),
            };
            // An answer with another status is an error page.
            if status == 200
                && page.trouble.is_none()
                && let Some(byte) = differs(at, part, first, then)
            {
                page.trouble = Some((Verdict::Wrong, format!("byte {byte} of the answer's body is wrong")));
            }
        };
        let progress = match self.wires[wire].answer.take(bytes, &mut check) {
            Ok(Some(whole)) => self.answered(wire, whole, outs),
            Ok(None) => Progress::More,
            Err(why) => self.broken(why),
        };
        let length_at = |rate: u64| bytes.len() as u64 * 1_000_000_000 / rate;
        match (progress, self.site.receive) {
            (Progress::More, Some(rate)) => Progress::Pause(length_at(rate)),
            (Progress::Answered(answer), Some(rate)) => {
                Progress::Held { answer, closes: false, length: length_at(rate) }
            }
            (Progress::Last(answer), Some(rate)) => {
                Progress::Held { answer, closes: true, length: length_at(rate) }
            }
            (progress, _) => progress,
        }
    }

    fn explain(&self) -> String {
        let trouble = self.page.trouble.as_ref().map_or("no trouble", |(_, what)| what);
        format!("page `{}`: {trouble}", self.site.pages[self.page.place].name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sessions::back_end::Sessions;
    use std::collections::BTreeMap;
    use tilemark_plan::workload::{SessionPage, SessionsParameters};

    const BODY: &[u8] = b"0123456789";

    #[test]
    fn any_one_wrong_byte_of_a_body_is_found_however_it_is_cut() {
        for cut in 1..BODY.len() {
            for wrong in 0..BODY.len() {
                let mut bytes = BODY.to_vec();
                bytes[wrong] = b'x';
                let parts = [(0, &bytes[..cut]), (cut, &bytes[cut..])];
                let found = parts.map(|(at, part)| differs(at as u64, part, &BODY[..4], &BODY[4..]));
                assert_eq!(
                    found,
                    if wrong < cut { [Some(wrong as u64), None] } else { [None, Some(wrong as u64)] }
                );
            }
        }
        assert_eq!(differs(8, b"89a", &BODY[..4], &BODY[4..]), Some(10), "it is longer");
    }

    fn user(seed: u64) -> User {
        let parameters = SessionsParameters { parallel: 2, ..SessionsParameters::default() };
        let site = Visited::new(&parameters, "10.77.1.0:80".parse().unwrap());
        User::new(Arc::new(site), seed, 0)
    }
    /// Answers all that the user asks until a page is over, as the server would; `page` may spoil the dynamic page.
    fn visit(user: &mut User, back_end: &mut Sessions, page: impl FnOnce(&mut Vec<u8>)) -> Progress {
        let mut outs = [Vec::new(), Vec::new()];
        user.request(&mut outs);
        let asked = String::from_utf8(outs[0].clone()).unwrap();
        let value = |name: &str| {
            let (_, rest) = asked.split_once(&format!("{name}=")).unwrap();
            rest.split(['&', ' ']).next().unwrap().to_owned()
        };
        // As the back end counts, not as the user expects.
        let (session, page_name, bytes) =
            (value("session"), value("page"), value("bytes").parse::<usize>().unwrap());
        let number = u64::from_str_radix(&session, 16).unwrap();
        let (pages, sum) = back_end.visit(number, value("value").parse().unwrap());
        let mut body = format!("session {session} page {page_name} is number {pages} with a sum of {sum}\n")
            .into_bytes();
        body.extend_from_slice(&user.site.padding[..bytes]);
        page(&mut body);
        let answer = |body: &[u8]| {
            let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
            [head.as_bytes(), body].concat()
        };
        outs[0].clear();
        let mut progress = user.received(0, &answer(&body), &mut outs);
        while progress == Progress::More {
            let wire = user.wires.iter().position(|wire| wire.asked != Asked::Nothing).unwrap();
            let bytes = match user.wires[wire].asked {
                Asked::File { is_kept: true, .. } => b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec(),
                Asked::File { file, .. } => answer(&user.site.files[file].body.clone()),
                other => unreachable!("{other:?}"),
            };
            outs[wire].clear();
            progress = user.received(wire, &bytes, &mut outs);
        }
        progress
    }

    #[test]
    fn a_user_goes_from_page_to_page_and_each_session_counts_its_own() {
        let (mut user, mut back_end) = (user(3), Sessions::default());
        let mut sessions = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let before = (user.session.id, user.session.pages);
            let progress = visit(&mut user, &mut back_end, |_| {});
            assert!(
                matches!(progress, Progress::Answered(answer) if answer.verdict == Verdict::Right),
                "{progress:?}: {}",
                user.explain()
            );
            let is_same = user.session.id == before.0;
            assert_eq!(user.session.pages, if is_same { before.1 + 1 } else { 1 });
            sessions.insert(user.session.id);
        }
        assert!((5..100).contains(&sessions.len()), "{}", sessions.len());
    }

    #[test]
    fn a_page_of_another_session_is_wrong_and_ends_the_session() {
        let mut user = user(3);
        let progress = visit(&mut user, &mut Sessions::default(), |body| body[8] ^= 1);
        assert!(
            matches!(progress, Progress::Answered(answer) if answer.verdict == Verdict::Wrong),
            "{progress:?}"
        );
        assert_eq!(user.explain(), "page `index`: byte 8 of the answer's body is wrong");
        assert_eq!(user.session.page, None);
    }

    #[test]
    fn users_with_a_limited_line_pause() {
        let receive = Some(tilemark_units::Bytes::new(100_000));
        let parameters = SessionsParameters { receive, ..SessionsParameters::default() };
        let site = Visited::new(&parameters, "10.77.1.0:80".parse().unwrap());
        let mut user = User::new(Arc::new(site), 1, 0);
        let mut outs = [Vec::new(), Vec::new()];
        user.request(&mut outs);
        let part = b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\n";
        assert_eq!(user.received(0, part, &mut outs), Progress::Pause(part.len() as u64 * 10_000));
    }

    #[test]
    fn the_last_part_of_a_page_takes_its_time_on_a_slow_line_too() {
        let receive = Some(tilemark_units::Bytes::new(100_000));
        let page =
            SessionPage { bytes: tilemark_units::Bytes::new(0), files: Vec::new(), next: BTreeMap::new() };
        let parameters = SessionsParameters {
            receive,
            first: Some("a".to_owned()),
            page: BTreeMap::from([("a".to_owned(), page)]),
            ..SessionsParameters::default()
        };
        let site = Visited::new(&parameters, "10.77.1.0:80".parse().unwrap());
        let mut user = User::new(Arc::new(site), 1, 0);
        let mut outs = [Vec::new(), Vec::new()];
        user.request(&mut outs);
        let line = user.page.first_line.clone();
        let answer =
            [format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", line.len()).as_bytes(), &line].concat();
        let progress = user.received(0, &answer, &mut outs);
        let length = answer.len() as u64 * 10_000;
        assert!(
            matches!(progress, Progress::Held { closes: false, length: held, .. } if held == length),
            "{progress:?}"
        );
    }
}
