//! What a web server in a guest answers.

use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_load::{Factory, Progress};
use tilemark_plan::{
    plan::Demand,
    workload::{WebFile, WebParameters, Work, parse_requests},
};
use tilemark_units::{Bytes, Span};
use tilemark_workloads::web::{WebFactory, fill_body};

/// Takes a file of requests, and what a load would send of it.
pub fn take_requests(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let Ok(request) = parse_requests(text, "fuzz.toml") else { return };
    let web = WebParameters { request, ..WebParameters::default() };
    web.check_alone("web", &mut |message: String, remedy: &str| drop((message, remedy.to_owned())));
    drop(web.own_requests());
}

pub(crate) fn requests() -> Vec<Vec<u8>> {
    [
        "[[request]]\npath = \"/\"\nweight = 7\n[[request]]\nmethod = \"POST\"\npath = \"/search\"\nbody = 'q=1'\n",
        "[[request]]\npath = \"/a\"\nheaders = { Accept = \"text/html\" }\nexpect_status = 404\ncontains = \"x\"\n",
        "[[request]]\npath = \"/b\"\nlength = \"1KiB\"\n[[request]]\npath = \"/c\"\nany_length = true\n",
    ]
    .map(|text| text.as_bytes().to_vec())
    .to_vec()
}

/// The file that is asked for, in bytes.
const SIZE: usize = 100;

/// The first byte says which server it is and in which pieces its bytes come.
pub fn take_answers(bytes: &[u8]) {
    let Some((first, rest)) = bytes.split_first() else { return };
    let path = (first % 2 == 1).then(|| "/".to_owned());
    let piece = usize::from(first >> 1) * 8 + 1;
    let files = vec![WebFile { size: Bytes::new(SIZE as u64), weight: 1 }];
    let work = Work::Web(WebParameters { files, path, ..WebParameters::default() });
    let stream = Stream::new(1, ([127, 0, 0, 1], 80).into(), Demand::Closed, work);
    let job = LoadJob {
        streams: vec![stream.clone()],
        processors: Vec::new(),
        warmup: Span::from_seconds(0),
        length: Span::from_seconds(1),
    };
    let factory = WebFactory::new(&job).expect("it is a job with one small file");
    let mut conversation = factory.conversation(&stream, 0);
    let mut out = [Vec::new()];
    conversation.connected(0, &mut out[0]);
    conversation.request(&mut out);
    for piece in rest.chunks(piece) {
        out[0].clear();
        match conversation.received(0, piece, &mut out) {
            Progress::More | Progress::Pause(_) | Progress::Ready => continue,
            Progress::Answered(_) | Progress::Held { .. } => {}
            // The connection is made again.
            Progress::Last(_) | Progress::Broken(_) => drop(conversation.connected(0, &mut out[0])),
        }
        drop(conversation.explain());
        out[0].clear();
        conversation.request(&mut out);
    }
}

pub(crate) fn answers() -> Vec<Vec<u8>> {
    let mut body = vec![0; SIZE];
    fill_body(&mut body);
    let head = format!("HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: {SIZE}\r\n\r\n");
    let right = [head.as_bytes(), &body].concat();
    let close = b"HTTP/1.0 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n".to_vec();
    let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n".to_vec();
    let all = [&right[..], &right, &close, &chunked].concat();
    [0x80, 0x81, 6, 7].into_iter().map(|first| [&[first][..], &all].concat()).collect()
}
