//! What a client does with the store, whatever the database.
//!
//! One value of [`Session`] is one connection. All verbs are one try: deadlocks come back as errors, and the client
//! repeats the whole of what it was doing. The two databases implement it, tests implement it with planted defects.

use crate::error::StoreError;

/// A new customer's data.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NewCustomer {
    /// First name.
    pub first_name: String,
    /// Last name.
    pub last_name: String,
    /// Street with number.
    pub address: String,
    /// Town.
    pub city: String,
    /// State, empty outside of the USA.
    pub state: &'static str,
    /// Postal code.
    pub zip: String,
    /// Country.
    pub country: &'static str,
    /// 1 is the USA, 2 the rest of the world.
    pub region: i32,
    /// Mail address.
    pub email: String,
    /// Phone number.
    pub phone: String,
    /// Kind of credit card, 1 to 5.
    pub card_type: i32,
    /// Number of the card.
    pub card: String,
    /// `YYYY/MM`.
    pub card_expiration: String,
    /// Name to log in with. Nobody else may have it.
    pub username: String,
    /// Password of the invented person. It protects nothing.
    pub password: &'static str,
    /// Years.
    pub age: i32,
    /// Dollars a year.
    pub income: i32,
    /// `F` or `M`.
    pub gender: &'static str,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SearchKey {
    /// Special offers of a category.
    Category(i32),
    /// Products whose actor has all these words.
    Actor(String),
    /// Products whose title has all these words.
    Title(String),
}

/// One look at the catalogue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Search {
    /// What is looked for.
    pub key: SearchKey,
    /// Rows wanted at most.
    pub limit: u32,
}

/// A product and how many of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Item {
    /// Which product.
    pub prod_id: i32,
    /// How many.
    pub quantity: i32,
}

/// What a customer wants to buy. The same product may be in it twice.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cart {
    /// Who buys.
    pub customer_id: i32,
    /// Lines of the order, in order.
    pub items: Vec<Item>,
}

impl Cart {
    /// Quantity of each product, by rising product: the order in which all clients take locks, so that two carts with the
    /// same products wait for each other instead of locking each other out.
    pub fn by_product(&self) -> Vec<Item> {
        let mut items = self.items.clone();
        items.sort_unstable();
        items.dedup_by(|next, kept| {
            let same = next.prod_id == kept.prod_id;
            if same {
                kept.quantity += next.quantity;
            }
            same
        });
        items
    }
}

/// What the database confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Its number.
    pub order_id: i64,
    /// Sum of price times quantity, in hundredths.
    pub net_cents: i64,
    /// 8.25 % of it, rounded half up.
    pub tax_cents: i64,
}

impl Receipt {
    /// What is to be paid.
    pub fn total_cents(&self) -> i64 {
        self.net_cents.saturating_add(self.tax_cents)
    }
}

/// How a purchase ended when nothing went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purchase {
    /// The order is committed.
    Committed(Receipt),
    /// Too little in stock: everything was rolled back.
    Short(Item),
}

/// A connection to a store.
pub trait Session: Send {
    /// Finds the customer and the titles of up to ten earlier purchases, with a recommendation for each. `None` if name
    /// or password is unknown.
    fn login(&mut self, username: &str, password: &str) -> Result<Option<i64>, StoreError>;
    /// Adds a customer and says its id; `None` if somebody has that name already.
    fn new_customer(&mut self, customer: &NewCustomer) -> Result<Option<i64>, StoreError>;
    /// Reads products and says how many were found.
    fn browse(&mut self, search: &Search) -> Result<u64, StoreError>;
    /// Buys the cart in one transaction: all of it, or nothing at all.
    fn purchase(&mut self, cart: &Cart) -> Result<Purchase, StoreError>;
    /// Orders `delivery` pieces of a product if fewer than `short.quantity` are there. `false` if another client did so
    /// meanwhile.
    fn restock(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError>;
}

/// Tax of 8.25 %, rounded half up. A server may name any price: sums end at the ends of their numbers.
pub(crate) fn tax_cents(net_cents: i64) -> i64 {
    ((i128::from(net_cents) * 825 + 5_000) / 10_000) as i64
}

/// What a locked look at price and stock says about a cart.
pub(crate) enum Stock {
    /// Everything is there, for this sum.
    Enough { net_cents: i64 },
    /// This is not.
    Short(Item),
    /// A product of the cart does not exist.
    Unknown,
}

/// One row of that look.
pub(crate) struct Shelf {
    pub(crate) prod_id: i32,
    pub(crate) price_cents: i64,
    pub(crate) in_stock: i32,
}

/// Decides over a cart. Both lists rise by product.
pub(crate) fn check_stock(wanted: &[Item], shelves: &[Shelf]) -> Stock {
    if wanted.len() != shelves.len() {
        return Stock::Unknown;
    }
    let mut net_cents: i64 = 0;
    for (item, shelf) in wanted.iter().zip(shelves) {
        if item.prod_id != shelf.prod_id {
            return Stock::Unknown;
        }
        if shelf.in_stock < item.quantity {
            return Stock::Short(*item);
        }
        net_cents = net_cents.saturating_add(shelf.price_cents.saturating_mul(item.quantity.into()));
    }
    Stock::Enough { net_cents }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cart_is_taken_together_by_rising_product() {
        let item = |prod_id, quantity| Item { prod_id, quantity };
        let cart = Cart { customer_id: 1, items: vec![item(9, 1), item(2, 3), item(9, 2)] };
        assert_eq!(cart.by_product(), [item(2, 3), item(9, 3)]);
    }

    #[test]
    fn stock_is_short_only_when_it_would_fall_below_zero() {
        let wanted = [Item { prod_id: 1, quantity: 3 }];
        let shelf = |in_stock| [Shelf { prod_id: 1, price_cents: 999, in_stock }];
        assert!(matches!(check_stock(&wanted, &shelf(3)), Stock::Enough { net_cents: 2_997 }));
        assert!(matches!(check_stock(&wanted, &shelf(2)), Stock::Short(item) if item == wanted[0]));
        assert!(matches!(check_stock(&wanted, &[]), Stock::Unknown));
    }

    #[test]
    fn prices_at_the_ends_of_their_numbers_end_at_the_ends_of_the_sums() {
        for price_cents in [i64::MIN, i64::MAX] {
            let wanted = [Item { prod_id: 1, quantity: 2 }, Item { prod_id: 2, quantity: 2 }];
            let shelves = [1, 2].map(|prod_id| Shelf { prod_id, price_cents, in_stock: 9 });
            let Stock::Enough { net_cents } = check_stock(&wanted, &shelves) else { panic!("it is there") };
            assert_eq!(net_cents, price_cents);
            let tax_cents = tax_cents(net_cents);
            assert_eq!(tax_cents.signum(), price_cents.signum());
            assert_eq!(Receipt { order_id: 1, net_cents, tax_cents }.total_cents(), price_cents);
        }
    }

    #[test]
    fn tax_is_rounded_half_up() {
        assert_eq!((tax_cents(1), tax_cents(6), tax_cents(7), tax_cents(10_000)), (0, 0, 1, 825));
    }
}
