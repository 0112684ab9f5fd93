//! A database as a service: the online store on MariaDB or PostgreSQL, or the tables that a workload's own program makes on MariaDB.
//!
//! ```text
//! disk blank -> file system -> server's own files -> server runs -> rows loaded -> user let in -> serving
//! disk holds rows ------------- mounted -----------> server runs -----------------> user let in -> serving
//!                                          stop: settled, ended in order, unmounted; then the disks can be cloned
//! ```
//! The first data disk holds the data, the second the log. An only disk holds both: a log in memory would confirm commits
//! that no disk has. A guest without disks keeps both in memory.

use super::{
    certificate::{Certificate, Files},
    started::Started,
    wait::{Wait, last_words},
};
use crate::{
    data_disk::DataDisk,
    error::{AgentError, step},
    power::Power,
};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs::{self, File},
    os::unix::process::CommandExt,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};
use tilemark_agent_protocol::Service;
use tilemark_plan::workload::{StoreDurability, StoreParameters, Work};
use tilemark_store::{DatabaseAddress, DatabaseKind, Durability, Secret, StoreError};
use tilemark_store_data::{DataSize, Generator, Store};
use tilemark_workloads::store::{DATABASE, database_kind_of};

mod mariadb;
mod postgresql;

/// An emulated guest on a busy host takes minutes to start a server on a large database; the host waits less long.
const ANSWERS_WITHIN: Duration = Duration::from_secs(600);
/// Time between two attempts while a server starts; none are made once it answers.
const RETRY_AFTER: Duration = Duration::from_millis(20);
/// Purging and writing all that a large buffer pool holds.
const ENDS_WITHIN: Duration = Duration::from_secs(300);
/// Seed of the data: the same in every template, so that runs differ in nothing.
const DATA_SEED: u64 = 7;

/// Where the log is beside the data.
const LOG_BESIDE: &str = "/srv/tilemark/data/log";
/// Sockets, settings and the server's own messages.
const STATE: &str = "/run/tilemark";

/// A file beside the data: the server's own files are whole.
const FILES_MADE: &str = "tilemark-made";
/// A file beside the data: what the user's SQL file makes is whole.
const SQL_RUN: &str = "tilemark-sql";
/// A file beside the data: the tables of a workload's own program are whole.
const TABLES_MADE: &str = "tilemark-tables";

/// One server with its folders.
struct Server<'a> {
    kind: DatabaseKind,
    parameters: &'a StoreParameters,
    service: &'a Service,
    /// Where data is.
    data: PathBuf,
    /// Where the log is.
    log: PathBuf,
    /// Who runs it.
    user: SystemUser,
}

/// A user of the guest's own system.
#[derive(Debug, Clone, Copy)]
struct SystemUser {
    user: u32,
    group: u32,
}

/// Starts it with the store that its load will ask for, and waits until it answers.
pub(super) fn start(service: &Service, power: &mut Power) -> Result<Started, AgentError> {
    let parameters = parameters(service);
    let kind = database_kind_of(&parameters);
    let name = match kind {
        DatabaseKind::Mariadb => mariadb::USER,
        DatabaseKind::Postgresql => postgresql::USER,
    };
    let user = system_user(name)?;
    for disk in [DataDisk::Data, DataDisk::Log] {
        disk.take(power)?;
    }
    let has_one_disk = DataDisk::Data.device().exists() && !DataDisk::Log.device().exists();
    fs::create_dir_all(STATE).map_err(step(format!("make {STATE}")))?;
    own(Path::new(STATE), user)?;
    let data = DataDisk::Data.folder().join(kind.name());
    let log = if has_one_disk { PathBuf::from(LOG_BESIDE) } else { DataDisk::Log.folder() }.join(kind.name());
    let server = Server { kind, parameters: &parameters, service, data, log, user };
    server.start()
}

/// What the server is sized by.
fn parameters(service: &Service) -> StoreParameters {
    let store = service.store().cloned().unwrap_or_default();
    let clients = service.holds.as_ref().and_then(|work| work.facts().database_clients());
    StoreParameters { clients: clients.unwrap_or(store.clients), ..store }
}

/// Ends it in order and gives its disks back whole.
pub(super) fn stop(service: &Service, mut child: Child, power: &mut Power) -> Result<(), AgentError> {
    let id = Pid::from_child(&child);
    let signal = match database_kind_of(&parameters(service)) {
        DatabaseKind::Mariadb => Signal::TERM,
        // Its fast end; the one by TERM waits for every client to leave.
        DatabaseKind::Postgresql => Signal::INT,
    };
    kill_process(id, signal).map_err(step("end the database"))?;
    let deadline = Instant::now() + ENDS_WITHIN;
    while child.try_wait().map_err(step("wait for the database's end"))?.is_none() {
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            return Err(AgentError::Service(format!(
                "the database did not end within {} s",
                ENDS_WITHIN.as_secs()
            )));
        }
        thread::sleep(RETRY_AFTER);
    }
    for disk in [DataDisk::Log, DataDisk::Data] {
        power.unmount(disk)?;
    }
    rustix::fs::sync();
    Ok(())
}

impl Server<'_> {
    fn start(&self) -> Result<Started, AgentError> {
        let is_new = !self.data.join(FILES_MADE).exists();
        if is_new {
            for folder in [&self.data, &self.log] {
                fs::create_dir_all(folder).map_err(step(format!("make {}", folder.display())))?;
                own(folder, self.user)?;
            }
        }
        let owner = self.owner();
        let mut child = match self.kind {
            DatabaseKind::Mariadb => mariadb::start(self, is_new)?,
            DatabaseKind::Postgresql => postgresql::start(self, is_new)?,
        };
        let prepared = await_answer(&mut child, &owner, self).and_then(|()| self.prepare(&owner));
        if let Err(error) = prepared {
            let _ = child.kill();
            let _ = child.wait();
            return Err(error);
        }
        let port = match self.kind {
            DatabaseKind::Mariadb => mariadb::PORT,
            DatabaseKind::Postgresql => postgresql::PORT,
        };
        Ok(Started::process(port, child))
    }

    /// The store with the rows that are asked for, and the run's own user.
    fn prepare(&self, owner: &DatabaseAddress) -> Result<(), AgentError> {
        let database = DatabaseAddress { database: DATABASE.to_owned(), ..owner.clone() };
        let holds = match tilemark_store::holds_store(&database) {
            Err(StoreError::NoDatabase { .. }) => {
                tilemark_store::create_database(owner, DATABASE)?;
                false
            }
            other => other?,
        };
        // Without a store's load nobody asks for its rows.
        if !holds && self.service.store().is_some() {
            let size = DataSize::from_bytes(self.parameters.data.get()).map_err(StoreError::from)?;
            let threads = self.service.vcpus.max(1) as usize;
            let generator =
                Generator::new(Store::of_size(size, DATA_SEED), threads).map_err(StoreError::from)?;
            tilemark_store::load_database(&database, &Arc::new(generator), &mut |_| {})?;
            tilemark_store::settle(&database)?;
        }
        if let Some(work) = &self.service.holds {
            self.make_tables(work, &database)?;
        }
        if let Some(sql) = &self.service.sql {
            self.run_sql(sql, owner)?;
        }
        if let Some(credentials) = &self.service.credentials {
            let password = Secret::new(&credentials.password);
            tilemark_store::let_in(&database, &credentials.user, &password)?;
        }
        Ok(())
    }

    /// The tables that a workload's own program makes, where they are not there yet.
    fn make_tables(&self, work: &Work, database: &DatabaseAddress) -> Result<(), AgentError> {
        let filling = tilemark_workloads::fills_database(work, self.service.vcpus, DATA_SEED);
        let Some((mut program, name)) = filling.filter(|_| !self.data.join(TABLES_MADE).exists()) else {
            return Ok(());
        };
        self.run(&mut program, name)?;
        tilemark_store::settle(database)?;
        self.note(TABLES_MADE)
    }

    /// Runs the user's own SQL file, unless it has run on this data.
    fn run_sql(&self, path: &str, owner: &DatabaseAddress) -> Result<(), AgentError> {
        if self.data.join(SQL_RUN).exists() {
            return Ok(());
        }
        let file = File::open(path).map_err(|_| AgentError::NotInImage {
            service: "database".to_owned(),
            lacks: format!("{path}, its `sql`"),
        })?;
        let mut command = mariadb::client();
        // What it selects is for nobody.
        self.run(command.stdin(file).stdout(Stdio::null()), &format!("MariaDB's client with {path}"))?;
        tilemark_store::settle(&DatabaseAddress { database: DATABASE.to_owned(), ..owner.clone() })?;
        self.note(SQL_RUN)
    }

    fn owner(&self) -> DatabaseAddress {
        match self.kind {
            DatabaseKind::Mariadb => mariadb::owner(),
            DatabaseKind::Postgresql => postgresql::owner(),
        }
    }

    /// The server's settings as `name=value`, sized by the guest's memory.
    fn settings(&self) -> Result<Vec<String>, AgentError> {
        let durability = match self.parameters.durability {
            StoreDurability::Full => Durability::Full,
            StoreDurability::Relaxed => Durability::Relaxed,
        };
        let memory = self.service.memory.get();
        let settings =
            tilemark_store::server_settings(self.kind, memory, self.parameters.clients, durability)?;
        Ok(settings.iter().map(tilemark_store::Setting::line).collect())
    }

    /// The files of a certificate of this start, where its load comes over TLS.
    fn certificate(&self) -> Result<Option<Files>, AgentError> {
        let owner = (self.user.user, self.user.group);
        let write = || Certificate::make()?.write(Path::new(STATE), Some(owner));
        self.service.tls.then(write).transpose()
    }

    /// A program of this server, as the server's own user.
    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.uid(self.user.user).gid(self.user.group).current_dir("/").stdin(Stdio::null());
        command
    }

    /// Runs a program to its end.
    fn run(&self, command: &mut Command, what: &str) -> Result<(), AgentError> {
        let output = command.output().map_err(step(format!("start {what}")))?;
        if output.status.success() {
            return Ok(());
        }
        let said = [&output.stdout[..], &output.stderr[..]].concat();
        let said = String::from_utf8_lossy(&said);
        let last: Vec<&str> = said.trim_end().lines().rev().take(3).collect();
        let last = last.into_iter().rev().collect::<Vec<_>>().join("; ");
        Err(AgentError::Service(format!("{what} ended with {}: {last}", output.status)))
    }

    /// Notes that the server's own files are whole.
    fn made(&self) -> Result<(), AgentError> {
        self.note(FILES_MADE)
    }

    fn note(&self, name: &str) -> Result<(), AgentError> {
        let note = self.data.join(name);
        fs::write(&note, "").map_err(step(format!("write {}", note.display())))
    }

    /// A new file for the server's messages; its content is printed if it does not start.
    fn messages(&self) -> Result<File, AgentError> {
        let path = Path::new(STATE).join("database.log");
        File::create(&path).map_err(step(format!("make {}", path.display())))
    }
}

/// Waits until the server answers.
fn await_answer(child: &mut Child, owner: &DatabaseAddress, server: &Server<'_>) -> Result<(), AgentError> {
    let log = Path::new(STATE).join("database.log");
    let said = || {
        // All of it onto the console.
        eprintln!("{}", fs::read_to_string(&log).unwrap_or_default());
        last_words(&log, server.service.credentials.as_ref())
    };
    let answers = || tilemark_store::answers(owner).map_err(|error| error.with_causes());
    let service = server.kind.to_string();
    let wait = Wait { service: &service, within: ANSWERS_WITHIN, retry_after: RETRY_AFTER };
    wait.until_it_serves(child, answers, said)
}

fn own(path: &Path, user: SystemUser) -> Result<(), AgentError> {
    std::os::unix::fs::chown(path, Some(user.user), Some(user.group))
        .map_err(step(format!("give {} to its user", path.display())))
}

/// Ids of a user that the server's package made.
fn system_user(name: &str) -> Result<SystemUser, AgentError> {
    let text = fs::read_to_string("/etc/passwd").map_err(step("read /etc/passwd"))?;
    let of = |line: &str| {
        let mut fields = line.strip_prefix(name)?.strip_prefix(':')?.split(':').skip(1);
        Some(SystemUser { user: fields.next()?.parse().ok()?, group: fields.next()?.parse().ok()? })
    };
    text.lines().find_map(of).ok_or_else(|| AgentError::NotInImage {
        service: "database".to_owned(),
        lacks: format!("its user `{name}`"),
    })
}
