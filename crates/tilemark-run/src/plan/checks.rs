//! All that would stop a run later or spoil its answer, looked at before anything starts: files and programs that are named, the image,
//! disks and limits, the requests that a p99 needs, two sides that are one.

use crate::{
    failure::{Failure, FailureCode},
    guests::database_disks::store_file,
    job::resources,
    plan::{
        bridge_filter,
        image_check::{self, check_image},
        prepare::Prepared,
        qemu_check::check_kernel,
    },
};
use std::{collections::BTreeSet, path::Path};
use tilemark_guests::find_qemu;
use tilemark_image::{ImageCache, ImageError, InCache};
use tilemark_plan::{
    facts::HostFacts,
    plan::{Backend, Demand, LoadPlan, Plan, Point, SideName},
    scenario::DiskMedium,
};
use tilemark_record::places::{Places, Surroundings};
use tilemark_statistics::{P99_REQUESTS_MIN, P99_REQUESTS_PLANNED, percentile_admissible};
use tilemark_units::{Bytes, counted};

/// What was found beside the plan, for a person.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Looked {
    /// Whether the image is built already.
    pub image: String,
    /// What is no mistake, and should be known.
    pub warnings: Vec<String>,
}

/// Looks at all that a run of this plan needs of the host. Changes nothing.
///
/// # Errors
/// With the first thing that is absent, or too small.
pub fn look(
    prepared: &Prepared,
    places: &Places,
    record: Option<&Path>,
    offline: bool,
) -> Result<Looked, Failure> {
    let plan = &prepared.plan;
    named_files(prepared)?;
    let image = image_state(prepared, places, offline)?;
    disk_tools(plan, &prepared.facts, places)?;
    resources::enough(plan, places, record.unwrap_or(&places.runs))?;
    let filtered = plan.host.own_bridge.as_ref().and_then(bridge_filter::look);
    let filtered = filtered.map(|found| format!("{}; to fix: {}", found.what, found.remedy));
    let warnings = too_few_requests(plan).into_iter().chain(twins_memory(plan)).chain(filtered);
    Ok(Looked { image, warnings: warnings.collect() })
}

/// The first point whose repeats cannot give the p99 that the gate, or a comparison of sides, is about, with what helps. Its other figures
/// are measured.
fn too_few_requests(plan: &Plan) -> Option<String> {
    plan.points.iter().find_map(|point| {
        let (unit, each) = requests_of_repeat(plan, point)?;
        let load = plan.scenario.headline.as_deref().unwrap_or_default();
        let at = counted(point.tiles, "tile");
        match point.side {
            Some(_) => too_few_of_each(point, each).map(|longer| {
                format!(
                    "the comparison may have no outcome at {at}: each repeat needs a p99 of its own, which takes {P99_REQUESTS_PLANNED} {unit} \
                     ({P99_REQUESTS_MIN}, and a tenth more because their number scatters), and load `{load}` sends {} in a repeat of {}; \
                     to fix: measure longer (`--set measure.length={longer}s`), or give the load a higher `rate`",
                    each as u64, point.measure.length,
                )
            }),
            None => too_few_of_all(point, each).map(|(longer, more_often)| {
                format!(
                    "no p99 from this run: it needs {P99_REQUESTS_MIN} {unit}, and load `{load}` sends {} at {at} in {} of {}; to fix: \
                     measure longer (`--set measure.length={longer}s`) or more often (`--set measure.repeats={more_often}`), or give the \
                     load a higher `rate`",
                    (each * f64::from(point.measure.repeats)) as u64,
                    counted(point.measure.repeats, "repeat"),
                    point.measure.length,
                )
            }),
        }
    })
}

/// Seconds with which each repeat has enough, where it has too few.
fn too_few_of_each(point: &Point, each: f64) -> Option<f64> {
    let times = P99_REQUESTS_PLANNED as f64 / each.max(1.0);
    (times > 1.0).then(|| (point.measure.length.as_seconds() * times).ceil())
}

/// Seconds, or repeats, with which all repeats together have enough, where they have too few.
fn too_few_of_all(point: &Point, each: f64) -> Option<(f64, f64)> {
    let requests = (each * f64::from(point.measure.repeats)) as u64;
    percentile_admissible(requests, 0.99).is_err().then(|| {
        let times = P99_REQUESTS_MIN as f64 / (requests.max(1) as f64);
        let least = |now: f64| (now * times).ceil().max(1.0);
        (least(point.measure.length.as_seconds()), least(f64::from(point.measure.repeats)))
    })
}

/// Requests of the headline load in a repeat of a point, by their own name; `None` where they are not known before, or are not judged.
fn requests_of_repeat<'p>(plan: &Plan, point: &'p Point) -> Option<(&'p str, f64)> {
    if plan.host.emulates(point.backend) {
        return None;
    }
    let headline = plan.scenario.headline.as_deref()?;
    let rate = |load: &LoadPlan| match &load.demand {
        Demand::Open { rate, .. } => Some(rate.get()),
        Demand::Closed => None,
    };
    let loads = || point.loads.iter().filter(|load| load.name == headline);
    let unit = loads().next()?.work.facts().unit();
    let rate: f64 = loads().map(rate).sum::<Option<f64>>()?;
    Some((unit, rate * point.measure.length.as_seconds()))
}

/// Refuses two sides that are not given, or that are one and the same.
///
/// # Errors
/// When nothing differs between the sides.
pub(crate) fn sides_differ(plan: &Plan, given: bool) -> Result<(), Failure> {
    if !given {
        return Err(Failure::new(
            FailureCode::BadInput,
            "the two sides have no settings: neither `--a` nor `--b` was given",
            "give what differs, such as `--a qemu.machine=pc --b qemu.machine=q35`",
        ));
    }
    let of = |side: SideName| plan.points.iter().filter(move |point| point.side == Some(side));
    let alike = of(SideName::A).zip(of(SideName::B)).all(|(a, b)| {
        let b = Point { index: a.index, side: a.side, ..b.clone() };
        *a == b
    });
    if !alike {
        return Ok(());
    }
    Err(Failure::new(
        FailureCode::BadInput,
        "both sides have the same settings: nothing would differ between them",
        "give one side another value. To see how much two equal runs differ, run `tilemark run` twice, then `tilemark compare`",
    ))
}

/// Programs and files that values name, unless only the scenario's file names them and nobody trusts it: whether they are there, and what
/// they are, would be shown to its author.
fn named_files(prepared: &Prepared) -> Result<(), Failure> {
    let may_use = |key: &str| !prepared.is_untrusted(|found| found.key == key);
    let (any_binary, any_kernel) = (may_use("qemu.binary"), may_use("qemu.kernel"));
    let mut kernels = BTreeSet::new();
    for point in prepared.plan.points.iter().filter(|point| point.backend != Backend::Native) {
        // A point whose program nobody may look at does not use the host's own QEMU in its place.
        if any_binary || point.qemu.binary.is_none() {
            find_qemu(point.qemu.binary.as_deref().map(Path::new))?;
        }
        kernels.extend(point.qemu.kernel.as_deref().filter(|_| any_kernel));
    }
    kernels.into_iter().try_for_each(check_kernel)?;
    Ok(())
}

/// What is in the cache for the plan's image. A cached one is asked for all that its guests need.
fn image_state(prepared: &Prepared, places: &Places, offline: bool) -> Result<String, Failure> {
    if !prepared.plan.scenario.needs_image() {
        return Ok("none is needed: every guest boots from a disk of its own".to_owned());
    }
    let scenario = &prepared.plan.scenario;
    let said = prepared.image.said();
    if prepared.image.has_unread_files() {
        return Ok(format!("{said}: its files are read when you trust the scenario"));
    }
    let spec = prepared.image.spec()?;
    // One that may not be read, or is damaged, is not in use either: the run says so when it builds it.
    let look = |cache: &Path| ImageCache::look(cache, spec).unwrap_or(InCache::Missing);
    let roots = Places::cache_of_root(&Surroundings::of_this_process());
    let of_root = roots.as_deref().map(look).filter(|looked| !matches!(looked, InCache::Missing));
    let whose = if of_root.is_some() { "root's cache" } else { "the cache" };
    let looked = of_root.unwrap_or_else(|| look(&places.cache));
    image_check::check_paths(scenario, spec, &looked)?;
    match looked {
        InCache::Built(image) => {
            check_image(scenario, image.folder())?;
            return Ok(format!("{said}, in {whose}"));
        }
        InCache::BaseBuilt(_) => {
            has_tool(&prepared.facts, "mkfs.erofs", "erofs-utils", "building the guest image")?;
            return Ok(format!(
                "{said}: its packages are in {whose}, and its files are added first, which takes seconds"
            ));
        }
        InCache::Missing => {}
    }
    if offline {
        return Err(ImageError::NotCached { name: spec.name.clone(), cache: places.cache.clone() }.into());
    }
    for (tool, package) in [("mmdebstrap", "mmdebstrap"), ("mkfs.erofs", "erofs-utils")] {
        has_tool(&prepared.facts, tool, package, "building the guest image")?;
    }
    Ok(format!(
        "{said}, not in the cache: it is built first, which takes a minute or more and needs the network"
    ))
}

/// The disk store is a file system that is made once.
fn disk_tools(plan: &Plan, facts: &HostFacts, places: &Places) -> Result<(), Failure> {
    let in_store = |point: &Point| {
        let mut disks = point.guests.iter().flat_map(|guest| &guest.disks);
        disks.any(|disk| disk.on == DiskMedium::Store)
    };
    if !plan.points.iter().any(in_store) || store_file(&places.cache).exists() {
        return Ok(());
    }
    has_tool(facts, "mkfs.xfs", "xfsprogs", "making the disk store")
}

fn has_tool(facts: &HostFacts, tool: &str, package: &str, what: &str) -> Result<(), Failure> {
    if facts.tools.iter().any(|found| found.name == tool && found.path.value().is_some()) {
        return Ok(());
    }
    let message = format!("`{tool}` is not installed, which {what} needs");
    Err(Failure::new(FailureCode::HostUnfit, message, format!("apt-get install {package}")))
}

/// Native twins together may be allowed more memory than there is: they use less, and nothing says so before it runs out.
fn twins_memory(plan: &Plan) -> Option<String> {
    let native = plan.points.iter().filter(|point| point.backend == Backend::Native);
    let (point, sum) = native
        .map(|point| (point, point.guests.iter().map(|guest| guest.memory).sum::<Bytes>()))
        .max_by_key(|(_, sum)| *sum)?;
    (sum > plan.host.memory_available).then(|| {
        format!(
            "the native twins of {} may use {} together and this host has {} available: most use less; if they use all of it, memory runs out",
            counted(point.tiles, "tile"),
            sum.rounded(),
            plan.host.memory_available.rounded()
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fakes::{ladder, plan_of};
    use tilemark_plan::{
        builtin::builtin,
        resolve::{Request, Sides},
    };

    #[test]
    fn every_open_loop_whose_requests_are_too_few_for_a_p99_is_named_with_what_helps() {
        let warning = |scenario: &str, settings: &[(&str, &str)]| {
            let settings = tilemark_fixtures::settings(settings);
            let request = Request { tiles: Some(vec![1]), settings, ..ladder() };
            too_few_requests(&plan_of(builtin(scenario).unwrap().text, &request))
        };
        let slow = [("load.web.rate", "5/s"), ("measure.length", "20s"), ("measure.repeats", "2")];
        assert_eq!(
            warning("web", &slow).unwrap(),
            "no p99 from this run: it needs 2000 requests, and load `web` sends 200 at 1 tile in 2 repeats of 20s; to fix: measure longer \
             (`--set measure.length=200s`) or more often (`--set measure.repeats=20`), or give the load a higher `rate`"
        );
        assert_eq!(warning("web", &[]), None);
        let pages = warning("sessions", &[]).unwrap();
        assert!(pages.contains("it needs 2000 pages, and load `shop` sends 1800 at 1 tile"), "{pages}");
        assert_eq!(warning("sessions", &[("measure.repeats", "4")]), None);
    }

    #[test]
    fn each_repeat_of_two_sides_needs_requests_enough_for_a_p99() {
        let warning = |rate: &str, length: &str| {
            let settings = [("load.web.rate", rate), ("measure.length", length)];
            let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned()));
            let side =
                |connections: &str| [("load.web.connections".to_owned(), connections.to_owned())].into();
            let request = Request {
                tiles: Some(vec![1]),
                settings: settings.into(),
                sides: Some(Sides { a: side("8"), b: side("16") }),
                ..ladder()
            };
            too_few_requests(&plan_of(builtin("web").unwrap().text, &request))
        };
        assert_eq!(
            warning("10/s", "20s").unwrap(),
            "the comparison may have no outcome at 1 tile: each repeat needs a p99 of its own, which takes 2200 requests (2000, and a tenth more \
             because their number scatters), and load `web` sends 200 in a repeat of 20s; to fix: measure longer \
             (`--set measure.length=220s`), or give the load a higher `rate`"
        );
        assert_eq!(warning("10/s", "220s"), None);
        assert!(warning("100/s", "20s").is_some(), "half of the repeats have fewer than 2000");
    }
}
