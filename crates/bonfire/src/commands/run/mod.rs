mod collect;
mod data;
mod launch;
mod plan;
mod running;
mod show;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_launch::{RunList, place};

use super::INTERRUPTED;
use super::check::measure_steps;
use super::fleet::{Checkup, Fleet, FleetArgs};
use super::setup::{install, own_program, refuse_unusable};
use crate::failure::Failed;
use crate::terminal::say;

pub use collect::{collect, logs_folder};
use data::Shipment;
use launch::Launch;
use plan::RunPlan;
use running::LiveRun;
pub use show::{Show, Watching};

/// Run on the hosts of an inventory, over ssh.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first host is the head; the others get the roles of the run file in their order: workers, or for each \
                  local server the relay and then its workers, and the evaluator last. Without `arch`, all other hosts are \
                  workers. The program is copied where it is missing, the head sends the data to the others, and in the end the \
                  run folder is here and no process is left on any host, also if this terminal is closed. Ctrl-C \
                  stops with a checkpoint, a second one at once.\n\n\
                  Examples:\n  bonfire run -i hosts.ini run.yml\n  \
                  bonfire run -H pi1,pi2,pi3,desk:2 run.yml --set epochs=10 --out runs/first\n  \
                  bonfire run -i hosts.ini run.yml --data photos          a folder of this machine\n  \
                  bonfire run -i hosts.ini run.yml --detach               then: bonfire attach\n\n\
                  Exit codes: 0 done; 1 hosts cannot be used, or the run failed; 2 the input was wrong and nothing was \
                  started; 130 interrupted, checkpoint written."
)]
pub struct RunOnHostsArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// The run file (YAML). Without one, everything has its default: lenet5 on digits, a worker on every host but the first
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the run folder comes to in the end [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR")]
    out: Option<PathBuf>,
    /// Copy this file or folder to the head and train on it; to all hosts with `distribute: local`
    #[arg(long, value_name = "PATH")]
    data: Option<PathBuf>,
    /// Who gets the head and the relays
    #[arg(long, value_enum, default_value_t = HostOrder::InOrder)]
    place: HostOrder,
    /// Go on without hosts that cannot be used, if enough are left
    #[arg(long)]
    skip_unreachable: bool,
    /// The port of the head [default: a free one]
    #[arg(long, value_name = "PORT", default_value_t = 0)]
    port: u16,
    /// The name or address by which the other hosts reach the head [default: tried out]
    #[arg(long, value_name = "HOST")]
    address: Option<String>,
    /// Leave it running and return; `bonfire attach` comes back to it
    #[arg(long)]
    detach: bool,
    /// Leave the run's folder on every host
    #[arg(long)]
    keep: bool,
    /// Show nothing but warnings and errors
    #[arg(long, short)]
    quiet: bool,
    /// Print every event as a line of JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum HostOrder {
    /// The first hosts of the inventory
    InOrder,
    /// The quickest hosts, by a short measurement
    Fastest,
}

pub fn run(args: &RunOnHostsArgs) -> Result<ExitCode> {
    let hosts = args.fleet.hosts()?;
    let plan = RunPlan::read(args, &hosts)?;
    let data = args.data.as_deref().map(Shipment::read).transpose()?;
    let program = own_program()?;
    let ledger = RunList::open()?;
    let fleet = Fleet::of(hosts, args.fleet.patience())?;
    let data_bytes = data.as_ref().map_or(0, |data| data.bytes);
    let mut checkups = fleet.check(&program, data_bytes);
    refuse(args, &plan, &fleet, &checkups)?;
    install(&fleet, &program, &mut checkups, args.quiet || args.json);
    refuse(args, &plan, &fleet, &checkups)?;
    let places = match args.place {
        HostOrder::InOrder => place::in_order(&plan.roles, &slots(&fleet, &checkups)),
        HostOrder::Fastest => {
            measure_steps(&fleet, &program, &mut checkups);
            refuse(args, &plan, &fleet, &checkups)?;
            let speeds: Vec<f64> = checkups.iter().map(|c| c.samples_per_s.unwrap_or(0.0)).collect();
            place::fastest_first(&plan.roles, &slots(&fleet, &checkups), &speeds)
        }
    };
    let places = places.context(Failed("too few hosts can be used".to_owned()))?;
    if refuse_unusable(&checkups).is_err() {
        say(&format!("warning: goes on without {}", unusable(&checkups)));
    }
    let (fleet, checkups, places) = narrow(fleet, &checkups, &places);
    let interrupts = count_ctrl_c()?;
    let launch = Launch { args, plan: &plan, fleet: &fleet, program: &program, checkups: &checkups };
    let mut running = launch.start(&ledger, &places, data.as_ref(), interrupts)?;
    if args.detach {
        running.detach();
        say(&format!("run {} goes on; to come back: bonfire attach {0}", running.record.id));
        return Ok(ExitCode::SUCCESS);
    }
    let mut show = Show::new(&running.record.out, args.quiet, args.json);
    let end = running.watch(&mut show, interrupts)?;
    running.settle(interrupts);
    let collected = collect(&fleet, &mut running.record, args.keep, &ledger);
    if collected.is_ok()
        && let Some(data) = &data
    {
        data.restore_path(&running.record.out);
    }
    show.finish();
    conclude(args, &plan, &running, &end, collected)
}

/// How many processes each host may take; none if it cannot be used.
fn slots(fleet: &Fleet, checkups: &[Checkup]) -> Vec<usize> {
    let slots = |(member, checkup): (&super::fleet::FleetHost, &Checkup)| {
        if checkup.is_usable { member.host.slots } else { 0 }
    };
    fleet.members.iter().zip(checkups).map(slots).collect()
}

/// Only the hosts that get a role.
fn narrow(fleet: Fleet, checkups: &[Checkup], places: &[usize]) -> (Fleet, Vec<Checkup>, Vec<usize>) {
    let used: Vec<usize> = (0..checkups.len()).filter(|host| places.contains(host)).collect();
    let place = |host: &usize| used.iter().position(|used| used == host).unwrap_or(0);
    let places = places.iter().map(place).collect();
    (fleet.narrow(&used), used.iter().map(|&host| checkups[host].clone()).collect(), places)
}

/// Hosts that cannot be used end it here, before anything is started, unless the user goes on without them.
fn refuse(args: &RunOnHostsArgs, plan: &RunPlan, fleet: &Fleet, checkups: &[Checkup]) -> Result<()> {
    let Err(error) = refuse_unusable(checkups) else { return Ok(()) };
    if !args.skip_unreachable {
        let advice = "nothing was started; --skip-unreachable goes on without such hosts if enough are left";
        let is_mistaken = checkups.iter().any(|checkup| checkup.is_mistaken);
        return Err(match is_mistaken {
            // The input was wrong, whatever else is.
            true => anyhow::anyhow!("{advice}: {error:#}"),
            false => error.context(Failed(advice.to_owned())),
        });
    }
    place::in_order(&plan.roles, &slots(fleet, checkups))
        .map(|_| ())
        .map_err(|shortage| error.context(Failed(format!("nothing was started: without them, {shortage}"))))
}

/// `pi3 (it did not answer in time), pi4 (…)`
fn unusable(checkups: &[Checkup]) -> String {
    let named = |checkup: &Checkup| Some(format!("{} ({})", checkup.host, checkup.trouble.as_ref()?));
    checkups.iter().filter_map(named).collect::<Vec<_>>().join(", ")
}

/// How often Ctrl-C was pressed. The first means to stop in order, the second at once, and a third lets everything go: the
/// guards on the hosts then end what they guard.
fn count_ctrl_c() -> Result<&'static AtomicUsize> {
    static INTERRUPTS: AtomicUsize = AtomicUsize::new(0);
    let mut last: Option<Instant> = None;
    ctrlc::set_handler(move || {
        // A terminal that is closed says so twice, once itself and once through its shell. That is one wish.
        if last.is_some_and(|last| last.elapsed() < ONE_WISH) {
            return;
        }
        last = Some(Instant::now());
        if INTERRUPTS.fetch_add(1, Ordering::Relaxed) >= 2 {
            std::process::exit(i32::from(INTERRUPTED));
        }
    })
    .context("cannot listen for Ctrl-C")?;
    Ok(&INTERRUPTS)
}

/// Nobody presses Ctrl-C twice within this time and means it.
const ONE_WISH: Duration = Duration::from_millis(200);

/// What the end of the head means for this program.
fn conclude(
    args: &RunOnHostsArgs,
    plan: &RunPlan,
    running: &LiveRun<'_>,
    end: &show::HeadEnd,
    collected: Result<()>,
) -> Result<ExitCode> {
    let failed = |message: String| Err(Failed(message).into());
    if running.was_ended_at_once {
        collected?;
        say("ended at once; what was done since the last checkpoint is lost");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    match end.code {
        Some(0) => {}
        Some(code) if code == i32::from(INTERRUPTED) => {
            collected?;
            return Ok(ExitCode::from(INTERRUPTED));
        }
        // Wrong input that only the head could see, such as data that are not there.
        Some(2) => bail!("{} on {}{}", end.why(), running.head_name(), plan.data_hint(args)),
        _ => return failed(format!("the run failed: {} on {}", end.why(), running.head_name())),
    }
    collected.map(|()| ExitCode::SUCCESS)
}
