//! A site as its users see it: requests and bodies, made once for all of them.

use super::{DRAIN_MAX, service};
use crate::web::{file_path, fill_body};
use rand_chacha::{ChaCha8Rng, rand_core::Rng};
use std::{collections::BTreeMap, net::SocketAddr, sync::Arc, time::Duration};
use tilemark_load::Tls;
use tilemark_plan::workload::{SessionPage, SessionsParameters};

/// Every file is older.
const KEPT_SINCE: &str = "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\r\n";

/// A site for the users of one stream.
pub(super) struct Visited {
    pub(super) pages: Vec<Page>,
    /// The page on which a session begins.
    pub(super) first: usize,
    pub(super) files: Vec<File>,
    /// What follows the first line of every page.
    pub(super) padding: Vec<u8>,
    /// The last line of every request's head but the empty one.
    pub(super) host: String,
    pub(super) parallel: usize,
    /// Bytes a second on each wire.
    pub(super) receive: Option<u64>,
    /// `None`: its wires are not secured.
    pub(super) tls: Option<Tls>,
    longest_answer: Duration,
}

/// One page.
pub(super) struct Page {
    pub(super) name: String,
    /// Length of the dynamic page.
    pub(super) bytes: u64,
    pub(super) files: Vec<Wanted>,
    /// The probability up to and with each page that may follow.
    next: Vec<(f64, usize)>,
}

/// A file of a page.
#[derive(Debug, Clone, Copy)]
pub(super) struct Wanted {
    /// Its place among the site's files.
    pub(super) file: usize,
    /// The part of users who have kept it.
    pub(super) kept: f64,
}

/// One file.
pub(super) struct File {
    pub(super) request: Vec<u8>,
    pub(super) request_if_changed: Vec<u8>,
    pub(super) body: Arc<[u8]>,
}

impl Visited {
    pub(super) fn new(parameters: &SessionsParameters, target: SocketAddr) -> Self {
        let site = parameters.site();
        let names: Vec<&String> = site.page.keys().collect();
        let place_of = |name: &String| names.binary_search(&name).expect("checked: every page is there");
        let sizes = service::file_sizes(&site);
        let host = format!("Host: {target}\r\n");
        let file = |size: &u64| {
            let request = format!("GET {} HTTP/1.1\r\n{host}", file_path(*size));
            let mut body = vec![0; *size as usize];
            fill_body(&mut body);
            File {
                request: format!("{request}\r\n").into_bytes(),
                request_if_changed: format!("{request}{KEPT_SINCE}\r\n").into_bytes(),
                body: body.into(),
            }
        };
        let places: BTreeMap<u64, usize> = sizes.iter().copied().zip(0..).collect();
        let page = |(name, page): (&String, &SessionPage)| {
            let mut sum = 0.0;
            let next = page.next.iter().map(|(name, share)| {
                sum += share;
                (sum, place_of(name))
            });
            let next = next.collect();
            let wanted = page.files.iter().flat_map(|file| {
                let wanted = Wanted { file: places[&file.size.get()], kept: file.kept };
                std::iter::repeat_n(wanted, file.count as usize)
            });
            Page { name: name.clone(), bytes: page.bytes.get(), files: wanted.collect(), next }
        };
        let receive = parameters.receive.map(|receive| receive.get());
        let at_rate = receive.map_or(Duration::ZERO, |rate| {
            Duration::from_secs_f64(site.largest_page().get() as f64 / rate as f64)
        });
        let mut padding =
            vec![0; site.page.values().map(|page| page.bytes.get()).max().unwrap_or(0) as usize];
        fill_body(&mut padding);
        Self {
            first: place_of(&site.first),
            pages: site.page.iter().map(page).collect(),
            files: sizes.iter().map(file).collect(),
            padding,
            host,
            parallel: parameters.parallel as usize,
            receive,
            tls: site.tls.then(|| Tls::to_guest(target.ip())),
            longest_answer: (site.tolerable.get() + at_rate).min(DRAIN_MAX),
        }
    }

    /// How long the slowest page may take whose user is not disappointed.
    pub(super) const fn longest_answer(&self) -> Duration {
        self.longest_answer
    }
}

impl Page {
    /// The page after this one; `None`: the user leaves.
    pub(super) fn next(&self, random: &mut ChaCha8Rng) -> Option<usize> {
        let drawn = fraction(random);
        self.next.iter().find(|(up_to, _)| drawn < *up_to).map(|(_, page)| *page)
    }
}

/// From 0 to below 1, each multiple of 2^-53 as likely as any other.
pub(super) fn fraction(random: &mut ChaCha8Rng) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}
