//! Fetches the extra files of a specification, by the helper that comes with apt: it knows the host's proxies and
//! certificates, and refuses a file of another hash.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use tilemark_sys::below::Below;

use crate::command::Tool;
use crate::maven;
use crate::progress::{Progress, Step};
use crate::spec::{ExtraFile, FileSource, ImageSpec};
use crate::tree::Tree;
use crate::{ImageError, Result, Sha256Hash};

/// Bytes of a file of the host at most, as all of a scenario's together.
const HOST_BYTES_MAX: u64 = 1 << 30;
const HELPER: &str = "/usr/lib/apt/apt-helper";

/// Fetches each file into `build`, and puts it into the tree.
pub(crate) fn add_extra_files(
    spec: &ImageSpec,
    build: &Path,
    tree: &Tree,
    progress: &mut dyn Progress,
) -> Result<()> {
    if spec.files.is_empty() {
        return Ok(());
    }
    progress.step(Step::ExtraFiles);
    for (index, file) in spec.files.iter().enumerate() {
        let FileSource::Url(url) = &file.source else {
            let content = content_of(file)?;
            tree.add_file(Path::new(file.path.trim_start_matches('/')), &content, file.mode)?;
            continue;
        };
        // The hash decides what is taken, wherever it comes from.
        let url = maven::nearest(url, maven::mirror().as_deref());
        progress.line(&url);
        let fetched = build.join(format!("extra-{index}"));
        fetch(file, &url, &fetched, progress)?;
        let content = fs::read(&fetched).map_err(ImageError::io("read", &fetched))?;
        tree.add_file(Path::new(file.path.trim_start_matches('/')), &content, file.mode)?;
    }
    Ok(())
}

/// The content of a file of the host, or of a text, which must be what it was when the image was asked for.
pub(crate) fn content_of(file: &ExtraFile) -> Result<Vec<u8>> {
    let (path, content) = match &file.source {
        FileSource::Host { folder, name } => {
            let path = folder.join(name);
            let content = read_below(folder, name).map_err(ImageError::io("read", &path))?;
            (path, content)
        }
        FileSource::Text(text) => (file.path.clone().into(), text.clone().into_bytes()),
        FileSource::Url(_) | FileSource::InImage => {
            return Err(ImageError::NoSource { path: file.path.clone() });
        }
    };
    let found = Sha256Hash::of(&content);
    if found == file.sha256 {
        return Ok(content);
    }
    Err(ImageError::FileChanged { path })
}

/// Reads a file of the host once more: whoever may write there could have put anything in its place.
fn read_below(folder: &Path, name: &Path) -> io::Result<Vec<u8>> {
    let mut content = Vec::new();
    let file = Below::folder(folder)?.open(name)?.file()?;
    file.take(HOST_BYTES_MAX).read_to_end(&mut content)?;
    Ok(content)
}

fn fetch(file: &ExtraFile, url: &str, target: &Path, progress: &mut dyn Progress) -> Result<()> {
    let ended = Tool::new(HELPER, "apt")
        .args(["-o", "APT::Sandbox::User=root", "download-file", url])
        .arg(target)
        .arg(format!("SHA256:{}", file.sha256))
        .run(progress)?;
    ended.map_err(|failure| ImageError::ExtraFile { url: url.to_owned(), output: failure.output })?;
    // Not left to a program whose behaviour we do not test.
    let found = File::open(target).and_then(Sha256Hash::of_reader).map_err(ImageError::io("read", target))?;
    if found == file.sha256 {
        return Ok(());
    }
    Err(ImageError::HashMismatch { path: target.to_owned(), expected: file.sha256, found })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{CWD, FileType, mknodat};
    use std::io::{BufRead, BufReader, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;

    use crate::Silent;

    #[test]
    fn a_file_of_the_host_that_was_exchanged_for_a_link_or_a_pipe_is_not_added() {
        let folder = tempfile::tempdir().unwrap();
        let place = folder.path().canonicalize().unwrap();
        let at = |name: &str| place.join(name);
        fs::create_dir_all(at("site/app")).unwrap();
        fs::write(at("site/app/page"), "a page").unwrap();
        let file = ExtraFile {
            path: "/srv/page".into(),
            source: FileSource::Host { folder: at("site"), name: "app/page".into() },
            sha256: Sha256Hash::of(b"a page"),
            mode: 0o644,
        };
        assert_eq!(content_of(&file).unwrap(), b"a page");
        // What is behind the links has the right hash: it was so when the image was asked for.
        fs::rename(at("site/app"), at("elsewhere")).unwrap();
        symlink(at("elsewhere"), at("site/app")).unwrap();
        assert!(matches!(content_of(&file), Err(ImageError::Io { .. })));
        fs::remove_file(at("site/app")).unwrap();
        fs::create_dir(at("site/app")).unwrap();
        symlink(at("elsewhere/page"), at("site/app/page")).unwrap();
        assert!(matches!(content_of(&file), Err(ImageError::Io { .. })));
        // Nobody writes to it: reading it would wait without end.
        fs::remove_file(at("site/app/page")).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        mknodat(CWD, at("site/app/page"), FileType::Fifo, mode, 0).unwrap();
        assert!(matches!(content_of(&file), Err(ImageError::Io { .. })));
        fs::rename(at("site"), at("moved")).unwrap();
        fs::rename(at("elsewhere"), at("moved/other")).unwrap();
        symlink(at("moved"), at("site")).unwrap();
        let other = FileSource::Host { folder: at("site"), name: "other/page".into() };
        assert!(matches!(content_of(&ExtraFile { source: other, ..file }), Err(ImageError::Io { .. })));
    }

    /// Answers two requests with this content and returns its URL.
    fn serve_twice(content: &'static [u8]) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        std::thread::spawn(move || {
            for stream in listener.incoming().take(2) {
                let mut stream = stream.unwrap();
                let request = BufReader::new(stream.try_clone().unwrap());
                request.lines().map_while(std::result::Result::ok).find(String::is_empty);
                let head = format!(
                    "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                    content.len()
                );
                stream.write_all(head.as_bytes()).unwrap();
                stream.write_all(content).unwrap();
            }
        });
        format!("http://{address}/file")
    }

    #[test]
    fn a_file_with_the_stated_hash_comes_into_the_tree_and_another_does_not() {
        if !Path::new(HELPER).exists() {
            return tilemark_fixtures::skipped(&format!("{HELPER} is not installed"));
        }
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("tree");
        fs::create_dir(&root).unwrap();
        let tree = Tree::new(root).unwrap();
        let mut spec = ImageSpec::built_in("first-look").unwrap();
        let url = serve_twice(b"content");
        spec.files = vec![ExtraFile {
            path: "/opt/tool".into(),
            source: FileSource::Url(url.clone()),
            sha256: Sha256Hash::of(b"content"),
            mode: 0o755,
        }];
        add_extra_files(&spec, folder.path(), &tree, &mut Silent).unwrap();
        assert_eq!(fs::read(tree.root().join("opt/tool")).unwrap(), b"content");

        spec.files[0].sha256 = Sha256Hash::of(b"other content");
        spec.files[0].path = "/opt/other".into();
        let error = add_extra_files(&spec, &folder.path().join("tree"), &tree, &mut Silent).unwrap_err();
        assert!(matches!(&error, ImageError::ExtraFile { url: named, .. } if *named == url), "{error}");
        assert!(!tree.root().join("opt/other").exists());
    }
}
