//! Hosts that are folders of this machine: a shell plays each of them, with a home of its own.
#![allow(dead_code, reason = "each file that includes this uses its own part of it")]

use std::{fs, os::unix::fs::PermissionsExt, path::PathBuf, thread, time::Duration};
use tempfile::TempDir;
use tilemark_fleet::{Fleet, FleetError, FleetFolder, FleetOrder, Host, Site, SiteEngine, Step, Watch, run};

/// A fleet run that nothing was done for yet.
pub(crate) struct Played {
    pub(crate) home: TempDir,
    pub(crate) folder: FleetFolder,
}

/// What `tilemark` does on a host: it would measure for 90 s, and it brings an archive of its own where one is ready, waits as long as `wait` exists, and cannot measure.
const PROGRAM: &str = "#!/bin/sh\ncase $1 in\n--version) echo tilemark 1 ;;\nplan) echo '{\"expected\": {\"time\": \"90s\"}}' ;;\nrun)\n  \
    [ ! -e \"$TILEMARK_HOME/archive\" ] || cp \"$TILEMARK_HOME/archive\" ../attempt-0.tar.gz\n  \
    while [ -e \"$TILEMARK_HOME/../../wait\" ]; do sleep 0.1; done\n  \
    echo 'error: no room'\n  exit 3 ;;\nesac\n";

impl Played {
    /// `carrier` is what a shell does for the host `$0` before it becomes the host's.
    pub(crate) fn new(hosts: &[&str], at_once: Option<usize>, carrier: &str) -> Self {
        let home = tempfile::tempdir().unwrap();
        let place = home.path().display().to_string();
        // Nobody who plays a host becomes root of this machine.
        let sudo = home.path().join("bin/sudo");
        fs::create_dir(home.path().join("bin")).unwrap();
        fs::write(&sudo, "#!/bin/sh\nexit 1\n").unwrap();
        fs::set_permissions(&sudo, PermissionsExt::from_mode(0o755)).unwrap();
        let script = format!(
            "export PATH={place}/bin:$PATH TILEMARK_HOME={place}/hosts/$0; mkdir -p \"$TILEMARK_HOME\"; {carrier}\nexec sh"
        );
        let engine = SiteEngine::Exec { command: ["sh", "-c", &script, "{host}"].map(str::to_owned).into() };
        Self::with(home, engine, hosts, at_once)
    }

    /// With another engine.
    pub(crate) fn with(home: TempDir, engine: SiteEngine, hosts: &[&str], at_once: Option<usize>) -> Self {
        let program = home.path().join("program");
        fs::write(&program, PROGRAM).unwrap();
        fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
        let host = |name: &&str| Host {
            name: (*name).to_owned(),
            address: (*name).to_owned(),
            user: None,
            groups: Vec::new(),
        };
        let site = Site {
            engine,
            program: program.display().to_string(),
            lost_after_s: 1,
            hosts: hosts.iter().map(host).collect(),
            clients: Vec::new(),
            network: None,
        };
        let order = FleetOrder {
            scenario: "web".to_owned(),
            scenario_text: None,
            flags: ["run", "web"].map(str::to_owned).into(),
            seed: 7,
            version: "1".to_owned(),
            program_sha256: String::new(),
            at_once,
        };
        let fleets = home.path().join("fleets");
        let folder = FleetFolder::create(&fleets, &Fleet::new(order, site, &fleets)).unwrap();
        Self { home, folder }
    }

    pub(crate) fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.home.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, bytes).unwrap();
        path
    }

    /// As if all hosts had been given their work.
    pub(crate) fn submitted(&self) {
        let mut fleet = self.folder.read().unwrap();
        fleet.hosts.iter_mut().for_each(|host| host.step = Step::Submitted);
        self.folder.write(&fleet).unwrap();
    }

    /// Goes on with the fleet run. Carriers that other tests start at this moment have the lock of a run that is over until they are another
    /// program, so a busy one is tried again.
    pub(crate) fn run(&self, watch: Watch, note: &(dyn Fn(&str) + Sync)) -> Result<(), FleetError> {
        for _ in 0..3_000 {
            match run(&self.folder, watch, note) {
                Err(FleetError::Busy { .. }) => thread::sleep(Duration::from_millis(10)),
                other => return other,
            }
        }
        panic!("it stays busy");
    }

    /// How many hosts are at this step.
    pub(crate) fn at(&self, step: Step) -> usize {
        self.folder.read().unwrap().hosts.iter().filter(|host| host.step == step).count()
    }
}

impl Drop for Played {
    /// No host waits for ever.
    fn drop(&mut self) {
        let _ = fs::remove_file(self.home.path().join("wait"));
    }
}
