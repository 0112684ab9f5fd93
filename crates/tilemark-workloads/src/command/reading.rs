//! From a command's lines to what each second had. Pure.

use super::error::CommandError;
use crate::tool::Counted;
use hdrhistogram::Histogram;
use regex_lite::Regex;
use std::ops::RangeInclusive;
use tilemark_agent_protocol::Counts;
use tilemark_load::figures::histogram;
use tilemark_plan::workload::CommandParameters;

/// More than this in a second is no count.
const RATE_MAX: f64 = 1e9;
/// Values of a rate must cover this part of the measured time.
const COVERED_MIN: f64 = 0.8;

/// Characters of a number that is none, in an error.
const SHOWN: usize = 60;

/// What a line's number is.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Rate,
    /// Nanoseconds of one unit.
    Latency(f64),
    Figure,
}

/// Warm-up and measurement, in seconds.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    pub(crate) warmup: f64,
    pub(crate) length: f64,
}

impl Times {
    pub(crate) fn end(self) -> f64 {
        self.warmup + self.length
    }
}

/// Reads lines as they come. Times are seconds since the load began.
pub(crate) struct Reading {
    program: String,
    pattern: String,
    regex: Regex,
    kind: Kind,
    times: Times,
    /// When the last value came.
    pub(crate) last: f64,
    pub(crate) values: u64,
    amounts: Vec<f64>,
    covered: f64,
    latencies: Vec<Histogram<u64>>,
    /// The text of the last figure: only the last one counts, so it is read at the end.
    last_figure: Option<String>,
}

impl Reading {
    pub(crate) fn of(
        parameters: &CommandParameters,
        program: &str,
        times: Times,
    ) -> Result<Self, CommandError> {
        let (key, pattern) = parameters.patterns().first().copied().unwrap_or_default();
        let regex = CommandParameters::compiled(pattern)
            .map_err(|why| CommandError::Pattern { pattern: pattern.to_owned(), why })?;
        let kind = match key {
            "rate" => Kind::Rate,
            "latency" => Kind::Latency(parameters.latency_unit.nanoseconds()),
            _ => Kind::Figure,
        };
        let seconds = times.length.ceil().max(1.0) as usize;
        let latencies = if matches!(kind, Kind::Latency(_)) { seconds } else { 0 };
        Ok(Self {
            program: program.to_owned(),
            pattern: pattern.to_owned(),
            regex,
            kind,
            times,
            last: 0.0,
            values: 0,
            amounts: vec![0.0; seconds],
            covered: 0.0,
            latencies: vec![histogram(); latencies],
            last_figure: None,
        })
    }

    pub(crate) fn is_figure(&self) -> bool {
        self.kind == Kind::Figure
    }

    /// Takes a line that came so many seconds after the load began.
    pub(crate) fn line(&mut self, at: f64, line: &str) -> Result<(), CommandError> {
        let Some(found) = self.regex.captures(line).and_then(|found| found.get(1)) else { return Ok(()) };
        let text = found.as_str();
        match self.kind {
            Kind::Rate => {
                let value = self.number(text, 0.0..=RATE_MAX, "a rate is 0 to 1000000000 a second")?;
                self.rate(at, value);
            }
            Kind::Latency(unit) => {
                let longest = at * 1e9 / unit;
                let why = "a latency is not longer than the program has run; see `latency_unit`";
                let value = self.number(text, 0.0..=longest, why)?;
                self.latency(at, (value * unit) as u64);
            }
            // Judged at the end: a program may print others before the one that counts.
            Kind::Figure => self.last_figure = Some(text.to_owned()),
        }
        (self.last, self.values) = (at, self.values + 1);
        Ok(())
    }

    /// The number in a text, if it is one of these.
    fn number(
        &self,
        text: &str,
        allowed: RangeInclusive<f64>,
        why: &'static str,
    ) -> Result<f64, CommandError> {
        let value: f64 = text.parse().map_err(|_| self.bad(text, "it can't be read"))?;
        if allowed.contains(&value) { Ok(value) } else { Err(self.bad(text, why)) }
    }

    /// The last figure, where there is one that counts.
    pub(crate) fn figure(&self) -> Option<f64> {
        self.last_figure.as_ref()?.parse().ok().filter(|value: &f64| value.is_finite() && *value > 0.0)
    }

    fn bad(&self, text: &str, why: &'static str) -> CommandError {
        let text = text.chars().take(SHOWN).collect();
        CommandError::NotANumber { program: self.program.clone(), pattern: self.pattern.clone(), text, why }
    }

    /// A rate holds since the value before it.
    fn rate(&mut self, at: f64, value: f64) {
        for (second, amount) in self.amounts.iter_mut().enumerate() {
            let from = self.times.warmup + second as f64;
            let shared = at.min(from + 1.0).min(self.times.end()) - self.last.max(from);
            if shared > 0.0 {
                *amount += value * shared;
                self.covered += shared;
            }
        }
    }

    fn latency(&mut self, at: f64, nanoseconds: u64) {
        let second = at - self.times.warmup;
        if second < 0.0 || second >= self.times.length {
            return;
        }
        let second = second as usize;
        self.amounts[second] += 1.0;
        self.latencies[second].record(nanoseconds.max(1)).expect("it grows with its values");
    }

    /// Why there is nothing to count although the command ended well.
    pub(crate) fn check(&self, after: f64, last_lines: String) -> Result<(), CommandError> {
        let program = self.program.clone();
        if self.values == 0 {
            return Err(self.nothing(after, last_lines));
        }
        let is_too_little = match self.kind {
            Kind::Rate => self.covered < COVERED_MIN * self.times.length,
            Kind::Latency(_) => after < self.times.warmup + COVERED_MIN * self.times.length,
            Kind::Figure => false,
        };
        if is_too_little {
            let (wanted, covered, length) = (self.times.end(), self.covered, self.times.length);
            return Err(match after < wanted {
                true => CommandError::Early { program, after, wanted },
                false => CommandError::Sparse { program, covered, length },
            });
        }
        match &self.last_figure {
            Some(text) if text.parse::<f64>().is_err() => Err(self.bad(text, "it can't be read")),
            Some(text) if self.figure().is_none() => {
                let (program, text) = (self.program.clone(), text.chars().take(SHOWN).collect());
                Err(CommandError::NoFigure { program, text })
            }
            _ => Ok(()),
        }
    }

    /// No value came for so many seconds.
    pub(crate) fn nothing(&self, seconds: f64, last: String) -> CommandError {
        let program = self.program.clone();
        if last.is_empty() {
            return CommandError::Silent { program, seconds };
        }
        CommandError::NoMatch { program, pattern: self.pattern.clone(), seconds, last }
    }

    /// What each second had. What rounding leaves over goes to the next one.
    pub(crate) fn seconds(&self) -> Vec<Counted> {
        let scale = match self.kind {
            Kind::Rate if self.covered > 0.0 => self.times.length / self.covered,
            _ => 1.0,
        };
        let (mut due, mut counted) = (0.0, 0_u64);
        let second = |(index, amount): (usize, &f64)| {
            due += amount * scale;
            let completed = (due.round() as u64).saturating_sub(counted);
            counted += completed;
            let counts = Counts { offered: completed, completed, ..Counts::default() };
            Counted { counts, latency: self.latencies.get(index).cloned().unwrap_or_else(histogram) }
        };
        let mut seconds: Vec<Counted> = self.amounts.iter().enumerate().map(second).collect();
        if let Some(last) = seconds.last_mut().filter(|_| self.figure().is_some()) {
            // The command itself is what was done.
            last.counts = Counts { offered: 1, completed: 1, ..Counts::default() };
        }
        seconds
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::workload::LatencyUnit;

    const TIMES: Times = Times { warmup: 2.0, length: 3.0 };

    fn reading(parameters: CommandParameters) -> Reading {
        Reading::of(&parameters, "tool", TIMES).unwrap()
    }
    fn rate() -> Reading {
        reading(CommandParameters { rate: Some("tps: ([0-9.]+)".to_owned()), ..CommandParameters::default() })
    }
    fn completed(reading: &Reading) -> Vec<u64> {
        reading.seconds().iter().map(|second| second.counts.completed).collect()
    }

    #[test]
    fn a_rate_holds_since_the_value_before_it_and_the_warm_up_does_not_count() {
        let mut rate = rate();
        for (at, line) in
            [(1.0, "tps: 9999"), (2.0, "tps: 9999 x"), (3.0, "tps: 100.4"), (3.5, "odd"), (5.0, "tps: 50.3")]
        {
            rate.line(at, line).unwrap();
        }
        assert_eq!(completed(&rate), [100, 51, 50], "201.0 in all");
        rate.check(5.0, String::new()).unwrap();
    }

    #[test]
    fn the_mean_holds_for_time_without_a_value_unless_it_is_much() {
        let mut rate = rate();
        for (at, line) in [(2.0, "tps: 1"), (4.9, "tps: 10")] {
            rate.line(at, line).unwrap();
        }
        assert_eq!(completed(&rate).iter().sum::<u64>(), 30);
        rate.check(5.0, String::new()).unwrap();
        let mut short = self::rate();
        for (at, line) in [(2.0, "tps: 1"), (3.0, "tps: 10")] {
            short.line(at, line).unwrap();
        }
        let early = short.check(3.0, "x".to_owned()).unwrap_err().to_string();
        assert_eq!(early, "`tool` ended after 3.0 s of 5 s");
        let sparse = short.check(5.0, "x".to_owned()).unwrap_err().to_string();
        assert_eq!(sparse, "the values of `tool` cover 1.0 s of the 3 s that were measured");
    }

    #[test]
    fn latencies_are_operations_of_the_second_in_which_they_came() {
        let parameters = CommandParameters {
            latency: Some("took ([0-9.]+)".to_owned()),
            latency_unit: LatencyUnit::Us,
            ..CommandParameters::default()
        };
        let mut latency = reading(parameters);
        for (at, line) in
            [(1.0, "took 1"), (2.1, "took 500"), (2.2, "took 700.5"), (4.9, "took 3"), (5.1, "took 4")]
        {
            latency.line(at, line).unwrap();
        }
        assert_eq!(completed(&latency), [2, 0, 1]);
        assert_eq!(latency.seconds()[0].latency.max() / 1_000, 700);
        let long = latency.line(5.2, "took 99999999").unwrap_err().to_string();
        assert!(long.contains("see `latency_unit`"), "{long}");
    }

    #[test]
    fn what_is_no_number_and_what_does_not_match_is_named() {
        let mut rate = reading(CommandParameters {
            rate: Some("tps: (\\S+)".to_owned()),
            ..CommandParameters::default()
        });
        for text in ["1.2.3", "-1", "nan", "1e300"] {
            let error = rate.line(1.0, &format!("tps: {text}")).unwrap_err().to_string();
            assert!(error.contains(text), "{error}");
        }
        let none = rate.check(5.0, "hello".to_owned()).unwrap_err().to_string();
        assert!(
            none.contains("no line of `tool` matched `tps: (\\S+)`") && none.ends_with("hello"),
            "{none}"
        );
        let silent = rate.check(5.0, String::new()).unwrap_err().to_string();
        assert_eq!(silent, "`tool` printed nothing for 5.0 s");
    }

    #[test]
    fn the_last_figure_counts() {
        let mut figure = reading(CommandParameters {
            figure: Some("score ([0-9.]+)".to_owned()),
            ..CommandParameters::default()
        });
        figure.line(2.5, "score 1").unwrap();
        figure.line(3.0, "score 42.25").unwrap();
        assert_eq!((figure.figure(), completed(&figure)), (Some(42.25), vec![0, 0, 1]));
    }

    #[test]
    fn only_the_last_figure_is_judged() {
        let read = |texts: &[&str]| {
            let mut figure = reading(CommandParameters {
                figure: Some("score (\\S+)".to_owned()),
                ..CommandParameters::default()
            });
            for text in texts {
                figure.line(3.0, &format!("score {text}")).unwrap();
            }
            figure.check(5.0, String::new()).map(|()| figure.figure())
        };
        assert_eq!(read(&["pending", "0", "nan", "42.5"]).unwrap(), Some(42.5));
        let refused = |texts: &[&str]| {
            let error = read(texts).unwrap_err();
            format!("{error} ({})", error.remedy())
        };
        for text in ["0", "-3", "nan", "inf"] {
            let said = refused(&["1", text]);
            assert!(
                said.starts_with(&format!(
                    "the last figure of `tool` is {text}, which is not a number above 0"
                )),
                "{said}"
            );
            assert!(said.contains("let it print a figure above 0"), "{said}");
        }
        let said = refused(&["1", "x"]);
        assert!(said.contains("\"x\"") && said.contains("correct the pattern"), "{said}");
    }
}
