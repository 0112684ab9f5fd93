//! The image that guests boot: one by its name, or one that the scenario makes of packages and files.

use crate::JsonSchema;
use serde::{
    Deserialize, Deserializer, Serialize,
    de::{Error, MapAccess, Visitor, value::MapAccessDeserializer},
};
use std::{collections::BTreeMap, fmt};

/// Bytes of a path: what the kernel takes.
const PATH_BYTES_MAX: usize = 4_095;
/// The image of a scenario's guests.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum RequestedImage {
    /// The name of one inside the program, or the path of an `image.toml`.
    Named(String),
    /// One that the scenario makes.
    Made(ImageTable),
}

/// An image that a scenario makes: all that its guests' services and loads need, and this.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ImageTable {
    /// The image to begin with: the name of one inside the program, or the path of an `image.toml`. Default: only what the guests'
    /// services and loads need.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Packages of Debian, each `name` or `name=version`; what they need comes with them.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Files by their path in the guest: the path of a file or folder, as seen from the scenario's file, or the text itself, as in
    /// `{ "/srv/app" = "app", "/etc/app.conf" = { text = "port = 9000" } }`. A file that may be executed on the host may be executed in
    /// guests; all belong to root.
    #[serde(default)]
    pub files: BTreeMap<String, ImageFile>,
}

/// Where a file of an image comes from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged, expecting = "write the path of a file or folder, or `{ text = \"its content\" }`")]
pub enum ImageFile {
    /// A file or folder of the host.
    Host(String),
    /// Its content.
    Text {
        /// The whole content.
        text: String,
    },
}

impl RequestedImage {
    /// The one that is named; `None` where the scenario makes one.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Made(_) => None,
        }
    }

    /// The image that it names or begins with.
    pub fn from(&self) -> Option<&str> {
        match self {
            Self::Named(name) => Some(name),
            Self::Made(made) => made.from.as_deref(),
        }
    }

    /// All texts of it that a user wrote freely.
    pub fn texts_mut(&mut self) -> Vec<&mut String> {
        let made = match self {
            Self::Named(name) => return vec![name],
            Self::Made(made) => made,
        };
        let files = made.files.values_mut().map(|file| match file {
            ImageFile::Host(text) | ImageFile::Text { text } => text,
        });
        made.from.iter_mut().chain(files).collect()
    }
}

impl ImageTable {
    /// Files of the host that are not beside the scenario: by absolute paths, or by such as lead upwards.
    pub fn files_elsewhere(&self) -> impl Iterator<Item = (&String, &String)> {
        let hosts = self.files.iter().filter_map(|(path, file)| match file {
            ImageFile::Host(host) => Some((path, host)),
            ImageFile::Text { .. } => None,
        });
        hosts.filter(|(_, host)| !is_beside(host))
    }
}

/// Whether the name of an image is the path of its `image.toml`, not the name of one inside the program.
pub fn is_image_file(name: &str) -> bool {
    name.contains('/') || name.ends_with(".toml")
}

/// Whether a path leads neither to another place nor upwards.
pub fn is_beside(path: &str) -> bool {
    !path.starts_with('/') && path.split('/').all(|part| part != "..")
}

impl fmt::Display for RequestedImage {
    /// For a sentence: `` `web` ``, or what it is made of.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Named(name) => write!(formatter, "`{name}`"),
            Self::Made(ImageTable { from: Some(from), .. }) => {
                write!(formatter, "of the scenario, which begins with `{from}`,")
            }
            Self::Made(_) => formatter.write_str("of the scenario"),
        }
    }
}

impl<'de> Deserialize<'de> for RequestedImage {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;
        impl<'de> Visitor<'de> for NameOrTable {
            type Value = RequestedImage;
            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("the name of an image, the path of an image.toml, or a table")
            }
            fn visit_str<E: Error>(self, name: &str) -> Result<RequestedImage, E> {
                Ok(RequestedImage::Named(name.to_owned()))
            }
            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<RequestedImage, A::Error> {
                ImageTable::deserialize(MapAccessDeserializer::new(map)).map(RequestedImage::Made)
            }
        }
        deserializer.deserialize_any(NameOrTable)
    }
}

/// Whether it is an absolute path in a guest, without detours.
pub(crate) fn is_path(path: &str) -> bool {
    let parts = path.strip_prefix('/').filter(|rest| !rest.is_empty() && path.len() <= PATH_BYTES_MAX);
    parts.is_some_and(|parts| {
        !path.contains(char::is_control) && parts.split('/').all(|part| !["", ".", ".."].contains(&part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::Draft;

    fn read(image: &str) -> Result<RequestedImage, String> {
        let text = format!(
            "schema = 1\nname = \"s\"\nabout = \"s\"\n{image}\n[[guest]]\nname = \"g\"\nrole = \"web\"\n[ladder]\ntiles = [1]\n"
        );
        let draft = Draft::from_toml(&text, "test").map_err(|problems| problems.to_string())?;
        draft.finish().map(|scenario| scenario.image).map_err(|problems| problems.to_string())
    }

    #[test]
    fn an_image_is_a_name_or_a_table() {
        assert_eq!(read("").unwrap(), RequestedImage::Named("first-look".to_owned()));
        assert_eq!(read("image = \"own/image.toml\"").unwrap().name(), Some("own/image.toml"));
        let made = read(
            "[image]\nfrom = \"database\"\npackages = [\"redis\"]\n[image.files]\n\"/srv/a\" = \"a\"\n\"/srv/b\" = { text = \"b\" }\n\"/c\" = \"../c\"",
        );
        let RequestedImage::Made(made) = made.unwrap() else { panic!("it is a table") };
        assert_eq!((made.from.as_deref(), &made.packages[..]), (Some("database"), &["redis".to_owned()][..]));
        assert_eq!(made.files["/srv/b"], ImageFile::Text { text: "b".to_owned() });
        let elsewhere: Vec<&str> = made.files_elsewhere().map(|(_, host)| host.as_str()).collect();
        assert_eq!(elsewhere, ["../c"]);
    }

    #[test]
    fn an_image_can_be_set_key_by_key_whatever_it_was() {
        for image in ["", "image = \"database\""] {
            let text = format!(
                "schema = 1\nname = \"s\"\nabout = \"s\"\n{image}\n[[guest]]\nname = \"g\"\nrole = \"web\"\n[ladder]\ntiles = [1]\n"
            );
            let mut draft = Draft::from_toml(&text, "test").unwrap();
            draft.set("image.packages", serde_json::json!(["redis"])).unwrap();
            let RequestedImage::Made(made) = draft.finish().unwrap().image else { panic!("it is a table") };
            assert_eq!(made.from.is_some(), !image.is_empty());
        }
    }

    #[test]
    fn what_an_image_cannot_hold_is_named() {
        for (image, wanted) in [
            ("image = 3", "the name of an image, the path of an image.toml, or a table"),
            ("[image]\npakages = []", "there is no key `pakages`. Did you mean `packages`?"),
            ("[image.files]\n\"/a\" = 3", "write the path of a file or folder, or `{ text ="),
            ("[image.files]\n\"a\" = \"a\"", "has the path \"a\""),
            ("[image.files]\n\"/a/../b\" = \"a\"", "has the path \"/a/../b\""),
            ("[image.files]\n\"/run/a\" = \"a\"", "each guest has a /run of its own"),
            ("[image.files]\n\"/a\" = \"\"", "has no file for /a"),
            ("[image.files]\n\"/a\" = { text = \"\" }\n\"/a/b\" = \"b\"", "/a/b below it"),
        ] {
            let said = read(image).unwrap_err();
            assert!(said.contains(wanted), "{wanted}: {said}");
        }
    }
}
