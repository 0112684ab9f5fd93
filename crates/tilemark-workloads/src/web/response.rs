//! The head of an HTTP/1.1 answer.

/// The longest head that is read: what servers themselves allow a request.
pub(crate) const HEAD_BYTES_MAX: usize = 16 * 1024;
/// The most header lines that are read.
const HEADERS_MAX: usize = 64;

/// The answer to a request for a file that the client has and that has not changed: it has no body.
pub(crate) const NOT_MODIFIED: u16 = 304;

/// The answer that has no body.
const NO_CONTENT: u16 = 204;

/// What matters of a head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes of the head, with its empty line.
    pub(crate) bytes: usize,
    pub(crate) status: u16,
    /// Bytes of the body; none where it comes in chunks.
    pub(crate) content_length: u64,
    /// The body comes in chunks.
    pub(crate) is_chunked: bool,
    pub(crate) after: After,
}

/// What the server does after the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    Keep,
    Close,
}

/// A head that we can't follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadHead {
    Malformed,
    TooLong,
    Encoding,
    NoLength,
}

impl BadHead {
    pub(crate) const fn text(self) -> &'static str {
        match self {
            Self::Malformed => "the answer is not HTTP/1.x",
            Self::TooLong => "the answer's head is longer than 16 KiB or 64 lines",
            Self::Encoding => "the answer has a Transfer-Encoding other than chunked",
            Self::NoLength => "the answer has neither Content-Length nor chunks",
        }
    }
}

/// Reads a head at the start of `bytes`. `None`: it is not whole yet.
pub(crate) fn parse(bytes: &[u8]) -> Result<Option<Head>, BadHead> {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut response = httparse::Response::new(&mut headers);
    let length = match response.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => return Err(BadHead::TooLong),
        Err(_) => return Err(BadHead::Malformed),
    };
    // HTTP/1.0 closes unless it says otherwise; we never ask it to keep.
    let mut after = if response.version == Some(1) { After::Keep } else { After::Close };
    let (mut content_length, mut is_chunked) = (None, false);
    for header in response.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            content_length = Some(number(header.value).ok_or(BadHead::Malformed)?);
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            if !header.value.eq_ignore_ascii_case(b"chunked") {
                return Err(BadHead::Encoding);
            }
            is_chunked = true;
        } else if header.name.eq_ignore_ascii_case("connection")
            && header.value.eq_ignore_ascii_case(b"close")
        {
            after = After::Close;
        }
    }
    let status = response.code.ok_or(BadHead::Malformed)?;
    // It says how long the body would be that it does not have.
    let has_body = status != NOT_MODIFIED && status != NO_CONTENT;
    let content_length = match content_length {
        _ if !has_body || is_chunked => 0,
        Some(length) => length,
        None => return Err(BadHead::NoLength),
    };
    Ok(Some(Head { bytes: length, status, content_length, is_chunked: is_chunked && has_body, after }))
}

fn number(digits: &[u8]) -> Option<u64> {
    // 18 digits stay below 2^63.
    if digits.is_empty() || digits.len() > 18 || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    Some(digits.iter().fold(0, |sum, digit| sum * 10 + u64::from(digit - b'0')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_is_read_once_it_is_whole() {
        let text =
            b"HTTP/1.1 200 OK\r\nServer: x\r\nContent-Length: 12\r\nConnection: keep-alive\r\n\r\nbody";
        let length = text.len() - 4;
        for cut in 0..length {
            assert_eq!(parse(&text[..cut]), Ok(None), "{cut}");
        }
        let head =
            Head { bytes: length, status: 200, content_length: 12, is_chunked: false, after: After::Keep };
        assert_eq!(parse(text), Ok(Some(head)));
    }

    #[test]
    fn heads_that_cannot_be_followed_say_why() {
        let of = |rest: &str| parse(format!("HTTP/1.1 200 OK\r\n{rest}\r\n\r\n").as_bytes());
        assert_eq!(of("Transfer-Encoding: gzip, chunked"), Err(BadHead::Encoding));
        assert!(of("Transfer-Encoding: Chunked").unwrap().unwrap().is_chunked);
        assert_eq!(of("Server: x"), Err(BadHead::NoLength));
        let unchanged = parse(b"HTTP/1.1 304 Not Modified\r\nServer: x\r\n\r\n").unwrap().unwrap();
        assert_eq!((unchanged.status, unchanged.content_length), (NOT_MODIFIED, 0));
        assert_eq!(of("Content-Length: -1"), Err(BadHead::Malformed));
        assert_eq!(parse(b"SSH-2.0-OpenSSH\r\n\r\n"), Err(BadHead::Malformed));
        assert_eq!(
            parse(&[&b"HTTP/1.1 200 OK\r\nX: "[..], &[b'a'; HEAD_BYTES_MAX]].concat()),
            Err(BadHead::TooLong)
        );
    }

    #[test]
    fn a_server_that_will_close_is_believed() {
        let close = parse(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
        assert_eq!(close.unwrap().unwrap().after, After::Close);
        let old = parse(b"HTTP/1.0 200 OK\r\nContent-Length: 0\r\n\r\n");
        assert_eq!(old.unwrap().unwrap().after, After::Close);
    }
}
