//! Help, as a person reads it: the commands in groups, the shapes of values, and an example on every page. The pages of the
//! manual are made from the same.

use crate::arguments::Arguments;
use clap::CommandFactory;
use clap_mangen::Man;
use std::{collections::BTreeMap, fmt::Write};
use tilemark_run::host::profile::NAMES as PROFILE_NAMES;

/// All commands by what a person wants. `tests` sees that each command is in one group.
const GROUPS: [(&str, &[&str]); 6] = [
    ("Measure", &["quick", "capacity", "run", "ab", "interference"]),
    ("Many hosts", &["fleet"]),
    ("Before a run", &["doctor", "plan", "scenarios", "image", "host"]),
    ("After a run", &["report", "compare", "runs", "recover"]),
    ("Guests, loads and data without a run", &["guests", "load", "data", "broker"]),
    ("About this program", &["notices", "completion", "man"]),
];

/// How values are written. Each name is one that the help of a flag uses. `{profiles}` is the names of the profiles inside the program.
const SHAPES: [(&str, &str); 14] = [
    ("TIME", "500ms, 90s, 10m, 1h"),
    ("SIZE", "a number with its unit: 96MiB, 1GB"),
    ("SECONDS", "a number of seconds, or a time: 60 or 60s"),
    ("BYTES", "a number of bytes, or a size: 1024 or 1KiB"),
    ("NUMBER", "a whole number"),
    ("COUNTS", "whole numbers with commas: 1,2,4"),
    ("RATE", "a number for each second: 500, 0.5 or 500/s"),
    ("PERCENT", "3% or 0.5%"),
    ("KEY=VALUE", "one value of the scenario: gate.p99=20ms, load.web.rate=300/s"),
    ("SCENARIO", "a name from `tilemark scenarios list`, or a path"),
    ("PROFILE", "{profiles}, or a path"),
    ("RUN", "an id, the beginning of one, `last`, or a path"),
    ("FILE, DIR", "a path"),
    ("URL", "http://HOST:PORT/PATH, amqp://USER@HOST, mysql://USER@HOST/NAME"),
];

/// Examples of each page of help, by the words that call it. Each is tried by a test: it must be a command line that the
/// program takes.
const EXAMPLES: [(&str, &str); 75] = [
    ("doctor", "tilemark doctor\ntilemark doctor --json\ntilemark doctor --site site.toml"),
    ("plan", "tilemark plan web --on native\ntilemark plan capacity web --on native --resolved"),
    ("plan run", "tilemark plan run web --tiles 1,2,4"),
    ("plan capacity", "tilemark plan capacity first-look --within 10m"),
    ("plan ab", "tilemark plan ab web --a qemu.machine=pc --b qemu.machine=q35"),
    ("plan interference", "tilemark plan interference first-look --on native"),
    ("plan host", "tilemark plan host try web --profile current"),
    ("plan host try", "tilemark plan host try web --on native --profile current"),
    ("plan quick", "tilemark plan quick --within 10m"),
    ("quick", "sudo tilemark quick\nsudo tilemark quick --within 10m\nsudo tilemark quick --more"),
    (
        "run",
        "sudo tilemark run web --tiles 1,2,4\nsudo tilemark run web --twin --within 20m\n\
         sudo tilemark run oltp --on native --preset quick --set gate.p99=20ms",
    ),
    (
        "capacity",
        "sudo tilemark capacity first-look --within 10m\nsudo tilemark capacity first-look --more\n\
         sudo tilemark capacity ./mine.toml --on native --twin",
    ),
    ("interference", "sudo tilemark interference first-look --on native"),
    (
        "ab",
        "sudo tilemark ab web --a qemu.machine=pc --b qemu.machine=q35\n\
         sudo tilemark ab web --a host.setting.thp=never --b host.setting.thp=always\n\
         sudo tilemark ab web --a place.guests=none --b place.guests=pairs",
    ),
    (
        "compare",
        "tilemark compare 20261125 last\n\
         tilemark compare before monday tuesday --html compared.html --junit compared.xml\n\
         tilemark compare before after --exit-verdict --tolerance 3%",
    ),
    (
        "fleet",
        "tilemark fleet plan web --site site.toml --on native\n\
         tilemark fleet run web --site site.toml --on native",
    ),
    ("fleet plan", "tilemark fleet plan web --site site.toml --on native"),
    (
        "fleet run",
        "tilemark fleet run web --site site.toml --on native\n\
         tilemark fleet run web --site site.toml --capacity --within 20m --detach\n\
         tilemark fleet run --resume\n\
         tilemark fleet run --resume 20261125 --site site.toml",
    ),
    ("fleet status", "tilemark fleet status\ntilemark fleet status 20261125"),
    ("fleet collect", "tilemark fleet collect\ntilemark fleet collect 20261125 --json"),
    ("fleet cancel", "tilemark fleet cancel\ntilemark fleet cancel 20261125"),
    ("fleet clean", "tilemark fleet clean\ntilemark fleet clean 20261125"),
    (
        "fleet report",
        "tilemark fleet report\n\
         tilemark fleet report 20261125 --html fleet.html\n\
         tilemark fleet report 20261125 --redact --html fleet.html",
    ),
    ("fleet compare", "tilemark fleet compare 20261018 20261125 --html drift.html"),
    ("fleet confirm", "tilemark fleet confirm\ntilemark fleet confirm 20261125 --site-groups"),
    ("report", "tilemark report last\ntilemark report last --html page.html --redact --csv figures.csv"),
    ("runs", "tilemark runs\ntilemark runs show last"),
    ("runs show", "tilemark runs show last"),
    ("runs rm", "tilemark runs rm 20261125-1015\ntilemark runs rm 20261125-1015 --yes"),
    ("runs tag", "tilemark runs tag last new-qemu\ntilemark runs tag last new-qemu --remove"),
    ("runs note", "tilemark runs note last \"after the update\""),
    ("runs trend", "tilemark runs trend web\ntilemark runs trend web --html trend.html"),
    ("runs baseline", "tilemark runs baseline before 20261124 20261125\ntilemark runs baseline"),
    ("guests", "sudo tilemark guests up 8 --role web\nsudo tilemark guests list"),
    (
        "guests up",
        "sudo tilemark guests up 32 --role web --on emulated\n\
         sudo tilemark guests up 4 --role web --on emulated --set place.guests=spread",
    ),
    ("guests list", "sudo tilemark guests list"),
    ("guests exec", "sudo tilemark guests exec tile-001-web uname -a"),
    ("guests console", "sudo tilemark guests console tile-001-web"),
    ("guests down", "sudo tilemark guests down"),
    ("load", "tilemark load web http://127.0.0.1:8080/ --rate 500"),
    (
        "load web",
        "tilemark load web http://127.0.0.1:8080/index.html --rate 500 --seconds 10\n\
         tilemark load web https://shop.example/ --ca ca.pem --contains Welcome",
    ),
    (
        "load messaging-throughput",
        "export TILEMARK_BROKER_PASSWORD=guest\n\
         tilemark load messaging-throughput --broker amqp://guest@127.0.0.1 --size 1024",
    ),
    (
        "load messaging-latency",
        "export TILEMARK_BROKER_PASSWORD=guest\n\
         tilemark load messaging-latency --broker amqp://guest@127.0.0.1 --rate 1000",
    ),
    (
        "load store",
        "tilemark load store --database mysql://root@127.0.0.1:3306/store --clients 32\n\
         tilemark load store --database 'postgres://store@db.example/store?sslmode=verify-full' --clients 32",
    ),
    ("data", "tilemark data store --size 1GB --out data"),
    (
        "data store",
        "tilemark data store --size 1GB --out data\n\
         tilemark data store --size 10MB --into postgres://store@127.0.0.1:5432/store",
    ),
    (
        "broker",
        "tilemark broker --listen 127.0.0.1:5672\ntilemark broker --journal messages\n\
         tilemark broker --tls-cert broker.crt --tls-key broker.key",
    ),
    ("recover", "sudo tilemark recover"),
    ("notices", "tilemark notices > notices.txt"),
    ("image", "sudo tilemark image build\nsudo tilemark image list"),
    ("image build", "sudo tilemark image build first-look\nsudo tilemark image build ./image.toml --refresh"),
    ("image list", "sudo tilemark image list"),
    ("image show", "tilemark image show shop\ntilemark image show first-look --json"),
    ("image shell", "sudo tilemark image shell shop\nsudo tilemark image shell shop -- php -m"),
    ("image export", "sudo tilemark image export first-look first-look.tilemark"),
    ("image remove", "sudo tilemark image remove --unused\nsudo tilemark image remove --disks"),
    ("image import", "sudo tilemark image import first-look.tilemark"),
    (
        "host",
        "tilemark host plan current\nsudo tilemark host apply current --yes\nsudo tilemark host restore",
    ),
    ("host settings", "tilemark host settings"),
    ("host restore", "sudo tilemark host restore"),
    ("host status", "sudo tilemark host status"),
    ("host unpin", "sudo tilemark host unpin"),
    ("host show", "tilemark host show current > mine.toml"),
    ("host plan", "tilemark host plan current"),
    ("host apply", "sudo tilemark host apply current --yes\nsudo tilemark host apply ./mine.toml --yes"),
    ("host verify", "tilemark host verify current"),
    ("host try", "sudo tilemark host try web --profile current --keep paid.toml"),
    ("host pin", "sudo tilemark host pin guests.txt\nsudo tilemark host pin guests.txt --watch"),
    ("host export", "tilemark host export current --format sysctl"),
    ("host import", "tilemark host import /usr/lib/tuned/profiles/virtual-host/tuned.conf"),
    ("scenarios", "tilemark scenarios list\ntilemark scenarios show web > mine.toml"),
    ("scenarios list", "tilemark scenarios list"),
    ("scenarios show", "tilemark scenarios show web > mine.toml"),
    ("completion", "source <(tilemark completion bash)"),
    ("man", "sudo tilemark man /usr/local/share/man/man1"),
];

/// The command with all its pages.
pub(crate) fn command() -> clap::Command {
    let command = with_profiles(without_more(with_examples(Arguments::command(), "")));
    let groups = groups(&command);
    command
        .help_template(format!(
            "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}Options:\n{{options}}{{after-help}}"
        ))
        .after_help(format!("{}\n\n{ENDS}", shapes()))
}

/// `plan` takes the flags of the commands that it plans, but for `--more`: what a record lacks is known when it is continued. There the
/// flag is not offered, and `commands::plan` refuses it.
fn without_more(command: clap::Command) -> clap::Command {
    let each = |planned: clap::Command| {
        let has_more = planned.get_arguments().any(|argument| argument.get_id() == "more");
        if has_more { planned.mut_arg("more", |more| more.hide(true)) } else { planned }
    };
    command.mut_subcommand("plan", |plan| plan.mut_subcommands(each))
}

/// What the help of an argument says where it is a profile.
const OWN_PROFILE: &str = "rofile inside the program by its name";

/// The names of the profiles inside the program, wherever one can be given.
fn with_profiles(command: clap::Command) -> clap::Command {
    let named = format!("rofile inside the program ({})", PROFILE_NAMES.join(", "));
    command
        .mut_args(|argument| match argument.get_help().map(ToString::to_string) {
            Some(help) if help.contains(OWN_PROFILE) => argument.help(help.replace(OWN_PROFILE, &named)),
            _ => argument,
        })
        .mut_subcommands(with_profiles)
}

const ENDS: &str = "Begin with `tilemark doctor`, then `tilemark quick`.\n\n\
    Exit codes: 0 done and trusted, 1 a bug in Tilemark, 2 bad scenario or flag, 3 host unfit, 4 a guest failed, 5 finished with the \
    verdict NOT TRUSTED or CANNOT TELL, 6 host not restored.\n\n\
    Pages that messages name, such as docs/scenarios.md, are in /usr/local/share/doc/tilemark after `make install`, and in \
    /usr/share/doc/tilemark with the Debian package.";

/// The pages of the manual, one for each command, by the names of their files.
pub(crate) fn manual() -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut command = command().disable_help_subcommand(true);
    command.build();
    add_pages(command, &mut pages);
    pages
}

fn add_pages(command: clap::Command, pages: &mut BTreeMap<String, String>) {
    let below = command.get_subcommands().filter(|below| !below.is_hide_set());
    below.for_each(|below| add_pages(below.clone(), pages));
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text).expect("memory takes it");
    pages.insert(page.get_filename(), String::from_utf8_lossy(&text).into_owned());
}

/// What a group is called where commands are listed, and its commands with what each does.
fn groups(command: &clap::Command) -> String {
    let mut text = String::new();
    for (title, names) in GROUPS {
        let _ = writeln!(text, "{title}:");
        for name in names {
            let about = command.find_subcommand(name).and_then(clap::Command::get_about);
            let _ = writeln!(text, "  {name:<13} {}", about.map(ToString::to_string).unwrap_or_default());
        }
        text.push('\n');
    }
    text
}

fn shapes() -> String {
    let lines = SHAPES.iter().map(|(name, shape)| format!("  {name:<10} {shape}"));
    let lines: Vec<String> = lines.collect();
    format!("Values:\n{}", lines.join("\n")).replace("{profiles}", &PROFILE_NAMES.join(", "))
}

/// The examples of a page.
fn examples(words: &str) -> Option<String> {
    let (_, lines) = EXAMPLES.iter().find(|(of, _)| *of == words)?;
    let commands = lines.lines().filter(|line| !line.starts_with("export ")).count();
    let title = if commands > 1 { "Examples" } else { "Example" };
    let lines: Vec<String> = lines.lines().map(|line| format!("  {line}")).collect();
    Some(format!("{title}:\n{}", lines.join("\n")))
}

fn with_examples(command: clap::Command, words: &str) -> clap::Command {
    let names: Vec<String> = command.get_subcommands().map(|below| below.get_name().to_owned()).collect();
    let command = match examples(words) {
        Some(examples) => command.after_help(examples),
        None => command,
    };
    names.into_iter().fold(command, |command, name| {
        let below = if words.is_empty() { name.clone() } else { format!("{words} {name}") };
        command.mut_subcommand(name, |command| with_examples(command, &below))
    })
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use crate::{arguments::with_planned_command, screen::Watcher};
    use std::{collections::BTreeSet, path::Path};
    use tilemark_run::{
        run::compare::Tolerance,
        standalone::store_data::{self, StoreDataRequest},
    };

    /// Each command with the words that call it.
    fn pages(command: &clap::Command, words: &str, pages: &mut Vec<(String, clap::Command)>) {
        for below in command.get_subcommands() {
            let words = format!("{words} {}", below.get_name()).trim().to_owned();
            pages.push((words.clone(), below.clone()));
            self::pages(below, &words, pages);
        }
    }

    fn all_pages() -> Vec<(String, clap::Command)> {
        let mut all = Vec::new();
        pages(&command(), "", &mut all);
        all
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let command = command();
        let all: BTreeSet<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(grouped.iter().copied().collect::<BTreeSet<_>>(), all);
        assert_eq!(grouped.len(), all.len());
    }

    #[test]
    fn every_page_has_an_example() {
        let pages = all_pages().into_iter().filter(|(_, page)| page.get_after_help().is_none());
        let without: Vec<String> = pages.map(|(words, _)| words).collect();
        assert!(without.is_empty(), "no example: {without:?}");
        for (words, _) in EXAMPLES {
            assert!(all_pages().iter().any(|(of, _)| of == words), "`{words}` is not a command");
        }
    }

    /// The words of a line of a shell, as far as examples need it: quotes, and no more.
    fn shell_words(line: &str) -> Vec<String> {
        let line = line.split(" > ").next().unwrap_or_default().replace("source <(", "").replace(')', "");
        let mut words = vec![String::new()];
        let mut quoted = false;
        for letter in line.chars() {
            match letter {
                '"' => quoted = !quoted,
                ' ' if !quoted => words.push(String::new()),
                other => words.last_mut().unwrap().push(other),
            }
        }
        words.into_iter().skip_while(|word| word == "sudo").collect()
    }

    #[test]
    fn every_example_is_taken_and_is_of_its_page() {
        for (words, lines) in EXAMPLES {
            for line in lines.lines().filter(|line| !line.starts_with("export ")) {
                let given = shell_words(line);
                assert!(
                    given.join(" ").starts_with(&format!("tilemark {words}")),
                    "{line:?} is not of `{words}`"
                );
                let given = with_planned_command(given.into_iter().map(Into::into));
                if let Err(error) = command().try_get_matches_from(given) {
                    panic!("{line}: {error}");
                }
            }
        }
    }

    #[test]
    fn no_line_is_longer_than_a_terminal_and_no_quantity_is_broken() {
        let mut all = all_pages();
        all.push((String::new(), command()));
        for width in [80, 100] {
            for (words, page) in &all {
                let text = page.clone().term_width(width).render_long_help().to_string();
                for (line, next) in text.lines().zip(text.lines().skip(1).chain([""])) {
                    assert!(line.chars().count() <= width, "`{words}`: {line:?}");
                    let ends_in_number = line.chars().last().is_some_and(|last| last.is_ascii_digit());
                    let unit = next.trim_start().split([' ', '.', ',', ';']).next().unwrap_or_default();
                    let units =
                        ["seconds", "minutes", "bytes", "B", "MB", "GB", "MiB", "%", "ms", "s", "processors"];
                    assert!(!(ends_in_number && units.contains(&unit)), "`{words}`: {line:?} {next:?}");
                }
            }
        }
    }

    #[test]
    fn every_value_has_a_shape_that_is_explained() {
        let shapes: Vec<&str> = SHAPES.iter().flat_map(|(names, _)| names.split(", ")).collect();
        let mut unexplained = Vec::new();
        for (words, page) in all_pages() {
            for argument in page.get_arguments().filter(|argument| argument.get_action().takes_values()) {
                let choices = !argument.get_possible_values().is_empty();
                let names = argument.get_value_names().unwrap_or_default();
                let is_explained = |name: &str| shapes.contains(&name) || WORDS.contains(&name);
                if !choices && !names.iter().all(|name| is_explained(name)) {
                    unexplained.push(format!("{words} {names:?}"));
                }
            }
        }
        assert!(unexplained.is_empty(), "{unexplained:#?}");
    }

    /// The examples of a shape: what is after its explanation.
    fn examples_of(shape: &str) -> impl Iterator<Item = &str> {
        let listed = shape.rsplit(": ").next().unwrap_or_default();
        listed.split(", ").flat_map(|part| part.split(" or "))
    }

    /// An example of this page with this flag set to this value, in the place of what the example has.
    fn with_flag(words: &str, flag: &str, value: &str) -> Vec<String> {
        let (_, lines) = EXAMPLES.iter().find(|(of, _)| *of == words).unwrap();
        let mut given = shell_words(lines.lines().find(|line| !line.starts_with("export ")).unwrap());
        if let Some(at) = given.iter().position(|word| word == flag) {
            given.drain(at..at + 2);
        }
        let at = words.split(' ').count() + 1;
        given.splice(at..at, [flag.to_owned(), value.to_owned()]);
        given
    }

    /// Why a flag does not take a value, where only the command itself finds out.
    fn refused_later(words: &str, flag: &str, value: &str) -> Option<String> {
        match (words, flag) {
            ("data store", "--size") => {
                let request = StoreDataRequest { size: value.to_owned(), as_ds2: false, seed: 1, threads: 1 };
                let nowhere = Path::new("/dev/null/nowhere");
                let failure = store_data::store(&request, nowhere, &mut Watcher::new()).unwrap_err();
                (!failure.message.contains("nowhere")).then_some(failure.message)
            }
            (_, "--tolerance" | "--tolerance-p99") => {
                Tolerance::read(value, Some(value)).err().map(|failure| failure.message)
            }
            _ => None,
        }
    }

    #[test]
    fn every_flag_takes_the_examples_of_the_shape_that_it_names() {
        let mut tried = BTreeSet::new();
        for (words, page) in all_pages() {
            for argument in page.get_arguments() {
                let (Some(flag), Some(names)) = (argument.get_long(), argument.get_value_names()) else {
                    continue;
                };
                let Some((shape, text)) = SHAPES[..8].iter().find(|(shape, _)| names[0] == **shape) else {
                    continue;
                };
                for value in
                    examples_of(text).filter(|value| value.starts_with(|one: char| one.is_ascii_digit()))
                {
                    let flag = format!("--{flag}");
                    let given =
                        with_planned_command(with_flag(&words, &flag, value).into_iter().map(Into::into));
                    if let Err(error) = command().try_get_matches_from(given) {
                        panic!("{words} {flag} {value}: {error}");
                    }
                    assert_eq!(refused_later(&words, &flag, value), None, "{words} {flag} {value}");
                    tried.insert(*shape);
                }
            }
        }
        assert_eq!(tried.len(), 7, "all shapes with an example: {tried:?}");
    }

    #[test]
    fn every_profile_inside_the_program_is_named_where_one_can_be_given() {
        let mut all = all_pages();
        all.push((String::new(), command()));
        for (words, page) in &mut all {
            let takes_profile = page.get_arguments().any(|argument| {
                argument.get_value_names().unwrap_or_default().iter().any(|name| name == "PROFILE")
            });
            if takes_profile || words.is_empty() {
                let text = page.render_long_help().to_string();
                let missing: Vec<&&str> =
                    PROFILE_NAMES.iter().filter(|name| !text.contains(**name)).collect();
                assert!(missing.is_empty(), "`{words}` does not name {missing:?}");
            }
        }
    }

    #[test]
    fn more_is_offered_by_the_commands_that_take_it_and_not_by_plan() {
        for (words, mut page) in all_pages() {
            let takes_it = ["run", "capacity", "quick"].contains(&words.as_str());
            assert_eq!(page.render_long_help().to_string().contains("--more"), takes_it, "`{words}`");
        }
    }

    /// Names of values that say it themselves, with the line that explains them.
    const WORDS: [&str; 13] = [
        "NAME",
        "TAG",
        "TEXT",
        "KEY",
        "ID",
        "GUEST",
        "COMMAND",
        "STATUS",
        "METHOD",
        "NAME: VALUE",
        "ADDRESS:PORT",
        "IMAGE",
        "BENCHMARK",
    ];
}
