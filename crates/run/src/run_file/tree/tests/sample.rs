//! A configuration that has of everything in a run file one.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Config {
    name: Option<String>,
    model: Model,
    data: String,
    optimizer: Optimizer,
    batch_size: u32,
    epochs: Option<u32>,
    num_server_rounds: Option<u64>,
    target_accuracy: f32,
    eval_every: Span,
    seed: u64,
    dynamic: i8,
    shuffle: bool,
    image: (u16, u16),
    threads: NonZeroU8,
    arch: Arch,
    parameter_server: Server,
    global_server: GlobalServer,
    compression: Compression,
    notes: BTreeMap<String, f64>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            name: None,
            model: Model::Lenet5,
            data: "digits".to_owned(),
            optimizer: Optimizer::Adam(Adam::default()),
            batch_size: 32,
            epochs: None,
            num_server_rounds: None,
            target_accuracy: 1.0,
            eval_every: Span("1 epoch".to_owned()),
            seed: 0,
            dynamic: -1,
            shuffle: true,
            image: (28, 28),
            threads: NonZeroU8::MIN,
            arch: Arch::Single,
            parameter_server: Server::default(),
            global_server: GlobalServer::default(),
            compression: Compression::None,
            notes: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Model {
    Lenet5,
    Mlp { hidden: Vec<usize> },
    Sentiment(Recurrent),
    Tagger(Recurrent),
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Recurrent {
    hidden: usize,
    cell: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Optimizer {
    Adam(Adam),
    Sgd(Sgd),
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Adam {
    lr: f32,
    eps: f64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Sgd {
    lr: f32,
    #[serde(default)]
    momentum: f32,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Arch {
    Single,
    Flat,
    Hierarchical,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Exchange {
    #[default]
    Sync,
    Async,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct Server {
    #[serde(alias = "type")]
    aggr_type: Exchange,
    num_workers: usize,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct GlobalServer {
    #[serde(alias = "type")]
    aggr_type: Exchange,
    local_servers: Vec<Server>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum Compression {
    None,
    TopK(f64),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(try_from = "String")]
struct Span(String);

impl TryFrom<String> for Span {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        match text.split_once(' ') {
            Some((count, "rounds" | "round" | "epochs" | "epoch")) if count.parse::<u32>().is_ok() => {
                Ok(Self(text))
            }
            _ => Err(format!("expected a span such as `50 rounds` or `1 epoch`, found `{text}`")),
        }
    }
}
