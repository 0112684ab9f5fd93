//! What a fleet run came to, as it is printed.

use crate::{
    end::End,
    folder::{Fleet, HostOutcome, Step},
};
use serde::Serialize;
use serde_json::Value;

/// The document of `--json`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FleetSaid {
    /// The fleet run.
    pub fleet: String,
    /// How many hosts were asked.
    pub asked: usize,
    /// How many of them left figures.
    pub measured: usize,
    /// How many of these are to be trusted.
    pub trusted: usize,
    /// Each host, in the order of the site.
    pub hosts: Vec<HostOutcome>,
    /// Groups of equal hosts.
    pub groups: Vec<Value>,
    /// The verdict about all, in a word or more.
    pub verdict: String,
    /// The same in a sentence.
    pub sentence: String,
}

impl FleetSaid {
    /// Of what is known of the hosts.
    pub fn new(fleet: &Fleet, hosts: Vec<HostOutcome>) -> Self {
        let mut said = Self {
            fleet: fleet.id.clone(),
            asked: hosts.len(),
            measured: hosts.iter().filter(|host| host.is_measured()).count(),
            trusted: hosts.iter().filter(|host| host.end == Some(End::Trusted)).count(),
            hosts,
            groups: Vec::new(),
            verdict: "no verdict was asked for".to_owned(),
            sentence: String::new(),
        };
        said.sentence = match said.missing().is_empty() {
            true => said.counts(),
            false => format!("{} {}", said.counts(), said.missing()),
        };
        said
    }

    /// How many were asked, measured and trusted.
    fn counts(&self) -> String {
        format!("{} asked, {} measured, {} trusted.", self.asked, self.measured, self.trusted)
    }

    /// The hosts without figures, by name; empty where there are none.
    fn missing(&self) -> String {
        let missing: Vec<String> = self
            .hosts
            .iter()
            .filter(|host| !host.is_measured())
            .map(|host| format!("{} ({})", host.name, words(host)))
            .collect();
        if missing.is_empty() { String::new() } else { format!("Missing: {}.", missing.join(", ")) }
    }

    /// As a person reads it. The first line is always that of the counts.
    pub fn text(&self) -> String {
        let mut lines = vec![self.counts()];
        lines.extend(Some(self.missing()).filter(|missing| !missing.is_empty()));
        lines.push(String::new());
        let widest = self.hosts.iter().map(|host| host.name.len()).max().unwrap_or_default();
        for host in &self.hosts {
            let attempt =
                host.attempt.filter(|number| *number > 0).map(|number| format!(", attempt {number}"));
            let carries = host.capacity.as_ref().map(|capacity| match (capacity.low, capacity.high) {
                (Some(low), Some(high)) => {
                    format!(", carries {:.1} tiles [{low:.1}, {high:.1}]", capacity.value)
                }
                _ => format!(", carries {:.1} tiles", capacity.value),
            });
            let because = Some(&host.because)
                .filter(|because| !because.is_empty())
                .map(|because| format!(": {because}"));
            lines.push(format!(
                "{:widest$}  {}{}{}{}",
                host.name,
                words(host),
                attempt.unwrap_or_default(),
                carries.unwrap_or_default(),
                because.unwrap_or_default()
            ));
        }
        lines.join("\n")
    }

    /// The exit code: 6 where a host was not restored, 4 where a guest failed, 3 where no host left figures, 5 where one is missing or
    /// not trusted, 0 where all are trusted.
    pub fn exit_code(&self) -> u8 {
        let any = |end: End| self.hosts.iter().any(|host| host.end == Some(end));
        if any(End::NotRestored) {
            6
        } else if any(End::GuestFailed) {
            4
        } else if self.measured == 0 {
            3
        } else if self.trusted < self.asked {
            5
        } else {
            0
        }
    }
}

/// How a host ended, in words.
fn words(host: &HostOutcome) -> &'static str {
    match (host.end, host.step) {
        (Some(End::Trusted), _) => "trusted",
        (Some(End::NotTrusted), _) => "not trusted",
        (Some(End::CannotTell), _) => "cannot tell",
        (Some(End::Unfit), _) => "unfit",
        (Some(End::GuestFailed), _) => "guest failed",
        (Some(End::NotRestored), _) => "not restored",
        (Some(End::Lost), _) => "lost",
        (Some(End::NoAnswer), _) => "no answer",
        (Some(End::NeverStarted), _) => "never started",
        (None, Step::Waiting) => "not submitted yet",
        (None, Step::Submitting | Step::Submitted | Step::Over) => "not collected yet",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{folder::FleetOrder, site::Site};

    fn said(ends: &[Option<End>]) -> FleetSaid {
        let hosts =
            (0..ends.len()).map(|number| format!("[[host]]\nname = \"n{number}\"\n")).collect::<String>();
        let site = Site::parse(&format!("schema = 1\nengine = \"ssh\"\n{hosts}")).expect("it is a site");
        let order = FleetOrder {
            scenario: "web".into(),
            scenario_text: None,
            flags: vec![],
            seed: 1,
            version: "1".into(),
            program_sha256: String::new(),
            at_once: None,
        };
        let fleet = Fleet::new(order, site, std::path::Path::new("/nowhere"));
        let outcome = |(number, end): (usize, &Option<End>)| HostOutcome {
            name: format!("n{number}"),
            groups: vec![],
            end: *end,
            step: Step::Over,
            attempt: None,
            exit_code: None,
            because: String::new(),
            capacity: None,
            holds: None,
            job: None,
            record: matches!(end, Some(End::Trusted | End::CannotTell | End::NotRestored))
                .then(|| "r".into()),
        };
        FleetSaid::new(&fleet, ends.iter().enumerate().map(outcome).collect())
    }

    #[test]
    fn the_first_line_counts_and_the_second_names_the_missing() {
        let text = said(&[Some(End::Trusted), Some(End::Lost), Some(End::CannotTell), None]).text();
        let mut lines = text.lines();
        assert_eq!(lines.next(), Some("4 asked, 2 measured, 1 trusted."));
        assert_eq!(lines.next(), Some("Missing: n1 (lost), n3 (not collected yet)."));
        assert_eq!(said(&[Some(End::Trusted)]).sentence, "1 asked, 1 measured, 1 trusted.");
    }

    #[test]
    fn the_gravest_end_gives_the_exit_code() {
        use End::{CannotTell, GuestFailed, Lost, NeverStarted, NotRestored, Trusted};
        for (ends, code) in [
            (&[Trusted, Trusted][..], 0),
            (&[Trusted, CannotTell], 5),
            (&[Trusted, Lost], 5),
            (&[Lost, NeverStarted], 3),
            (&[Trusted, GuestFailed], 4),
            (&[GuestFailed, NotRestored], 6),
        ] {
            let ends: Vec<Option<End>> = ends.iter().copied().map(Some).collect();
            assert_eq!(said(&ends).exit_code(), code, "{ends:?}");
        }
        assert_eq!(said(&[Some(Trusted), None]).exit_code(), 5);
    }
}
