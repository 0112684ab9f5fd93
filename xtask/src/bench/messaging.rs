//! Messaging: the reference broker with our load, and our load on third-party brokers.

use super::{
    figure::{Figure, Pair, Target},
    flushes::flushes,
    tools::{
        Bench, Server, Skipped, children_s, example, free_address, in_turn, json_of, masked, number,
        number_after, text_of,
    },
};
use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::{
    fs,
    net::SocketAddr,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

const SECONDS: &str = "3";

/// The reference broker on a free port; it ends with this.
struct Broker {
    address: SocketAddr,
    _server: Server,
}

impl Broker {
    fn start(bench: &Bench, journal: Option<&str>) -> Result<Self> {
        let address = free_address()?;
        let mut command = bench.tilemark()?;
        command.args(["broker", "--listen", &address.to_string()]);
        if let Some(name) = journal {
            let folder = bench.folder(name)?;
            // What an earlier bench left would be read again.
            fs::remove_dir_all(&folder)?;
            fs::create_dir_all(&folder)?;
            command.arg("--journal").arg(folder);
        }
        Ok(Self { address, _server: Server::start(command.stderr(Stdio::null()), address)? })
    }

    fn uri(&self) -> String {
        format!("amqp://guest:guest@{}", self.address)
    }
}

fn throughput(bench: &Bench, uri: &str, flags: &[&str]) -> Result<Value> {
    let mut command = bench.tilemark()?;
    let printed = json_of(
        command
            .args(["load", "messaging-throughput", "--json", "--seconds", SECONDS, "--broker", uri])
            .args(flags),
    )?;
    anyhow::ensure!(
        printed["lost"] == 0 && printed["damaged"] == 0,
        "messages were lost or damaged: {printed}"
    );
    Ok(printed)
}

/// Broker and load together: small messages, with confirms, large ones, and what the load itself costs.
pub(super) fn broker(bench: &Bench) -> Result<Vec<Figure>> {
    let small: &[&str] = &["--size", "16"];
    let confirmed: &[&str] = &["--size", "16", "--confirms", "1000", "--ack", "100", "--prefetch", "1000"];
    let (mut rates, mut sure, mut large, mut publish, mut receive) = (vec![], vec![], vec![], vec![], vec![]);
    for _ in 0..bench.times(7) {
        let broker = Broker::start(bench, None)?;
        let printed = throughput(bench, &broker.uri(), small)?;
        rates.push(number(&printed, "/messages_per_s")?);
        publish.push(number(&printed, "/publishers_cpu_s")? * 1e6 / number(&printed, "/published")?);
        receive.push(number(&printed, "/subscribers_cpu_s")? * 1e6 / number(&printed, "/received")?);
        sure.push(number(&throughput(bench, &broker.uri(), confirmed)?, "/messages_per_s")?);
        large.push(
            2.0 * number(&throughput(bench, &broker.uri(), &["--size", "4096"])?, "/messages_per_s")?
                * 4096.0
                / 1e6,
        );
    }
    Ok(vec![
        Figure::median_of("broker and load together, 16 B", "msg/s", &rates, Target::AtLeast(1e6)),
        Figure::median_of(
            "the same with confirms 1,000, acknowledgements each 100",
            "msg/s",
            &sure,
            Target::AtLeast(5e5),
        ),
        Figure::median_of("4096 B, in + out", "MB/s", &large, Target::AtLeast(1600.0)),
        Figure::median_of("our load: processor time of a publish, 16 B", "µs", &publish, Target::AtMost(0.7)),
        Figure::median_of("our load: processor time of a receipt, 16 B", "µs", &receive, Target::AtMost(0.7)),
    ])
}

/// Round trip at 1,000/s against a bare relay of three processes.
pub(super) fn round_trip(bench: &Bench) -> Result<Vec<Figure>> {
    let relay = example("tilemark-broker", "relay")?;
    let (mut p50, mut above) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(7) {
        let ours = || -> Result<[f64; 2]> {
            let broker = Broker::start(bench, None)?;
            let arguments =
                ["load", "messaging-latency", "--json", "--rate", "1000", "--seconds", "5", "--broker"];
            let printed = json_of(bench.tilemark()?.args(arguments).arg(broker.uri()))?;
            let at = |name: &str| number(&printed, &format!("/latency_ms/{name}")).map(|ms| ms * 1e3);
            Ok([at("p50")?, at("p99")?])
        };
        let peer = || -> Result<[f64; 2]> {
            let address = free_address()?.to_string();
            let mut child = Command::new(&relay).args(["relay", &address]).stdin(Stdio::null()).spawn()?;
            // It serves one receiver and one sender: a trial connection would be taken for one of them.
            thread::sleep(Duration::from_millis(300));
            let printed = text_of(Command::new(&relay).args(["measure", &address, "1000", "5", "16"]));
            // Ours, and it would wait for ever.
            let _ = child.kill();
            let _ = child.wait();
            let printed = printed?;
            Ok([number_after(&printed, "p50")?, number_after(&printed, "p99")?])
        };
        let (ours, peer) = in_turn(ours, peer)?;
        p50.push(Pair { ours: ours[0], peer: peer[0] });
        above.push(ours[1] - peer[1]);
    }
    Ok(vec![
        Figure::ratio("round trip at 1,000/s against a bare relay, p50", &p50, "µs", Target::AtMost(1.3)),
        Figure::median_of("the same, p99 above the relay's", "µs", &above, Target::AtMost(25.0)),
    ])
}

/// An address from the environment, of a server that the caller started.
fn others(variable: &str, what: &str) -> Result<String> {
    match std::env::var(variable) {
        Ok(value) => Ok(value),
        Err(_) => bail!(Skipped(format!("needs {variable}, {what}"))),
    }
}

/// Where the server of a URI listens.
fn address_of(uri: &str) -> Result<SocketAddr> {
    let place = uri.rsplit_once('@').map_or(uri, |(_, place)| place);
    let place = place.split('/').next().unwrap_or_default();
    place.parse().with_context(|| format!("{} names no address as 127.0.0.1:5672", masked(uri)))
}

/// Messages of one flush to disk. Being counted slows a broker, so that no rate is taken of this turn.
fn messages_a_flush(bench: &Bench, uri: &str, flags: &[&str]) -> Result<f64> {
    let (printed, flushes) = flushes(bench, address_of(uri)?, || throughput(bench, uri, flags))?;
    Ok(number(&printed, "/published")? / flushes as f64)
}

/// Durable and confirmed on RabbitMQ and on the reference broker, in turn; then the flushes of both.
pub(super) fn durable(bench: &Bench) -> Result<Vec<Figure>> {
    let rabbit = others(
        "TILEMARK_RABBITMQ",
        "the address of a running RabbitMQ, as amqp://guest:guest@127.0.0.1:5672",
    )?;
    let flags = ["--size", "1000", "--durable", "--confirms", "200", "--prefetch", "200", "--ack", "50"];
    let mut pairs = Vec::new();
    for _ in 0..bench.times(5) {
        let rate = |uri: &str| number(&throughput(bench, uri, &flags)?, "/messages_per_s");
        let ours = || rate(&Broker::start(bench, Some("journal"))?.uri());
        let (ours, peer) = in_turn(ours, || rate(&rabbit))?;
        pairs.push(Pair { ours, peer });
    }
    let rate = Figure::ratio(
        "durable and confirmed, 1 kB, 200 in flight, against RabbitMQ",
        &pairs,
        "msg/s",
        Target::None,
    );
    let mut counted = Vec::new();
    for _ in 0..bench.times(3) {
        let of = |uri: &str| messages_a_flush(bench, uri, &flags);
        let ours = || of(&Broker::start(bench, Some("journal"))?.uri());
        match in_turn(ours, || of(&rabbit)) {
            Ok((ours, peer)) => counted.push(Pair { ours, peer }),
            Err(error) if error.is::<Skipped>() => {
                return Ok(vec![rate.noting(format!("flushes not counted: {error}"))]);
            }
            Err(error) => return Err(error),
        }
    }
    let what = "the same, each slowed by being counted: messages of one flush to disk";
    Ok(vec![rate, Figure::ratio(what, &counted, "messages a flush", Target::None)])
}

/// Our load against RabbitMQ's own PerfTest, both on the same RabbitMQ.
pub(super) fn perftest(bench: &Bench) -> Result<Vec<Figure>> {
    let rabbit = others(
        "TILEMARK_RABBITMQ",
        "the address of a running RabbitMQ, as amqp://guest:guest@127.0.0.1:5672",
    )?;
    let perftest = others("TILEMARK_PERFTEST", "the program that starts RabbitMQ's PerfTest")?;
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for _ in 0..bench.times(5) {
        // Each: messages a second, and microseconds of processor time of a message.
        let ours = || -> Result<[f64; 2]> {
            let printed = throughput(bench, &rabbit, &["--size", "16"])?;
            let cost = number(&printed, "/client_cpu_s")? * 1e6 / number(&printed, "/received")?;
            Ok([number(&printed, "/messages_per_s")?, cost])
        };
        let peer = || -> Result<[f64; 2]> {
            let before = children_s()?;
            let mut command = Command::new(&perftest);
            command.args(["--uri", &rabbit, "-x", "1", "-y", "1", "-s", "16", "-a", "-z", SECONDS]);
            let rate = number_after(&text_of(&mut command)?, "receiving rate avg:")?;
            let length: f64 = SECONDS.parse()?;
            Ok([rate, (children_s()? - before) * 1e6 / (rate * length)])
        };
        let (ours, peer) = in_turn(ours, peer)?;
        rates.push(Pair { ours: ours[0], peer: peer[0] });
        costs.push(Pair { ours: ours[1], peer: peer[1] });
    }
    Ok(vec![
        Figure::ratio(
            "our load against PerfTest on the same RabbitMQ, rate",
            &rates,
            "msg/s",
            Target::AtLeast(1.0),
        ),
        Figure::ratio(
            "the same, processor time of a message in the client",
            &costs,
            "µs",
            Target::AtMost(0.1),
        )
        .noting("the start of PerfTest is in its processor time"),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uri_names_its_server_and_its_error_no_password() {
        let wanted = "127.0.0.1:5673".parse().unwrap();
        for uri in ["amqp://guest:g@st@127.0.0.1:5673/%2f", "amqp://guest:guest@127.0.0.1:5673"] {
            assert_eq!(address_of(uri).unwrap(), wanted, "{uri}");
        }
        let error = address_of("amqp://me:secret@host").unwrap_err().to_string();
        assert!(error.contains("host") && !error.contains("secret"), "{error}");
    }
}
