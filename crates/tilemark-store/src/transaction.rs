//! What ends a purchase or a restock, the same for every database: committed, or rolled back whole.

use crate::error::StoreError;
use crate::session::{Cart, Item, Purchase, Receipt};

/// How a purchase ended inside its transaction; only the first has been committed.
pub(crate) enum Bought {
    Committed(Receipt),
    Short(Item),
    UnknownProduct,
}

/// A connection that buys and restocks in transactions of its own, by the library of its database.
pub(crate) trait Transactions {
    /// What the library calls an error.
    type Error;

    /// That error, in a statement that is named.
    fn named(what: &str, error: Self::Error) -> StoreError;
    fn roll_back(&mut self) -> Result<(), StoreError>;
    /// Begins a purchase, and commits it where all is in stock.
    fn buy(&mut self, cart: &Cart) -> Result<Bought, Self::Error>;
    /// Begins and commits a restock; false where enough was there.
    fn refill(&mut self, short: Item, delivery: i32) -> Result<bool, Self::Error>;

    fn purchase_whole(&mut self, cart: &Cart) -> Result<Purchase, StoreError> {
        match self.buy(cart) {
            Ok(Bought::Committed(receipt)) => Ok(Purchase::Committed(receipt)),
            Ok(Bought::Short(item)) => self.roll_back().map(|()| Purchase::Short(item)),
            Ok(Bought::UnknownProduct) => {
                self.roll_back()?;
                Err(StoreError::WrongSchema { problems: vec!["products and inventory have gaps".to_owned()] })
            }
            Err(error) => Err(self.undone(Self::named("a purchase", error))?),
        }
    }

    fn restock_whole(&mut self, short: Item, delivery: i32) -> Result<bool, StoreError> {
        match self.refill(short, delivery) {
            Ok(is_restocked) => Ok(is_restocked),
            Err(error) => Err(self.undone(Self::named("a restock", error))?),
        }
    }

    /// The error, once its transaction is rolled back; a connection that it ended has none any more.
    fn undone(&mut self, error: StoreError) -> Result<StoreError, StoreError> {
        if !error.ends_connection() {
            self.roll_back()?;
        }
        Ok(error)
    }
}
