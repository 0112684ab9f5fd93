//! The modules of a crate, and the module that a path leads to. Tests are left out, with the files that only they have.

use super::contents::{Contents, Names};
use anyhow::{Context, Result, anyhow};
use proc_macro2::TokenStream;
use std::{
    collections::{BTreeMap, BTreeSet},
    path::{Path, PathBuf},
};

/// What follows `crate::` in the path of a module.
type Place = Vec<String>;
/// What reads a file; `None` is that there is no such file.
pub(super) type Reader<'a> = &'a dyn Fn(&Path) -> Option<String>;

/// A name is not followed through more imports than this: they could lead back to it.
const IMPORTS_MAX: usize = 8;

/// All modules of a crate.
#[derive(Debug, Default)]
pub(super) struct Modules(BTreeMap<Place, Module>);

/// A module: a whole file, or one between braces in a file.
#[derive(Debug)]
struct Module {
    file: PathBuf,
    /// The module that is the whole file.
    home: Place,
    contents: Contents,
}

/// Where a path leads: to a module, or to an item of it.
struct Target {
    place: Place,
    is_item: bool,
}

impl Modules {
    /// Reads the file of a crate's root, and those of all its modules.
    pub(super) fn read(root: &Path, read: Reader<'_>) -> Result<Self> {
        let mut modules = Self::default();
        modules.add_file(Place::new(), &[root.to_owned()], read)?;
        Ok(modules)
    }

    /// Adds a module of which one of these is the file.
    fn add_file(&mut self, place: Place, files: &[PathBuf], read: Reader<'_>) -> Result<()> {
        let found = files.iter().find_map(|file| Some((file, read(file)?)));
        let (file, text) = found.with_context(|| format!("there is no {}", files[0].display()))?;
        let tokens = text.parse::<TokenStream>().map_err(|_| anyhow!("{} is not Rust", file.display()))?;
        let is_in_its_folder = place.is_empty() || file.ends_with("mod.rs");
        let folder =
            if is_in_its_folder { file.parent().unwrap_or(file).into() } else { file.with_extension("") };
        let module = Module { file: file.clone(), home: place.clone(), contents: Contents::read(tokens) };
        self.add(place, module, &folder, read)
    }

    /// Adds a module and those that it declares, whose files are in this folder.
    fn add(&mut self, place: Place, mut module: Module, folder: &Path, read: Reader<'_>) -> Result<()> {
        for (name, tokens) in std::mem::take(&mut module.contents.modules) {
            let (inner, folder) = (below(&place, &name), folder.join(name));
            if let Some(tokens) = tokens {
                let (file, home) = (module.file.clone(), module.home.clone());
                self.add(inner, Module { file, home, contents: Contents::read(tokens) }, &folder, read)?;
            } else {
                self.add_file(inner, &[folder.with_extension("rs"), folder.join("mod.rs")], read)?;
            }
        }
        self.0.insert(place, module);
        Ok(())
    }

    /// Each file, with the other files that define what it uses. A file does not use what it exports from below it.
    pub(super) fn uses(&self) -> BTreeMap<&Path, BTreeSet<&Path>> {
        let mut uses = BTreeMap::<_, BTreeSet<_>>::new();
        for (place, module) in &self.0 {
            let lead = |path: &Names| self.follow(place, path, IMPORTS_MAX);
            let used = module.contents.used.iter().filter_map(lead);
            let exported = module.contents.exported.iter().filter_map(lead);
            let from_elsewhere = exported.filter(|target| !target.place.starts_with(&module.home));
            let files = used.chain(from_elsewhere).map(|target| self.0[&target.place].file.as_path());
            uses.entry(module.file.as_path()).or_default().extend(files.filter(|file| *file != module.file));
        }
        uses
    }

    /// Where a path in this module leads; `None` is another crate.
    fn follow(&self, from: &Place, path: &[String], imports: usize) -> Option<Target> {
        let mut place = from.clone();
        for (at, name) in path.iter().enumerate() {
            match name.as_str() {
                "crate" => place.clear(),
                "self" => {}
                "super" => _ = place.pop(),
                name => match self.find(&place, name, imports) {
                    Some(Target { place: module, is_item: false }) => place = module,
                    None if at == 0 => return None,
                    // A macro makes it: it is in this module, and its name is not in the source.
                    None => return Some(Target { place, is_item: true }),
                    item => return item,
                },
            }
        }
        Some(Target { place, is_item: false })
    }

    /// What a name is in this module.
    fn find(&self, place: &Place, name: &str, imports: usize) -> Option<Target> {
        let module = below(place, name);
        if self.0.contains_key(&module) {
            return Some(Target { place: module, is_item: false });
        }
        let contents = &self.0.get(place)?.contents;
        if contents.items.contains(name) {
            return Some(Target { place: place.clone(), is_item: true });
        }
        let imports = imports.checked_sub(1)?;
        if let Some(path) = contents.imports.get(name) {
            return self.follow(place, path, imports);
        }
        contents.globs.iter().find_map(|glob| {
            let module = self.follow(place, glob, imports).filter(|target| !target.is_item)?;
            self.find(&module.place, name, imports)
        })
    }
}

/// The place of a module in another.
fn below(place: &Place, name: &str) -> Place {
    place.iter().map(String::as_str).chain([name]).map(str::to_owned).collect()
}
