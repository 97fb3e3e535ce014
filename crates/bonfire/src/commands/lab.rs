//! `bonfire lab`: a cluster to try things on.

use std::io::IsTerminal;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use bonfire_launch::{Delay, Lab, LabError, LabProgress, LabSpec, LinkShape, Rate};

use super::{INTERRUPTED, stop_on_ctrl_c};
use crate::terminal::{print, say, write};

/// Emulate a cluster on this machine.
#[derive(Debug, clap::Args)]
pub(crate) struct LabArgs {
    #[command(subcommand)]
    command: LabCommand,
}

#[derive(Debug, clap::Subcommand)]
enum LabCommand {
    /// Make hosts: network namespaces on a bridge, each with its own address, name, home and sshd
    ///
    /// Needs root, Linux, and the Debian packages iproute2, openssh-server and openssh-client.
    #[command(after_help = "Examples:\n  bonfire lab up --hosts 8 --rate 100mbit\n  \
                            bonfire lab up --hosts 4 --rate 1gbit --delay 5ms --name far\n\n\
                            It prints the inventory of the new hosts and how to get to the first:\n  \
                            ssh -F /var/lib/bonfire-labs/lab/files/ssh_config lab-1")]
    Up(UpArgs),
    /// End all processes of a lab and delete its namespaces, links and files
    #[command(after_help = "Examples:\n  bonfire lab down\n  bonfire lab down --name far")]
    Down(DownArgs),
    /// Show the labs of this machine
    List,
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// How many hosts, from 1 to 200
    #[arg(long, value_name = "N")]
    hosts: usize,
    /// How fast each host's link is, each way, such as 100mbit [default: as fast as this machine]
    #[arg(long)]
    rate: Option<Rate>,
    /// How long everything that a host sends is under way, such as 5ms [default: none]
    #[arg(long)]
    delay: Option<Delay>,
    /// What the lab is called: up to 8 lower-case letters and digits
    #[arg(long, default_value = "lab")]
    name: String,
    /// Where the lab keeps its files; new or empty [default: /var/lib/bonfire-labs/NAME/files]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

#[derive(Debug, clap::Args)]
struct DownArgs {
    /// What the lab is called
    #[arg(long, default_value = "lab")]
    name: String,
}

pub(crate) fn run(args: LabArgs) -> Result<ExitCode> {
    let done = match args.command {
        LabCommand::Up(args) => return up(args),
        LabCommand::Down(args) => down(&args),
        LabCommand::List => list(),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn up(args: UpArgs) -> Result<ExitCode> {
    let shape = LinkShape { rate: args.rate, delay: args.delay };
    let spec = LabSpec { name: args.name, hosts: args.hosts, shape, folder: args.dir };
    let stop = stop_on_ctrl_c()?;
    let mut bar = Bar::new();
    let made = Lab::up(&spec, stop, &mut |progress| bar.show(progress));
    bar.end();
    match made {
        Ok(lab) => {
            print_new(&lab)?;
            Ok(ExitCode::SUCCESS)
        }
        Err(error @ LabError::Stopped) => {
            say(&error.to_string());
            Ok(ExitCode::from(INTERRUPTED))
        }
        Err(error) => Err(error.into()),
    }
}

fn down(args: &DownArgs) -> Result<()> {
    match Lab::find(&args.name)? {
        Some(lab) => {
            lab.down()?;
            say(&format!("the lab `{}` is gone", lab.name()));
        }
        // What is not there need not be taken down: a script may say it twice.
        None => say(&format!("there is no lab `{}`; bonfire lab list shows those that there are", args.name)),
    }
    Ok(())
}

fn list() -> Result<()> {
    let labs = Lab::list()?;
    if labs.is_empty() {
        say("there is no lab; bonfire lab up --hosts 4 makes one");
        return Ok(());
    }
    print(&format!(
        "{:<8}  {:>9}  {:<15}  {:<8}  {:<6}  INVENTORY",
        "NAME", "HOSTS UP", "FIRST ADDRESS", "RATE", "DELAY"
    ))?;
    for lab in labs {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        print(&format!(
            "{:<8}  {:>9}  {:<15}  {:<8}  {:<6}  {}",
            lab.name(),
            format!("{} of {}", lab.running(), lab.hosts()),
            or_none(lab.address(1).map(|address| address.to_string())),
            or_none(lab.shape().rate.map(|rate| rate.to_string())),
            or_none(lab.shape().delay.map(|delay| delay.to_string())),
            lab.inventory().display()
        ))?;
    }
    Ok(())
}

fn print_new(lab: &Lab) -> Result<()> {
    let address = |number| lab.address(number).map_or(String::new(), |address| address.to_string());
    print(&format!(
        "hosts      {0}-1 to {0}-{1}, {2} to {3}",
        lab.name(),
        lab.hosts(),
        address(1),
        address(lab.hosts())
    ))?;
    if let Some(gateway) = lab.gateway() {
        print(&format!("gateway    {gateway} is this machine as they see it"))?;
    }
    print(&format!("inventory  {}", lab.inventory().display()))?;
    print(&format!("go there   ssh -F {} {}-1", lab.ssh_config().display(), lab.name()))?;
    print(&format!("end it     bonfire lab down --name {}", lab.name()))
}

/// A line that tells how far it is, once that takes longer than a person likes to wait in the dark.
struct Bar {
    started: Instant,
    shown: bool,
}

impl Bar {
    const PATIENCE: Duration = Duration::from_secs(1);

    fn new() -> Self {
        Self { started: Instant::now(), shown: false }
    }

    fn show(&mut self, progress: LabProgress) {
        if self.started.elapsed() < Self::PATIENCE {
            return;
        }
        let line = format!("{} of {} hosts are made", progress.hosts, progress.of);
        if std::io::stderr().is_terminal() {
            write(&format!("\r{line}"));
        } else if !self.shown {
            say(&line);
        }
        self.shown = true;
    }

    fn end(&self) {
        if self.shown && std::io::stderr().is_terminal() {
            say("");
        }
    }
}
