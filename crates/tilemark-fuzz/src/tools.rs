//! Reports of tools that run inside of guests.

use tilemark_workloads::disk::parse_snapshot;

/// Takes one or two reports of fio.
pub fn take_fio(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    // Two reports of one job: what came between them counts.
    let (earlier, later) = text.split_once("\n====\n").unwrap_or((&text, &text));
    if let (Ok(earlier), Ok(later)) = (parse_snapshot(earlier), parse_snapshot(later)) {
        let _ = (later.since(&earlier).histogram(), earlier.histogram());
    }
}

pub(crate) fn reports() -> Vec<Vec<u8>> {
    let report = r#"{"jobs":[{"error":0,
"read":{"runtime":1000,"total_ios":3,"io_bytes":30,"lat_ns":{"bins":{"1000":2,"2000":1}}},
"write":{"runtime":999,"total_ios":1,"io_bytes":10,"lat_ns":{"bins":{"2000":1}}}}]}"#;
    vec![report.into(), format!("{report}\n====\n{report}").into_bytes()]
}
