//! A file for `/etc/sysctl.d`.

use std::fmt::Write;

use tilemark_plan::profile::Profile;

use super::body::{Body, with_values};
use super::key::is_sysctl;

pub(super) fn body(profile: &Profile) -> Body {
    let mut body = Body::default();
    for (setting, value) in with_values(&profile.settings, &mut body) {
        let key = match setting.key.as_str() {
            // The default size of huge pages on x86-64.
            "hugepages.2MiB" => "vm.nr_hugepages",
            key if is_sysctl(key) => key,
            _ => {
                body.leave_out(setting, "it is not a sysctl");
                continue;
            }
        };
        // Written so, one that the host lacks is no error.
        let start = if setting.optional { "-" } else { "" };
        let _ = writeln!(body.text, "{start}{key} = {value}"); // writing to a String cannot fail
    }
    body
}
