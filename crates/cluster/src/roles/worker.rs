//! A worker of a parameter server: pull, compute, push.

use std::time::Duration;

use anyhow::{Context, Result};
use bonfire_strategy::Unit;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, Outbox, proto};

use super::node::{Desk, Next};
use crate::mail::News;
use crate::station::{Station, unpack_state};

/// Works for a parent until the head has something else to do for this node.
pub fn work(desk: &mut Desk, station: &mut Station, parent: Option<&proto::Peer>) -> Result<Next> {
    let (link, outbox) = match parent {
        None => (desk.head_link, desk.head.clone()),
        Some(peer) => {
            let link = desk.post.number();
            let outbox = desk.network.connect(peer, desk.post.sink(link))?;
            outbox.send(Body::Hello(proto::Hello { node: desk.node, generation: 0 }))?;
            (link, outbox)
        }
    };
    loop {
        let Some(mail) = desk.mailbox.next(Duration::from_secs(1)) else { continue };
        if mail.link == link
            && let News::Frame(Frame { body: Body::Go(_) | Body::State(_), .. }) = mail.news
        {
            let News::Frame(frame) = mail.news else { continue };
            answer(station, &outbox, frame).context("the parent sent something that does not fit")?;
        } else if mail.link == link && parent.is_some() && matches!(mail.news, News::Closed(_)) {
            // The head will say where to go.
        } else if let Some(next) = desk.hear(mail)? {
            outbox_closed(parent, &outbox);
            return Ok(next);
        }
    }
}

/// A link to a relay is this role's own, that to the head is the node's.
fn outbox_closed(parent: Option<&proto::Peer>, outbox: &Outbox) {
    if parent.is_some() {
        outbox.close();
    }
}

/// Takes what is new, and computes what is asked for.
fn answer(station: &mut Station, outbox: &Outbox, frame: Frame) -> Result<()> {
    let go = match frame.body {
        Body::Go(go) => go,
        Body::State(state) => return unpack_state(&mut station.replica, &state, &frame.payload),
        _ => return Ok(()),
    };
    station.take(&go, frame.payload)?;
    for unit in &go.units {
        let computed = station.compute(from_proto(unit));
        let weight = station.gradient.weight;
        let payload = station.codec.pack(&station.gradient);
        let push = proto::Push {
            order: go.order,
            weight,
            tally: Some(computed.tally),
            units: vec![*unit],
            compute_s: computed.seconds,
            ..proto::Push::default()
        };
        // A parent that is gone is heard of in the mail.
        let _ = outbox.send(Frame { body: Body::Push(push), payload });
    }
    Ok(())
}

pub fn from_proto(unit: &proto::Unit) -> Unit {
    Unit { epoch: unit.epoch, index: unit.index }
}

pub fn to_proto(unit: Unit) -> proto::Unit {
    proto::Unit { epoch: unit.epoch, index: unit.index }
}
