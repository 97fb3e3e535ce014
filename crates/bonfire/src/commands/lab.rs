//! `bonfire lab`: a cluster to try things on.

use std::io::{self, IsTerminal};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;
use bonfire_launch::{
    CpuShare, Delay, HostArch, HostShape, Lab, LabError, LabProgress, LabSpec, LinkShape, Rate, govern,
    read_shapes, throttle,
};

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
    /// Needs root, Linux, and the Debian packages iproute2, openssh-server and openssh-client; for hosts of another
    /// architecture also qemu-user and its C library, such as libc6-arm64-cross.
    #[command(after_help = "Examples:\n  bonfire lab up --hosts 8 --rate 100mbit\n  \
                            bonfire lab up --hosts 4 --rate 1gbit --delay 5ms --name far\n  \
                            bonfire lab up --hosts 4 --cpu 1,1,0.5,0.25 --rate 100mbit,100mbit,1gbit,10mbit\n  \
                            bonfire lab up --hosts 4 --arch x86_64,x86_64,aarch64,aarch64\n  \
                            bonfire lab up --from desks.yml\n\n\
                            A file has a line for each host; what is left out is as this machine has it:\n  \
                            - {cpu: 0.5, rate: 100mbit, delay: 5ms, arch: aarch64}\n  \
                            - {cpu: 0.25}\n\n\
                            A host that has a share of a core is kept to it by stopping and continuing its processes, \
                            some\nhundred times a second. Shares of all hosts that are more than this machine has \
                            cannot be kept.\n\n\
                            It prints the inventory of the new hosts and how to get to the first:\n  \
                            ssh -F /var/lib/bonfire-labs/lab/files/ssh_config lab-1")]
    Up(UpArgs),
    /// End all processes of a lab and delete its namespaces, links and files
    #[command(after_help = "Examples:\n  bonfire lab down\n  bonfire lab down --name far")]
    Down(DownArgs),
    /// Change a host while the lab is there, also in the middle of a run
    #[command(after_help = "Examples:\n  bonfire lab set lab-3 --cpu 0.1\n  \
                            bonfire lab set far-1 --rate 10mbit --delay 20ms")]
    Set(SetArgs),
    /// Show the labs of this machine
    List,
    /// Keep the hosts of a lab to their shares of the processor, until the lab is gone
    #[command(hide = true)]
    Govern { name: String },
    /// Stop and continue the processes of a lab, until the input ends
    #[command(hide = true)]
    Throttle { name: String },
}

#[derive(Debug, clap::Args)]
struct UpArgs {
    /// How many hosts, from 1 to 200
    #[arg(long, value_name = "N", required_unless_present = "from")]
    hosts: Option<usize>,
    /// Which share of one core each host has, such as 0.5, or a list with one for each [default: all cores]
    #[arg(long, value_delimiter = ',', value_name = "SHARE", allow_hyphen_values = true)]
    cpu: Vec<CpuShare>,
    /// How fast each host's link is, each way, such as 100mbit, or a list [default: as fast as this machine]
    #[arg(long, value_delimiter = ',')]
    rate: Vec<Rate>,
    /// How long everything that a host sends is under way, such as 5ms, or a list [default: none]
    #[arg(long, value_delimiter = ',')]
    delay: Vec<Delay>,
    /// What each host is: x86_64, aarch64 or armv7, or a list; programs for another kind than this machine run under
    /// qemu [default: what this machine is]
    #[arg(long, value_delimiter = ',')]
    arch: Vec<HostArch>,
    /// A list of hosts in YAML, with `cpu`, `rate`, `delay` and `arch` of each
    #[arg(long, value_name = "FILE", conflicts_with_all = ["hosts", "cpu", "rate", "delay", "arch"])]
    from: Option<PathBuf>,
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

#[derive(Debug, clap::Args)]
struct SetArgs {
    /// The host, by its name
    host: String,
    /// Which share of one core it has from now on
    #[arg(long, value_name = "SHARE", allow_hyphen_values = true)]
    cpu: Option<CpuShare>,
    /// How fast its link is from now on, each way
    #[arg(long)]
    rate: Option<Rate>,
    /// How long everything that it sends is under way from now on
    #[arg(long)]
    delay: Option<Delay>,
}

pub(crate) fn run(args: LabArgs) -> Result<ExitCode> {
    let done = match args.command {
        LabCommand::Up(args) => return up(args),
        LabCommand::Down(args) => down(&args),
        LabCommand::Set(args) => set(&args),
        LabCommand::List => list(),
        LabCommand::Govern { name } => Ok(govern(&name, stop_on_ctrl_c()?)?),
        LabCommand::Throttle { name } => Ok(throttle(&name, io::stdin(), stop_on_ctrl_c()?)?),
    };
    done.map(|()| ExitCode::SUCCESS)
}

fn up(args: UpArgs) -> Result<ExitCode> {
    let hosts = match &args.from {
        Some(path) => read_shapes(path)?,
        None => HostShape::spread(args.hosts.unwrap_or(0), &args.cpu, &args.rate, &args.delay, &args.arch)?,
    };
    let spec = LabSpec { name: args.name, hosts, folder: args.dir };
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

fn set(args: &SetArgs) -> Result<()> {
    let link = LinkShape { rate: args.rate, delay: args.delay };
    let shape = Lab::set(&args.host, HostShape { cpu: args.cpu, arch: None, link })?;
    let [cpu, rate, delay, _] = columns(shape);
    print(&format!("{}  cpu {cpu}  rate {rate}  delay {delay}", args.host))
}

fn list() -> Result<()> {
    let labs = Lab::list()?;
    if labs.is_empty() {
        say("there is no lab; bonfire lab up --hosts 4 makes one");
        return Ok(());
    }
    print_row(["NAME", "HOSTS UP", "FIRST ADDRESS", "CPU", "RATE", "DELAY", "ARCH"], "INVENTORY")?;
    for lab in labs {
        print_lab(&lab)?;
    }
    Ok(())
}

/// A line for a lab, and one for each host if they are not alike.
fn print_lab(lab: &Lab) -> Result<()> {
    let address = |number| lab.address(number).map_or("-".to_owned(), |address| address.to_string());
    let shapes = lab.shapes();
    let are_alike = shapes.windows(2).all(|pair| pair[0] == pair[1]);
    let [cpu, rate, delay, arch] = match shapes.first() {
        Some(&shape) if are_alike => columns(shape),
        _ => ["*"; 4].map(str::to_owned),
    };
    let running = format!("{} of {}", lab.running(), lab.hosts());
    let inventory = lab.inventory().display().to_string();
    print_row([lab.name(), &running, &address(1), &cpu, &rate, &delay, &arch], &inventory)?;
    for (i, &shape) in shapes.iter().enumerate().filter(|_| !are_alike) {
        let [cpu, rate, delay, arch] = columns(shape);
        let name = format!("  {}-{}", lab.name(), i + 1);
        print_row([&name, "", &address(i + 1), &cpu, &rate, &delay, &arch], "")?;
    }
    if !lab.keeps_shares() {
        let name = lab.name();
        say(&format!(
            "the hosts of `{name}` are not kept to their shares; bonfire lab set {name}-1 --cpu … does it again"
        ));
    }
    Ok(())
}

fn print_row([name, up, address, cpu, rate, delay, arch]: [&str; 7], inventory: &str) -> Result<()> {
    let row = format!(
        "{name:<10}  {up:>10}  {address:<15}  {cpu:<5}  {rate:<8}  {delay:<6}  {arch:<7}  {inventory}"
    );
    print(row.trim_end())
}

/// Share, rate, delay and architecture of a host, as people read them.
fn columns(shape: HostShape) -> [String; 4] {
    let LinkShape { rate, delay } = shape.link;
    let all = [
        shape.cpu.map(|cpu| cpu.to_string()),
        rate.map(|rate| rate.to_string()),
        delay.map(|delay| delay.to_string()),
        shape.arch.map(|arch| arch.to_string()),
    ];
    all.map(|value| value.unwrap_or_else(|| "-".to_owned()))
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
        if io::stderr().is_terminal() {
            write(&format!("\r{line}"));
        } else if !self.shown {
            say(&line);
        }
        self.shown = true;
    }

    fn end(&self) {
        if self.shown && io::stderr().is_terminal() {
            say("");
        }
    }
}
