//! The user of a run's services: made once in the engine's process, and written nowhere.

use std::sync::OnceLock;
use tilemark_agent_protocol::Credentials;
use tilemark_units::hex;

/// Random bytes of the password; written as twice so many hexadecimal digits.
const PASSWORD_BYTES: usize = 16;

/// The user and the random password of this run. The same in every pass: a template is cloned with its service.
pub(crate) fn of_this_run() -> &'static Credentials {
    static MADE: OnceLock<Credentials> = OnceLock::new();
    MADE.get_or_init(|| {
        let password = hex(&random::<PASSWORD_BYTES>());
        Credentials { user: "tilemark".to_owned(), password }
    })
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty())
        .expect("the kernel gives a few random bytes at once");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_one_password_that_its_debug_form_hides() {
        let made = of_this_run();
        assert_eq!(made, of_this_run());
        assert_eq!(made.password.len(), 2 * PASSWORD_BYTES);
        assert!(!format!("{made:?}").contains(&made.password));
        assert_ne!(random::<PASSWORD_BYTES>(), random::<PASSWORD_BYTES>());
    }
}
