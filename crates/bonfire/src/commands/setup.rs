use std::io::IsTerminal;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result};
use bonfire_launch::{Program, call};
use bonfire_report::number;

use super::fleet::{Checkup, Fleet, FleetArgs};
use crate::failure::Failed;
use crate::terminal::{say, write};

/// Copy this program to every host of an inventory.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The program goes to ~/.bonfire/bin, under a name with its version and checksum; what is there already is \
                  not copied again. `bonfire run` does the same by itself.\n\n\
                  Examples:\n  bonfire setup -i hosts.ini\n  bonfire setup -H pi1,pi2,pi3"
)]
pub struct SetupArgs {
    #[command(flatten)]
    fleet: FleetArgs,
}

/// This program, as it is copied.
pub fn own_program() -> Result<Program> {
    Program::own(env!("CARGO_PKG_VERSION")).context("this program cannot read itself")
}

pub fn run(args: &SetupArgs) -> Result<()> {
    let hosts = args.fleet.hosts()?;
    let program = own_program()?;
    let fleet = Fleet::of(hosts, args.fleet.patience())?;
    let mut checkups = fleet.check(&program, 0);
    install(&fleet, &program, &mut checkups, false);
    for checkup in checkups.iter().filter(|checkup| checkup.is_usable) {
        say(&format!("{}: bonfire {} is there", checkup.host, program.version));
    }
    refuse_unusable(&checkups)
}

/// Copies the program to all hosts that can be used and do not have it. One that cannot take it cannot be used.
pub fn install(fleet: &Fleet, program: &Program, checkups: &mut [Checkup], quiet: bool) {
    let without = |checkup: &Checkup| checkup.is_usable && !checkup.has_program;
    let wanting: Vec<usize> = (0..checkups.len()).filter(|&i| without(&checkups[i])).collect();
    let progress = Progress::new(wanting.len() as u64 * program.bytes, quiet);
    let installed = fleet.each_of(&wanting, |number, member| {
        let started = Instant::now();
        let copied = program.install(&member.remote, |bytes| progress.at(number, bytes));
        // A program that does not start there, say for want of a library, is better found now.
        let starts = copied.and_then(|()| {
            let time = std::time::Duration::from_secs(20);
            call(&member.remote, &program.place(), &["--version"], std::io::empty(), time).map(|_| ())
        });
        starts.map(|()| started.elapsed())
    });
    progress.end();
    for (number, result) in wanting.into_iter().zip(installed) {
        let checkup = &mut checkups[number];
        match result {
            Ok(time) => {
                checkup.has_program = true;
                if !quiet {
                    let (bytes, seconds) = (number::bytes(program.bytes), time.as_secs_f64());
                    say(&format!("{}: copied {bytes} in {seconds:.1} s", checkup.host));
                }
            }
            Err(trouble) => {
                checkup.is_usable = false;
                checkup.trouble = Some(format!("the program cannot be put there: {trouble}"));
            }
        }
    }
}

/// An error that names all hosts that cannot be used, if there are any.
pub fn refuse_unusable(checkups: &[Checkup]) -> Result<()> {
    let troubles: Vec<String> = checkups
        .iter()
        .filter_map(|checkup| Some(format!("{}: {}", checkup.host, checkup.trouble.as_ref()?)))
        .collect();
    if troubles.is_empty() {
        return Ok(());
    }
    let (bad, all) = (troubles.len(), checkups.len());
    let message = format!("{bad} of {all} hosts cannot be used\n  {}", troubles.join("\n  "));
    Err(Failed(message).into())
}

/// How much is on its way to all hosts, on a terminal.
struct Progress {
    total: u64,
    sent: Mutex<std::collections::BTreeMap<usize, u64>>,
    is_shown: bool,
}

impl Progress {
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
