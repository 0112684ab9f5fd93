//! A user's own pages: nginx's configuration and PHP's arguments. The load is that of the workload `web`.

use crate::{
    sessions::{self, tls_lines},
    store::MARIADB_SOCKET,
    web::{PORT, nginx_conf_with},
};
use std::path::{Path, PathBuf};
use tilemark_plan::workload::WebParameters;

/// What to send from inside to see that nginx and PHP answer.
pub const READY_REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n";

/// What PHP is given beside [`sessions::php_arguments`]: where the guest's own database listens.
const SOCKET_SETTINGS: [&str; 2] = ["mysqli.default_socket", "pdo_mysql.default_socket"];

/// Parameters of a request as PHP knows them (the CGI names of RFC 3875, and those that PHP adds).
const FASTCGI: [(&str, &str); 17] = [
    ("SCRIPT_FILENAME", "$document_root$fastcgi_script_name"),
    ("SCRIPT_NAME", "$fastcgi_script_name"),
    ("QUERY_STRING", "$query_string"),
    ("REQUEST_METHOD", "$request_method"),
    ("REQUEST_URI", "$request_uri"),
    ("REQUEST_SCHEME", "$scheme"),
    ("CONTENT_TYPE", "$content_type"),
    ("CONTENT_LENGTH", "$content_length"),
    ("DOCUMENT_URI", "$document_uri"),
    ("DOCUMENT_ROOT", "$document_root"),
    ("GATEWAY_INTERFACE", "CGI/1.1"),
    ("SERVER_PROTOCOL", "$server_protocol"),
    ("SERVER_ADDR", "$server_addr"),
    ("SERVER_PORT", "$server_port"),
    ("SERVER_NAME", "$server_name"),
    ("REMOTE_ADDR", "$remote_addr"),
    // PHP refuses requests without it where it was built to.
    ("REDIRECT_STATUS", "200"),
];

/// Where PHP listens, with its configuration ([`sessions::php_conf`]) in `state`.
pub fn php_socket(state: &Path) -> PathBuf {
    state.join("php.sock")
}

/// nginx's configuration for pages in `folder`: a file as it is, `.php` by PHP, and what is no file by `index.php`, as blogs and shops
/// want it.
pub fn nginx_conf(parameters: &WebParameters, workers: u32, folder: &Path, state: &Path) -> String {
    let tls = if parameters.tls { tls_lines(state) } else { String::new() };
    let https = "            fastcgi_param HTTPS $https if_not_empty;\n";
    let all: String =
        FASTCGI.iter().map(|(name, value)| format!("            fastcgi_param {name} {value};\n")).collect();
    let socket = php_socket(state);
    let server = format!(
        "{tls}        index index.php index.html;
        location / {{
            try_files $uri $uri/ /index.php$is_args$args;
        }}
        location ~ \\.php$ {{
            try_files $uri =404;
            fastcgi_pass unix:{};
{all}{https}        }}
",
        socket.display()
    );
    nginx_conf_with(workers, PORT, folder, state, &server)
}

/// PHP's arguments, for a configuration at `conf`.
pub fn php_arguments(conf: &Path) -> Vec<String> {
    let settings =
        SOCKET_SETTINGS.iter().flat_map(|name| ["-d".to_owned(), format!("{name}={MARIADB_SOCKET}")]);
    sessions::php_arguments(conf).into_iter().chain(settings).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_served_from_their_folder_and_over_tls_where_the_load_wants_it() {
        let conf = |tls| {
            let parameters = WebParameters { tls, ..WebParameters::default() };
            nginx_conf(&parameters, 2, Path::new("/srv/shop"), Path::new("/run/state"))
        };
        let plain = conf(false);
        for line in ["root /srv/shop;", "location ~ \\.php$ {", "fastcgi_pass unix:/run/state/php.sock;"] {
            assert!(plain.contains(line), "{line} is missing in {plain}");
        }
        assert!(!plain.contains("ssl") && conf(true).contains("listen 443 ssl"));
        let arguments = php_arguments(Path::new("/run/state/php.conf"));
        assert_eq!(arguments.last().unwrap(), "pdo_mysql.default_socket=/run/tilemark/mariadb.sock");
    }
}
