//! fio's job file.

use crate::WorkloadError;
use tilemark_plan::workload::DiskParameters;
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
    if count as usize > DiskParameters::DISKS_MAX {
        return Err(WorkloadError::BadDisk { what: "number of disks", value: u64::from(count) });
    }
    let path = |index: u32| format!("/dev/vd{}", char::from(b'b' + index as u8));
    Ok((0..count).map(|index| Target { path: path(index), size: None }).collect())
}

/// Bytes of one request.
pub(super) fn block_size(parameters: &DiskParameters) -> Result<usize, WorkloadError> {
    let block = parameters.block_size.get();
    if !parameters.has_possible_block_size() {
        return Err(WorkloadError::BadDisk { what: "block_size", value: block });
    }
    Ok(block as usize)
}

/// The job file: libaio, direct, random, flat out, one job for each target, for `seconds`.
pub fn job_file(
    parameters: &DiskParameters,
    targets: &[Target],
    seconds: f64,
    seed: u64,
) -> Result<String, WorkloadError> {
    let block = block_size(parameters)?;
    if !DiskParameters::DEPTHS.contains(&parameters.depth) {
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
    for (index, target) in targets.iter().enumerate() {
        text += &format!("[disk-{index}]\nfilename={}\n", target.path);
        if let Some(size) = target.size {
            text += &format!("size={}\n", size.get());
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use tilemark_units::Fraction;

    fn text(reads: f64) -> String {
        let parameters = DiskParameters { reads: Fraction::new(reads).unwrap(), ..DiskParameters::default() };
        job_file(&parameters, &data_disks(2).unwrap(), 5.0, 9).unwrap()
    }

    #[test]
    fn each_disk_is_one_job_without_a_rate() {
        let text = text(0.5);
        for line in [
            "filename=/dev/vdb",
            "filename=/dev/vdc",
            "direct=1",
            "ioengine=libaio",
            "rwmixread=50",
            "iodepth=32",
            "bs=4096",
            "runtime=5000ms",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("rate"));
    }

    #[test]
    fn one_kind_alone_is_no_mix() {
        assert!(text(1.0).contains("rw=randread\n"));
        assert!(text(0.0).contains("rw=randwrite\n"));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert!(matches!(data_disks(0), Err(WorkloadError::NoDisk)));
        assert_eq!(data_disks(25).unwrap()[24].path, "/dev/vdz");
        assert!(matches!(data_disks(26), Err(WorkloadError::BadDisk { value: 26, .. })));
        let parameters = DiskParameters { block_size: Bytes::new(1000), ..DiskParameters::default() };
        let refused = job_file(&parameters, &data_disks(1).unwrap(), 5.0, 9);
        assert!(matches!(refused, Err(WorkloadError::BadDisk { what: "block_size", value: 1000 })));
    }
}
