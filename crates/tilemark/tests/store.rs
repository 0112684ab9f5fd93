//! The online store by command, on real servers: filled, loaded, audited; and what is refused, without passwords.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;
#[path = "../../tilemark-store/tests/common/mod.rs"]
mod servers;

use common::{Home, Said, TILEMARK, words};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    process::{Command, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};
use tilemark_store::{DatabaseAddress, DatabaseKind, Endpoint};

/// The address as a user writes it.
fn url(address: &DatabaseAddress, user: &str) -> String {
    let Endpoint::Socket { path, .. } = &address.endpoint else { panic!("servers of tests have sockets") };
    let scheme = match address.kind {
        DatabaseKind::Mariadb => "mysql",
        DatabaseKind::Postgresql => "postgres",
    };
    format!("{scheme}://{user}@localhost/{}?socket={}", address.database, path.display())
}

fn load(home: &Home, url: &str, more: &[&str]) -> Said {
    home.says(
        &[&["load", "store", "--database", url, "--warmup", "0", "--seconds", "2", "--json"], more].concat(),
    )
}

#[track_caller]
fn refused(said: &Said, code: i32, message: &str) {
    said.fails_with(code, message, "");
    assert_ne!(said.json()["error"]["remedy"], "");
    assert!(!format!("{said:?}").contains("hunter2"), "a password is shown: {said:?}");
}

fn a_store_is_filled_loaded_and_audited(kind: DatabaseKind) {
    let Some(server) = servers::start(kind) else { return };
    let home = Home::new();
    let address = server.database("store");
    let own = url(&address, &address.user);

    refused(&load(&home, &own, &[]), 3, "table categories is missing");
    let said = home.says(&["data", "store", "--size", "10MB", "--into", &own, "--json"]).ended(0);
    let loaded = said.json();
    assert_eq!(loaded["tables"].as_array().unwrap().len(), 7);
    assert!((9.9e6..10.1e6).contains(&loaded["bytes"].as_f64().unwrap()), "{loaded}");
    assert!(said.error.contains("left"), "progress shows the time left: {said:?}");
    let again = home.says(&["data", "store", "--size", "10MB", "--into", &own, "--json"]);
    refused(&again, 3, "exists already");

    let closed = load(&home, &own, &["--clients", "4"]).json();
    let keys = "orders_per_minute orders_per_minute_ds2 rollbacks retries errors client_cpu_s latency_ms \
                send_lateness_us audit verdict";
    for key in words(keys) {
        assert!(closed.get(key).is_some(), "{key} is missing: {closed}");
    }
    assert_eq!((closed["audit"].as_str(), closed["errors"].as_u64()), (Some("agrees"), Some(0)));
    assert!(closed["orders_per_minute"].as_f64().unwrap() > 0.0);
    for step in ["login", "new_customer", "browse", "purchase", "order"] {
        assert!(closed["latency_ms"][step]["mean"].as_f64().unwrap() > 0.0, "{step}: {closed}");
    }
    // Two seconds are no steady window: it says so instead of being trusted.
    assert_eq!(closed["verdict"]["status"], "cannot-tell");
    let open = load(&home, &own, &["--clients", "4", "--rate", "50"]).json();
    assert!(open["send_lateness_us"]["count"].as_u64().unwrap() > 0, "{open}");

    refused(&load(&home, &own, &["--clients", "900"]), 3, "free connections and the run needs 901");
    refused(&load(&home, &own, &["--clients", "0"]), 2, "`clients` is 0");
    let stranger = url(&address, "mallory:hunter2");
    refused(&load(&home, &stranger, &[]), 3, "does not let this user in");
    let nobody = DatabaseAddress {
        endpoint: Endpoint::Socket { path: "/nowhere".into(), port: 1 },
        ..address.clone()
    };
    refused(&load(&home, &url(&nobody, "web:hunter2"), &[]), 3, "no database answers");
    let missing = DatabaseAddress { database: "nothing".to_owned(), ..address };
    refused(&load(&home, &url(&missing, &missing.user), &[]), 3, "no database `nothing`");
    refused(&load(&home, "mysql://web:hunter2@db", &[]), 2, "the name of the database is missing");
}

fn a_store_is_filled_and_loaded_over_tls(kind: DatabaseKind) {
    let secured = servers::Secured::make();
    let Some(server) = servers::start_on_loopback(kind, Some(&secured)) else { return };
    let home = Home::new();
    let ca = home.path().join("ca.pem");
    std::fs::write(&ca, &secured.authority).unwrap();
    let (mode, file, full) = match kind {
        DatabaseKind::Mariadb => ("ssl-mode", "ssl-ca", "verify-identity"),
        DatabaseKind::Postgresql => ("sslmode", "sslrootcert", "verify-full"),
    };
    let own = server.url("localhost", &format!("?{mode}={full}&{file}={}", ca.display()));
    let shown =
        home.says(&["data", "store", "--size", "10MB", "--into", &own, "--json"]).ended(0).json()["database"]
            .as_str()
            .unwrap()
            .to_owned();
    assert!(shown.ends_with(&format!("?{mode}={full}")), "{shown}");
    let loaded = load(&home, &own, &["--clients", "4"]).json();
    assert_eq!((loaded["audit"].as_str(), loaded["errors"].as_u64()), (Some("agrees"), Some(0)), "{loaded}");
    let by_host = server.url("localhost", &format!("?{mode}={full}"));
    refused(&load(&home, &by_host, &[]), 3, "could not be secured");
    let missing = server.url("localhost", &format!("?{mode}=verify-ca&{file}=/nowhere/ca.pem"));
    refused(&load(&home, &missing, &[]), 2, &format!("cannot read `{file} /nowhere/ca.pem`"));
    let odd = server.url("localhost", &format!("?{mode}=maybe"));
    refused(&load(&home, &odd, &[]), 2, &format!("{mode} is none of disable"));
}

#[test]
fn a_mariadb_store_is_filled_and_loaded_over_tls() {
    a_store_is_filled_and_loaded_over_tls(DatabaseKind::Mariadb);
}

#[test]
fn a_postgresql_store_is_filled_and_loaded_over_tls() {
    a_store_is_filled_and_loaded_over_tls(DatabaseKind::Postgresql);
}

#[test]
fn a_mariadb_store_is_filled_loaded_and_audited() {
    a_store_is_filled_loaded_and_audited(DatabaseKind::Mariadb);
}

#[test]
fn a_postgresql_store_is_filled_loaded_and_audited() {
    a_store_is_filled_loaded_and_audited(DatabaseKind::Postgresql);
}

fn a_load_that_is_interrupted_leaves_no_table(kind: DatabaseKind) {
    let Some(server) = servers::start(kind) else { return };
    let home = Home::new();
    let address = server.database("store");
    let own = url(&address, &address.user);
    let mut command = Command::new(TILEMARK);
    command.args(["data", "store", "--size", "200MB", "--threads", "1", "--into", &own, "--json"]);
    command.env("TILEMARK_HOME", home.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    let made = "SELECT COUNT(*) FROM information_schema.tables WHERE table_name = 'customers'";
    let until = Instant::now() + Duration::from_secs(600);
    while server.sql("store", made) != "1" {
        assert!(Instant::now() < until, "no table was made");
        thread::sleep(Duration::from_millis(20));
    }
    kill_process(Pid::from_raw(child.id() as i32).unwrap(), Signal::INT).unwrap();
    let said = Said::of(&child.wait_with_output().unwrap());
    refused(&said, 5, "stopped before the store was whole");
    assert_eq!(said.json()["error"]["code"], "interrupted", "{said:?}");
    assert_eq!(server.sql("store", made), "0", "a table is left");
    home.says(&["data", "store", "--size", "10MB", "--into", &own, "--json"]).ended(0);
}

#[test]
fn a_load_into_mariadb_that_is_interrupted_leaves_no_table() {
    a_load_that_is_interrupted_leaves_no_table(DatabaseKind::Mariadb);
}

#[test]
fn a_load_into_postgresql_that_is_interrupted_leaves_no_table() {
    a_load_that_is_interrupted_leaves_no_table(DatabaseKind::Postgresql);
}

#[test]
fn a_password_may_be_in_the_environment_and_one_in_the_address_is_warned_of() {
    let home = Home::new();
    let shown = home.says(&["load", "store", "--database", "mysql://web:hunter2@127.0.0.1:1/store"]).ended(3);
    assert!(
        shown.error.contains("TILEMARK_DATABASE_PASSWORD") && !shown.error.contains("hunter2"),
        "{shown:?}"
    );
    let (server, asked) = asks_for_a_password();
    let url = format!("postgres://web@{server}/store");
    let mut command = home.command(&["load", "store", "--database", &url]);
    let said = Said::of(&command.env("TILEMARK_DATABASE_PASSWORD", "hunter2").output().unwrap());
    assert_eq!(asked.join().unwrap(), "hunter2");
    assert!(
        !said.error.contains("TILEMARK_DATABASE_PASSWORD") && !said.error.contains("hunter2"),
        "{said:?}"
    );
}

#[test]
fn a_password_in_an_argument_that_has_no_place_is_not_repeated() {
    let home = Home::new();
    for form in [&[][..], &["--json"]] {
        let said =
            home.says(&[&["load", "store", "mysql://web:hunter2@127.0.0.1/store"], form].concat()).ended(2);
        let printed = format!("{}{}", said.out, said.error);
        assert!(
            printed.contains("mysql://web:…@127.0.0.1/store") && !printed.contains("hunter2"),
            "{said:?}"
        );
    }
}

#[test]
fn what_a_load_cannot_do_is_named_before_it_connects() {
    let home = Home::new();
    let nobody = "mysql://web@127.0.0.1:1/store";
    for (flag, value, message) in [
        ("--seconds", "86401", "86401 is not in 1..=86400"),
        ("--warmup", "86401", "86401 is not in 0..=86400"),
        ("--window", "0", "`window` is 0s in a measurement of 1m"),
        ("--rate", "1e-30", "`rate` is 0.000000000000000000000000000001 orders a second"),
        ("--think-time", "1e15", "`think-time` is"),
        ("--clients", "1001", "`clients` is 1001"),
    ] {
        let said = home.says(&["load", "store", "--database", nobody, "--json", flag, value]);
        refused(&said, 2, message);
    }
    let threads = ["data", "store", "--size", "10MB", "--into", nobody, "--json", "--threads", "100000"];
    refused(&home.says(&threads), 2, "100000 threads");
}

#[test]
fn a_second_ctrl_c_ends_what_waits_for_a_database_that_never_answers() {
    for arguments in [&["load", "store", "--database"][..], &["data", "store", "--size", "10MB", "--into"]] {
        let hung = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("mysql://web@{}/store", hung.local_addr().unwrap());
        let mut command = Command::new(TILEMARK);
        command.args(arguments).args([&url, "--json"]).stdin(Stdio::null());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (_connection, _) = hung.accept().unwrap();
        let id = Pid::from_raw(child.id() as i32).unwrap();
        let interrupt = || kill_process(id, Signal::INT).unwrap();
        interrupt();
        let mut errors = BufReader::new(child.stderr.take().unwrap()).lines();
        assert!(
            errors.any(|line| line.unwrap().contains("Ctrl-C again stops it immediately")),
            "{arguments:?}"
        );
        interrupt();
        let mut out = String::new();
        child.stdout.take().unwrap().read_to_string(&mut out).unwrap();
        assert_eq!(child.wait().unwrap().code(), Some(5), "{arguments:?}: {out}");
        assert!(out.contains("stopped by a second Ctrl-C"), "{arguments:?}: {out}");
    }
}

/// A PostgreSQL server as far as that it has no TLS, asks a client for its password, in the clear, and hangs up.
fn asks_for_a_password() -> (SocketAddr, JoinHandle<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let asks = move || {
        // The first one only asks what is spoken here: an SSLRequest has four bytes after its length.
        let asked_for_tls = |client: &mut TcpStream| {
            client.set_read_timeout(Some(Duration::from_secs(600))).unwrap();
            message(client).len() == 4
        };
        let mut client = listener.accept().unwrap().0;
        while asked_for_tls(&mut client) {
            client.write_all(b"N").unwrap();
            client = listener.accept().unwrap().0;
        }
        // AuthenticationCleartextPassword: its length and its kind.
        client.write_all(b"R\0\0\0\x08\0\0\0\x03").unwrap();
        assert_eq!(bytes(&mut client, 1), b"p", "a PasswordMessage");
        String::from_utf8(message(&mut client)).unwrap().trim_end_matches('\0').to_owned()
    };
    (address, thread::spawn(asks))
}

/// What follows a length that counts itself.
fn message(client: &mut TcpStream) -> Vec<u8> {
    let length = u32::from_be_bytes(bytes(client, 4).try_into().unwrap());
    bytes(client, length as usize - 4)
}

fn bytes(client: &mut TcpStream, count: usize) -> Vec<u8> {
    let mut bytes = vec![0; count];
    client.read_exact(&mut bytes).unwrap();
    bytes
}
