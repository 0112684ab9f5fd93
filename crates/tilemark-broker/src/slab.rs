//! Values under keys that are never mistaken for one another after reuse.

/// Where a value is, and in which life of the place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Key {
    pub(crate) index: u32,
    generation: u32,
}

impl Key {
    /// Both halves in one number, for epoll.
    pub(crate) const fn to_u64(self) -> u64 {
        (self.generation as u64) << 32 | self.index as u64
    }

    #[allow(clippy::cast_possible_truncation, reason = "the two halves that to_u64 put together")]
    pub(crate) const fn from_u64(number: u64) -> Self {
        Self { index: number as u32, generation: (number >> 32) as u32 }
    }
}

/// A vector with holes. A key of a removed value finds nothing, also when its place is used again.
#[derive(Debug)]
pub(crate) struct Slab<T> {
    places: Vec<Place<T>>,
    free: Vec<u32>,
}

#[derive(Debug)]
struct Place<T> {
    generation: u32,
    value: Option<T>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Slab<T> {
    pub(crate) const fn new() -> Self {
        Self { places: Vec::new(), free: Vec::new() }
    }

    pub(crate) fn insert(&mut self, value: T) -> Key {
        if let Some(index) = self.free.pop() {
            let place = &mut self.places[index as usize];
            place.value = Some(value);
            return Key { index, generation: place.generation };
        }
        let index = u32::try_from(self.places.len()).expect("memory ends before 2^32 values");
        self.places.push(Place { generation: 0, value: Some(value) });
        Key { index, generation: 0 }
    }

    #[inline]
    pub(crate) fn get(&self, key: Key) -> Option<&T> {
        let place = self.places.get(key.index as usize)?;
        if place.generation == key.generation { place.value.as_ref() } else { None }
    }

    #[inline]
    pub(crate) fn get_mut(&mut self, key: Key) -> Option<&mut T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation == key.generation { place.value.as_mut() } else { None }
    }

    pub(crate) fn remove(&mut self, key: Key) -> Option<T> {
        let place = self.places.get_mut(key.index as usize)?;
        if place.generation != key.generation {
            return None;
        }
        let value = place.value.take()?;
        place.generation = place.generation.wrapping_add(1);
        self.free.push(key.index);
        Some(value)
    }

    pub(crate) fn len(&self) -> usize {
        self.places.len() - self.free.len()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (Key, &T)> {
        self.places.iter().enumerate().filter_map(|(index, place)| {
            let index = u32::try_from(index).expect("insert keeps to 2^32");
            place.value.as_ref().map(|value| (Key { index, generation: place.generation }, value))
        })
    }

    pub(crate) fn keys(&self) -> Vec<Key> {
        self.iter().map(|(key, _)| key).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_key_does_not_find_the_new_value() {
        let mut slab = Slab::new();
        let old = slab.insert('a');
        assert_eq!(slab.remove(old), Some('a'));
        let new = slab.insert('b');
        assert_eq!(old.index, new.index);
        assert_eq!((slab.get(old), slab.get(new)), (None, Some(&'b')));
        assert_eq!(slab.remove(old), None);
        assert_eq!((Key::from_u64(new.to_u64()), slab.len()), (new, 1));
    }
}
