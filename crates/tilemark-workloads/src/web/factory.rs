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
use tilemark_load::{Conversation, Factory};
use tilemark_plan::workload::{WebParameters, Work};

/// The files of one stream.
pub(super) struct Mix {
    pub(super) files: Vec<File>,
    /// The sum of all weights.
    pub(super) weight: u64,
}

pub(super) struct File {
    /// The sum of the weights up to and with this one.
    pub(super) weight_up_to: u64,
    pub(super) request: Vec<u8>,
    pub(super) expected: Expected,
}

/// What a right body is.
pub(super) enum Expected {
    /// These bytes.
    Body(Arc<[u8]>),
    /// As long as the first one was; `u64::MAX` until that came.
    SameLength(AtomicU64),
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
            if let Work::Web(parameters) = &stream.work {
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
    if let Some(path) = &parameters.path {
        let expected = Expected::SameLength(AtomicU64::new(u64::MAX));
        let file = File { weight_up_to: 1, request: foreign_request(path, target)?, expected };
        return Ok(Mix { files: vec![file], weight: 1 });
    }
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
            request: request(&file_path(size), &target.to_string()),
            expected: Expected::Body(Arc::clone(body)),
        });
    }
    Ok(Mix { files, weight })
}

/// A request for a path, or for a whole `http://` URL, whose host is then named to the server.
fn foreign_request(path: &str, target: SocketAddr) -> Result<Vec<u8>, WorkloadError> {
    let bad = || WorkloadError::BadPath { path: path.to_owned() };
    if path.bytes().any(|byte| byte <= b' ' || byte == 0x7f) {
        return Err(bad());
    }
    if let Some(rest) = path.strip_prefix("http://") {
        let (host, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        return Ok(request(if path.is_empty() { "/" } else { path }, host));
    }
    if !path.starts_with('/') {
        return Err(bad());
    }
    Ok(request(path, &target.to_string()))
}

fn request(path: &str, host: &str) -> Vec<u8> {
    format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").into_bytes()
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
        let text = |path| foreign_request(path, target).map(|bytes| String::from_utf8(bytes).unwrap());
        assert_eq!(text("/a?b=c").unwrap(), "GET /a?b=c HTTP/1.1\r\nHost: 10.77.1.0:80\r\n\r\n");
        assert_eq!(text("http://example.org").unwrap(), "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n");
        for path in ["index.html", "", "/a b", "/a\r\nX: y"] {
            assert!(matches!(text(path), Err(WorkloadError::BadPath { .. })), "{path:?}");
        }
    }
}
