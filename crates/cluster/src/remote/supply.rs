//! Data on their way from node to node, so that not all of them come out of the head's link.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};
use bytes::Bytes;

use crate::roles::registry::CHUNK;

/// Another node that takes the data from this one, which is still getting them itself.
#[derive(Debug)]
pub(super) struct Customer {
    pub link: u64,
    pub outbox: Outbox,
    /// What it has asked for and not got.
    pub wants: Option<u64>,
}

impl Customer {
    /// Sends what it wants, if that is here by now.
    pub(super) fn serve(&mut self, bytes: &[u8], of: u64) {
        let have = bytes.len() as u64;
        let Some(offset) = self.wants.take_if(|offset| *offset + (CHUNK as u64) <= have || have == of) else {
            return;
        };
        let start = usize::try_from(offset).map_or(bytes.len(), |start| start.min(bytes.len()));
        let payload = Bytes::copy_from_slice(&bytes[start..bytes.len().min(start + CHUNK)]);
        send(&self.outbox, offset, payload);
    }
}

/// Sends a piece of the data as they are kept here. Nothing of data that are not: who asked then asks the head.
pub(crate) fn supply(outbox: &Outbox, pack: Option<&Path>, offset: u64) {
    let read = |pack: &Path| {
        let mut file = File::open(pack)?;
        file.seek(SeekFrom::Start(offset))?;
        let mut bytes = Vec::new();
        file.take(CHUNK as u64).read_to_end(&mut bytes)?;
        std::io::Result::Ok(Bytes::from(bytes))
    };
    let payload = pack.and_then(|pack| read(pack).ok()).unwrap_or_default();
    send(outbox, offset, payload);
}

fn send(outbox: &Outbox, offset: u64, payload: Bytes) {
    // One that is gone is heard of in the mail.
    let _ = outbox.send(Frame { body: Body::Data(proto::Data { offset }), payload });
}
