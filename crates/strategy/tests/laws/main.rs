//! What holds whatever happens: seeded histories of joins, losses, delays and replays, thousands of each kind. A
//! failure names its seed, and `HISTORY=seed` in front of the test command replays that one alone; `HISTORIES=count`
//! runs more of them.

mod chance;
mod cluster;
mod faults;
mod group;
mod parameter_server;

/// Runs `history` for each seed below `count`, or as the environment asks.
fn for_each_seed(count: u64, history: impl Fn(u64) + std::panic::RefUnwindSafe) {
    let asked = |name| std::env::var(name).ok().map(|text| text.parse::<u64>().expect("a number"));
    let seeds = match asked("HISTORY") {
        Some(seed) => seed..seed + 1,
        None => 0..asked("HISTORIES").unwrap_or(count),
    };
    for seed in seeds {
        let ran = std::panic::catch_unwind(|| history(seed));
        assert!(ran.is_ok(), "seed {seed}: replay it with HISTORY={seed}");
    }
}
