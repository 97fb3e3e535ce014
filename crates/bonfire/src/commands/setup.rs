use std::collections::BTreeMap;
use std::io::IsTerminal;
use std::sync::Mutex;

use anyhow::Result;
use bonfire_launch::CheckedFleet;
use bonfire_report::number;

use super::fleet_args::{FleetArgs, sweep};
use crate::terminal::{say, write};

/// Copy this program to every host of an inventory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The program goes to ~/.bonfire/bin, under a name with its version and checksum; what is there \
                  already is not copied again. Hosts of another architecture get the program for it, if there is \
                  one here (--program). `bonfire run` does the same by itself.\n\n\
                  Examples:\n  bonfire setup -i hosts.ini\n  bonfire setup -H pi1,pi2,pi3\n  \
                  bonfire setup -i hosts.ini --program aarch64=bonfire-aarch64"
)]
pub(crate) struct SetupArgs {
    #[command(flatten)]
    fleet: FleetArgs,
}

pub(crate) fn run(args: &SetupArgs) -> Result<()> {
    let mut fleet = args.fleet.check(args.fleet.hosts()?, 0)?;
    install(&mut fleet, false);
    sweep(&fleet, false);
    for checkup in fleet.checkups().iter().filter(|checkup| checkup.is_usable) {
        say(&format!("{}: bonfire {} is there", checkup.host, fleet.program().version));
    }
    Ok(fleet.require_all()?)
}

/// Copies the program to all hosts that can be used and do not have it, and tells of it.
pub(crate) fn install(fleet: &mut CheckedFleet, quiet: bool) {
    let progress = CopyProgress::new(fleet.missing_bytes(), quiet);
    let copied = fleet.install(&|host, bytes| progress.at(host, bytes));
    progress.end();
    for (host, bytes, time) in copied.iter().filter(|_| !quiet) {
        say(&format!("{host}: copied {} in {:.1} s", number::bytes(*bytes), time.as_secs_f64()));
    }
}

/// How much is on its way to all hosts, on a terminal.
struct CopyProgress {
    total: u64,
    sent: Mutex<BTreeMap<usize, u64>>,
    is_shown: bool,
}

impl CopyProgress {
    fn new(total: u64, quiet: bool) -> Self {
        let is_shown = !quiet && total > 0 && std::io::stderr().is_terminal();
        Self { total, sent: Mutex::default(), is_shown }
    }

    fn at(&self, host: usize, bytes: u64) {
        if !self.is_shown {
            return;
        }
        let Ok(mut sent) = self.sent.lock() else { return };
        sent.insert(host, bytes);
        let sum: u64 = sent.values().sum();
        let line = format!("\rcopying {} of {}   ", number::bytes(sum), number::bytes(self.total));
        write(&line);
    }

    fn end(&self) {
        if self.is_shown {
            write("\r\x1b[K");
        }
    }
}
