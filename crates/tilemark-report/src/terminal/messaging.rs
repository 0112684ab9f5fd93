//! A broker's figures by message size, a row a size.

use super::paint::{Ink, Paint, clean, columns, wrap};
use crate::number::{three, whole};
use crate::view::Messaging;

const NONE: &str = "\u{2013}";

pub(super) fn messaging(messaging: &Messaging, paint: &Paint, width: usize) -> String {
    let mut out = String::new();
    if !messaging.throughput.is_empty() {
        out.push_str(&table(
            "Throughput: messages in and out per second, and MB/s",
            &throughput(messaging),
            paint,
            width,
        ));
    }
    if !messaging.latency.is_empty() {
        out.push_str(&table(
            "Latency: mean \u{b1} deviation of seconds, and p99, ms",
            &latency(messaging),
            paint,
            width,
        ));
    }
    for line in wrap(&clean(&messaging.differs), width) {
        out.push_str(&format!("{}\n", paint.ink(Ink::Dim, &line)));
    }
    out.push('\n');
    out
}

/// Cells by row, the heads first.
type Rows = Vec<Vec<String>>;

fn throughput(messaging: &Messaging) -> Rows {
    let mut heads = vec!["bytes".to_owned()];
    for line in &messaging.throughput {
        heads.extend([line.name.clone(), "MB/s".to_owned()]);
    }
    heads.extend(["2009, bridged".to_owned(), "MB/s".to_owned()]);
    let mut rows = vec![heads];
    for size in &messaging.sizes {
        let mut row = vec![whole(*size)];
        for line in &messaging.throughput {
            let point = line.at(*size);
            row.push(
                point.map_or_else(|| NONE.to_owned(), |point| marked(three(point.transfers), point.struck)),
            );
            row.push(point.map_or_else(|| NONE.to_owned(), |point| three(point.megabytes)));
        }
        let published = messaging.paper.throughput_at(*size);
        row.push(published.map_or_else(|| NONE.to_owned(), |point| three(point.bridged)));
        row.push(published.map_or_else(|| NONE.to_owned(), |point| three(point.bridged_megabytes)));
        rows.push(row);
    }
    rows
}

fn latency(messaging: &Messaging) -> Rows {
    let mut heads = vec!["bytes".to_owned()];
    for line in &messaging.latency {
        heads.extend([line.name.clone(), "p99".to_owned()]);
    }
    heads.push("2009, one guest".to_owned());
    let mut rows = vec![heads];
    for size in &messaging.sizes {
        let mut row = vec![whole(*size)];
        for line in &messaging.latency {
            let point = line.at(*size);
            row.push(point.map_or_else(
                || NONE.to_owned(),
                |point| {
                    let deviation =
                        point.median_run.map(|run| format!(" \u{b1} {}", three(run.deviation_of_seconds)));
                    marked(format!("{}{}", three(point.mean), deviation.unwrap_or_default()), point.struck)
                },
            ));
            row.push(point.and_then(|point| point.p99).map_or_else(|| NONE.to_owned(), three));
        }
        let published = messaging.paper.latency_at(*size);
        row.push(published.map_or_else(
            || NONE.to_owned(),
            |point| format!("{} \u{b1} {}", three(point.one_mean), three(point.one_deviation)),
        ));
        rows.push(row);
    }
    rows
}

/// What can't be trusted is marked where nothing can be struck through.
fn marked(text: String, struck: bool) -> String {
    if struck { format!("({text})") } else { text }
}

/// Columns that do not fit go, the last before the paper's first.
fn table(title: &str, rows: &Rows, paint: &Paint, width: usize) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let widths: Vec<usize> = (0..count)
        .map(|place| {
            rows.iter().filter_map(|row| row.get(place)).map(|cell| columns(&clean(cell))).max().unwrap_or(0)
        })
        .collect();
    let mut fits = 0;
    let mut used = 0;
    while fits < count && used + widths[fits] + 2 <= width + 2 {
        used += widths[fits] + 2;
        fits += 1;
    }
    let mut out = format!("{}\n", paint.ink(Ink::Strong, title));
    for (place, row) in rows.iter().enumerate() {
        let cells = row.iter().zip(&widths).take(fits).map(|(cell, width)| {
            let cell = clean(cell);
            format!("{}{cell}", " ".repeat(width.saturating_sub(columns(&cell))))
        });
        let text = cells.collect::<Vec<_>>().join("  ");
        out.push_str(&if place == 0 { paint.ink(Ink::Dim, &text) } else { text });
        out.push('\n');
    }
    out.push('\n');
    out
}
