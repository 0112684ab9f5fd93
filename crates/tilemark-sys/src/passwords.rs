//! Variables of the environment that have passwords of the user's servers. Only a load alone reads them.

/// That of a database whose address has none.
pub const DATABASE_PASSWORD: &str = "TILEMARK_DATABASE_PASSWORD";
/// That of a broker whose address names a user without one.
pub const BROKER_PASSWORD: &str = "TILEMARK_BROKER_PASSWORD";
/// All of them: what a run starts for others, here or on another machine, gets none.
pub const PASSWORDS: [&str; 2] = [DATABASE_PASSWORD, BROKER_PASSWORD];
