//! Where things are kept: cache, records and state.

use std::path::{Path, PathBuf};

/// The three folders.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Places {
    /// Images and data that can be made again.
    pub cache: PathBuf,
    /// One folder for each run.
    pub runs: PathBuf,
    /// One folder for each run under way.
    pub state: PathBuf,
}

/// What decides about the places.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Surroundings {
    /// `TILEMARK_HOME`.
    pub tilemark_home: Option<PathBuf>,
    /// `XDG_CACHE_HOME`.
    pub xdg_cache_home: Option<PathBuf>,
    /// `XDG_STATE_HOME`.
    pub xdg_state_home: Option<PathBuf>,
    /// `HOME`.
    pub home: Option<PathBuf>,
    /// Whose program this is.
    pub user: User,
}

/// Whose program this is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum User {
    /// The system's.
    Root,
    /// Anybody's.
    #[default]
    Other,
}

impl Surroundings {
    /// Those of this process.
    pub fn of_this_process() -> Self {
        let folder = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        Self {
            tilemark_home: folder("TILEMARK_HOME"),
            xdg_cache_home: folder("XDG_CACHE_HOME"),
            xdg_state_home: folder("XDG_STATE_HOME"),
            home: folder("HOME"),
            user: if rustix::process::geteuid().is_root() { User::Root } else { User::Other },
        }
    }
}

/// Root's cache, where `TILEMARK_HOME` names no other.
const ROOTS_CACHE: &str = "/var/cache/tilemark";

impl Places {
    /// Root's cache, where these places are those of an ordinary user who has not named others. Whatever measures runs as root, and looks
    /// for images there.
    pub fn cache_of_root(surroundings: &Surroundings) -> Option<PathBuf> {
        let is_elsewhere = surroundings.user == User::Other && surroundings.tilemark_home.is_none();
        is_elsewhere.then(|| PathBuf::from(ROOTS_CACHE))
    }

    /// Decides where things are kept: `TILEMARK_HOME` before all, then the system's folders for root and
    /// the XDG folders for others.
    pub fn of(surroundings: &Surroundings) -> Self {
        if let Some(home) = &surroundings.tilemark_home {
            return Self { cache: home.join("cache"), runs: home.join("runs"), state: home.join("state") };
        }
        if surroundings.user == User::Root {
            let library = Path::new("/var/lib/tilemark");
            let cache = PathBuf::from(ROOTS_CACHE);
            return Self { cache, runs: library.join("runs"), state: library.join("state") };
        }
        let home = surroundings.home.clone().unwrap_or_else(|| PathBuf::from("."));
        let cache = surroundings.xdg_cache_home.clone().unwrap_or_else(|| home.join(".cache"));
        let state = surroundings.xdg_state_home.clone().unwrap_or_else(|| home.join(".local/state"));
        let state = state.join("tilemark");
        Self { cache: cache.join("tilemark"), runs: state.join("runs"), state: state.join("state") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tilemark_home_replaces_all() {
        let home = Some(PathBuf::from("/tmp/t"));
        let places =
            Places::of(&Surroundings { tilemark_home: home, user: User::Root, ..Default::default() });
        assert_eq!(places.runs, Path::new("/tmp/t/runs"));
        assert_eq!(places.cache, Path::new("/tmp/t/cache"));
    }

    #[test]
    fn root_has_the_systems_folders_and_others_their_own() {
        let root = Places::of(&Surroundings { user: User::Root, ..Default::default() });
        assert_eq!(root.runs, Path::new("/var/lib/tilemark/runs"));
        let home = Some(PathBuf::from("/home/a"));
        let other = Places::of(&Surroundings { home, ..Default::default() });
        assert_eq!(other.cache, Path::new("/home/a/.cache/tilemark"));
        assert_eq!(other.runs, Path::new("/home/a/.local/state/tilemark/runs"));
    }

    #[test]
    fn an_ordinary_user_plans_for_roots_cache_unless_a_home_is_named() {
        let of = |user, tilemark_home: Option<&str>| {
            let tilemark_home = tilemark_home.map(PathBuf::from);
            Places::cache_of_root(&Surroundings { tilemark_home, user, ..Default::default() })
        };
        assert_eq!(of(User::Other, None), Some(PathBuf::from("/var/cache/tilemark")));
        assert_eq!(of(User::Other, Some("/tmp/t")), None);
        assert_eq!(of(User::Root, None), None);
    }
}
