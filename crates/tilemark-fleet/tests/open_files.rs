//! Many hosts under the usual limit of open files. A file of its own: the limit is that of the process.

#![allow(clippy::unwrap_used, reason = "a test file: helpers may unwrap as tests do")]

mod played;

use played::Played;
use rustix::process::{Resource, getrlimit, setrlimit};
use tilemark_fleet::{End, Watch, status};

#[test]
fn sixty_hosts_answer_where_the_soft_limit_is_128_open_files() {
    let names: Vec<String> = (1..=60).map(|number| format!("n{number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    // So long that all are asked at the same time.
    let played = Played::new(&names, None, "sleep 2");
    played.submitted();
    let lower = || {
        let mut limit = getrlimit(Resource::Nofile);
        assert!(
            limit.maximum.is_none_or(|maximum| maximum > 2_000),
            "the hard limit is too low for this test"
        );
        limit.current = Some(128);
        setrlimit(Resource::Nofile, limit).unwrap();
    };
    lower();
    let doings = status(&played.folder).unwrap();
    let odd: Vec<_> = doings.iter().filter(|(_, doing)| doing != "its job has not begun").collect();
    assert!(odd.is_empty(), "{odd:?}");
    lower();
    played.run(Watch::default(), &|_| ()).unwrap();
    let hosts = played.folder.read().unwrap().hosts;
    let odd: Vec<_> = hosts
        .iter()
        .filter(|host| host.end.as_ref().is_none_or(|end| end.end != End::NeverStarted))
        .collect();
    assert!(odd.is_empty(), "{odd:?}");
}
