//! How evenly guests were served. Jain's index alone hides a starved guest: at 100 guests, ten that got nothing
//! still score 0.90. So the least and the most served stand beside it.

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

#[cfg(test)]
mod tests {
    use super::*;

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
