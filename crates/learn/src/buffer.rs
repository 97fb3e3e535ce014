//! Buffers that a step takes and gives back, so that a step after the first ones allocates nothing.

use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

/// A cache line of floats: what every buffer's start is aligned to, and the width of the widest vector register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct CacheLine([f32; LINE]);

const LINE: usize = 16;

/// The memory of a block. Several buffers lie in it, each in lines of its own.
#[derive(Debug)]
struct PoolMemory {
    start: NonNull<CacheLine>,
    lines: usize,
}

// SAFETY: what `start` points to is owned by this value alone, and is read and written through buffers only, each of
// which reaches the lines that the pool gave to no other.
unsafe impl Send for PoolMemory {}
// SAFETY: as above; a shared `PoolMemory` by itself offers nothing to read or write.
unsafe impl Sync for PoolMemory {}

impl PoolMemory {
    fn new(lines: usize) -> Self {
        let memory = Box::leak(vec![CacheLine([0.0; LINE]); lines].into_boxed_slice());
        Self { start: NonNull::from(memory).cast(), lines }
    }
}

impl Drop for PoolMemory {
    fn drop(&mut self) {
        let whole = NonNull::slice_from_raw_parts(self.start, self.lines);
        // SAFETY: this is the slice that `new` leaked, and with the last buffer nobody points into it any more.
        drop(unsafe { Box::from_raw(whole.as_ptr()) });
    }
}

/// Floats on a 64-byte boundary. A buffer from a [`FloatPool`] holds whatever its last user left.
#[derive(Default)]
pub(crate) struct FloatBuffer {
    memory: Option<Arc<PoolMemory>>,
    lines: Range<usize>,
    len: usize,
}

impl FloatBuffer {
    fn start(&self) -> NonNull<f32> {
        match &self.memory {
            // SAFETY: the pool hands out no line beyond the end of the memory.
            Some(memory) => unsafe { memory.start.add(self.lines.start) }.cast(),
            None => NonNull::dangling(),
        }
    }
}

impl Deref for FloatBuffer {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        // SAFETY: the buffer's lines are initialised, hold at least `len` floats in a row (a `CacheLine` is `repr(C)`
        // with no padding), live as long as its `memory`, and belong to no other buffer: `FloatPool::take` sees to it.
        // Without memory, `len` is 0.
        unsafe { std::slice::from_raw_parts(self.start().as_ptr(), self.len) }
    }
}

impl DerefMut for FloatBuffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `&mut self` makes the slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.start().as_ptr(), self.len) }
    }
}

impl std::fmt::Debug for FloatBuffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "FloatBuffer({} floats)", self.len)
    }
}

/// Memory that is free. Each tape has its own, so no lock is needed and memory stays with its thread.
///
/// Sentences differ in length from batch to batch, so the buffers of one batch do not fit another. They are cut out of
/// one block, which is whole again when all are given back: it holds what the largest batch needs at once, and no more.
#[derive(Debug, Default)]
pub(crate) struct FloatPool {
    blocks: Vec<PoolBlock>,
    /// How many lines buffers have now, and how many they had at most.
    used: usize,
    most: usize,
}

#[derive(Debug)]
struct PoolBlock {
    memory: Arc<PoolMemory>,
    /// The lines that no buffer has, in their order, neighbours joined.
    free: Vec<Range<usize>>,
}

impl FloatPool {
    /// A buffer of `len` floats with whatever they last held.
    pub(crate) fn take(&mut self, len: usize) -> FloatBuffer {
        if len == 0 {
            return FloatBuffer::default();
        }
        let lines = len.div_ceil(LINE);
        self.used += lines;
        self.most = self.most.max(self.used);
        if let Some(buffer) = self.blocks.iter_mut().find_map(|block| block.take(lines, len)) {
            return buffer;
        }
        // A block that holds nothing, and is too small, would only be in the way.
        self.blocks.retain_mut(|block| !block.is_whole());
        let mut block = PoolBlock::new(lines);
        let buffer = block.take(lines, len);
        self.blocks.push(block);
        buffer.unwrap_or_default()
    }

    /// A buffer of `len` zeros.
    pub(crate) fn zeros(&mut self, len: usize) -> FloatBuffer {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Takes a buffer back.
    pub(crate) fn give(&mut self, buffer: FloatBuffer) {
        let FloatBuffer { memory: Some(memory), lines, .. } = buffer else { return };
        let mut own = self.blocks.iter_mut().filter(|block| Arc::ptr_eq(&block.memory, &memory));
        if let Some(block) = own.next() {
            self.used -= lines.len();
            block.give(lines);
        }
        drop(memory);
        if self.blocks.iter_mut().all(PoolBlock::is_whole) {
            self.join();
        }
    }

    /// Makes one block of all. It is an eighth larger than what buffers had at most, so that a batch that is a little
    /// longer still fits, and so do buffers with gaps between them. If such a block was there already and gaps were too
    /// large for it, the new one is as large as all blocks together.
    fn join(&mut self) {
        self.used = 0;
        if let [block] = self.blocks.as_mut_slice() {
            // A buffer that was dropped instead of given back is free again as well.
            block.free.clear();
            block.free.push(Range { start: 0, end: block.memory.lines });
            return;
        }
        let all: usize = self.blocks.iter().map(|block| block.memory.lines).sum();
        let largest = self.blocks.iter().map(|block| block.memory.lines).max().unwrap_or(0);
        let enough = self.most + self.most / 8;
        // First the old, then the new: there is never twice as much.
        self.blocks.clear();
        self.blocks.push(PoolBlock::new(if largest < enough { enough } else { all }));
    }
}

impl PoolBlock {
    fn new(lines: usize) -> Self {
        Self { memory: Arc::new(PoolMemory::new(lines)), free: vec![Range { start: 0, end: lines }] }
    }

    /// Whether no buffer lies in it, so that all of its lines can be given out again. `Arc::get_mut` reads the count
    /// with `Acquire`: what the last holder of a buffer wrote, on whatever thread, comes before what the next one
    /// writes.
    fn is_whole(&mut self) -> bool {
        Arc::get_mut(&mut self.memory).is_some()
    }

    /// The first free lines that are enough: what is used again soon stays close together.
    fn take(&mut self, lines: usize, len: usize) -> Option<FloatBuffer> {
        let place = self.free.iter().position(|free| free.len() >= lines)?;
        let free = &mut self.free[place];
        let taken = free.start..free.start + lines;
        free.start = taken.end;
        if free.start == free.end {
            self.free.remove(place);
        }
        Some(FloatBuffer { memory: Some(Arc::clone(&self.memory)), lines: taken, len })
    }

    fn give(&mut self, lines: Range<usize>) {
        let place = self.free.partition_point(|free| free.start < lines.start);
        self.free.insert(place, lines);
        for left in [place, place.saturating_sub(1)] {
            if let [one, other, ..] = &mut self.free[left..]
                && one.end == other.start
            {
                one.end = other.end;
                self.free.remove(left + 1);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::Random;

    #[test]
    fn buffers_are_aligned_and_used_again() {
        let mut pool = FloatPool::default();
        let mut a = pool.take(100);
        a.fill(7.0);
        let address = a.as_ptr();
        assert_eq!(address as usize % 64, 0);
        pool.give(a);
        let b = pool.take(90);
        assert_eq!((b.as_ptr(), b.len()), (address, 90), "what is free is taken");
        assert_ne!(pool.take(90).as_ptr(), address, "what is in use is not");
        pool.give(b);
        assert_eq!(pool.zeros(100)[..], [0.0; 100]);
        assert!(pool.take(0).is_empty());
    }

    fn held_lines(pool: &FloatPool) -> usize {
        pool.blocks.iter().map(|block| block.memory.lines).sum()
    }

    #[test]
    fn no_two_buffers_share_a_float() {
        let (mut pool, mut random) = (FloatPool::default(), Random::new(3));
        let mut held: Vec<FloatBuffer> = Vec::new();
        for turn in 0..5000 {
            if held.len() > 20 || random.chance(0.4) && !held.is_empty() {
                let buffer = held.swap_remove(random.below(held.len()));
                assert!(buffer.iter().all(|x| *x == buffer[0]), "{buffer:?} was written to by another");
                // A buffer that is dropped is free again later.
                if random.chance(0.9) {
                    pool.give(buffer);
                }
            } else {
                let mut buffer = pool.take(1 + random.below(2000));
                buffer.fill(turn as f32);
                held.push(buffer);
            }
        }
        held.into_iter().for_each(|buffer| pool.give(buffer));
        assert_eq!(pool.blocks.len(), 1);
        assert_eq!(pool.blocks[0].free, [Range { start: 0, end: held_lines(&pool) }], "all is free");
    }

    /// When a thread drops a buffer, the pool learns of it only from the reference count of the memory. Reading that
    /// count must order the thread's last write before the pool's next use. An x86 processor keeps this order anyway,
    /// so there a relaxed read of the count fails this test only under ThreadSanitizer, where it did.
    #[test]
    fn what_another_thread_dropped_is_used_again_after_its_last_write() {
        const FLOATS: usize = 64 * LINE;
        let mut pool = FloatPool::default();
        let whole = pool.take(FLOATS);
        let address = whole.as_ptr();
        pool.give(whole);
        let (lend, lent) = std::sync::mpsc::channel::<FloatBuffer>();
        let other = std::thread::spawn(move || {
            for (turn, mut buffer) in lent.into_iter().enumerate() {
                for value in [turn as f32, -1.0] {
                    buffer.fill(value);
                    assert!(buffer.iter().all(|x| *x == value), "{buffer:?} was written to by another");
                }
            }
        });
        for turn in 0..2000 {
            lend.send(pool.take(FLOATS / 2)).expect("a thread that takes it");
            while pool.blocks[0].free != [Range { start: 0, end: FLOATS / LINE }] {
                let rest = pool.take(FLOATS / 2);
                assert_ne!(rest.as_ptr(), address, "the other thread may still have it");
                pool.give(rest);
                std::thread::yield_now();
            }
            let mut buffer = pool.take(FLOATS);
            assert_eq!(buffer.as_ptr(), address, "no second block was made");
            buffer.fill(turn as f32);
            assert!(buffer.iter().all(|x| *x == turn as f32), "{buffer:?} was written to by another");
            pool.give(buffer);
        }
        drop(lend);
        other.join().expect("no write of another was seen");
    }

    /// An evaluation holds two values of a chain of layers at once. Gaps that are too small for the next value may cost
    /// two more.
    #[test]
    fn a_chain_of_buffers_holds_no_more_than_four_of_the_largest() {
        let mut pool = FloatPool::default();
        for _ in 0..3 {
            let mut last = FloatBuffer::default();
            for lines in (10..100).chain((10..100).rev()) {
                let next = pool.take(lines * LINE);
                assert!(held_lines(&pool) <= 4 * 99, "{} lines of {lines}", held_lines(&pool));
                pool.give(std::mem::replace(&mut last, next));
            }
            pool.give(last);
        }
        assert_eq!(pool.blocks.len(), 1);
    }

    #[test]
    fn steps_of_many_lengths_hold_little_more_than_the_longest() {
        let step = |length: usize| [100, 100, 128, 384, 128, 17].map(|width| 64 * length * width);
        let longest: usize = step(159).iter().map(|len| len.div_ceil(LINE)).sum();
        let check = |lengths: &mut dyn Iterator<Item = usize>| {
            let mut pool = FloatPool::default();
            for length in lengths {
                let taken = step(length).map(|len| pool.take(len));
                taken.into_iter().rev().for_each(|buffer| pool.give(buffer));
            }
            assert!(
                held_lines(&pool) * 4 < longest * 5,
                "{} lines, the longest needs {longest}",
                held_lines(&pool)
            );
            assert_eq!(pool.blocks.len(), 1);
        };
        check(&mut (1..=159));
        check(&mut (1..=159).rev());
        let mut random = Random::new(1);
        check(&mut std::iter::repeat_with(|| 1 + random.below(159)).take(300));
    }
}
