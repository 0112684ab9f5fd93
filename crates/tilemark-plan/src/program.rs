//! Programs that guests run, by the packages of Debian that have them.

/// A program that a guest runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Program {
    /// Its name.
    pub name: &'static str,
    /// Packages, of which any has it.
    pub packages: &'static [&'static str],
}

/// The web server.
pub const NGINX: Program = Program {
    name: "nginx",
    packages: &["nginx-light", "nginx", "nginx-core", "nginx-full", "nginx-extras"],
};
/// What makes dynamic pages.
pub const PHP: Program = Program { name: "PHP", packages: &["php8.2-fpm"] };
/// What PHP asks MariaDB with.
pub const PHP_MYSQL: Program = Program { name: "PHP's MySQL functions", packages: &["php8.2-mysql"] };
/// The disk load.
pub const FIO: Program = Program { name: "fio", packages: &["fio"] };
/// The load of databases that is Debian's.
pub const SYSBENCH: Program = Program { name: "sysbench", packages: &["sysbench"] };
/// Programs that a user may name in a command, and that an image then needs.
pub const OF_COMMANDS: [Program; 2] = [SYSBENCH, FIO];
/// Programs of this host that serve or load without guests, and the argument with which each prints its version.
pub const VERSION_ARGUMENTS: [(&str, &str); 3] =
    [("fio", "--version"), ("nginx", "-v"), ("sysbench", "--version")];
/// A database.
pub const MARIADB: Program = Program { name: "MariaDB", packages: &["mariadb-server"] };
/// A database.
pub const POSTGRESQL: Program =
    Program { name: "PostgreSQL", packages: &["postgresql", "postgresql-15", "postgresql-17"] };
/// A broker.
pub const RABBITMQ: Program = Program { name: "RabbitMQ", packages: &["rabbitmq-server"] };
/// What a broker of Java runs on.
pub const JAVA: Program =
    Program { name: "Java, for Qpid Broker-J,", packages: &["openjdk-17-jre-headless", "openjdk-17-jre"] };
