//! One reader for every YAML file: settings that people write, and lists of hosts that they already have.
//!
//! A text becomes a tree in which every key and value knows its line, so that an error names the line also when it is
//! found long after reading. Depth, aliases and keys have limits, a key that is given twice is refused, and an unknown
//! key or choice comes with the one that was probably meant.
//!
//! Reading order:
//!
//! 1. `node`: the tree: [`YamlNode`], [`YamlEntry`], [`YamlPlace`];
//! 2. `load`: from text to tree, in one of two dialects: [`load()`];
//! 3. `tree`: a file of settings: [`Tree`];
//! 4. `set` and `key_path`: `--set key.path=value`, laid over it;
//! 5. `read`: from tree to types, by serde;
//! 6. `error` and `complaint`: what is wrong, in words that say what to do;
//! 7. `emit`: from types to YAML: [`to_yaml`].
//!
//! # Example
//!
//! ```
//! use bonfire_yaml::{Tree, YamlError, to_yaml};
//! use serde::{Deserialize, Serialize};
//!
//! #[derive(Deserialize, Serialize)]
//! #[serde(deny_unknown_fields)]
//! struct Oven {
//!     degrees: u32,
//!     minutes: u32,
//! }
//!
//! let mut tree = Tree::parse("oven.yml", "degrees: 180\nminutes: 25\n")?;
//! tree.set("minutes=30", &[])?;
//! let oven: Oven = tree.read()?;
//! assert_eq!(to_yaml(&oven)?, "degrees: 180\nminutes: 30\n");
//!
//! // What shows only after reading still knows its place.
//! assert_eq!(tree.wrong("degrees", "too hot").to_string(), "oven.yml:1: degrees: too hot");
//!
//! let wrong = Tree::parse("oven.yml", "degrees: 180\nminuts: 25\n")?.read::<Oven>().err();
//! let words = wrong.map(|wrong| wrong.to_string()).unwrap_or_default();
//! assert_eq!(words, "oven.yml:2: unknown key `minuts`; did you mean `minutes`?");
//! # Ok::<(), YamlError>(())
//! ```

mod complaint;
mod emit;
mod error;
mod key_path;
mod load;
mod node;
mod read;
mod set;
#[cfg(test)]
mod tests;
mod tree;

pub use emit::to_yaml;
pub use error::YamlError;
pub use load::{Dialect, LoadError, LoadFault, load};
pub use node::{ScalarForm, YamlData, YamlEntry, YamlNode, YamlPlace, YamlScalar};
pub use tree::Tree;
