//! How the agent comes to a client: through the stream of a shell, without a file that stays and without anything installed.
//!
//! The shell says that it is ready before the agent is sent: a shell that reads its script from its input may read ahead of it, and
//! would take the first bytes of the agent for its script.

use std::{
    io::{self, BufRead, Read, Write},
    time::Duration,
};
use tilemark_site::{
    Client, ClientCarrier, Slurm,
    carrier::{NodePart, exec_words, srun_words, ssh_words},
    partition::longest_job,
};
use tilemark_units::{Sha256Hash, printable_line};

/// What a login may print before the shell's first word.
const NOISE_BYTES_MAX: usize = 256 << 10;
/// The longest line of it.
const LINE_BYTES_MAX: u64 = 4096;
/// A client that does not take the agent's bytes for so long is not there any more.
const BROUGHT_WITHIN_S: u64 = 120;

/// How often ssh asks whether a client is there.
const SSH_ALIVE_EVERY: Duration = Duration::from_secs(3);

/// One line of POSIX shell. It finds a folder from which programs may be run, takes the agent from its input, and removes it at the end,
/// as the agent does itself at its beginning. A shell whose output is closed gets SIGPIPE: without a trap it ends before it removes anything.
const SCRIPT: &str = r#"umask 077; d=; trap 'rm -rf "$d"' EXIT; trap 'exit 95' HUP INT TERM PIPE; for t in "${TMPDIR:-/tmp}" /tmp /dev/shm /var/tmp "$HOME"; do d=$(mktemp -d "$t/tilemark-client.XXXXXX" 2>/dev/null) || { d=; continue; }; printf '#!/bin/sh\n' >"$d/agent" && chmod 700 "$d/agent" && "$d/agent" 2>/dev/null && break; rm -rf "$d"; d=; done; [ -n "$d" ] || { echo "tilemark-client no-place NONCE"; exit 96; }; echo "tilemark-client ready NONCE"; timeout SECONDS_TO_BRING head -c BYTES >"$d/agent"; s=$(sha256sum <"$d/agent"); [ "${s%% *}" = HASH ] || { echo "tilemark-client damaged NONCE"; exit 97; }; echo "tilemark-client starts NONCE"; "$d/agent" client LIFETIME; exit $?"#;

/// A job of Slurm's lasts so much longer than its agent, which may take a while to arrive.
const JOB_LASTS_LONGER: Duration = Duration::from_secs(120);
/// No agent is asked for a shorter life: Slurm names it where even that is too long.
const LIFETIME_MIN: Duration = Duration::from_secs(60);

/// How long a client's agent may live: as long as is wanted, where its partition of Slurm's has no shorter limit.
pub(super) fn lifetime_of(client: &Client, wanted: Duration) -> Duration {
    match &client.carrier {
        ClientCarrier::Srun { partition } => lifetime_within(wanted, longest_job(partition.as_deref())),
        ClientCarrier::Ssh | ClientCarrier::Exec { .. } => wanted,
    }
}

fn lifetime_within(wanted: Duration, longest: Option<Duration>) -> Duration {
    longest.map_or(wanted, |longest| wanted.min(longest.saturating_sub(JOB_LASTS_LONGER).max(LIFETIME_MIN)))
}

/// The words of a client's carrier. A job of Slurm's has this name, and lasts at most a little longer than the agent.
pub(super) fn words(client: &Client, lifetime: Duration, job: &str) -> Vec<String> {
    let user = client.user.as_deref();
    match &client.carrier {
        ClientCarrier::Ssh => ssh_words(&client.address, user, SSH_ALIVE_EVERY),
        ClientCarrier::Srun { partition } => {
            let minutes = (lifetime + JOB_LASTS_LONGER).as_secs() / 60;
            let slurm = Slurm { partition: partition.clone(), ..Slurm::default() };
            srun_words(&client.name, slurm.flags(), job, minutes, NodePart::Whole)
        }
        ClientCarrier::Exec { command } => exec_words(command, &client.name, &client.address, user),
    }
}

/// Brings the agent and starts it, which ends by itself after so long. What follows on the streams is its conversation.
///
/// # Errors
/// In words: what the shell said, or that the stream ended.
pub(super) fn bring(
    agent: &[u8],
    lifetime: Duration,
    nonce: &str,
    input: &mut impl BufRead,
    output: &mut impl Write,
) -> Result<(), String> {
    let script = script(agent, lifetime, nonce);
    let broke = |error: io::Error| format!("its stream broke: {error}");
    writeln!(output, "{script}").and_then(|()| output.flush()).map_err(broke)?;
    word(input, nonce, "ready")?;
    output.write_all(agent).and_then(|()| output.flush()).map_err(broke)?;
    word(input, nonce, "starts")
}

fn script(agent: &[u8], lifetime: Duration, nonce: &str) -> String {
    SCRIPT
        .replace("NONCE", nonce)
        .replace("SECONDS_TO_BRING", &BROUGHT_WITHIN_S.to_string())
        .replace("BYTES", &agent.len().to_string())
        .replace("HASH", &Sha256Hash::of(agent).to_string())
        .replace("LIFETIME", &lifetime.as_secs().to_string())
}

/// Reads up to a word of the shell's.
fn word(input: &mut impl BufRead, nonce: &str, wanted: &str) -> Result<(), String> {
    let mut noise = 0;
    loop {
        let mut line = Vec::new();
        input
            .take(LINE_BYTES_MAX)
            .read_until(b'\n', &mut line)
            .map_err(|error| format!("its stream broke: {error}"))?;
        if line.is_empty() {
            return Err("its stream ended before the agent was there".to_owned());
        }
        noise += line.len();
        let text = String::from_utf8_lossy(&line);
        match text.trim_end().strip_prefix("tilemark-client ").and_then(|rest| rest.strip_suffix(nonce)) {
            Some(word) if word.trim_end() == wanted => return Ok(()),
            Some(word) if word.trim_end() == "damaged" => {
                return Err("the agent arrived damaged: its SHA-256 differs".to_owned());
            }
            Some(word) if word.trim_end() == "no-place" => {
                return Err(
                    "it has no folder from which programs may be run: not /tmp, /dev/shm, /var/tmp nor the home folder"
                        .to_owned(),
                );
            }
            _ if noise > NOISE_BYTES_MAX => {
                return Err(format!(
                    "more than {NOISE_BYTES_MAX} bytes came that are not ours, such as {}",
                    printable_line(text.trim_end())
                ));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::BufReader,
        path::Path,
        process::{Child, Command, Stdio},
    };

    fn client(carrier: ClientCarrier) -> Client {
        Client { name: "c1".into(), carrier, address: "192.0.2.1".into(), user: Some("me".into()) }
    }

    #[test]
    fn each_carrier_gives_a_shell() {
        let words = |carrier| words(&client(carrier), Duration::from_secs(600), "j").join(" ");
        assert!(words(ClientCarrier::Ssh).ends_with("-l me -- 192.0.2.1 sh"));
        let srun = words(ClientCarrier::Srun { partition: Some("p".into()) });
        assert!(srun.contains("--time=12") && srun.contains("--nodelist=c1 --partition=p "), "{srun}");
        assert!(srun.contains("--job-name=j "), "{srun}");
        assert!(srun.contains("--exclusive --mem=0 "), "a client has its node: {srun}");
        let command = ["a".to_owned(), "{user}@{address}-{host}".to_owned()].into();
        assert_eq!(words(ClientCarrier::Exec { command }), "a me@192.0.2.1-c1");
    }

    #[test]
    fn the_job_of_an_agent_is_within_the_limit_of_its_partition() {
        let (wanted, minutes) =
            (Duration::from_secs(3 * 3600), |minutes: u64| Duration::from_secs(minutes * 60));
        assert_eq!(lifetime_within(wanted, None), wanted);
        assert_eq!(lifetime_within(wanted, Some(minutes(600))), wanted);
        let lifetime = lifetime_within(wanted, Some(minutes(30)));
        let srun = words(&client(ClientCarrier::Srun { partition: None }), lifetime, "j").join(" ");
        assert!(srun.contains(" --time=30 "), "{srun}");
        assert_eq!(lifetime_within(wanted, Some(minutes(1))), LIFETIME_MIN);
    }

    /// More than a pipe holds, so that a part of it can be under way.
    const AGENT: &[u8] = &[b'#'; 256 << 10];

    /// A shell that has its script. Its signals are those of a login: the standard library gives SIGPIPE its default in what it starts.
    fn shell(folder: &Path) -> Child {
        let mut shell = Command::new("sh")
            .env("TMPDIR", folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let script = script(AGENT, Duration::from_secs(60), "7");
        writeln!(shell.stdin.as_mut().unwrap(), "{script}").unwrap();
        shell
    }

    #[test]
    fn a_connection_that_ends_while_the_agent_is_brought_leaves_no_folder() {
        let folder = tempfile::tempdir().unwrap();
        let left = || std::fs::read_dir(folder.path()).unwrap().count();
        for (cut, sent) in
            [("after `ready`", 0), ("in mid-transfer", AGENT.len() / 2), ("before `starts`", AGENT.len())]
        {
            let mut shell = shell(folder.path());
            let mut output = BufReader::new(shell.stdout.take().unwrap());
            word(&mut output, "7", "ready").unwrap();
            assert_eq!(left(), 1, "{cut}: the agent has another folder");
            let mut input = shell.stdin.take().unwrap();
            if sent < AGENT.len() {
                input.write_all(&AGENT[..sent]).unwrap();
                drop((output, input));
            } else {
                drop(output);
                input.write_all(AGENT).unwrap();
            }
            shell.wait().unwrap();
            assert_eq!(left(), 0, "{cut}");
        }
    }

    #[test]
    fn words_of_the_shell_are_found_behind_what_a_login_prints() {
        let read = |text: &str| word(&mut text.as_bytes(), "7", "ready");
        assert_eq!(read("Welcome\n\ntilemark-client ready 7\n"), Ok(()));
        assert!(read("tilemark-client ready 8\n").unwrap_err().contains("ended"));
        assert!(read("tilemark-client damaged 7\n").unwrap_err().contains("SHA-256"));
        assert!(read("tilemark-client no-place 7\n").unwrap_err().contains("/dev/shm"));
        assert!(read(&"x\n".repeat(NOISE_BYTES_MAX)).unwrap_err().contains("not ours"));
    }
}
