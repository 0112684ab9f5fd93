//! Real servers for tests: own data folder, a Unix socket only, ended by id.

#![allow(clippy::unwrap_used)] // Helpers of tests are outside of test functions.
#![allow(dead_code, unreachable_pub)] // Each test binary uses a part of this.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tilemark_store::{
    DatabaseAddress, DatabaseKind, Durability, Endpoint, LoadProgress, Secret, StoreError, load_database,
    server_settings,
};
use tilemark_store_data::{Generator, Rule, Store};

/// A database server that ends with this value.
pub struct Server {
    pub kind: DatabaseKind,
    folder: TempDir,
    command: Command,
    child: Child,
    client: PathBuf,
    user: &'static str,
    /// Of a server on loopback too; else part of a socket's name.
    port: u16,
}

/// Starts a server of this kind, or says loudly why it cannot.
pub fn start(kind: DatabaseKind) -> Option<Server> {
    start_with(kind, &[])
}

/// The same with more settings, `name=value`.
pub fn start_with(kind: DatabaseKind, settings: &[&str]) -> Option<Server> {
    // In memory if there is such a place, for speed.
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    start_at(kind, settings, &place)
}

/// What secures a server: PEM texts of an authority, of a certificate for `localhost` that it has signed, and of its key.
pub struct Secured {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

impl Secured {
    pub fn make() -> Self {
        let mut params = rcgen::CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority of a test");
        let authority_key = rcgen::KeyPair::generate().unwrap();
        let authority = params.self_signed(&authority_key).unwrap().pem();
        let key = rcgen::KeyPair::generate().unwrap();
        let signed = rcgen::CertificateParams::new(vec!["localhost".to_owned()])
            .unwrap()
            .signed_by(&key, &rcgen::Issuer::new(params, authority_key))
            .unwrap();
        Self { authority, certificate: signed.pem(), key: key.serialize_pem() }
    }
}

/// A server that is also on loopback, with TLS where something secures it. Its database `store` lets the user `web` in by the password
/// `tiger`, and on PostgreSQL makes the network ask for passwords.
pub fn start_on_loopback(kind: DatabaseKind, secured: Option<&Secured>) -> Option<Server> {
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut settings = vec![format!("port={port}")];
    settings.extend(match kind {
        DatabaseKind::Mariadb => ["skip-networking=0", "bind-address=127.0.0.1", "skip_name_resolve=ON"]
            .map(str::to_owned)
            .to_vec(),
        DatabaseKind::Postgresql => vec!["listen_addresses=127.0.0.1".to_owned()],
    });
    let files = tempfile::Builder::new().prefix("tilemark-store-tls-").tempdir().unwrap();
    if let Some(secured) = secured {
        let (certificate, key) = (files.path().join("crt"), files.path().join("key"));
        fs::write(&certificate, &secured.certificate).unwrap();
        fs::write(&key, &secured.key).unwrap();
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        if kind == DatabaseKind::Postgresql
            && rustix::process::getuid().is_root()
            && let Ok((user, group)) = postgres_user()
        {
            for path in [files.path(), &certificate, &key] {
                chown(path, Some(user), Some(group)).unwrap();
            }
        }
        let (certificate, key) = (certificate.display(), key.display());
        settings.extend(match kind {
            DatabaseKind::Mariadb => vec![format!("ssl_cert={certificate}"), format!("ssl_key={key}")],
            DatabaseKind::Postgresql => {
                vec![
                    "ssl=on".to_owned(),
                    format!("ssl_cert_file={certificate}"),
                    format!("ssl_key_file={key}"),
                ]
            }
        });
    }
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let server = start_with(kind, &settings)?;
    let owner = server.database("store");
    if kind == DatabaseKind::Postgresql {
        server.let_in_by("host all all all scram-sha-256\n");
        server.sql(
            "store",
            "GRANT ALL ON SCHEMA public TO public; ALTER DEFAULT PRIVILEGES GRANT ALL ON TABLES TO public; \
             ALTER DEFAULT PRIVILEGES GRANT ALL ON SEQUENCES TO public",
        );
    }
    tilemark_store::let_in(&owner, "web", &Secret::new("tiger")).unwrap();
    Some(server)
}

/// The same with its files in a folder of this place.
pub fn start_at(kind: DatabaseKind, settings: &[&str], place: &Path) -> Option<Server> {
    let folder = tempfile::Builder::new().prefix("tilemark-store-").tempdir_in(place).unwrap();
    let started = match kind {
        DatabaseKind::Mariadb => start_mariadb(settings, folder),
        DatabaseKind::Postgresql => start_postgresql(settings, folder),
    };
    match started {
        Ok(server) => Some(server),
        Err(reason) => {
            assert_ne!(std::env::var("TILEMARK_CI").as_deref(), Ok("1"), "{kind} test cannot run: {reason}");
            eprintln!("skipped: {kind}: {reason}");
            None
        }
    }
}

fn find(name: &str) -> Result<PathBuf, String> {
    let mut folders: Vec<PathBuf> = vec!["/usr/sbin".into(), "/usr/bin".into(), "/usr/local/bin".into()];
    let mut versions: Vec<PathBuf> = fs::read_dir("/usr/lib/postgresql")
        .map(|all| all.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.exists());
    found.ok_or_else(|| format!("program `{name}` is not installed"))
}

fn lines(kind: DatabaseKind, settings: &[&str]) -> Vec<String> {
    let sized = server_settings(kind, 512 << 20, 40, Durability::Full).unwrap();
    sized.iter().map(|setting| setting.line()).chain(settings.iter().map(|&line| line.to_owned())).collect()
}

/// The port among the settings, or the usual one of PostgreSQL.
fn port_of(settings: &[&str]) -> u16 {
    settings.iter().find_map(|line| line.strip_prefix("port=")).map_or(5432, |port| port.parse().unwrap())
}

fn succeed(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {text}")) }
}

fn start_mariadb(settings: &[&str], folder: TempDir) -> Result<Server, String> {
    let (program, client, install) = (find("mariadbd")?, find("mariadb")?, find("mariadb-install-db")?);
    let data = format!("--datadir={}", folder.path().join("data").display());
    // A server that starts removes what others left in its folder for temporary tables, theirs that live too.
    let temporary = format!("--tmpdir={}", folder.path().display());
    let is_root = rustix::process::getuid().is_root();
    let user = if is_root { vec!["--user=root"] } else { vec![] };
    let how = ["--no-defaults", "--auth-root-authentication-method=normal", "--skip-test-db"];
    succeed(Command::new(install).args(how).arg(&data).arg(&temporary).args(&user))?;
    let mut command = Command::new(program);
    command
        .arg("--no-defaults")
        .arg(&data)
        .arg(&temporary)
        .args(&user)
        .arg("--skip-networking")
        .arg(format!("--socket={}", folder.path().join("socket").display()))
        .arg(format!("--pid-file={}", folder.path().join("pid").display()))
        .args(lines(DatabaseKind::Mariadb, settings).iter().map(|line| format!("--{line}")));
    Server::of(DatabaseKind::Mariadb, folder, command, client, "root", port_of(settings))
}

/// Ids of the user and the group that the package made.
fn postgres_user() -> Result<(u32, u32), String> {
    let users = fs::read_to_string("/etc/passwd").map_err(|error| error.to_string())?;
    let ids = users.lines().find_map(|line| {
        let mut fields = line.strip_prefix("postgres:")?.split(':').skip(1);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    });
    ids.ok_or_else(|| "there is no user `postgres`".to_owned())
}

fn start_postgresql(settings: &[&str], folder: TempDir) -> Result<Server, String> {
    let (program, client, initdb) = (find("postgres")?, find("psql")?, find("initdb")?);
    // PostgreSQL refuses to run as root: root hands it to the user that the package made.
    let owner = if rustix::process::getuid().is_root() { Some(postgres_user()?) } else { None };
    let as_owner = |program: &Path| {
        let mut command = Command::new(program);
        if let Some((user, group)) = owner {
            command.uid(user).gid(group);
        }
        command.current_dir("/");
        command
    };
    if let Some((user, group)) = owner {
        chown(folder.path(), Some(user), Some(group)).map_err(|error| error.to_string())?;
    }
    let data = folder.path().join("data");
    succeed(
        as_owner(&initdb).args(["-A", "trust", "-U", "store", "-E", "UTF8", "--locale=C", "-D"]).arg(&data),
    )?;
    let mut command = as_owner(&program);
    command.arg("-D").arg(&data).arg("-k").arg(folder.path()).args(["-c", "listen_addresses="]);
    for line in lines(DatabaseKind::Postgresql, settings) {
        command.args(["-c", &line]);
    }
    Server::of(DatabaseKind::Postgresql, folder, command, client, "store", port_of(settings))
}

impl Server {
    fn of(
        kind: DatabaseKind,
        folder: TempDir,
        mut command: Command,
        client: PathBuf,
        user: &'static str,
        port: u16,
    ) -> Result<Server, String> {
        let log = fs::File::create(folder.path().join("log")).unwrap();
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let child = command.spawn().map_err(|error| error.to_string())?;
        let mut server = Server { kind, folder, command, child, client, user, port };
        server.await_answer()?;
        Ok(server)
    }

    fn await_answer(&mut self) -> Result<(), String> {
        let start = Instant::now();
        while start.elapsed() < Duration::from_secs(600) {
            if self.try_sql("", "SELECT 1").is_ok() {
                return Ok(());
            }
            if self.child.try_wait().unwrap().is_some() {
                break;
            }
            thread::sleep(Duration::from_millis(50));
        }
        Err(format!("did not start: {}", fs::read_to_string(self.folder.path().join("log")).unwrap()))
    }

    fn try_sql(&self, database: &str, sql: &str) -> Result<String, String> {
        let mut command = Command::new(&self.client);
        match self.kind {
            DatabaseKind::Mariadb => command
                .args(["--no-defaults", "-N", "-B", "-u", self.user, "-S"])
                .arg(self.folder.path().join("socket"))
                .args(["-e", sql, database]),
            DatabaseKind::Postgresql => command
                .args(["-X", "-q", "-t", "-A", "-v", "ON_ERROR_STOP=1", "-U", self.user, "-h"])
                .arg(self.folder.path())
                .args(["-p", &self.port.to_string()])
                .args(["-c", sql, "-d", if database.is_empty() { "postgres" } else { database }]),
        };
        let output = command.output().map_err(|error| error.to_string())?;
        let text = |bytes| String::from_utf8_lossy(bytes).trim().to_owned();
        if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
    }

    /// Runs SQL by the server's own client program.
    pub fn sql(&self, database: &str, sql: &str) -> String {
        self.try_sql(database, sql).unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// What the server itself says about a store: MariaDB's own check of every table, whole; and on both that no foreign key of
    /// the catalogue points to nothing.
    #[track_caller]
    pub fn check(&self, database: &str) {
        if self.kind == DatabaseKind::Mariadb {
            let mut command = Command::new(find("mariadb-check").unwrap());
            command.args(["--no-defaults", "--extended", "-u", self.user, "-S"]);
            let output = command.arg(self.folder.path().join("socket")).arg(database).output().unwrap();
            let printed = String::from_utf8_lossy(&output.stdout);
            assert!(output.status.success(), "{printed}{}", String::from_utf8_lossy(&output.stderr));
            assert!(
                printed.lines().count() >= 8 && printed.lines().all(|line| line.ends_with(" OK")),
                "{printed}"
            );
        }
        let keys = self.sql(
            database,
            match self.kind {
                DatabaseKind::Mariadb => {
                    "SELECT CONCAT_WS('|', table_name, column_name, referenced_table_name, referenced_column_name) \
                     FROM information_schema.key_column_usage \
                     WHERE table_schema = DATABASE() AND referenced_table_name IS NOT NULL"
                }
                DatabaseKind::Postgresql => {
                    "SELECT child.table_name, child.column_name, parent.table_name, parent.column_name \
                     FROM information_schema.referential_constraints AS link \
                     JOIN information_schema.key_column_usage AS child \
                     ON child.constraint_schema = link.constraint_schema \
                     AND child.constraint_name = link.constraint_name \
                     JOIN information_schema.key_column_usage AS parent \
                     ON parent.constraint_schema = link.unique_constraint_schema \
                     AND parent.constraint_name = link.unique_constraint_name \
                     AND parent.ordinal_position = child.position_in_unique_constraint"
                }
            },
        );
        assert_eq!(keys.lines().count(), 6, "foreign keys: {keys}");
        for key in keys.lines() {
            let parts: Vec<&str> = key.split('|').collect();
            let [child, column, parent, id] = parts[..] else { panic!("{key} is no key") };
            let orphans = format!(
                "SELECT COUNT(*) FROM {child} c LEFT JOIN {parent} p ON p.{id} = c.{column} \
                 WHERE c.{column} IS NOT NULL AND p.{id} IS NULL"
            );
            assert_eq!(self.sql(database, &orphans), "0", "{child}.{column} points to nothing");
        }
    }

    /// The same, and what the database's own SQL says about its books: each product sold what its lines say, each line is in
    /// its customer's history, each order has a line, no stock is below nothing.
    #[track_caller]
    pub fn check_books(&self, database: &str) {
        self.check(database);
        for (what, sql) in [
            (
                "products with other sales than their lines",
                "SELECT COUNT(*) FROM inventory i LEFT JOIN (SELECT prod_id, SUM(quantity) AS sold FROM orderlines \
                 GROUP BY prod_id) l ON l.prod_id = i.prod_id WHERE i.sales <> COALESCE(l.sold, 0)",
            ),
            (
                "orders whose lines do not stand in the history",
                "SELECT COUNT(*) FROM orders o WHERE (SELECT COUNT(*) FROM orderlines l WHERE l.orderid = o.orderid) \
                 <> (SELECT COUNT(*) FROM cust_hist h WHERE h.customerid = o.customerid AND h.orderid = o.orderid)",
            ),
            (
                "orders without a line",
                "SELECT COUNT(*) FROM orders o LEFT JOIN orderlines l ON l.orderid = o.orderid WHERE l.orderid IS NULL",
            ),
            ("products below nothing", "SELECT COUNT(*) FROM inventory WHERE quan_in_stock < 0"),
        ] {
            assert_eq!(self.sql(database, sql), "0", "{what}");
        }
    }

    /// An empty database and the way to it.
    pub fn database(&self, name: &str) -> DatabaseAddress {
        self.sql("", &format!("CREATE DATABASE {name}"));
        self.address(name)
    }

    /// PostgreSQL lets nobody in by the network who does not use TLS.
    pub fn only_secured(&self) -> String {
        self.let_in_by("hostssl all all all scram-sha-256\n")
    }

    /// Whom PostgreSQL lets in by the network; by its socket anybody. Its processes know it a moment later.
    fn let_in_by(&self, rule: &str) -> String {
        let rules = format!("local all all trust\n{rule}");
        fs::write(self.folder.path().join("data/pg_hba.conf"), rules).unwrap();
        let loaded = "SELECT COUNT(*) FROM pg_hba_file_rules WHERE error IS NOT NULL";
        assert_eq!(self.sql("", loaded), "0");
        self.sql("", "SELECT pg_reload_conf()")
    }

    /// The way to its database `store` over loopback, as users write it: `host`, and what follows the `?`.
    pub fn url(&self, host: &str, options: &str) -> String {
        let scheme = match self.kind {
            DatabaseKind::Mariadb => "mysql",
            DatabaseKind::Postgresql => "postgres",
        };
        format!("{scheme}://web:tiger@{host}:{}/store{options}", self.port)
    }

    pub fn address(&self, name: &str) -> DatabaseAddress {
        let path = match self.kind {
            DatabaseKind::Mariadb => self.folder.path().join("socket"),
            DatabaseKind::Postgresql => self.folder.path().to_owned(),
        };
        DatabaseAddress {
            kind: self.kind,
            endpoint: Endpoint::Socket { path, port: self.port },
            user: self.user.to_owned(),
            password: None,
            database: name.to_owned(),
            tls: None,
        }
    }

    /// An empty folder that the server's own user can read too.
    pub fn readable_folder(&self) -> PathBuf {
        fs::set_permissions(self.folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
        self.folder.path().join("files")
    }

    /// Processor time that the server has used, all its processes together.
    pub fn cpu_s(&self) -> f64 {
        let ticks = |id: u32| -> u64 {
            let text = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            let fields: Vec<&str> = text.rsplit(") ").next().unwrap_or("").split(' ').collect();
            // Own and waited-for children's time, user and system: fields 14 to 17 of the line.
            (11..15).filter_map(|at| fields.get(at)?.parse::<u64>().ok()).sum()
        };
        let own = self.child.id();
        let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
        let all =
            children.split_whitespace().filter_map(|id| id.parse().ok()).map(ticks).sum::<u64>() + ticks(own);
        all as f64 / 100.0
    }

    /// Ends the server as a crash does.
    pub fn crash(&mut self) {
        // SIGQUIT is PostgreSQL's crash on demand: it ends all its processes and frees its shared memory.
        let signal = match self.kind {
            DatabaseKind::Mariadb => rustix::process::Signal::KILL,
            DatabaseKind::Postgresql => rustix::process::Signal::QUIT,
        };
        rustix::process::kill_process(rustix::process::Pid::from_child(&self.child), signal).unwrap();
        self.child.wait().unwrap();
    }

    /// Starts it again on what it left.
    pub fn restart(&mut self) {
        self.child = self.command.spawn().unwrap();
        self.await_answer().unwrap();
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's fast shutdown; MariaDB takes SIGTERM.
        let signal = match self.kind {
            DatabaseKind::Mariadb => rustix::process::Signal::TERM,
            DatabaseKind::Postgresql => rustix::process::Signal::INT,
        };
        if matches!(self.child.try_wait(), Ok(None)) {
            let id = rustix::process::Pid::from_child(&self.child);
            rustix::process::kill_process(id, signal).ok();
            drop(self.child.wait());
        }
    }
}

/// A store of about 1.5 MB: seconds to load, every table filled.
pub fn small_store() -> Arc<Generator> {
    let store = Store { rule: Rule::Smooth, seed: 7, customers: 4_000, orders: 2_400, products: 1_000 };
    Arc::new(Generator::new(store, 1).unwrap())
}

pub fn load(address: &DatabaseAddress) -> Result<Vec<LoadProgress>, StoreError> {
    let mut seen = Vec::new();
    load_database(address, &small_store(), &mut |progress| seen.push(progress))?;
    Ok(seen)
}
