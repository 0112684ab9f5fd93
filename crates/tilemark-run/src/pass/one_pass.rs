//! One pass over one point: fresh guests, one measurement, its figures in the record, no guest left.
//!
//! ```text
//! settings of the host applied -> start guests -> all ready -> working sets written -> loads and host measured
//!     -> settings read back, guests checked -> guests ended -> settings restored -> written
//! ```

use crate::{
    failure::{Failure, FailureCode, state_failed},
    guests::start::{StartedGuests, Templates},
    guests::{memory, services},
    job::messages::CommandLink,
    job::state_folder::boot_id,
    pass::guest_check::{self, Clocks},
    pass::host_settings::SettingsHeld,
    pass::load_figures::{Figures, LoadReports},
    pass::load_process::LoadProcess,
    pass::measurement::{MeasuredPass, Measurement},
    pass::network_check::Ports,
    pass::time::{RunTime, unix_ms},
    pass::world::World,
    pass::{disk_check, guest_use, host_watch, place_watch},
    stop::StopSignal,
};
use std::{collections::BTreeMap, fs, path::PathBuf, time::Instant};
use tilemark_guests::{GuestManager, QEMU_ARGUMENTS, ReadyGuest, describe, write_working_sets};
use tilemark_plan::{
    host_settings::HostSettings,
    plan::{Pass, Plan, Point},
};
use tilemark_record::{
    Event, Events, RepeatFiles, RunDirectory,
    clients::ClientFigures,
    histogram::BadHistogram,
    summary::{HostFigures, Incident, Levels, RepeatSummary, SecondsToReady},
};
use tilemark_units::{Sha256Hash, counted};

/// One pass, with all that it needs of its run.
pub(crate) struct OnePass<'a, W> {
    /// The world.
    pub(crate) world: &'a W,
    /// The run's plan.
    pub(crate) plan: &'a Plan,
    /// What is measured.
    pub(crate) point: &'a Point,
    /// Which repeat of it.
    pub(crate) pass: Pass,
    /// Which session of the record, from 1.
    pub(crate) session: u32,
    /// Where figures go.
    pub(crate) record: &'a RunDirectory,
    /// Where events go.
    pub(crate) events: &'a mut Events,
    /// Who is shown how far it is.
    pub(crate) link: &'a CommandLink,
    /// Whether it is to end.
    pub(crate) stop: &'a StopSignal,
    /// The run's time.
    pub(crate) time: &'a mut RunTime,
    /// Settings of the host that any point of the plan sets.
    pub(crate) settings: &'a HostSettings,
    /// What another program has changed of them, in words, is added to this.
    pub(crate) changed_by_others: &'a mut Vec<String>,
    /// Kernels of guests that boot from a disk of their own are added to this, by the guest's name in the tile.
    pub(crate) kernels: &'a mut BTreeMap<String, String>,
    /// Where its summary is added once its figures are written.
    pub(crate) repeats: &'a mut Vec<RepeatSummary>,
}

/// All guests of the point.
struct AllReady {
    guests: Vec<ReadyGuest>,
    /// Seconds until the last one was ready.
    ready_s: f64,
    /// And each of them.
    seconds_to_ready: Option<SecondsToReady>,
}

/// What is known after the loads.
struct UnderLoad {
    measured: MeasuredPass,
    /// What had passed the guests' ports before them and after them.
    ports: [Ports; 2],
    /// The clocks of guests before them.
    clocks: Clocks,
    /// Client machines that sent loads.
    clients: Vec<ClientFigures>,
}

/// A kernel that reports one error mostly reports many; the first show what is wrong.
const KERNEL_ERRORS_KEPT: usize = 8;
/// Characters of a kernel's name that are kept: `uname` has 64.
const KERNEL_NAME_MAX: usize = 64;

impl<W: World> OnePass<'_, W> {
    /// Does all of it. Returns whether it was measured to its end: an interrupted pass leaves nothing.
    ///
    /// # Errors
    /// When guests cannot be started, a load fails, or the record cannot be written.
    pub(crate) fn run(mut self) -> Result<bool, Failure> {
        let (world, point) = (self.world, self.point);
        let manager = world.manager(point)?;
        let measured = point.together.as_ref().map(ToString::to_string);
        let measured = measured.unwrap_or_else(|| counted(point.tiles, "tile"));
        let what = format!("{measured} on {}, repeat {}", point.backend.name(), self.pass.repeat);
        self.time.on_templates += world.prepare_disks(point, &|doing| self.progress(doing.to_owned()))?;
        if self.stop.is_requested() {
            return Ok(false);
        }
        self.progress(format!("{what}: starting {}", counted(point.guests.len() as u64, "guest")));
        let mut started = StartedGuests::new(manager);
        let templates = started.templates(point)?;
        self.time.on_templates += templates.took;
        let free_before = world.memory_available();
        // Templates are shared by all points, so they are made on the host as it is.
        let settings = SettingsHeld::apply(world.hands(), &point.host, self.settings)?;
        let Some(all_ready) = self.start(&mut started, &templates)? else {
            started.stop()?;
            self.restore(settings)?;
            return Ok(false);
        };
        let AllReady { mut guests, ready_s, seconds_to_ready } = all_ready;

        self.progress(format!("{what}: under load"));
        let load = world.load_process(point)?;
        let began_unix_ms = unix_ms();
        let Some(mut under_load) = self.under_load(manager, &mut guests, load, &settings)? else {
            started.stop()?;
            self.restore(settings)?;
            return Ok(false);
        };
        let (settings_read, changed) = settings.read_at_end();
        let free_after = world.memory_available();
        let memory = memory::of_guests(manager, &guests, |pid| world.pss(pid))
            .map(|memory| memory::beside_available(memory, point.backend, free_before, free_after));
        let mut incidents = self.incidents(manager, &mut guests, &mut under_load);
        incidents.extend(changed);
        let mut measured = under_load.measured;
        let consoles: Vec<_> = guests.iter().map(|guest| manager.console(guest.id).ok()).collect();
        drop(guests);
        started.stop()?;
        self.restore(settings)?;
        let mut kernel_errors = world.kernel_errors();
        kernel_errors.truncate(KERNEL_ERRORS_KEPT);
        let summary = RepeatSummary {
            point: point.index,
            repeat: self.pass.repeat,
            block: self.pass.block,
            began_unix_ms,
            backend: point.backend,
            loads: Vec::new(),
            host: self.host_figures(&measured),
            incidents,
            memory,
            ready_s: Some(ready_s),
            seconds_to_ready,
            uses: guest_use::of(point, &measured.host),
            kernel_errors,
            settings: settings_read,
            place: measured.place.take(),
            is_load_in_place: measured.reports.is_in_place(),
            levels: Some(self.levels(&templates)?),
            hooks: std::mem::take(&mut measured.hooks),
            clients: under_load.clients,
        };
        let files = self.record.repeat(point.index, self.pass.repeat)?;
        self.write(&files, &measured, summary)?;
        self.keep_consoles(&files, &consoles)?;
        Ok(true)
    }

    /// Restores the settings of the host.
    fn restore(&mut self, settings: SettingsHeld<'_>) -> Result<(), Failure> {
        let others = settings.restore()?;
        for setting in &others {
            self.events.append(&Event::Note { text: format!("not restored: {setting}") })?;
        }
        self.changed_by_others.extend(others);
        Ok(())
    }

    /// Starts the guests, waits until all are ready and has clones write their working sets. Nothing where the user wanted it to
    /// end.
    fn start(
        &mut self,
        started: &mut StartedGuests<'_>,
        templates: &Templates,
    ) -> Result<Option<AllReady>, Failure> {
        let point = self.point;
        let began = Instant::now();
        let Some(mut guests) = started.start(point, templates, self.stop, &|| ())? else { return Ok(None) };
        let ready_s = began.elapsed().as_secs_f64();
        place_watch::put_kernel_threads(point);
        let since = |guest: &ReadyGuest| guest.ready_at.saturating_duration_since(began).as_secs_f64();
        let seconds_to_ready = SecondsToReady::of(guests.iter().map(since).collect());
        self.events.append(&Event::GuestsReady { seconds: ready_s, guests: guests.len() as u32 })?;
        self.note_kernels(&mut guests)?;
        // As with readiness: a guest that cannot do it, or does not answer, is not measured.
        write_working_sets(&mut guests, &point.guests, services::working_sets_within(point))?;
        Ok(Some(AllReady { guests, ready_s, seconds_to_ready }))
    }

    /// Asks guests whose kernel no image names, each kind once in a run.
    fn note_kernels(&mut self, guests: &mut [ReadyGuest]) -> Result<(), Failure> {
        for (guest, plan) in guests.iter_mut().zip(&self.point.guests) {
            if plan.from.is_some() && !self.kernels.contains_key(plan.name_in_tile()) {
                let kernel = describe(plan, &mut guest.session)?.kernel;
                let kernel = kernel.chars().take(KERNEL_NAME_MAX).collect();
                self.kernels.insert(plan.name_in_tile().to_owned(), kernel);
            }
        }
        Ok(())
    }

    /// Runs the loads. The load process has ended then.
    fn under_load(
        &self,
        manager: &dyn GuestManager,
        guests: &mut [ReadyGuest],
        mut load: Box<dyn LoadProcess>,
        settings: &SettingsHeld<'_>,
    ) -> Result<Option<UnderLoad>, Failure> {
        let hooks = self.world.hooks().map(|hooks| {
            let files = self.record.repeat(self.point.index, self.pass.repeat)?;
            hooks.of_repeat(self.point, self.pass, files.path())
        });
        let measurement = Measurement {
            plan: self.plan,
            point: self.point,
            block: self.pass.block,
            manager,
            own_processes: self.world.own_processes(),
            watch: self.world.watch(),
            settings,
            hooks: hooks.transpose()?,
            stop: self.stop,
        };
        let clocks = Clocks::read(self.point, guests, &[]);
        let before = Ports::read(manager, guests);
        let ports_of_guests: Vec<Vec<u16>> = guests.iter().map(|guest| guest.ports.clone()).collect();
        let mut clients = match self.world.clients() {
            Some(clients) if self.point.loads.iter().any(|load| load.from_clients) => {
                Some(clients.of_repeat(self.point, self.pass.block, &ports_of_guests)?)
            }
            _ => None,
        };
        let mut measured = measurement.run(guests, load.as_mut(), clients.as_mut())?;
        let clients = match (clients, &mut measured) {
            (Some(clients), Some(measured)) => {
                let known = std::mem::take(&mut measured.lost_clients);
                let (figures, lost) =
                    clients.finish(self.point, &mut measured.reports, &known).map_err(disagreement)?;
                measured.lost.extend(lost);
                figures
            }
            _ => Vec::new(),
        };
        for run in measured.iter().flat_map(|measured| &measured.hooks) {
            if let Some(failed) = &run.failed {
                self.link.note(format!("--hook-{} failed: {failed}", run.hook.name()));
            }
        }
        let ports = [before, Ports::read(manager, guests)];
        Ok(measured.map(|measured| UnderLoad { measured, ports, clocks, clients }))
    }

    /// What makes the figures of this repeat doubtful, as far as guests and host show it.
    fn incidents(
        &self,
        manager: &dyn GuestManager,
        guests: &mut [ReadyGuest],
        UnderLoad { measured, ports: [ports_before, ports], clocks, clients: _ }: &mut UnderLoad,
    ) -> Vec<Incident> {
        let mut incidents = guest_check::origins_and_ends(manager, guests, self.point);
        // What it asked of guests is not known then.
        let load_was_refused = measured.lost.iter().any(|incident| incident.guest.is_none());
        // A guest whose load was refused is asked nothing more; one whose load failed, whether its service has ended.
        incidents.append(&mut measured.lost);
        let clocks_now = Clocks::read(self.point, guests, &incidents);
        incidents.extend(clocks_now.wrong_since(clocks, self.point));
        incidents.extend(guest_check::services_ended(self.point, guests, &incidents));
        if !load_was_refused {
            incidents.extend(ports.offences(ports_before, self.point, &measured.reports));
        }
        incidents
    }

    fn host_figures(&self, measured: &MeasuredPass) -> HostFigures {
        host_watch::figures(&measured.host, self.plan.host.memory_total.get(), &self.plan.processors.guests)
    }

    /// What this repeat shares with others.
    fn levels(&self, templates: &Templates) -> Result<Levels, Failure> {
        let boot = Sha256Hash::of(boot_id().map_err(state_failed)?.as_bytes()).to_string();
        Ok(Levels { session: self.session, boot: boot[..16].to_owned(), templates: templates.numbers() })
    }

    /// Completes the summary with the figures of the loads, and writes all of the repeat.
    fn write(
        &mut self,
        files: &RepeatFiles,
        measured: &MeasuredPass,
        mut summary: RepeatSummary,
    ) -> Result<(), Failure> {
        let (point, repeat, reports) = (self.point, self.pass.repeat, &measured.reports);
        self.keep_tool_outputs(files, reports)?;
        let Figures { loads, seconds, latency } = reports.figures(point, repeat).map_err(disagreement)?;
        let incidents = &mut summary.incidents;
        incidents.extend(disk_check::overstatements(point, reports, &measured.disks));
        incidents.extend(reports.unaudited(point));
        incidents.extend(reports.findings(point));
        summary.loads = loads;
        let telemetry = host_watch::rows(point.index, repeat, &measured.host.seconds);
        let guests = host_watch::guest_rows(point, repeat, &measured.host.seconds);
        files.write(&summary, &seconds, &telemetry, guests, &latency)?;
        self.repeats.push(summary);
        Ok(())
    }

    /// Puts what the tools behind the loads printed beside the figures of their repeat.
    fn keep_tool_outputs(&self, files: &RepeatFiles, reports: &LoadReports) -> Result<(), Failure> {
        for (place, output) in reports.tool_outputs() {
            let load = &self.point.loads[place as usize];
            let folder = files.guest(&self.point.guests[load.guest as usize].name)?;
            let kind = if output.starts_with('{') { "json" } else { "txt" };
            let path = folder.join(format!("{}.{kind}", load.name));
            tilemark_record::write_whole(&path, output.as_bytes())?;
        }
        Ok(())
    }

    /// Puts each guest's console beside the figures of its repeat. One that failed stays where its error
    /// says that it is.
    fn keep_consoles(&self, files: &RepeatFiles, consoles: &[Option<PathBuf>]) -> Result<(), Failure> {
        for (guest, console) in self.point.guests.iter().zip(consoles) {
            let Some(console) = console.as_ref().filter(|path| path.starts_with(self.record.path())) else {
                continue;
            };
            let kept = files.guest(&guest.name)?;
            // A native twin has none.
            let _ = fs::rename(console.with_file_name(QEMU_ARGUMENTS), kept.join(QEMU_ARGUMENTS));
            // A console is for a person who looks for a fault; a figure does not depend on it.
            if fs::rename(console, kept.join("console.log")).is_ok()
                && let Some(folder) = console.parent()
            {
                let _ = fs::remove_dir_all(folder);
            }
        }
        Ok(())
    }

    fn progress(&self, doing: String) {
        self.link.progress(self.time.progress(doing));
    }
}

fn disagreement(error: BadHistogram) -> Failure {
    let remedy = "report it: the load process and this program disagree";
    Failure::from_error(FailureCode::Bug, &error, remedy)
}
