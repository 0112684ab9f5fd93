//! What a key of the catalogue is about, where formats have a way to say it.

/// Whether a key is a sysctl's own name.
pub(super) fn is_sysctl(key: &str) -> bool {
    const FOLDERS: [&str; 8] = ["vm", "kernel", "net", "fs", "dev", "debug", "user", "sunrpc"];
    key.split_once('.').is_some_and(|(folder, _)| FOLDERS.contains(&folder))
}

/// The service that a key is about.
pub(super) fn service_of(key: &str) -> Option<&str> {
    let service = if key == "irqbalance" { key } else { key.strip_prefix("service.")? };
    Some(service.strip_suffix(".service").unwrap_or(service))
}
