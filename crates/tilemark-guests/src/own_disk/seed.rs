//! What cloud-init reads: its data source NoCloud is a file system labelled `cidata` with the files `meta-data`, `user-data` and
//! `network-config` (cloud-init's documentation, "NoCloud").

use super::{AGENT_SERIAL, fat};
use serde_json::json;
use tilemark_plan::plan::{GuestPlan, NETWORK_PREFIX};

/// Finds the agent's disk by its serial number, copies the program to memory and starts it. Folders that hold memory are often mounted so
/// that nothing in them can be run, hence a mount of its own.
const START_AGENT: &str = r#"for disk in /sys/block/*; do
  if [ "$(cat "$disk/serial" 2>/dev/null)" = SERIAL ]; then
    mkdir -p /run/tilemark
    mount -t tmpfs -o mode=0700,exec tmpfs /run/tilemark
    cat "/dev/${disk##*/}" > /run/tilemark/agent
    chmod 0700 /run/tilemark/agent
    exec /run/tilemark/agent service
  fi
done
echo "tilemark: there is no disk with serial number SERIAL" > /dev/console"#;

/// The disk for a guest. The instance is another one at each start, so cloud-init does all of it although the disk has been started before.
pub(crate) fn seed_disk(guest: &GuestPlan, instance: u64) -> Vec<u8> {
    let meta = json!({
        "instance-id": format!("tilemark-{}-{instance:016x}", guest.name),
        "local-hostname": guest.name,
    });
    let prefix = guest.network.map_or(NETWORK_PREFIX, |network| network.prefix);
    // No gateway and no name servers: the run network leads nowhere else.
    let network = json!({
        "version": 2,
        "ethernets": { "tilemark": {
            "match": { "macaddress": guest.mac.to_string() },
            "dhcp4": false,
            "addresses": [format!("{}/{prefix}", guest.address)],
        }},
    });
    // Its overlay is as large as the disk: nothing has to grow.
    let user = json!({
        "growpart": { "mode": "off" },
        "resize_rootfs": false,
        "runcmd": [["/bin/sh", "-c", START_AGENT.replace("SERIAL", AGENT_SERIAL)]],
    });
    let files = [
        ("meta-data", meta.to_string().into_bytes()),
        ("network-config", network.to_string().into_bytes()),
        // JSON is YAML.
        ("user-data", format!("#cloud-config\n{user}\n").into_bytes()),
    ];
    fat::disk("cidata", &files).expect("they have at most a few KiB: a name has at most 255 bytes")
}
