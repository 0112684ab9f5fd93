//! Settings that are one value in sysfs, by their keys and by their files.

use crate::setting::known::block;

/// Fixed keys with their files. A `switch` is written as 1 and 0.
struct Entry {
    key: &'static str,
    path: &'static str,
    form: Form,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    AsIs,
    Switch,
}

const fn plain(key: &'static str, path: &'static str) -> Entry {
    Entry { key, path, form: Form::AsIs }
}

const FIXED: [Entry; 12] = [
    plain("thp", "/sys/kernel/mm/transparent_hugepage/enabled"),
    plain("thp.defrag", "/sys/kernel/mm/transparent_hugepage/defrag"),
    plain("thp.khugepaged.defrag", "/sys/kernel/mm/transparent_hugepage/khugepaged/defrag"),
    plain("thp.khugepaged.pages_to_scan", "/sys/kernel/mm/transparent_hugepage/khugepaged/pages_to_scan"),
    plain(
        "thp.khugepaged.scan_sleep_millisecs",
        "/sys/kernel/mm/transparent_hugepage/khugepaged/scan_sleep_millisecs",
    ),
    Entry { key: "ksm", path: "/sys/kernel/mm/ksm/run", form: Form::Switch },
    plain("ksm.pages_to_scan", "/sys/kernel/mm/ksm/pages_to_scan"),
    plain("ksm.sleep_millisecs", "/sys/kernel/mm/ksm/sleep_millisecs"),
    plain("ksm.merge_across_nodes", "/sys/kernel/mm/ksm/merge_across_nodes"),
    plain("hugepages.2MiB", "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"),
    plain("hugepages.1GiB", "/sys/kernel/mm/hugepages/hugepages-1048576kB/nr_hugepages"),
    plain("smt", "/sys/devices/system/cpu/smt/control"),
];

const BLOCK: &str = "/sys/block/";
const MODULE: &str = "/sys/module/";
const NODE: &str = "/sys/devices/system/node/node";
const SIZES: [(&str, &str); 2] = [("2MiB", "2048kB"), ("1GiB", "1048576kB")];

/// The file of a key and what is written into it; `None` for what is no single value in sysfs.
pub(super) fn file_of(key: &str, value: &str) -> Option<(String, String)> {
    if let Some(entry) = FIXED.iter().find(|entry| entry.key == key) {
        let value = match (entry.form, value) {
            (Form::Switch, "on") => "1",
            (Form::Switch, _) => "0",
            (Form::AsIs, value) => value,
        };
        return Some((entry.path.to_owned(), value.to_owned()));
    }
    Some((path_of(key)?, value.to_owned()))
}

fn path_of(key: &str) -> Option<String> {
    if let Some(parameter) = key.strip_prefix("kvm.") {
        return Some(format!("{MODULE}kvm/parameters/{parameter}"));
    }
    if let Some(rest) = key.strip_prefix("module.") {
        let (module, parameter) = rest.split_once('.')?;
        return Some(format!("{MODULE}{module}/parameters/{parameter}"));
    }
    if let Some(rest) = key.strip_prefix("block.") {
        let (device, parameter) = rest.rsplit_once('.')?;
        return block::is_file(parameter).then(|| block::file(device, parameter));
    }
    let (size, node) = key.strip_prefix("hugepages.")?.split_once(".node")?;
    let (_, size) = SIZES.into_iter().find(|(name, _)| *name == size)?;
    Some(format!("{NODE}{node}/hugepages/hugepages-{size}/nr_hugepages"))
}

/// The key of a file and its value in our terms; `None` for a file that no key is for.
pub(super) fn key_of(path: &str, value: &str) -> Option<(String, String)> {
    if let Some(entry) = FIXED.iter().find(|entry| entry.path == path) {
        let value = match (entry.form, value) {
            (Form::Switch, "0") => "off",
            (Form::Switch, "1") => "on",
            (Form::Switch, _) => return None,
            (Form::AsIs, value) => value,
        };
        return Some((entry.key.to_owned(), value.to_owned()));
    }
    Some((name_of(path)?, value.to_owned()))
}

fn name_of(path: &str) -> Option<String> {
    if let Some(rest) = path.strip_prefix(MODULE) {
        let (module, parameter) = rest.split_once("/parameters/")?;
        return Some(match module {
            "kvm" => format!("kvm.{parameter}"),
            module => format!("module.{module}.{parameter}"),
        });
    }
    if let Some(rest) = path.strip_prefix(BLOCK) {
        let of_disk = rest.split_once("/device/").filter(|(_, parameter)| *parameter == block::DEPTH);
        let (device, parameter) = of_disk.or_else(|| rest.split_once("/queue/"))?;
        return block::is_file(parameter).then(|| format!("block.{device}.{parameter}"));
    }
    let (node, rest) = path.strip_prefix(NODE)?.split_once("/hugepages/hugepages-")?;
    let size = rest.strip_suffix("/nr_hugepages")?;
    let (size, _) = SIZES.into_iter().find(|(_, file)| *file == size)?;
    Some(format!("hugepages.{size}.node{node}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_and_its_file_lead_to_each_other() {
        for (key, value, path, written) in [
            ("ksm", "off", "/sys/kernel/mm/ksm/run", "0"),
            ("thp", "madvise", "/sys/kernel/mm/transparent_hugepage/enabled", "madvise"),
            ("kvm.halt_poll_ns", "0", "/sys/module/kvm/parameters/halt_poll_ns", "0"),
            ("module.kvm_intel.nested", "1", "/sys/module/kvm_intel/parameters/nested", "1"),
            ("block.nvme*.scheduler", "none", "/sys/block/nvme*/queue/scheduler", "none"),
            ("block.sd*.queue_depth", "64", "/sys/block/sd*/device/queue_depth", "64"),
            (
                "hugepages.1GiB.node3",
                "4",
                "/sys/devices/system/node/node3/hugepages/hugepages-1048576kB/nr_hugepages",
                "4",
            ),
        ] {
            let file = file_of(key, value).unwrap();
            assert_eq!((file.0.as_str(), file.1.as_str()), (path, written));
            assert_eq!(key_of(path, written).unwrap(), (key.to_owned(), value.to_owned()));
        }
        assert_eq!(file_of("cpu.governor", "performance"), None);
        assert_eq!(file_of("block.nvme0n1.coalesce_requests", "8"), None, "it is no file");
        assert_eq!(key_of("/sys/block/nvme0n1/queue/coalesce_usecs", "100"), None);
        assert_eq!(key_of("/sys/kernel/mm/ksm/run", "2"), None);
        assert_eq!(key_of("/sys/class/leds/a/brightness", "1"), None);
    }
}
