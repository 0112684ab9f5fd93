//! The jobs with files. Each byte of a file is known from its place, so what is read is compared with what must be there.

use super::kernels::{BadJob, each_once, expect};
use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Bytes of a block, as in AIM7's jobs.
pub(super) const BLOCK: usize = 1 << 10;
/// Blocks between two synchronizations: 1 MiB.
const BLOCKS_UNSYNCHRONIZED: u64 = 1 << 10;
/// The period of a file's bytes.
const PERIOD: usize = 251;
/// Folders that are searched, and files in each of them.
const SEARCHED: (usize, usize) = (4, 8);
/// One of so many files has the word.
const HAS_WORD: usize = 8;
const WORD: &str = "tilemark";
/// Files or folders that are made before they are removed.
const MADE: usize = 32;
/// Second names of a file at once.
const NAMES: u64 = 8;

/// Where a user's files are, and how large the large ones are.
#[derive(Debug, Clone)]
pub(super) struct UserFiles {
    /// The user's own folder.
    pub(super) folder: PathBuf,
    /// Bytes of a large file: whole blocks.
    pub(super) bytes: usize,
}

/// What is written into a file, and how.
#[derive(Debug, Clone, Copy)]
pub(super) struct Writing {
    pub(super) source: Source,
    pub(super) order: Order,
    pub(super) sync: Sync,
}

/// Where the bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Source {
    /// From memory.
    Memory,
    /// From the file that is read.
    File,
}

/// In which order blocks are written.
#[derive(Debug, Clone, Copy)]
pub(super) enum Order {
    Sequential,
    Random,
}

/// Whether the file is synchronized with the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sync {
    Never,
    EachMib,
}

/// More than one period of what a file holds.
static PATTERN: [u8; BLOCK + PERIOD] = {
    let mut bytes = [0; BLOCK + PERIOD];
    let mut place = 0;
    while place < bytes.len() {
        bytes[place] = (place % PERIOD) as u8;
        place += 1;
    }
    bytes
};

/// What a block holds, in a file whose bytes are moved by `shift`.
fn block(number: usize, shift: usize) -> &'static [u8] {
    let begin = (number * BLOCK + shift) % PERIOD;
    &PATTERN[begin..begin + BLOCK]
}

impl UserFiles {
    fn blocks(&self) -> usize {
        self.bytes / BLOCK
    }

    fn written(&self) -> PathBuf {
        self.folder.join("written")
    }

    /// The file that is read. The first job of a user that needs it makes it.
    fn data(&self) -> Result<PathBuf, BadJob> {
        let path = self.folder.join("read");
        if fs::metadata(&path).map_or(0, |file| file.len()) != self.bytes as u64 {
            let mut file = File::create(&path)?;
            (0..self.blocks()).try_for_each(|number| file.write_all(block(number, 0)))?;
        }
        Ok(path)
    }

    /// Reads so many blocks one after the other, the file again and again.
    pub(super) fn read(&self, blocks: u64) -> Result<(), BadJob> {
        let path = self.data()?;
        self.passes(blocks, |_, of_pass| {
            let mut file = File::open(&path)?;
            let mut found = [0; BLOCK];
            for number in 0..of_pass {
                file.read_exact(&mut found)?;
                right_block(&found, number, 0)?;
            }
            Ok(())
        })
    }

    /// Reads so many blocks in random order.
    pub(super) fn random_read(&self, blocks: u64) -> Result<(), BadJob> {
        let file = File::open(self.data()?)?;
        let mut found = [0; BLOCK];
        self.passes(blocks, |pass, of_pass| {
            for number in each_once(self.blocks(), pass).take(of_pass) {
                file.read_exact_at(&mut found, (number * BLOCK) as u64)?;
                right_block(&found, number, 0)?;
            }
            Ok(())
        })
    }

    /// Writes so many blocks into a file, reads it again and removes it; again and again where the file has fewer.
    pub(super) fn write(&self, blocks: u64, how: Writing) -> Result<(), BadJob> {
        let source = match how.source {
            Source::Memory => None,
            Source::File => Some(File::open(self.data()?)?),
        };
        self.passes(blocks, |pass, of_pass| {
            let shift = if source.is_some() { 0 } else { pass };
            self.write_file(of_pass, shift, how, source.as_ref())?;
            self.check_written(of_pass, shift)?;
            Ok(fs::remove_file(self.written())?)
        })
    }

    fn write_file(
        &self,
        blocks: usize,
        shift: usize,
        how: Writing,
        source: Option<&File>,
    ) -> Result<(), BadJob> {
        let mut target = File::create(self.written())?;
        let mut read = [0; BLOCK];
        let numbers: Box<dyn Iterator<Item = usize>> = match how.order {
            Order::Sequential => Box::new(0..blocks),
            Order::Random => Box::new(each_once(blocks, shift)),
        };
        for (done, number) in (1_u64..).zip(numbers) {
            let bytes = match source {
                None => block(number, shift),
                Some(source) => {
                    source.read_exact_at(&mut read, (number * BLOCK) as u64)?;
                    &read[..]
                }
            };
            match how.order {
                Order::Sequential => target.write_all(bytes)?,
                Order::Random => target.write_all_at(bytes, (number * BLOCK) as u64)?,
            }
            if how.sync == Sync::EachMib
                && (done.is_multiple_of(BLOCKS_UNSYNCHRONIZED) || done == blocks as u64)
            {
                target.sync_all()?;
            }
        }
        Ok(())
    }

    fn check_written(&self, blocks: usize, shift: usize) -> Result<(), BadJob> {
        let mut file = File::open(self.written())?;
        expect("the length of a written file", file.metadata()?.len(), (blocks * BLOCK) as u64)?;
        let mut found = [0; BLOCK];
        for number in 0..blocks {
            file.read_exact(&mut found)?;
            right_block(&found, number, shift)?;
        }
        Ok(())
    }

    /// Splits so many blocks into passes over a file; each gets its number and how many blocks it has.
    fn passes(
        &self,
        blocks: u64,
        mut pass: impl FnMut(usize, usize) -> Result<(), BadJob>,
    ) -> Result<(), BadJob> {
        let mut left = blocks;
        for number in 0.. {
            let of_pass = left.min(self.blocks() as u64);
            if of_pass == 0 {
                break;
            }
            pass(number, of_pass as usize)?;
            left -= of_pass;
        }
        Ok(())
    }

    /// Searches a tree of small files for a word. The first such job of a user makes it.
    pub(super) fn search(&self) -> Result<(), BadJob> {
        let (folders, files) = SEARCHED;
        let tree = self.folder.join("tree");
        if !tree.exists() {
            make_tree(&self.folder.join("new-tree"))?;
            fs::rename(self.folder.join("new-tree"), &tree)?;
        }
        let found = search(&tree)?;
        expect("the number of files that were searched", found.files, folders * files)?;
        expect("the number of files with the word", found.with_word, folders * files / HAS_WORD)
    }

    /// Creates, closes, counts and removes files.
    pub(super) fn create(&self) -> Result<(), BadJob> {
        let folder = self.emptied("created")?;
        for number in 0..MADE {
            drop(OpenOptions::new().write(true).create_new(true).open(folder.join(number.to_string()))?);
        }
        expect("the number of created files", fs::read_dir(&folder)?.count(), MADE)?;
        (0..MADE).try_for_each(|number| fs::remove_file(folder.join(number.to_string())))?;
        // Fails where one is left.
        Ok(fs::remove_dir(folder)?)
    }

    /// Makes, lists and removes folders.
    pub(super) fn folders(&self) -> Result<(), BadJob> {
        let folder = self.emptied("folders")?;
        (0..MADE).try_for_each(|number| fs::create_dir(folder.join(number.to_string())))?;
        for _ in 0..2 {
            let mut sum = 0;
            for entry in fs::read_dir(&folder)? {
                let entry = entry?;
                let number = entry.file_name().to_str().and_then(|name| name.parse::<usize>().ok());
                sum += number.filter(|_| entry.file_type().is_ok_and(|kind| kind.is_dir())).unwrap_or(MADE);
            }
            expect("the sum of the names of all folders", sum, MADE * (MADE - 1) / 2)?;
        }
        (0..MADE).try_for_each(|number| fs::remove_dir(folder.join(number.to_string())))?;
        Ok(fs::remove_dir(folder)?)
    }

    /// Gives a file other names, and takes them away.
    pub(super) fn links(&self) -> Result<(), BadJob> {
        let folder = self.emptied("links")?;
        let first = folder.join("first");
        File::create_new(&first)?;
        let names = |path: &Path| Ok::<u64, io::Error>(fs::metadata(path)?.nlink());
        (0..NAMES).try_for_each(|number| fs::hard_link(&first, folder.join(number.to_string())))?;
        expect("the number of names of a file", names(&folder.join("0"))?, NAMES + 1)?;
        (0..NAMES).try_for_each(|number| fs::remove_file(folder.join(number.to_string())))?;
        expect("the number of names that are left", names(&first)?, 1)?;
        fs::remove_file(first)?;
        Ok(fs::remove_dir(folder)?)
    }

    /// A folder without what a job left there that failed.
    fn emptied(&self, name: &str) -> io::Result<PathBuf> {
        let folder = self.folder.join(name);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                fs::remove_dir_all(&folder)?;
                fs::create_dir(&folder)?;
            }
            made => made?,
        }
        Ok(folder)
    }
}

fn right_block(found: &[u8], number: usize, shift: usize) -> Result<(), BadJob> {
    if found == block(number, shift) {
        return Ok(());
    }
    Err(BadJob::Wrong(format!("block {number} of a file is not what was written")))
}

fn make_tree(tree: &Path) -> io::Result<()> {
    if tree.exists() {
        fs::remove_dir_all(tree)?;
    }
    let (folders, files) = SEARCHED;
    for folder in 0..folders {
        let folder = tree.join(folder.to_string());
        fs::create_dir_all(&folder)?;
        for file in 0..files {
            let word = if file % HAS_WORD == HAS_WORD / 2 { WORD } else { "" };
            fs::write(folder.join(file.to_string()), format!("{}{word}\n", "tile mark ".repeat(100)))?;
        }
    }
    Ok(())
}

/// What a search found.
#[derive(Default)]
struct Found {
    files: usize,
    with_word: usize,
}

fn search(folder: &Path) -> io::Result<Found> {
    let mut found = Found::default();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            let below = search(&entry.path())?;
            found.files += below.files;
            found.with_word += below.with_word;
        } else {
            found.files += 1;
            found.with_word += usize::from(fs::read_to_string(entry.path())?.contains(WORD));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(blocks: usize) -> (tempfile::TempDir, UserFiles) {
        let folder = tempfile::tempdir().unwrap();
        let files = UserFiles { folder: folder.path().to_owned(), bytes: blocks * BLOCK };
        (folder, files)
    }

    fn names(files: &UserFiles) -> Vec<String> {
        let names = fs::read_dir(&files.folder).unwrap();
        names.map(|file| file.unwrap().file_name().into_string().unwrap()).collect()
    }

    fn damage(path: &Path) {
        let mut bytes = fs::read(path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        fs::write(path, bytes).unwrap();
    }

    /// All ways to write.
    fn ways() -> impl Iterator<Item = Writing> {
        let sources = [Source::Memory, Source::File].into_iter();
        let orders = |source| [Order::Sequential, Order::Random].map(|order| (source, order));
        let syncs =
            |(source, order)| [Sync::Never, Sync::EachMib].map(|sync| Writing { source, order, sync });
        sources.flat_map(orders).flat_map(syncs)
    }

    #[test]
    fn files_are_written_whole_in_every_way_and_removed() {
        for (blocks, how) in [1, 5, 2_000].into_iter().flat_map(|blocks| ways().map(move |how| (blocks, how)))
        {
            let (_folder, files) = user(blocks);
            files
                .write(2 * blocks as u64 + 1, how)
                .unwrap_or_else(|error| panic!("{blocks} {how:?}: {error:?}"));
            let left = if how.source == Source::File { &["read"][..] } else { &[] };
            assert_eq!(names(&files), left, "{how:?}");
        }
    }

    #[test]
    fn a_written_file_that_is_damaged_shorter_or_of_another_pass_is_wrong() {
        let (_folder, files) = user(5);
        let how = Writing { source: Source::Memory, order: Order::Random, sync: Sync::Never };
        files.write_file(5, 3, how, None).unwrap();
        files.check_written(5, 3).unwrap();
        assert!(matches!(files.check_written(5, 4), Err(BadJob::Wrong(_))));
        assert!(matches!(files.check_written(4, 3), Err(BadJob::Wrong(_))));
        damage(&files.written());
        assert!(matches!(files.check_written(5, 3), Err(BadJob::Wrong(_))));
    }

    #[test]
    fn a_file_is_read_in_both_orders_and_found_wrong_where_a_byte_is() {
        let (_folder, files) = user(5);
        for blocks in [1, 5, 12] {
            files.read(blocks).unwrap();
            files.random_read(blocks).unwrap();
        }
        damage(&files.folder.join("read"));
        let copy = Writing { source: Source::File, order: Order::Sequential, sync: Sync::Never };
        for bad in [files.read(5), files.random_read(5), files.write(5, copy)] {
            assert!(matches!(bad, Err(BadJob::Wrong(_))), "{bad:?}");
        }
        // What a full disk cut off is made again.
        fs::write(files.folder.join("read"), "short").unwrap();
        files.read(5).unwrap();
    }

    #[test]
    fn what_is_searched_has_the_word_as_often_as_it_was_written() {
        let (_folder, files) = user(1);
        files.search().unwrap();
        files.search().unwrap();
        let with_word = files.folder.join("tree/1/4");
        fs::write(&with_word, "tile").unwrap();
        assert!(matches!(files.search(), Err(BadJob::Wrong(_))));
        fs::remove_file(&with_word).unwrap();
        assert!(matches!(files.search(), Err(BadJob::Wrong(_))));
    }

    #[test]
    fn small_files_folders_and_names_come_and_go_and_what_is_too_much_is_found() {
        let (_folder, files) = user(1);
        for job in [UserFiles::create, UserFiles::folders, UserFiles::links] {
            job(&files).unwrap();
            assert_eq!(names(&files), [""; 0]);
        }
        // What a job left that failed is in nobody's way.
        fs::create_dir_all(files.folder.join("created/7")).unwrap();
        files.create().unwrap();
    }

    #[test]
    fn what_is_in_a_block_depends_on_its_number() {
        let blocks: std::collections::BTreeSet<&[u8]> = (0..PERIOD).map(|number| block(number, 0)).collect();
        assert_eq!(blocks.len(), PERIOD);
        assert_eq!(block(3, 0)[7], ((3 * BLOCK + 7) % PERIOD) as u8);
    }
}
