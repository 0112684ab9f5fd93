//! What the connections of one load share: requests and bodies, made once.

use super::{conversation::WebConversation, file_path, fill_body, service::sizes};
use crate::WorkloadError;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use std::{
    collections::BTreeMap,
    net::SocketAddr,
    sync::{Arc, atomic::AtomicU64},
};
use tilemark_agent_protocol::{LoadJob, Stream};
use tilemark_load::{Conversation, Factory, Tls};
use tilemark_plan::workload::{WebParameters, WebRequest, Work};

/// The files of one stream.
pub(super) struct Mix {
    pub(super) files: Vec<File>,
    /// The sum of all weights.
    pub(super) weight: u64,
    /// How connections are secured.
    pub(super) tls: Option<Tls>,
    /// Answers are of a server that is not ours.
    pub(super) is_foreign: bool,
}

pub(super) struct File {
    /// The sum of the weights up to and with this one.
    pub(super) weight_up_to: u64,
    pub(super) request: Vec<u8>,
    /// The status of a right answer.
    pub(super) status: u16,
    /// An answer to HEAD has a length, and no body.
    pub(super) has_body: bool,
    pub(super) expected: Expected,
}

/// What a right body is.
pub(super) enum Expected {
    /// These bytes.
    Body(Arc<[u8]>),
    /// As long as the first one was; `u64::MAX` until that came.
    SameLength(AtomicU64),
    /// So long.
    Length(u64),
    /// With this text somewhere; so long, where that is given.
    Contains(Arc<[u8]>, Option<u64>),
    /// Any.
    Any,
}

/// Makes the conversations of a job's web streams.
pub struct WebFactory {
    mixes: BTreeMap<u32, Arc<Mix>>,
}

impl WebFactory {
    /// For all web streams of a job; others are left out.
    pub fn new(job: &LoadJob) -> Result<Self, WorkloadError> {
        let mut bodies = BTreeMap::new();
        let mut mixes = BTreeMap::new();
        for stream in &job.streams {
            if let Work::Web(parameters) = &*stream.work {
                mixes.insert(stream.id, Arc::new(mix(parameters, stream.target, &mut bodies)?));
            }
        }
        Ok(Self { mixes })
    }

    #[cfg(test)]
    pub(super) fn mix_of(parameters: &WebParameters, target: SocketAddr) -> Result<Arc<Mix>, WorkloadError> {
        mix(parameters, target, &mut BTreeMap::new()).map(Arc::new)
    }

    /// Each connection draws for itself; another stream of numbers than the schedule's.
    pub(super) fn random(seed: u64, connection: u32) -> ChaCha8Rng {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        random.set_stream(u64::from(connection) + 1);
        random
    }
}

impl Factory for WebFactory {
    fn conversation(&self, stream: &Stream, connection: u32) -> Box<dyn Conversation> {
        let mix = self.mixes.get(&stream.id).expect("the factory was made from the same job");
        Box::new(WebConversation::new(Arc::clone(mix), Self::random(stream.seed, connection)))
    }
}

fn mix(
    parameters: &WebParameters,
    target: SocketAddr,
    bodies: &mut BTreeMap<u64, Arc<[u8]>>,
) -> Result<Mix, WorkloadError> {
    let tls = tls(parameters, target)?;
    if parameters.is_own_server() {
        return foreign_mix(parameters, target, tls);
    }
    let host = parameters.host.clone().unwrap_or_else(|| target.to_string());
    // Checks the sizes; equal sizes of the mix stay apart, with their weights.
    sizes(parameters)?;
    let mut weight = 0;
    let mut files = Vec::new();
    for file in parameters.files.iter().filter(|file| file.weight > 0) {
        let size = file.size.get();
        weight += u64::from(file.weight);
        let body = bodies.entry(size).or_insert_with(|| {
            let mut body = vec![0; usize::try_from(size).expect("at most 64 MiB, checked")];
            fill_body(&mut body);
            body.into()
        });
        files.push(File {
            weight_up_to: weight,
            request: request("GET", &file_path(size), &host, "", ""),
            status: 200,
            has_body: true,
            expected: Expected::Body(Arc::clone(body)),
        });
    }
    Ok(Mix { files, weight, tls, is_foreign: false })
}

/// How connections are secured: to our own service with any certificate, to another server as the load says.
fn tls(parameters: &WebParameters, target: SocketAddr) -> Result<Option<Tls>, WorkloadError> {
    if !parameters.tls {
        return Ok(None);
    }
    let host = parameters.host.as_deref().map(without_port);
    let bad = |why| WorkloadError::BadTls { why };
    Tls::to_server(host, target.ip(), parameters.ca.as_deref()).map(Some).map_err(bad)
}

/// A host without its port and without the brackets of IPv6.
fn without_port(host: &str) -> &str {
    if let Some(rest) = host.strip_prefix('[') {
        return rest.split(']').next().unwrap_or(rest);
    }
    host.split(':').next().unwrap_or(host)
}

/// Requests to a server that is not ours.
fn foreign_mix(
    parameters: &WebParameters,
    target: SocketAddr,
    tls: Option<Tls>,
) -> Result<Mix, WorkloadError> {
    let host = parameters.host.clone().unwrap_or_else(|| target.to_string());
    let (mut weight, mut files) = (0, Vec::new());
    for asked in parameters.own_requests().iter().filter(|request| request.weight > 0) {
        weight += u64::from(asked.weight);
        files.push(File {
            weight_up_to: weight,
            request: foreign_request(asked, &host)?,
            status: asked.expect_status.unwrap_or(200),
            has_body: asked.method.as_deref() != Some("HEAD"),
            expected: expected(asked),
        });
    }
    if files.is_empty() {
        Err(WorkloadError::NoFiles)
    } else {
        Ok(Mix { files, weight, tls, is_foreign: true })
    }
}

fn expected(asked: &WebRequest) -> Expected {
    let length = asked.length.map(tilemark_units::Bytes::get);
    match (&asked.contains, length) {
        (Some(text), length) => Expected::Contains(text.as_bytes().into(), length),
        (None, Some(length)) => Expected::Length(length),
        (None, None) if asked.any_length => Expected::Any,
        (None, None) => Expected::SameLength(AtomicU64::new(u64::MAX)),
    }
}

/// A request for a path, or for a whole `http://` URL, whose host is then named to the server.
fn foreign_request(asked: &WebRequest, host: &str) -> Result<Vec<u8>, WorkloadError> {
    let path = &asked.path;
    let bad = || WorkloadError::BadPath { path: path.to_owned() };
    if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(bad());
    }
    let (host, path) = match path.strip_prefix("http://") {
        Some(rest) => rest.split_at(rest.find('/').unwrap_or(rest.len())),
        None if path.starts_with('/') => (host, path.as_str()),
        None => return Err(bad()),
    };
    let path = if path.is_empty() { "/" } else { path };
    let mut headers: String =
        asked.headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
    let body = asked.body.as_deref();
    if let Some(body) = body {
        headers += &format!("Content-Length: {}\r\n", body.len());
    }
    let method = asked.method.as_deref().unwrap_or("GET");
    Ok(request(method, path, host, &headers, body.unwrap_or_default()))
}

fn request(method: &str, path: &str, host: &str, headers: &str, body: &str) -> Vec<u8> {
    format!("{method} {path} HTTP/1.1\r\nHost: {host}\r\n{headers}\r\n{body}").into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mix_is_drawn_by_weight_and_by_seed() {
        let parameters = WebParameters::default();
        let target = "10.77.1.0:80".parse().unwrap();
        let mix = WebFactory::mix_of(&parameters, target).unwrap();
        let drawn = |seed| {
            let mut conversation = WebConversation::new(Arc::clone(&mix), WebFactory::random(seed, 0));
            let mut out = [Vec::new()];
            let mut requests = Vec::new();
            for _ in 0..10_000 {
                out[0].clear();
                conversation.request(&mut out);
                requests.push(String::from_utf8(out[0].clone()).unwrap());
            }
            requests
        };
        let requests = drawn(5);
        assert_eq!(requests, drawn(5));
        assert_ne!(requests, drawn(6));
        // 25 of 50: 5,000 expected, standard deviation 50.
        let small = requests.iter().filter(|request| request.starts_with("GET /1024.bin ")).count();
        assert!((4_800..5_200).contains(&small), "{small}");
    }

    #[test]
    fn a_url_names_its_host_and_a_path_must_be_one() {
        let target = "10.77.1.0:80".parse().unwrap();
        let target: SocketAddr = target;
        let text = |path: &str| {
            let request = foreign_request(&WebRequest::of(path), &target.to_string());
            request.map(|bytes| String::from_utf8(bytes).unwrap())
        };
        assert_eq!(text("/a?b=c").unwrap(), "GET /a?b=c HTTP/1.1\r\nHost: 10.77.1.0:80\r\n\r\n");
        assert_eq!(text("http://example.org").unwrap(), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
        for path in ["index.html", "", "/a b", "/a\r\nX: y"] {
            assert!(matches!(text(path), Err(WorkloadError::BadPath { .. })), "{path:?}");
        }
        let post = WebRequest {
            method: Some("POST".to_owned()),
            headers: [("Accept".to_owned(), "a/b".to_owned())].into(),
            body: Some("q=1".to_owned()),
            ..WebRequest::of("/s")
        };
        let sent = String::from_utf8(foreign_request(&post, "shop.example").unwrap()).unwrap();
        let wanted = "POST /s HTTP/1.1\r\nHost: shop.example\r\nAccept: a/b\r\nContent-Length: 3\r\n\r\nq=1";
        assert_eq!(sent, wanted);
    }
}
