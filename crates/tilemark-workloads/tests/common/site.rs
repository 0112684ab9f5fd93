//! A site of sessions in memory, as cheap as can be: nginx, PHP and the back end in one.

use std::{
    collections::HashMap,
    io::{BufRead, BufReader, Write},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex, PoisonError},
    thread,
};
use tilemark_plan::workload::Site;
use tilemark_workloads::web::{file_path, fill_body};

/// How it behaves.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Manners {
    /// Every so manieth answer is cut in its middle, and the connection closed. 0: none.
    pub(crate) cut_each: u32,
}

/// What each session has asked: pages and the sum of their values.
type Sessions = Mutex<HashMap<String, (u64, u64)>>;

/// What the site serves: files by their paths, and what follows the first line of a page.
struct Bodies {
    files: HashMap<String, Vec<u8>>,
    padding: Vec<u8>,
}

impl Bodies {
    fn of(site: &Site) -> Self {
        let filled = |bytes: u64| {
            let mut body = vec![0; bytes as usize];
            fill_body(&mut body);
            body
        };
        let sizes = site.page.values().flat_map(|page| &page.files).map(|file| file.size.get());
        let longest = site.page.values().map(|page| page.bytes.get()).max().expect("it has pages");
        Self { files: sizes.map(|size| (file_path(size), filled(size))).collect(), padding: filled(longest) }
    }
}

/// Serves as long as the process lives.
pub(crate) fn serve(listener: &TcpListener, site: &Site, manners: Manners) {
    let (bodies, sessions) = (Arc::new(Bodies::of(site)), Arc::new(Sessions::default()));
    for stream in listener.incoming().flatten() {
        let (bodies, sessions) = (Arc::clone(&bodies), Arc::clone(&sessions));
        // It ends when its client does.
        thread::spawn(move || answer_all(&stream, &bodies, &sessions, manners));
    }
}

fn answer_all(
    stream: &TcpStream,
    bodies: &Bodies,
    sessions: &Sessions,
    manners: Manners,
) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let (mut lines, mut line, mut out) = (BufReader::new(stream), String::new(), Vec::new());
    for number in 1_u32.. {
        line.clear();
        if lines.read_line(&mut line)? == 0 {
            return Ok(());
        }
        let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
        let mut is_kept = false;
        while line != "\r\n" {
            line.clear();
            lines.read_line(&mut line)?;
            is_kept |= line.starts_with("If-Modified-Since");
        }
        out.clear();
        if is_kept {
            out.extend_from_slice(b"HTTP/1.1 304 Not Modified\r\n\r\n");
        } else if let Some((_, query)) = path.split_once('?') {
            let first = first_line(query, sessions);
            let bytes: usize = value(query, "bytes").parse().unwrap_or(0);
            write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{first}", first.len() + bytes)?;
            out.extend_from_slice(&bodies.padding[..bytes]);
        } else {
            let body = bodies.files.get(&path).map(Vec::as_slice).unwrap_or_default();
            write!(out, "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len())?;
            out.extend_from_slice(body);
        }
        if manners.cut_each > 0 && number.is_multiple_of(manners.cut_each) {
            return (&mut &*stream).write_all(&out[..out.len() / 2]);
        }
        (&mut &*stream).write_all(&out)?;
    }
    Ok(())
}

fn value<'a>(query: &'a str, name: &str) -> &'a str {
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.filter(|(key, _)| *key == name).map(|(_, value)| value).next().unwrap_or_default()
}

fn first_line(query: &str, sessions: &Sessions) -> String {
    let (session, page) = (value(query, "session"), value(query, "page"));
    let mut sessions = sessions.lock().unwrap_or_else(PoisonError::into_inner);
    let (pages, sum) = sessions.entry(session.to_owned()).or_default();
    *pages += 1;
    *sum += value(query, "value").parse::<u64>().unwrap_or(0);
    format!("session {session} page {page} is number {pages} with a sum of {sum}\n")
}
