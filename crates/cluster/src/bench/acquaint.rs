//! Processes that get to know each other: a link between every two of them.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, anyhow, bail};
use bonfire_exchange::peers::Early;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, Sink, proto};
use bytes::Bytes;

use crate::mail::{Mailbox, News, Post};

/// No process waits longer than this for another.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Which process is at the other end of a link, and a link to every worker and server but this one.
pub(super) type AllLinks = (BTreeMap<u64, usize>, Vec<Option<Outbox>>);

/// Links to all others, and which of them is at the other end of each. The later ones are called, by their numbers, and
/// the earlier ones call. Servers, which come after the workers, have no links to each other.
pub(super) fn acquaint(
    (own, workers, all): (usize, usize, usize),
    (post, mailbox): (&Post, &Mailbox),
    early: &mut Early,
    call: impl Fn(usize, &dyn Fn() -> Sink) -> Result<Outbox>,
) -> Result<AllLinks> {
    let (mut members, mut outboxes) = (BTreeMap::new(), vec![None; all]);
    let later = if own < workers { own + 1..all } else { 0..0 };
    for to in later {
        let link = post.number();
        let outbox = call(to, &|| post.sink(link))?;
        outbox.send(Body::Hello(proto::Hello { node: own as u64, generation: 1 }))?;
        members.insert(link, to);
        outboxes[to] = Some(outbox);
    }
    let mut strangers = BTreeMap::new();
    while outboxes[..own.min(workers)].iter().any(Option::is_none) {
        let mail = mailbox.next(PATIENCE).ok_or_else(|| anyhow!("the others are silent"))?;
        match mail.news {
            News::Opened(outbox) => drop(strangers.insert(mail.link, outbox)),
            News::Frame(Frame { body: Body::Hello(hello), .. }) => {
                let from = (hello.node as usize).min(own);
                outboxes[from] = strangers.remove(&mail.link);
                members.insert(mail.link, from);
            }
            News::Frame(Frame { body: Body::Piece(piece), payload }) => {
                let from = members.get(&mail.link).context("a piece of a stranger")?;
                early.push_back((*from, piece, payload));
            }
            _ => bail!("a worker is gone"),
        }
    }
    Ok((members, outboxes))
}

/// Why an exchange broke off.
pub(super) struct Broken(pub anyhow::Error);

impl From<Closed> for Broken {
    fn from(closed: Closed) -> Self {
        Self(closed.into())
    }
}

/// Pieces of the others, as they come.
pub(super) fn pieces<'a>(
    mailbox: &'a mut Mailbox,
    members: &'a BTreeMap<u64, usize>,
) -> impl FnMut(bool) -> Result<Option<(usize, proto::Piece, Bytes)>, Broken> + Send + 'a {
    move |waits| loop {
        let mail = match mailbox.next(if waits { PATIENCE } else { Duration::ZERO }) {
            Some(mail) => mail,
            None if waits => return Err(Broken(anyhow!("the others are silent"))),
            None => return Ok(None),
        };
        match mail.news {
            News::Frame(Frame { body: Body::Piece(piece), payload }) => {
                let from = members.get(&mail.link).ok_or_else(|| Broken(anyhow!("a piece of a stranger")))?;
                return Ok(Some((*from, piece, payload)));
            }
            News::Closed(reason) => return Err(Broken(anyhow!("a link closed: {reason}"))),
            _ => {}
        }
    }
}
