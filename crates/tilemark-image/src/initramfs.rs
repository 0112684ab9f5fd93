//! The two initramfs archives of a guest: the image's (kernel modules) and the agent's. The caller joins them, the
//! image's first, and hands them to QEMU as one file. Both end on a block, so joining is appending.

use crate::cpio::{CpioWriter, DeviceNumber};
use crate::modules::KernelModule;

/// Where the list of modules is in the guest: one absolute path a line, in the order of loading.
pub const MODULES_LIST: &str = "/modules.list";

/// The agent's initramfs: `/init` is the agent, beside it the console and the folders that it mounts things on.
///
/// A new agent thus means no new image.
pub fn agent_initramfs(agent: &[u8]) -> Vec<u8> {
    let mut archive = CpioWriter::default();
    for folder in ["dev", "proc", "sys", "newroot"] {
        archive.directory(folder);
    }
    // Without it the kernel starts `/init` with no standard output, and a panic of it would not be seen.
    archive.character_device("dev/console", DeviceNumber { major: 5, minor: 1 });
    archive.executable("init", agent);
    archive.finish()
}

/// The image's initramfs: the modules and [`MODULES_LIST`]. The modules come in the order of loading.
pub(crate) fn modules_initramfs(modules: &[KernelModule]) -> Vec<u8> {
    let mut archive = CpioWriter::default();
    let mut list = String::new();
    archive.directory("modules");
    for module in modules {
        let path = format!("modules/{}.ko", module.name);
        archive.file(&path, &module.content);
        list += &format!("/{path}\n");
    }
    archive.file(MODULES_LIST.trim_start_matches('/'), list.as_bytes());
    archive.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(archive: &[u8], text: &str) -> bool {
        archive.windows(text.len()).any(|bytes| bytes == text.as_bytes())
    }

    #[test]
    fn the_agent_becomes_init_unchanged() {
        let archive = agent_initramfs(b"#!agent");
        for expected in ["init\0", "dev/console\0", "newroot\0", "#!agent"] {
            assert!(holds(&archive, expected), "{expected}");
        }
    }

    #[test]
    fn the_list_names_the_modules_in_the_order_given() {
        let modules = ["virtio_ring", "virtio"].map(|name| KernelModule {
            name: name.into(),
            content: b"module".to_vec(),
            depends: vec![],
        });
        let archive = modules_initramfs(&modules);
        assert!(holds(&archive, "/modules/virtio_ring.ko\n/modules/virtio.ko\n"));
        assert!(holds(&archive, "modules/virtio.ko\0"));
    }
}
