//! The service: files, nginx's configuration and command line.

use super::fill_body;
use crate::WorkloadError;
use std::path::Path;
use tilemark_plan::workload::WebParameters;

/// The port that the service listens on.
pub const PORT: u16 = 80;
/// The program.
pub const NGINX: &str = "/usr/sbin/nginx";

/// One file that the service must hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceFile {
    /// Name below the root of the served tree, without a leading `/`.
    pub path: String,
    /// Its bytes.
    pub contents: Vec<u8>,
}

/// Path, as in a URL, of the file of `size` bytes.
pub fn file_path(size: u64) -> String {
    format!("/{size}.bin")
}

/// Every file of the mix, once. None for a server that is not ours.
pub fn service_files(parameters: &WebParameters) -> Result<Vec<ServiceFile>, WorkloadError> {
    if parameters.is_own_server() {
        return Ok(Vec::new());
    }
    let sizes = sizes(parameters)?;
    let file = |size: &u64| {
        let mut contents = vec![0; usize::try_from(*size).expect("at most 64 MiB, checked")];
        fill_body(&mut contents);
        ServiceFile { path: file_path(*size)[1..].to_owned(), contents }
    };
    Ok(sizes.iter().map(file).collect())
}

/// The sizes of a mix, each once, rising.
pub(super) fn sizes(parameters: &WebParameters) -> Result<Vec<u64>, WorkloadError> {
    if parameters.files.iter().all(|file| file.weight == 0) {
        return Err(WorkloadError::NoFiles);
    }
    let sizes: std::collections::BTreeSet<u64> =
        parameters.files.iter().map(|file| file.size.get()).collect();
    let bytes = sizes.iter().fold(0_u64, |sum, size| sum.saturating_add(*size));
    let limit = WebParameters::FILES_MAX.get();
    if bytes > limit {
        return Err(WorkloadError::FilesTooLarge { bytes, limit });
    }
    Ok(sizes.into_iter().collect())
}

/// nginx's configuration: `workers` processes (one for each processor of the guest), the tree `root`, all
/// that nginx writes in `state`, which must exist. In the foreground, as root, no log: what a page costs is
/// the page.
pub fn nginx_conf(workers: u32, port: u16, root: &Path, state: &Path) -> String {
    nginx_conf_with(workers, port, root, state, "")
}

/// The same for a load's parameters: with TLS on its own port too, where the load uses TLS.
pub fn service_conf(parameters: &WebParameters, workers: u32, root: &Path, state: &Path) -> String {
    let tls = if parameters.tls { crate::sessions::tls_lines(state) } else { String::new() };
    nginx_conf_with(workers, PORT, root, state, &tls)
}

/// The same, with more lines for its server.
pub(crate) fn nginx_conf_with(workers: u32, port: u16, root: &Path, state: &Path, server: &str) -> String {
    let (root, state) = (root.display(), state.display());
    // A connection of the load is kept for a whole run: the limits of requests and time are out of reach.
    // Not `tcp_nopush`: with it, the end of an 8 KiB file on a kept connection waited for the client's delayed
    // acknowledgement, and p99 was 43 ms instead of 0.2 ms on an idle host.
    format!(
        "daemon off;
user root;
worker_processes {workers};
worker_rlimit_nofile 8192;
pid {state}/nginx.pid;
error_log stderr warn;
events {{
    worker_connections 4096;
    multi_accept on;
}}
http {{
    access_log off;
    log_not_found off;
    server_tokens off;
    default_type application/octet-stream;
    sendfile on;
    tcp_nodelay on;
    keepalive_timeout 1h;
    # A connection may wait for its first request as long as for the next one, and a busy client for its answer.
    client_header_timeout 1h;
    send_timeout 1h;
    keepalive_requests 1000000000;
    reset_timedout_connection on;
    open_file_cache max=256 inactive=1h;
    open_file_cache_valid 1h;
    client_body_temp_path {state}/body;
    proxy_temp_path {state}/proxy;
    fastcgi_temp_path {state}/fastcgi;
    uwsgi_temp_path {state}/uwsgi;
    scgi_temp_path {state}/scgi;
    server {{
        listen {port} default_server backlog=4096;
        root {root};
{server}    }}
}}
"
    )
}

/// nginx's arguments, for a configuration at `conf`. It stays in the foreground.
pub fn nginx_arguments(conf: &Path) -> Vec<String> {
    // The early error log is opened before the configuration is read: not in a folder that may be read-only.
    ["-c", &conf.display().to_string(), "-e", "stderr"].map(str::to_owned).to_vec()
}

/// What to send from inside to see that the service serves: it is ready when the answer to this begins with
/// `HTTP/1.1 200`.
pub fn ready_request(parameters: &WebParameters) -> Result<Vec<u8>, WorkloadError> {
    let path = match parameters.own_requests().first() {
        Some(request) => request.path.clone(),
        None => file_path(sizes(parameters)?[0]),
    };
    Ok(format!("GET {path} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n").into_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::workload::WebFile;
    use tilemark_units::Bytes;

    fn mix(files: &[(u64, u32)]) -> WebParameters {
        let file = |(size, weight): &(u64, u32)| WebFile { size: Bytes::new(*size), weight: *weight };
        WebParameters { files: files.iter().map(file).collect(), ..WebParameters::default() }
    }

    #[test]
    fn each_size_is_one_file_of_that_length() {
        let files = service_files(&mix(&[(1024, 3), (10, 1), (1024, 1)])).unwrap();
        let reported: Vec<(&str, usize)> =
            files.iter().map(|file| (&file.path[..], file.contents.len())).collect();
        assert_eq!(reported, [("10.bin", 10), ("1024.bin", 1024)]);
    }

    #[test]
    fn a_mix_that_serves_nothing_or_too_much_is_refused() {
        assert!(matches!(service_files(&mix(&[(1, 0)])), Err(WorkloadError::NoFiles)));
        assert!(matches!(service_files(&mix(&[])), Err(WorkloadError::NoFiles)));
        let huge = service_files(&mix(&[(u64::MAX, 1), (5, 1)]));
        assert!(matches!(huge, Err(WorkloadError::FilesTooLarge { .. })));
    }

    #[test]
    fn the_configuration_names_port_tree_and_workers() {
        let conf = nginx_conf(2, 8080, Path::new("/srv/web"), Path::new("/run/web"));
        for line in
            ["worker_processes 2;", "listen 8080 default_server", "root /srv/web;", "pid /run/web/nginx.pid;"]
        {
            assert!(conf.contains(line), "{line} is missing in {conf}");
        }
    }
}
