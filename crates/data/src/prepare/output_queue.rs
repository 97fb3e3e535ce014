//! What threads make of blocks, on its way into files in the order of the blocks.
//!
//! Whoever brings a block while nobody writes is the writer, until the next one in order is not there. Others put
//! theirs down and go on: the system lets one thread at a time write to a file, and would have them wait.

use super::feed::hold;
use crate::error::Result;
use std::collections::BTreeMap;
use std::sync::{Condvar, Mutex, PoisonError};

/// For each thread so many blocks may wait to be written.
const BLOCKS_OF_THREAD: usize = 2;

pub(crate) struct OutputQueue<T> {
    state: Mutex<QueuedBlocks<T>>,
    changed: Condvar,
    most: usize,
}

/// What is where.
struct QueuedBlocks<T> {
    waiting: BTreeMap<u64, T>,
    /// What was written, to be filled again.
    spare: Vec<T>,
    /// The block that is written next.
    next: u64,
    has_writer: bool,
    /// Somebody failed.
    is_over: bool,
}

impl<T: Default> OutputQueue<T> {
    pub(crate) fn new(threads: usize) -> Self {
        let (waiting, spare) = (BTreeMap::new(), Vec::new());
        let state = QueuedBlocks { waiting, spare, next: 0, has_writer: false, is_over: false };
        Self { state: Mutex::new(state), changed: Condvar::new(), most: BLOCKS_OF_THREAD * threads }
    }

    /// Something to fill, as soon as not too many blocks wait. None if it came to an end. Whoever asks has no block
    /// yet: so the one that all others wait for is with somebody who does not wait.
    pub(crate) fn room(&self) -> Option<T> {
        let is_full = |state: &mut QueuedBlocks<T>| state.waiting.len() >= self.most && !state.is_over;
        let waited = self.changed.wait_while(hold(&self.state), is_full);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.is_over { None } else { Some(state.spare.pop().unwrap_or_default()) }
    }

    /// Puts a block down, and writes all whose turn it is, if nobody else does.
    pub(crate) fn put(&self, number: u64, block: T, mut write: impl FnMut(&T) -> Result<()>) -> Result<()> {
        let mut state = hold(&self.state);
        state.waiting.insert(number, block);
        if state.has_writer {
            return Ok(());
        }
        state.has_writer = true;
        loop {
            let next = state.next;
            let Some(block) = state.waiting.remove(&next) else { break };
            state.next += 1;
            drop(state);
            self.changed.notify_all();
            write(&block)?;
            state = hold(&self.state);
            state.spare.push(block);
        }
        state.has_writer = false;
        Ok(())
    }

    /// Nobody waits any more.
    pub(crate) fn end(&self) {
        hold(&self.state).is_over = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Error;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::thread;

    /// What is written of so many blocks by several threads, of which the one with block `broken` fails.
    fn written(count: u64, broken: Option<u64>) -> (Vec<u64>, Vec<Result<()>>) {
        let (queue, next, written) = (OutputQueue::<u64>::new(3), AtomicU64::new(0), Mutex::new(Vec::new()));
        let work = || {
            while queue.room().is_some() {
                let number = next.fetch_add(1, Ordering::Relaxed);
                if number >= count {
                    break;
                }
                // Some take longer than others.
                (0..number * 7919 % 5).for_each(|_| thread::yield_now());
                let write = |&block: &u64| match broken {
                    Some(broken) if block == broken => Err(Error::mismatch("broken")),
                    _ => {
                        hold(&written).push(block);
                        Ok(())
                    }
                };
                queue.put(number, number, write).inspect_err(|_| queue.end())?;
            }
            Ok(())
        };
        let results = thread::scope(|scope| {
            let threads: Vec<_> = (0..3).map(|_| scope.spawn(work)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        (written.into_inner().unwrap(), results)
    }

    #[test]
    fn blocks_are_written_in_their_order() {
        let (written, results) = written(2000, None);
        assert_eq!(written, (0..2000).collect::<Vec<u64>>());
        assert!(results.iter().all(Result::is_ok));
    }

    #[test]
    fn nobody_waits_for_one_who_failed() {
        let (written, results) = written(2000, Some(77));
        assert_eq!(written, (0..77).collect::<Vec<u64>>());
        assert_eq!(results.iter().filter(|result| result.is_err()).count(), 1);
    }
}
