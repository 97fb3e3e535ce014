//! A configuration that has of everything in a run file one.

use std::collections::BTreeMap;
use std::num::NonZeroU8;

use serde::{Deserialize, Serialize};

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct SampleConfig {
    name: Option<String>,
    model: SampleModel,
    data: String,
    optimizer: SampleOptimizer,
    batch_size: u32,
    epochs: Option<u32>,
    num_server_rounds: Option<u64>,
    target_accuracy: f32,
    eval_every: SampleSpan,
    seed: u64,
    dynamic: i8,
    shuffle: bool,
    image: (u16, u16),
    threads: NonZeroU8,
    arch: SampleArch,
    parameter_server: SampleServer,
    global_server: SampleGlobalServer,
    compression: SampleCompression,
    notes: BTreeMap<String, f64>,
}

impl Default for SampleConfig {
    fn default() -> Self {
        Self {
            name: None,
            model: SampleModel::Lenet5,
            data: "digits".to_owned(),
            optimizer: SampleOptimizer::Adam(SampleAdam::default()),
            batch_size: 32,
            epochs: None,
            num_server_rounds: None,
            target_accuracy: 1.0,
            eval_every: SampleSpan("1 epoch".to_owned()),
            seed: 0,
            dynamic: -1,
            shuffle: true,
            image: (28, 28),
            threads: NonZeroU8::MIN,
            arch: SampleArch::Single,
            parameter_server: SampleServer::default(),
            global_server: SampleGlobalServer::default(),
            compression: SampleCompression::None,
            notes: BTreeMap::new(),
        }
    }
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SampleModel {
    Lenet5,
    Mlp { hidden: Vec<usize> },
    Sentiment(SampleRecurrent),
    Tagger(SampleRecurrent),
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SampleRecurrent {
    hidden: usize,
    cell: Option<String>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SampleOptimizer {
    Adam(SampleAdam),
    Sgd(SampleSgd),
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SampleAdam {
    lr: f32,
    eps: f64,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct SampleSgd {
    lr: f32,
    #[serde(default)]
    momentum: f32,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SampleArch {
    Single,
    Flat,
    Hierarchical,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SampleExchange {
    #[default]
    Sync,
    Async,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SampleServer {
    #[serde(alias = "type")]
    aggr_type: SampleExchange,
    num_workers: usize,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields)]
struct SampleGlobalServer {
    #[serde(alias = "type")]
    aggr_type: SampleExchange,
    local_servers: Vec<SampleServer>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
enum SampleCompression {
    None,
    TopK(f64),
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(try_from = "String")]
struct SampleSpan(String);

impl TryFrom<String> for SampleSpan {
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
