mod auto;
mod comeback;
mod plan;

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use bonfire_launch::{
    CheckedFleet, LaunchError, LiveRun, ProcessEnd, ProcessRole, RunList, RunNews, Shipment,
};
use bonfire_report::PageSource;

use super::fleet_args::{FleetArgs, STEP_SPEED, sweep};
use super::page_args::{self, Mirror, PageArgs};
use super::setup::install;
use super::show::Show;
use super::{INTERRUPTED, WRONG_INPUT};
use crate::failure::Failed;
use crate::terminal::{say, warn};

use comeback::Comeback;
use plan::RunPlan;

/// Run on the hosts of an inventory, over ssh.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "The first host is the head; the others get the roles of the run file in their order: workers, or for \
                  each local server the relay and then its workers, and the evaluator last. Without `arch`, all other \
                  hosts are workers. If there is one host too few, the head is the first worker, too; `head: {works: \
                  false}` and `true` say otherwise. The program is copied where it is missing, the head sends the data \
                  to the others, and in the end the run folder is here and no process is left on any host, also if \
                  this terminal is closed. Ctrl-C stops with a checkpoint, a second one at once.\n\n\
                  Examples:\n  bonfire run -i hosts.ini run.yml\n  \
                  bonfire run -H pi1,pi2,pi3,desk:2 run.yml --set epochs=10 --out runs/first\n  \
                  bonfire run -i hosts.ini run.yml --data photos          a folder of this machine\n  \
                  bonfire run -i hosts.ini run.yml --auto                 plans, says what it chose, and runs that\n  \
                  bonfire run -i hosts.ini run.yml --detach               then: bonfire attach\n  \
                  bonfire run --resume runs/first -H pi2,pi3,pi4          goes on from its newest checkpoint\n\n\
                  Exit codes: 0 done; 1 hosts cannot be used, or the run failed; 2 the input was wrong and nothing was \
                  started; 130 interrupted, checkpoint written."
)]
pub(crate) struct RunOnHostsArgs {
    #[command(flatten)]
    fleet: FleetArgs,
    /// The run file (YAML). Without one everything has its default: lenet5 on digits, workers on all but the first host
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Where the run folder comes to in the end [default: a new one below runs/]
    #[arg(long, value_name = "RUN_DIR")]
    out: Option<PathBuf>,
    /// Go on with the run of a folder, or of a name that `bonfire status` shows, from the newest checkpoint that is
    /// here or on its hosts; without -i or -H on the hosts of before
    #[arg(long, value_name = "RUN_DIR", conflicts_with_all = ["run_file", "out", "data", "auto"])]
    resume: Option<PathBuf>,
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
    /// Measure the hosts first, as `bonfire plan` does, and run what is best on them
    #[arg(long, conflicts_with_all = ["detach", "place", "skip_unreachable"])]
    auto: bool,
    /// Leave it running and return; `bonfire attach` comes back to it
    #[arg(long)]
    detach: bool,
    /// Leave the run's folder on every host
    #[arg(long)]
    keep: bool,
    #[command(flatten)]
    page: PageArgs,
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

pub(crate) fn run(args: &RunOnHostsArgs) -> Result<ExitCode> {
    let listener = args.page.listen()?;
    let comeback = args.resume.as_deref().map(|folder| Comeback::find(args, folder)).transpose()?;
    let mut hosts = comeback.as_ref().map_or_else(|| args.fleet.hosts(), |run| Ok(run.hosts.clone()))?;
    let chosen = args.auto.then(|| auto::choose(args, &hosts)).transpose()?;
    let mut plan = match (&chosen, &comeback) {
        (Some(chosen), _) => {
            hosts.clone_from(&chosen.hosts);
            RunPlan::of(args, &hosts, ("plan", &chosen.text), chosen.set.clone())?
        }
        (None, Some(run)) => RunPlan::of(args, &hosts, ("run.yml", &run.text), args.set.clone())?,
        (None, None) => RunPlan::read(args, &hosts)?,
    };
    let data = args.data.as_deref().map(shipment).transpose()?;
    let data = data.or_else(|| comeback.as_ref()?.data.clone());
    let list = RunList::open()?;
    let fleet = args.fleet.check(hosts, data.as_ref().map_or(0, |data| data.bytes))?;
    let (fleet, places) = assign(args, &mut plan, fleet, comeback.as_ref())?;
    let spec = plan.spec(args, data, &fleet, (places[0], comeback.as_ref()))?;
    let interrupts = count_ctrl_c()?;
    let mut live = spec.start(fleet, &places, list, interrupts, &mut warn).map_err(|error| {
        comeback.iter().for_each(|run| run.give_over(false));
        plan.explain(error, args)
    })?;
    comeback.iter().for_each(Comeback::keep_logs);
    if !(args.quiet || args.json) {
        say(&roles_in_words(&live));
    }
    if args.detach {
        live.detach();
        say(&format!("run {0} goes on; to come back: bonfire attach {0}", spec.id));
        return Ok(ExitCode::SUCCESS);
    }
    let mut show = Show::new(&live.run.record.out, args.quiet, args.json);
    let mut mirror = listener.as_ref().and_then(|_| Mirror::create(&spec.id).ok());
    let source = mirror.as_ref().map(|mirror| PageSource::Run(mirror.folder().to_owned()));
    let _page = source.and_then(|source| page_args::open(listener, source));
    if let (Some(mirror), Some(run)) = (&mut mirror, &comeback) {
        run.lines().lines().for_each(|line| mirror.line(line));
    }
    let mut tell = |news: RunNews<'_>| {
        if let (RunNews::Line(line), Some(mirror)) = (&news, &mut mirror) {
            mirror.line(line);
        }
        show.news(news);
    };
    let end = live.follow(&mut tell, interrupts);
    let end = end.inspect_err(|_| show.finish())?;
    live.settle(interrupts);
    let collected = live.run.collect(args.keep, &mut warn);
    show.finish();
    if let Some(chosen) = chosen.filter(|_| collected.is_ok()) {
        chosen.compare(&live.run.record.out, args.quiet || args.json);
    }
    conclude(args, &plan, &live, &end, collected)
}

fn shipment(path: &Path) -> Result<Shipment> {
    Shipment::of(path).with_context(|| format!("--data {}", path.display()))
}

/// Puts the program on the hosts and finds one for every role. Hosts that cannot be used are an error, unless the user
/// goes on without them.
fn assign(
    args: &RunOnHostsArgs,
    plan: &mut RunPlan,
    mut fleet: CheckedFleet,
    comeback: Option<&Comeback>,
) -> Result<(CheckedFleet, Vec<usize>)> {
    if comeback.is_some() {
        for (host, slots) in plan.cast_again(&mut fleet) {
            warn(format!("{host} takes {slots} processes, so that there are as many workers as before"));
        }
    }
    let require = |fleet: &CheckedFleet| fleet.require(&plan.roles, args.skip_unreachable);
    require(&fleet)?;
    install(&mut fleet, args.quiet || args.json);
    require(&fleet)?;
    comeback.iter().for_each(|run| run.give_over(true));
    sweep(&fleet, args.quiet || args.json);
    if args.place == HostOrder::Fastest {
        fleet.measure_speeds(STEP_SPEED);
        require(&fleet)?;
    }
    let unusable: Vec<String> =
        fleet.unusable().iter().map(|(host, trouble)| format!("{host} ({trouble})")).collect();
    let assigned = fleet.assign(&plan.roles, args.place == HostOrder::Fastest)?;
    if !unusable.is_empty() {
        warn(format!("goes on without {}", unusable.join(", ")));
    }
    Ok(assigned)
}

/// `head on pi1 (192.168.2.101:41234); workers on pi2, pi3`
fn roles_in_words(live: &LiveRun) -> String {
    let head = live.run.record.processes[0].role;
    let mut parts = vec![format!("{head} on {} ({})", live.run.head_name(), live.head_address)];
    for (role, name) in [
        (ProcessRole::Relay, "relays"),
        (ProcessRole::Worker, "workers"),
        (ProcessRole::Evaluator, "evaluator"),
    ] {
        let processes = live.run.record.processes.iter().filter(|process| process.role == role);
        let hosts: Vec<&str> = processes.map(|process| process.name.as_str()).collect();
        if !hosts.is_empty() {
            parts.push(format!("{name} on {}", hosts.join(", ")));
        }
    }
    parts.join("; ")
}

/// How often Ctrl-C was pressed. The first means to stop in order, the second at once, and a third lets everything go:
/// the guards on the hosts then end what they guard.
pub(crate) fn count_ctrl_c() -> Result<&'static AtomicUsize> {
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
    live: &LiveRun,
    end: &ProcessEnd,
    collected: Result<(), LaunchError>,
) -> Result<ExitCode> {
    let host = live.run.head_name();
    if live.was_ended_at_once {
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
        Some(code) if code == i32::from(WRONG_INPUT) => {
            bail!("{} on {host}{}", end.why(), plan.data_hint(args))
        }
        _ => return Err(Failed(format!("the run failed: {} on {host}", end.why())).into()),
    }
    collected?;
    Ok(ExitCode::SUCCESS)
}
