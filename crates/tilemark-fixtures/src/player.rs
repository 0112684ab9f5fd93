//! A process that plays QEMU.

use std::{
    fs,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A shell that is called like QEMU, with a guest's name, until it is dropped.
#[derive(Debug)]
pub struct QemuPlayer(Child);

impl QemuPlayer {
    /// Starts it, and waits until its name can be read: a process that has just been started has no command line for a moment.
    ///
    /// # Panics
    /// Where it cannot be started.
    #[allow(clippy::unwrap_used, reason = "only tests start it")]
    pub fn named(name: &str) -> Self {
        let mut command = Command::new("/bin/sh");
        command.arg0("/usr/bin/qemu-system-x86_64").args(["-c", "read line", "sh", "-name"]);
        command.arg(format!("guest={name},debug-threads=on")).stdin(Stdio::piped());
        let player = Self(command.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        while !fs::read_to_string(format!("/proc/{}/cmdline", player.id())).unwrap().contains(name) {
            assert!(Instant::now() < deadline, "{name} has no command line");
            thread::sleep(Duration::from_millis(1));
        }
        player
    }

    /// Its process.
    pub fn id(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for QemuPlayer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
