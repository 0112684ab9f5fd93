//! What the data promises: the same bytes for any number of threads, the asked size, the stated distributions, and
//! keys that point to something.

#![allow(clippy::unwrap_used)] // Helpers of tests are outside of test functions.

use std::collections::HashMap;
use std::io::{self, Write};

use proptest::prelude::*;
use statrs::distribution::{ChiSquared, ContinuousCDF};
use tilemark_store_data::{
    DataSize, Generator, MANIFEST, Rule, Store, StoreDataError, Table, TableSum, is_hot, write_files,
};

/// A store far below the least size, for tests that look at every row.
fn tiny(seed: u64, customers: u64, orders: u64, products: u64) -> Store {
    Store { rule: Rule::Smooth, seed, customers, orders, products }
}

fn csv(store: Store, threads: usize, table: Table) -> String {
    let mut out = Vec::new();
    let sum = Generator::new(store, threads).unwrap().write_table(table, &mut out, &mut |_| {}).unwrap();
    assert_eq!(sum.crc32, crc32fast::hash(&out), "the checksum is that of the bytes");
    assert_eq!((sum.bytes, sum.rows), (out.len() as u64, out.iter().filter(|&&b| b == b'\n').count() as u64));
    String::from_utf8(out).unwrap()
}

fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().map(|line| line.split(',').collect()).collect()
}

fn number(field: &str) -> u64 {
    field.parse().unwrap_or_else(|_| panic!("`{field}` is not a number"))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_bytes_do_not_depend_on_the_threads(
        seed in any::<u64>(), customers in 1_u64..9_000, orders in 1_u64..12_000, products in 1_u64..20_000,
    ) {
        let sums = |threads| {
            Generator::new(tiny(seed, customers, orders, products), threads)
                .unwrap()
                .write_all(|_| Ok(io::sink()), |_| {})
                .unwrap()
        };
        let alone = sums(1);
        prop_assert_eq!(&alone, &sums(2));
        prop_assert_eq!(&alone, &sums(7));
    }
}

#[test]
fn tables_may_be_asked_for_in_any_order() {
    let store = tiny(3, 500, 9_000, 700);
    let all = Generator::new(store, 2).unwrap().write_all(|_| Ok(io::sink()), |_| {}).unwrap();
    let alone = Generator::new(store, 3)
        .unwrap()
        .write_table(Table::Inventory, &mut io::sink(), &mut |_| {})
        .unwrap();
    assert_eq!(all.last().unwrap(), &(Table::Inventory, alone));
}

#[test]
fn another_seed_gives_other_data() {
    assert_ne!(csv(tiny(1, 50, 50, 50), 1, Table::Orders), csv(tiny(2, 50, 50, 50), 1, Table::Orders));
}

/// A change here changes every stored data set: it needs a new format number, not a new expectation.
#[test]
fn the_format_stays_as_it_is() {
    let sums =
        Generator::new(tiny(7, 1_000, 600, 500), 2).unwrap().write_all(|_| Ok(io::sink()), |_| {}).unwrap();
    let found: Vec<(Table, TableSum)> = sums;
    let crcs: Vec<u32> = found.iter().map(|(_, sum)| sum.crc32).collect();
    assert_eq!(crcs, GOLDEN, "{}", csv(tiny(7, 3, 2, 2), 1, Table::Customers));
}

const GOLDEN: [u32; 7] = [3638068025, 2880129188, 268348813, 2102556229, 1743877388, 1681891162, 3898482448];

fn assert_size(bytes: u64, wanted: u64, what: &str) {
    let error = bytes as f64 / wanted as f64 - 1.0;
    assert!(error.abs() < 0.01, "{what}: {bytes} bytes, {:.2} % off", error * 100.0);
}

#[test]
fn ten_megabytes_have_the_asked_size_table_by_table() {
    let store = Store::of_size(DataSize::MIN, 7);
    let mut total = 0;
    for (table, sum) in Generator::new(store, 2).unwrap().write_all(|_| Ok(io::sink()), |_| {}).unwrap() {
        assert_size(sum.bytes, store.expected_table_bytes(table), table.name());
        total += sum.bytes;
    }
    assert_size(total, 10_000_000, "all");
}

#[test]
fn a_hundred_megabytes_have_the_asked_size() {
    let store = Store::of_size(DataSize::from_bytes(100_000_000).unwrap(), 7);
    let sums = Generator::new(store, 2).unwrap().write_all(|_| Ok(io::sink()), |_| {}).unwrap();
    assert_size(sums.iter().map(|(_, sum)| sum.bytes).sum(), 100_000_000, "all");
}

#[test]
#[ignore = "makes 13 GB, minutes in a test build; `cargo xtask soak large-data` runs it"]
fn large_sizes_have_the_asked_size() {
    for bytes in [999_000_000, 1_000_000_000, 1_001_000_000, 10_000_000_000] {
        let store = Store::of_size(DataSize::from_bytes(bytes).unwrap(), 7);
        let sums = Generator::new(store, 2).unwrap().write_all(|_| Ok(io::sink()), |_| {}).unwrap();
        let made: u64 = sums.iter().map(|(_, sum)| sum.bytes).sum();
        assert_size(made, bytes, &bytes.to_string());
        println!("{{\"asked_bytes\":{bytes},\"made_bytes\":{made}}}");
    }
}

#[test]
fn keys_point_to_rows_that_exist_and_sales_are_what_the_lines_sold() {
    let store = tiny(11, 800, 5_000, 12_000);
    let texts: HashMap<Table, String> =
        Table::ALL.into_iter().map(|table| (table, csv(store, 2, table))).collect();
    for table in Table::ALL {
        let width = table.columns().len();
        assert!(
            rows(&texts[&table]).iter().all(|row| row.len() == width),
            "{table} has rows of other widths"
        );
    }
    let orders = rows(&texts[&Table::Orders]);
    assert_eq!(orders.len(), 5_000);
    let mut sold = vec![0; 12_001];
    let (lines, history) = (rows(&texts[&Table::Orderlines]), rows(&texts[&Table::CustHist]));
    assert_eq!(lines.len(), history.len());
    let (mut order_before, mut line_before) = (0, 0);
    for (line, past) in lines.iter().zip(&history) {
        let order = number(line[1]);
        let line_number = number(line[0]);
        assert_eq!(line_number, if order == order_before { line_before + 1 } else { 1 });
        (order_before, line_before) = (order, line_number);
        let bought = &orders[order as usize - 1];
        assert_eq!((past[0], past[1], past[2]), (bought[2], bought[0], line[2]), "history follows the line");
        assert_eq!(line[4], bought[1], "a line has the date of its order");
        assert!((1..=800).contains(&number(past[0])) && (1..=12_000).contains(&number(line[2])));
        sold[number(line[2]) as usize] += number(line[3]);
    }
    for row in rows(&texts[&Table::Inventory]) {
        let id = number(row[0]);
        assert_eq!(number(row[2]), sold[id as usize], "sales of product {id}");
        let stock = number(row[1]);
        assert!(if is_hot(id) { stock <= 5_000 && stock.is_multiple_of(10) } else { stock <= 500 });
    }
    for row in rows(&texts[&Table::Products]) {
        assert!((1..=16).contains(&number(row[1])) && (1..=12_000).contains(&number(row[6])));
    }
    for row in &orders {
        let cents: Vec<u64> = row[3..].iter().map(|amount| number(&amount.replace('.', ""))).collect();
        assert_eq!(cents[0] + cents[1], cents[2], "net and tax make the total");
        assert_eq!(cents[1], (cents[0] * 825 + 5_000) / 10_000, "tax is 8.25 %");
    }
}

/// Fails if values that should be equally frequent are not (p < 0.0001 with this fixed seed).
fn assert_even<T: std::hash::Hash + Eq>(what: &str, values: impl Iterator<Item = T>, kinds: usize) {
    let mut counts: HashMap<T, u64> = HashMap::new();
    let mut n = 0;
    for value in values {
        *counts.entry(value).or_default() += 1;
        n += 1;
    }
    assert_eq!(counts.len(), kinds, "{what}: number of different values");
    let expected = f64::from(n) / kinds as f64;
    let chi2: f64 = counts.values().map(|&count| (count as f64 - expected).powi(2) / expected).sum();
    let p = 1.0 - ChiSquared::new((kinds - 1) as f64).unwrap().cdf(chi2);
    assert!(p > 1e-4, "{what} is not even: chi-square {chi2:.1}, p {p:.2e}");
}

#[test]
fn customers_are_drawn_as_stated() {
    let text = csv(tiny(5, 40_000, 1, 1), 2, Table::Customers);
    let customers = rows(&text);
    let (americans, others) = customers.split_at(20_000);
    assert!(
        americans
            .iter()
            .all(|row| row[8] == "US" && row[9] == "1" && (10_000..=99_999).contains(&number(row[7])))
    );
    assert!(others.iter().all(|row| row[6].is_empty() && row[7] == "00000" && row[9] == "2"));
    assert_even("states", americans.iter().map(|row| row[6]), 51);
    assert_even("countries", others.iter().map(|row| row[8]), 10);
    let all = || customers.iter();
    assert_even("first letter", all().map(|row| row[1].as_bytes()[0]), 26);
    assert_even("last letter of the last name", all().map(|row| row[2].as_bytes()[9]), 26);
    assert_even("last letter of the city", all().map(|row| row[5].as_bytes()[6]), 26);
    assert_even("card types", all().map(|row| row[12]), 5);
    assert_even("last digit of the card", all().map(|row| row[13].as_bytes()[15]), 10);
    assert_even("expiry", all().map(|row| row[14]), 60);
    assert_even("ages", all().map(|row| row[17]), 73);
    assert_even("incomes", all().map(|row| row[18]), 5);
    assert_even("genders", all().map(|row| row[19]), 2);
    for (id, row) in (1..).zip(all()) {
        assert_eq!((row[15], row[16]), (format!("user{id}").as_str(), "password"));
        assert_eq!(
            (row[1].len(), row[2].len(), row[5].len(), row[11].len(), row[13].len()),
            (6, 10, 7, 10, 16)
        );
        assert_eq!(row[3], format!("{} Tile Road", row[11]), "the street number is the phone number");
        assert_eq!(row[10], format!("{}@tile.test", row[2]));
    }
}

#[test]
fn orders_and_products_are_drawn_as_stated() {
    let store = tiny(6, 40, 60_000, 100);
    let text = csv(store, 2, Table::Orders);
    let orders = rows(&text);
    assert_even("months", orders.iter().map(|row| &row[1][..7]), 12);
    assert_even(
        "days of January",
        orders.iter().map(|row| row[1]).filter(|date| date.starts_with("2009-01")),
        31,
    );
    assert_even(
        "days of February",
        orders.iter().map(|row| row[1]).filter(|date| date.starts_with("2009-02")),
        28,
    );
    assert_even("customers", orders.iter().map(|row| row[2]), 40);
    let nets = || orders.iter().map(|row| number(&row[3].replace('.', "")));
    assert_even("net in steps of 10", nets().map(|cents| (cents - 1) / 1_000), 40);
    let text = csv(store, 2, Table::Orderlines);
    let lines = rows(&text);
    assert_even("products", lines.iter().map(|row| row[2]), 100);
    assert_even("quantities", lines.iter().map(|row| row[3]), 3);
    let mut lines_of = vec![0_u8; 60_000];
    lines.iter().for_each(|row| lines_of[number(row[1]) as usize - 1] += 1);
    assert_even("lines an order", lines_of.iter(), 9);

    let text = csv(tiny(6, 1, 1, 50_000), 2, Table::Products);
    let products = rows(&text);
    assert_even("categories", products.iter().map(|row| row[1]), 16);
    assert_even("prices", products.iter().map(|row| row[4]), 21);
    assert_even("first names", products.iter().map(|row| row[3].split(' ').next().unwrap()), 200);
    assert_even("last names", products.iter().map(|row| row[3].split(' ').nth(1).unwrap()), 200);
    let specials = products.iter().filter(|row| row[5] == "1").count();
    assert!((400..600).contains(&specials), "1 in 100 is special: {specials} of 50,000");
    assert_eq!(
        products[0][2],
        products[0][2].split(' ').next().unwrap().repeat(2).replacen("BAR", "BAR ", 1)
    );
    let titles: std::collections::HashSet<_> = products.iter().map(|row| row[2]).collect();
    assert_eq!(titles.len(), 50_000, "no title twice");
    let text = csv(tiny(6, 1, 1, 60_000), 2, Table::Inventory);
    let stocks = rows(&text);
    assert_even("stock", stocks.iter().filter(|row| !is_hot(number(row[0]))).map(|row| row[1]), 501);
}

/// A sink that breaks after some bytes, as a full disk does.
struct Full(usize);

impl Write for Full {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0 == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        Ok(taken)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_receiver_that_fails_ends_all_workers_and_is_named() {
    let generator = Generator::new(tiny(1, 100_000, 1, 1), 7).unwrap();
    let error = generator.write_table(Table::Customers, &mut Full(1_000_000), &mut |_| {}).unwrap_err();
    assert_eq!(error.to_string(), "cannot hand on the rows of table customers");
    assert!(
        matches!(error, StoreDataError::Sink { source, .. } if source.kind() == io::ErrorKind::StorageFull)
    );
}

#[test]
fn a_stopped_generator_ends_at_the_next_block_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let generator = Generator::new(tiny(9, 50_000, 200, 100), 2).unwrap();
    let stop = generator.stop_flag();
    let mut blocks = 0;
    let error = write_files(&generator, folder.path(), |progress| {
        blocks += u32::from(progress.table == Table::Customers);
        stop.store(progress.table == Table::Customers, std::sync::atomic::Ordering::Relaxed);
    });
    assert!(matches!(error, Err(StoreDataError::Stopped)));
    assert_eq!((blocks, std::fs::read_dir(folder.path()).unwrap().count()), (1, 0));
}

#[test]
fn a_folder_holds_all_tables_and_says_what_they_are() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("store");
    let generator = Generator::new(tiny(9, 300, 200, 100), 2).unwrap();
    let mut last = None;
    let manifest = write_files(&generator, &out, |progress| last = Some(progress)).unwrap();
    assert_eq!(last.unwrap().table, Table::Inventory);
    for entry in &manifest.tables {
        let bytes = std::fs::read(out.join(&entry.file)).unwrap();
        assert_eq!(crc32fast::hash(&bytes), entry.sum.crc32, "{}", entry.file);
    }
    let read = serde_json::from_slice(&std::fs::read(out.join(MANIFEST)).unwrap()).unwrap();
    assert_eq!(manifest, read);

    let error = write_files(&generator, &out, |_| {}).unwrap_err();
    assert!(matches!(error, StoreDataError::OutputNotEmpty(_)), "{error}");
    assert_eq!(std::fs::read_dir(&out).unwrap().count(), 8, "nothing was touched");
}

#[test]
fn a_write_that_fails_half_way_names_its_file_and_leaves_nothing_behind() {
    let folder = tempfile::tempdir().unwrap();
    let in_the_way = folder.path().join("orders.csv");
    let generator = Generator::new(tiny(9, 300, 200, 100), 2).unwrap();
    let error = write_files(&generator, folder.path(), |progress| {
        if progress.table == Table::Customers {
            drop(std::fs::create_dir(&in_the_way));
        }
    });
    let error = error.unwrap_err();
    assert_eq!(error.to_string(), format!("cannot create {}", in_the_way.display()));
    let left: Vec<_> =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["orders.csv"], "only what was not ours is left");
}

#[test]
fn a_store_that_does_not_fit_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let generator = Generator::new(Store::ds2("4095GB".parse().unwrap(), 1), 1).unwrap();
    for out in [folder.path().to_owned(), folder.path().join("new")] {
        let error = write_files(&generator, &out, |_| {}).unwrap_err();
        assert!(matches!(error, StoreDataError::DiskShort { .. }), "{error}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "a folder is left that was made");
    }
}

#[test]
fn no_threads_and_more_than_a_system_gives_are_refused() {
    for threads in [0, 1025, usize::MAX] {
        let refused = Generator::new(tiny(1, 1, 1, 1), threads);
        assert!(matches!(refused, Err(StoreDataError::Threads(asked)) if asked == threads));
    }
}
