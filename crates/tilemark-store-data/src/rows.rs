//! The rows themselves: what is drawn for each, and how it is written.
//!
//! All draws are uniform, as in the kit of the published figures. The order of the draws is part of the format.

use std::ops::Range;

use crate::plan::{FIRST_ORDER_YEAR, Store, is_hot};
use crate::random::{Purpose, Stream};
use crate::sales::Sales;
use crate::table::Table;
use crate::text::{Row, letters};
use crate::words;

pub(crate) const ADDRESS_TAIL: &[u8] = b" Tile Road";
pub(crate) const MAIL_TAIL: &[u8] = b"@tile.test";
pub(crate) const USER: &[u8] = b"user";
pub(crate) const PASSWORD: &str = "password";
pub(crate) const NET_CENTS_MAX: u64 = 40_000;

const MONTH_DAYS: [u64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/// Tax of 8.25 %, rounded half up.
pub(crate) fn tax_cents(net: u64) -> u64 {
    (net * 825 + 5_000) / 10_000
}

/// Rows in a block: large enough to keep a worker busy for a while, small enough that a few of them fit in 100 MB.
pub(crate) fn block_rows(table: Table) -> u64 {
    match table {
        Table::Categories => 16,
        Table::Products | Table::Inventory => 8_192,
        Table::Customers => 2_048,
        // For lines and history this counts orders: all three tables must cut the draws at the same places.
        Table::Orders | Table::Orderlines | Table::CustHist => 4_096,
    }
}

/// How many blocks a table has.
pub(crate) fn blocks(store: &Store, table: Table) -> u64 {
    keys(store, table).div_ceil(block_rows(table))
}

/// Ids that the blocks of a table are cut from.
fn keys(store: &Store, table: Table) -> u64 {
    match table {
        Table::Orderlines | Table::CustHist => store.orders,
        _ => store.expected_rows(table),
    }
}

/// Writes one block and says how many rows it has.
pub(crate) fn write_block(store: &Store, table: Table, block: u64, sales: &Sales, out: &mut Vec<u8>) -> u64 {
    let ids = ids_of(store, table, block);
    let rows = ids.end - ids.start;
    match table {
        Table::Categories => categories(out),
        Table::Products => products(store, block, ids, out),
        Table::Customers => customers(store, block, ids, out),
        Table::Inventory => inventory(store, block, ids, sales, out),
        Table::Orders => for_each_order(store, block, ids, |order, _| write_order(order, out)),
        Table::Orderlines => {
            let mut lines = 0;
            for_each_order(store, block, ids, |order, items| {
                lines += items.len() as u64;
                for (line, item) in (1..).zip(items) {
                    sales.add(item.product, item.quantity);
                    Row(out).number(line).number(order.id).number(item.product).number(item.quantity);
                    write_date(order, out);
                    Row(out).end();
                }
            });
            return lines;
        }
        Table::CustHist => {
            let mut lines = 0;
            for_each_order(store, block, ids, |order, items| {
                lines += items.len() as u64;
                for item in items {
                    Row(out).number(order.customer).number(order.id).number(item.product).end();
                }
            });
            return lines;
        }
    }
    rows
}

/// Counts what the order lines of a block sell without writing them.
pub(crate) fn count_sales(store: &Store, block: u64, sales: &Sales) {
    for_each_order(store, block, ids_of(store, Table::Orderlines, block), |_, items| {
        for item in items {
            sales.add(item.product, item.quantity);
        }
    });
}

fn ids_of(store: &Store, table: Table, block: u64) -> Range<u64> {
    let rows = block_rows(table);
    (block * rows + 1)..((block + 1) * rows).min(keys(store, table)) + 1
}

fn categories(out: &mut Vec<u8>) {
    for (id, name) in (1..).zip(words::CATEGORIES) {
        Row(out).number(id).text(name).end();
    }
}

fn customers(store: &Store, block: u64, ids: Range<u64>, out: &mut Vec<u8>) {
    let mut stream = Stream::new(store.seed, Purpose::Customers, block);
    let americans = store.customers.div_ceil(2);
    for id in ids {
        let last: [u8; 10] = letters(&mut stream.draw());
        let mut person = stream.draw();
        let first: [u8; 6] = letters(&mut person);
        let age = 18 + person.below(73);
        let income = 20_000 * (1 + person.below(5));
        let gender = person.below(2);
        let place = person.below(51 * 10);
        let mut town = stream.draw();
        let city: [u8; 7] = letters(&mut town);
        let zip = 10_000 + town.below(90_000);
        let mut contact = stream.draw();
        let phone = contact.below(10_000_000_000);
        let (card_type, expiry) = (1 + contact.below(5), contact.below(60));
        let card = stream.below(10_000_000_000_000_000);

        let mut row = Row(out);
        row.number(id).part(&first).comma().part(&last).comma();
        row.part_digits(phone, 10).part(ADDRESS_TAIL).comma().comma().part(&city).comma();
        if id <= americans {
            row.text(words::STATES[place as usize % 51]).number(zip).text("US").number(1);
        } else {
            row.comma().digits(0, 5).text(words::COUNTRIES[place as usize % 10]).number(2);
        }
        row.part(&last).part(MAIL_TAIL).comma().digits(phone, 10).number(card_type).digits(card, 16);
        // Cards expire one to five years after 2007, the base year of the 2009 kit.
        row.part_digits(2008 + expiry / 12, 4).part(b"/").digits(1 + expiry % 12, 2);
        row.part(USER).number(id).text(PASSWORD).number(age).number(income);
        row.text(if gender == 0 { "F" } else { "M" }).end();
    }
}

/// One order, without its lines. The net amount is drawn by itself, as in DVD Store 2, not summed over the lines.
struct Order {
    id: u64,
    customer: u64,
    month: u64,
    day: u64,
    net_cents: u64,
}

#[derive(Clone, Copy, Default)]
struct Item {
    product: u64,
    quantity: u64,
}

/// Draws the orders of a block with their lines. Orders, lines and history all come from here, so they agree.
fn for_each_order(store: &Store, block: u64, ids: Range<u64>, mut each: impl FnMut(&Order, &[Item])) {
    let mut stream = Stream::new(store.seed, Purpose::Orders, block);
    let mut items = [Item::default(); 9];
    for id in ids {
        let mut buyer = stream.draw();
        let customer = 1 + buyer.below(store.customers);
        let lines = 1 + buyer.below(9) as usize;
        let mut bill = stream.draw();
        let month = u64::try_from(u128::from(id - 1) * 12 / u128::from(store.orders)).expect("below 12");
        let day = 1 + bill.below(MONTH_DAYS[month as usize]);
        let net_cents = 1 + bill.below(NET_CENTS_MAX);
        for item in &mut items[..lines] {
            let mut choice = stream.draw();
            item.product = 1 + choice.below(store.products);
            item.quantity = 1 + choice.below(3);
        }
        each(&Order { id, customer, month: month + 1, day, net_cents }, &items[..lines]);
    }
}

fn write_order(order: &Order, out: &mut Vec<u8>) {
    Row(out).number(order.id);
    write_date(order, out);
    let tax = tax_cents(order.net_cents);
    Row(out).number(order.customer).money(order.net_cents).money(tax).money(order.net_cents + tax).end();
}

fn write_date(order: &Order, out: &mut Vec<u8>) {
    let mut row = Row(out);
    row.part_digits(FIRST_ORDER_YEAR, 4)
        .part(b"-")
        .part_digits(order.month, 2)
        .part(b"-")
        .digits(order.day, 2);
}

fn products(store: &Store, block: u64, ids: Range<u64>, out: &mut Vec<u8>) {
    let mut stream = Stream::new(store.seed, Purpose::Products, block);
    for id in ids {
        let mut draw = stream.draw();
        let category = 1 + draw.below(16);
        let (first, last) = (draw.below(words::ACTOR_NAMES), draw.below(words::ACTOR_NAMES));
        let price_cents = 999 + 100 * draw.below(21);
        let special = u64::from(draw.below(store.special_one_in()) == 0);
        let common = 1 + stream.below(store.products);
        let index = id - 1;

        let mut row = Row(out);
        row.number(id).number(category);
        push_words(&mut row, &words::title_word(index / 1_000 % 1_000), &words::title_word(index % 1_000));
        push_words(&mut row, &words::first_name(first), &words::last_name(last));
        row.money(price_cents).number(special).number(common).end();
    }
}

fn push_words(row: &mut Row<'_>, first: &[&str], second: &[&str]) {
    for syllable in first {
        row.part(syllable.as_bytes());
    }
    row.part(b" ");
    for syllable in second {
        row.part(syllable.as_bytes());
    }
    row.comma();
}

fn inventory(store: &Store, block: u64, ids: Range<u64>, sales: &Sales, out: &mut Vec<u8>) {
    let mut stream = Stream::new(store.seed, Purpose::Inventory, block);
    for id in ids {
        let stock = stream.below(501) * if is_hot(id) { 10 } else { 1 };
        Row(out).number(id).number(stock).number(sales.of(id)).end();
    }
}
