//! What a site with sessions in a guest answers, on several wires.

use std::collections::BTreeMap;
use tilemark_load::{Conversation, Progress};
use tilemark_plan::workload::{SessionFiles, SessionPage, SessionsParameters};
use tilemark_units::Bytes;
use tilemark_workloads::{sessions, web::fill_body};

/// Of its only page, and of each of its files.
const SIZE: u64 = 100;
const WIRES: usize = 2;

fn parameters(receive: Option<Bytes>) -> SessionsParameters {
    let files = vec![SessionFiles { size: Bytes::new(SIZE), count: 3, kept: 0.5 }];
    let page = SessionPage { bytes: Bytes::new(SIZE), files, next: BTreeMap::new() };
    SessionsParameters {
        first: Some("a".to_owned()),
        page: BTreeMap::from([("a".to_owned(), page)]),
        parallel: WIRES as u32,
        receive,
        ..SessionsParameters::default()
    }
}

/// The first byte says whether the site is right about the page, whether the line is slow, and in which pieces bytes come.
pub fn take_answers(bytes: &[u8]) {
    let Some((first, mut rest)) = bytes.split_first() else { return };
    let (page_is_right, is_slow, piece) = (first & 1 == 1, first & 2 == 2, usize::from(first >> 2) * 4 + 1);
    let parameters = parameters(is_slow.then(|| Bytes::from_kib(8)));
    let mut user = sessions::user(&parameters, ([127, 0, 0, 1], 80).into(), 1, 0);
    let mut outs = [Vec::new(), Vec::new()];
    connect(&mut *user, &mut outs);
    let mut wire = 0;
    while !rest.is_empty() {
        outs.iter_mut().for_each(Vec::clear);
        user.request(&mut outs);
        if page_is_right {
            let right = right_page(&outs[0]);
            outs.iter_mut().for_each(Vec::clear);
            if is_over(&user.received(0, &right, &mut outs)) {
                continue;
            }
        }
        while let Some(part) = rest.get(..piece.min(rest.len())).filter(|part| !part.is_empty()) {
            rest = &rest[part.len()..];
            wire = (wire + usize::from(part[0])) % WIRES;
            outs.iter_mut().for_each(Vec::clear);
            let progress = user.received(wire, part, &mut outs);
            drop(user.explain());
            if matches!(
                progress,
                Progress::Last(_) | Progress::Held { closes: true, .. } | Progress::Broken(_)
            ) {
                connect(&mut *user, &mut outs);
            }
            if is_over(&progress) {
                break;
            }
        }
    }
}

fn connect(user: &mut dyn Conversation, outs: &mut [Vec<u8>]) {
    for (wire, out) in outs.iter_mut().enumerate() {
        user.connected(wire, out);
    }
}

const fn is_over(progress: &Progress) -> bool {
    !matches!(progress, Progress::More | Progress::Pause(_) | Progress::Ready)
}

/// The answer to a request for the first page of a session.
fn right_page(request: &[u8]) -> Vec<u8> {
    let request = String::from_utf8_lossy(request);
    let value = |name: &str| {
        let (_, rest) = request.split_once(&format!("{name}=")).expect("the user asks for a page");
        rest.split(['&', ' ']).next().unwrap_or_default().to_owned()
    };
    let (session, sum) = (value("session"), value("value"));
    let line = format!("session {session} page a is number 1 with a sum of {sum}\n");
    let mut body = vec![0; SIZE as usize];
    fill_body(&mut body);
    let length = line.len() + body.len();
    [format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{line}").as_bytes(), &body].concat()
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    let mut body = vec![0; SIZE as usize];
    fill_body(&mut body);
    let file = [format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\n\r\n").as_bytes(), &body].concat();
    let kept = b"HTTP/1.1 304 Not Modified\r\n\r\n".to_vec();
    let close = b"HTTP/1.0 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec();
    let all = [&file[..], &kept, &file, &close, &kept, &file].concat();
    [0xfd, 0x41, 0xff, 0x10].into_iter().map(|first| [&[first][..], &all].concat()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_right_page_is_taken_and_its_files_are_asked_for() {
        let mut user = sessions::user(&parameters(None), ([127, 0, 0, 1], 80).into(), 1, 0);
        let mut outs = [Vec::new(), Vec::new()];
        connect(&mut *user, &mut outs);
        user.request(&mut outs);
        let right = right_page(&outs[0]);
        outs.iter_mut().for_each(Vec::clear);
        assert_eq!(user.received(0, &right, &mut outs), Progress::More, "{}", user.explain());
        assert!(outs.iter().all(|out| out.starts_with(b"GET /100.bin")), "each wire asks for a file");
    }
}
