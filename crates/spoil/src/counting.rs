use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The system's allocator, which knows how much each thread holds. A test program that measures memory has it as its
/// global allocator.
#[derive(Debug)]
pub struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

impl Counting {
    /// How many bytes this thread held at most during `work`, beyond what it held before.
    pub fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
        let before = HELD.get();
        PEAK.set(before);
        let done = work();
        (done, (PEAK.get() - before).max(0) as usize)
    }
}

fn count(bytes: isize) {
    // A thread that is ending has no counter any more, and nobody who asks.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + bytes);
        PEAK.with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// SAFETY: every call goes to the system's allocator unchanged; counting touches numbers of the thread's own.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, old: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Both may be there while one is copied to the other.
        count(size as isize);
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(old, layout, size) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[global_allocator]
    static COUNTING: Counting = Counting;

    #[test]
    fn a_peak_is_what_was_held_at_once() {
        let work = || {
            drop(std::hint::black_box(vec![1u8; 1000]));
            std::hint::black_box(vec![1u8; 600])
        };
        let (kept, peak) = Counting::peak(work);
        assert_eq!((kept.len(), peak), (600, 1000));
        let ((), peak) = Counting::peak(|| drop(kept));
        assert_eq!(peak, 0, "what was held before does not count");
    }
}
