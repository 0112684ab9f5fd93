//! The vendored ECharts: see `vendor/README.md` for its version, licence and how it was built.

/// Version of the vendored ECharts.
pub const ECHARTS_VERSION: &str = "6.1.0";
/// SHA-256 of the vendored file, in hexadecimal.
pub const ECHARTS_SHA256: &str = "02e6fbda6dde040e1e7318fdbc10dfd742b1b06f807f42c332a83c54cedec031";
/// The vendored file.
pub(crate) const ECHARTS: &str = include_str!("../vendor/echarts/echarts.min.js");

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_units::Sha256Hash;

    #[test]
    fn the_vendored_file_is_the_one_that_its_page_names() {
        assert_eq!(Sha256Hash::of(ECHARTS.as_bytes()).to_string(), ECHARTS_SHA256);
        let page = include_str!("../vendor/README.md");
        assert!(page.contains(ECHARTS_SHA256) && page.contains(ECHARTS_VERSION), "vendor/README.md is stale");
    }

    #[test]
    fn the_vendored_file_cannot_close_the_script_that_holds_it() {
        assert!(!ECHARTS.to_ascii_lowercase().contains("</script"));
    }
}
