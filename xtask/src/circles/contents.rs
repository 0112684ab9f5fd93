//! What is in a module, read from its tokens: the items that it defines, what it imports and exports, and the paths that it uses.

use crate::sources::without_tests;
use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};
use std::collections::{BTreeMap, BTreeSet};

/// What is before the name of an item.
const ITEMS: [&str; 8] = ["const", "enum", "fn", "static", "struct", "trait", "type", "union"];

/// The names of a path, with `crate`, `self` and `super`.
pub(super) type Names = Vec<String>;

/// What is in a module.
#[derive(Debug, Default)]
pub(super) struct Contents {
    /// The items that it defines.
    pub(super) items: BTreeSet<String>,
    /// The names that it imports, and where they are from.
    pub(super) imports: BTreeMap<String, Names>,
    /// The modules that it imports everything of.
    pub(super) globs: Vec<Names>,
    /// The paths that it exports.
    pub(super) exported: BTreeSet<Names>,
    /// The paths that it uses.
    pub(super) used: BTreeSet<Names>,
    /// The modules that it declares, with what is between their braces.
    pub(super) modules: Vec<(String, Option<TokenStream>)>,
}

impl Contents {
    /// Reads the tokens of a module.
    pub(super) fn read(tokens: TokenStream) -> Self {
        let mut contents = Self::default();
        let tokens = without_tests(tokens);
        contents.read_items(&tokens);
        contents.read_paths(&tokens);
        contents
    }

    fn read_items(&mut self, tokens: &[TokenTree]) {
        for (place, pair) in tokens.windows(2).enumerate() {
            let [word, TokenTree::Ident(name)] = pair else { continue };
            // `'static` and `*const` are in types.
            let is_in_type = place.checked_sub(1).is_some_and(|before| is_one_of(&tokens[before], "'*"));
            let is_item = match word {
                TokenTree::Ident(word) => !is_in_type && ITEMS.iter().any(|item| word == item),
                // Of `macro_rules!`.
                sign => is_one_of(sign, "!"),
            };
            if is_item {
                self.items.insert(name.to_string());
            }
        }
    }

    /// Reads imports, modules and paths, those inside of items too.
    fn read_paths(&mut self, mut tokens: &[TokenTree]) {
        let mut is_exported = false;
        while let [token, after @ ..] = tokens {
            let is_visible = matches!(token, TokenTree::Ident(word) if word == "pub");
            tokens = match token {
                TokenTree::Ident(_) if is_visible => after_visibility(after),
                TokenTree::Ident(word) if word == "use" => self.read_use(after, is_exported),
                TokenTree::Ident(word) if word == "mod" => self.read_module(after),
                TokenTree::Ident(_) => self.read_path(tokens),
                TokenTree::Group(group) => {
                    self.read_paths(&without_tests(group.stream()));
                    after
                }
                // What follows is in another crate, or in a type.
                _ if is_double_colon(tokens) => path(&tokens[2..]).1,
                _ => after,
            };
            is_exported = is_visible;
        }
    }

    fn read_path<'a>(&mut self, tokens: &'a [TokenTree]) -> &'a [TokenTree] {
        let (names, after) = path(tokens);
        // A small name alone may be a variable's.
        if names.len() > 1 || names[0].starts_with(char::is_uppercase) {
            self.used.insert(names);
        }
        after
    }

    /// Reads what follows `mod`.
    fn read_module<'a>(&mut self, tokens: &'a [TokenTree]) -> &'a [TokenTree] {
        let [TokenTree::Ident(name), body, after @ ..] = tokens else { return tokens };
        match body {
            TokenTree::Group(group) => self.modules.push((name.to_string(), Some(group.stream()))),
            _ => self.modules.push((name.to_string(), None)),
        }
        after
    }

    /// Reads what follows `use`.
    fn read_use<'a>(&mut self, tokens: &'a [TokenTree], is_exported: bool) -> &'a [TokenTree] {
        // `use<>` in a type.
        if tokens.first().is_some_and(|token| is_one_of(token, "<")) {
            return tokens;
        }
        let end = tokens.iter().position(|token| is_one_of(token, ";")).unwrap_or(tokens.len());
        let (imported, after) = tokens.split_at(end);
        let known = if is_exported { &mut self.exported } else { &mut self.used };
        for (names, name) in imports(&[], imported) {
            known.insert(names.clone());
            match name {
                Some(name) => _ = self.imports.entry(name).or_insert(names),
                None => self.globs.push(names),
            }
        }
        after
    }
}

/// The paths of what follows `use` and these names, each with its name here: `*` has none.
fn imports(before: &[String], tokens: &[TokenTree]) -> Vec<(Names, Option<String>)> {
    let (names, mut after) = path(tokens);
    let names = [before, &names].concat();
    if is_double_colon(after) {
        after = &after[2..];
    }
    match after {
        [TokenTree::Group(list)] => {
            let list: Vec<TokenTree> = list.stream().into_iter().collect();
            let parts = list.split(|token| is_one_of(token, ",")).filter(|part| !part.is_empty());
            parts.flat_map(|part| imports(&names, part)).collect()
        }
        [TokenTree::Ident(_), TokenTree::Ident(name)] => vec![(names, Some(name.to_string()))],
        [] => {
            let name = names.iter().rfind(|name| *name != "self").cloned();
            vec![(names, name)]
        }
        [sign] if is_one_of(sign, "*") => vec![(names, None)],
        // Another crate.
        _ => Vec::new(),
    }
}

/// The names with `::` between them at the beginning of these tokens, and what follows them.
fn path(mut tokens: &[TokenTree]) -> (Names, &[TokenTree]) {
    let mut names = Names::new();
    while let [TokenTree::Ident(name), after @ ..] = tokens {
        names.push(name.to_string());
        tokens = after;
        match after {
            [_, _, next @ ..] if is_double_colon(after) && matches!(next, [TokenTree::Ident(_), ..]) => {
                tokens = next;
            }
            _ => break,
        }
    }
    (names, tokens)
}

/// What follows `pub`, without what may be in parentheses.
fn after_visibility(tokens: &[TokenTree]) -> &[TokenTree] {
    match tokens {
        [TokenTree::Group(group), after @ ..] if group.delimiter() == Delimiter::Parenthesis => after,
        _ => tokens,
    }
}

fn is_double_colon(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [TokenTree::Punct(sign), second, ..]
        if sign.as_char() == ':' && sign.spacing() == Spacing::Joint && is_one_of(second, ":"))
}

fn is_one_of(token: &TokenTree, signs: &str) -> bool {
    matches!(token, TokenTree::Punct(found) if signs.contains(found.as_char()))
}
