//! A process that another one of this program started and that must not outlive it.

use std::io::{self, BufRead};
use std::process::exit;
use std::sync::atomic::Ordering;
use std::thread;

use anyhow::{Context, Result};

use super::{INTERRUPTED, STOP};

/// What asks a process on a leash to stop in order, as Ctrl-C does.
pub(crate) const STOP_WORD: &str = "stop";

/// Ends this process at once when its input ends: whoever started it is gone.
pub(crate) fn put_on() -> Result<()> {
    let listen = || {
        for line in io::stdin().lock().lines() {
            match line {
                Ok(word) if word == STOP_WORD => STOP.store(true, Ordering::Relaxed),
                Ok(_) => {}
                Err(_) => break,
            }
        }
        exit(i32::from(INTERRUPTED));
    };
    thread::Builder::new().name("leash".to_owned()).spawn(listen).context("cannot start a thread")?;
    Ok(())
}
