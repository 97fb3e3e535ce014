//! Damaged input for everything that reads what others send. Only tests know this crate.
//!
//! A [`Trial`] makes inputs from seeds, mostly valid ones with something wrong, and has them read. None may panic, take
//! long, or take more memory than the reader promises, whatever the input claims. A failure names its seed: `CASE=seed`
//! in front of the test command replays that one alone, and `CASES=count` runs so many of each trial.
//!
//! Read in this order: [`Trial`], [`Chance`] (where inputs come from), [`Counting`] (how memory is measured).

mod chance;
mod counting;
mod trial;

pub use chance::Chance;
pub use counting::Counting;
pub use trial::Trial;
