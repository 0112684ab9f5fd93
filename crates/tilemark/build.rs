//! Builds the agent, which this program carries in itself: release, static, in a folder of its own, so that
//! plain `cargo build`, `cargo test` and `cargo install --path` work. `make build` has built it before and names it, so that libraries
//! are compiled once for both.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

/// It travels to every guest at every start.
const AGENT_BYTES_MAX: u64 = 11 << 20;
const TARGET: &str = "x86_64-unknown-linux-gnu";
/// The path of an agent that is built already.
const BUILT: &str = "TILEMARK_AGENT_BUILT";

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let workspace =
        here.ancestors().nth(2).expect("this crate is two folders below the workspace").to_owned();
    // All that the agent is built of; the command's own crates are not among them.
    for part in [
        "tilemark-agent",
        "tilemark-agent-protocol",
        "tilemark-amqp",
        "tilemark-amqp-load",
        "tilemark-broker",
        "tilemark-load",
        "tilemark-netlink",
        "tilemark-plan",
        "tilemark-store",
        "tilemark-store-data",
        "tilemark-sys",
        "tilemark-tls",
        "tilemark-units",
        "tilemark-workloads",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join("crates").join(part).join("src").display());
        println!(
            "cargo::rerun-if-changed={}",
            workspace.join("crates").join(part).join("Cargo.toml").display()
        );
    }
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());
    println!("cargo::rerun-if-env-changed={BUILT}");
    let agent = env::var_os(BUILT).map_or_else(|| build_agent(&workspace), |path| built_agent(path.into()));
    let size = std::fs::metadata(&agent).expect("the agent was built").len();
    assert!(size <= AGENT_BYTES_MAX, "the agent has {size} bytes, more than {AGENT_BYTES_MAX}");
    println!("cargo::rustc-env=TILEMARK_AGENT={}", agent.display());
}

/// An agent that was built before: it must run in a guest that has no libraries.
fn built_agent(path: PathBuf) -> PathBuf {
    let bytes = std::fs::read(&path)
        .unwrap_or_else(|error| panic!("{BUILT} = {}: {error}; run `make build`", path.display()));
    let loader = b"/lib64/ld-linux";
    assert!(
        !bytes.windows(loader.len()).any(|part| part == loader),
        "{BUILT} = {}: it is linked dynamically; run `make build`",
        path.display()
    );
    println!("cargo::rerun-if-changed={}", path.display());
    path
}

fn build_agent(workspace: &Path) -> PathBuf {
    let target_folder = workspace.join("target/agent");
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo
        .current_dir(workspace)
        .args(["rustc", "--release", "--locked", "--package", "tilemark-agent", "--target", TARGET])
        .arg("--target-dir")
        .arg(&target_folder)
        // Names of functions are an eighth of it, and it travels to every guest; a panic still names file and line.
        .args(["--", "-C", "strip=symbols"])
        .env("RUSTFLAGS", "-C target-feature=+crt-static");
    // What cargo sets for this build must not reach the other one, or each build would undo the other's.
    for (name, _) in env::vars_os() {
        let name = name.to_string_lossy().into_owned();
        let of_this_build = [
            "CARGO_ENCODED_RUSTFLAGS",
            "CARGO_MAKEFLAGS",
            "MAKEFLAGS",
            "TARGET",
            "RUSTC_WRAPPER",
            "RUSTC_WORKSPACE_WRAPPER",
        ];
        let profile = name.starts_with("CARGO_PROFILE_")
            || name.starts_with("CARGO_FEATURE_")
            || name.starts_with("CARGO_CFG_");
        // A linker for another C library, as `make dist` has one, cannot link the agent statically.
        let tools = ["CARGO_TARGET_X86_64", "CC_", "CXX_", "AR_", "RANLIB_"];
        let tool = tools.iter().any(|tool| name.starts_with(tool));
        if of_this_build.contains(&name.as_str()) || profile || tool || name.starts_with("CARGO_PKG_") {
            cargo.env_remove(&name);
        }
    }
    let status = cargo.status().expect("cargo runs, since it runs this");
    assert!(status.success(), "the agent does not build; see above");
    target_folder.join(TARGET).join("release/tilemark-agent")
}
