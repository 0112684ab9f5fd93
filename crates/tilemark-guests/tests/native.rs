//! Native twins for real: root, the image and the agent are needed.

#![allow(missing_docs, clippy::unwrap_used)]

mod common;

use common::{guest, in_namespaces, service};
use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    os::unix::fs::symlink,
    process::Command,
    sync::Arc,
    time::Duration,
};
use tilemark_agent_protocol::{Execute, Reply, Request};
use tilemark_guests::{GuestManager, GuestState, ReadyGuest, RunNetwork, StartMode, describe, start_ready};
use tilemark_plan::{plan::BRIDGE_ADDRESS, scenario::Role};
use tilemark_units::Span;

const LIMIT: Duration = Duration::from_secs(600);

#[test]
fn a_native_twin_serves_the_web_over_the_bridge_and_leaves_nothing() {
    in_namespaces("a_native_twin_serves_the_web_over_the_bridge_and_leaves_nothing", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let plan = guest(0, Role::Web);
        let mut ready = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).unwrap();
        println!("steps: {:?}", ready.steps);
        let mut web = TcpStream::connect((plan.address, ready.ports[0])).unwrap();
        web.set_read_timeout(Some(LIMIT)).unwrap();
        web.write_all(b"GET /1024.bin HTTP/1.0\r\n\r\n").unwrap();
        let mut text = Vec::new();
        web.read_to_end(&mut text).unwrap();
        assert!(text.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&text));

        let description = describe(&plan, &mut ready.session).unwrap();
        assert_eq!((description.host_name.as_str(), description.mac), (plan.name.as_str(), plan.mac));
        assert_eq!(description.machine_id, ready.machine_id);
        let processes = manager.processes(ready.id).unwrap();
        assert!(processes.len() >= 4, "first process, server, nginx and its worker: {processes:?}");

        manager.stop(ready.id).unwrap();
        manager.stop(ready.id).unwrap();
        assert!(matches!(manager.state(ready.id).unwrap(), GuestState::Ended(_)));
        for pid in processes {
            assert!(!common::exists(format!("/proc/{pid}").as_ref()), "process {pid} is left");
        }
        assert!(!common::exists("/sys/class/net/guest0".as_ref()));
        // The same place can be taken again at once.
        start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).unwrap();
    });
}

#[test]
fn twins_see_only_themselves() {
    in_namespaces("twins_see_only_themselves", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let plans = [guest(0, Role::Idle), guest(1, Role::Idle)];
        let mut ready: Vec<_> = plans
            .iter()
            .map(|plan| start_ready(&manager, plan, &service(plan), StartMode::Boot, LIMIT).unwrap())
            .collect();
        let arguments = [
            "sh",
            "-c",
            "ls /proc | grep -c '^[0-9]'; cat /proc/1/comm; ls /dev; mount | wc -l; touch /mine",
        ];
        let order =
            Execute { arguments: arguments.map(str::to_owned).to_vec(), within: Span::from_seconds(20) };
        let Reply::Executed { code: 0, output, .. } =
            ready[0].session.ask(&Request::Execute(order), LIMIT).unwrap()
        else {
            panic!("it did not run")
        };
        let text = String::from_utf8(output).unwrap();
        println!("{text}");
        assert!(text.contains("urandom") && text.contains("shm") && text.contains("pts"));
        let order = Execute {
            arguments: vec!["test".into(), "-e".into(), "/mine".into()],
            within: Span::from_seconds(20),
        };
        let Reply::Executed { code, .. } = ready[1].session.ask(&Request::Execute(order), LIMIT).unwrap()
        else {
            panic!("it did not run")
        };
        assert_eq!(code, 1, "one twin's file is not the other's");
    });
}

/// What `/bin/sh` says about a script in a guest.
fn output_of_shell(ready: &mut ReadyGuest, script: &str) -> String {
    let arguments = ["/bin/sh", "-c", script].map(str::to_owned).to_vec();
    let order = Execute { arguments, within: Span::from_seconds(120) };
    let Reply::Executed { code, output, error } = ready.session.ask(&Request::Execute(order), LIMIT).unwrap()
    else {
        panic!("it did not run")
    };
    let output = String::from_utf8(output).unwrap();
    assert_eq!(code, 0, "{output}{}", String::from_utf8_lossy(&error));
    output
}

#[test]
fn a_hostile_image_reaches_nothing_of_the_host_from_a_twin() {
    in_namespaces("a_hostile_image_reaches_nothing_of_the_host_from_a_twin", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let plan = guest(0, Role::Idle);
        let mut ready = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).unwrap();
        assert_eq!(output_of_shell(&mut ready, include_str!("attacks.sh")), "all calls tried\ndone\n");
    });
}

/// An image in which a folder that process 1 of a twin writes into, with its power, is a link to one of the host.
#[test]
fn an_image_whose_folders_lead_to_the_host_is_refused_by_name_and_writes_nothing() {
    in_namespaces("an_image_whose_folders_lead_to_the_host_is_refused_by_name_and_writes_nothing", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        for (index, link) in ["etc", "run", "root", "tmp"].into_iter().enumerate() {
            let host = world.folder.join(format!("host-{link}"));
            let root = world.folder.join(format!("root-{link}"));
            fs::create_dir(&host).unwrap();
            fs::write(host.join("machine-id"), "precious").unwrap();
            for folder in ["dev", "etc", "proc", "root", "run", "srv", "sys", "tmp"] {
                let path = root.join(folder);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                if folder == link { symlink(&host, path).unwrap() } else { fs::create_dir(path).unwrap() }
            }
            let image = world.folder.join(format!("{link}.erofs"));
            let made = Command::new("mkfs.erofs").arg("--quiet").args([&image, &root]).status().unwrap();
            assert!(made.success());
            let manager = world.native_of(image, &network);
            let plan = guest(index as u32, Role::Idle);
            let error =
                start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).expect_err("refused");
            assert!(error.to_string().contains(&format!("/{link} is not a folder")), "{error}");
            let left: Vec<_> = fs::read_dir(&host).unwrap().map(|entry| entry.unwrap().file_name()).collect();
            assert_eq!(left, ["machine-id"]);
            assert_eq!(fs::read_to_string(host.join("machine-id")).unwrap(), "precious");
        }
    });
}

/// Writes 6 MB to whatever the twin's serving process has open as standard output, and tries to cut or replace it.
const FLOOD: &str = r#"
for fd in /proc/[0-9]*/fd/1; do
    [ -p "$fd" ] || [ -f "$fd" ] || continue
    head -c 6000000 /dev/zero | tr '\0' x >>"$fd"
    echo "the end" >>"$fd"
    : >"$fd"
    exit 0
done
exit 1
"#;

#[test]
fn a_twin_that_floods_its_console_fills_no_disk_and_cannot_cut_it() {
    in_namespaces("a_twin_that_floods_its_console_fills_no_disk_and_cannot_cut_it", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let plan = guest(0, Role::Idle);
        let mut ready = start_ready(&manager, &plan, &service(&plan), StartMode::Boot, LIMIT).unwrap();
        output_of_shell(&mut ready, FLOOD);
        for is_stopped in [false, true] {
            if is_stopped {
                manager.stop(ready.id).unwrap();
            }
            let text = std::fs::read_to_string(manager.console(ready.id).unwrap()).unwrap();
            assert!(text.len() < 3 << 20 | 1 << 10, "{} bytes of a console are kept", text.len());
            assert!(text.contains("tilemark-agent: ready"), "its beginning is gone");
            assert!(text.contains(" bytes were left out here]"));
            assert!(
                text.ends_with("xxxthe end\n"),
                "{is_stopped}: its end is {:?}",
                &text[text.len() - 80..]
            );
        }
    });
}

/// Tries to reach a neighbour, then floods it and the host with datagrams for as long as it takes to send so many.
const ATTACK_NEIGHBOUR: &str = r#"
perl -MSocket -e '
    my ($neighbour, $port, $host) = @ARGV;
    socket(my $tcp, PF_INET, SOCK_STREAM, 0) or die;
    $SIG{ALRM} = sub { die "unreachable\n" };
    alarm 5;
    my $reached = eval { connect($tcp, sockaddr_in($port, inet_aton($neighbour))) };
    alarm 0;
    print $reached ? "reached\n" : "unreachable\n";
    socket(my $udp, PF_INET, SOCK_DGRAM, 0) or die;
    for (1 .. 60000) {
        send($udp, "x" x 64, 0, sockaddr_in(9, inet_aton($_ % 2 ? $neighbour : $host)));
    }
'
"#;

#[test]
fn a_twin_reaches_no_neighbour_and_its_flood_is_counted() {
    in_namespaces("a_twin_reaches_no_neighbour_and_its_flood_is_counted", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let plans = [guest(0, Role::Idle), guest(1, Role::Web)];
        let [mut attacker, neighbour] = plans
            .each_ref()
            .map(|plan| start_ready(&manager, plan, &service(plan), StartMode::Boot, LIMIT).unwrap());
        let counts = |ready: &ReadyGuest| manager.port_counts(ready.id).unwrap();
        let (before, quiet) = (counts(&attacker), counts(&neighbour));
        assert_eq!((before.dropped, quiet.dropped), (0, 0), "twins that behave are not accused");
        let arguments = format!("' {} {} {BRIDGE_ADDRESS}", plans[1].address, neighbour.ports[0]);
        let attack = ATTACK_NEIGHBOUR.trim_end().trim_end_matches('\'').to_owned() + &arguments;
        assert_eq!(output_of_shell(&mut attacker, &attack), "unreachable\n");
        let after = counts(&attacker);
        assert!(after.sent - before.sent > 30_000, "the flood is not counted: {before:?}, {after:?}");
        assert!(counts(&neighbour).received - quiet.received < 100, "the flood reached its neighbour");
        // The host itself is still reached, and reaches both.
        for plan in &plans {
            let socket = tilemark_netlink::Ping::open(77).unwrap();
            socket.ask(plan.address, LIMIT).unwrap();
        }
    });
}

#[cfg(feature = "fake")]
#[test]
fn the_native_backend_keeps_the_rules_of_every_backend() {
    use tilemark_guests::specification::{Subject, keeps_all};
    in_namespaces("the_native_backend_keeps_the_rules_of_every_backend", |world| {
        let network = Arc::new(RunNetwork::create().unwrap());
        let manager = world.native(&network);
        let guests = vec![guest(0, Role::Idle), guest(1, Role::Idle)];
        let service = service(&guests[0]);
        keeps_all(&Subject { manager: &manager, guests, service, within: LIMIT });
    });
}
