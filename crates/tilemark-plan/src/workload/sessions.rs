//! `sessions`: users who go from page to page of a site, each with a session of its own.

use super::facts::{At, Facts, InFlight, LoadKeys, Place};
use crate::JsonSchema;
use crate::problem::Say;
use crate::program::{PHP, Program};
use crate::scenario::{guest::Guest, measure::Measure, role::Role};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;
use tilemark_units::{Bytes, Span};

const USERS_MAX: u32 = 10_000;
const PARALLEL_MAX: u32 = 16;
const PAGES_MAX: usize = 100;
/// Its script takes no longer one.
const PAGE_NAME_MAX: usize = 100;
/// Connections of users, and one each to PHP: what the web server of a guest has, less some.
const CONNECTIONS_MAX: u32 = 4_000;
const FILES_OF_PAGE_MAX: u32 = 200;
const PAGE_MAX: Bytes = Bytes::from_mib(1);
/// All files are held in memory at both ends.
const FILES_MAX: Bytes = Bytes::from_mib(64);
const RECEIVE_MIN: Bytes = Bytes::from_kib(8);
const SHAPES: &str = include_str!("session-shapes.toml");
/// Decimal fractions that sum to 1 sum to a little more in binary.
const ROUNDING: f64 = 1e-9;
/// Time of a host's thread that an emulated guest takes for the PHP of a page, with its question to the back end.
pub(super) const PHP_EMULATED_SECONDS: f64 = 0.05;
/// Time that each connection may take until it can be used, in an emulated guest on a busy host.
const TLS_HANDSHAKE_EMULATED: Duration = Duration::from_millis(200);
const TCP_HANDSHAKE_EMULATED: Duration = Duration::from_millis(10);
/// Frames for a request, besides those of its bytes.
const FRAMES_EACH: u64 = 64;

/// For role `web`: users with sessions. A page is a dynamic request, which PHP answers after it has asked the back end, and its files,
/// over connections in parallel. The next page is drawn by the probabilities of the page before; where they sum to less than 1, the rest is the
/// probability that the session ends and a new one begins. The
/// pages of all users come at the load's `rate`, each for a user drawn by chance, so that a user pauses for `users` divided by `rate` on average.
/// Checked: every byte, that a page belongs to its session, and that the back end has counted what the user did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SessionsParameters {
    /// The site: its pages, its probabilities, TLS or not, and when a page is good.
    pub shape: SessionShape,
    /// Users at the same time. Each keeps its connections.
    pub users: u32,
    /// Connections that a user has at the same time.
    pub parallel: u32,
    /// So much a second a user can receive on each connection. Default: no limit.
    pub receive: Option<Bytes>,
    /// Over TLS. Default: as the shape has it.
    pub tls: Option<bool>,
    /// A page within this is good. Default: as the shape has it.
    pub good: Option<Span>,
    /// A page within this is tolerable. Default: as the shape has it.
    pub tolerable: Option<Span>,
    /// The page on which a session begins. Default: as the shape has it.
    pub first: Option<String>,
    /// Pages in place of the shape's, by name. Default: the shape's.
    pub page: BTreeMap<String, SessionPage>,
}

/// A site inside the program.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum SessionShape {
    /// 16 small pages of a bank, over TLS.
    Bank,
    /// 13 larger pages of a shop.
    #[default]
    Shop,
    /// 7 pages on the way to a download.
    Downloads,
}

/// One page of a site.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionPage {
    /// Length of the dynamic page.
    pub bytes: Bytes,
    /// Its files.
    #[serde(default)]
    pub files: Vec<SessionFiles>,
    /// The probability of each page after it. The rest to 1 is the probability that the session ends.
    #[serde(default)]
    pub next: BTreeMap<String, f64>,
}

/// Files of one size on a page.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct SessionFiles {
    /// Length of each.
    pub size: Bytes,
    /// How many.
    pub count: u32,
    /// The part of them that a user has kept, and only asks whether they changed.
    #[serde(default)]
    pub kept: f64,
}

/// A site with nothing left to a default.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Site {
    /// Over TLS.
    pub tls: bool,
    /// A page within this is good.
    pub good: Span,
    /// A page within this is tolerable.
    pub tolerable: Span,
    /// The page on which a session begins.
    pub first: String,
    /// The pages by name.
    pub page: BTreeMap<String, SessionPage>,
}

impl Default for SessionsParameters {
    fn default() -> Self {
        Self {
            shape: SessionShape::default(),
            users: 100,
            parallel: 2,
            receive: None,
            tls: None,
            good: None,
            tolerable: None,
            first: None,
            page: BTreeMap::new(),
        }
    }
}

impl SessionShape {
    /// As scenarios write it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bank => "bank",
            Self::Shop => "shop",
            Self::Downloads => "downloads",
        }
    }

    /// Its pages, as a scenario has pages of its own.
    pub fn pages_as_toml(self) -> String {
        let head = format!("[{}.page.", self.name());
        let mut is_own = false;
        let own = SHAPES.lines().filter(|line| {
            is_own = if line.starts_with('[') { line.starts_with(&head) } else { is_own };
            is_own && !line.starts_with('#') && !line.trim().is_empty()
        });
        own.map(|line| format!("{}\n", line.replace(&head, "[load.sessions.page."))).collect()
    }

    fn site(self) -> Site {
        // Asked for each guest of a plan, of which there can be thousands.
        static SITES: LazyLock<BTreeMap<String, Site>> = LazyLock::new(|| {
            toml::from_str(SHAPES).expect("the file is part of the program, and a test reads it")
        });
        SITES[self.name()].clone()
    }
}

impl SessionsParameters {
    /// The site that its users visit.
    pub fn site(&self) -> Site {
        let shape = self.shape.site();
        let is_own = !self.page.is_empty();
        Site {
            tls: self.tls.unwrap_or(shape.tls),
            good: self.good.unwrap_or(shape.good),
            tolerable: self.tolerable.unwrap_or(shape.tolerable),
            first: self.first.clone().unwrap_or(shape.first),
            page: if is_own { self.page.clone() } else { shape.page },
        }
    }
}

impl Site {
    /// How often each page is visited in a session, on average.
    fn visits(&self) -> BTreeMap<&str, f64> {
        let mut visits: BTreeMap<&str, f64> = BTreeMap::new();
        let mut at = BTreeMap::from([(self.first.as_str(), 1.0)]);
        // A session that goes on with 98 % at each page has 1e-9 left after a thousand.
        for _ in 0..1_000 {
            let mut after: BTreeMap<&str, f64> = BTreeMap::new();
            for (name, share) in at {
                *visits.entry(name).or_default() += share;
                for (next, probability) in self.page.get(name).into_iter().flat_map(|page| &page.next) {
                    *after.entry(next).or_default() += share * probability;
                }
            }
            at = after;
        }
        visits
    }

    /// Requests and bytes of a page, on average over what users visit.
    pub fn of_page(&self) -> (f64, f64) {
        let (mut pages, mut requests, mut bytes) = (0.0, 0.0, 0.0);
        for (name, visits) in self.visits() {
            let Some(page) = self.page.get(name) else { continue };
            pages += visits;
            requests += visits;
            bytes += visits * page.bytes.get() as f64;
            for file in &page.files {
                requests += visits * f64::from(file.count);
                bytes += visits * f64::from(file.count) * (1.0 - file.kept) * file.size.get() as f64;
            }
        }
        (requests / pages, bytes / pages)
    }

    /// Bytes of all files, of which those with one size are one.
    fn files(&self) -> Bytes {
        let sizes: BTreeSet<u64> =
            self.page.values().flat_map(|page| &page.files).map(|file| file.size.get()).collect();
        Bytes::new(sizes.into_iter().fold(0, u64::saturating_add))
    }

    /// Bytes of memory that the files and the longest page take at each end.
    fn held(&self) -> Bytes {
        let longest = self.page.values().map(|page| page.bytes.get()).max().unwrap_or(0);
        Bytes::new(self.files().get().saturating_add(longest))
    }

    /// Bytes of the largest page with its files.
    pub fn largest_page(&self) -> Bytes {
        let whole = |page: &SessionPage| {
            let files = page.files.iter().map(|file| file.size.get().saturating_mul(file.count.into()));
            files.fold(page.bytes.get(), u64::saturating_add)
        };
        Bytes::new(self.page.values().map(whole).max().unwrap_or(0))
    }

    /// Pages that a session can come to.
    fn reached(&self) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut left = vec![self.first.as_str()];
        while let Some(name) = left.pop() {
            if reached.insert(name) {
                let pages = self.page.get(name).into_iter().flat_map(|page| &page.next);
                left.extend(pages.filter(|(_, share)| **share > 0.0).map(|(next, _)| next.as_str()));
            }
        }
        reached
    }

    /// A page from which a session never ends.
    fn endless(&self) -> Option<&str> {
        let leaves = |page: &SessionPage| page.next.values().sum::<f64>() < 1.0 - ROUNDING;
        let mut ends: BTreeSet<&str> =
            self.page.iter().filter(|(_, page)| leaves(page)).map(|(name, _)| name.as_str()).collect();
        loop {
            let leads = |(name, page): &(&String, &SessionPage)| {
                let mut next = page.next.iter().filter(|(_, share)| **share > 0.0);
                !ends.contains(name.as_str()) && next.any(|(next, _)| ends.contains(next.as_str()))
            };
            let more: Vec<&str> = self.page.iter().filter(leads).map(|(name, _)| name.as_str()).collect();
            if more.is_empty() {
                return self.reached().into_iter().find(|name| !ends.contains(name));
            }
            ends.extend(more);
        }
    }

    /// What is wrong with it, with a remedy.
    fn problem(&self) -> Option<(String, &'static str)> {
        if !self.page.contains_key(&self.first) {
            let message =
                format!("sessions that begin on page `{}`, which the site does not have", self.first);
            return Some((message, "write `first = \"NAME\"` with the name of a page"));
        }
        if self.page.len() > PAGES_MAX {
            return Some((format!("{} pages", self.page.len()), "use 100 at most"));
        }
        if let Some(problem) = self.page.iter().find_map(|(name, page)| self.problem_of(name, page)) {
            return Some(problem);
        }
        let files = self.files();
        if files > FILES_MAX {
            return Some((format!("files of {files} together"), "use 64MiB at most"));
        }
        let name = self.endless()?;
        Some((
            format!("sessions that never end once they are on page `{name}`"),
            "give a page after it a `next` that sums to less than 1",
        ))
    }

    fn problem_of(&self, name: &str, page: &SessionPage) -> Option<(String, &'static str)> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
        if !(1..=PAGE_NAME_MAX).contains(&name.len()) || !name.bytes().all(is_plain) {
            return Some((format!("a page named {name:?}"), "use letters, digits and `-`, 100 at most"));
        }
        if let Some(next) = page.next.keys().find(|next| !self.page.contains_key(*next)) {
            let message = format!("page `{name}` followed by `{next}`, which the site does not have");
            return Some((message, "name a page of the site"));
        }
        let sum: f64 = page.next.values().sum();
        if page.next.values().any(|share| !(0.0..=1.0).contains(share)) || sum > 1.0 + ROUNDING {
            let message = format!("page `{name}` whose `next` sums to {sum:.3}");
            return Some((message, "use probabilities from 0 to 1 that sum to 1 at most"));
        }
        if page.bytes > PAGE_MAX {
            return Some((format!("page `{name}` of {}", page.bytes), "use 1MiB at most"));
        }
        let count = page.files.iter().fold(0_u32, |sum, file| sum.saturating_add(file.count));
        if count > FILES_OF_PAGE_MAX {
            return Some((format!("page `{name}` with {count} files"), "use 200 at most"));
        }
        let share = page.files.iter().map(|file| file.kept).find(|kept| !(0.0..=1.0).contains(kept))?;
        Some((format!("page `{name}` whose files have `kept = {share}`"), "use 0 to 1"))
    }
}

/// The port of a site over TLS.
const TLS_PORT: u16 = 443;
/// The port of a back end.
const BACK_END_PORT: u16 = 8080;

impl Facts for SessionsParameters {
    fn role(&self) -> Role {
        Role::Web
    }

    fn programs(&self) -> Vec<Program> {
        vec![PHP]
    }

    fn ports(&self) -> Vec<u16> {
        let tls = self.site().tls.then_some(TLS_PORT);
        // The web server has a back end of its own.
        tls.into_iter().chain([BACK_END_PORT]).collect()
    }

    fn place(&self) -> Place {
        Place::Outside
    }

    fn unit(&self) -> &'static str {
        "pages"
    }

    fn can_swell(&self) -> bool {
        true
    }

    fn in_flight(&self, _at: At) -> InFlight {
        InFlight::steady(self.users.into(), "page")
    }

    fn connections(&self, _at: At) -> u32 {
        self.users.saturating_mul(self.parallel)
    }

    fn check(&self, load: &LoadKeys<'_>, guest: &Guest, _measure: &Measure, say: &mut Say<'_>) {
        let name = load.name;
        for (what, count, most) in
            [("users", self.users, USERS_MAX), ("parallel", self.parallel, PARALLEL_MAX)]
        {
            if !(1..=most).contains(&count) {
                say(format!("load `{name}` has `{what} = {count}`"), &format!("use 1 to {most}"));
            }
        }
        let connections = self.users.saturating_mul(self.parallel.saturating_add(1));
        if connections > CONNECTIONS_MAX {
            let message = format!(
                "load `{name}` has {connections} connections in its web server: `users = {}`, each with `parallel = {}` and one to PHP",
                self.users, self.parallel
            );
            say(message, "lower `users` or `parallel`, so that it has 4000 at most");
        }
        if let Some(receive) = self.receive.filter(|receive| *receive < RECEIVE_MIN) {
            say(format!("load `{name}` has `receive = \"{receive}\"`"), "use 8KiB a second or more");
        }
        let site = self.site();
        if let Some((what, remedy)) = site.problem() {
            say(format!("load `{name}` has {what}"), remedy);
        }
        let (needed, most) = (site.held(), Bytes::new(guest.memory.get() / 2));
        if needed > most {
            let message = format!(
                "load `{name}` has a site of {needed}, and guest `{}` has {} of memory",
                guest.name, guest.memory
            );
            say(message, "give the guest twice that memory, or use fewer or smaller files");
        }
        if site.good > site.tolerable {
            let message =
                format!("load `{name}` has `good` = {} above `tolerable` = {}", site.good, site.tolerable);
            say(message, "make `tolerable` the longer one");
        }
    }

    fn prepares_within(&self) -> Duration {
        let each = if self.site().tls { TLS_HANDSHAKE_EMULATED } else { TCP_HANDSHAKE_EMULATED };
        each.saturating_mul(self.users.saturating_mul(self.parallel))
    }

    fn memory(&self) -> Bytes {
        self.site().held()
    }

    fn good_and_tolerable(&self) -> Option<[Span; 2]> {
        let site = self.site();
        Some([site.good, site.tolerable])
    }

    /// A page took so long on a guest alone; the processor time of its requests and bytes is as `web`'s, and PHP's is the rest.
    fn emulated_seconds(&self) -> Option<f64> {
        let (requests, bytes) = self.site().of_page();
        Some(PHP_EMULATED_SECONDS + 1.9e-3 * requests + 31e-9 * bytes)
    }

    fn shapes_service(&self) -> bool {
        true
    }

    fn brings_pages(&self) -> bool {
        true
    }

    fn frames_each(&self) -> u64 {
        let (requests, _) = self.site().of_page();
        FRAMES_EACH * requests.ceil() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    fn said(sessions: &str) -> String {
        let text = format!(
            "schema = 1\nname = \"s\"\nabout = \"s\"\nheadline = \"s\"\n[[guest]]\nname = \"g\"\nrole = \"web\"\n\
             [[load]]\nname = \"s\"\nguest = \"g\"\nrate = \"10/s\"\n[load.sessions]\n{sessions}\n[ladder]\ntiles = [1]\n"
        );
        let finished = Draft::from_toml(&text, "test").unwrap().finish();
        finished.map_or_else(|problems| problems.to_string(), |_| String::new())
    }

    #[test]
    fn every_shape_is_a_site_that_can_be_visited() {
        for (shape, pages) in
            [(SessionShape::Bank, 16), (SessionShape::Shop, 13), (SessionShape::Downloads, 7)]
        {
            let site = shape.site();
            assert_eq!(site.problem(), None, "{shape:?}");
            assert_eq!((site.page.len(), site.reached().len()), (pages, pages), "{shape:?}");
        }
    }

    /// `name value` pairs, separated by commas.
    fn pairs(text: &str) -> BTreeMap<String, f64> {
        let pair = |pair: &str| {
            let (name, value) = pair.trim().split_once(' ').unwrap();
            (name.to_owned(), value.parse().unwrap())
        };
        text.split(',').filter(|pair| !pair.trim().is_empty()).map(pair).collect()
    }

    #[test]
    fn pages_are_visited_as_often_as_published() {
        // The expected mixes of the published design, in percent of pages. That of the shop does not follow from its own probabilities: of
        // three pages it is what follows from them, and the others are near it.
        for (shape, off_max, published) in [
            (
                SessionShape::Bank,
                0.015,
                "login 21.53, summary 15.11, checks 8.45, images 16.89, pay 13.89, payee 1.12, payee-post 0.80, quick 6.67, \
                 status 2.23, profile 1.22, profile-post 0.88, order 1.22, order-post 0.88, transfer 1.71, transfer-post 1.24, \
                 logout 6.16",
            ),
            (
                SessionShape::Shop,
                0.10,
                "index 13.08, search 6.55, browse 11.75, line 10.03, detail 8.02, choose-1 10.78, choose-2 8.95, choose-3 6.16, \
                 cart 5.30, login 7.13, shipping 3.55, billing 3.37, confirm 11.58",
            ),
            (
                SessionShape::Downloads,
                0.001,
                "home 8.11, search 12.61, catalog 11.71, product 24.77, file-catalog 22.52, file 13.51, download 6.76",
            ),
        ] {
            let (site, published) = (shape.site(), pairs(published));
            let visits = site.visits();
            assert!(published.keys().eq(site.page.keys()), "{shape:?}: {published:?}");
            // The published mix counts the two images of a check as two pages.
            let images = visits.get("images").copied().unwrap_or(0.0);
            let pages = visits.values().sum::<f64>() + images;
            for (page, published) in published {
                let times = if page == "images" { 2.0 } else { 1.0 };
                let share = 100.0 * times * visits[page.as_str()] / pages;
                let off = (share / published - 1.0).abs();
                assert!(off < off_max, "{shape:?} {page}: {share:.2} for {published}");
            }
        }
    }

    #[test]
    fn users_go_from_page_to_page_as_published() {
        let form = "logout .08";
        for (shape, transitions) in [
            (
                SessionShape::Bank,
                format!(
                    "login: summary .32, pay .32, transfer .08, logout .08; summary: checks .56, order .08, profile .08, logout .08; \
                     checks: images 1; images: summary .72, logout .08; \
                     pay: payee .08, quick .48, status .16, logout .08; payee: payee-post .72, {form}; payee-post: pay .72, {form}; \
                     quick: pay .72, {form}; status: pay .72, {form}; profile: profile-post .72, {form}; \
                     profile-post: summary .72, {form}; order: order-post .72, {form}; order-post: summary .72, {form}; \
                     transfer: transfer-post .72, {form}; transfer-post: summary .72, {form}; logout:"
                ),
            ),
            (
                SessionShape::Shop,
                "index: index .2, search .15, browse .6; search: index .05, search .7, browse .2; \
                 browse: index .1, browse .1, line .75; line: index .05, browse .1, detail .8; \
                 detail: index .05, browse .05, line .15, choose-1 .7; choose-1: choose-1 .45, choose-2 .5; \
                 choose-2: choose-1 .1, choose-2 .3, choose-3 .55; choose-3: choose-2 .1, choose-3 .2, cart .65; \
                 cart: cart .25, login .7; login: login .5, shipping .45; shipping: billing .95; billing: confirm .95; \
                 confirm: confirm .75"
                    .to_owned(),
            ),
            (
                SessionShape::Downloads,
                "home: search .25, catalog .75; search: product .5, search .5; catalog: product .75, search .25; \
                 product: file-catalog .8, catalog .2; file-catalog: file .6, product .4; \
                 file: download .5, file-catalog .2, product .05, catalog .05, search .1, home .1; download:"
                    .to_owned(),
            ),
        ] {
            let of_page = |text: &str| {
                let (page, next) = text.trim().split_once(':').unwrap();
                (page.to_owned(), pairs(next))
            };
            let wanted: BTreeMap<_, _> = transitions.split(';').map(of_page).collect();
            let found: BTreeMap<_, _> =
                shape.site().page.into_iter().map(|(name, page)| (name, page.next)).collect();
            assert_eq!(found, wanted, "{shape:?}");
        }
    }

    #[test]
    fn a_site_that_cannot_be_visited_is_refused_before_anything_starts() {
        assert_eq!(said(""), "");
        assert_eq!(said("first = \"a\"\n[load.sessions.page.a]\nbytes = \"1KiB\""), "");
        let pages = |text: &str| format!("first = \"a\"\n{text}");
        for (sessions, wanted) in [
            ("users = 0".to_owned(), "has `users = 0`"),
            ("parallel = 17".to_owned(), "has `parallel = 17`"),
            ("users = 2000".to_owned(), "has 6000 connections in its web server"),
            ("receive = \"1KiB\"".to_owned(), "has `receive = \"1KiB\"`"),
            ("good = \"9s\"".to_owned(), "above `tolerable`"),
            ("first = \"nowhere\"".to_owned(), "begin on page `nowhere`"),
            (pages("[load.sessions.page.a]\nbytes = \"2MiB\""), "page `a` of 2MiB"),
            (pages("[load.sessions.page.a]\nbytes = \"1B\"\nnext = { b = 0.5 }"), "followed by `b`"),
            (pages("[load.sessions.page.a]\nbytes = \"1B\"\nnext = { a = 1.1 }"), "sums to 1.100"),
            (
                pages("[load.sessions.page.a]\nbytes = \"1B\"\nnext = { a = 1.0 }"),
                "never end once they are on page `a`",
            ),
            (
                pages("[load.sessions.page.a]\nbytes = \"1B\"\nfiles = [{ size = \"65MiB\", count = 1 }]"),
                "files of 65MiB together",
            ),
            (
                pages("[load.sessions.page.a]\nbytes = \"1B\"\nfiles = [{ size = \"1B\", count = 201 }]"),
                "with 201 files",
            ),
        ] {
            assert!(said(&sessions).contains(wanted), "{sessions}: {}", said(&sessions));
        }
    }
}
