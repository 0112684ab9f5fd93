//! A plan of a host's settings in words.

use crate::host::plan::{HostPlan, NotSet, Planned, State};
use std::fmt::Write;
use tilemark_plan::profile::Today;
use tilemark_units::counted;

impl HostPlan {
    /// The plan as text.
    pub fn text(&self) -> String {
        let mut text = format!("Profile {}: {}\n", self.profile, self.about);
        let (dangerous, harmless): (Vec<&Planned>, _) =
            self.changes().partition(|planned| planned.danger.needs_consent());
        add(&mut text, &harmless, "would change", &changed);
        add(
            &mut text,
            &dangerous,
            "would change only with `--allow KEY`, because they are dangerous",
            &changed,
        );
        self.add(&mut text, State::Refused, "cannot be set on this host, so nothing is applied", &refused);
        self.add(&mut text, State::AsWanted, "already as wanted", &as_wanted);
        self.add(&mut text, State::Spread, "unchanged, because the kernel spreads them itself", &as_wanted);
        self.add(&mut text, State::Skipped, "not on this host, and skipped", &refused);
        for rival in &self.rivals {
            let refusal = rival.refusal();
            line(&mut text, format_args!("\n{}: {}", refusal.message, refusal.remedy));
        }
        if !self.not_set.is_empty() {
            line(&mut text, format_args!("\nNot set ({}):", self.not_set.len()));
            self.not_set.iter().for_each(|one| not_set(&mut text, one));
        }
        self.add_consent(&mut text);
        text
    }

    fn add(&self, text: &mut String, state: State, what: &str, each: &dyn Fn(&mut String, &Planned)) {
        let some: Vec<&Planned> = self.settings.iter().filter(|planned| planned.state == state).collect();
        add(text, &some, what, each);
    }

    fn add_consent(&self, text: &mut String) {
        let dangerous = self.needs_consent();
        if dangerous.is_empty() {
            return;
        }
        let flags: Vec<String> = dangerous.iter().map(|planned| format!("--allow {}", planned.key)).collect();
        line(text, format_args!("\nDangerous, and set only with {}", flags.join(" ")));
    }
}

fn add(text: &mut String, some: &[&Planned], what: &str, each: &dyn Fn(&mut String, &Planned)) {
    if some.is_empty() {
        return;
    }
    line(text, format_args!("\n{} {what}:", counted(some.len() as u64, "setting")));
    some.iter().for_each(|planned| each(text, planned));
}

fn line(text: &mut String, words: std::fmt::Arguments<'_>) {
    // Writing into a text cannot fail.
    let _ = writeln!(text, "{words}");
}

fn changed(text: &mut String, planned: &Planned) {
    let Planned { name, now, wanted, danger, place, source, path, then, effect, .. } = planned;
    let now = now.as_deref().unwrap_or("unknown");
    let (place, danger) = (place.name(), danger.name());
    line(text, format_args!("  {name}: {now} -> {wanted}  (where: {place}, danger: {danger})"));
    if let Some(path) = path {
        line(text, format_args!("      file: {}", path.display()));
    }
    if !source.is_empty() {
        line(text, format_args!("      source: {source}"));
    }
    if let Some(then) = then {
        line(text, format_args!("      then: {then}"));
    }
    if let Some(effect) = effect {
        line(text, format_args!("      claimed: {effect}"));
    }
}

fn as_wanted(text: &mut String, planned: &Planned) {
    line(text, format_args!("  {} = {}", planned.name, planned.wanted));
}

fn refused(text: &mut String, planned: &Planned) {
    let Some(why) = &planned.why else { return };
    line(text, format_args!("  {} = {}: {}", planned.name, planned.wanted, why.message));
    if planned.state == State::Refused {
        line(text, format_args!("      {}", why.remedy));
    }
}

fn not_set(text: &mut String, one: &NotSet) {
    let today = match one.today {
        None => "",
        Some(Today::Same) => "; it exists today",
        Some(Today::Default) => "; the default today",
        Some(Today::Renamed) => "; renamed since then",
        Some(Today::Gone) => "; removed since then",
        Some(Today::Obsolete) => "; obsolete today",
    };
    let then = one.then.as_ref().map(|then| format!(": {then}")).unwrap_or_default();
    line(text, format_args!("  {}{then}{today}", one.key));
    if let Some(note) = &one.note {
        line(text, format_args!("      {note}"));
    }
}
