//! Passwords of servers that a load alone is sent to. In an address they would be in the list of processes, for
//! everybody to see; so an address may leave its password out, and the environment has it.

pub use tilemark_sys::passwords::{BROKER_PASSWORD as BROKER, DATABASE_PASSWORD as DATABASE};

/// The password that the environment has.
pub(crate) fn of_environment(variable: &str) -> Option<String> {
    std::env::var(variable).ok()
}

/// What to say about an address with a password that should be secret; nothing where there is none.
pub fn advice(address: &str, variable: &str) -> Option<String> {
    shows_secret(address).then(|| {
        format!(
            "the password is visible in the list of processes; leave it out of the address and set {variable} instead"
        )
    })
}

/// Whether an address has a password in it. That of `guest`, which every broker has, is no secret.
fn shows_secret(address: &str) -> bool {
    let credentials = address.split_once("://").and_then(|(_, rest)| rest.rsplit_once('@'));
    credentials.is_some_and(|(credentials, _)| credentials.contains(':') && credentials != "guest:guest")
}

/// A text in which arguments may be repeated, without the passwords of addresses among them.
pub fn hidden(text: &str, arguments: &[String]) -> String {
    let passwords = arguments.iter().filter_map(|argument| {
        let (credentials, _) = argument.split_once("://")?.1.rsplit_once('@')?;
        credentials.split_once(':').map(|(_, password)| password)
    });
    passwords.fold(text.to_owned(), |text, password| text.replace(&format!(":{password}@"), ":…@"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_is_warned_of_and_one_in_no_address_is_not() {
        let warned = |address| advice(address, BROKER).is_some_and(|advice| advice.contains(BROKER));
        assert!(warned("mysql://web:tiger@db/store") && warned("amqp://web:tiger@192.0.2.1:5672/"));
        for address in
            ["mysql://web@db:3306/store", "amqp://192.0.2.1:5672", "amqp://guest:guest@192.0.2.1:5672"]
        {
            assert!(!warned(address), "{address}");
        }
    }

    #[test]
    fn a_text_that_repeats_an_address_is_shown_without_its_password() {
        let address = "mysql://web:t@ger@db/store";
        let arguments = ["load".to_owned(), format!("--database={address}"), "amqp://me@db".to_owned()];
        let shown = hidden(&format!("unexpected argument '{address}' and amqp://me@db"), &arguments);
        assert_eq!(shown, "unexpected argument 'mysql://web:…@db/store' and amqp://me@db");
    }
}
