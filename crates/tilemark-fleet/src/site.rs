//! The site file: which hosts there are and by which engine they are used. Scenarios name no machine.

use crate::error::FleetError;
use serde::{Deserialize, Serialize};
use std::{collections::BTreeSet, path::Path};
use tilemark_sys::text_file::read_text;
use tilemark_units::Span;

/// The format of a site file.
const SITE_SCHEMA: u32 = 1;
/// A site file has a few lines a host.
const BYTES_MAX: u64 = 1 << 20;
/// Each host has a thread and a connection of its own while a fleet run is watched.
const HOSTS_MAX: usize = 1000;
/// The longest name of a host, address or user: of RFC 1035, section 2.3.4.
const NAME_BYTES_MAX: usize = 253;

/// How work reaches the hosts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Engine {
    /// Each host over ssh; its work outlives the connection.
    Ssh,
    /// One exclusive job a host, in this partition.
    Slurm {
        /// The partition; none: Slurm's default.
        partition: Option<String>,
        /// Whether questions and records go over ssh instead of jobs of their own.
        over_ssh: bool,
    },
    /// A command that gives a shell on the host: `{host}`, `{address}` and `{user}` are replaced in its words.
    Exec {
        /// Its words.
        command: Vec<String>,
    },
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

/// A site.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Site {
    /// How work reaches the hosts.
    pub engine: Engine,
    /// The program on the hosts: a name on their PATH, or a path.
    pub program: String,
    /// A host that has not answered for so many seconds is given up.
    pub lost_after_s: u64,
    /// The hosts, as they are listed.
    pub hosts: Vec<Host>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct SiteText {
    schema: u32,
    engine: EngineText,
    partition: Option<String>,
    carrier: Option<CarrierText>,
    exec: Option<Vec<String>>,
    program: Option<String>,
    lost_after: Option<Span>,
    #[serde(default)]
    host: Vec<HostText>,
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

impl Site {
    /// Reads a site file.
    ///
    /// # Errors
    /// When it cannot be read, is larger than 1 MiB, or a key or value in it is wrong; the error names it.
    pub fn read(path: &Path) -> Result<Self, FleetError> {
        let text = read_text(path, BYTES_MAX)
            .map_err(|source| FleetError::File { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|what| FleetError::Site { path: path.to_owned(), what })
    }

    /// Reads the text of a site file; the error names the key and the value.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text: SiteText = toml::from_str(text).map_err(|error| error.to_string().trim_end().to_owned())?;
        if text.schema != SITE_SCHEMA {
            return Err(format!("schema = {}: this program knows schema = {SITE_SCHEMA}", text.schema));
        }
        let engine = engine(&text)?;
        let program = text.program.unwrap_or_else(|| "tilemark".to_owned());
        plain_word("program", &program)?;
        let lost_after = text.lost_after.unwrap_or(Span::from_seconds(60)).get().as_secs();
        if lost_after == 0 {
            return Err("lost_after is below 1s".to_owned());
        }
        if text.host.is_empty() || text.host.len() > HOSTS_MAX {
            return Err(format!("{} [[host]] entries: a site has 1 to {HOSTS_MAX}", text.host.len()));
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
        Ok(Self { engine, program, lost_after_s: lost_after, hosts: hosts.collect::<Result<_, String>>()? })
    }
}

fn engine(text: &SiteText) -> Result<Engine, String> {
    if text.partition.is_some() && text.engine != EngineText::Slurm {
        return Err("partition belongs to engine = \"slurm\"".to_owned());
    }
    if text.carrier.is_some() && text.engine != EngineText::Slurm {
        return Err("carrier belongs to engine = \"slurm\"".to_owned());
    }
    match (&text.engine, &text.exec) {
        (EngineText::Ssh | EngineText::Slurm, Some(_)) => Err("exec belongs to engine = \"exec\"".to_owned()),
        (EngineText::Ssh, None) => Ok(Engine::Ssh),
        (EngineText::Slurm, None) => {
            text.partition.as_deref().map_or(Ok(()), |partition| plain_word("partition", partition))?;
            Ok(Engine::Slurm {
                partition: text.partition.clone(),
                over_ssh: text.carrier == Some(CarrierText::Ssh),
            })
        }
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
        (EngineText::Exec, Some(command)) => Ok(Engine::Exec { command: command.clone() }),
    }
}

fn host_of(text: HostText) -> Result<Host, String> {
    let is_name = |name: &str| {
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || "._-".contains(letter);
        name.starts_with(|first: char| first.is_ascii_alphanumeric())
            && name.chars().all(is_letter)
            && name.len() <= 64
    };
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
        assert_eq!((site.engine, site.program.as_str(), site.lost_after_s), (Engine::Ssh, "tilemark", 60));
        assert_eq!((site.hosts[0].address.as_str(), site.hosts[1].address.as_str()), ("n1", "192.0.2.2"));
        let slurm = Site::parse("schema = 1\nengine = \"slurm\"\npartition = \"p\"\ncarrier = \"ssh\"\nlost_after = \"2s\"\n[[host]]\nname = \"n1\"").unwrap();
        assert_eq!(slurm.engine, Engine::Slurm { partition: Some("p".into()), over_ssh: true });
        assert_eq!(slurm.lost_after_s, 2);
        let exec = Site::parse(
            "schema = 1\nengine = \"exec\"\nexec = [\"sh\", \"-c\", \"{host}\"]\n[[host]]\nname = \"n1\"",
        )
        .unwrap();
        assert_eq!(exec.engine, Engine::Exec { command: vec!["sh".into(), "-c".into(), "{host}".into()] });
    }

    #[test]
    fn a_mistake_is_named_with_its_key_and_value() {
        let host = "[[host]]\nname = \"n1\"\n";
        for (text, named) in [
            ("schema = 1\nengine = \"ssh\"\n".to_owned(), "0 [[host]]"),
            (format!("schema = 2\nengine = \"ssh\"\n{host}"), "schema = 2"),
            (format!("engine = \"ssh\"\n{host}"), "schema"),
            (format!("schema = 1\nengine = \"nomad\"\n{host}"), "nomad"),
            (format!("schema = 1\nengine = \"ssh\"\ncolour = 1\n{host}"), "colour"),
            (format!("schema = 1\nengine = \"ssh\"\npartition = \"p\"\n{host}"), "partition"),
            (format!("schema = 1\nengine = \"ssh\"\nexec = [\"a\"]\n{host}"), "exec"),
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
