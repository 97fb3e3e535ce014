//! Buffers that a step takes and gives back, so that a step after the first allocates nothing.

use std::ops::{Deref, DerefMut};

/// A cache line of floats: what every buffer's start is aligned to, and the width of the widest vector register.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
struct Line([f32; LINE]);

const LINE: usize = 16;

/// Floats on a 64-byte boundary. A buffer from a [`Pool`] holds whatever its last user left.
#[derive(Default)]
pub struct Buffer {
    lines: Vec<Line>,
    len: usize,
}

impl Deref for Buffer {
    type Target = [f32];

    #[inline]
    fn deref(&self) -> &[f32] {
        // SAFETY: `lines` holds at least `len` initialised floats in a row: a `Line` is `repr(C)` with no padding
        // (64 bytes, 64-aligned), and `Pool::take` never sets `len` beyond `lines.len() * LINE`.
        unsafe { std::slice::from_raw_parts(self.lines.as_ptr().cast(), self.len) }
    }
}

impl DerefMut for Buffer {
    #[inline]
    fn deref_mut(&mut self) -> &mut [f32] {
        // SAFETY: as above, and `&mut self` makes the slice the only one.
        unsafe { std::slice::from_raw_parts_mut(self.lines.as_mut_ptr().cast(), self.len) }
    }
}

impl std::fmt::Debug for Buffer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Buffer({} floats)", self.len)
    }
}

/// Buffers that are free. Each tape has its own, so no lock is needed and memory stays with its thread.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Buffer>,
}

impl Pool {
    /// A buffer of `len` floats with whatever they last held.
    pub fn take(&mut self, len: usize) -> Buffer {
        let lines = len.div_ceil(LINE);
        let fits = |buffer: &Buffer| (lines..=2 * lines).contains(&buffer.lines.len());
        let best = self.free.iter().enumerate().filter(|(_, buffer)| fits(buffer));
        let mut buffer = match best.min_by_key(|(_, buffer)| buffer.lines.len()).map(|(i, _)| i) {
            Some(i) => self.free.swap_remove(i),
            // Sentences differ in length from batch to batch: rounding up lets one buffer serve many lengths.
            None => Buffer { lines: vec![Line([0.0; LINE]); lines + lines / 8], len: 0 },
        };
        buffer.len = len;
        buffer
    }

    /// A buffer of `len` zeros.
    pub fn zeros(&mut self, len: usize) -> Buffer {
        let mut buffer = self.take(len);
        buffer.fill(0.0);
        buffer
    }

    /// Takes a buffer back.
    pub fn give(&mut self, buffer: Buffer) {
        if !buffer.lines.is_empty() {
            self.free.push(buffer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_used_again() {
        let mut pool = Pool::default();
        let mut a = pool.take(100);
        a.fill(7.0);
        let address = a.as_ptr();
        assert_eq!(address as usize % 64, 0);
        pool.give(a);
        let b = pool.take(90);
        assert_eq!(b.as_ptr(), address, "a free buffer that fits is taken");
        assert_eq!(b.len(), 90);
        assert_ne!(pool.take(90).as_ptr(), address, "a buffer in use is not");
        pool.give(b);
        assert_ne!(pool.take(10).as_ptr(), address, "nor one that is much too large");
        assert_eq!(pool.zeros(100)[..], [0.0; 100]);
    }
}
