//! Which programs a scenario's guests and loads need of their image.

use crate::{
    program::{JAVA, MARIADB, NGINX, PHP, PHP_MYSQL, POSTGRESQL, Program, RABBITMQ},
    scenario::{BrokerService, Role, Scenario},
};

/// What a guest needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageNeed {
    /// The guest's name in the tile.
    pub guest: String,
    /// What it runs.
    pub program: Program,
}

/// Every program of every guest that boots the image.
pub fn image_needs(scenario: &Scenario) -> Vec<ImageNeed> {
    let mut needs: Vec<ImageNeed> = Vec::new();
    for guest in scenario.guest.iter().filter(|guest| guest.from.is_none()) {
        let loads = scenario.load.iter().filter(|load| load.guest == guest.name);
        let of_loads: Vec<Program> = loads.flat_map(|load| load.work.facts().programs()).collect();
        let has_no_load = of_loads.iter().all(|program| [PHP, NGINX].contains(program));
        let roles = guest.roles();
        let own = roles.into_iter().filter_map(|role| of_service(role, guest.broker, has_no_load));
        let is_asked = guest.pages.is_some() && guest.serves(Role::Database);
        let of_pages = guest.pages.iter().map(|_| PHP).chain(is_asked.then_some(PHP_MYSQL));
        for program in own.chain(of_pages).chain(of_loads) {
            let need = ImageNeed { guest: guest.name.clone(), program };
            if !needs.contains(&need) {
                needs.push(need);
            }
        }
    }
    needs
}

/// Which database serves is its load's to say; without a load it is MariaDB.
fn of_service(role: Role, broker: BrokerService, has_no_load: bool) -> Option<Program> {
    match (role, broker) {
        (Role::Web, _) => Some(NGINX),
        (Role::Database, _) => has_no_load.then_some(MARIADB),
        (Role::Broker, BrokerService::Rabbitmq) => Some(RABBITMQ),
        (Role::Broker, BrokerService::QpidBrokerJ) => Some(JAVA),
        (Role::Broker, BrokerService::Reference)
        | (Role::Idle | Role::Disk | Role::Compute | Role::Client | Role::Backend | Role::Program, _) => None,
    }
}

/// What guests of an image can serve, in words: each role that needs nothing, and each for which the image has the program.
pub fn served_by(has: impl Fn(&Program) -> bool) -> Vec<&'static str> {
    let all: [(&str, &[Program]); 13] = [
        ("idle", &[]),
        ("disk", &[]),
        ("compute", &[]),
        ("client", &[]),
        ("backend", &[]),
        ("program", &[]),
        ("broker (the reference broker)", &[]),
        ("broker (RabbitMQ)", &[RABBITMQ]),
        ("broker (Qpid Broker-J)", &[JAVA]),
        ("web", &[NGINX]),
        ("web with PHP", &[NGINX, PHP]),
        ("database (MariaDB)", &[MARIADB]),
        ("database (PostgreSQL)", &[POSTGRESQL]),
    ];
    all.into_iter().filter(|(_, needed)| needed.iter().all(&has)).map(|(role, _)| role).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{builtin::builtin, parse::Draft};

    fn needs_of(name: &str, settings: &[(&str, &str)]) -> Vec<(String, &'static str)> {
        let mut draft = Draft::from_toml(builtin(name).unwrap().text, name).unwrap();
        for (key, value) in settings {
            draft.set(key, (*value).into()).unwrap();
        }
        let scenario = draft.finish().unwrap();
        image_needs(&scenario).into_iter().map(|need| (need.guest, need.program.name)).collect()
    }
    fn named(needs: &[(&str, &'static str)]) -> Vec<(String, &'static str)> {
        needs.iter().map(|(guest, program)| ((*guest).to_owned(), *program)).collect()
    }

    #[test]
    fn each_guest_needs_what_serves_it_and_what_its_loads_run() {
        let site = [("web", "nginx"), ("web", "PHP")];
        assert_eq!(needs_of("sessions", &[]), named(&site));
        let tile = needs_of("consolidation", &[]);
        for need in named(&[("web-inside", "PHP"), ("database", "MariaDB")]) {
            assert!(tile.contains(&need), "{need:?}: {tile:?}");
        }
        let of_database = tile.iter().filter(|(guest, _)| guest == "database").count();
        assert_eq!(of_database, 2, "the server, and the load that runs beside it: {tile:?}");
        assert_eq!(needs_of("oltp", &[]), named(&[("db", "MariaDB")]));
        let postgresql = needs_of("oltp", &[("load.orders.store.database", "postgresql")]);
        assert_eq!(postgresql, named(&[("db", "PostgreSQL")]));
        assert_eq!(needs_of("jobs", &[]), []);
        let shop = ["MariaDB", "nginx", "PHP", "PHP's MySQL functions"].map(|name| ("shop", name));
        assert_eq!(needs_of("shop", &[]), named(&shop));
    }
}
