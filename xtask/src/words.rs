//! `docs/writing.md` lists words that do not help our readers. This finds them in documents, in `--help`, in messages, in data files
//! and scripts, and in the names and comments of the source.

use crate::{
    cargo::workspace,
    sources::{files, files_with_tests, without_tests},
};
use anyhow::{Context, Result, bail};
use proc_macro2::{TokenStream, TokenTree};
use std::{
    collections::BTreeMap,
    fmt, fs,
    path::{Path, PathBuf},
};

const RULES: &str = "docs/writing.md";
/// How many each crate's messages still have.
const LEFT: &str = "xtask/words-left.toml";
const LEFT_HEAD: &str = "# How many words that docs/writing.md rules out are left in the messages of each crate: a number that may only fall.
# `cargo xtask words --lower` writes it.
";
/// Documents outside `docs`, and texts of the program that are not in its source.
const PAGES: [&str; 5] = [
    "README.md",
    "PROMISES.md",
    "SECURITY.md",
    "CHANGELOG.md",
    "crates/tilemark-host/src/setting/known/catalogue.txt",
];
/// Folders whose data files and scripts are read.
const DATA: [&str; 5] = ["scenarios", "profiles", "crates", "xtask", "packaging"];
/// Endings of their names, and the sign that begins a line of comment.
const DATA_KINDS: [(&str, &str); 8] = [
    ("toml", "#"),
    ("sh", "#"),
    ("py", "#"),
    ("js", "//"),
    ("go", "//"),
    ("php", "//"),
    ("css", "/*"),
    ("sql", "--"),
];
/// Data files and scripts outside these folders; the comments of all begin with `#`.
const DATA_FILES: [&str; 5] = ["Cargo.toml", "Makefile", "clippy.toml", "deny.toml", ".ci/run"];
/// Where the comments of the flags are the texts of `--help`.
const HELP: &str = "crates/tilemark/src/arguments.rs";
/// Rules that are for the words of users only, as names: in comments they are good English, or name a key of the record.
const RIGHT_IN_SOURCE: [&str; 5] = ["as_it_was", "as_they_were", "is_no", "of_which", "voided"];

/// Fails where a document, a help text, a data file, a name or a comment has such a word, or a crate's messages have more or fewer than are
/// allowed.
pub(crate) fn check() -> Result<()> {
    let rules = rules(&read(RULES)?);
    let mut faults: Vec<String> = in_documents(&rules)?.iter().map(ToString::to_string).collect();
    faults.extend(in_data(&rules)?.iter().map(ToString::to_string));
    faults.extend(against_left(&in_messages(&rules)?, &left()?));
    faults.extend(in_source(&rules)?.iter().map(ToString::to_string));
    if faults.is_empty() { Ok(()) } else { bail!("{}", faults.join("\n")) }
}

/// Prints all that are left in messages.
pub(crate) fn list() -> Result<()> {
    for found in in_messages(&rules(&read(RULES)?))?.values().flatten() {
        println!("{found}");
    }
    Ok(())
}

/// Lowers the numbers of what is left to what there is now; one that rose is a failure.
pub(crate) fn lower() -> Result<()> {
    let (found, allowed) = (in_messages(&rules(&read(RULES)?))?, left()?);
    let mut text = LEFT_HEAD.to_owned();
    for (name, found) in &found {
        let most = allowed.get(name).copied().unwrap_or_default();
        if found.len() > most {
            bail!("{name} has {} such words, and {LEFT} allows {most}: fix them", found.len());
        }
        text += &format!("{name} = {}\n", found.len());
    }
    fs::write(workspace().join(LEFT), text).with_context(|| LEFT.to_owned())
}

/// What is left in each crate against what may be.
fn against_left(found: &BTreeMap<String, Vec<Found>>, allowed: &BTreeMap<String, usize>) -> Vec<String> {
    let mut faults = Vec::new();
    for (name, found) in found {
        let most = allowed.get(name).copied().unwrap_or_default();
        if found.len() > most {
            let all: Vec<String> = found.iter().map(ToString::to_string).collect();
            faults.push(format!(
                "{name} has {} such words in its messages, at most {most} may be left:\n{}",
                found.len(),
                all.join("\n")
            ));
        }
    }
    let fell = |(name, most): &(&String, &usize)| found.get(*name).map_or(0, Vec::len) < **most;
    let fell: Vec<&str> = allowed.iter().filter(fell).map(|(name, _)| name.as_str()).collect();
    if !fell.is_empty() {
        faults.push(format!(
            "{} has fewer such words than {LEFT} allows: run `cargo xtask words --lower`",
            fell.join(", ")
        ));
    }
    faults
}

/// A word or some words that are not used, and what is written instead.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rule {
    words: Vec<String>,
    instead: String,
}

/// Where one is used.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    file: String,
    line: usize,
    words: String,
    instead: String,
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: \"{}\": write {}", self.file, self.line, self.words, self.instead)
    }
}

/// The rules that a program can check: rows whose first column has words between backticks.
fn rules(text: &str) -> Vec<Rule> {
    let mut rules = Vec::new();
    for line in text.lines() {
        let Some((not, but)) = line.strip_prefix("| `").and_then(|row| row.split_once(" | ")) else {
            continue;
        };
        let instead = but.trim_end_matches('|').trim();
        for phrase in format!("`{not}").split('`').skip(1).step_by(2) {
            let words = phrase.split_whitespace().map(str::to_owned).collect();
            rules.push(Rule { words, instead: instead.to_owned() });
        }
    }
    rules
}

fn in_documents(rules: &[Rule]) -> Result<Vec<Found>> {
    let mut pages: Vec<String> = PAGES.map(str::to_owned).into();
    let docs = files(&workspace().join("docs"), "md")?;
    pages.extend(docs.iter().map(|path| name_of(path)).filter(|page| {
        // Old decisions keep their words, but for what the list of them shows.
        page != RULES && (!page.starts_with("docs/decisions/") || page.ends_with("README.md"))
    }));
    let mut found = Vec::new();
    for page in pages {
        found.extend(uses(rules, &page, 1, &read(&page)?));
    }
    for (line, text) in texts(&read(HELP)?, HELP)?.comments {
        found.extend(uses(rules, HELP, line, &text));
    }
    Ok(found)
}

/// What data files and scripts have. Third-party files are in folders named `vendor`.
fn in_data(rules: &[Rule]) -> Result<Vec<Found>> {
    let mut files: Vec<(String, &str)> = DATA_FILES.map(|file| (file.to_owned(), "#")).into();
    for folder in DATA.map(|folder| workspace().join(folder)) {
        for (ending, sign) in DATA_KINDS {
            let of_kind = files_with_tests(&folder, ending)?;
            let ours = of_kind.iter().map(|path| name_of(path)).filter(|file| !file.contains("/vendor/"));
            files.extend(ours.map(|file| (file, sign)));
        }
    }
    let mut found = Vec::new();
    for (file, sign) in files {
        found.extend(uses(rules, &file, 1, &readable(&read(&file)?, sign)));
    }
    Ok(found)
}

/// The text of a data file or a script whose comments begin with this sign, with its names as words. A comment or a text that continues
/// on the next line has nothing between its words.
fn readable(source: &str, sign: &str) -> String {
    let lines = source.lines().map(|line| {
        let line = line.trim_start();
        line.strip_prefix(sign).unwrap_or(line).trim_end_matches('\\')
    });
    let text = spoken(&lines.collect::<Vec<_>>().join("\n")).replace("\\n", " ");
    // In JavaScript and Go, backticks are around texts.
    if sign == "//" { text.replace('`', "\"") } else { text }
}

/// The folders of our crates.
fn crates() -> Result<impl Iterator<Item = PathBuf>> {
    let folders = fs::read_dir(workspace().join("crates"))?.collect::<Result<Vec<_>, _>>()?;
    Ok(folders.into_iter().map(|entry| entry.path()).chain([workspace().join("xtask")]))
}

/// What names and comments of all sources have, those of tests too.
fn in_source(rules: &[Rule]) -> Result<Vec<Found>> {
    let is_for_source = |rule: &&Rule| !RIGHT_IN_SOURCE.contains(&rule.words.join("_").as_str());
    let rules: Vec<Rule> = rules.iter().filter(is_for_source).cloned().collect();
    let mut found = Vec::new();
    for folder in crates()? {
        for path in files_with_tests(&folder, "rs")? {
            let file = name_of(&path);
            let source = read(&file)?;
            for (line, text) in comments(&source).into_iter().chain(names(&source, &file)?) {
                found.extend(uses(&rules, &file, line, &text));
            }
        }
    }
    Ok(found)
}

/// By crate, what its messages have.
fn in_messages(rules: &[Rule]) -> Result<BTreeMap<String, Vec<Found>>> {
    let mut by_crate = BTreeMap::new();
    for folder in crates()? {
        let mut all = Vec::new();
        for path in files(&folder.join("src"), "rs")? {
            let file = name_of(&path);
            for (line, text) in texts(&read(&file)?, &file)?.messages {
                all.extend(uses(rules, &file, line, &text));
            }
        }
        if !all.is_empty() {
            let name = folder.file_name().and_then(|name| name.to_str()).context("a crate has a name")?;
            by_crate.insert(name.to_owned(), all);
        }
    }
    Ok(by_crate)
}

fn left() -> Result<BTreeMap<String, usize>> {
    toml::from_str(&read(LEFT)?).with_context(|| LEFT.to_owned())
}

/// Every use of a rule's words in a text that begins in this line.
fn uses(rules: &[Rule], file: &str, first: usize, text: &str) -> Vec<Found> {
    let words = words(text);
    let mut found = Vec::new();
    for rule in rules {
        for (at, window) in words.windows(rule.words.len()).enumerate() {
            let is_used = window.iter().map(|(word, _)| word).eq(&rule.words);
            if is_used && !is_right(&words, at, rule) {
                let line = first + window[0].1;
                let words = rule.words.join(" ");
                found.push(Found { file: file.to_owned(), line, words, instead: rule.instead.clone() });
            }
        }
    }
    found.sort_by_key(|found| found.line);
    found
}

/// "There is no answer" and "is no longer" are good English; "5 is no port" is not.
fn is_right(words: &[(String, usize)], at: usize, rule: &Rule) -> bool {
    if rule.words != ["is", "no"] {
        return false;
    }
    let is_one_of = |place: Option<usize>, known: &[&str]| {
        place.and_then(|place| words.get(place)).is_some_and(|(word, _)| known.contains(&word.as_str()))
    };
    is_one_of(at.checked_sub(1), &["there", "where"])
        || is_one_of(Some(at + 2), &["longer", "more", "less", "worse", "different", "better"])
}

/// The words of a text in small letters, each with its line from 0. What is between backticks and where a link leads is
/// left out; a sign that ends a part of a sentence is a word of its own.
fn words(text: &str) -> Vec<(String, usize)> {
    let (mut words, mut word, mut line) = (Vec::new(), String::new(), 0);
    let mut is_name = false;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let is_in_word = character.is_alphanumeric() || "_-'".contains(character);
        if is_in_word && !is_name {
            word.extend(character.to_lowercase());
            continue;
        }
        if !word.is_empty() {
            words.push((std::mem::take(&mut word), line));
        }
        match character {
            '`' if is_fence(&mut characters) => is_name = false,
            '`' => is_name = !is_name,
            // A span ends with its paragraph, whatever else is missing.
            '\n' if characters.peek() == Some(&'\n') => is_name = false,
            ']' if characters.peek() == Some(&'(') && !is_name => {
                for inside in characters.by_ref().take_while(|inside| *inside != ')') {
                    line += usize::from(inside == '\n');
                }
            }
            _ => {}
        }
        if !character.is_whitespace() {
            words.push((character.to_string(), line));
        }
        line += usize::from(character == '\n');
    }
    if !word.is_empty() {
        words.push((word, line));
    }
    words
}

/// Whether a backtick begins the line of a block of code, which is read as text is: blocks are what programs print.
fn is_fence(characters: &mut std::iter::Peekable<std::str::Chars<'_>>) -> bool {
    let mut ahead = characters.clone();
    let is_fence = ahead.next() == Some('`') && ahead.next() == Some('`');
    if is_fence {
        *characters = ahead;
    }
    is_fence
}

/// What a Rust file says to people, each text with the line of its beginning.
#[derive(Debug, Default, PartialEq, Eq)]
struct Texts {
    /// Its documentation comments.
    comments: Vec<(usize, String)>,
    /// Its strings of more than a word, tests aside.
    messages: Vec<(usize, String)>,
}

fn texts(source: &str, file: &str) -> Result<Texts> {
    let mut texts = Texts::default();
    let Ok(tokens) = source.parse::<TokenStream>() else { bail!("{file} is not Rust") };
    collect(tokens, &mut texts);
    Ok(texts)
}

fn collect(tokens: TokenStream, texts: &mut Texts) {
    for token in without_tests(tokens) {
        match token {
            TokenTree::Group(group) if is_comment(&group.stream()) => {
                let line = group.span().start().line;
                let last = group.stream().into_iter().last().map(|text| text.to_string());
                texts.comments.push((line, plain(&last.unwrap_or_default())));
            }
            TokenTree::Group(group) => collect(group.stream(), texts),
            TokenTree::Literal(literal) => {
                let text = plain(&literal.to_string());
                if literal.to_string().contains('"') && text.trim().contains(' ') {
                    texts.messages.push((literal.span().start().line, text));
                }
            }
            _ => {}
        }
    }
}

fn is_comment(attribute: &TokenStream) -> bool {
    let mut tokens = attribute.clone().into_iter();
    matches!(tokens.next(), Some(TokenTree::Ident(name)) if name == "doc")
        && matches!(tokens.next(), Some(TokenTree::Punct(sign)) if sign.as_char() == '=')
}

/// A literal as its reader sees it, near enough for words: what is filled in has the names of variables.
fn plain(literal: &str) -> String {
    let text = literal.replace("\\n", " ").replace("\\t", " ").replace("\\\n", " \n").replace('"', " ");
    let mut parts = text.split('{');
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| text + "{" + part.split_once('}').map_or(part, |(_, after)| after))
}

/// The comments of a Rust file, those in successive lines as one text, each with its first line.
fn comments(source: &str) -> Vec<(usize, String)> {
    let mut comments: Vec<(usize, String)> = Vec::new();
    let mut goes_on = false;
    for (line, text) in (1..).zip(source.lines()) {
        let begins_with_it = text.trim_start().starts_with("//");
        match (comment_of(text), comments.last_mut()) {
            (Some(comment), Some((_, block))) if begins_with_it && goes_on => {
                block.push('\n');
                block.push_str(comment);
            }
            (Some(comment), _) => comments.push((line, comment.to_owned())),
            (None, _) => {}
        }
        goes_on = begins_with_it;
    }
    comments
}

/// What a line has behind `//`, unless a string has that.
fn comment_of(line: &str) -> Option<&str> {
    let text = line.trim_start();
    let comment = match text.strip_prefix("//") {
        Some(comment) => comment,
        None => {
            let (code, comment) = text.split_once(" // ")?;
            (code.matches('"').count() % 2 == 0).then_some(comment)?
        }
    };
    Some(comment.trim_start_matches(['/', '!']).trim())
}

/// The names of a Rust file as words, the file's own name too, each with the first line that has it.
fn names(source: &str, file: &str) -> Result<Vec<(usize, String)>> {
    let Ok(tokens) = source.parse::<TokenStream>() else { bail!("{file} is not Rust") };
    let stem = Path::new(file).file_stem().and_then(|stem| stem.to_str()).context("a file has a name")?;
    let mut first_lines = BTreeMap::from([(stem.to_owned(), 1)]);
    collect_names(tokens, &mut first_lines);
    Ok(first_lines.into_iter().map(|(name, line)| (line, spoken(&name))).collect())
}

fn collect_names(tokens: TokenStream, first_lines: &mut BTreeMap<String, usize>) {
    for token in tokens {
        match token {
            TokenTree::Group(group) => collect_names(group.stream(), first_lines),
            TokenTree::Ident(name) => {
                first_lines.entry(name.to_string()).or_insert_with(|| name.span().start().line);
            }
            _ => {}
        }
    }
}

/// The words of a name: `is_told` and `IsTold` have the same two.
fn spoken(name: &str) -> String {
    let mut words = String::new();
    let mut was_small = false;
    for character in name.chars() {
        if character == '_' || (character.is_uppercase() && was_small) {
            words.push(' ');
        }
        if character != '_' {
            words.extend(character.to_lowercase());
        }
        was_small = character.is_lowercase() || character.is_ascii_digit();
    }
    words
}

/// A file's path below the workspace.
fn name_of(path: &Path) -> String {
    path.strip_prefix(workspace()).unwrap_or(path).display().to_string()
}

fn read(name: &str) -> Result<String> {
    fs::read_to_string(workspace().join(name)).with_context(|| format!("cannot read {name}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "| not | but |\n|---|---|\n| `told`, `said of` | reported |\n| a label | a size |\n| `is no` | is not a |\n";

    #[test]
    fn is_no_is_found_before_a_thing_and_not_after_there() {
        assert_eq!(found_in("a\n5 is no port"), [(2, "is no".to_owned())]);
        for right in ["There is no port.", "It is no longer there.", "B is no worse.", "is not a port"] {
            assert_eq!(found_in(right), [], "{right}");
        }
    }

    fn found_in(text: &str) -> Vec<(usize, String)> {
        let found = uses(&rules(TABLE), "a.md", 1, text);
        found.into_iter().map(|found| (found.line, found.words)).collect()
    }

    #[test]
    fn a_word_of_the_table_is_found_with_its_line_and_what_to_write() {
        let found = uses(&rules(TABLE), "a.md", 1, "It is so.\nHe was Told.");
        assert_eq!(found[0].to_string(), "a.md:2: \"told\": write reported");
        assert_eq!(found_in("What is said\n  of it"), [(1, "said of".to_owned())], "over the end of a line");
        assert_eq!(found_in("It is said. Of it"), [], "but not over the end of a sentence");
    }

    #[test]
    fn names_links_and_longer_words_are_left_alone() {
        for text in
            ["`told`", "`a\ntold`", "[why](a-host-is-told.md)", "[why](told)", "untold", "is_told", "a label"]
        {
            assert_eq!(found_in(text), [], "{text}");
        }
        assert_eq!(found_in("` left open\n\nshe told")[0].0, 3, "a span ends with its paragraph");
        assert_eq!(
            found_in("```\ntold\n\n```\ntold").len(),
            2,
            "what a program prints is read, and what follows"
        );
    }

    #[test]
    fn messages_are_the_strings_outside_tests() {
        let source = "
            /// A comment.
            #[error(\"{0} was told\")]
            struct A;
            fn f() { say(\"a\\nb told\"); key(\"told\"); say(\"{told} so\"); }
            #[test]
            fn t() { say(\"not this\"); }
            #[cfg(test)]
            mod tests { const A: &str = \"nor that\"; }
            #[cfg(not(test))]
            const B: &str = \"but this\";";
        let texts = texts(source, "a.rs").unwrap();
        assert_eq!(texts.comments, [(2, "  A comment. ".to_owned())]);
        let messages: Vec<&str> = texts.messages.iter().map(|(_, text)| text.trim()).collect();
        assert_eq!(messages, ["{ was told", "a b told", "{ so", "but this"]);
    }

    #[test]
    fn comments_are_read_over_the_ends_of_lines_and_strings_are_not_comments() {
        let source = "//! It was\n//! said\nfn f() {\n    a(); // twice\n    // more\n}\nconst A: &str = \"b // c\";\n// d";
        let read: Vec<(usize, String)> = comments(source);
        let wanted = [(1, "It was\nsaid"), (4, "twice"), (5, "more"), (8, "d")];
        assert_eq!(read, wanted.map(|(line, text)| (line, text.to_owned())));
    }

    #[test]
    fn a_name_is_read_as_its_words() {
        let source = "fn is_told(a: WasSaidOf) {}\nmod tests { fn is_told() { untold(\"told\") } }";
        let found: Vec<(usize, String)> = names(source, "a.rs")
            .unwrap()
            .iter()
            .flat_map(|(line, name)| uses(&rules(TABLE), "a.rs", *line, name))
            .map(|found| (found.line, found.words))
            .collect();
        let wanted = [(1, "said of".to_owned()), (1, "told".to_owned())];
        assert_eq!(found, wanted, "each once; a longer word and a string are left alone");
        assert_eq!(
            [spoken("WasSaidOf"), spoken("said_of"), spoken("TOLD")],
            ["was said of", "said of", "told"]
        );
    }

    #[test]
    fn a_file_has_a_name_too() {
        assert_eq!(names("", "crates/a/src/was_told.rs").unwrap(), [(1, "was told".to_owned())]);
    }

    #[test]
    fn data_and_scripts_are_read_over_the_ends_of_lines_with_comments_texts_and_names() {
        let found = |sign: &str, source: &str| -> Vec<usize> {
            let found = uses(&rules(TABLE), "a", 1, &readable(source, sign));
            found.into_iter().map(|found| found.line).collect()
        };
        let toml = "# It was said\n# of it.\nabout = \"\"\"\nIt is \\\nno port.\"\"\"\nis_told = \"`told` is a name\" # told";
        assert_eq!(found("#", toml), [1, 4, 6, 6]);
        let script = "// It was said\n  // of it.\nconst isTold = [\"a\\ntold\", `${b} is no port`]; // told";
        assert_eq!(found("//", script), [1, 3, 3, 3, 3]);
        assert_eq!(found("--", &toml.replace('#', "--")), [1, 4, 6, 6]);
    }

    #[test]
    fn data_files_and_scripts_of_each_kind_are_read() {
        // A word of each: the rules of this test.
        let table = "| `schema`, `suite`, `published`, `weight`, `draws`, `echarts`, `build`, `licenses`, `pika`, `font`, `keys`, `session`, `ci`, `func` | - |";
        let found = in_data(&rules(table)).unwrap();
        let is_read = |file: &str| found.iter().any(|found| found.file == file);
        for folder in ["scenarios", "profiles", "crates/tilemark-image/images"] {
            for path in files(&workspace().join(folder), "toml").unwrap() {
                assert!(is_read(&name_of(&path)), "{} is not read", path.display());
            }
        }
        for file in [
            "crates/tilemark-plan/src/workload/job-mixes.toml",
            "crates/tilemark-plan/src/workload/session-shapes.toml",
            "crates/tilemark-report/published.toml",
            "crates/tilemark-report/assets/report.js",
            "crates/tilemark-report/assets/report.css",
            "crates/tilemark-broker/tests/pika_client.py",
            "crates/tilemark-broker/tests/go_client/main.go",
            "crates/tilemark-store/sql/mariadb-tables.sql",
            "crates/tilemark-workloads/src/sessions/page.php",
            "xtask/src/lab/image.toml",
            "packaging/build.sh",
            "Makefile",
            "deny.toml",
            ".ci/run",
        ] {
            assert!(is_read(file), "{file} is not read");
        }
        assert!(!found.iter().any(|found| found.file.contains("echarts/")), "third-party files are read");
    }

    #[test]
    fn a_number_of_words_left_may_fall_and_never_rise() {
        let one = uses(&rules(TABLE), "a.rs", 1, "told");
        let found = BTreeMap::from([("a".to_owned(), one)]);
        let against = |most: &[(&str, usize)]| {
            let allowed = most.iter().map(|(name, most)| ((*name).to_owned(), *most)).collect();
            against_left(&found, &allowed).join("; ")
        };
        assert_eq!(against(&[("a", 1)]), "");
        assert!(
            against(&[]).starts_with("a has 1 such words in its messages, at most 0 may be left:\na.rs:1")
        );
        assert!(against(&[("a", 2)]).starts_with("a has fewer such words"));
        assert!(against(&[("a", 1), ("b", 1)]).starts_with("b has fewer such words"));
    }

    #[test]
    fn documents_help_messages_names_and_comments_keep_to_the_words() {
        check().unwrap();
    }
}
