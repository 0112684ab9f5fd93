//! Broker and load by hand, for measuring:
//!
//! ```text
//! messaging serve 127.0.0.1:5672 [JOURNAL-FOLDER]
//! messaging throughput amqp://127.0.0.1:5672 size=16 seconds=5 confirms=1000 ack=100 prefetch=1000 …
//! messaging latency amqp://127.0.0.1:5672 rate=1000 size=16 seconds=10
//! ```

use std::error::Error;
use std::time::Duration;

use tilemark_amqp_load::{LatencyLoad, Mode, ThroughputLoad, latency, throughput};
use tilemark_broker::{Config, serve};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["serve", address] => run_broker(Config::new(address.parse()?)),
        ["serve", address, folder] => {
            run_broker(Config { journal: Some(folder.into()), ..Config::new(address.parse()?) })
        }
        ["throughput", broker, ref settings @ ..] => {
            let report = throughput(&throughput_load(broker, settings)?)?;
            println!("{report:#?}");
            Ok(())
        }
        ["latency", broker, ref settings @ ..] => {
            let mut report = latency(&latency_load(broker, settings)?)?;
            report.histograms.clear();
            println!("{report:#?}");
            Ok(())
        }
        _ => Err("usage: messaging serve|throughput|latency ADDRESS …".into()),
    }
}

fn run_broker(config: Config) -> Result<(), Box<dyn Error>> {
    let broker = serve(config)?;
    println!("listening on {}", broker.address());
    broker.wait()?;
    Ok(())
}

fn throughput_load(broker: &str, settings: &[&str]) -> Result<ThroughputLoad, Box<dyn Error>> {
    let mut load = ThroughputLoad::new(broker.parse()?);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("settings are NAME=VALUE")?;
        match name {
            "size" => load.size_bytes = value.parse()?,
            "queues" => load.queues = value.parse()?,
            "publishers" => load.publishers = value.parse()?,
            "subscribers" => load.subscribers = value.parse()?,
            "durable" => load.durable = value.parse()?,
            "confirms" => load.confirms = value.parse()?,
            "ack" => load.ack = value.parse()?,
            "prefetch" => load.prefetch = value.parse()?,
            "transactions" => load.transactions = value.parse()?,
            "count" => load.count = Some(value.parse()?),
            "seconds" => load.seconds = Duration::from_secs_f64(value.parse()?),
            "mode" => {
                load.mode = match value {
                    "fanout" => Mode::Fanout,
                    "topic" => Mode::Topic,
                    _ => Mode::Shared,
                }
            }
            _ => return Err(format!("unknown setting {name}").into()),
        }
    }
    Ok(load)
}

fn latency_load(broker: &str, settings: &[&str]) -> Result<LatencyLoad, Box<dyn Error>> {
    let mut load = LatencyLoad::new(broker.parse()?);
    for setting in settings {
        let (name, value) = setting.split_once('=').ok_or("settings are NAME=VALUE")?;
        match name {
            "size" => load.size_bytes = value.parse()?,
            "rate" => load.rate = value.parse()?,
            "durable" => load.durable = value.parse()?,
            "ack" => load.ack = value.parse()?,
            "prefetch" => load.prefetch = value.parse()?,
            "seconds" => load.seconds = Duration::from_secs_f64(value.parse()?),
            _ => return Err(format!("unknown setting {name}").into()),
        }
    }
    Ok(load)
}
