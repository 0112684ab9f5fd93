//! The draws of one client: who comes, what they look at, what they buy.

use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use tilemark_store_data::{is_hot, words};

use crate::demand::Demand;
use crate::session::{Cart, Item, NewCustomer, Search, SearchKey};

/// Each customer of the generated data has this password.
pub(crate) const PASSWORD: &str = "password";

/// Names of new customers are drawn from so many, so that even a day of orders hardly meets one twice.
const NEW_NAMES: u64 = 1_000_000_000_000;

/// Draws for one client. Two clients of the same seed draw different things, the same client always the same.
pub(crate) struct Shopper {
    generator: ChaCha8Rng,
    customers: u64,
    products: u64,
    demand: Demand,
}

/// Who comes.
pub(crate) enum Visitor {
    Known { username: String },
    New(Box<NewCustomer>),
}

impl Shopper {
    pub(crate) fn new(demand: &Demand, customers: u64, products: u64, client: u32) -> Self {
        let mut key = *b"0seed000 tilemark store load v1 ";
        key[..8].copy_from_slice(&demand.seed.to_le_bytes());
        let mut generator = ChaCha8Rng::from_seed(key);
        generator.set_stream(u64::from(client));
        Self { generator, customers, products, demand: demand.clone() }
    }

    fn below(&mut self, limit: u64) -> u64 {
        ((u128::from(self.generator.next_u64()) * u128::from(limit)) >> 64) as u64
    }

    /// Uniform from 0 to 1, 1 left out.
    pub(crate) fn fraction(&mut self) -> f64 {
        (self.generator.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// "Mean n" of the classic driver: uniform over 1 to 2n - 1.
    fn about(&mut self, mean: u32) -> u32 {
        1 + self.below(u64::from(2 * mean - 1)) as u32
    }

    pub(crate) fn visitor(&mut self) -> Visitor {
        if self.below(100) < u64::from(self.demand.new_customer_percent) {
            Visitor::New(Box::new(self.new_customer()))
        } else {
            Visitor::Known { username: format!("user{}", 1 + self.below(self.customers)) }
        }
    }

    pub(crate) fn new_name(&mut self) -> String {
        format!("newuser{:012}", self.below(NEW_NAMES))
    }

    fn letters(&mut self, count: usize) -> String {
        (0..count).map(|_| char::from(b'A' + self.below(26) as u8)).collect()
    }

    /// As in the generated data, but for the classic driver's own ranges: any postal code, expiry 2008 to 2012, age 18 to
    /// 99, and regions evenly.
    fn new_customer(&mut self) -> NewCustomer {
        let american = self.below(2) == 0;
        let (first_name, last_name) = (self.letters(6), self.letters(10));
        let phone = format!("{:010}", self.below(10_000_000_000));
        NewCustomer {
            address: format!("{phone} Tile Road"),
            city: self.letters(7),
            // The classic driver knows the first fifty only.
            state: if american { words::STATES[self.below(50) as usize] } else { "" },
            zip: format!("{:05}", self.below(100_000)),
            country: if american { "US" } else { words::COUNTRIES[self.below(10) as usize] },
            region: if american { 1 } else { 2 },
            email: format!("{last_name}@tile.test"),
            card_type: 1 + self.below(5) as i32,
            card: format!("{:08}{:08}", self.below(100_000_000), self.below(100_000_000)),
            card_expiration: format!("{}/{:02}", 2008 + self.below(5), 1 + self.below(12)),
            username: self.new_name(),
            password: PASSWORD,
            age: 18 + self.below(82) as i32,
            income: 20_000 * (1 + self.below(5) as i32),
            gender: if self.below(2) == 0 { "F" } else { "M" },
            first_name,
            last_name,
            phone,
        }
    }

    pub(crate) fn searches(&mut self) -> u32 {
        self.about(self.demand.searches_mean)
    }

    pub(crate) fn search(&mut self) -> Search {
        let limit = self.about(self.demand.search_rows_mean);
        let key = match self.below(3) {
            0 => SearchKey::Category(1 + self.below(words::CATEGORIES.len() as u64) as i32),
            1 => {
                let (first, last) = (self.below(words::ACTOR_NAMES), self.below(words::ACTOR_NAMES));
                SearchKey::Actor(format!(
                    "{} {}",
                    words::first_name(first).concat(),
                    words::last_name(last).concat()
                ))
            }
            _ => {
                let (first, second) = (self.below(words::TITLE_WORDS), self.below(words::TITLE_WORDS));
                SearchKey::Title(format!(
                    "{} {}",
                    words::title_word(first).concat(),
                    words::title_word(second).concat()
                ))
            }
        };
        Search { key, limit }
    }

    pub(crate) fn fill(&mut self, cart: &mut Cart) {
        cart.items.clear();
        for _ in 0..self.about(self.demand.items_mean) {
            let (prod_id, quantity) = (self.product() as i32, 1 + self.below(3) as i32);
            cart.items.push(Item { prod_id, quantity });
        }
    }

    /// Every product is once in the drum, a hot one ten times.
    fn product(&mut self) -> u64 {
        let extra = self.products / HOT_EVERY * 9;
        let drawn = self.below(self.products + extra);
        if drawn < self.products { drawn + 1 } else { ((drawn - self.products) / 9 + 1) * HOT_EVERY }
    }
}

const HOT_EVERY: u64 = 10_000;

/// Pieces that come when a product ran short: the top of the generated stock, 500, or 5,000 for a hot one. With the
/// generated stock spread evenly from 0 to that, shortages come at the same rate for ever: mean quantity 2 over 501 is
/// 0.4 % an item, 2 % an order of five.
pub(crate) fn delivery(prod_id: i32) -> i32 {
    if is_hot(prod_id as u64) { 5_000 } else { 500 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shopper(client: u32) -> Shopper {
        Shopper::new(&Demand::default(), 1_000, 20_000, client)
    }

    #[test]
    fn means_are_as_the_demand_says() {
        let mut shopper = shopper(0);
        let n = 20_000;
        let (mut new, mut searches, mut items, mut hot) = (0, 0, 0, 0);
        let mut cart = Cart::default();
        for _ in 0..n {
            new += u32::from(matches!(shopper.visitor(), Visitor::New(_)));
            searches += shopper.searches();
            shopper.fill(&mut cart);
            items += cart.items.len();
            hot += cart.items.iter().filter(|item| is_hot(item.prod_id as u64)).count();
            assert!(cart.items.iter().all(|item| (1..=20_000).contains(&item.prod_id)));
        }
        let mean = |sum: f64| sum / f64::from(n);
        assert!((0.19..0.21).contains(&mean(f64::from(new))), "{new}");
        assert!((2.96..3.04).contains(&mean(f64::from(searches))), "{searches}");
        assert!((4.93..5.07).contains(&mean(items as f64)), "{items}");
        // Two hot products of 20,000, ten times each: 20 of 20,018.
        let share = hot as f64 / items as f64;
        assert!((0.0007..0.0013).contains(&share), "{share}");
    }

    #[test]
    fn clients_of_one_seed_differ_and_repeat() {
        let first = |client| shopper(client).below(u64::MAX);
        assert_eq!(first(3), first(3));
        assert_ne!(first(3), first(4));
    }
}
