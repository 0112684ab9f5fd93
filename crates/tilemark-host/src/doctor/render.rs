//! A diagnosis for the terminal: 80 columns, groups, aligned.

use std::fmt::Write;

use tilemark_plan::facts::{
    AcceleratorVerdict, Fact, HostFacts, ProbeFigures, Virtualisation, hypervisor_name,
};

use tilemark_units::printable_line;

use super::finding::{Finding, Severity, backend_states};

/// Whether text carries colours. The caller knows `NO_COLOR` and whether a terminal reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Text only.
    Plain,
    /// With ANSI colours.
    Colour,
}

const WIDTH: usize = 80;
/// As wide as `qemu-system-x86_64`.
const LABEL: usize = 18;

#[derive(Clone, Copy)]
enum Paint {
    Heading,
    Good,
    Bad,
    Warning,
    Faint,
}

impl Style {
    fn paint(self, paint: Paint, text: &str) -> String {
        let code = match paint {
            Paint::Heading => "1",
            Paint::Good => "32",
            Paint::Bad => "31",
            Paint::Warning => "33",
            Paint::Faint => "2",
        };
        match self {
            Self::Plain => text.to_owned(),
            Self::Colour => format!("\x1b[{code}m{text}\x1b[0m"),
        }
    }
}

/// The whole diagnosis as text that ends with a line end.
pub fn render_text(facts: &HostFacts, findings: &[Finding], style: Style) -> String {
    let mut page = Page { text: String::new(), style };
    page.heading("Host");
    host(&mut page, facts);
    page.heading("Accelerator");
    accelerator(&mut page, facts);
    page.heading("Kernel features");
    kernel(&mut page, facts);
    page.heading("Tools");
    for tool in &facts.tools {
        page.row(
            &tool.name,
            &match (&tool.path, &tool.version) {
                (Fact::Value(path), Fact::Value(version)) => format!("{version:<12} {path}"),
                (Fact::Value(path), Fact::Missing(_)) => format!("{:<12} {path}", "version?"),
                (Fact::Missing(_), _) => "not found".into(),
            },
        );
    }
    page.heading("Backends");
    for state in backend_states(findings) {
        let text = if state.blocked_by.is_empty() {
            style.paint(Paint::Good, "can be used")
        } else {
            format!("{}: {}", style.paint(Paint::Bad, "blocked"), state.blocked_by.join(", "))
        };
        page.row_as_is(state.backend.name(), &text);
    }
    for severity in [Severity::Blocks, Severity::Limits, Severity::Distorts, Severity::NiceToHave] {
        group(&mut page, &severity, findings);
    }
    if findings.is_empty() {
        page.heading("Nothing is short");
    }
    page.text
}

struct Page {
    text: String,
    style: Style,
}

impl Page {
    fn heading(&mut self, heading: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        let painted = self.style.paint(Paint::Heading, heading);
        self.text.push_str(&painted);
        self.text.push('\n');
    }

    /// A label and text, which is folded beside it. Names that firmware, programs and hypervisors give are foreign text.
    fn row(&mut self, label: &str, text: &str) {
        let (label, text) = (printable_line(label), printable_line(text));
        let indent = LABEL + 3;
        let first = format!("  {label:<LABEL$} ");
        let mut lines = fold(&text, WIDTH - indent).into_iter();
        let head = lines.next().unwrap_or_default();
        self.text.push_str(&first);
        self.text.push_str(&head);
        self.text.push('\n');
        for line in lines {
            let _ = writeln!(self.text, "{:indent$}{line}", ""); // writing to a String cannot fail
        }
    }

    fn row_as_is(&mut self, label: &str, text: &str) {
        let _ = writeln!(self.text, "  {label:<LABEL$} {text}");
    }
}

/// Breaks text at blanks so that no line has more than `width` characters, unless one word has.
fn fold(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    let mut line = String::new();
    // A run of blanks inside aligns columns: text that fits is left as it is.
    if text.chars().count() <= width {
        return vec![text.to_owned()];
    }
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// A fact as text, or that it is not known.
fn said<T: std::fmt::Display>(fact: &Fact<T>) -> String {
    match fact {
        Fact::Value(value) => value.to_string(),
        Fact::Missing(_) => "unknown".into(),
    }
}

/// A count with its noun.
fn many(count: &Fact<u32>, noun: &str) -> String {
    match count {
        Fact::Missing(_) => format!("{noun}s unknown"),
        Fact::Value(1) => format!("1 {noun}"),
        Fact::Value(count) => format!("{count} {noun}s"),
    }
}

fn gib(bytes: &Fact<u64>) -> String {
    match bytes {
        Fact::Value(bytes) => format!("{:.1} GiB", *bytes as f64 / f64::from(1 << 30)),
        Fact::Missing(_) => "unknown".into(),
    }
}

fn host(page: &mut Page, facts: &HostFacts) {
    page.row("name", &said(&facts.host_name));
    page.row("system", &format!("{}, Linux {}", said(&facts.distribution), said(&facts.kernel.release)));
    let processors = &facts.processors;
    page.row(
        "processor",
        &format!(
            "{}: {}, {}, {}",
            said(&processors.model),
            many(&processors.sockets, "socket"),
            many(&processors.cores, "core"),
            many(&processors.threads_online, "thread")
        ),
    );
    let nodes = facts
        .numa_nodes
        .value()
        .map_or_else(|| "NUMA unknown".into(), |nodes| many(&Fact::Value(nodes.len() as u32), "NUMA node"));
    let memory = &facts.memory;
    page.row(
        "memory",
        &format!(
            "{} total, {} available, {} swap, {nodes}",
            gib(&memory.bytes_total),
            gib(&memory.bytes_available),
            gib(&memory.swap_bytes_total)
        ),
    );
    page.row(
        "runs on",
        &match &facts.virtualisation {
            Fact::Value(Virtualisation::None) => "bare metal".into(),
            Fact::Value(Virtualisation::Guest { hypervisor }) => {
                let name = hypervisor.value().map_or("unknown", |signature| hypervisor_name(signature));
                format!("a hypervisor: {name}")
            }
            Fact::Missing(_) => "unknown".into(),
        },
    );
    let steal = facts.steal_fraction_since_boot.value().map(|fraction| format!("{:.2} %", fraction * 100.0));
    page.row("steal", &steal.map_or_else(|| "unknown".into(), |steal| format!("{steal} since boot")));
    page.row("frequency", &frequency(facts));
}

fn frequency(facts: &HostFacts) -> String {
    match (&facts.frequency.driver, &facts.frequency.governors) {
        (Fact::Missing(_), Fact::Missing(_)) => "not shown to this kernel".into(),
        (driver, governors) => {
            let governors =
                governors.value().map_or_else(|| "unknown".into(), |governors| governors.join(", "));
            format!("{}, governor {governors}", said(driver))
        }
    }
}

fn accelerator(page: &mut Page, facts: &HostFacts) {
    let kvm = &facts.accelerators.kvm;
    let (word, paint) = match kvm.verdict {
        AcceleratorVerdict::Usable => ("usable", Paint::Good),
        AcceleratorVerdict::TooSlow => ("too slow", Paint::Bad),
        AcceleratorVerdict::Absent => ("absent", Paint::Bad),
        AcceleratorVerdict::Unknown => ("unknown", Paint::Warning),
    };
    let painted = page.style.paint(paint, word);
    page.row_as_is("kvm", &painted);
    page.row("", &kvm.reason);
    if let Some(figures) = &kvm.figures {
        probe(page, figures);
    }
}

fn probe(page: &mut Page, figures: &ProbeFigures) {
    let heads =
        page.style.paint(Paint::Faint, &format!("{:<26}{:>12}{:>12}{:>9}", "", "host", "guest", "ratio"));
    page.row_as_is("", &heads);
    let mut compare = |what: &str, host: f64, guest: &Fact<f64>| {
        let (guest, ratio) = match guest {
            Fact::Value(ns) => (duration(*ns), format!("{:.1}", ns / host)),
            Fact::Missing(_) => ("stopped".into(), String::new()),
        };
        page.row_as_is("", format!("{what:<26}{:>12}{guest:>12}{ratio:>9}", duration(host)).trim_end());
    };
    compare("eight plain instructions", figures.plain_host_ns, &figures.plain_guest_ns);
    compare("a page-table change", figures.tables_host_ns, &figures.tables_guest_ns);
    compare("a cmpxchg16b", figures.exchange_host_ns, &figures.exchange_guest_ns);
    let alone = |what: &str, ns: &Fact<f64>| {
        let text = ns.value().map_or_else(|| "stopped".into(), |ns| duration(*ns));
        format!("{what:<26}{:>12}{text:>12}", "")
    };
    page.row_as_is("", &alone("first touch of a page", &figures.touch_guest_ns));
    page.row_as_is("", &alone(&format!("an exit, median of {}", figures.exits), &figures.exit_ns_p50));
    page.row_as_is("", &alone("an exit, 99th percentile", &figures.exit_ns_p99));
    page.row_as_is("", &format!("timed in {:.2} s", figures.seconds));
}

fn duration(ns: f64) -> String {
    match ns {
        ns if ns < 1e3 => format!("{ns:.1} ns"),
        ns if ns < 1e6 => format!("{:.1} µs", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

fn kernel(page: &mut Page, facts: &HostFacts) {
    let devices = &facts.devices;
    let offered =
        [("tap", &devices.tun), ("vhost-net", &devices.vhost_net), ("vhost-vsock", &devices.vhost_vsock)];
    let words: Vec<String> = offered
        .iter()
        .map(|(name, fact)| format!("{name} {}", if fact.value().is_some() { "yes" } else { "no" }))
        .collect();
    page.row("devices", &words.join(", "));
    page.row(
        "control groups",
        &match &facts.control_groups {
            Fact::Missing(_) => "none of version 2".into(),
            Fact::Value(groups) if groups.controllers.is_empty() => {
                format!("{}, no controller", groups.mount_point)
            }
            Fact::Value(groups) => format!("{}: {}", groups.mount_point, groups.controllers.join(" ")),
        },
    );
    let pressure = facts.pressure.value().map_or_else(|| "no".into(), |files| files.resources.join(", "));
    page.row("pressure", &pressure);
    let pools: Vec<String> = facts
        .memory
        .huge_pages
        .value()
        .into_iter()
        .flatten()
        .map(|pool| format!("{} of {} MiB", pool.count_total, pool.page_bytes >> 20))
        .collect();
    let transparent = said(&facts.memory.transparent_huge_pages);
    page.row(
        "huge pages",
        &format!(
            "{}; transparent: {transparent}",
            if pools.is_empty() { "unknown".into() } else { pools.join(", ") }
        ),
    );
    page.row(
        "IOMMU groups",
        &facts.iommu.value().map_or_else(
            || "unknown".into(),
            |iommu| {
                let kinds: Vec<String> =
                    iommu.kinds.iter().map(|kind| format!("{} {}", kind.groups, kind.kind)).collect();
                if kinds.is_empty() {
                    iommu.groups.to_string()
                } else {
                    format!("{} ({})", iommu.groups, kinds.join(", "))
                }
            },
        ),
    );
    page.row(
        "energy",
        &facts.energy_zones.value().map_or_else(|| "no counters".into(), |zones| zones.join(", ")),
    );
    page.row(
        "guests running",
        &facts.running_guests.value().map_or_else(|| "unknown".into(), |guests| guests.len().to_string()),
    );
}

fn group(page: &mut Page, severity: &Severity, findings: &[Finding]) {
    let (heading, paint) = match severity {
        Severity::Blocks => ("Blocking problems", Paint::Bad),
        Severity::Limits => ("Limits", Paint::Warning),
        Severity::Distorts => ("Distorts figures", Paint::Warning),
        Severity::NiceToHave => ("Good to know", Paint::Faint),
    };
    let of_severity: Vec<&Finding> =
        findings.iter().filter(|finding| finding.severity == *severity).collect();
    if of_severity.is_empty() {
        return;
    }
    page.heading(heading);
    for (index, finding) in of_severity.into_iter().enumerate() {
        if index > 0 {
            page.text.push('\n');
        }
        let key = page.style.paint(paint, &printable_line(&finding.key));
        let _ = writeln!(page.text, "  {key}"); // writing to a String cannot fail
        page.row("  found", &finding.what);
        page.row("  costs", &finding.cost);
        page.row("  to fix", &finding.remedy);
    }
}
