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
        compare_every: COMPARE_EVERY,
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
    assert!(registry.hear(Mail { link: 5, news: News::Opened(here) }, Instant::now()).is_none());
    (receiver, there)
}

fn say(registry: &mut Registry, body: Body) -> Option<Notice> {
    registry.hear(Mail { link: 5, news: News::Frame(body.into()) }, Instant::now())
}

fn join(version: &str) -> Body {
    Body::Join(proto::Join { version: version.into(), name: "pi".into(), ..proto::Join::default() })
}

fn ready(data: &'static [u8], layout: &'static [u8], error: &str) -> Body {
    let (data_digest, layout_digest) = (Bytes::from_static(data), Bytes::from_static(layout));
    Body::Ready(proto::Ready { data_digest, layout_digest, samples: 7, error: error.into() })
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
    let lost = registry.hear(Mail { link: 5, news: News::Closed("gone".into()) }, Instant::now());
    assert!(matches!(lost, Some(Notice::Lost { .. })));
}

#[test]
fn data_come_out_of_a_tree_and_not_out_of_one_link() {
    let mut registry = registry();
    let arrive = |registry: &mut Registry, link: u64| {
        let (sender, receiver) = channel();
        let deliver = Box::new(move |incoming| {
            if let Incoming::Frame(Frame { body: Body::Welcome(welcome), .. }) = incoming {
                let _ = sender.send(welcome.supplier.map(|peer| peer.node));
            }
        });
        let (there, here) = memory_link(deliver, Box::new(|_| ()));
        std::mem::forget(there);
        let now = Instant::now();
        registry.hear(Mail { link, news: News::Opened(here) }, now);
        registry.hear(Mail { link, news: News::Frame(join("1.2.3").into()) }, now);
        receiver.recv().expect("a welcome")
    };
    let suppliers: Vec<Option<u64>> = (1..=8).map(|link| arrive(&mut registry, link)).collect();
    assert_eq!(suppliers, [None, None, Some(1), Some(1), Some(2), Some(2), Some(3), Some(3)]);
    // Who is ready needs nobody any more, and who is gone is nobody's.
    let word = News::Frame(ready(b"data", b"layout", "").into());
    registry.hear(Mail { link: 1, news: word }, Instant::now());
    registry.hear(Mail { link: 5, news: News::Closed("gone".into()) }, Instant::now());
    assert_eq!([9, 10].map(|link| arrive(&mut registry, link)), [None, Some(2)]);
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

#[test]
fn who_does_not_ask_to_join_in_time_is_turned_away() {
    let (mut registry, now) = (registry(), Instant::now());
    let mut there = Vec::new();
    let mut open = |registry: &mut Registry, link: u64, at: Instant| {
        let (out, here) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
        there.push(out);
        assert!(registry.hear(Mail { link, news: News::Opened(here) }, at).is_none());
    };
    open(&mut registry, 1, now);
    open(&mut registry, 2, now + ASK / 2);
    open(&mut registry, 3, now + ASK / 2);
    registry.hear(Mail { link: 2, news: News::Frame(join("1.2.3").into()) }, now + ASK / 2);
    assert!(registry.turn_silent_away(now + ASK - Duration::from_millis(1)).is_none());
    let Some(Notice::Refused(told)) = registry.turn_silent_away(now + ASK) else { panic!("it may stay") };
    assert!(told.contains("it did not ask to join within 10 s"), "{told}");
    assert!(registry.turn_silent_away(now + ASK).is_none(), "the last one has time");
    let late = registry.hear(Mail { link: 1, news: News::Frame(join("1.2.3").into()) }, now + ASK);
    assert!(late.is_none() && registry.nodes().count() == 1, "it is out");
    assert!(registry.turn_silent_away(now + 2 * ASK).is_some());
    assert!(registry.turn_silent_away(now + 9 * ASK).is_none());
    assert_eq!(registry.nodes().count(), 1, "who has joined stays");
    assert_eq!((registry.unasked.len(), registry.links.len()), (0, 1));
}

/// A process joins as `pi`; what the registry makes of it.
fn join_as(registry: &mut Registry, link: u64, process: u64) -> Option<Notice> {
    join_with(registry, link, process, None)
}

fn join_with(registry: &mut Registry, link: u64, process: u64, rank: Option<u32>) -> Option<Notice> {
    let (there, here) = memory_link(Box::new(|_| ()), Box::new(|_| ()));
    std::mem::forget(there);
    registry.hear(Mail { link, news: News::Opened(here) }, Instant::now());
    let Body::Join(join) = join("1.2.3") else { panic!("a join") };
    let (machine, process) = ("one".to_owned(), Some(process));
    let join = Body::Join(proto::Join { machine, process, rank, ..join });
    registry.hear(Mail { link, news: News::Frame(join.into()) }, Instant::now())
}

#[test]
fn a_process_that_comes_back_takes_its_own_place() {
    let mut registry = registry();
    let names = |registry: &Registry| registry.nodes().map(|node| node.name.clone()).collect::<Vec<_>>();
    assert!(matches!(join_as(&mut registry, 1, 7), Some(Notice::Joined)));
    assert!(matches!(join_as(&mut registry, 2, 8), Some(Notice::Joined)), "another process");
    assert_eq!(names(&registry), ["pi", "pi-2"]);
    let Some(Notice::Lost { node, reason }) = join_as(&mut registry, 3, 7) else { panic!("it is new") };
    assert_eq!((node.number, reason.as_str()), (1, "it came back over another link"));
    assert_eq!(names(&registry), ["pi-2", "pi"]);
    let closed = registry.hear(Mail { link: 1, news: News::Closed("silent".into()) }, Instant::now());
    assert!(closed.is_none(), "nobody misses the link that was replaced");
    let Some(Notice::Lost { node, .. }) = join_as(&mut registry, 4, 8) else { panic!("it is new") };
    assert_eq!(node.name, "pi-2");
    assert_eq!(names(&registry), ["pi", "pi-2"], "each has its own name again");
}

#[test]
fn a_rank_that_comes_back_is_not_turned_away_by_itself() {
    let mut registry = registry();
    assert!(matches!(join_with(&mut registry, 1, 7, Some(3)), Some(Notice::Joined)));
    assert!(matches!(join_with(&mut registry, 2, 7, Some(3)), Some(Notice::Lost { .. })), "the same process");
    let Some(Notice::Refused(told)) = join_with(&mut registry, 3, 8, Some(3)) else { panic!("let in") };
    assert!(told.contains("rank 3 is there already"), "{told}");
    assert_eq!(registry.nodes().map(|node| node.number).collect::<Vec<_>>(), [2]);
}

#[test]
fn numbers_that_are_free_are_given_again() {
    let mut registry = registry();
    for link in 1..=4 {
        join_as(&mut registry, link, link);
    }
    let role = |number| Some(Role::Worker { number, relay: None });
    let mut check = |roles: [Option<Role>; 4], expect: usize| {
        for (node, role) in (1..=4).zip(roles) {
            registry.get_mut(node).expect("a node").role = role;
        }
        assert_eq!(registry.free_number(), expect, "{roles:?}");
    };
    check([None; 4], 0);
    check([role(0), role(1), role(2), None], 3);
    check([role(2), role(0), None, Some(Role::Evaluator)], 1);
    check([Some(Role::Relay { number: 0 }), role(1), role(2), None], 0);
    check([Some(Role::GroupMember { number: 0 }), role(1), role(2), role(3)], 4);
}
