//! The batches of what a node will probably compute next, made while it computes and exchanges.
//!
//! Nobody tells a worker its next unit before it has pushed the last one. But units are dealt out in turns, so the next
//! is most often as far behind the last as that was behind the one before. What is in a batch follows from its place
//! alone, so a wrong guess costs time, and nothing else.

use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};

use anyhow::{Context, Result};
use bonfire_data::{Cut, Samples};
use bonfire_learn::Batch;
use bonfire_run::loader::{Shares, Sharing};

/// Where samples are: the round over the whole run, the slot, and the part of several units if it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub round: u64,
    pub slot: usize,
    pub cut: Option<Cut>,
}

/// A thread that fills the batches of one place at a time. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Forerunner {
    /// What it is filling, or has filled.
    at: Option<Place>,
    /// Some until this is dropped. With a place goes memory to use.
    ask: Option<SyncSender<(Place, Vec<Batch>)>>,
    filled: Receiver<Vec<Batch>>,
    thread: Option<JoinHandle<()>>,
    /// How often it was at the right place.
    #[cfg(test)]
    pub hits: u64,
}

impl Forerunner {
    pub(crate) fn start(samples: &Arc<Samples>, sharing: Sharing) -> Result<Self> {
        let (ask, asked) = sync_channel::<(Place, Vec<Batch>)>(1);
        let (fill, filled) = sync_channel(1);
        let samples = Arc::clone(samples);
        let run = move || {
            let (mut shares, mut numbers) = (Shares::new(sharing), Vec::new());
            for (place, mut batches) in asked {
                shares.go_to(&samples, place.round);
                place.cut.into_iter().for_each(|cut| shares.cut(cut));
                batches.resize_with(sharing.copies, Batch::default);
                for (copy, batch) in batches.iter_mut().enumerate() {
                    shares.fill(&samples, (place.slot, copy), &mut numbers, batch);
                }
                if fill.send(batches).is_err() {
                    return;
                }
            }
        };
        let thread = thread::Builder::new().name("forerunner".into()).spawn(run);
        let thread = Some(thread.context("cannot start a thread that loads ahead")?);
        Ok(Self {
            at: None,
            ask: Some(ask),
            filled,
            thread,
            #[cfg(test)]
            hits: 0,
        })
    }

    /// The batches of a place, if that is where it went. A panic of the thread goes on here.
    pub(crate) fn take(&mut self, place: &Place) -> Option<Vec<Batch>> {
        let at = self.at.take()?;
        let batches = match self.filled.recv() {
            Ok(batches) => batches,
            Err(_) => match self.thread.take().map(JoinHandle::join) {
                Some(Err(panic)) => resume_unwind(panic),
                _ => unreachable!("it ends only when nobody takes from it"),
            },
        };
        let is_there = at == *place;
        #[cfg(test)]
        {
            self.hits += u64::from(is_there);
        }
        is_there.then_some(batches)
    }

    /// Goes to a place. `used` are batches of an earlier one, whose memory serves again.
    pub(crate) fn go_to(&mut self, place: Place, used: Vec<Batch>) {
        let sent = self.ask.as_ref().is_some_and(|ask| ask.send((place.clone(), used)).is_ok());
        self.at = sent.then_some(place);
    }
}

impl Drop for Forerunner {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            // What it has filled has room to wait; a panic in it concerns nobody any more.
            let _ = thread.join();
        }
    }
}
