//! How evenly guests were served. Jain's index alone hides a starved guest: at 100 guests, ten that got nothing
//! still score 0.90. So the least and the most served are listed too.

use tilemark_plan::scenario::LoopKind;
use tilemark_record::result;

use crate::figure::Missing;

/// What one guest got.
#[derive(Clone, Debug, PartialEq)]
pub struct Served {
    /// The guest.
    pub guest: String,
    /// Its share, in any unit that is the same for all: requests per second, achieved fraction of demand.
    pub amount: f64,
}

/// How evenly guests were served.
#[derive(Clone, Debug, PartialEq)]
pub struct Fairness {
    /// Jain's index: 1 when all got the same, 1/n when one got everything.
    pub jain: f64,
    /// The guest that got least.
    pub least_served: Served,
    /// The guest that got most.
    pub most_served: Served,
}

/// Jain's index (Jain, Chiu and Hawe 1984): (sum x)^2 / (n * sum x^2).
pub fn fairness(served: &[Served]) -> Result<Fairness, Missing> {
    let least = served.iter().min_by(|left, right| left.amount.total_cmp(&right.amount));
    let most = served.iter().max_by(|left, right| left.amount.total_cmp(&right.amount));
    let (Some(least), Some(most)) = (least, most) else {
        return Err(Missing::because("no guest was served by this load"));
    };
    let sum: f64 = served.iter().map(|served| served.amount).sum();
    let squares: f64 = served.iter().map(|served| served.amount.powi(2)).sum();
    // Written so that a NaN is refused too.
    if !(squares > 0.0 && squares.is_finite()) {
        return Err(Missing::because("no guest got anything, so there is nothing to share"));
    }
    let jain = sum * sum / (served.len() as f64 * squares);
    Ok(Fairness { jain, least_served: least.clone(), most_served: most.clone() })
}

/// What one guest was asked and what it answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Demanded {
    /// The guest.
    pub guest: String,
    /// Requests whose intended start came.
    pub offered: u64,
    /// Requests answered correctly.
    pub completed: u64,
    /// The repeats that the counts are of.
    pub repeats: u32,
    /// Those of them in which its load ended with its guest and reported nothing: it got nothing of what was to be asked.
    pub lost: u32,
}

impl Demanded {
    /// The part of its demand that it got. What was to be asked in a repeat that was lost is not known: each repeat weighs as much.
    fn share(&self) -> f64 {
        let part = self.completed as f64 / self.offered.max(1) as f64;
        part * f64::from(self.repeats.saturating_sub(self.lost)) / f64::from(self.repeats.max(1))
    }
}

/// How evenly guests were served: by the part of its own demand that each got in an open loop, where random arrivals ask
/// more of one than of another, and by its answers in a closed one. Parts are of the guests' mean.
pub fn fairness_by_demand(guests: &[Demanded], loop_kind: LoopKind) -> Result<result::Fairness, Missing> {
    let amount = |guest: &Demanded| match loop_kind {
        LoopKind::Open => guest.share(),
        LoopKind::Closed => guest.completed as f64,
    };
    // A guest that nothing was asked of is not starved. One that died is.
    let is_asked = |guest: &&Demanded| loop_kind == LoopKind::Closed || guest.offered > 0 || guest.lost > 0;
    let asked = guests.iter().filter(is_asked);
    let served: Vec<Served> =
        asked.map(|guest| Served { guest: guest.guest.clone(), amount: amount(guest) }).collect();
    if served.len() == 1 {
        return Err(Missing::because("fairness needs at least two guests"));
    }
    let found = fairness(&served)?;
    let mean = served.iter().map(|guest| guest.amount).sum::<f64>() / served.len() as f64;
    let of_mean = |guest: Served| result::Served { of_mean: guest.amount / mean, guest: guest.guest };
    Ok(result::Fairness {
        jain: found.jain,
        least_served: of_mean(found.least_served),
        most_served: of_mean(found.most_served),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_an_open_loop_a_guest_is_held_against_what_was_asked_of_it() {
        let guest = demanded;
        let all_served = [guest("a", 4_100, 4_100), guest("b", 3_900, 3_900), guest("c", 0, 0)];
        let found = fairness_by_demand(&all_served, LoopKind::Open).unwrap();
        assert_eq!((found.jain, found.least_served.of_mean), (1.0, 1.0));
        let starved = [guest("a", 3_900, 3_900), guest("b", 7_800, 3_900)];
        let found = fairness_by_demand(&starved, LoopKind::Open).unwrap();
        assert_eq!((found.least_served.guest.as_str(), found.jain), ("b", 0.9));
        assert_eq!(fairness_by_demand(&starved, LoopKind::Closed).unwrap().jain, 1.0);
        assert!(fairness_by_demand(&starved[..1], LoopKind::Open).is_err());
    }

    /// A guest whose load reported in its one repeat.
    fn demanded(name: &str, offered: u64, completed: u64) -> Demanded {
        Demanded { guest: name.to_owned(), offered, completed, repeats: 1, lost: 0 }
    }

    #[test]
    fn a_guest_whose_load_died_with_it_was_served_nothing_in_that_repeat() {
        let served = |name: &str| demanded(name, 4_000, 4_000);
        let died = Demanded { lost: 1, ..demanded("d", 0, 0) };
        let guests = [served("a"), served("b"), served("c"), died];
        let found = fairness_by_demand(&guests, LoopKind::Open).unwrap();
        assert_eq!((found.jain, found.least_served.guest.as_str()), (0.75, "d"));
        assert_eq!(found.least_served.of_mean, 0.0);
        // In one of four repeats.
        let once = [served("a"), Demanded { repeats: 4, lost: 1, ..served("b") }];
        let found = fairness_by_demand(&once, LoopKind::Open).unwrap();
        assert!((found.least_served.of_mean - 0.75 / 0.875).abs() < 1e-12, "{found:?}");
    }

    fn guests(amounts: &[f64]) -> Vec<Served> {
        let served = amounts.iter().enumerate();
        served.map(|(index, &amount)| Served { guest: format!("web-{index}"), amount }).collect()
    }

    #[test]
    fn equal_guests_score_one_and_a_single_winner_one_over_n() {
        assert!((fairness(&guests(&[5.0; 7])).unwrap().jain - 1.0).abs() < 1e-12);
        assert!((fairness(&guests(&[0.0, 0.0, 9.0, 0.0])).unwrap().jain - 0.25).abs() < 1e-12);
    }

    #[test]
    fn ten_starved_of_a_hundred_still_score_nine_tenths_so_the_least_served_is_named() {
        let mut amounts = vec![1.0; 90];
        amounts.extend([0.0; 10]);
        let found = fairness(&guests(&amounts)).unwrap();
        assert!((found.jain - 0.9).abs() < 1e-12);
        assert_eq!(found.least_served, Served { guest: "web-90".into(), amount: 0.0 });
    }

    #[test]
    fn one_starved_of_twenty_is_named() {
        let mut amounts = vec![200.0; 20];
        amounts[13] = 20.0;
        amounts[4] = 210.0;
        let found = fairness(&guests(&amounts)).unwrap();
        assert_eq!(
            (found.least_served.guest.as_str(), found.most_served.guest.as_str()),
            ("web-13", "web-4")
        );
    }

    #[test]
    fn nothing_served_is_no_fairness_of_zero() {
        assert!(fairness(&[]).is_err());
        assert!(fairness(&guests(&[0.0, 0.0])).is_err());
    }
}
