//! Watches that whoever has a version has the same parameters.

use std::cell::RefCell;
use std::sync::Arc;

use super::world::World;
use bonfire_run::replica::Replica;

thread_local! {
    static WORLD: RefCell<Option<Arc<World>>> = const { RefCell::new(None) };
}

/// This thread is a machine of a world from now on.
pub fn enter(world: &Arc<World>) {
    WORLD.with_borrow_mut(|own| *own = Some(Arc::clone(world)));
}

/// A head has made a version. One that went back to a checkpoint makes its versions anew.
pub fn made(version: u64, replica: &Replica) {
    with(|world| {
        let mut state = world.lock();
        state.versions.retain(|made, _| *made < version);
        state.versions.insert(version, replica.digest());
    });
}

/// A node was brought to a version.
pub fn has(version: u64, replica: &Replica) {
    with(|world| {
        let made = world.lock().versions.get(&version).copied();
        if made.is_some_and(|made| made != replica.digest()) {
            world.blame(format!("a node has other parameters of version {version} than the head"));
        }
    });
}

fn with(watch: impl FnOnce(&World)) {
    WORLD.with_borrow(|world| {
        if let Some(world) = world {
            watch(world);
        }
    });
}
