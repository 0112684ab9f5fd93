//! The online store: schema, load, audit on MariaDB and PostgreSQL.
