//! YAML as a tree in which every key and value knows where it was given.
//!
//! The way of a setting: [`Tree::parse`] reads the file (`load.rs`), [`Tree::set`] lays `--set` over it
//! (`set.rs`), [`Tree::read`] turns the tree into ordinary structs (`read.rs`), and whatever is wrong on that
//! way is a [`YamlError`] (`error.rs`). [`to_yaml`] writes the resolved configuration (`emit.rs`).

mod emit;
mod error;
mod load;
mod node;
mod read;
mod set;
#[cfg(test)]
mod tests;
mod tree;

pub use emit::to_yaml;
pub use error::YamlError;
pub use tree::Tree;
