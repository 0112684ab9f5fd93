//! fio's job file.

use crate::WorkloadError;
use tilemark_agent_protocol::DiskJob;
use tilemark_plan::{plan::Demand, scenario::Arrival};
use tilemark_units::Bytes;

/// What one job of fio works on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Target {
    /// A block device or a file.
    pub path: String,
    /// How much of it; `None`: all of a device.
    pub size: Option<Bytes>,
}

/// The data disks of a guest: `/dev/vdb` and following, `/dev/vda` being the image.
pub fn data_disks(count: u32) -> Result<Vec<Target>, WorkloadError> {
    if count == 0 {
        return Err(WorkloadError::NoDisk);
    }
    // vdb to vdz: 25 disks.
    if count > 25 {
        return Err(WorkloadError::BadDisk { what: "number of disks", value: u64::from(count) });
    }
    let path = |index: u32| format!("/dev/vd{}", char::from(b'b' + index as u8));
    Ok((0..count).map(|index| Target { path: path(index), size: None }).collect())
}

/// The job file: libaio, direct, random, one job for each target, for `seconds`. The rate is that of `job`,
/// spread evenly over the targets; `demand` says only how its requests are spread in time.
pub fn job_file(
    job: &DiskJob,
    demand: &Demand,
    targets: &[Target],
    seconds: f64,
    seed: u64,
) -> Result<String, WorkloadError> {
    let parameters = &job.parameters;
    let block = parameters.block_size.get();
    if !(512..=16 << 20).contains(&block) || !block.is_multiple_of(512) {
        return Err(WorkloadError::BadDisk { what: "block_size", value: block });
    }
    if !(1..=4096).contains(&parameters.depth) {
        return Err(WorkloadError::BadDisk { what: "depth", value: u64::from(parameters.depth) });
    }
    if targets.is_empty() {
        return Err(WorkloadError::NoDisk);
    }
    let reads = parameters.reads.get();
    let kind = match reads {
        0.0 => "randwrite",
        1.0 => "randread",
        _ => "randrw",
    };
    let mut text = format!(
        "[global]\nioengine=libaio\ndirect=1\nthread=1\nrw={kind}\nbs={block}\niodepth={}\ntime_based=1\n\
         runtime={}ms\nrandseed={}\nrandrepeat=0\nnorandommap=1\nrandom_generator=tausworthe64\n\
         lat_percentiles=1\nclat_percentiles=0\nslat_percentiles=0\ngroup_reporting=0\n",
        parameters.depth,
        (seconds * 1e3).round() as u64,
        // fio reads it as a signed number.
        seed >> 1,
    );
    if kind == "randrw" {
        text += &format!("rwmixread={}\n", (reads * 100.0).round() as u32);
    }
    text += &rate_lines(job, demand, targets.len(), reads)?;
    for (index, target) in targets.iter().enumerate() {
        text += &format!("[disk-{index}]\nfilename={}\n", target.path);
        if let Some(size) = target.size {
            text += &format!("size={}\n", size.get());
        }
    }
    Ok(text)
}

/// fio limits reads and writes apart, in whole requests a second.
fn rate_lines(job: &DiskJob, demand: &Demand, targets: usize, reads: f64) -> Result<String, WorkloadError> {
    let Some(rate) = job.rate.filter(|_| !job.parameters.saturate) else { return Ok(String::new()) };
    let each = rate.get() / targets as f64;
    let (read, write) = ((each * reads).round() as u64, (each * (1.0 - reads)).round() as u64);
    if (reads > 0.0 && read == 0) || (reads < 1.0 && write == 0) {
        return Err(WorkloadError::BadDisk { what: "rate", value: rate.get() as u64 });
    }
    let process = match demand {
        Demand::Open { arrival: Arrival::Even, .. } | Demand::Closed => "linear",
        Demand::Open { arrival: Arrival::Poisson | Arrival::Bursts, .. } => "poisson",
    };
    // 0 would mean "no limit" for a kind that is not done at all.
    Ok(format!("rate_iops={},{}\nrate_process={process}\n", read.max(1), write.max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_plan::workload::DiskParameters;
    use tilemark_units::{Fraction, Rate};

    fn text(rate: Option<f64>, reads: f64) -> Result<String, WorkloadError> {
        let reads = Fraction::new(reads).unwrap();
        let parameters = DiskParameters { reads, ..DiskParameters::default() };
        let rate = rate.map(|rate| Rate::per_second(rate).unwrap());
        let job = DiskJob { parameters, rate, disks: 2 };
        job_file(&job, &Demand::Closed, &data_disks(2).unwrap(), 5.0, 9)
    }

    #[test]
    fn each_disk_is_one_job_with_its_share_of_the_rate() {
        let text = text(Some(400.0), 0.5).unwrap();
        for line in [
            "filename=/dev/vdb",
            "filename=/dev/vdc",
            "rate_iops=100,100",
            "direct=1",
            "ioengine=libaio",
            "rwmixread=50",
            "iodepth=32",
            "bs=4096",
            "runtime=5000ms",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn flat_out_has_no_rate_and_one_kind_alone_is_no_mix() {
        assert!(!text(None, 0.5).unwrap().contains("rate"));
        assert!(text(None, 1.0).unwrap().contains("rw=randread\n"));
        assert!(text(None, 0.0).unwrap().contains("rw=randwrite\n"));
    }

    #[test]
    fn what_fio_cannot_do_is_refused() {
        assert!(matches!(data_disks(0), Err(WorkloadError::NoDisk)));
        assert!(matches!(text(Some(0.1), 0.5), Err(WorkloadError::BadDisk { what: "rate", .. })));
    }
}
