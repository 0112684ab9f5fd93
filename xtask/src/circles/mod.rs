//! Files of a crate that use each other in a circle: whoever changes one must know all of them, so there may be few.

mod contents;
mod modules;

use anyhow::Result;
use modules::{Modules, Reader};
use std::{
    collections::{BTreeMap, BTreeSet},
    path::Path,
};

/// Files that may use each other, directly or through others.
const FILES_MAX: usize = 3;

type Uses<'a> = BTreeMap<&'a Path, BTreeSet<&'a Path>>;

/// The circles of too many files in the crate with this root, in words.
pub(crate) fn of_crate(root: &Path, read: Reader<'_>) -> Result<Vec<String>> {
    let modules = Modules::read(root, read)?;
    let uses = modules.uses();
    let too_many = circles(&uses).into_iter().filter(|circle| circle.len() > FILES_MAX);
    Ok(too_many.map(|circle| in_words(root, &circle, &uses)).collect())
}

/// The files in groups: in each, every file uses every other, directly or through others.
fn circles<'a>(uses: &Uses<'a>) -> BTreeSet<BTreeSet<&'a Path>> {
    let reached: Uses<'a> = uses.keys().map(|file| (*file, reached_from(file, uses))).collect();
    let circle = |(file, reached_here): (&&'a Path, &BTreeSet<&'a Path>)| {
        reached_here.iter().copied().filter(|other| reached[other].contains(file)).collect()
    };
    reached.iter().map(circle).collect()
}

/// What a file uses, directly or through others.
fn reached_from<'a>(file: &Path, uses: &Uses<'a>) -> BTreeSet<&'a Path> {
    let mut reached = BTreeSet::new();
    let mut next: Vec<&Path> = uses[file].iter().copied().collect();
    while let Some(file) = next.pop() {
        if reached.insert(file) {
            next.extend(&uses[file]);
        }
    }
    reached
}

fn in_words(root: &Path, circle: &BTreeSet<&Path>, uses: &Uses<'_>) -> String {
    let folder = root.parent().unwrap_or(root);
    let name = |file: &Path| file.strip_prefix(folder).unwrap_or(file).display().to_string();
    let line = |file: &&Path| {
        let used: Vec<String> = uses[file].intersection(circle).map(|file| name(file)).collect();
        format!("\n  {} uses {}", name(file), used.join(", "))
    };
    format!(
        "{}: {} files use each other in a circle, at most {FILES_MAX} may: move what they share into a file below them{}",
        folder.display(),
        circle.len(),
        circle.iter().map(line).collect::<String>()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The circles in a crate with these files, of which the root is `lib.rs`.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let read = |path: &Path| {
            let (_, text) = files.iter().find(|(file, _)| Path::new("src").join(file) == path)?;
            Some((*text).to_owned())
        };
        of_crate(Path::new("src/lib.rs"), &read).unwrap()
    }

    #[test]
    fn a_circle_of_four_files_is_named_with_what_each_uses() {
        let files = [
            ("lib.rs", "mod a; mod b; mod c;"),
            ("a.rs", "use crate::{b::{self, B as Other}, c}; pub struct A(Other);"),
            ("b.rs", "mod inner; pub struct B(super::c::C); fn f() { inner::I::new() }"),
            ("b/inner.rs", "pub use crate::c::C; pub struct I;"),
            ("c.rs", "fn f() { fn g() { use super::a; a::A::new(|| std::a::b()) } }"),
        ];
        let circle = "src: 4 files use each other in a circle, at most 3 may: move what they share into a file below them
  a.rs uses b.rs, c.rs
  b/inner.rs uses c.rs
  b.rs uses b/inner.rs, c.rs
  c.rs uses a.rs";
        assert_eq!(found(&files), [circle]);
    }

    /// Whether `d.rs` with this source closes a circle of `a.rs`, `b.rs`, `c.rs` and itself.
    fn is_closed_by(source: &str) -> bool {
        let files = [
            (
                "lib.rs",
                "mod a; mod b; mod c; mod d; pub use a::A; pub(crate) use a::A as Inner; pub mod out { pub use crate::a::*; }",
            ),
            ("a.rs", "use crate::b::B; pub struct A; pub(crate) mod part { pub(super) fn f() {} }"),
            ("b.rs", "pub struct B(super::c::C);"),
            ("c.rs", "pub struct C { d: crate::d::D }"),
            ("d.rs", source),
            ("d/fakes.rs", "use crate::a::A;"),
        ];
        !found(&files).is_empty()
    }

    #[test]
    fn three_files_may_use_each_other() {
        assert!(!is_closed_by("use super::b::B; pub struct D;"));
        assert!(is_closed_by("use super::a; pub struct D;"));
    }

    #[test]
    fn an_export_leads_to_the_file_that_defines_it_and_is_not_a_use() {
        for used in [
            "crate::A",
            "super::Inner::new",
            "crate::out::A",
            "super::out::{self, A as B}",
            "crate::a::part::f",
        ] {
            assert!(is_closed_by(&format!("use {used};")), "{used}");
        }
        assert!(is_closed_by("pub use crate::A;"), "an export from elsewhere is a use");
        for other in ["crate::made_by_a_macro", "crate::out", "std::a::A", "::a::A", "a::A"] {
            assert!(!is_closed_by(&format!("use {other};")), "{other}");
        }
    }

    #[test]
    fn a_file_uses_what_it_exports_if_its_own_code_has_it() {
        let is_closed_by = |code: &str| {
            let root = format!("mod a; mod b; mod c; pub use a::A; pub struct L; {code}");
            let files = [
                ("lib.rs", root.as_str()),
                ("a.rs", "pub struct A(crate::b::B);"),
                ("b.rs", "pub struct B(crate::c::C);"),
                ("c.rs", "pub struct C(crate::L);"),
            ];
            !found(&files).is_empty()
        };
        assert!(is_closed_by("fn f() -> &'static A {}"));
        assert!(!is_closed_by("fn f(&self) -> &'static L {}"));
    }

    #[test]
    fn paths_count_wherever_they_are() {
        let paths = [
            "fn f() -> Vec<crate::a::A> {}",
            "thread_local! { static D: crate::A = const { 1 }; }",
            "macro_rules! d { ($d:ident) => { $crate::a::A::$d } }",
            "mod inner { fn f() -> impl Fn() + use<> { super::super::a::part::f() } }",
            "use crate as root; fn f() { root::a::part::f() }",
        ];
        for source in paths {
            assert!(is_closed_by(source), "{source}");
        }
        assert!(
            !is_closed_by("pub(in crate::a) fn f() { D::<u8>::a::A(); self.a() }"),
            "no path of this crate"
        );
    }

    #[test]
    fn tests_comments_and_strings_do_not_count() {
        let sources = [
            "#[cfg(test)] mod tests { use crate::a::A; }",
            "#[cfg(test)] use crate::a::A; #[test] fn f() { crate::a::part::f() }",
            "#[cfg(any(test, feature = \"fakes\"))] mod fakes;",
            "// crate::a::A\n/* super::a::A */ /// [crate::a::A]\nconst D: &str = \"crate::a::A\";",
        ];
        for source in sources {
            assert!(!is_closed_by(source), "{source}");
        }
        assert!(is_closed_by("mod fakes; fn f() { fakes::f() }"), "a file for more than tests counts");
    }
}
