//! Which values are left out where a file is written: those that a reader puts in their place.

pub(crate) fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}
