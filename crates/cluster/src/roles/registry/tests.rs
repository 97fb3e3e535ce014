use super::*;
use bonfire_wire::{Incoming, memory_link};
use std::sync::mpsc::{Receiver, channel};

fn registry() -> Registry {
    Registry::new(Entry {
        version: "1.2.3".into(),
        run_file: "epochs: 1".into(),
        data_digest: b"data".to_vec(),
        layout_digest: b"layout".to_vec(),
        shipment: Some(Bytes::from(vec![7; CHUNK + 10])),
        payload_bytes: 1000,
    })
}

/// Somebody connects over link 5; the receiver gets what is answered.
fn caller(registry: &mut Registry) -> (Receiver<Frame>, Outbox) {
    let (sender, receiver) = channel();
    let deliver = Box::new(move |incoming| {
        if let Incoming::Frame(frame) = incoming {
            let _ = sender.send(frame);
        }
    });
    let (there, here) = memory_link(deliver, Box::new(|_| ()));
    assert!(registry.hear(Mail { link: 5, news: News::Opened(here) }).is_none());
    (receiver, there)
}

fn say(registry: &mut Registry, body: Body) -> Option<Notice> {
    registry.hear(Mail { link: 5, news: News::Frame(body.into()) })
}

fn join(version: &str) -> Body {
    Body::Join(proto::Join { version: version.into(), name: "pi".into(), ..proto::Join::default() })
}

fn ready(data: &'static [u8], layout: &'static [u8], error: &str) -> Body {
    let (data_digest, layout_digest) = (Bytes::from_static(data), Bytes::from_static(layout));
    Body::Ready(proto::Ready { data_digest, layout_digest, error: error.into() })
}

#[test]
fn another_version_is_turned_away_on_both_sides() {
    let mut registry = registry();
    let (answers, _link) = caller(&mut registry);
    let Some(Notice::Refused(reason)) = say(&mut registry, join("1.2.4")) else { panic!("let in") };
    assert!(reason.contains("pi") && reason.contains("1.2.4") && reason.contains("1.2.3"), "{reason}");
    let Ok(Frame { body: Body::Refused(refused), .. }) = answers.recv() else { panic!("no answer") };
    assert!(refused.reason.contains("the same version"), "{}", refused.reason);
    assert_eq!(registry.nodes().count(), 0);
}

#[test]
fn other_data_or_another_layout_are_turned_away() {
    let check = |body: Body, expect: &str| {
        let mut registry = registry();
        let (answers, _link) = caller(&mut registry);
        assert!(matches!(say(&mut registry, join("1.2.3")), Some(Notice::Joined)));
        let Ok(Frame { body: Body::Welcome(_), .. }) = answers.recv() else { panic!("no welcome") };
        let Some(Notice::Refused(reason)) = say(&mut registry, body) else { panic!("let in") };
        assert!(reason.contains(expect), "{reason}");
        assert_eq!(registry.nodes().count(), 0);
    };
    check(ready(b"other", b"layout", ""), "its data are not the head's");
    check(ready(b"data", b"other", ""), "its model is laid out otherwise");
    check(ready(b"data", b"layout", "no such file"), "no such file");
}

#[test]
fn data_are_shipped_in_pieces_and_roles_speak_only_when_ready() {
    let mut registry = registry();
    let (answers, _link) = caller(&mut registry);
    say(&mut registry, join("1.2.3"));
    let Ok(Frame { body: Body::Welcome(welcome), .. }) = answers.recv() else { panic!("no welcome") };
    assert!(welcome.ship);
    for (offset, len) in [(0, CHUNK), (CHUNK as u64, 10), (CHUNK as u64 + 10, 0), (u64::MAX, 0)] {
        say(&mut registry, Body::Fetch(proto::Fetch { offset }));
        assert_eq!(answers.recv().expect("data").payload.len(), len, "from {offset}");
    }
    assert!(say(&mut registry, Body::Push(proto::Push::default())).is_none(), "it is not ready");
    assert!(matches!(say(&mut registry, ready(b"data", b"layout", "")), Some(Notice::Ready(1))));
    let push = say(&mut registry, Body::Push(proto::Push::default()));
    assert!(matches!(push, Some(Notice::Frame(1, _))));
    let lost = registry.hear(Mail { link: 5, news: News::Closed("gone".into()) });
    assert!(matches!(lost, Some(Notice::Lost { .. })));
}

#[test]
fn roles_go_by_rank_and_then_by_who_came_first() {
    let check = |ranks: &[Option<u32>], expect: &[u64]| {
        let mut registry = registry();
        for (link, &rank) in ranks.iter().enumerate() {
            let (there, here) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
            std::mem::forget(there);
            let node = registry.admit(link as u64, here, proto::Join { rank, ..proto::Join::default() });
            registry.get_mut(node).expect("a node").is_ready = true;
        }
        assert_eq!(registry.queue(), expect, "{ranks:?}");
    };
    check(&[None, None, None], &[1, 2, 3]);
    check(&[Some(3), Some(1), Some(2)], &[2, 3, 1]);
    check(&[None, Some(2), None, Some(1)], &[4, 2, 1, 3]);
    check(&[Some(1), Some(1)], &[1, 2]);
}

#[test]
fn names_tell_nodes_apart() {
    let mut registry = registry();
    for (link, expect) in [(1, "pi"), (2, "pi-2"), (3, "pi-3")] {
        let (there, here) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
        std::mem::forget(there);
        let Body::Join(join) = join("1.2.3") else { panic!("a join") };
        let node = registry.admit(link, here, join);
        assert_eq!(registry.get(node).expect("a node").name, expect);
    }
}
