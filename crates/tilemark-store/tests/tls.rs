//! TLS to real servers on loopback: load, run and audit over it, and each mistake by its name.

#![allow(clippy::unwrap_used)] // Helpers of tests are outside of test functions.

mod common;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use common::{Secured, Server, load, start_on_loopback};
use tilemark_store::{
    DatabaseAddress, DatabaseKind, Demand, StoreError, inspect, load_database, open_session, run_load,
};
use tilemark_store_data::{Generator, Rule, Store, StoreDataError};

/// An address of that server with the authorities that whoever connects has read.
fn address(server: &Server, host: &str, options: &str, ca: Option<&str>) -> DatabaseAddress {
    let mut address: DatabaseAddress = server.url(host, options).parse().unwrap();
    if let Some(tls) = &mut address.tls {
        tls.ca = ca.map(str::to_owned);
    }
    address
}

/// The words that check nothing, the authority, and the name too.
const fn words(kind: DatabaseKind) -> [&'static str; 3] {
    match kind {
        DatabaseKind::Mariadb => ["?ssl-mode=required", "?ssl-mode=verify-ca", "?ssl-mode=verify-identity"],
        DatabaseKind::Postgresql => ["?sslmode=require", "?sslmode=verify-ca", "?sslmode=verify-full"],
    }
}

/// Connections of the user `web` that the server itself says are encrypted, and all of them.
fn encrypted_of_all(server: &Server) -> (u64, u64) {
    let ask = |sql: &str| server.sql("store", sql).parse::<u64>().unwrap();
    match server.kind {
        // It counts those that were accepted since it started.
        DatabaseKind::Mariadb => (
            ask(
                "SELECT variable_value FROM information_schema.global_status WHERE variable_name = 'SSL_FINISHED_ACCEPTS'",
            ),
            ask("SELECT COUNT(*) FROM information_schema.processlist WHERE user = 'web'"),
        ),
        DatabaseKind::Postgresql => (
            ask(
                "SELECT COUNT(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) WHERE s.ssl AND a.usename = 'web'",
            ),
            ask("SELECT COUNT(*) FROM pg_stat_activity WHERE usename = 'web'"),
        ),
    }
}

fn a_store_is_loaded_run_and_audited(kind: DatabaseKind) {
    let secured = Secured::make();
    let Some(server) = start_on_loopback(kind, Some(&secured)) else { return };
    let [_, _, full] = words(kind);
    let address = address(&server, "localhost", full, Some(&secured.authority));
    load(&address).unwrap();
    assert_eq!(inspect(&address, 8).unwrap().customers, 4_000);
    let demand =
        Demand { clients: 8, warmup: Duration::ZERO, measure: Duration::from_secs(1), ..Demand::default() };
    let result = run_load(&address, &demand, &AtomicBool::new(false)).unwrap();
    assert_eq!(result.audit, "agrees");
    assert_eq!((result.errors, result.orders > 0), (0, true), "{:?}", result.error_kinds);
    server.check_books("store");
    // What the server says about it: a connection that says `encrypted` and is not would be the worst of all mistakes.
    let session = open_session(&address).unwrap();
    let (encrypted, all) = encrypted_of_all(&server);
    assert!(encrypted >= all && all >= 1, "{encrypted} of {all}");
    drop(session);
}

/// A load that is stopped while its rows are sent leaves nothing, over TLS too.
fn a_stopped_load_leaves_nothing(kind: DatabaseKind) {
    let secured = Secured::make();
    let Some(server) = start_on_loopback(kind, Some(&secured)) else { return };
    let address = address(&server, "localhost", words(kind)[0], None);
    let store = Store { rule: Rule::Smooth, seed: 7, customers: 20_000, orders: 12_000, products: 1_000 };
    let generator = Arc::new(Generator::new(store, 1).unwrap());
    let stop = generator.stop_flag();
    let mut tell = |_| stop.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = load_database(&address, &generator, &mut tell).unwrap_err();
    assert!(matches!(error, StoreError::Data(StoreDataError::Stopped)), "{}", error.with_causes());
    load(&address).unwrap();
}

#[track_caller]
fn refused(address: &DatabaseAddress, message: &str, remedy: &str) {
    let error = open_session(address).map(drop).unwrap_err();
    let said = error.with_causes();
    assert!(said.contains(message), "{said}");
    assert!(error.remedy().contains(remedy), "{said}: {}", error.remedy());
    assert!(!format!("{said} {error:?}").contains("tiger"), "a password must not be printed");
}

fn mistakes(kind: DatabaseKind) {
    let secured = Secured::make();
    let Some(server) = start_on_loopback(kind, Some(&secured)) else { return };
    load(&server.address("store")).unwrap();
    let [any, authority, name] = words(kind);
    // Of the same name, and of another one.
    let same_name = Secured::make().authority;
    let other = rcgen::generate_simple_self_signed(["other".to_owned()]).unwrap().cert.pem();
    let of = |host, options, ca: Option<&str>| address(&server, host, options, ca);
    // The certificate is for `localhost`, and the server is asked by its address.
    refused(&of("127.0.0.1", name, Some(&secured.authority)), "is for another name", "verify-ca");
    refused(&of("localhost", authority, Some(&other)), "no authority that is accepted", "ssl-ca=FILE");
    refused(&of("localhost", name, Some(&same_name)), "no authority that is accepted", "ssl-ca=FILE");
    refused(&of("localhost", authority, Some("hello")), "no certificate of an authority", "PEM file");
    refused(&of("localhost", authority, None), "none were read", "PEM file");
    let wrong_password = server.url("localhost", any).replace("tiger", "tigress").parse().unwrap();
    refused(&wrong_password, "does not let this user in", "password");
    let no_database = server.url("localhost", &format!("x{any}")).parse().unwrap();
    match kind {
        // It does not say to a user without rights which databases there are.
        DatabaseKind::Mariadb => {
            refused(&no_database, "does not let this user in", "all rights on the database")
        }
        DatabaseKind::Postgresql => refused(&no_database, "there is no database `storex`", "create it"),
    }
    // Where the name is not checked, or nothing is, the same server is good.
    for (host, options, ca) in [
        ("127.0.0.1", authority, Some(&*secured.authority)),
        ("127.0.0.1", any, None),
        ("localhost", name, Some(&*secured.authority)),
        ("localhost", "", None),
    ] {
        let opened = open_session(&of(host, options, ca)).map(drop);
        opened.unwrap_or_else(|error| panic!("{host}{options}: {}", error.with_causes()));
    }
    let plain = of("localhost", "", None);
    match kind {
        DatabaseKind::Mariadb => {
            server.sql("", "SET GLOBAL require_secure_transport = ON");
            refused(&plain, "does not let this user in", "add ?ssl-mode=required");
        }
        DatabaseKind::Postgresql => {
            server.only_secured();
            refused(&plain, "lets nobody in without TLS", "add ?sslmode=require");
        }
    }
    open_session(&of("localhost", any, None)).map(drop).unwrap();
}

fn a_server_without_tls(kind: DatabaseKind) {
    let Some(server) = start_on_loopback(kind, None) else { return };
    load(&server.address("store")).unwrap();
    let [any, ..] = words(kind);
    refused(&address(&server, "localhost", any, None), "has no TLS", "switch TLS on in the server");
    open_session(&address(&server, "localhost", "", None)).map(drop).unwrap();
}

#[test]
fn mariadb_is_loaded_run_and_audited_over_tls() {
    a_store_is_loaded_run_and_audited(DatabaseKind::Mariadb);
}

#[test]
fn postgresql_is_loaded_run_and_audited_over_tls() {
    a_store_is_loaded_run_and_audited(DatabaseKind::Postgresql);
}

#[test]
fn a_stopped_load_over_tls_leaves_mariadb_empty() {
    a_stopped_load_leaves_nothing(DatabaseKind::Mariadb);
}

#[test]
fn a_stopped_load_over_tls_leaves_postgresql_empty() {
    a_stopped_load_leaves_nothing(DatabaseKind::Postgresql);
}

#[test]
fn each_mistake_with_tls_of_mariadb_is_named() {
    mistakes(DatabaseKind::Mariadb);
}

#[test]
fn each_mistake_with_tls_of_postgresql_is_named() {
    mistakes(DatabaseKind::Postgresql);
}

#[test]
fn a_mariadb_without_tls_is_named() {
    a_server_without_tls(DatabaseKind::Mariadb);
}

#[test]
fn a_postgresql_without_tls_is_named() {
    a_server_without_tls(DatabaseKind::Postgresql);
}
