//! The words of the store: invented, pronounceable, ours. Same cardinalities as the kit of the published figures.
//!
//! Words are joined from syllables of fixed length, so the same index gives the same word for ever and no two words of
//! a list are equal. All are longer than any stop word of the databases' full-text searches.

/// Number of different words in titles.
pub const TITLE_WORDS: u64 = 1_000;
/// Number of different first names of actors, and of last names.
pub const ACTOR_NAMES: u64 = 200;

const TITLE_HEADS: [&str; 10] = ["BA", "DO", "FE", "GI", "KU", "LA", "MO", "NE", "RI", "TU"];
const TITLE_MIDDLES: [&str; 10] = ["LI", "MA", "NO", "PE", "RU", "SA", "TE", "VI", "WO", "ZU"];
const TITLE_TAILS: [&str; 10] = ["BAR", "DEN", "FIL", "GOS", "KUM", "LAN", "MER", "NIX", "POT", "RUD"];

const FIRST_HEADS: [&str; 20] = [
    "AL", "BE", "CA", "DI", "EL", "FA", "GO", "HA", "IV", "JO", "KA", "LU", "MI", "NO", "OR", "PA", "RE",
    "SI", "TO", "VE",
];
const FIRST_TAILS: [&str; 10] = ["BAN", "DRA", "FIN", "GUS", "LIA", "MON", "NEL", "RIK", "SKO", "VAR"];

const LAST_HEADS: [&str; 20] = [
    "ASK", "BRA", "CHE", "DRU", "EMB", "FLO", "GRI", "HOL", "ISK", "JUN", "KRO", "LIN", "MAR", "NOR", "OST",
    "PRE", "QUI", "RUN", "STA", "TRO",
];
const LAST_TAILS: [&str; 10] =
    ["BECK", "DALE", "FORT", "GATE", "HELM", "LOWE", "MOND", "NESS", "RIDE", "WICK"];

/// The categories of products, 1 to 16.
pub const CATEGORIES: [&str; 16] = [
    "Adventure",
    "Anthology",
    "Biography",
    "Cartoon",
    "Concert",
    "Courtroom",
    "Crime",
    "Fantasy",
    "History",
    "Mystery",
    "Nature",
    "Noir",
    "Romance",
    "Silent",
    "Thriller",
    "Western",
];

/// Postal codes of the 50 states of the USA and its capital's district, which is last.
pub const STATES: [&str; 51] = [
    "AK", "AL", "AR", "AZ", "CA", "CO", "CT", "DE", "FL", "GA", "HI", "IA", "ID", "IL", "IN", "KS", "KY",
    "LA", "MA", "MD", "ME", "MI", "MN", "MO", "MS", "MT", "NC", "ND", "NE", "NH", "NJ", "NM", "NV", "NY",
    "OH", "OK", "OR", "PA", "RI", "SC", "SD", "TN", "TX", "UT", "VA", "VT", "WA", "WI", "WV", "WY", "DC",
];

/// Where the customers of region 2 live.
pub const COUNTRIES: [&str; 10] =
    ["Brazil", "Denmark", "Egypt", "India", "Kenya", "Mexico", "Norway", "Peru", "Spain", "Vietnam"];

/// A word of a title.
///
/// # Panics
/// If `index` is not below [`TITLE_WORDS`].
pub fn title_word(index: u64) -> [&'static str; 3] {
    assert!(index < TITLE_WORDS, "title word {index} does not exist");
    let index = index as usize;
    [TITLE_HEADS[index / 100], TITLE_MIDDLES[index / 10 % 10], TITLE_TAILS[index % 10]]
}

/// A first name of an actor.
///
/// # Panics
/// If `index` is not below [`ACTOR_NAMES`].
pub fn first_name(index: u64) -> [&'static str; 2] {
    [FIRST_HEADS[index as usize / 10], FIRST_TAILS[index as usize % 10]]
}

/// A last name of an actor.
///
/// # Panics
/// If `index` is not below [`ACTOR_NAMES`].
pub fn last_name(index: u64) -> [&'static str; 2] {
    [LAST_HEADS[index as usize / 10], LAST_TAILS[index as usize % 10]]
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn the_lists_have_the_stated_number_of_different_words() {
        let titles: HashSet<String> = (0..TITLE_WORDS).map(|i| title_word(i).concat()).collect();
        let first: HashSet<String> = (0..ACTOR_NAMES).map(|i| first_name(i).concat()).collect();
        let last: HashSet<String> = (0..ACTOR_NAMES).map(|i| last_name(i).concat()).collect();
        assert_eq!((titles.len(), first.len(), last.len()), (1_000, 200, 200));
        assert!(first.is_disjoint(&last), "a search by name would find the wrong half");
        assert_eq!(STATES.iter().collect::<HashSet<_>>().len(), 51);
        assert_eq!(COUNTRIES.iter().collect::<HashSet<_>>().len(), 10);
        assert_eq!(CATEGORIES.iter().collect::<HashSet<_>>().len(), 16);
    }
}
