//! Where files of Maven Central come from on this host: a mirror, if its people named one.

use std::fs;
use std::path::PathBuf;

/// Maven Central, as specifications name it.
const CENTRAL: &str = "https://repo1.maven.org/maven2/";
/// Names another place with the same files.
const VARIABLE: &str = "TILEMARK_MAVEN";

/// The URL to fetch from.
pub(crate) fn nearest(url: &str, mirror: Option<&str>) -> String {
    match (url.strip_prefix(CENTRAL), mirror) {
        (Some(path), Some(mirror)) => format!("{}/{path}", mirror.trim_end_matches('/')),
        _ => url.to_owned(),
    }
}

/// The mirror that this host's people named: in the environment, or in Maven's own settings.
pub(crate) fn mirror() -> Option<String> {
    if let Some(named) = std::env::var(VARIABLE).ok().filter(|named| !named.is_empty()) {
        return Some(named);
    }
    let settings = PathBuf::from(std::env::var_os("HOME")?).join(".m2/settings.xml");
    mirror_of_central(&fs::read_to_string(settings).ok()?)
}

/// The first mirror of everything or of Central in a `settings.xml`, read for these few tags only.
fn mirror_of_central(settings: &str) -> Option<String> {
    let uncommented = without_comments(settings);
    let mut mirrors = uncommented.split("<mirror>").skip(1).filter_map(|rest| rest.split("</mirror>").next());
    let is_of_central = |mirror: &&str| {
        let names: Vec<&str> =
            element(mirror, "mirrorOf").unwrap_or_default().split(',').map(str::trim).collect();
        names.iter().any(|name| matches!(*name, "*" | "central" | "external:*"))
            && !names.contains(&"!central")
    };
    let url = element(mirrors.find(is_of_central)?, "url")?;
    Some(url.to_owned())
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("<!--");
    let mut kept = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        kept.push_str(part.split_once("-->").map_or("", |(_, after)| after));
    }
    kept
}

fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    let (content, _) = after.split_once(&format!("</{name}>"))?;
    Some(content.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_of_central_comes_from_its_mirror() {
        let central = "https://repo1.maven.org/maven2/a/b.jar";
        assert_eq!(nearest(central, Some("http://near/central/")), "http://near/central/a/b.jar");
        assert_eq!(nearest(central, None), central);
        assert_eq!(
            nearest("https://example.org/a/b.jar", Some("http://near")),
            "https://example.org/a/b.jar"
        );
    }

    #[test]
    fn a_mirror_is_read_from_maven_s_settings_and_a_comment_is_none() {
        let settings = |of: &str| {
            format!(
                "<settings><mirrors><!-- <mirror><mirrorOf>*</mirrorOf><url>http://no</url></mirror> -->\
                 <mirror><id>x</id><mirrorOf>jboss</mirrorOf><url>http://other</url></mirror>\
                 <mirror><mirrorOf>{of}</mirrorOf><url> http://near/maven </url></mirror></mirrors></settings>"
            )
        };
        for of in ["central", "*", "external:*", "a, central"] {
            assert_eq!(mirror_of_central(&settings(of)).as_deref(), Some("http://near/maven"), "{of}");
        }
        for of in ["jcenter", "*,!central", "external:http:*"] {
            assert_eq!(mirror_of_central(&settings(of)), None, "{of}");
        }
    }
}
