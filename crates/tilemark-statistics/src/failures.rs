//! What decides before speed does: errors, demand that was not served, guests that ended. A side that fails quickly is fast.

use crate::compare::SideVerdict;
use crate::figure::Missing;
use crate::moments::mean;
use crate::permutation::{Block, permutation_test};

/// One kind of failure on both sides.
#[derive(Clone, Debug, PartialEq)]
pub struct Failures {
    /// As the report has it: `errors of web at 1 tile`.
    pub name: String,
    /// The share of each repeat that failed, 0 to 1, block by block.
    pub blocks: Vec<Block>,
    /// A difference up to this is none (0.001 is 0.1 %).
    pub tolerance: f64,
    /// Whether it never happens on a sound side: one case on one side and none on the other is then a difference.
    pub is_never: bool,
}

/// One kind of failure compared.
#[derive(Clone, Debug, PartialEq)]
pub struct FailureChange {
    /// As the report has it.
    pub name: String,
    /// Mean share over the repeats of A, 0 to 1.
    pub a: f64,
    /// Mean share over the repeats of B, 0 to 1.
    pub b: f64,
    /// Repeats of each side.
    pub n_repeats: usize,
    /// Of the permutation test on the shares.
    pub p: Result<f64, Missing>,
    /// What B is by it.
    pub verdict: SideVerdict,
    /// Whether chance is excluded at the significance of the comparison.
    pub is_certain: bool,
}

/// Compares a kind of failure; `None` where neither side has any.
///
/// B is worse where its share is above that of A by more than the tolerance and p is below `significance`. A failure that never
/// happens on a sound side is also a difference where only one side has it. A larger share that can be chance is "cannot tell".
pub fn compare_failures(failures: &Failures, significance: f64, seed: u64) -> Option<FailureChange> {
    let of = |side: fn(&Block) -> &Vec<f64>| -> Vec<f64> {
        failures.blocks.iter().flat_map(|block| side(block).iter().copied()).collect()
    };
    let (of_a, of_b) = (of(|block| &block.a), of(|block| &block.b));
    let (a, b) = (mean(&of_a)?, mean(&of_b)?);
    if a == 0.0 && b == 0.0 {
        return None;
    }
    let p = permutation_test(&failures.blocks, seed).map(|test| test.p);
    let is_certain = p.as_ref().is_ok_and(|p| *p < significance);
    let only_one = failures.is_never && (a == 0.0) != (b == 0.0);
    let verdict = if (b - a).abs() <= failures.tolerance {
        SideVerdict::NoDifference
    } else if !is_certain && !only_one {
        SideVerdict::CannotTell
    } else if b > a {
        SideVerdict::Worse
    } else {
        SideVerdict::Better
    };
    let n_repeats = of_a.len().min(of_b.len());
    Some(FailureChange { name: failures.name.clone(), a, b, n_repeats, p, verdict, is_certain })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(of_b: &[f64], tolerance: f64, is_never: bool) -> Option<SideVerdict> {
        let blocks = of_b.iter().map(|&b| Block { a: vec![0.0], b: vec![b] }).collect();
        let failures = Failures { name: "errors".into(), blocks, tolerance, is_never };
        compare_failures(&failures, 0.01, 0).map(|change| change.verdict)
    }

    #[test]
    fn a_side_that_fails_in_every_pair_is_worse_and_one_that_fails_in_few_may_be_chance() {
        assert_eq!(found(&[0.3; 12], 0.001, false), Some(SideVerdict::Worse));
        let mut few = [0.0; 12];
        few[3] = 0.3;
        assert_eq!(found(&few, 0.001, false), Some(SideVerdict::CannotTell));
        assert_eq!(found(&few, 0.001, true), Some(SideVerdict::Worse), "what never happens on a sound side");
        assert_eq!(found(&[0.0005; 12], 0.001, false), Some(SideVerdict::NoDifference));
        assert_eq!(found(&[0.0; 12], 0.001, true), None);
    }

    #[test]
    fn the_side_that_fails_less_is_better() {
        let blocks = vec![Block { a: vec![0.2], b: vec![0.0] }; 12];
        let failures = Failures { name: "errors".into(), blocks, tolerance: 0.001, is_never: false };
        let change = compare_failures(&failures, 0.01, 0).unwrap();
        assert_eq!((change.verdict, change.is_certain), (SideVerdict::Better, true));
        assert_eq!((change.a, change.b, change.n_repeats), (0.2, 0.0, 12));
    }
}
