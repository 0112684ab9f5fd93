//! Finds the kernel modules that guests need, with those that they depend on, in the order of loading.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use crate::elf::Elf;
use crate::kernel::unpack_module;
use crate::{ImageError, Result};

/// What a guest needs before its root is mounted, and to be reached.
pub(crate) const FOR_BOOT: [&str; 7] =
    ["virtio_pci", "virtio_blk", "virtio_net", "virtio_console", "virtio_rng", "erofs", "overlay"];
/// What a service may ask for later, from `/usr/lib/modules`: XFS for data disks, loop devices.
pub(crate) const FOR_SERVICES: [&str; 2] = ["xfs", "loop"];

/// A kernel module, ready to be loaded.
#[derive(Clone, Debug)]
pub(crate) struct KernelModule {
    /// With underscores, as the kernel shows it.
    pub(crate) name: String,
    /// The uncompressed file.
    pub(crate) content: Vec<u8>,
    /// The modules that it needs itself; each comes before it.
    pub(crate) depends: Vec<String>,
}

/// The modules of one kernel, as its package has them.
pub(crate) struct ModuleTree {
    kernel: String,
    files: BTreeMap<String, PathBuf>,
    builtin: BTreeSet<String>,
}

impl ModuleTree {
    /// Reads the folder `lib/modules/VERSION` of an unpacked kernel package.
    pub(crate) fn read(folder: &Path) -> Result<Self> {
        let kernel = folder.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let mut files = BTreeMap::new();
        collect_modules(folder, &mut files)?;
        let list = folder.join("modules.builtin");
        let builtin = fs::read_to_string(&list).map_err(ImageError::io("read", &list))?;
        let builtin = builtin.lines().filter_map(|line| module_name(Path::new(line))).collect();
        Ok(Self { kernel, files, builtin })
    }

    /// These modules and all that they depend on, each after those that it needs. Built-in ones are left out.
    pub(crate) fn in_load_order(&self, wanted: &[&str]) -> Result<Vec<KernelModule>> {
        let mut ordered = Vec::new();
        let mut seen = BTreeSet::new();
        for name in wanted {
            self.visit(name, &mut seen, &mut ordered)?;
        }
        Ok(ordered)
    }

    fn visit(&self, name: &str, seen: &mut BTreeSet<String>, ordered: &mut Vec<KernelModule>) -> Result<()> {
        if self.builtin.contains(name) || !seen.insert(name.to_owned()) {
            return Ok(());
        }
        let path = self.files.get(name).ok_or_else(|| ImageError::ModuleMissing {
            kernel: self.kernel.clone(),
            module: name.to_owned(),
        })?;
        let bytes = fs::read(path).map_err(ImageError::io("read", path))?;
        let content = unpack_module(name, bytes)?;
        let depends = needed_by(&content).ok_or_else(|| ImageError::Kernel {
            file: path.display().to_string(),
            reason: "it has no module information".into(),
        })?;
        for needed in &depends {
            self.visit(needed, seen, ordered)?;
        }
        ordered.push(KernelModule { name: name.to_owned(), content, depends });
        Ok(())
    }
}

/// `modules.dep` as `depmod` writes it: each file, then all that it needs, the last to be loaded first.
pub(crate) fn modules_dep(modules: &[KernelModule]) -> String {
    let by_name: BTreeMap<&str, &KernelModule> =
        modules.iter().map(|module| (module.name.as_str(), module)).collect();
    let mut text = String::new();
    for module in modules {
        let mut needed: Vec<&str> = Vec::new();
        let mut open: Vec<&str> = module.depends.iter().map(String::as_str).collect();
        while let Some(name) = open.pop() {
            needed.retain(|known| *known != name);
            needed.push(name);
            open.extend(
                by_name.get(name).into_iter().flat_map(|found| found.depends.iter().map(String::as_str)),
            );
        }
        text += &format!("{}.ko:", module.name);
        needed
            .iter()
            .filter(|name| by_name.contains_key(*name))
            .for_each(|name| text += &format!(" {name}.ko"));
        text.push('\n');
    }
    text
}

/// What `.modinfo` says after `depends=`; `None` when there is no such section.
fn needed_by(module: &[u8]) -> Option<Vec<String>> {
    let info = Elf::new(module)?.section(".modinfo")?;
    let depends = info.split(|byte| *byte == 0).find_map(|field| field.strip_prefix(b"depends="))?;
    let depends = std::str::from_utf8(depends).ok()?;
    Some(depends.split(',').filter(|name| !name.is_empty()).map(underscored).collect())
}

fn collect_modules(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(ImageError::io("read", folder))?;
    for entry in entries {
        let entry = entry.map_err(ImageError::io("read", folder))?;
        let path = entry.path();
        if entry.file_type().map_err(ImageError::io("read", &path))?.is_dir() {
            collect_modules(&path, files)?;
        } else if let Some(name) = module_name(&path) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// The name of the module in a file such as `virtio-rng.ko.xz`.
fn module_name(path: &Path) -> Option<String> {
    let file = path.file_name()?.to_str()?;
    let (stem, ending) = file.split_once(".ko")?;
    ["", ".gz", ".xz", ".zst"].contains(&ending).then(|| underscored(stem))
}

fn underscored(name: &str) -> String {
    name.replace('-', "_")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::elf::sample;

    fn tree(modules: &[(&str, &str)], builtin: &str) -> (tempfile::TempDir, ModuleTree) {
        let folder = tempfile::tempdir().unwrap();
        let drivers = folder.path().join("kernel/drivers");
        fs::create_dir_all(&drivers).unwrap();
        for (file, depends) in modules {
            let info = format!("license=GPL\0depends={depends}\0name=x\0");
            fs::write(drivers.join(file), sample::with_section(".modinfo", info.as_bytes())).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), builtin).unwrap();
        let tree = ModuleTree::read(folder.path()).unwrap();
        (folder, tree)
    }

    fn names(modules: &[KernelModule]) -> Vec<&str> {
        modules.iter().map(|module| module.name.as_str()).collect()
    }

    const SAMPLE: [(&str, &str); 4] = [
        ("virtio-net.ko", "net_failover,virtio"),
        ("net_failover.ko", "failover"),
        ("failover.ko", ""),
        ("virtio.ko", ""),
    ];

    #[test]
    fn each_module_comes_once_and_after_those_it_needs() {
        let (_folder, tree) = tree(&SAMPLE, "");
        let modules = tree.in_load_order(&["virtio_net", "failover", "virtio"]).unwrap();
        assert_eq!(names(&modules), ["failover", "net_failover", "virtio", "virtio_net"]);
    }

    #[test]
    fn what_is_built_in_is_left_out_and_what_is_nowhere_is_named() {
        let (_folder, tree) = tree(&SAMPLE[..3], "kernel/drivers/virtio/virtio.ko\n");
        assert_eq!(
            names(&tree.in_load_order(&["virtio_net"]).unwrap()),
            ["failover", "net_failover", "virtio_net"]
        );
        let error = tree.in_load_order(&["erofs"]).unwrap_err();
        assert!(error.to_string().contains("no module `erofs`"), "{error}");
    }

    #[test]
    fn modules_dep_lists_all_that_is_needed_with_the_first_to_load_last() {
        let (_folder, tree) = tree(&SAMPLE, "");
        let text = modules_dep(&tree.in_load_order(&["virtio_net"]).unwrap());
        assert!(text.ends_with("\nvirtio_net.ko: virtio.ko net_failover.ko failover.ko\n"), "{text}");
        assert!(text.starts_with("failover.ko:\n"), "{text}");
    }

    #[test]
    fn only_module_files_have_module_names() {
        assert_eq!(module_name(Path::new("a/virtio-rng.ko.xz")).as_deref(), Some("virtio_rng"));
        assert_eq!(module_name(Path::new("modules.order")), None);
        assert_eq!(module_name(Path::new("x.ko.sig")), None);
    }
}
