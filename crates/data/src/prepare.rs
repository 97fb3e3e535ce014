//! From raw reviews to numbers: what becomes of a collection of texts with ratings before a model reads it.
//!
//! A preparation is three steps, each of which is a pure function of a text or of equal texts: *map* cleans a text
//! ([`Mapper`]), *reduce* makes equal texts one (`Ratings`) and *encode* numbers its words. On one
//! machine [`Preparation`] runs them over files of any size with as much memory as it is given: sorted runs on disk
//! that are merged. On a cluster somebody else sorts, and the steps are filters ([`filter`]).
//!
//! In the order in which a text passes them: `input.rs`, `feed.rs`, `json.rs` or `table.rs`, `clean.rs`, `sorter.rs`,
//! `sorted.rs`, `part.rs`, `tally.rs`, `segment.rs`, `frequent.rs`, `output.rs`, `output_queue.rs`; `journal.rs` knows
//! what is done.

mod clean;
mod collected;
mod eight;
mod encode;
mod feed;
pub mod filter;
mod frequent;
mod hdf5;
mod input;
mod journal;
mod json;
mod machine;
mod mapper;
mod mapping;
mod meter;
mod output;
mod output_queue;
mod part;
mod rating;
mod reduce;
mod rules;
mod segment;
mod shares;
mod sorted;
mod sorter;
mod stop;
mod table;
mod tally;
mod varint;

pub use clean::{Cleaner, Other};
pub use collected::Collector;
pub(crate) use input::input_files;
pub use journal::{Beginning, is_busy};
pub use machine::{BadLine, Preparation, PrepareReport};
pub use mapper::{MappedLine, Mapper};
pub use meter::Meter;
pub use output::Format;
pub use part::{Part, Split};
pub use rating::RatingScale;
pub use rules::{Counted, Rules};
pub use shares::{ChunkMapper, InputShare, RawChunk};
pub use stop::StopWords;

#[cfg(test)]
mod tests;
