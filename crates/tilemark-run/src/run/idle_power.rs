//! What the host takes while it does nothing: measured before the first guest, where it counts its energy.

use crate::{
    failure::{Failure, FailureCode},
    progress::{Listener, Progress},
    stop::interrupted,
};
use std::{
    thread,
    time::{Duration, Instant},
};
use tilemark_host::telemetry::{Sampler, difference};
use tilemark_plan::{expect::time_of_idle_power, plan::HostSummary};

/// Mean power of the processors' packages in watts while nothing of a run is there, not even its keeper, which keeps
/// processors awake. Nothing, and no time, where the host counts no energy.
///
/// # Errors
/// Where Ctrl-C ends it.
pub(crate) fn measure(host: &HostSummary, listener: &mut dyn Listener) -> Result<Option<f64>, Failure> {
    let length = time_of_idle_power(host);
    if length.is_zero() {
        return Ok(None);
    }
    // Without telemetry there is nothing to say about power either.
    let Ok(sampler) = Sampler::new(&[]) else { return Ok(None) };
    power_over(sampler, || wait_idle(length, listener))
}

fn power_over(
    mut sampler: Sampler,
    wait: impl FnOnce() -> Result<(), Failure>,
) -> Result<Option<f64>, Failure> {
    if !sampler.counts_energy() {
        return Ok(None);
    }
    let before = sampler.sample();
    wait()?;
    Ok(difference(&before, &sampler.sample()).power_w)
}

/// Between two looks for a Ctrl-C: rarely enough to let processors sleep.
const LOOKS_AGAIN_AFTER: Duration = Duration::from_millis(200);

fn wait_idle(length: Duration, listener: &mut dyn Listener) -> Result<(), Failure> {
    let (began, doing) = (Instant::now(), "measuring idle power".to_owned());
    listener.progress(&Progress {
        doing,
        seconds_done: 0.0,
        seconds_expected: length.as_secs_f64(),
        seconds_at_most: None,
    });
    loop {
        let left = length.saturating_sub(began.elapsed());
        if left.is_zero() {
            return Ok(());
        }
        if interrupted() {
            return Err(Failure::new(
                FailureCode::Interrupted,
                "ended before the first guest was started",
                "nothing to do: nothing was begun",
            ));
        }
        thread::sleep(left.min(LOOKS_AGAIN_AFTER));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, path::Path};

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn idle_power_is_that_of_the_wait_and_takes_no_time_where_nothing_counts_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path();
        put(root, "proc/stat", "cpu  1 0 0 1 0 0 0 0 0 0\ncpu0 1 0 0 1 0 0 0 0 0 0\n");
        let sampler = || Sampler::at_root(root, &[]).unwrap();
        let power = power_over(sampler(), || panic!("nobody waits for what is not counted"));
        assert_eq!(power.unwrap(), None);
        let zone = "sys/class/powercap/intel-rapl:0";
        put(root, &format!("{zone}/name"), "package-0\n");
        put(root, &format!("{zone}/energy_uj"), "100\n");
        let began = Instant::now();
        let power = power_over(sampler(), || {
            put(root, &format!("{zone}/energy_uj"), "1000100\n");
            Ok(())
        });
        // A joule in less time than passed here, and in some time.
        let least = 1.0 / began.elapsed().as_secs_f64();
        assert!(power.unwrap().is_some_and(|watts| watts >= least && watts.is_finite()));
        let ended = power_over(sampler(), || Err(Failure::new(FailureCode::Interrupted, "x", "y")));
        assert_eq!(ended.unwrap_err().code, FailureCode::Interrupted);
    }
}
