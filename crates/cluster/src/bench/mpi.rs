//! How fast ranks exchange gradients by MPI, beside what the MPI library does alone: both in the same processes, in
//! turn.

use std::time::Instant;

use anyhow::{Result, ensure};
use bonfire_learn::layout::Init;
use bonfire_learn::{Gradient, Layout};
use serde::Serialize;

use bonfire_exchange::sums::{Memory, mean_by_mpi};
use bonfire_exchange::world::World;

/// One measurement.
#[derive(Clone, Debug, Serialize)]
pub struct MpiSpeed {
    pub engine: &'static str,
    pub workers: usize,
    pub bytes: usize,
    /// From gradients to their sum in their place, as in a run: the best of [`REPEATS`].
    pub ms: f64,
    pub gb_per_s: f64,
    /// Of nothing but `MPI_Allreduce` from one buffer into another.
    pub bare_ms: f64,
    pub bare_gb_per_s: f64,
    /// How much of the bare bandwidth is left.
    pub ratio: f64,
}

/// How often both are measured, in turn.
pub const REPEATS: usize = 31;

/// Measures as one of the ranks that a launcher of MPI started; the first one gets the result.
pub fn measure(bytes: usize, seconds: f64) -> Result<Option<MpiSpeed>> {
    ensure!((4..=1 << 30).contains(&bytes), "--bytes must be from 4 to {}", 1 << 30);
    ensure!(seconds > 0.0 && seconds.is_finite(), "--seconds must be above 0");
    let world = World::enter()?;
    ensure!(
        world.ranks() > 1,
        "one rank has nothing to exchange: mpirun -n 2 bonfire bench exchange --engine mpi"
    );
    let mut exchange = Exchange::new(bytes / 4);
    let (mut bare, mut sums) = (vec![0.5f32; bytes / 4], vec![0.0; bytes / 4]);
    let mut ours = |count: usize| timed(&world, count, || exchange.turn(&world));
    let mut alone = |count: usize| {
        timed(&world, count, || {
            world.sum(&bare, &mut sums);
            std::mem::swap(&mut bare, &mut sums);
            Ok(())
        })
    };
    ours(3)?;
    let one = ours(3)? + alone(3)?;
    // All make as many turns as the first says.
    let count = if world.rank() == 0 { (seconds / REPEATS as f64 / one).max(3.0) } else { 0.0 };
    let count = world.agree(count, false).weight as usize;
    let (mut best, mut bare_best) = (f64::INFINITY, f64::INFINITY);
    let started = Instant::now();
    for _ in 0..REPEATS {
        best = best.min(ours(count)?);
        bare_best = bare_best.min(alone(count)?);
        // A machine that others have made slow meanwhile is not waited for; all ranks stop together.
        if world.agree(0.0, started.elapsed().as_secs_f64() > 2.0 * seconds).leave {
            break;
        }
    }
    let gb_per_s = |seconds: f64| bytes as f64 / seconds / 1e9;
    Ok((world.rank() == 0).then(|| MpiSpeed {
        engine: "mpi",
        workers: world.ranks(),
        bytes,
        ms: best * 1e3,
        gb_per_s: gb_per_s(best),
        bare_ms: bare_best * 1e3,
        bare_gb_per_s: gb_per_s(bare_best),
        ratio: bare_best / best,
    }))
}

/// The seconds of one turn, after all have come to its beginning.
fn timed(world: &World, count: usize, mut turn: impl FnMut() -> Result<()>) -> Result<f64> {
    world.agree(0.0, false);
    let started = Instant::now();
    for _ in 0..count {
        turn()?;
    }
    Ok(started.elapsed().as_secs_f64() / count as f64)
}

/// A rank with a gradient.
struct Exchange {
    layout: Layout,
    gradient: Gradient,
    memory: Memory,
}

impl Exchange {
    fn new(floats: usize) -> Self {
        let mut layout = Layout::default();
        layout.vector("gradient".into(), floats, Init::Constant(0.0));
        let mut gradient = Gradient::new(&layout);
        gradient.write(0).fill(0.5);
        Self { layout, gradient, memory: Memory::default() }
    }

    /// What a member of a group does with its gradient. The sums grow out of bounds, which costs nothing.
    fn turn(&mut self, world: &World) -> Result<()> {
        self.gradient.weight = 1.0;
        let agreed = world.agree(self.gradient.weight, false);
        mean_by_mpi(world, &self.layout, &mut self.gradient, agreed.weight, &mut self.memory)
    }
}
