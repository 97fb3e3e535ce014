use super::*;

fn point(text: &str) -> Point {
    text.parse().expect("an address")
}

#[test]
fn addresses_with_and_without_a_port() {
    let check = |text: &str, host: &str, port: Option<u16>| {
        assert_eq!(point(text), Point { host: host.to_owned(), port }, "{text}");
    };
    check("pi03", "pi03", None);
    check("pi03:29500", "pi03", Some(29500));
    check("192.168.2.101:4711", "192.168.2.101", Some(4711));
    check("::1", "[::1]", None);
    check("[::1]:4711", "[::1]", Some(4711));
    check("pi03:0", "pi03", None);
    for wrong in ["", ":4711", "pi03:port", "pi03:99999", "http://pi03", "two words"] {
        assert!(wrong.parse::<Point>().is_err(), "{wrong}");
    }
}

#[test]
fn rank_0_listens_no_wider_than_it_must() {
    let file = |master: Option<&str>, here: bool| Rendezvous::File {
        path: PathBuf::from("/nowhere/x.json"),
        master: master.map(point),
        here,
    };
    let plain = |master: &str| Rendezvous::Plain { master: point(master), passphrase: None };
    let check = |rendezvous: Rendezvous, listen: &str, advertise: Option<&str>| {
        let access = rendezvous.access(Duration::ZERO);
        assert_eq!(access.listen.as_deref(), Some(listen), "{rendezvous:?}");
        assert_eq!(access.advertise.as_deref(), advertise, "{rendezvous:?}");
    };
    check(file(None, true), "127.0.0.1:0", None);
    check(file(Some("pi03"), true), "127.0.0.1:0", None);
    check(file(None, false), "0.0.0.0:0", None);
    check(file(Some("pi03"), false), "0.0.0.0:0", Some("pi03"));
    check(file(Some("127.0.0.1:4000"), false), "127.0.0.1:4000", Some("127.0.0.1"));
    check(plain("pi03"), "0.0.0.0:4711", Some("pi03"));
    check(plain("localhost:5000"), "127.0.0.1:5000", Some("localhost"));
    check(plain("[fd00::2]:5000"), "[::]:5000", Some("[fd00::2]"));
}

#[cfg(unix)]
#[test]
fn notes_are_private_and_leave_with_who_wrote_them() {
    use std::os::unix::fs::PermissionsExt;
    let home = tempfile::tempdir().expect("a folder");
    let path = Rendezvous::file(&home.path().join("cache/meet"), "job 7");
    let rendezvous = Rendezvous::File { path: path.clone(), master: None, here: true };
    let ticket =
        Ticket { address: "127.0.0.1:9".to_owned(), fingerprint: None, secret: Secret::from([7; 16]) };
    let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    let announcement = rendezvous.announce(&ticket).expect("a note");
    assert_eq!((mode(&path), mode(path.parent().expect("a folder"))), (0o600, 0o700));
    assert!(matches!(read(&path), Some((Note::Ticket(found), _)) if found == ticket.to_string()));
    // What somebody else has put there since stays.
    let other = leave(&path, &Note::Refused("no data".to_owned())).expect("another note");
    drop(announcement);
    assert_eq!(fs::read_to_string(&path).expect("it is there"), other);
    drop(rendezvous.announce(&ticket).expect("a note"));
    assert!(!path.exists());
    fs::write(&path, other).expect("a note that all can read");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).expect("a mode");
    assert!(read(&path).is_none(), "anybody may have written it");
}

fn part() -> Part {
    let (wait, patience) = (Duration::from_secs(5), Duration::ZERO);
    Part { name: None, listen: None, wait, patience, cache: None, rank: Some(1), watts: None }
}

#[test]
fn an_old_refusal_is_not_for_who_comes_later() {
    let home = tempfile::tempdir().expect("a folder");
    let path = Rendezvous::file(home.path(), "job 7");
    let rendezvous = Rendezvous::File { path: path.clone(), master: None, here: true };
    rendezvous.refuse("no data");
    let past = SystemTime::now() - Duration::from_secs(3);
    File::options().write(true).open(&path).and_then(|file| file.set_modified(past)).expect("an old note");
    let vain = rendezvous.join(&part(), Duration::ZERO, &mut |_| ()).expect_err("nobody is there");
    assert!(!vain.is::<Refused>(), "{vain:#}");
    let said = format!("{vain:#}");
    assert!(said.contains("rank 0 left no word in") && said.contains("--secret PASSPHRASE"), "{said}");
    let future = SystemTime::now() + Duration::from_secs(3);
    File::options().write(true).open(&path).and_then(|file| file.set_modified(future)).expect("a new note");
    let refused = rendezvous.join(&part(), Duration::ZERO, &mut |_| ()).expect_err("it was told");
    assert!(refused.is::<Refused>() && format!("{refused:#}").contains("no data"), "{refused:#}");
}

#[test]
fn a_ticket_of_yesterday_is_no_reason_to_give_up() {
    let home = tempfile::tempdir().expect("a folder");
    let path = Rendezvous::file(home.path(), "job 7");
    let rendezvous = Rendezvous::File { path: path.clone(), master: None, here: true };
    let other = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = other.local_addr().expect("an address").to_string();
    let ticket = Ticket { address, fingerprint: None, secret: Secret::from([7; 16]) };
    let _notice = rendezvous.announce(&ticket).expect("a note");
    thread::scope(|scope| {
        let rank = scope.spawn(|| rendezvous.join(&part(), Duration::from_secs(60), &mut |_| ()));
        // Somebody who is not the head; and only now there is a newer note.
        drop(other.accept().expect("a call"));
        leave(&path, &Note::Refused("no data".to_owned())).expect("a newer note");
        drop(other);
        let told = rank.join().expect("a thread").expect_err("it was told");
        assert!(told.is::<Refused>(), "{told:#}");
    });
}
