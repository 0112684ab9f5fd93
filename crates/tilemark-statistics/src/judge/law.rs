//! How many tiles fit within the gate, by one law through all repeats near it: a probability for every count instead of one number.
//!
//! The worst p99 of a repeat over the gate's limit, on logarithms, is a curve of the count plus noise:
//!
//! ```text
//! ln(p99 / limit) = curve(tiles; capacity, slope) + noise
//! curve: slope × ln(tiles / capacity)                      a power of the count, as on a host that slows evenly
//!    or: ln((1 − r) / (1 − r × tiles / capacity))           a queue that fills, with r = slope / (1 + slope)
//! noise: Student's t with 4 degrees of freedom, so that one wild repeat bends nothing
//! ```
//! Both curves pass the limit at the capacity with the same slope. Capacity, slope, curve and scatter are unknown; each gets its
//! posterior probability on a grid (uniform priors on logarithms). Repeats far from the limit only say on which side they lie, so the
//! curve needs to be right near the limit alone. From one run to the next the whole curve moves: [`RUN_TO_RUN`].

use statrs::distribution::{ContinuousCDF, Normal};

use crate::figure::{Figure, Interval};

/// Standard deviation of ln p99 between runs of the same thing on the same host: template, memory layout, heat, neighbours. One run
/// cannot know its own, so it is allowed for: an assumption (decision 0055).
pub(crate) const RUN_TO_RUN: f64 = 0.10;

/// Repeats whose p99 lies further from the limit than by this factor only say on which side of it they are.
const NEAR: f64 = 2.5;

/// The largest value of the curve of a queue, beyond which it has no finite one.
const OVERLOADED: f64 = 3.0;

/// Steps of the grid of capacities: a first look, and a closer one where the first found something.
const CAPACITIES: [usize; 2] = [48, 96];

/// Slopes of ln p99 by ln tiles at the limit, from nearly flat to a wall.
const SLOPES: [f64; 11] = [0.7, 1.0, 1.4, 2.0, 2.8, 4.0, 5.6, 8.0, 11.0, 16.0, 22.0];

/// Scatter of a repeat's ln p99.
const SCATTERS: [f64; 9] = [0.03, 0.05, 0.08, 0.12, 0.18, 0.27, 0.4, 0.6, 0.9];

/// What one repeat says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Seen {
    /// Natural logarithm of its worst p99 over the limit.
    Ratio(f64),
    /// It missed the gate in another way: errors, demand that was not served, a failure.
    Over,
    /// It was within the gate; no p99 says how far.
    Within,
    /// Nothing.
    Nothing,
}

impl Seen {
    /// Whether the repeat by itself was within the gate; nothing where it does not say.
    pub(crate) fn is_within(&self) -> Option<bool> {
        match self {
            Self::Ratio(ratio) => Some(*ratio <= 0.0),
            Self::Within => Some(true),
            Self::Over => Some(false),
            Self::Nothing => None,
        }
    }
}

/// One repeat at a count.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Observation {
    pub(crate) tiles: u32,
    pub(crate) seen: Seen,
}

#[derive(Clone, Copy)]
enum Curve {
    Power,
    Queue,
}

impl Curve {
    /// ln(p99 / limit) at a count.
    fn at(self, tiles: f64, ln_capacity: f64, slope: f64) -> f64 {
        self.beyond(Beyond::of(tiles.ln(), ln_capacity), slope)
    }

    fn beyond(self, count: Beyond, slope: f64) -> f64 {
        match self {
            Self::Power => slope * count.ln,
            Self::Queue => {
                let part = slope / (1.0 + slope);
                let free = 1.0 - part * count.factor;
                if free <= 0.0 { OVERLOADED } else { ((1.0 - part) / free).ln().min(OVERLOADED) }
            }
        }
    }
}

/// How far a count lies beyond a capacity.
#[derive(Clone, Copy)]
struct Beyond {
    /// ln(tiles / capacity).
    ln: f64,
    /// tiles / capacity.
    factor: f64,
}

impl Beyond {
    fn of(ln_tiles: f64, ln_capacity: f64) -> Self {
        let ln = ln_tiles - ln_capacity;
        Self { ln, factor: ln.exp() }
    }
}

#[derive(Clone, Copy)]
struct Candidate {
    ln_capacity: f64,
    slope: f64,
    curve: Curve,
    weight: f64,
}

/// What all repeats of a ladder say together.
pub(crate) struct Law {
    candidates: Vec<Candidate>,
    /// Deviation of a repeat's ln p99 about the curve.
    scatter: f64,
    /// Repeats near enough to the limit to say how far from it they are.
    near: usize,
}

impl Law {
    /// The law through these repeats; nothing where no repeat says anything.
    pub(crate) fn through(observations: &[Observation]) -> Option<Self> {
        let grouped = grouped(observations);
        let (first, last) = (grouped.first()?.tiles, grouped.last()?.tiles);
        let (mut low, mut high) = ((first / 4.0).ln(), (last * 4.0).ln());
        let mut law = None;
        for steps in CAPACITIES {
            let found = Self::on_grid(&grouped, low, high, steps);
            (low, high) = found.bulk((high - low) / steps as f64);
            law = Some(found);
        }
        law.map(Self::without_the_impossible)
    }

    /// Candidates that all together have hardly any probability only cost time.
    fn without_the_impossible(mut self) -> Self {
        let most = self.candidates.iter().map(|candidate| candidate.weight).fold(0.0, f64::max);
        self.candidates.retain(|candidate| candidate.weight > 1e-6 * most);
        let sum: f64 = self.candidates.iter().map(|candidate| candidate.weight).sum();
        self.candidates.iter_mut().for_each(|candidate| candidate.weight /= sum);
        self
    }

    fn on_grid(groups: &[Group], low: f64, high: f64, steps: usize) -> Self {
        let mut candidates = Vec::with_capacity(steps * SLOPES.len() * 2);
        let mut logs = Vec::with_capacity(candidates.capacity() * SCATTERS.len());
        let ln_tiles: Vec<f64> = groups.iter().map(|group| group.tiles.ln()).collect();
        let ln_scatters = SCATTERS.map(|scatter| (scatter, scatter.ln()));
        let mut levels = Vec::with_capacity(groups.len());
        for step in 0..steps {
            let ln_capacity = low + (high - low) * (step as f64 + 0.5) / steps as f64;
            let counts: Vec<Beyond> = ln_tiles.iter().map(|ln| Beyond::of(*ln, ln_capacity)).collect();
            for slope in SLOPES {
                for curve in [Curve::Power, Curve::Queue] {
                    candidates.push(Candidate { ln_capacity, slope, curve, weight: 0.0 });
                    levels.clear();
                    levels.extend(counts.iter().map(|count| curve.beyond(*count, slope)));
                    logs.extend(ln_scatters.map(|scatter| log_likelihood(groups, &levels, scatter)));
                }
            }
        }
        let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let mut scatter = 0.0;
        let mut sum = 0.0;
        for (candidate, logs) in candidates.iter_mut().zip(logs.chunks(SCATTERS.len())) {
            for (log, of_scatter) in logs.iter().zip(SCATTERS) {
                let weight = (log - most).exp();
                candidate.weight += weight;
                scatter += weight * of_scatter;
            }
            sum += candidate.weight;
        }
        candidates.iter_mut().for_each(|candidate| candidate.weight /= sum);
        let near = groups.iter().map(|group| group.near.len()).sum();
        Self { candidates, scatter: scatter / sum, near }
    }

    /// Where nearly all probability lies, with a step to spare on each side.
    fn bulk(&self, step: f64) -> (f64, f64) {
        let tail = 1e-4;
        let mut below = 0.0;
        let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
        for candidate in &self.candidates {
            below += candidate.weight;
            if low == f64::NEG_INFINITY && below > tail {
                low = candidate.ln_capacity;
            }
            if high == f64::INFINITY && below >= 1.0 - tail {
                high = candidate.ln_capacity;
            }
        }
        let last = self.candidates.last().map_or(0.0, |candidate| candidate.ln_capacity);
        (low - step, high.min(last) + step)
    }

    /// Probability that the capacity of the host is at least so many tiles, in this run and in the next.
    pub(crate) fn holds(&self, tiles: f64) -> f64 {
        let normal = Normal::standard();
        let of = |candidate: &Candidate| {
            let level = candidate.curve.at(tiles, candidate.ln_capacity, candidate.slope);
            candidate.weight * normal.cdf(-level / RUN_TO_RUN)
        };
        self.candidates.iter().map(of).sum()
    }

    /// Probability that the largest count that holds is at least `from` and below `beyond`.
    pub(crate) fn between(&self, from: Option<u32>, beyond: Option<u32>) -> f64 {
        let from = from.map_or(1.0, |tiles| self.holds(f64::from(tiles)));
        let beyond = beyond.map_or(0.0, |tiles| self.holds(f64::from(tiles)));
        (from - beyond).max(0.0)
    }

    /// The capacity in tiles, with a fraction, and its interval: median and central 95 % of its probability.
    pub(crate) fn capacity(&self) -> Figure {
        let at = |probability: f64| self.quantile(probability);
        let interval = Interval { low: at(0.975), high: at(0.025) };
        Figure { value: at(0.5), interval: Ok(interval), n_repeats: self.near }
    }

    /// The count that holds with this probability.
    pub(crate) fn quantile(&self, probability: f64) -> f64 {
        let logs = self.candidates.iter().map(|candidate| candidate.ln_capacity);
        let (low, high) =
            logs.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), ln| (low.min(ln), high.max(ln)));
        let (mut low, mut high) = (low - 1.0, high + 1.0);
        // 30 halvings of a range of at most e^10 leave less than a millionth of it.
        for _ in 0..30 {
            let middle = low.midpoint(high);
            if self.holds(middle.exp()) >= probability { low = middle } else { high = middle }
        }
        low.exp()
    }

    /// Deviation of a repeat's ln p99 about the curve.
    pub(crate) fn scatter(&self) -> f64 {
        self.scatter
    }

    /// ln(p99 / limit) that the law expects at a count.
    pub(crate) fn level(&self, tiles: f64) -> f64 {
        let of = |candidate: &Candidate| {
            candidate.weight
                * candidate.curve.at(tiles, candidate.ln_capacity, candidate.slope).max(-OVERLOADED)
        };
        self.candidates.iter().map(of).sum()
    }
}

/// All repeats of one count.
struct Group {
    tiles: f64,
    near: Vec<f64>,
    /// How many lie further above the limit, or below, than is near.
    far_above: i32,
    far_below: i32,
    /// How many missed or kept the gate without a p99.
    over: i32,
    within: i32,
}

fn grouped(observations: &[Observation]) -> Vec<Group> {
    let mut groups: Vec<Group> = Vec::new();
    let mut sorted: Vec<&Observation> =
        observations.iter().filter(|observation| observation.seen != Seen::Nothing).collect();
    sorted.sort_by_key(|observation| observation.tiles);
    for observation in sorted {
        let tiles = f64::from(observation.tiles);
        if groups.last().is_none_or(|group| group.tiles != tiles) {
            groups.push(Group { tiles, near: Vec::new(), far_above: 0, far_below: 0, over: 0, within: 0 });
        }
        let group = groups.last_mut().expect("one was pushed");
        match observation.seen {
            Seen::Ratio(ratio) if ratio > NEAR.ln() => group.far_above += 1,
            Seen::Ratio(ratio) if ratio < -NEAR.ln() => group.far_below += 1,
            Seen::Ratio(ratio) => group.near.push(ratio),
            Seen::Over => group.over += 1,
            Seen::Within => group.within += 1,
            Seen::Nothing => {}
        }
    }
    groups
}

/// `scatter` comes with its logarithm.
fn log_likelihood(groups: &[Group], levels: &[f64], (scatter, ln_scatter): (f64, f64)) -> f64 {
    let mut product = 1.0;
    let mut near = 0;
    for (group, level) in groups.iter().zip(levels) {
        near += group.near.len();
        for ratio in &group.near {
            product *= 1.0 + ((ratio - level) / scatter).powi(2) / 4.0;
        }
    }
    // Student's density with 4 degrees of freedom is proportional to (1 + t² / 4)^(−5/2) / scatter.
    let mut log = -2.5 * f64::ln(product) - near as f64 * ln_scatter;
    for (group, level) in groups.iter().zip(levels) {
        // Nearly sure costs nothing: most counts lie far from the gate.
        let beyond = |distance: f64| match distance / scatter {
            far if far > 10.0 => 0.0,
            near => student_below(near).max(1e-12).ln(),
        };
        if group.far_above > 0 {
            log += f64::from(group.far_above) * beyond(level - NEAR.ln());
        }
        if group.far_below > 0 {
            log += f64::from(group.far_below) * beyond(-NEAR.ln() - level);
        }
        if group.over > 0 {
            log += f64::from(group.over) * beyond(*level);
        }
        if group.within > 0 {
            log += f64::from(group.within) * beyond(-level);
        }
    }
    log
}

/// Student's distribution with 4 degrees of freedom, below a value: its closed form.
fn student_below(t: f64) -> f64 {
    let x = t / (1.0 + t * t / 4.0).sqrt();
    0.5 + 0.375 * x * (1.0 - x * x / 12.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;
    use rand_distr::{Distribution, Normal as Noise};
    use statrs::distribution::StudentsT;

    #[test]
    fn the_closed_form_of_students_distribution_agrees_with_the_library() {
        let student = StudentsT::new(0.0, 1.0, 4.0).unwrap();
        for t in [-8.0, -2.776, -1.0, 0.0, 0.3, 2.132, 5.0] {
            assert!((student_below(t) - student.cdf(t)).abs() < 1e-12, "{t}");
        }
    }

    /// p99 of 8 ms / (1 − tiles / most), limit 50 ms, passed midway between `capacity` and the next count.
    fn queue(capacity: u32, tiles: u32) -> f64 {
        let most = (f64::from(capacity) + 0.5) / 0.84;
        (8.0 / (1.0 - f64::from(tiles) / most).max(0.01) / 50.0).ln()
    }

    fn observations(capacity: u32, counts: &[u32], noise: f64, seed: u64) -> Vec<Observation> {
        let mut random = ChaCha8Rng::seed_from_u64(seed);
        let noise = Noise::new(0.0, noise).unwrap();
        counts
            .iter()
            .map(|tiles| {
                let seen = Seen::Ratio(queue(capacity, *tiles) + noise.sample(&mut random));
                Observation { tiles: *tiles, seen }
            })
            .collect()
    }

    const NEAR_17: [u32; 16] = [1, 2, 4, 8, 16, 32, 24, 20, 16, 16, 16, 19, 19, 19, 18, 17];

    #[test]
    fn the_interval_of_the_capacity_covers_the_truth() {
        let covered = (0..200).filter(|seed| {
            let law = Law::through(&observations(17, &NEAR_17, 0.2, *seed)).unwrap();
            law.capacity().interval.unwrap().contains(17.5)
        });
        let covered = covered.count();
        assert!(covered >= 186, "{covered} of 200");
    }

    #[test]
    fn the_interval_is_narrow_where_repeats_agree_and_wide_where_they_scatter() {
        let width = |noise| {
            let interval =
                Law::through(&observations(17, &NEAR_17, noise, 1)).unwrap().capacity().interval.unwrap();
            interval.high - interval.low
        };
        assert!(width(0.05) < 2.0, "{}", width(0.05));
        assert!(width(0.6) > 1.5 * width(0.05), "{} {}", width(0.6), width(0.05));
    }

    #[test]
    fn one_outlier_does_not_change_the_fit() {
        let mut wild = observations(17, &NEAR_17, 0.1, 4);
        let before = Law::through(&wild).unwrap().capacity().value;
        wild.push(Observation { tiles: 16, seen: Seen::Ratio(1.5) });
        let after = Law::through(&wild).unwrap().capacity().value;
        assert!((after / before - 1.0).abs() < 0.03, "{before} {after}");
    }

    #[test]
    fn what_never_broke_has_no_upper_end() {
        let law = Law::through(&observations(1_000, &[1, 2, 4, 8, 8, 8], 0.1, 1)).unwrap();
        assert!(law.holds(8.0) > 0.97, "{}", law.holds(8.0));
        assert!(law.between(Some(8), None) > 0.97);
    }

    #[test]
    fn repeats_without_a_p99_say_on_which_side_they_lie() {
        let of = |tiles, seen| Observation { tiles, seen };
        let law = Law::through(&[
            of(4, Seen::Within),
            of(4, Seen::Within),
            of(5, Seen::Over),
            of(5, Seen::Over),
            of(9, Seen::Nothing),
        ])
        .unwrap();
        assert!(law.holds(3.0) > 0.8 && law.holds(6.0) < 0.2, "{} {}", law.holds(3.0), law.holds(6.0));
    }
}
