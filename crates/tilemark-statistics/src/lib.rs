//! Pure arithmetic on figures, and the judge that turns them into a verdict and an answer.
//!
//! Nothing here reads a file, a clock or a source of chance: the same repeats and the same seed give the same
//! words on any machine. What cannot be computed comes back as [`Missing`] with a reason, never as a number.

mod bootstrap;
mod changepoint;
mod compare;
mod failures;
mod fairness;
mod figure;
mod fisher;
mod fleet;
mod holm;
mod interval;
pub mod judge;
mod moments;
mod percentile;
mod permutation;
mod ratio;
mod resolution;
mod scaling;
mod screening;
pub mod sentence;
mod series;
mod steady;

pub use changepoint::{CHANGE_LEVEL, CHANGE_RUNS_MIN, LevelChange, level_changes};
pub use compare::{
    Asked, BetterWhen, Change, ExitVerdict, LEAST_CHANGE, LEAST_CHANGE_OF_TAIL, Measure,
    PRIMARY_MEASURES_MAX, Rank, SideComparison, SideVerdict, Tolerance, compare_many, compare_sides,
};
pub use failures::{FailureChange, Failures, compare_failures};
pub use fairness::{Demanded, Fairness, Served, fairness, fairness_by_demand};
pub use figure::INTERVAL_REPEATS_MIN;
pub use figure::{CONFIDENCE, Figure, Interval, Missing, Scale};
pub use fisher::fisher_exact;
pub use fleet::{
    DriftMeasure, GroupDrift, GroupMeasure, GroupSpread, HOST_LEAST_CHANGE, HOST_LEAST_CHANGE_OF_ERRORS,
    HOST_LEAST_CHANGE_OF_TAIL, HOST_SIGNIFICANCE, HOSTS_FOR_OWN_DRIFT, HostChange, HostPair, HostVerdict,
    Shift, compare_fleets, compare_hosts, confirm_hosts,
};
pub use holm::holm;
pub use interval::{BOOTSTRAP_REPEATS_MIN, estimate, student_quantile};
pub use moments::{geometric_mean, mean, sample_deviation, sample_variance};
pub use percentile::{
    P99_REQUESTS_MIN, P99_REQUESTS_PLANNED, REQUESTS_BEYOND_MIN, percentile_admissible, percentile_name,
};
pub use permutation::{
    Arrangement, Block, BlockSize, DRAWN_RELABELINGS, Design, EXACT_RELABELINGS_MAX, PermutationTest,
    Relabelings, can_reach, permutation_test, repeats_needed,
};
pub use ratio::ratio;
pub use resolution::{FOUND_FRACTION, repeat_deviation, smallest_change_found};
pub use scaling::{EXTRAPOLATION_MAX, FIT_STEPS_MIN, ScalingLaw, ScalingStep, fit_scaling_law};
pub use screening::{
    Effect, Effects, PairOfRows, SCREENING_LEVEL, effects, runs_one_at_a_time, runs_with_shared_baseline,
    smallest_effect_found,
};
pub use steady::{CHANGE_MIN, FALSE_ALARMS_MAX, SECONDS_MIN, Unsettled, drift};
