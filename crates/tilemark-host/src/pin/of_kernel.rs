//! Threads of the kernel that move packets of guests (vhost) are put beside the guest's QEMU.

use super::bind::is_gone;
use super::processes::{Processes, kernel_threads};
use tilemark_units::ranges;

/// Lets threads of the kernel that work for these processes use the processors of the process's first thread: since Linux 6.4 they are
/// threads of the process and inherit them; before, the kernel lets them run anywhere.
///
/// Returns which could not be bound, each with what the kernel said.
pub fn bind_kernel_threads(processes: &dyn Processes, pids: &[u32]) -> Vec<String> {
    let of_kernel = kernel_threads(processes.host());
    let mut refused = Vec::new();
    for pid in pids {
        let Some(threads) = of_kernel.get(pid) else { continue };
        // One that has ended meanwhile needs no place.
        let Ok(own) = processes.affinity(*pid) else { continue };
        for thread in threads {
            match processes.bind(thread.tid, &own) {
                Err(error) if !is_gone(&error) => {
                    let (tid, own) = (thread.tid, ranges(&own));
                    refused.push(format!("cannot bind vhost-{pid} ({tid}) to processors {own}: {error}"));
                }
                _ => {}
            }
        }
    }
    refused
}
