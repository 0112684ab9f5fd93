//! What a load `web` cannot ask.

use super::web::{WebParameters, WebRequest};
use crate::problem::Say;
use std::collections::{BTreeMap, BTreeSet};
use tilemark_units::Bytes;

/// Sizes of files in one mix.
const FILES_MAX: usize = 1_000;
/// One file: it is made in the guest's memory, and read into ours.
const FILE_MAX: Bytes = WebParameters::FILES_MAX;
/// Requests of one load.
const REQUESTS_MAX: usize = 10_000;
/// A path or a header: as much as servers take of a request line.
const TEXT_MAX: usize = 8_000;
/// Bytes of all requests of a load: they travel to the load's process in one piece.
const REQUEST_BYTES_MAX: u64 = 512 << 10;
/// Headers that follow from other keys, or would change what an answer is.
const HEADERS_OF_OURS: [(&str, &str); 5] = [
    ("host", "use the key `host`"),
    ("content-length", "it is sent with `body`"),
    ("transfer-encoding", "a `body` is sent with its length"),
    ("expect", "a `body` is sent at once"),
    ("upgrade", "only HTTP/1.1 is spoken"),
];

pub(super) fn check(web: &WebParameters, name: &str, say: &mut Say<'_>) {
    check_given_once(web, name, say);
    check_files(web, name, say);
    check_server(web, name, say);
    if !web.is_own_server() {
        return check_built_in(web, name, say);
    }
    if web.path.is_some() && (!web.request.is_empty() || web.request_file.is_some()) {
        say(format!("load `{name}` has `path` and `request`"), "leave out one of the two");
    }
    if web.request.len() > REQUESTS_MAX {
        say(format!("load `{name}` has {} requests", web.request.len()), "write 10000 at most");
        return;
    }
    let bytes = web.request_bytes();
    if bytes > REQUEST_BYTES_MAX {
        say(format!("the requests of load `{name}` have {bytes} bytes"), "write 512 KiB at most in all");
    }
    let requests = web.own_requests();
    // A file of requests is read later, and checked again then.
    if web.request_file.is_none() && requests.iter().all(|request| request.weight == 0) {
        say(format!("load `{name}` sends no request"), "give a request a `weight` of 1 or more");
    }
    for request in &requests {
        if let Some((message, remedy)) = mistake(request) {
            // A mistake of the load's own keys is one of each request, and is reported once.
            say(format!("load `{name}`: {message}"), remedy);
            break;
        }
    }
}

/// A text is in the scenario or in a file.
fn check_given_once(web: &WebParameters, name: &str, say: &mut Say<'_>) {
    for (key, is_given, of_file) in [
        ("request", !web.request.is_empty(), &web.request_file),
        ("ca", web.ca.is_some(), &web.ca_file),
        ("body", web.body.is_some(), &web.body_file),
    ] {
        if is_given && of_file.is_some() {
            say(format!("load `{name}` has `{key}` and `{key}_file`"), "leave out one of the two");
        }
        if of_file.as_ref().is_some_and(|path| path.is_empty() || path.contains('\0')) {
            say(format!("load `{name}`: `{key}_file` is not a path"), "write the path of a file");
        }
    }
}

fn check_files(web: &WebParameters, name: &str, say: &mut Say<'_>) {
    if web.files.len() > FILES_MAX {
        say(format!("load `{name}` has {} files", web.files.len()), "use 1000 sizes at most");
    }
    if let Some(file) = web.files.iter().find(|file| file.size > FILE_MAX) {
        say(format!("load `{name}` asks for a file of {}", file.size), "use files of 64MiB at most");
    }
    let sizes: BTreeSet<Bytes> = web.files.iter().map(|file| file.size).collect();
    let all = sizes.iter().fold(0, |sum: u64, size| sum.saturating_add(size.get()));
    if sizes.iter().all(|size| *size <= FILE_MAX) && all > WebParameters::FILES_MAX.get() {
        say(
            format!("load `{name}` asks for files of {} in all", Bytes::new(all)),
            "use files of 64MiB together at most: the guest keeps them in its memory",
        );
    }
    if web.files.iter().all(|file| file.weight == 0) {
        say(format!("load `{name}` asks for no file"), "give a file a `weight` of 1 or more");
    }
}

fn check_server(web: &WebParameters, name: &str, say: &mut Say<'_>) {
    if let Some(host) = web.host.as_ref().filter(|host| !is_host(host)) {
        say(
            format!("load `{name}`: {host:?} is not a valid host"),
            "write a name such as `shop.example`, or an address, with `:PORT` where the server wants it",
        );
    }
    if web.port == Some(0) {
        say(format!("load `{name}`: `port = 0` is not a port"), "write 1 to 65535");
    }
    let chooses = web.ca.is_some() || web.ca_file.is_some() || web.insecure;
    if chooses && !web.tls {
        say(format!("load `{name}` has `ca` or `insecure` without `tls`"), "write `tls = true`");
    }
    if (web.ca.is_some() || web.ca_file.is_some()) && web.insecure {
        say(format!("load `{name}` has `ca` and `insecure`"), "leave out one of the two");
    }
    if web.ca.as_ref().is_some_and(|ca| !ca.contains("-----BEGIN CERTIFICATE-----")) {
        say(
            format!("load `{name}`: `ca` holds no certificate"),
            "write PEM text, which has `-----BEGIN CERTIFICATE-----`",
        );
    }
    if web.tls && web.is_own_server() && !chooses {
        say(
            format!("load `{name}` does not say which certificates it accepts"),
            "give the authority's certificate with `ca`, or write `insecure = true` to accept any",
        );
    }
}

/// The files of our own service take none of what only a server of the user's own is asked.
fn check_built_in(web: &WebParameters, name: &str, say: &mut Say<'_>) {
    let given = [
        ("port", web.port.is_some()),
        ("ca", web.ca.is_some()),
        ("ca_file", web.ca_file.is_some()),
        ("insecure", web.insecure),
        ("method", web.method.is_some()),
        ("headers", !web.headers.is_empty()),
        ("body", web.body.is_some()),
        ("body_file", web.body_file.is_some()),
        ("expect_status", web.expect_status.is_some()),
        ("contains", web.contains.is_some()),
        ("length", web.length.is_some()),
        ("any_length", web.any_length),
    ];
    let keys: Vec<String> =
        given.iter().filter(|(_, is_given)| *is_given).map(|(key, _)| format!("`{key}`")).collect();
    if !keys.is_empty() {
        say(
            format!("load `{name}` has {} and asks for the files of our own service", keys.join(", ")),
            "give it a `path` or `request` of a server of your own, or leave them out",
        );
    }
}

fn mistake(request: &WebRequest) -> Option<(String, &'static str)> {
    path_mistake(&request.path)
        .or_else(|| request.method.as_deref().and_then(method_mistake))
        .or_else(|| header_mistake(&request.headers))
        .or_else(|| answer_mistake(request))
}

fn path_mistake(path: &str) -> Option<(String, &'static str)> {
    let is_path = path.starts_with('/') || path.starts_with("http://");
    let is_plain = path.bytes().all(|byte| byte > b' ' && byte < 0x7f && byte != b'#');
    (!is_path || !is_plain || path.len() > TEXT_MAX).then(|| {
        let shown: String = path.chars().take(80).collect();
        let message = format!("{shown:?} is not a valid path of a URL");
        (message, "begin it with `/`; write spaces, `#` and what is not ASCII as %20, %23 and so on")
    })
}

fn method_mistake(method: &str) -> Option<(String, &'static str)> {
    let is_word =
        (1..=20).contains(&method.len()) && method.bytes().all(|b| b.is_ascii_uppercase() || b == b'-');
    (!is_word || method == "CONNECT" || method == "TRACE").then(|| {
        let message = format!("{method:?} is not a method that can be sent");
        (message, "write GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS or another in capital letters")
    })
}

fn header_mistake(headers: &BTreeMap<String, String>) -> Option<(String, &'static str)> {
    headers.iter().find_map(|(name, value)| {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Some((format!("{name:?} is not the name of a header"), "use letters, digits and `-`"));
        }
        if name.len() + value.len() > TEXT_MAX || value.bytes().any(|byte| byte < b' ' || byte == 0x7f) {
            let message = format!("the value of header `{name}` holds a control character or is too long");
            return Some((message, "write one line of 8000 bytes at most"));
        }
        let ours = HEADERS_OF_OURS.iter().find(|(ours, _)| name.eq_ignore_ascii_case(ours))?;
        Some((format!("header `{name}` cannot be given"), ours.1))
    })
}

fn answer_mistake(request: &WebRequest) -> Option<(String, &'static str)> {
    if let Some(status) = request.expect_status.filter(|status| !(200..600).contains(status)) {
        return Some((
            format!("`expect_status = {status}` is not a valid status of an answer"),
            "write 200 to 599",
        ));
    }
    if request.contains.as_ref().is_some_and(|text| text.is_empty() || text.len() > TEXT_MAX) {
        let message = "`contains` is empty or too long".to_owned();
        return Some((message, "write 1 to 8000 bytes"));
    }
    if request.length.is_some() && request.any_length {
        return Some(("`length` and `any_length` are given".to_owned(), "leave out one of the two"));
    }
    let is_head = request.method.as_deref() == Some("HEAD");
    (is_head && (request.contains.is_some() || request.length.is_some())).then(|| {
        let message = "an answer to HEAD has no body".to_owned();
        (message, "leave out `contains` and `length`")
    })
}

/// A name or an address, with a port or without one.
fn is_host(host: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    (1..=260).contains(&host.len()) && host.bytes().all(is_plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(web: &WebParameters) -> String {
        let mut all = String::new();
        check(web, "w", &mut |message, remedy| all += &format!("{message} ({remedy})\n"));
        all
    }
    fn of(json: serde_json::Value) -> String {
        said(&serde_json::from_value(json).unwrap())
    }

    #[test]
    fn what_a_web_load_cannot_ask_is_named() {
        use serde_json::json;
        assert_eq!(of(json!({})), "");
        assert_eq!(of(json!({ "tls": true, "host": "shop.example" })), "");
        assert_eq!(of(json!({ "path": "/a?b=%20", "tls": true, "insecure": true, "port": 8443 })), "");
        for (web, wanted) in [
            (json!({ "path": "/", "request": [{ "path": "/" }] }), "has `path` and `request`"),
            (json!({ "path": "a" }), "\"a\" is not a valid path"),
            (json!({ "path": "/a b" }), "is not a valid path"),
            (json!({ "request": [{ "path": "/", "weight": 0 }] }), "sends no request"),
            (json!({ "path": "/", "method": "get" }), "\"get\" is not a method"),
            (json!({ "path": "/", "method": "CONNECT" }), "is not a method"),
            (json!({ "path": "/", "headers": { "A b": "c" } }), "is not the name of a header"),
            (json!({ "path": "/", "headers": { "A": "c\r\nD: e" } }), "control character"),
            (json!({ "path": "/", "headers": { "hOst": "c" } }), "use the key `host`"),
            (json!({ "path": "/", "expect_status": 99 }), "`expect_status = 99`"),
            (json!({ "path": "/", "contains": "" }), "`contains` is empty"),
            (json!({ "path": "/", "length": "1KiB", "any_length": true }), "leave out one of the two"),
            (json!({ "path": "/", "method": "HEAD", "contains": "a" }), "HEAD has no body"),
            (json!({ "path": "/", "port": 0 }), "`port = 0`"),
            (json!({ "path": "/", "host": "a b" }), "not a valid host"),
            (json!({ "path": "/", "tls": true }), "does not say which certificates"),
            (json!({ "path": "/", "insecure": true }), "without `tls`"),
            (json!({ "path": "/", "tls": true, "ca": "x" }), "`ca` holds no certificate"),
            (json!({ "method": "POST", "body": "x" }), "has `method`, `body` and asks for the files"),
            (json!({ "files": [{ "size": "65MiB", "weight": 1 }] }), "asks for a file of 65MiB"),
        ] {
            let said = of(web);
            assert!(said.contains(wanted) && said.lines().count() == 1, "{wanted}: {said}");
        }
    }
}
