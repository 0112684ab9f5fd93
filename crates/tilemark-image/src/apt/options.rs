//! The few settings of the host's apt that decide whether its archives can be reached. All others (hooks, cache
//! policies, solvers) stay out of the image: a build must not depend on them.

use crate::Result;
use crate::command::Tool;

/// Names of settings, lower-case; one that ends in `::` means all below it.
const KEPT: [&str; 10] = [
    "acquire::http::proxy",
    "acquire::http::proxy::",
    "acquire::http::proxy-auto-detect",
    "acquire::https::proxy",
    "acquire::https::proxy::",
    "acquire::https::cainfo",
    "acquire::forceipv4",
    "acquire::retries",
    "acquire::check-valid-until",
    "acquire::check-date",
];

/// The settings as lines of an apt configuration file.
pub(crate) fn host_options() -> Result<Vec<String>> {
    let dump = Tool::new("apt-config", "apt").arg("dump").output()?;
    Ok(kept_options(&String::from_utf8_lossy(&dump)))
}

fn kept_options(dump: &str) -> Vec<String> {
    let kept = |line: &&str| {
        let Some((name, value)) = line.split_once(' ') else { return false };
        let name = name.to_ascii_lowercase();
        let listed = KEPT.iter().any(|kept| name == *kept || kept.ends_with("::") && name.starts_with(kept));
        listed && value != "\"\";"
    };
    dump.lines().filter(kept).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxies_and_dates_are_kept_and_hooks_are_not() {
        let dump = "APT \"\";\nAcquire::http \"\";\nAcquire::http::Proxy \"http://proxy:3128\";\n\
            Acquire::http::Proxy::intern \"DIRECT\";\nAcquire::http::ProxyX \"no\";\n\
            Acquire::Check-Valid-Until \"false\";\nAcquire::https::Proxy \"\";\n\
            DPkg::Post-Invoke:: \"rm -rf /var/cache\";\n";
        assert_eq!(
            kept_options(dump),
            [
                "Acquire::http::Proxy \"http://proxy:3128\";",
                "Acquire::http::Proxy::intern \"DIRECT\";",
                "Acquire::Check-Valid-Until \"false\";",
            ]
        );
    }
}
