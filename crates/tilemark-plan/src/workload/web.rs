//! `web`: requests to a web server: for files of our own service, or for pages of a server of the user's own.

use super::{
    facts::{At, Facts, InFlight, LoadKeys, Place},
    web_check,
};
use crate::JsonSchema;
use crate::{
    problem::{Problem, Say},
    scenario::{guest::Guest, measure::Measure, role::Role},
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tilemark_units::{Bytes, in_our_words};

/// Frames for a request, besides those of its bytes.
const FRAMES_EACH: u64 = 64;
/// Bytes of requests that count as one entry of a plan.
const BYTES_OF_ENTRY: u64 = 64;
/// What a TLS handshake adds to a request is in the measurements of sessions; a kept-alive connection has one in all.
const PORT: u16 = 80;
const TLS_PORT: u16 = 443;

/// For role `web`: requests over kept-alive connections. Without `path` and `request` they are GET requests for files of a mix of
/// sizes, whose status, length and every byte are checked. With one of them they go to a server of your own. A redirect is not
/// followed: it is an answer with a status that was not expected.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WebParameters {
    /// The mix of files.
    pub files: Vec<WebFile>,
    /// The path (or whole `http://` URL) to request from a server of your own. Default: the files of our own service.
    pub path: Option<String>,
    /// Several requests to a server of your own, each with its `path` and `weight`, instead of `path`. One is drawn by weight for each
    /// request. What one of them leaves out is as in the keys below. Default: none.
    pub request: Vec<WebRequest>,
    /// A file with `[[request]]` tables, instead of `request`: its path, from the scenario's file. Default: none.
    pub request_file: Option<String>,
    /// The port of a server of your own. Default: the port of the guest's service.
    pub port: Option<u16>,
    /// The name of the server: it is sent as `Host`, and with TLS it is the name that is asked for and that the certificate must
    /// have. Default: the guest's address.
    pub host: Option<String>,
    /// Whether connections use TLS. Our own service then makes a certificate itself, and any is accepted.
    pub tls: bool,
    /// Certificates of the authorities that may have signed the certificate of a server of your own, as PEM text. Default: none.
    pub ca: Option<String>,
    /// A file with that PEM text, instead of `ca`: its path, from the scenario's file. Default: none.
    pub ca_file: Option<String>,
    /// Whether any certificate of a server of your own is accepted.
    pub insecure: bool,
    /// The method of requests to a server of your own. Default: `"GET"`.
    pub method: Option<String>,
    /// More headers of requests to a server of your own, as in `headers = { Accept = "text/html" }`. Default: none.
    pub headers: BTreeMap<String, String>,
    /// The body of requests to a server of your own; `Content-Length` is sent with it. Default: none.
    pub body: Option<String>,
    /// A file with the body, instead of `body`: its path, from the scenario's file. Default: none.
    pub body_file: Option<String>,
    /// The status that an answer of a server of your own must have. Default: `200`.
    pub expect_status: Option<u16>,
    /// Text that the body of an answer of a server of your own must contain. Default: none.
    pub contains: Option<String>,
    /// Length that the body of an answer of a server of your own must have. Default: that of the first answer to the same request,
    /// where neither `contains` nor `any_length` is given.
    pub length: Option<Bytes>,
    /// Whether answers of a server of your own may have any length, as those of dynamic pages have.
    pub any_length: bool,
}

/// One request to a server of your own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebRequest {
    /// The path.
    pub path: String,
    /// How often it is sent, relative to the other requests.
    #[serde(default = "one")]
    pub weight: u32,
    /// The method. Default: that of the load.
    #[serde(default)]
    pub method: Option<String>,
    /// More headers, beside those of the load. Default: none.
    #[serde(default)]
    pub headers: BTreeMap<String, String>,
    /// The body. Default: that of the load.
    #[serde(default)]
    pub body: Option<String>,
    /// The status that its answer must have. Default: that of the load.
    #[serde(default)]
    pub expect_status: Option<u16>,
    /// Text that the body of its answer must contain. Default: that of the load.
    #[serde(default)]
    pub contains: Option<String>,
    /// Length that the body of its answer must have. Default: that of the load.
    #[serde(default)]
    pub length: Option<Bytes>,
    /// Whether its answers may have any length.
    #[serde(default)]
    pub any_length: bool,
}

const fn one() -> u32 {
    1
}

/// One file of the mix.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WebFile {
    /// Length of the body.
    pub size: Bytes,
    /// How often it is requested, relative to the other files.
    pub weight: u32,
}

impl Default for WebParameters {
    /// Mostly small with a long tail, as served files are: half are 1 KiB, one in fifty is 256 KiB.
    fn default() -> Self {
        let file = |kib, weight| WebFile { size: Bytes::from_kib(kib), weight };
        Self {
            files: vec![file(1, 25), file(8, 18), file(64, 6), file(256, 1)],
            path: None,
            request: Vec::new(),
            request_file: None,
            port: None,
            host: None,
            tls: false,
            ca: None,
            ca_file: None,
            insecure: false,
            method: None,
            headers: BTreeMap::new(),
            body: None,
            body_file: None,
            expect_status: None,
            contains: None,
            length: None,
            any_length: false,
        }
    }
}

impl WebRequest {
    /// A request for a path, with all else as the load has it.
    pub fn of(path: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            weight: 1,
            method: None,
            headers: BTreeMap::new(),
            body: None,
            expect_status: None,
            contains: None,
            length: None,
            any_length: false,
        }
    }

    fn texts_mut(&mut self) -> impl Iterator<Item = &mut String> {
        let Self { path, headers, body, contains, .. } = self;
        std::iter::once(path).chain(headers.values_mut()).chain(body).chain(contains)
    }

    /// Bytes of its texts.
    pub(super) fn bytes(&self) -> u64 {
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len);
        let headers: usize = self.headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        (self.path.len() + headers + of(&self.body) + of(&self.contains) + of(&self.method)) as u64
    }
}

impl WebParameters {
    /// Files of our own service together, each size once: they are held in memory at both ends. A guest of 256 MiB holds these and more.
    pub const FILES_MAX: Bytes = Bytes::from_mib(64);

    /// Whether it asks a server of the user's own.
    pub fn is_own_server(&self) -> bool {
        self.path.is_some() || !self.request.is_empty() || self.request_file.is_some()
    }

    /// Its files of the host that are not read yet: the key of each, and its path.
    pub fn unread_files(&self) -> impl Iterator<Item = (&'static str, &String)> {
        let files = [
            ("request_file", &self.request_file),
            ("ca_file", &self.ca_file),
            ("body_file", &self.body_file),
        ];
        files.into_iter().filter_map(|(key, path)| Some((key, path.as_ref()?)))
    }

    /// Puts what its files hold in their place: `read` returns the text of the file behind a key.
    ///
    /// # Errors
    /// Those of `read`, and mistakes in a file of requests.
    pub fn read_files<E: From<Problem>>(
        &mut self,
        mut read: impl FnMut(&'static str, &str) -> Result<String, E>,
    ) -> Result<(), E> {
        if let Some(path) = self.request_file.take() {
            self.request = parse_requests(&read("request_file", &path)?, &path)?;
        }
        if let Some(path) = self.ca_file.take() {
            self.ca = Some(read("ca_file", &path)?);
        }
        if let Some(path) = self.body_file.take() {
            self.body = Some(read("body_file", &path)?);
        }
        Ok(())
    }

    /// The requests to a server of the user's own, each with all that it has of the load; none for the files of our own service.
    pub fn own_requests(&self) -> Vec<WebRequest> {
        let of_path = self.path.iter().map(WebRequest::of);
        of_path.chain(self.request.iter().cloned()).map(|request| self.completed(request)).collect()
    }

    fn completed(&self, request: WebRequest) -> WebRequest {
        let says_length = request.length.is_some() || request.contains.is_some() || request.any_length;
        let mut headers = self.headers.clone();
        headers.extend(request.headers);
        WebRequest {
            method: request.method.or_else(|| self.method.clone()),
            headers,
            body: request.body.or_else(|| self.body.clone()),
            expect_status: request.expect_status.or(self.expect_status),
            contains: request.contains.or_else(|| self.contains.clone()),
            length: request.length.or(if says_length { None } else { self.length }),
            any_length: request.any_length || self.any_length,
            ..request
        }
    }

    /// Whether the guest has somebody who answers, and what is asked of whom.
    fn check_port(&self, name: &str, guest: &Guest, say: &mut Say<'_>) {
        let guest_name = &guest.name;
        if guest.pages.is_some() && !self.is_own_server() {
            let message = format!(
                "load `{name}` asks for the files of our web server, and guest `{guest_name}` serves its own `pages`"
            );
            say(message, "write what to ask for, such as `path = \"/\"` in `[load.web]`");
        }
        let own_port = guest.ready.as_ref().and_then(|ready| ready.port);
        let has_web = guest.serves(Role::Web);
        let is_own = !has_web || self.port.is_some_and(|port| port != self.service_port());
        if is_own && !self.is_own_server() {
            let message = format!(
                "load `{name}` asks guest `{guest_name}`'s own program for the files of our web server"
            );
            say(message, "write which path to ask for, such as `path = \"/\"` in `[load.web]`");
        }
        if has_web && !is_own && guest.pages.is_none() && self.is_own_server() {
            let message = format!(
                "load `{name}` asks for pages, and guest `{guest_name}` has no `pages`: its web server would not be started"
            );
            say(message, "give the guest `pages`, or leave `path` and `request` out of `[load.web]`");
        }
        if !has_web && self.port.is_none() && own_port.is_none() {
            let message = format!("load `{name}` is for guest `{guest_name}`, whose program names no port");
            say(message, "write `ready = { port = 9000 }` for the guest, or `port = 9000` in `[load.web]`");
        }
    }

    /// The port of our own service for it.
    pub const fn service_port(&self) -> u16 {
        if self.tls { TLS_PORT } else { PORT }
    }

    /// Bytes of all its requests, as it would have them in a plan.
    pub(super) fn request_bytes(&self) -> u64 {
        let own: u64 = self.request.iter().map(WebRequest::bytes).sum();
        let of = |text: &Option<String>| text.as_ref().map_or(0, String::len) as u64;
        own + of(&self.path) + of(&self.body) + of(&self.ca) + of(&self.contains)
    }

    /// What is wrong with it by itself, as message and remedy, for a load that is called `name`.
    pub fn check_alone(&self, name: &str, say: &mut Say<'_>) {
        web_check::check(self, name, say);
    }
}

/// A file of requests.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RequestFile {
    request: Vec<WebRequest>,
}

/// The longest file of requests, in bytes.
pub const REQUEST_FILE_BYTES_MAX: u64 = 512 << 10;

/// Reads a file of requests: TOML with a table `[[request]]` for each, with the keys of [`WebRequest`]. `origin` is its name, for messages.
///
/// # Errors
/// What is wrong with it: the line for a mistake of the format.
pub fn parse_requests(text: &str, origin: &str) -> Result<Vec<WebRequest>, Problem> {
    let remedy = "write a table `[[request]]` for each request, with `path` and, where needed, `weight`, `method`, `headers`, \
         `body`, `expect_status`, `contains`, `length` and `any_length`";
    if text.len() as u64 > REQUEST_FILE_BYTES_MAX {
        let message = format!("{origin}: {} bytes are too long for a file of requests", text.len());
        return Err(Problem::new(message, format!("write {REQUEST_FILE_BYTES_MAX} bytes at most")));
    }
    let file: RequestFile = toml::from_str(text).map_err(|error| {
        let line = error.span().map_or(1, |span| {
            text.as_bytes()[..span.start.min(text.len())].iter().filter(|byte| **byte == b'\n').count() + 1
        });
        let said: String = in_our_words(error.message()).chars().take(300).collect();
        Problem::new(format!("{origin}: line {line}: {}", tilemark_units::printable(&said)), remedy)
    })?;
    if file.request.is_empty() {
        return Err(Problem::new(format!("{origin}: it has no request"), remedy));
    }
    Ok(file.request)
}

impl Facts for WebParameters {
    fn role(&self) -> Role {
        Role::Web
    }

    fn fits(&self, role: Role) -> bool {
        role == Role::Web || role == Role::Program
    }

    fn port(&self) -> Option<u16> {
        self.port
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn can_swell(&self) -> bool {
        true
    }

    fn in_flight(&self, at: At) -> InFlight {
        InFlight::steady(at.connections.into(), "request")
    }

    fn connections(&self, at: At) -> u32 {
        at.connections
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        web_check::check(self, load.name, say);
        self.check_port(load.name, guest, say);
    }

    fn entries(&self) -> u64 {
        self.files.len() as u64 + self.request.len() as u64 + self.request_bytes() / BYTES_OF_ENTRY
    }

    fn shapes_service(&self) -> bool {
        true
    }

    fn frames_each(&self) -> u64 {
        FRAMES_EACH
    }

    fn texts_mut(&mut self) -> Vec<&mut String> {
        let Self {
            path, request, host, ca, headers, body, contains, request_file, ca_file, body_file, ..
        } = self;
        let files = [request_file, ca_file, body_file];
        let own = [path, host, ca, body, contains].into_iter().chain(files).filter_map(Option::as_mut);
        own.chain(headers.values_mut()).chain(request.iter_mut().flat_map(WebRequest::texts_mut)).collect()
    }

    fn emulated_seconds(&self) -> Option<f64> {
        if self.is_own_server() {
            // What it does is its own affair: it is taken for one that runs PHP for each request.
            return Some(super::sessions::PHP_EMULATED_SECONDS);
        }
        let weight: f64 = self.files.iter().map(|file| f64::from(file.weight)).sum();
        let bytes: f64 = self.files.iter().map(|file| file.size.get() as f64 * f64::from(file.weight)).sum();
        Some(1.9e-3 + 31e-9 * bytes / weight.max(1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_requests_is_read_and_its_mistakes_have_lines() {
        let text = "[[request]]\npath = \"/\"\nweight = 7\n[[request]]\nmethod = \"POST\"\npath = \"/search\"\nbody = 'q=1'\n";
        let requests = parse_requests(text, "r.toml").unwrap();
        assert_eq!((requests.len(), requests[0].weight, requests[1].weight), (2, 7, 1));
        assert_eq!(requests[1].body.as_deref(), Some("q=1"));
        for (text, wanted) in [
            ("", "`request` is missing"),
            ("request = []", "it has no request"),
            (
                "[[request]]\npath = \"/\"\nwieght = 2\n",
                "line 3: there is no key `wieght`. Did you mean `weight`?",
            ),
            ("[[request]]\nweight = 2\n", "`path` is missing"),
            ("[[request]\n", "r.toml: line 1"),
        ] {
            let problem = parse_requests(text, "r.toml").unwrap_err();
            assert!(problem.message.contains(wanted), "{wanted}: {}", problem.message);
        }
        let long = " ".repeat(REQUEST_FILE_BYTES_MAX as usize + 1);
        assert!(parse_requests(&long, "r.toml").unwrap_err().message.contains("too long"));
    }

    #[test]
    fn a_request_has_of_the_load_what_it_leaves_out() {
        let parameters = WebParameters {
            method: Some("POST".to_owned()),
            headers: [("A".to_owned(), "1".to_owned()), ("B".to_owned(), "1".to_owned())].into(),
            length: Some(Bytes::new(5)),
            request: vec![
                WebRequest { headers: [("B".to_owned(), "2".to_owned())].into(), ..WebRequest::of("/a") },
                WebRequest { method: Some("GET".to_owned()), any_length: true, ..WebRequest::of("/b") },
            ],
            ..WebParameters::default()
        };
        let requests = parameters.own_requests();
        assert_eq!(requests[0].method.as_deref(), Some("POST"));
        assert_eq!((&requests[0].headers["A"][..], &requests[0].headers["B"][..]), ("1", "2"));
        assert_eq!((requests[0].length, requests[1].length), (Some(Bytes::new(5)), None));
        assert_eq!(requests[1].method.as_deref(), Some("GET"));
    }
}
