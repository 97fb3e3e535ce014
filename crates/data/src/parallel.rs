//! Work by all cores, for what takes milliseconds: a file that is read and decoded.

use std::sync::Mutex;
use std::thread;

/// Does the work for every item, each once, begun in their order. Nobody's result depends on who did it.
pub(crate) fn in_parallel<I: Iterator + Send>(items: I, work: impl Fn(I::Item) + Sync) {
    let most = items.size_hint().1.unwrap_or(usize::MAX);
    let threads = thread::available_parallelism().map_or(1, usize::from).min(most);
    let items = Mutex::new(items);
    let work_off = || {
        while let Some(item) = items.lock().ok().and_then(|mut items| items.next()) {
            work(item);
        }
    };
    thread::scope(|scope| {
        for _ in 1..threads {
            scope.spawn(work_off);
        }
        work_off();
    });
}
