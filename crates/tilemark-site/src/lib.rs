//! The site file: which hosts there are and by which engine they are used. Scenarios name no machine.

pub mod carrier;
pub mod left_job;
pub mod partition;

use carrier::is_srun;
use serde::{Deserialize, Serialize};
use std::{
    collections::BTreeSet,
    io,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};
use tilemark_sys::text_file::read_text;
use tilemark_units::{Span, in_our_words};

/// A site file that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SiteError {
    /// A key or value in it is wrong, or something is missing.
    #[error("{}: {what}", path.display())]
    Site {
        /// The file.
        path: PathBuf,
        /// Which key with which value, and why.
        what: String,
    },
    /// It cannot be read.
    #[error("cannot read {}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
}

impl SiteError {
    /// What to do about it.
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::Site { .. } => {
                "fix the site file: docs/fleet.md has an example of each engine, docs/clients.md one with client machines"
            }
            Self::File { .. } => "check that the file exists and may be read",
        }
    }
}

/// The format of a site file.
const SITE_SCHEMA: u32 = 1;
/// A host that has not answered for so many seconds is given up, unless the file has another time.
const LOST_AFTER_S: u64 = 60;
/// A site file has a few lines a host.
const BYTES_MAX: u64 = 1 << 20;
/// Characters of a line that a message shows.
const LINE_SHOWN: usize = 250;
/// Each host has a thread and a connection of its own while a fleet run is watched.
const HOSTS_MAX: usize = 1000;
/// The longest name of a host, address or user: of RFC 1035, section 2.3.4.
const NAME_BYTES_MAX: usize = 253;
/// Each client has a connection of its own for as long as a run lasts.
const CLIENTS_MAX: usize = 64;
/// The longest name of a network device: `IFNAMSIZ` of linux/if.h, without its end.
const DEVICE_NAME_BYTES_MAX: usize = 15;
/// Of a network with a prefix of 16 bits. A run uses as many as it has guests, and one more; the others are never asked for.
const ADDRESSES_MAX: u32 = 1 << 16;

/// How work reaches the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteEngine {
    /// Each host over ssh; its work outlives the connection.
    Ssh,
    /// One exclusive job a host.
    Slurm(Slurm),
    /// A command that gives a shell on the host: `{host}`, `{address}` and `{user}` are replaced in its words.
    Exec {
        /// Its words.
        command: Vec<String>,
    },
}

/// How jobs of Slurm's are asked for. What is none is as Slurm has it by itself.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Slurm {
    /// The partition.
    pub partition: Option<String>,
    /// The account that the time is charged to.
    pub account: Option<String>,
    /// The quality of service.
    pub qos: Option<String>,
    /// How many seconds the work on a host may take.
    pub time_s: Option<u64>,
    /// Whether questions and records go over ssh instead of jobs of their own.
    pub over_ssh: bool,
}

impl Slurm {
    /// The flags that `sbatch` and `srun` both take.
    pub fn flags(&self) -> Vec<String> {
        let keys = [("partition", &self.partition), ("account", &self.account), ("qos", &self.qos)];
        keys.into_iter().filter_map(|(key, value)| Some(format!("--{key}={}", value.as_ref()?))).collect()
    }
}

/// One host.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Host {
    /// Its name here, and Slurm's name of it.
    pub name: String,
    /// Where ssh finds it.
    pub address: String,
    /// As whom; none: as ssh's own settings have it.
    pub user: Option<String>,
    /// Groups that its owner sees it in.
    pub groups: Vec<String>,
}

/// How the agent of a client is reached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClientCarrier {
    /// Over ssh.
    Ssh,
    /// A job of Slurm's, in this partition.
    Srun {
        /// The partition; none: Slurm's default.
        partition: Option<String>,
    },
    /// A command that gives a POSIX shell on the client: `{host}` (its name), `{address}` and `{user}` are replaced in its words.
    Exec {
        /// Its words.
        command: Vec<String>,
    },
}

/// A machine that sends loads.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Client {
    /// Its name here, and Slurm's name of it.
    pub name: String,
    /// How its agent is reached.
    pub carrier: ClientCarrier,
    /// Where ssh finds it.
    pub address: String,
    /// As whom; none: as ssh's own settings have it. It need not be root.
    pub user: Option<String>,
}

/// The user's own network, over which clients reach guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Network {
    /// The name of the bridge on the measured host.
    pub bridge: String,
    /// The first address that guests may have.
    pub first: Ipv4Addr,
    /// The last one.
    pub last: Ipv4Addr,
}

/// A site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// How work reaches the hosts.
    pub engine: SiteEngine,
    /// The program on the hosts: a name on their PATH, or a path.
    pub program: String,
    /// A host that has not answered for so many seconds is given up.
    pub lost_after_s: u64,
    /// The hosts, as they are listed. Never empty for a fleet.
    pub hosts: Vec<Host>,
    /// The machines that send loads, as they are listed.
    #[serde(default)]
    pub clients: Vec<Client>,
    /// The network between clients and guests.
    #[serde(default)]
    pub network: Option<Network>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteText {
    schema: u32,
    engine: Option<EngineText>,
    partition: Option<String>,
    account: Option<String>,
    qos: Option<String>,
    time: Option<toml::Value>,
    carrier: Option<CarrierText>,
    exec: Option<Vec<String>>,
    program: Option<String>,
    lost_after: Option<toml::Value>,
    #[serde(default)]
    host: Vec<HostText>,
    #[serde(default)]
    client: Vec<ClientText>,
    network: Option<NetworkText>,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum EngineText {
    Ssh,
    Slurm,
    Exec,
}

#[derive(Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
enum CarrierText {
    Ssh,
    Srun,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct HostText {
    name: String,
    address: Option<String>,
    user: Option<String>,
    #[serde(default)]
    groups: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ClientText {
    name: String,
    /// A word, or the words of a command.
    carrier: Option<toml::Value>,
    address: Option<String>,
    user: Option<String>,
    partition: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NetworkText {
    bridge: String,
    addresses: String,
}

impl Site {
    /// Reads a site file for a fleet: it has hosts.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 1 MiB, has no host, or a key or value in it is wrong; the error names it.
    pub fn read(path: &Path) -> Result<Self, SiteError> {
        let site = Self::read_any(path)?;
        if site.hosts.is_empty() {
            let what = format!("0 [[host]] entries: a fleet has 1 to {HOSTS_MAX}");
            return Err(SiteError::Site { path: path.to_owned(), what });
        }
        Ok(site)
    }

    /// Reads a site file for a run on this host: it has clients or a network, and need not have hosts.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 1 MiB, has neither, or a key or value in it is wrong; the error names it.
    pub fn read_for_run(path: &Path) -> Result<Self, SiteError> {
        let site = Self::read_any(path)?;
        if site.clients.is_empty() && site.network.is_none() {
            let neither =
                "it has neither [[client]] nor [network], and a run on this host uses nothing else of it";
            let of_fleet = match site.hosts.is_empty() {
                true => "",
                false => "; to look at the hosts of a fleet: `tilemark fleet plan SCENARIO --site FILE`",
            };
            return Err(SiteError::Site { path: path.to_owned(), what: format!("{neither}{of_fleet}") });
        }
        Ok(site)
    }

    fn read_any(path: &Path) -> Result<Self, SiteError> {
        let text =
            read_text(path, BYTES_MAX).map_err(|source| SiteError::File { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|what| SiteError::Site { path: path.to_owned(), what })
    }

    /// Reads the text of a site file; the error names the key and the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text: SiteText = toml::from_str(text).map_err(|error| unreadable(text, &error))?;
        if text.schema != SITE_SCHEMA {
            return Err(format!("schema = {}: this program knows schema = {SITE_SCHEMA}", text.schema));
        }
        let engine = engine(&text)?;
        let program = text.program.unwrap_or_else(|| "tilemark".to_owned());
        plain_word("program", &program)?;
        let lost_after_s =
            text.lost_after.as_ref().map_or(Ok(LOST_AFTER_S), |value| seconds_of("lost_after", value))?;
        if text.host.len() > HOSTS_MAX {
            return Err(format!("{} [[host]] entries: a site has at most {HOSTS_MAX}", text.host.len()));
        }
        if text.client.len() > CLIENTS_MAX {
            return Err(format!(
                "{} [[client]] entries: a site has at most {CLIENTS_MAX}",
                text.client.len()
            ));
        }
        let mut names = BTreeSet::new();
        let hosts = text.host.into_iter().map(|host| {
            let host = host_of(host)?;
            if names.insert(host.name.clone()) {
                Ok(host)
            } else {
                Err(format!("host.name = {:?} is there twice", host.name))
            }
        });
        let hosts = hosts.collect::<Result<_, String>>()?;
        let mut names = BTreeSet::new();
        let clients = text.client.into_iter().map(|client| {
            let client = client_of(client)?;
            if names.insert(client.name.clone()) {
                Ok(client)
            } else {
                Err(format!("client.name = {:?} is there twice", client.name))
            }
        });
        Ok(Self {
            engine,
            program,
            lost_after_s,
            hosts,
            clients: clients.collect::<Result<_, String>>()?,
            network: text.network.map(network_of).transpose()?,
        })
    }
}

/// What keeps a text from being a site file: the line, and what is wrong there.
fn unreadable(text: &str, error: &toml::de::Error) -> String {
    let reason = in_our_words(&error.message().replace('\n', ", "));
    if error.message().starts_with("missing field `schema`") {
        return format!("{reason}: add `schema = {SITE_SCHEMA}`");
    }
    let start = error.span().map_or(0, |span| span.start.min(text.len()));
    let number = text.as_bytes()[..start].iter().filter(|byte| **byte == b'\n').count();
    let line: String = text.lines().nth(number).unwrap_or_default().trim().chars().take(LINE_SHOWN).collect();
    format!("line {}: {reason}: {line}", number + 1)
}

/// The whole seconds of a key.
fn seconds_of(key: &str, value: &toml::Value) -> Result<u64, String> {
    let span = match value {
        toml::Value::String(text) => {
            text.parse::<Span>().map_err(|error| format!("{key} = {text:?}: {error}"))?
        }
        toml::Value::Integer(number) => {
            return Err(format!("{key} = {number}: a time has a unit: write {key} = \"{number}s\""));
        }
        other => return Err(format!("{key} = {other}: write a time, as in {key} = \"60s\"")),
    };
    match span.get().as_secs() {
        0 => Err(format!("{key} is below 1s")),
        seconds => Ok(seconds),
    }
}

fn engine(text: &SiteText) -> Result<SiteEngine, String> {
    let of_slurm =
        [("account", text.account.is_some()), ("qos", text.qos.is_some()), ("time", text.time.is_some())];
    if let Some((key, _)) = of_slurm.iter().find(|(_, is_set)| *is_set)
        && text.engine != Some(EngineText::Slurm)
    {
        return Err(format!("{key} belongs to engine = \"slurm\""));
    }
    let Some(engine) = &text.engine else {
        if !text.host.is_empty() {
            return Err(
                "engine is missing: write engine = \"ssh\", \"slurm\" or \"exec\" for the [[host]] entries"
                    .to_owned(),
            );
        }
        if text.partition.is_some() || text.carrier.is_some() || text.exec.is_some() {
            return Err(
                "partition, carrier and exec at the top belong to an engine, which is for [[host]] entries: \
                        write them below [[client]]"
                    .to_owned(),
            );
        }
        return Ok(SiteEngine::Ssh);
    };
    if text.partition.is_some() && *engine != EngineText::Slurm {
        return Err("partition belongs to engine = \"slurm\"".to_owned());
    }
    if text.carrier.is_some() && *engine != EngineText::Slurm {
        return Err("carrier belongs to engine = \"slurm\"".to_owned());
    }
    match (engine, &text.exec) {
        (EngineText::Ssh | EngineText::Slurm, Some(_)) => Err("exec belongs to engine = \"exec\"".to_owned()),
        (EngineText::Ssh, None) => Ok(SiteEngine::Ssh),
        (EngineText::Slurm, None) => slurm(text).map(SiteEngine::Slurm),
        (EngineText::Exec, None) => Err(
            "engine = \"exec\" needs exec, such as exec = [\"docker\", \"exec\", \"-i\", \"{host}\", \"sh\"]"
                .to_owned(),
        ),
        (EngineText::Exec, Some(command))
            if !command.iter().skip(1).any(|word| word.contains("{host}") || word.contains("{address}")) =>
        {
            Err(format!(
                "exec = {command:?} names neither {{host}} nor {{address}}: all hosts would be the same one"
            ))
        }
        (EngineText::Exec, Some(command)) => {
            unbuffered("exec", command)?;
            Ok(SiteEngine::Exec { command: command.clone() })
        }
    }
}

fn slurm(text: &SiteText) -> Result<Slurm, String> {
    for (key, value) in [("partition", &text.partition), ("account", &text.account), ("qos", &text.qos)] {
        value.as_deref().map_or(Ok(()), |value| plain_word(key, value))?;
    }
    Ok(Slurm {
        partition: text.partition.clone(),
        account: text.account.clone(),
        qos: text.qos.clone(),
        time_s: text.time.as_ref().map(|value| seconds_of("time", value)).transpose()?,
        over_ssh: text.carrier == Some(CarrierText::Ssh),
    })
}

fn is_name(name: &str) -> bool {
    let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
    name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name.chars().all(is_letter)
        && name.len() <= 64
}

fn client_of(text: ClientText) -> Result<Client, String> {
    if !is_name(&text.name) {
        return Err(format!(
            "client.name = {:?}: a name has 1 to 64 letters, digits, `.`, `-` and `_`",
            text.name
        ));
    }
    let address = text.address.unwrap_or_else(|| text.name.clone());
    plain_word("client.address", &address)?;
    text.user.as_deref().map_or(Ok(()), |user| plain_word("client.user", user))?;
    let carrier = match text.carrier {
        None => ClientCarrier::Ssh,
        Some(toml::Value::String(word)) if word == "ssh" => ClientCarrier::Ssh,
        Some(toml::Value::String(word)) if word == "srun" => {
            text.partition
                .as_deref()
                .map_or(Ok(()), |partition| plain_word("client.partition", partition))?;
            ClientCarrier::Srun { partition: text.partition.clone() }
        }
        Some(given) => exec_of(&given)?,
    };
    if text.partition.is_some() && !matches!(carrier, ClientCarrier::Srun { .. }) {
        return Err("client.partition belongs to carrier = \"srun\"".to_owned());
    }
    Ok(Client { name: text.name, carrier, address, user: text.user })
}

fn exec_of(given: &toml::Value) -> Result<ClientCarrier, String> {
    let words = given.as_array().map(|words| words.iter().map(|word| word.as_str().map(str::to_owned)));
    match words.and_then(Iterator::collect::<Option<Vec<String>>>) {
        Some(command) if command.first().is_some_and(|program| !program.is_empty()) => {
            unbuffered("client.carrier", &command)?;
            Ok(ClientCarrier::Exec { command })
        }
        _ => Err(format!(
            "client.carrier = {given}: write \"ssh\", \"srun\", or the words of a command that gives a shell there, \
             such as [\"docker\", \"exec\", \"-i\", \"{{address}}\", \"sh\"]"
        )),
    }
}

/// Without a flag `srun` holds what is sent back until a line ends, and what is sent here need not end one.
fn unbuffered(key: &str, command: &[String]) -> Result<(), String> {
    if command.first().is_some_and(|program| is_srun(program))
        && !command.iter().any(|word| word == "--unbuffered" || word == "-u")
    {
        return Err(format!(
            "{key} = {command:?}: `srun` without `--unbuffered` holds back what has no line's end, and would hang: add it"
        ));
    }
    Ok(())
}

fn network_of(text: NetworkText) -> Result<Network, String> {
    let is_device = |letter: char| letter.is_ascii_graphic() && !"/:%".contains(letter);
    let name = &text.bridge;
    if name.is_empty()
        || name.len() > DEVICE_NAME_BYTES_MAX
        || !name.chars().all(is_device)
        || name.starts_with(['-', '.'])
    {
        return Err(format!(
            "network.bridge = {name:?}: the name of a network device has 1 to {DEVICE_NAME_BYTES_MAX} letters, as in \"br0\""
        ));
    }
    let wrong = |why: &str| {
        format!(
            "network.addresses = {:?}: {why}; write two IPv4 addresses, as in \"192.0.2.64-192.0.2.191\"",
            text.addresses
        )
    };
    let (first, last) = text.addresses.split_once('-').ok_or_else(|| wrong("it is not a range"))?;
    let address =
        |part: &str| part.trim().parse::<Ipv4Addr>().map_err(|_| wrong("it is not a range of addresses"));
    let (first, last) = (address(first)?, address(last)?);
    if first > last {
        return Err(wrong("the first address is behind the last"));
    }
    if u32::from(last) - u32::from(first) >= ADDRESSES_MAX {
        return Err(wrong("it has more than 65536 addresses"));
    }
    let is_odd = |address: Ipv4Addr| {
        address.is_loopback()
            || address.is_multicast()
            || address.is_unspecified()
            || address.octets()[0] >= 240
    };
    if is_odd(first) || is_odd(last) {
        return Err(wrong("no guest can have these addresses"));
    }
    Ok(Network { bridge: text.bridge, first, last })
}

fn host_of(text: HostText) -> Result<Host, String> {
    if !is_name(&text.name) {
        return Err(format!(
            "host.name = {:?}: a name has 1 to 64 letters, digits, `.`, `-` and `_`",
            text.name
        ));
    }
    let address = text.address.unwrap_or_else(|| text.name.clone());
    plain_word("host.address", &address)?;
    text.user.as_deref().map_or(Ok(()), |user| plain_word("host.user", user))?;
    if let Some(group) = text.groups.iter().find(|group| !is_name(group)) {
        return Err(format!(
            "host.groups has {group:?}: a group's name has 1 to 64 letters, digits, `.`, `-` and `_`"
        ));
    }
    Ok(Host { name: text.name, address, user: text.user, groups: text.groups })
}

/// A word that may be an argument of another program: it is no flag of it.
fn plain_word(key: &str, word: &str) -> Result<(), String> {
    let is_odd = |letter: char| letter.is_whitespace() || letter.is_control();
    if word.is_empty() || word.starts_with('-') || word.contains(is_odd) || word.len() > NAME_BYTES_MAX {
        return Err(format!(
            "{key} = {word:?}: it is empty, begins with `-`, has a space, or is longer than {NAME_BYTES_MAX} bytes"
        ));
    }
    Ok(())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    #[test]
    fn a_site_of_each_engine_is_read() {
        let site = Site::parse(
            "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\n[[host]]\nname = \"n2\"\naddress = \"192.0.2.2\"\nuser = \"root\"\ngroups = [\"rack-a\"]",
        )
        .unwrap();
        assert_eq!(
            (site.engine, site.program.as_str(), site.lost_after_s),
            (SiteEngine::Ssh, "tilemark", 60)
        );
        assert_eq!((site.hosts[0].address.as_str(), site.hosts[1].address.as_str()), ("n1", "192.0.2.2"));
        let slurm = Site::parse("schema = 1\nengine = \"slurm\"\npartition = \"p\"\ncarrier = \"ssh\"\nlost_after = \"2s\"\n[[host]]\nname = \"n1\"").unwrap();
        let wanted = Slurm { partition: Some("p".into()), over_ssh: true, ..Slurm::default() };
        assert_eq!(slurm.engine, SiteEngine::Slurm(wanted));
        assert_eq!(slurm.lost_after_s, 2);
        let asked = Site::parse("schema = 1\nengine = \"slurm\"\naccount = \"a\"\nqos = \"q\"\ntime = \"2h\"\n[[host]]\nname = \"n1\"").unwrap();
        let SiteEngine::Slurm(asked) = asked.engine else { panic!("{asked:?}") };
        assert_eq!((asked.flags(), asked.time_s), (vec!["--account=a".into(), "--qos=q".into()], Some(7200)));
        // As a fleet run of an older version has it.
        let older: SiteEngine = toml::from_str("[slurm]\npartition = \"p\"\nover_ssh = false").unwrap();
        assert_eq!(older, SiteEngine::Slurm(Slurm { partition: Some("p".into()), ..Slurm::default() }));
        let exec = Site::parse(
            "schema = 1\nengine = \"exec\"\nexec = [\"sh\", \"-c\", \"{host}\"]\n[[host]]\nname = \"n1\"",
        )
        .unwrap();
        assert_eq!(
            exec.engine,
            SiteEngine::Exec { command: vec!["sh".into(), "-c".into(), "{host}".into()] }
        );
    }

    #[test]
    fn a_site_of_clients_needs_no_engine_and_no_host() {
        let site = Site::parse(
            "schema = 1\n[[client]]\nname = \"c1\"\n[[client]]\nname = \"c2\"\ncarrier = \"srun\"\npartition = \"p\"\n\
             [[client]]\nname = \"c3\"\ncarrier = [\"sh\"]\naddress = \"192.0.2.3\"\nuser = \"me\"\n\
             [network]\nbridge = \"br0\"\naddresses = \"192.0.2.64-192.0.2.191\"",
        )
        .unwrap();
        assert!(site.hosts.is_empty());
        let carriers: Vec<&ClientCarrier> = site.clients.iter().map(|client| &client.carrier).collect();
        assert_eq!(
            carriers,
            [
                &ClientCarrier::Ssh,
                &ClientCarrier::Srun { partition: Some("p".into()) },
                &ClientCarrier::Exec { command: vec!["sh".into()] }
            ]
        );
        assert_eq!((site.clients[0].address.as_str(), site.clients[2].address.as_str()), ("c1", "192.0.2.3"));
        let network = site.network.unwrap();
        assert_eq!(
            (network.bridge.as_str(), network.first.octets()[3], network.last.octets()[3]),
            ("br0", 64, 191)
        );
    }

    #[test]
    fn a_site_of_a_network_alone_serves_a_run() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.toml");
        let text = "schema = 1\n[network]\nbridge = \"br0\"\naddresses = \"192.0.2.64-192.0.2.191\"";
        std::fs::write(&path, text).unwrap();
        assert_eq!(Site::read_for_run(&path).unwrap().network.unwrap().bridge, "br0");
        let refused = |text: &str| {
            std::fs::write(&path, text).unwrap();
            Site::read_for_run(&path).unwrap_err().to_string()
        };
        let of_fleet = refused("schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"");
        let empty = refused("schema = 1\n");
        for said in [&of_fleet, &empty] {
            assert!(said.contains("neither [[client]] nor [network]"), "{said}");
        }
        assert!(of_fleet.contains("`tilemark fleet plan SCENARIO --site FILE`"), "{of_fleet}");
        assert!(!empty.contains("fleet"), "{empty}");
    }

    #[test]
    fn a_fleet_needs_hosts() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("site.toml");
        std::fs::write(&path, "schema = 1\n[[client]]\nname = \"c1\"").unwrap();
        assert!(Site::read(&path).unwrap_err().to_string().contains("0 [[host]]"));
        std::fs::write(&path, "schema = 1\nengine = \"ssh\"\n").unwrap();
        assert!(Site::read(&path).unwrap_err().to_string().contains("0 [[host]] entries: a fleet has 1 to"));
        std::fs::write(&path, "schema = 1\n[[client]]\nname = \"c1\"").unwrap();
        assert_eq!(Site::read_for_run(&path).unwrap().clients.len(), 1);
    }

    #[test]
    fn a_mistake_is_named_with_its_key_and_value() {
        let host = "[[host]]\nname = \"n1\"\n";
        let client = |keys: &str| format!("schema = 1\n[[client]]\nname = \"c1\"\n{keys}");
        let network =
            |addresses: &str| client(&format!("[network]\nbridge = \"br0\"\naddresses = \"{addresses}\""));
        for (text, named) in [
            (String::new(), "`schema` is missing: add `schema = 1`"),
            (
                format!("schema = 1\nengine = \"ssh\"\nlost_after = 60\n{host}"),
                "lost_after = 60: a time has a unit: write lost_after = \"60s\"",
            ),
            (format!("schema = 1\nengine = \"ssh\"\nlost_after = \"soon\"\n{host}"), "lost_after = \"soon\""),
            (
                format!("schema = 1\nengine = \"ssh\"\nlost_after = [1]\n{host}"),
                "lost_after = [1]: write a time",
            ),
            (
                format!("schema = 1\nengine = \"shh\"\n{host}"),
                "line 2: there is no value `shh`. Did you mean `ssh`? There are: `ssh`, `slurm`, `exec`: engine = \"shh\"",
            ),
            (
                "schema = 1\n[[clients]]\nname = \"c1\"".to_owned(),
                "line 2: there is no key `clients`. Did you mean `client`?",
            ),
            (
                "schema = 1\nengine = \"ssh\"\n[[host]]\nname = 1".to_owned(),
                "line 4: it is the number 1, and a text in quotes is meant: name = 1",
            ),
            ("schema = 1\nengine = \"ssh\"\n[[host]]\nuser = \"me\"".to_owned(), "`name` is missing"),
            (format!("schema = 1\n{host}"), "engine is missing"),
            (format!("schema = 1\nexec = [\"a\"]\n{}", "[[client]]\nname = \"c1\""), "below [[client]]"),
            (client("carrier = \"telnet\""), "client.carrier = \"telnet\""),
            (
                client("carrier = [\"/usr/bin/srun\", \"-w\", \"{host}\", \"sh\"]"),
                "`srun` without `--unbuffered`",
            ),
            (
                format!("schema = 1\nengine = \"exec\"\nexec = [\"srun\", \"-w{{host}}\", \"sh\"]\n{host}"),
                "`srun` without `--unbuffered`",
            ),
            (client("carrier = []"), "client.carrier = []"),
            (client("carrier = [1]"), "client.carrier = [1]"),
            (client("partition = \"p\""), "client.partition"),
            (client("address = \"-oX\""), "client.address = \"-oX\""),
            (client("user = \"a b\""), "client.user"),
            (client("colour = 1"), "colour"),
            (client("[[client]]\nname = \"c1\""), "client.name = \"c1\" is there twice"),
            ("schema = 1\n[[client]]\nname = \"a/b\"".to_owned(), "client.name = \"a/b\""),
            (network("192.0.2.9-192.0.2.8"), "behind the last"),
            (network("192.0.2.9"), "is not a range"),
            (network("192.0.2.9-x"), "network.addresses"),
            (network("127.0.0.1-127.0.0.9"), "no guest"),
            (network("10.0.0.0-10.1.0.0"), "65536"),
            (client("[network]\nbridge = \"a/b\"\naddresses = \"192.0.2.1-192.0.2.2\""), "network.bridge"),
            (format!("schema = 2\nengine = \"ssh\"\n{host}"), "schema = 2"),
            (format!("engine = \"ssh\"\n{host}"), "schema"),
            (format!("schema = 1\nengine = \"nomad\"\n{host}"), "nomad"),
            (format!("schema = 1\nengine = \"ssh\"\ncolour = 1\n{host}"), "colour"),
            (format!("schema = 1\nengine = \"ssh\"\npartition = \"p\"\n{host}"), "partition"),
            (format!("schema = 1\nengine = \"ssh\"\nexec = [\"a\"]\n{host}"), "exec"),
            (
                format!("schema = 1\nengine = \"ssh\"\ntime = \"1h\"\n{host}"),
                "time belongs to engine = \"slurm\"",
            ),
            (client("").replace("schema = 1\n", "schema = 1\nqos = \"q\"\n"), "qos belongs to engine"),
            (format!("schema = 1\nengine = \"slurm\"\naccount = \"-x\"\n{host}"), "account = \"-x\""),
            (
                format!("schema = 1\nengine = \"slurm\"\ntime = 60\n{host}"),
                "time = 60: a time has a unit: write time = \"60s\"",
            ),
            (format!("schema = 1\nengine = \"exec\"\n{host}"), "needs exec"),
            (format!("schema = 1\nengine = \"exec\"\nexec = [\"a\", \"b\"]\n{host}"), "{host}"),
            (format!("schema = 1\nengine = \"ssh\"\nlost_after = \"0s\"\n{host}"), "lost_after"),
            (format!("schema = 1\nengine = \"ssh\"\nprogram = \"-x\"\n{host}"), "program = \"-x\""),
            (format!("schema = 1\nengine = \"ssh\"\n{host}{host}"), "\"n1\" is there twice"),
            ("schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"../n1\"".to_owned(), "host.name = \"../n1\""),
            (
                "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\naddress = \"-oProxyCommand=x\""
                    .to_owned(),
                "host.address = \"-o",
            ),
            (
                "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\nuser = \"a b\"".to_owned(),
                "host.user = \"a b\"",
            ),
            (
                "schema = 1\nengine = \"ssh\"\n[[host]]\nname = \"n1\"\ngroups = [\"\"]".to_owned(),
                "host.groups",
            ),
        ] {
            let error = Site::parse(&text).unwrap_err();
            assert!(error.contains(named), "{named}: {error}");
        }
    }
}
