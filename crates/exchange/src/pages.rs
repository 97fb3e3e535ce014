//! Memory of payloads that were sent, to be written again: after some rounds a push needs no new memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Memory that nobody reads.
#[derive(Clone, Debug, Default)]
pub(crate) struct SendBuffers(Arc<Mutex<Vec<Vec<u8>>>>);

/// A payload's memory, which returns with the last one who reads it.
#[derive(Debug)]
pub(crate) struct SendBuffer {
    bytes: Vec<u8>,
    pages: SendBuffers,
}

/// More pages than this are not kept.
const MOST: usize = 256;

impl SendBuffers {
    fn list(&self) -> MutexGuard<'_, Vec<Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An empty page.
    pub(crate) fn take(&self) -> SendBuffer {
        let mut bytes = self.list().pop().unwrap_or_default();
        bytes.clear();
        SendBuffer { bytes, pages: self.clone() }
    }
}

impl SendBuffer {
    pub(crate) fn bytes(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }

    /// Appends floats in little-endian order.
    pub(crate) fn put_floats(&mut self, floats: &[f32]) {
        if cfg!(target_endian = "little") {
            self.bytes.extend_from_slice(bytemuck::cast_slice(floats));
        } else {
            self.bytes.extend(floats.iter().flat_map(|float| float.to_le_bytes()));
        }
    }

    /// The content, without a copy.
    pub(crate) fn freeze(self) -> Bytes {
        Bytes::from_owner(self)
    }
}

impl AsRef<[u8]> for SendBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for SendBuffer {
    fn drop(&mut self) {
        let bytes = std::mem::take(&mut self.bytes);
        let mut list = self.pages.list();
        if list.len() < MOST {
            list.push(bytes);
        }
    }
}
