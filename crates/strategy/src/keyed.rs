//! Maps and sets of a few things, which are put in one by one. `collect` would sort them first, and for every kind of
//! things the program would hold a sort of its own, of some 6 kB.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) fn map<K: Ord, V>(pairs: impl IntoIterator<Item = (K, V)>) -> BTreeMap<K, V> {
    let mut map = BTreeMap::new();
    map.extend(pairs);
    map
}

pub(crate) fn set<T: Ord>(things: impl IntoIterator<Item = T>) -> BTreeSet<T> {
    let mut set = BTreeSet::new();
    set.extend(things);
    set
}
