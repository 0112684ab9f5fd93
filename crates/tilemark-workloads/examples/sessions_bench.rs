//! Users with sessions against a site in memory, for measuring what a page costs the load; `cargo xtask bench sessions` calls it.
//!
//! ```text
//! sessions_bench serve ADDRESS                          the site of shape `shop`, until it is ended
//! sessions_bench script ADDRESS PAGES                   requests of so many pages, as a script for wrk; its last line: how many requests
//! sessions_bench load ADDRESS USERS SECONDS PROCESSOR   one JSON line: pages, errors, processor time for each page
//! ```
//! The site is no nginx with PHP: it is as cheap as can be, so that both clients are as busy as can be.

#[path = "../tests/common/site.rs"]
mod site;

use std::{fmt::Write as _, net::TcpListener};
use tilemark_agent_protocol::{LoadEvent, LoadJob, Stream, StreamTotal};
use tilemark_load::Stop;
use tilemark_plan::{
    plan::Demand,
    workload::{SessionsParameters, Site, Work},
};
use tilemark_units::Span;
use tilemark_workloads::web::file_path;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["serve", address] => {
            let listener = TcpListener::bind(address).expect("a free address");
            site::serve(&listener, &site(), site::Manners::default());
        }
        ["script", address, pages] => script(address, number(pages)),
        ["load", address, users, seconds, processor] => {
            let parameters = SessionsParameters { users: number(users), ..SessionsParameters::default() };
            let target = address.parse().expect("an address with its port");
            let stream = Stream {
                connections: parameters.users,
                // Another in each run: the site knows the sessions of the run before.
                seed: u64::from(std::process::id()),
                ..Stream::new(0, target, Demand::Closed, Work::Sessions(parameters))
            };
            load(&LoadJob {
                streams: vec![stream],
                processors: vec![number(processor)],
                warmup: Span::from_seconds(1),
                length: Span::from_seconds(u64::from(number(seconds))),
            });
        }
        _ => panic!("see the first lines of sessions_bench.rs for its arguments"),
    }
}

fn number(text: &str) -> u32 {
    text.parse().expect("a whole number")
}

fn site() -> Site {
    SessionsParameters::default().site()
}

fn load(job: &LoadJob) {
    let stop = Stop::new().expect("an eventfd");
    let mut totals: Vec<StreamTotal> = Vec::new();
    tilemark_workloads::run(job, &stop, &mut |event| match event {
        LoadEvent::Done(all) => totals = all,
        LoadEvent::Failed { message, .. } => panic!("{message}"),
        _ => {}
    });
    let sum = |of: fn(&StreamTotal) -> u64| totals.iter().map(of).sum::<u64>();
    let pages = sum(|total| total.counts.completed);
    let document = serde_json::json!({
        "pages": pages,
        "errors": sum(|total| total.counts.failed + total.counts.wrong),
        "processor_us_per_page": totals.iter().map(|total| total.client_cpu_s).sum::<f64>() * 1e6 / pages as f64,
    });
    println!("{document}");
}

/// Requests of pages that follow each other as the site's probabilities say, each with its files; a part of them only asks whether they
/// changed. Drawn by a small generator of pseudorandom numbers, the same in every run (Knuth, MMIX).
fn script(address: &str, pages: u32) {
    let site = site();
    let mut state = 1_u64;
    let mut fraction = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1_u64 << 53) as f64
    };
    let mut lua = String::from("requests = {}\n");
    let mut count = 0;
    let mut add = |lua: &mut String, path: &str, is_kept: bool| {
        let since = if is_kept { "If-Modified-Since: Fri, 01 Jan 2100 00:00:00 GMT\\r\\n" } else { "" };
        count += 1;
        writeln!(lua, "requests[{count}] = \"GET {path} HTTP/1.1\\r\\nHost: {address}\\r\\n{since}\\r\\n\"")
            .expect("writing to a string cannot fail");
    };
    let mut here = site.first.clone();
    for _ in 0..pages {
        let page = &site.page[&here];
        add(&mut lua, &format!("/page.php?session=1&page={here}&value=1&bytes={}", page.bytes.get()), false);
        for files in &page.files {
            for _ in 0..files.count {
                add(&mut lua, &file_path(files.size.get()), fraction() < files.kept);
            }
        }
        let mut drawn = fraction();
        let next = page.next.iter().find(|(_, share)| {
            drawn -= **share;
            drawn < 0.0
        });
        here = next.map_or_else(|| site.first.clone(), |(name, _)| name.clone());
    }
    lua.push_str(
        "place = 0\nfunction request()\n  place = place % #requests + 1\n  return requests[place]\nend\n",
    );
    println!("{lua}-- {count}");
}
