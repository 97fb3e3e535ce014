use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Where the buffers start, so that any vector instruction can load from them.
const ALIGNMENT: usize = 64;

/// The smallest buffer: below it, sharing one size costs less memory than keeping many.
const SMALLEST_BYTES: usize = 4 << 10;

/// What a pool keeps while nobody uses it.
const IDLE_BYTES: usize = 256 << 20;

/// Buffers for payloads, used again and again: after some rounds of a run no payload needs new memory.
#[derive(Clone, Debug, Default)]
pub struct PayloadPool {
    idle: Arc<Mutex<IdleBuffers>>,
}

#[derive(Debug, Default)]
struct IdleBuffers {
    /// By the power of two that is their size.
    by_class: Vec<Vec<Vec<u8>>>,
    bytes: usize,
}

impl PayloadPool {
    /// A buffer of exactly this length. Its content is whatever was there before.
    pub fn take(&self, len: usize) -> PayloadBuffer {
        let class = len.max(SMALLEST_BYTES).next_power_of_two();
        let memory = self.idle().take(class);
        let memory = memory.unwrap_or_else(|| vec![0; class + ALIGNMENT]);
        let start = memory.as_ptr().align_offset(ALIGNMENT).min(ALIGNMENT);
        PayloadBuffer { memory, start, len, pool: self.clone() }
    }

    fn idle(&self) -> MutexGuard<'_, IdleBuffers> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl IdleBuffers {
    fn take(&mut self, class: usize) -> Option<Vec<u8>> {
        let memory = self.by_class.get_mut(class.ilog2() as usize)?.pop()?;
        self.bytes -= class;
        Some(memory)
    }

    /// Gives the memory back when there is enough already.
    fn put(&mut self, memory: Vec<u8>) -> Option<Vec<u8>> {
        let class = memory.len() - ALIGNMENT;
        if self.bytes + class > IDLE_BYTES {
            return Some(memory);
        }
        let place = class.ilog2() as usize;
        if self.by_class.len() <= place {
            self.by_class.resize_with(place + 1, Vec::new);
        }
        self.by_class[place].push(memory);
        self.bytes += class;
        None
    }
}

/// Aligned memory of a pool, which returns to it when dropped.
#[derive(Debug)]
pub struct PayloadBuffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
    pool: PayloadPool,
}

impl PayloadBuffer {
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Overwrites the bytes from an offset on.
    pub(crate) fn write(&mut self, offset: usize, bytes: &[u8]) {
        let from = self.start + offset;
        self.memory[from..from + bytes.len()].copy_from_slice(bytes);
    }

    /// The content, without a copy. The memory returns to the pool with the last clone.
    pub fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsMut<[u8]> for PayloadBuffer {
    fn as_mut(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

impl AsRef<[u8]> for PayloadBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.memory[self.start..self.start + self.len]
    }
}

impl Drop for PayloadBuffer {
    fn drop(&mut self) {
        let memory = std::mem::take(&mut self.memory);
        // What is too much is freed here, after its lock: freeing much memory takes long.
        let surplus = self.pool.idle().put(memory);
        drop(surplus);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_aligned_and_come_back() {
        let pool = PayloadPool::default();
        for len in [1, 4096, 4097, 200_000, 1 << 20] {
            let mut buffer = pool.take(len);
            buffer.write(0, &[7]);
            buffer.write(len - 1, &[8]);
            let bytes = buffer.freeze();
            assert_eq!(bytes.len(), len);
            assert_eq!(bytes.as_ptr().align_offset(ALIGNMENT), 0);
            assert_eq!(bytes[len - 1], 8);
            let address = bytes.as_ptr();
            drop(bytes);
            assert_eq!(pool.take(len).as_ref().as_ptr(), address, "{len} bytes are used again");
        }
    }

    #[test]
    fn a_pool_does_not_keep_everything() {
        let pool = PayloadPool::default();
        let many: Vec<_> = (0..5).map(|_| pool.take(64 << 20)).collect();
        drop(many);
        assert_eq!(pool.idle().bytes, IDLE_BYTES);
    }
}
