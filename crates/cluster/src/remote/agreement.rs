//! How nodes with data of their own come to the same words, classes and scales before their run begins: each tells of
//! its data, the head puts together what all have told, and then welcomes them. No sample travels.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use bonfire_data::{Agreed, MOST_TOLD, Telling};
use bonfire_report::{Event, number};
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Frame, proto};

use super::gate::{entry, entry_to_agree};
use crate::mail::Mailbox;
use crate::roles::claim::plain;
use crate::roles::head::{Absent, LOOK, Warnings};
use crate::roles::registry::{Notice, Registry};
use bonfire_run::run::Run;
use bonfire_run::run_file::cast::{in_words, wanted};

/// The head while its nodes tell of their data.
pub(super) struct Agreement<'a> {
    run: &'a mut Run,
    mailbox: &'a Mailbox,
    registry: Registry,
    accounts: BTreeMap<u64, Account>,
    warnings: Warnings,
    /// Whether the head trains on its own data, too.
    works: bool,
}

/// What a node has told so far.
enum Account {
    Coming { bytes: Vec<u8>, of: usize },
    Whole(Telling),
}

/// Waits until as many nodes as the run asks for have told, and settles the run's words and classes. None if the user
/// stopped that.
pub(super) fn reach(
    run: &mut Run,
    mailbox: &Mailbox,
    stop: &AtomicBool,
    wait: Duration,
    works: bool,
) -> Result<Option<Registry>> {
    let registry = Registry::asking(entry_to_agree(run)?);
    let (accounts, warnings) = (BTreeMap::new(), Warnings::default());
    let mut agreement = Agreement { run, mailbox, registry, accounts, warnings, works };
    let heard = agreement.hear_all(stop, wait);
    let settled = heard.and_then(|all| if all { agreement.settle().map(|()| true) } else { Ok(false) });
    let (reason, failed) = match &settled {
        Ok(true) => return Ok(Some(agreement.registry)),
        Ok(false) => ("the user stopped the run".to_owned(), false),
        Err(error) => (format!("{error:#}"), true),
    };
    agreement.registry.dismiss(&proto::Stop { reason, failed, interrupted: !failed }, mailbox);
    settled.map(|_| None)
}

impl Agreement<'_> {
    /// False if the user stopped it.
    fn hear_all(&mut self, stop: &AtomicBool, wait: Duration) -> Result<bool> {
        let wanted = wanted(&self.run.job.settings.topology, false);
        let here = usize::from(self.works);
        let until = self.mailbox.now() + wait;
        let mut seen = usize::MAX;
        loop {
            let left = until.saturating_duration_since(self.mailbox.now());
            let joined = self.registry.nodes().count() + here;
            let missing = in_words(&wanted[joined.min(wanted.len())..]);
            if seen != joined {
                seen = joined;
                let (wanted, missing, deadline_s) = (wanted.len(), missing.clone(), left.as_secs_f64());
                self.run.tell(Event::Waiting { joined, wanted, missing, deadline_s });
            }
            let whole = |account: &&Account| matches!(account, Account::Whole(_));
            let told = self.accounts.values().filter(whole).count() + here;
            if told >= wanted.len() {
                return Ok(true);
            }
            if left.is_zero() {
                let missing = if missing.is_empty() { "nodes that tell of their data" } else { &missing };
                return Err(Absent::new(told, wanted.len(), wait, missing).into());
            }
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if let Some(notice) = self.registry.next(self.mailbox, left.min(LOOK)) {
                self.hear(notice);
            }
        }
    }

    fn hear(&mut self, notice: Notice) {
        match notice {
            Notice::Refused(message) => self.warn(message),
            Notice::Lost { node, reason } => {
                self.accounts.remove(&node.number);
                self.warn(format!("{} left before the run began: {reason}", node.name));
            }
            Notice::Frame(node, Frame { body: Body::Told(told), .. }) => self.begin(node, &told),
            Notice::Frame(node, Frame { body: Body::Data(data), payload }) => {
                self.take(node, data.offset, &payload);
            }
            Notice::Joined | Notice::Ready(_) | Notice::Frame(..) => {}
        }
    }

    /// A node has something to tell.
    fn begin(&mut self, node: u64, told: &proto::Told) {
        if !told.error.is_empty() {
            self.turn_away(node, &plain(&told.error));
        } else if !(1..=MOST_TOLD).contains(&told.bytes) {
            self.turn_away(node, &format!("it has {} bytes to tell of its data", told.bytes));
        } else {
            let account = Account::Coming { bytes: Vec::new(), of: told.bytes as usize };
            self.accounts.insert(node, account);
            self.ask(node, 0);
        }
    }

    fn ask(&self, node: u64, offset: u64) {
        if let Some(node) = self.registry.get(node) {
            // One that is gone is heard of in the mail.
            let _ = node.outbox.send(Body::Fetch(proto::Fetch { offset }));
        }
    }

    /// A node has told the next piece.
    fn take(&mut self, node: u64, offset: u64, piece: &[u8]) {
        let Some(Account::Coming { bytes, of }) = self.accounts.get_mut(&node) else { return };
        let is_next = offset == bytes.len() as u64 && !piece.is_empty() && piece.len() <= *of - bytes.len();
        if !is_next {
            return self.turn_away(node, "it told something else of its data than was asked for");
        }
        bytes.extend_from_slice(piece);
        if bytes.len() < *of {
            let offset = bytes.len() as u64;
            return self.ask(node, offset);
        }
        let job = &self.run.job;
        let telling = Telling::read(&mut bytes.as_slice(), job.settings.file.data.max_words);
        let fitting = telling.map_err(|error| plain(&error.to_string())).and_then(|telling| {
            let misfit = telling.misfit(&job.dataset);
            misfit.map_or(Ok(telling), |misfit| Err(plain(&misfit)))
        });
        match fitting {
            Ok(telling) => {
                self.accounts.insert(node, Account::Whole(telling));
            }
            Err(reason) => self.turn_away(node, &reason),
        }
    }

    fn turn_away(&mut self, node: u64, reason: &str) {
        self.accounts.remove(&node);
        if let Some(Notice::Refused(message)) = self.registry.turn_away(node, reason) {
            self.warn(message);
        }
    }

    fn warn(&mut self, message: String) {
        if self.warnings.is_new(&message) {
            self.run.tell(Event::Warned { message });
        }
    }

    /// Puts together what was told, and welcomes everybody to the run that follows from it.
    fn settle(&mut self) -> Result<()> {
        let source = &self.run.job.settings.file.data;
        let accounts = std::mem::take(&mut self.accounts).into_values();
        let whole = accounts.filter_map(|account| match account {
            Account::Whole(telling) => Some(telling),
            Account::Coming { .. } => None,
        });
        let mut tellings: Vec<Telling> = whole.collect();
        if self.works {
            tellings.push(source.load_all_words()?.telling(source));
        }
        let Agreed { form, lone_words } = self.run.job.dataset.agree(source, &tellings)?;
        let owners = number::of(tellings.len() as u64, "node");
        let mut of_what = Vec::new();
        if let Some(vocabulary) = &form.vocabulary {
            let (all, lone) = (vocabulary.names(), number::count(lone_words as u64));
            of_what.push(format!("{} ({lone} of one node alone)", number::of(all as u64, "word")));
        }
        match form.classes.len() {
            0 => of_what.push("the scales of values".to_owned()),
            1 => of_what.push("1 class".to_owned()),
            classes => of_what.push(format!("{classes} classes")),
        }
        self.run.agree(form)?;
        let of_what = of_what.join(" and ");
        let message = format!("agreed on {of_what} by what {owners} told; no sample has left its node");
        self.run.tell(Event::Noted { message });
        self.registry.welcome(entry(self.run)?);
        Ok(())
    }
}
