//! Makes the folder of a fleet of hosts that never were, and draws its report with the time and memory that takes:
//! `fleet_report make DIR HOSTS`, `fleet_report draw DIR PAGE.html`. `fleet_report drift DIR HOSTS PAGE.html` draws two runs of one fleet.

#![allow(clippy::unwrap_used, reason = "a tool of developers")]

#[path = "../tests/made/mod.rs"]
mod made;

use serde_json::json;
use std::{env, fs, path::Path, time::Instant};
use tilemark_fleet::{End, verdict};
use tilemark_report::{Colour, Style};

fn main() {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["make", folder, hosts] => make(Path::new(folder), hosts.parse().unwrap()),
        ["draw", folder, page] => draw(Path::new(folder), Path::new(page)),
        ["drift", folder, hosts, page] => drift(Path::new(folder), hosts.parse().unwrap(), Path::new(page)),
        _ => panic!("fleet_report make DIR HOSTS | draw DIR PAGE.html | drift DIR HOSTS PAGE.html"),
    }
}

/// Three in four hosts are of one kind, the others of another. Of a hundred, one is slow and has another governor, one is lost, one never
/// started, and one has an odd setting that harms nobody.
fn make(folder: &Path, count: u64) {
    let mut hosts = Vec::new();
    for mut host in made::hosts(count) {
        let number = host.seed;
        host.noise = 0.012;
        host.slow = 1.0 + 0.01 * ((number * 7919 % 21) as f64 / 10.0 - 1.0) * 0.5;
        if number % 4 == 0 {
            host = host
                .with("/processors/model", json!({ "value": "Intel(R) Xeon(R) Gold 6226R CPU @ 2.90GHz" }))
                .with("/processors/microcode", json!({ "value": "0x5003604" }));
            host.slow *= 1.2;
        }
        match number % 100 {
            37 => {
                host.slow *= 1.08;
                host = host.with("/frequency/governors", json!({ "value": ["powersave"] }));
            }
            61 => host = host.with("/memory/transparent_huge_pages", json!({ "value": "always" })),
            _ => {}
        }
        hosts.push(host);
    }
    let (lost, whole): (Vec<_>, Vec<_>) = hosts.into_iter().partition(|host| host.seed % 100 == 83);
    let never: Vec<String> = (1..=count.div_ceil(100)).map(|number| format!("spare{number}")).collect();
    let mut asked: Vec<&str> = never.iter().map(String::as_str).collect();
    asked.extend(lost.iter().map(|host| host.name.as_str()));
    made::fleet(folder, &whole, &asked);
    for host in &lost {
        made::write_end(folder, &host.name, 1, End::Lost, "Slurm says NODE_FAIL");
    }
}

/// Every second host got another kernel and is 6 % slower; one also has another governor and is 30 % slower; one is gone.
fn drift(folder: &Path, count: u64, page: &Path) {
    let (before, after) = (folder.join("before"), folder.join("after"));
    let mut hosts = made::hosts(count);
    made::fleet(&before, &hosts, &[]);
    for host in &mut hosts {
        host.seed += 1000;
        if host.seed % 2 == 0 {
            *host = host.clone().with("/kernel/release", json!({ "value": "6.13.0-amd64" }));
            host.slow = 1.06;
        }
    }
    hosts[1] = hosts[1].clone().with("/frequency/governors", json!({ "value": ["powersave"] }));
    hosts[1].slow = 1.3;
    let gone = hosts.pop().unwrap();
    made::fleet(&after, &hosts, &[&gone.name]);
    let found = verdict::compare(&before, &after).unwrap();
    fs::write(page, found.html()).unwrap();
    fs::write(page.with_extension("txt"), found.terminal(Style { colour: Colour::Plain, width: 100 }))
        .unwrap();
}

fn draw(folder: &Path, page: &Path) {
    let began = Instant::now();
    let found = verdict::of(folder).unwrap();
    let read_s = began.elapsed().as_secs_f64();
    let html = found.html();
    let seconds = began.elapsed().as_secs_f64();
    fs::write(page, &html).unwrap();
    fs::write(page.with_extension("md"), found.markdown()).unwrap();
    let text = found.terminal(Style { colour: Colour::Plain, width: 100 });
    fs::write(page.with_extension("txt"), text).unwrap();
    fs::write(page.with_extension("json"), serde_json::to_string_pretty(&found).unwrap()).unwrap();
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let peak_kib: u64 = peak.split_whitespace().next().unwrap().parse().unwrap();
    let figures = json!({
        "hosts": found.asked, "measured": found.measured, "seconds": seconds, "read_s": read_s,
        "page_bytes": html.len(), "memory_bytes": peak_kib * 1024, "named": found.named,
    });
    println!("{figures}");
}
