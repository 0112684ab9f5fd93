//! Programs that count whole seconds.

use crate::{problem::Say, scenario::measure::Measure};

/// Reports a warm-up that a program which counts whole seconds cannot know: its seconds would not be ours. The measured time has whole
/// seconds always.
pub(super) fn check_whole_warmup(load: &str, program: &str, measure: &Measure, say: &mut Say<'_>) {
    let warmup = measure.warmup;
    if warmup.get().subsec_nanos() != 0 {
        say(
            format!(
                "`measure.warmup = \"{warmup}\"` is not a whole number of seconds, and {program} of load `{load}` counts whole seconds"
            ),
            "write whole seconds, such as `2s`",
        );
    }
}
