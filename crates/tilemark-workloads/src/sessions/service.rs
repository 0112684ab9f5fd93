//! The service: nginx's and PHP's configurations, the page's script, and files.

use super::BACK_END_PORT;
use crate::web::{PORT, ServiceFile, file_path, fill_body, nginx_conf_with};
use std::{collections::BTreeSet, path::Path};
use tilemark_plan::workload::Site;

/// The program.
pub const PHP_FPM: &str = "/usr/sbin/php-fpm8.2";
/// The file with the address of the back end.
pub const ASKS: &str = "/run/tilemark/asks";
/// Processes of PHP for each processor of the guest. A page waits for the back end, so that one each would idle.
const PHP_FOR_EACH_PROCESSOR: u32 = 4;
/// The port of a site over TLS.
const TLS_PORT: u16 = 443;
const CERTIFICATE: &str = "site.crt";
const KEY: &str = "site.key";
const SCRIPT: &str = include_str!("page.php");

/// The sizes of a site's files, each once, rising.
pub(super) fn file_sizes(site: &Site) -> BTreeSet<u64> {
    site.page.values().flat_map(|page| &page.files).map(|file| file.size.get()).collect()
}

/// Every file that the service must hold.
pub fn site_files(site: &Site) -> Vec<ServiceFile> {
    let filled = |path: String, bytes: u64| {
        let mut contents = vec![0; usize::try_from(bytes).expect("at most 64 MiB, checked")];
        fill_body(&mut contents);
        ServiceFile { path, contents }
    };
    let longest = site.page.values().map(|page| page.bytes.get()).max().unwrap_or(0);
    let script = SCRIPT.replace("@ASKS@", ASKS).replace("@PORT@", &BACK_END_PORT.to_string());
    let made = [
        filled("padding.bin".to_owned(), longest),
        ServiceFile { path: "page.php".to_owned(), contents: script.into_bytes() },
    ];
    let files = file_sizes(site).into_iter().map(|size| filled(file_path(size)[1..].to_owned(), size));
    made.into_iter().chain(files).collect()
}

/// Where users come to the site.
pub const fn site_port(site: &Site) -> u16 {
    if site.tls { TLS_PORT } else { PORT }
}

/// A certificate that its own key has signed, with the key, for a site over TLS: files for the folder of its configuration.
pub fn certificate() -> [ServiceFile; 2] {
    let made = rcgen::generate_simple_self_signed(["guest".to_owned()])
        .expect("the name is plain, and the kernel has had its entropy from the host");
    let file = |path: &str, text: String| ServiceFile { path: path.to_owned(), contents: text.into_bytes() };
    [file(CERTIFICATE, made.cert.pem()), file(KEY, made.signing_key.serialize_pem())]
}

/// The lines of nginx's server with which it speaks TLS too, with the files of [`certificate`] in `state`.
pub(crate) fn tls_lines(state: &Path) -> String {
    format!(
        "        listen {TLS_PORT} ssl default_server backlog=4096;
        ssl_protocols TLSv1.3;
        ssl_certificate {0}/{CERTIFICATE};
        ssl_certificate_key {0}/{KEY};
",
        state.display()
    )
}

/// nginx's configuration; see [`crate::web::nginx_conf`]. Its port without TLS is there too where users come over TLS: PHP is asked on it whether it serves.
pub fn site_conf(site: &Site, workers: u32, root: &Path, state: &Path) -> String {
    let socket = state.join("php.sock");
    let tls = if site.tls { tls_lines(state) } else { String::new() };
    let server = format!(
        "{tls}        if_modified_since before;
        location = /page.php {{
            fastcgi_pass unix:{};
            fastcgi_param SCRIPT_FILENAME {}/page.php;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_read_timeout 1h;
        }}
",
        socket.display(),
        root.display()
    );
    nginx_conf_with(workers, PORT, root, state, &server)
}

/// PHP's configuration, for a guest with so many processors. In the foreground, as root like nginx, no log of pages.
pub fn php_conf(processors: u32, state: &Path) -> String {
    let state = state.display();
    format!(
        "[global]
daemonize = no
error_log = /proc/self/fd/2
[www]
user = root
group = root
listen = {state}/php.sock
listen.backlog = 4096
pm = static
pm.max_children = {}
pm.max_requests = 0
",
        processors * PHP_FOR_EACH_PROCESSOR
    )
}

/// PHP's arguments, for a configuration at `conf`. It stays in the foreground.
pub fn php_arguments(conf: &Path) -> Vec<String> {
    ["--nodaemonize", "--allow-to-run-as-root", "--fpm-config", &conf.display().to_string()]
        .map(str::to_owned)
        .to_vec()
}

/// The status of PHP's answer to [`ready_request`].
pub const READY_STATUS: &str = "400";

/// What to send from inside to see that nginx and PHP serve: no page is counted, since the session is none, and PHP refuses it.
pub fn ready_request() -> Vec<u8> {
    b"GET /page.php HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n".to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::workload::{SessionShape, SessionsParameters};

    #[test]
    fn a_bank_is_served_over_tls_and_a_shop_without() {
        let conf = |shape| {
            let site = SessionsParameters { shape, ..SessionsParameters::default() }.site();
            (site_port(&site), site_conf(&site, 1, Path::new("/root"), Path::new("/state")))
        };
        let (port, bank) = conf(SessionShape::Bank);
        assert_eq!(port, TLS_PORT);
        assert!(
            bank.contains("listen 443 ssl") && bank.contains("ssl_certificate_key /state/site.key"),
            "{bank}"
        );
        let (port, shop) = conf(SessionShape::Shop);
        assert_eq!(port, PORT);
        assert!(!shop.contains("ssl"), "{shop}");
        let [certificate, key] = certificate().map(|file| String::from_utf8(file.contents).unwrap());
        assert!(
            certificate.starts_with("-----BEGIN CERTIFICATE") && key.starts_with("-----BEGIN PRIVATE KEY")
        );
    }
}
