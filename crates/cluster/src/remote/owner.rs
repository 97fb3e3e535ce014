//! A node with data of its own before it is welcome: tells the head which words, classes and scales they have.

use std::time::Duration;

use anyhow::{Result, anyhow, bail};
use bonfire_data::Dataset;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};
use bytes::Bytes;

use super::newcomer::read_settings;
use crate::mail::{Mailbox, News};
use crate::roles::node::HeadGone;
use crate::roles::registry::CHUNK;

/// What came of it.
pub(super) enum Outcome {
    /// All have agreed. With it the data with all their words.
    Welcome(proto::Welcome, Box<Dataset>),
    /// There will be no run.
    Stop(proto::Stop),
}

/// Tells of the data that a run file asks for, and waits for the others to have told.
pub(super) fn tell(
    wish: &proto::Tell,
    (head_link, head): (u64, &Outbox),
    mailbox: &Mailbox,
) -> Result<Outcome> {
    let (own, bytes) = match load(&wish.run_file) {
        Ok(loaded) => loaded,
        Err(error) => {
            let _ = head.send(Body::Told(proto::Told { error: format!("{error:#}"), bytes: 0 }));
            head.close();
            return Err(error);
        }
    };
    // A head that is gone is heard of in the mail, as is one that has stopped meanwhile.
    let _ = head.send(Body::Told(proto::Told { bytes: bytes.len() as u64, error: String::new() }));
    // Others may take their time.
    loop {
        let Some(mail) = mailbox.next(Duration::from_millis(200)) else { continue };
        if mail.link != head_link {
            continue;
        }
        match mail.news {
            News::Frame(Frame { body: Body::Fetch(fetch), .. }) => {
                let start = (fetch.offset as usize).min(bytes.len());
                let payload = bytes.slice(start..(start + CHUNK).min(bytes.len()));
                let _ = head.send(Frame { body: Body::Data(proto::Data { offset: start as u64 }), payload });
            }
            News::Frame(Frame { body: Body::Welcome(welcome), .. }) => {
                return Ok(Outcome::Welcome(welcome, own));
            }
            News::Frame(Frame { body: Body::Stop(stop), .. }) => return Ok(Outcome::Stop(stop)),
            News::Frame(Frame { body: Body::Refused(refused), .. }) => {
                bail!("the head turned this node away: {}", refused.reason)
            }
            News::Closed(reason) => return Err(HeadGone(reason).into()),
            _ => {}
        }
    }
}

/// The data with all their words, and what is told of them.
fn load(run_file: &str) -> Result<(Box<Dataset>, Bytes)> {
    let settings = read_settings(run_file)?;
    let source = &settings.file.data;
    let own = source.load_all_words().map_err(|error| {
        anyhow!("{error}; `distribute: own` in the run file has every node train on its own data")
    })?;
    let told = own.telling(source).to_bytes()?;
    Ok((Box::new(own), told.into()))
}
