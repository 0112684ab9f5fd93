//! The workload `disk`: fio on the guest's data disks.
