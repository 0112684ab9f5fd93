//! `guests` from the command's side: start an engine that keeps them, and talk to engines that do.

use crate::{
    failure::{Failure, FailureCode, state_failed},
    guests_up::engine::{EXECUTE_WITHIN, GuestsReply, GuestsRequest, no_such_guest},
    image::build::obtain,
    job::command::{Afterwards, other_job_done, try_job},
    job::messages::{Messages, send},
    job::remains,
    job::resources,
    job::state_folder::StateFolder,
    job::types::{GuestsJob, GuestsReady, Job, JobDone},
    plan::host::{Probe, choose, facts, summary},
    plan::image_asked::{ImageAsked, Untrusted},
    program,
    progress::Listener,
};
use serde_json::json;
use std::{
    collections::BTreeMap,
    io,
    os::unix::net::UnixStream,
    path::PathBuf,
    thread,
    time::{Duration, Instant},
};
pub use tilemark_agent_protocol::{ERROR_BYTES_MAX, OUTPUT_BYTES_MAX};
use tilemark_guests::{
    own_bridge::{self, WantedBridge, refuse_addresses_in_use},
    uplink_name,
};
use tilemark_plan::{
    facts::AcceleratorVerdict,
    parse::Draft,
    plan::{Backend, GUESTS_MAX, HostSummary, MacAddress, Plan, Point, guest_address},
    problem::Problems,
    resolve::{Request, resolve},
};
use tilemark_record::places::Places;

/// Guests that were asked for.
#[derive(Debug, Clone)]
pub struct UpRequest {
    /// How many.
    pub count: u32,
    /// What they are for: `idle`, `web` or `disk`.
    pub role: String,
    /// How they run; `None`: kvm, or stop.
    pub on: Option<Backend>,
    /// `clone` or `boot`.
    pub start: String,
    /// Memory of each, such as `96MiB`.
    pub memory: String,
    /// Where they are, as a scenario says it: by keys such as `place.guests`, and `guest.ROLE.vcpus`.
    pub settings: BTreeMap<String, String>,
    /// Whether their memory is read after ten idle seconds.
    pub read_memory: bool,
    /// Nothing may be fetched.
    pub offline: bool,
    /// The user's own bridge that they are joined to.
    pub network: Option<WantedBridge>,
}

/// Starts guests and leaves them to their keeper.
pub fn up(places: &Places, request: &UpRequest, listener: &mut dyn Listener) -> Result<GuestsReady, Failure> {
    program::need_root("starting guests")?;
    remains::restore_first(places, &[], listener)?;
    let plan = plan(request)?;
    if let Some(own) = &plan.host.own_bridge {
        refuse_addresses_in_use(own)?;
    }
    // Their state has their disks and consoles.
    resources::enough(&plan, places, &places.state)?;
    let asked = ImageAsked::of_scenario(&plan.scenario, &plan.origin, Untrusted::default())?;
    let image = obtain(places, &asked, request.offline, listener)?;
    let done = at_free_number(places, |number| {
        let id = format!("guests-{number}");
        let state = StateFolder::create(&places.state, &id, "guests", None).map_err(state_failed)?;
        let state = state.with_uplink(plan.host.own_bridge.as_ref().map(|_| uplink_name(std::process::id())));
        let job = GuestsJob {
            point: apart(plan.points[0].clone(), number),
            own_bridge: plan.host.own_bridge.clone(),
            state: state.path().to_owned(),
            cache: places.cache.clone(),
            image: Some(image.folder.clone()),
            read_memory: request.read_memory,
        };
        try_job(Job::Guests(Box::new(job)), &state, Vec::new(), Afterwards::Stays, listener)
    })?;
    match done.done {
        JobDone::Guests(ready) => Ok(*ready),
        JobDone::Run(_) | JobDone::Image(_) => Err(other_job_done()),
    }
}

/// Keys of a scenario that say where guests are. The others have flags, or belong to what is measured.
fn only_places(request: &UpRequest) -> Result<(), Failure> {
    let vcpus = format!("guest.{}.vcpus", request.role);
    match request.settings.keys().find(|key| !key.starts_with("place.") && **key != vcpus) {
        None => Ok(()),
        Some(key) => Err(Failure::new(
            FailureCode::BadInput,
            format!("`guests up` has no value `{key}`"),
            format!(
                "set `place.guests`, `place.map.PATTERN`, `place.siblings` or `{vcpus}`; see `tilemark guests up --help` for the rest"
            ),
        )),
    }
}

/// A tile of one guest without loads, as many times as asked. No load needs processors of its own: guests have all.
fn scenario(request: &UpRequest) -> Result<Draft, Problems> {
    let disks = match &request.role[..] {
        "disk" => json!([{ "size": "64MiB", "on": "memory" }]),
        _ => json!([]),
    };
    let document = json!({
        "schema": 1,
        "name": "guests",
        "about": "guests up",
        "guest": [{ "name": request.role, "role": request.role, "memory": request.memory, "disk": disks }],
        "ladder": { "tiles": [request.count] },
        "measure": { "start": request.start },
        "host": { "load_processors": "shared" },
    });
    Draft::from_document(document, "guests up")
}

fn plan(request: &UpRequest) -> Result<Plan, Failure> {
    only_places(request)?;
    let facts = facts(match request.on {
        None | Some(Backend::Kvm) => Probe::Time,
        Some(_) => Probe::Skip,
    });
    let backend = choose(request.on, &facts)?;
    let resolution = Request {
        preset: None,
        settings: request.settings.clone(),
        backends: vec![backend],
        tiles: None,
        sides: None,
        search: false,
        interference: false,
        confirm_blocks: 0,
        screening: None,
        within: None,
        demonstrate: None,
        seed: 1,
    };
    let own_bridge = request.network.as_ref().map(own_bridge::look_at).transpose()?;
    let mut host = HostSummary { own_bridge, ..summary(&facts)? };
    // Whether it was timed or not is no matter of this plan.
    if backend != Backend::Kvm {
        host.kvm = AcceleratorVerdict::Unknown;
    }
    let mut plan = resolve(&scenario(request)?, &resolution, &host)?;
    plan.keep_needed_addresses();
    Ok(plan)
}

/// Does something with the first number of `guests-1`, `guests-2`, … that is free. Nothing comes of it where another takes the number
/// meanwhile: then it is the next one's turn.
fn at_free_number<T>(
    places: &Places,
    mut attempt: impl FnMut(u32) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let mut first = 1;
    loop {
        let taken = |number: &u32| places.state.join(format!("guests-{number}")).exists();
        let number = (first..).find(|number| !taken(number)).expect("there are more numbers than guests");
        if let Some(done) = attempt(number)? {
            return Ok(done);
        }
        first = number + 1;
    }
}

/// Gives the guests of `guests-2` and later ones names and addresses that no others have which are up: those of `guests-2` count from
/// 1001.
fn apart(mut point: Point, number: u32) -> Point {
    // As many sets as there are addresses for in the run network.
    let before = (number - 1) % (ADDRESSES / GUESTS_MAX) * GUESTS_MAX;
    for guest in &mut point.guests {
        guest.tile += before;
        guest.name = format!("tile-{:03}-{}", guest.tile, guest.name_in_tile());
        // On a bridge of the user's own each has an address of the user's range, which no others have that are up.
        if guest.network.is_some() {
            continue;
        }
        guest.mac = MacAddress::of_guest(before + guest.index);
        guest.address = guest_address(before + guest.index);
    }
    point
}

/// Addresses of guests in the run network: 10.77.1.0 to 10.77.255.255.
const ADDRESSES: u32 = 255 * 256;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        fakes::{TILE, ladder, places_in, plan_of},
        guests_up::engine::ShutDownOnDrop,
        job::{
            keeper::is_taken,
            state_folder::{Keeper, boot_id},
        },
    };
    use std::{collections::BTreeSet, os::unix::net::UnixListener, sync::Barrier};
    use tilemark_sys::files::make_private_folder;
    use tilemark_units::Bytes;

    fn asked(key: &str) -> UpRequest {
        UpRequest {
            count: 1,
            role: "web".to_owned(),
            on: Some(Backend::Native),
            start: "clone".to_owned(),
            memory: "96MiB".to_owned(),
            settings: BTreeMap::from([(key.to_owned(), "1".to_owned())]),
            read_memory: false,
            offline: true,
            network: None,
        }
    }

    #[test]
    fn values_that_place_guests_are_taken_and_others_refused_by_their_key() {
        for key in ["place.guests", "place.map.*-web", "place.siblings", "guest.web.vcpus"] {
            only_places(&asked(key)).unwrap();
        }
        for key in ["guest.web.memory", "guest.idle.vcpus", "ladder.tiles", "host.setting.thp", "places"] {
            let refused = only_places(&asked(key)).unwrap_err();
            assert_eq!(refused.code, FailureCode::BadInput);
            assert!(refused.message.contains(&format!("`{key}`")), "{}", refused.message);
        }
    }

    #[test]
    fn the_scenario_of_each_role_has_what_was_asked_for_and_a_disk_only_for_disks() {
        for role in ["idle", "web", "disk"] {
            let request = UpRequest { count: 3, role: role.to_owned(), ..asked("place.guests") };
            let scenario = scenario(&request).unwrap().finish().unwrap();
            let guest = &scenario.guest[0];
            assert_eq!((&guest.name[..], guest.memory), (role, Bytes::from_mib(96)));
            assert_eq!(guest.disk.len(), usize::from(role == "disk"));
            assert_eq!(scenario.ladder.tiles, [3]);
        }
        let odd = UpRequest { memory: "\"96MiB\"\n".to_owned(), ..asked("place.guests") };
        let refused = scenario(&odd).unwrap().finish().unwrap_err().to_string();
        assert!(refused.contains("memory"), "{refused}");
    }

    #[test]
    fn guests_that_are_started_at_once_each_get_a_number_of_their_own() {
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
        std::fs::create_dir(&places.state).unwrap();
        let together = Barrier::new(8);
        // As a keeper makes a state folder: whole, by renaming.
        let make = |place: usize| {
            let mut first = true;
            at_free_number(&places, |number| {
                if std::mem::take(&mut first) {
                    together.wait();
                }
                let (aside, to) =
                    (places.state.join(format!(".{place}-{number}")), format!("guests-{number}"));
                std::fs::create_dir(&aside).unwrap();
                std::fs::write(aside.join("under-way.json"), "{}").unwrap();
                match std::fs::rename(&aside, places.state.join(to)) {
                    Ok(()) => Ok(Some(number)),
                    Err(error) if is_taken(&error) => Ok(None),
                    Err(error) => Err(state_failed(error)),
                }
            })
        };
        let numbers: BTreeSet<u32> = thread::scope(|scope| {
            let all: Vec<_> = (0..8).map(|place| scope.spawn(move || make(place).unwrap())).collect();
            all.into_iter().map(|one| one.join().unwrap()).collect()
        });
        assert_eq!(numbers, (1..=8).collect());
    }

    /// A state folder of guests, as its keeper leaves it.
    fn kept_by(places: &Places, id: &str, keeper: Keeper) -> StateFolder {
        make_private_folder(&places.state).unwrap();
        let folder = places.state.join(id);
        std::fs::create_dir(&folder).unwrap();
        let under_way = json!({
            "id": id, "kind": "guests", "boot_id": boot_id().unwrap(), "record": null, "cgroup": null, "keeper": keeper,
        });
        std::fs::write(folder.join("under-way.json"), under_way.to_string()).unwrap();
        StateFolder::at(&folder)
    }

    /// Answers as an engine with one guest does, until it is asked to end them; then removes the folder, as a keeper does.
    fn serve(state: &StateFolder, listener: &UnixListener) {
        for stream in listener.incoming() {
            // The test has come to its end.
            let Ok(stream) = stream else { return };
            let mut writing = stream.try_clone().unwrap();
            let asked: GuestsRequest = Messages::of(stream).receive().unwrap().unwrap();
            let answer = match asked {
                GuestsRequest::List => GuestsReply::List(Box::new(ready(&state.id()))),
                GuestsRequest::Execute { guest, .. } => {
                    GuestsReply::Executed { code: 7, output: guest.into(), error: Vec::new() }
                }
                GuestsRequest::Console { .. } => GuestsReply::Console("/console".into()),
                GuestsRequest::Down => GuestsReply::GoingDown,
            };
            send(&mut writing, &answer).unwrap();
            if matches!(answer, GuestsReply::GoingDown) {
                return state.remove(state.under_way().ok().as_ref()).unwrap();
            }
        }
    }

    fn ready(id: &str) -> GuestsReady {
        serde_json::from_value(json!({
            "id": id, "backend": "native", "starting": false, "ready": 1, "seconds_to_ready": null,
            "template_seconds": null, "pss_mib_per_guest": null,
            "guests": [{
                "name": "tile-001-idle", "mac": "", "address": "", "machine_id": "", "random_hex": "", "seconds_to_ready": 1.0,
                "how": "booted", "ended": null, "place": null, "elsewhere": null, "pid": null, "console": null,
            }],
        }))
        .unwrap()
    }

    #[test]
    fn a_dead_keeper_is_named_and_the_guests_of_others_are_listed_reached_and_ended() {
        if !rustix::process::geteuid().is_root() {
            return println!("skipped: running a program in a guest needs root");
        }
        let home = tempfile::tempdir().unwrap();
        let places = places_in(home.path());
        let own = Keeper::of(std::process::id()).unwrap();
        let dead = Keeper { start_ticks: own.start_ticks + 1, ..own };
        let killed = ["guests-1", "guests-3"].map(|id| kept_by(&places, id, dead));
        // One of them has a socket that nobody listens on any more, as where its engine was killed too.
        drop(UnixListener::bind(killed[0].socket()).unwrap());
        let kept = kept_by(&places, "guests-2", own);
        let listener = UnixListener::bind(kept.socket()).unwrap();
        thread::scope(|scope| {
            let _closing = ShutDownOnDrop(&listener);
            scope.spawn(|| serve(&kept, &listener));
            let listed = list(&places).unwrap();
            assert_eq!(listed.kept.iter().map(|ready| &ready.id[..]).collect::<Vec<_>>(), ["guests-2"]);
            let left = listed.left.join("\n");
            for part in ["keeper of guests-1 has died", "keeper of guests-3", "tilemark recover"] {
                assert!(left.contains(part), "{left}");
            }
            assert_eq!(execute(&places, "tile-001-idle", &["true".to_owned()]).unwrap().code, 7);
            assert_eq!(console(&places, "tile-001-idle").unwrap(), PathBuf::from("/console"));
            let none = console(&places, "tile-001-web").unwrap_err();
            assert!(none.causes.join("").contains("guests-1"), "{none:?}");
            let failure = down(&places, None).unwrap_err();
            assert_eq!(failure.code, FailureCode::NotRestored);
            let words = format!("{} {}", failure.message, failure.causes.join(" "));
            for part in
                ["the keeper of guests-1", "the keeper of guests-3", "ended, and nothing is left: guests-2"]
            {
                assert!(words.contains(part), "{failure:?}");
            }
            assert!(!kept.path().exists());
        });
    }

    #[test]
    fn a_stream_that_was_cut_is_named_with_its_length() {
        let cuts =
            |output, error| Executed { code: 0, output: vec![0; output], error: vec![0; error] }.cuts();
        assert_eq!(cuts(OUTPUT_BYTES_MAX - 1, ERROR_BYTES_MAX - 1), [""; 0]);
        let both = cuts(OUTPUT_BYTES_MAX, ERROR_BYTES_MAX + 30);
        assert!(both.len() == 2 && both[0].starts_with("the output was cut at "), "{both:?}");
        assert!(both[1].starts_with("the standard error was cut at 64 KiB; "), "{both:?}");
    }

    #[test]
    fn guests_of_two_commands_have_names_and_addresses_apart() {
        let point = plan_of(TILE, &ladder()).points[1].clone();
        let sets = [1, 2, 3].map(|number| apart(point.clone(), number));
        assert_eq!(sets[0].guests, point.guests);
        assert_eq!(sets[1].guests[0].name, "tile-1001-web");
        let all = || sets.iter().flat_map(|point| &point.guests);
        let names: BTreeSet<_> = all().map(|guest| &guest.name).collect();
        let addresses: BTreeSet<_> = all().map(|guest| guest.address).collect();
        let hardware: BTreeSet<_> = all().map(|guest| guest.mac.0).collect();
        assert_eq!([names.len(), addresses.len(), hardware.len()], [all().count(); 3]);
    }
}

/// All engines that keep guests.
fn keepers(places: &Places) -> Result<Vec<StateFolder>, Failure> {
    let keeps = |state: &StateFolder| state.under_way().is_ok_and(|under_way| under_way.kind == "guests");
    let all = StateFolder::all(&places.state).map_err(state_failed)?;
    Ok(all.into_iter().filter(keeps).collect())
}

/// Who may ask them.
fn need_root(what: &str) -> Result<(), Failure> {
    program::need_root(what).map_err(|failure| Failure {
        message: format!("{what} needs root: root starts them, and they are reached through its folder"),
        ..failure
    })
}

/// An engine answers so soon, but for what it lets a guest do.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);

fn ask(state: &StateFolder, asked: &GuestsRequest) -> Result<GuestsReply, Failure> {
    let within = match asked {
        GuestsRequest::Execute { .. } => EXECUTE_WITHIN + 2 * ANSWERS_WITHIN,
        GuestsRequest::List | GuestsRequest::Console { .. } | GuestsRequest::Down => ANSWERS_WITHIN,
    };
    let failed = |error: io::Error| {
        let cause = match error.kind() {
            io::ErrorKind::WouldBlock => format!("nothing came within {} s", within.as_secs()),
            _ => error.to_string(),
        };
        let message = format!("the engine of {} does not answer", state.path().display());
        let remedy = "be root; if its keeper was killed, `tilemark recover` removes what it left";
        Failure::caused_by(&cause, FailureCode::HostUnfit, message, remedy)
    };
    let mut stream = connect(state).map_err(failed)?;
    stream.set_read_timeout(Some(within)).map_err(failed)?;
    send(&mut stream, asked).map_err(failed)?;
    match Messages::of(stream).receive().map_err(failed)? {
        Some(GuestsReply::Failed(failure)) => Err(failure),
        Some(answer) => Ok(answer),
        None => Err(failed(io::ErrorKind::UnexpectedEof.into())),
    }
}

/// Waits for an engine that has just begun and has no socket yet.
fn connect(state: &StateFolder) -> io::Result<UnixStream> {
    let until = Instant::now() + ANSWERS_WITHIN;
    loop {
        match UnixStream::connect(state.socket()) {
            Err(error)
                if error.kind() == io::ErrorKind::NotFound && is_kept(state) && Instant::now() < until =>
            {
                thread::sleep(Duration::from_millis(20));
            }
            connected => return connected,
        }
    }
}

fn is_kept(state: &StateFolder) -> bool {
    state.under_way().is_ok_and(|found| found.keeper.is_some_and(|keeper| keeper.lives()))
}

/// Guests that are kept, and what is left of others.
#[derive(Debug, Clone)]
pub struct Listed {
    /// All guests that are kept, by what was started together.
    pub kept: Vec<GuestsReady>,
    /// What is left of guests whose keeper died, with what to do: a sentence each.
    pub left: Vec<String>,
}

/// All guests that are kept.
///
/// # Errors
/// When an engine does not answer although its keeper lives, or state folders cannot be believed.
pub fn list(places: &Places) -> Result<Listed, Failure> {
    let Asked { kept, dead } = lists(places)?;
    let kept = kept.into_iter().map(|(_, ready)| ready).collect();
    Ok(Listed { kept, left: dead.iter().map(|state| keeper_died(&state.id())).collect() })
}

fn keeper_died(id: &str) -> String {
    format!(
        "The keeper of {id} has died, and its guests with it: `sudo tilemark recover` removes what is left."
    )
}

/// State folders of guests, by what became of them.
struct Asked {
    /// With what their engines said.
    kept: Vec<(StateFolder, GuestsReady)>,
    dead: Vec<StateFolder>,
}

/// All that answer; and those that do not since their keeper died, so that nothing of them can live.
fn lists(places: &Places) -> Result<Asked, Failure> {
    let (mut kept, mut dead) = (Vec::new(), Vec::new());
    for state in keepers(places)? {
        match ask(&state, &GuestsRequest::List) {
            Ok(GuestsReply::List(ready)) => kept.push((state, *ready)),
            // They went while they were asked.
            Err(_) if !state.path().exists() => {}
            // Or they went while this looked at their keeper.
            Err(_) if !is_kept(&state) && !state.path().exists() => {}
            Err(_) if !is_kept(&state) => dead.push(state),
            Err(failure) => return Err(failure),
            Ok(_) => return Err(misunderstood()),
        }
    }
    Ok(Asked { kept, dead })
}

fn misunderstood() -> Failure {
    Failure::new(FailureCode::Bug, "the engine gave another answer than was asked for", "report it")
}

/// What a program in a guest did.
#[derive(Debug, Clone)]
pub struct Executed {
    /// Its exit code, or 128 and the signal that ended it; 127 where it is not there, 126 where it cannot be run.
    pub code: i32,
    /// The beginning of its standard output, at most [`OUTPUT_BYTES_MAX`].
    pub output: Vec<u8>,
    /// The beginning of its standard error, at most [`ERROR_BYTES_MAX`], and why it was ended where that was so.
    pub error: Vec<u8>,
}

impl Executed {
    /// What was cut, as a person reads it: `the output was cut at 192 KiB; …`.
    pub fn cuts(&self) -> Vec<String> {
        let streams = [
            ("output", self.output.len(), OUTPUT_BYTES_MAX),
            ("standard error", self.error.len(), ERROR_BYTES_MAX),
        ];
        let cut = streams.into_iter().filter(|(_, length, most)| length >= most);
        cut.map(|(what, _, most)| {
            format!(
                "the {what} was cut at {} KiB; to have the rest, let the command print it in parts",
                most >> 10
            )
        })
        .collect()
    }
}

/// Runs a program in the guest with this name.
pub fn execute(places: &Places, guest: &str, arguments: &[String]) -> Result<Executed, Failure> {
    need_root("running a program in a guest")?;
    let asked = GuestsRequest::Execute { guest: guest.to_owned(), arguments: arguments.to_vec() };
    match ask(&keeper_of(places, guest)?, &asked)? {
        GuestsReply::Executed { code, output, error } => Ok(Executed { code, output, error }),
        _ => Err(misunderstood()),
    }
}

/// Where the console of the guest with this name is written.
pub fn console(places: &Places, guest: &str) -> Result<PathBuf, Failure> {
    need_root("reading a guest's console")?;
    match ask(&keeper_of(places, guest)?, &GuestsRequest::Console { guest: guest.to_owned() })? {
        GuestsReply::Console(path) => Ok(path),
        _ => Err(misunderstood()),
    }
}

fn keeper_of(places: &Places, guest: &str) -> Result<StateFolder, Failure> {
    let named = |ready: &GuestsReady| ready.guests.iter().any(|known| known.name == guest);
    let Asked { kept, dead } = lists(places)?;
    let found = kept.into_iter().find(|(_, ready)| named(ready));
    found.map(|(state, _)| state).ok_or_else(|| Failure {
        causes: dead.iter().map(|state| keeper_died(&state.id())).collect(),
        ..no_such_guest(guest)
    })
}

/// Ending hundreds of guests takes some seconds.
const DOWN_WITHIN: Duration = Duration::from_secs(60);
/// And their files, once all else is gone.
const REMOVED_WITHIN: Duration = Duration::from_secs(10);

/// Ends guests and waits until all is gone; returns what was ended.
///
/// # Errors
/// When some of them cannot be ended, once all others are: the first failure, with what else was ended and what else was not.
pub fn down(places: &Places, id: Option<&str>) -> Result<Vec<String>, Failure> {
    need_root("ending guests")?;
    let (mut ended, mut failures) = (Vec::new(), Vec::new());
    for state in keepers(places)? {
        let name = state.id();
        if id.is_some_and(|id| id != name) {
            continue;
        }
        match end(&state) {
            Ok(()) => ended.push(name),
            Err(failure) => failures.push(failure),
        }
    }
    let mut failures = failures.into_iter();
    if let Some(mut first) = failures.next() {
        first.causes.extend(failures.map(|other| other.message));
        if !ended.is_empty() {
            first.causes.push(format!("ended, and nothing is left: {}", ended.join(", ")));
        }
        return Err(first);
    }
    match id {
        Some(id) if ended.is_empty() => Err(Failure::new(
            FailureCode::BadInput,
            format!("no guests `{id}`"),
            "`tilemark guests list` shows them",
        )),
        _ => Ok(ended),
    }
}

/// Ends what one engine keeps, and waits until all of it is gone.
fn end(state: &StateFolder) -> Result<(), Failure> {
    let name = state.id();
    match ask(state, &GuestsRequest::Down) {
        // It has died before: what is left is named below.
        Err(_) if !is_kept(state) => {}
        Err(failure) if state.path().exists() => return Err(failure),
        // Or somebody else has ended them meanwhile.
        _ => {}
    }
    let until = Instant::now() + DOWN_WITHIN;
    // The keeper removes the folder as its last deed, unless something of it is left.
    while state.path().exists() {
        if !is_kept(state) && state.path().exists() {
            return Err(Failure::new(
                FailureCode::NotRestored,
                format!("the keeper of {name} has ended and its folder {} is left", state.path().display()),
                "look at keeper.log in it for what could not be taken away; `tilemark recover` tries it again",
            ));
        }
        if Instant::now() > until {
            return Err(Failure::new(
                FailureCode::NotRestored,
                format!("{name} is still there after {} s", DOWN_WITHIN.as_secs()),
                "look at its keeper.log; `tilemark recover` removes what a dead keeper left",
            ));
        }
        thread::sleep(Duration::from_millis(20));
    }
    let until = Instant::now() + REMOVED_WITHIN;
    while state.is_being_removed() && Instant::now() < until {
        thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}
