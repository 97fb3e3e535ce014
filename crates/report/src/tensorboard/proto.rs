//! The messages of TensorBoard's files, as far as they are written here. Names and numbers of fields are those of
//! TensorFlow's `event.proto`, `summary.proto`, `graph.proto` and of the plugin `hparams`.

use std::collections::HashMap;

use prost::{Enumeration, Message, Oneof};

#[derive(Clone, PartialEq, Message)]
pub(crate) struct FileEvent {
    #[prost(double, tag = "1")]
    pub wall_time: f64,
    #[prost(int64, tag = "2")]
    pub step: i64,
    #[prost(oneof = "What", tags = "3, 4, 5, 7")]
    pub what: Option<What>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    /// A `GraphDef`, encoded.
    #[prost(bytes, tag = "4")]
    Graph(Vec<u8>),
    #[prost(message, tag = "5")]
    Summary(SummaryValues),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionLog {
    #[prost(enumeration = "SessionStatus", tag = "1")]
    pub status: i32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Enumeration)]
#[repr(i32)]
pub(crate) enum SessionStatus {
    Unspecified = 0,
    Start = 1,
}

/// TensorFlow's `Summary`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SummaryValues {
    #[prost(message, repeated, tag = "1")]
    pub values: Vec<Value>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Value {
    #[prost(string, tag = "1")]
    pub tag: String,
    #[prost(float, optional, tag = "2")]
    pub simple_value: Option<f32>,
    #[prost(message, optional, tag = "5")]
    pub histogram: Option<HistogramProto>,
    #[prost(message, optional, tag = "9")]
    pub metadata: Option<Metadata>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HistogramProto {
    #[prost(double, tag = "1")]
    pub min: f64,
    #[prost(double, tag = "2")]
    pub max: f64,
    #[prost(double, tag = "3")]
    pub num: f64,
    #[prost(double, tag = "4")]
    pub sum: f64,
    #[prost(double, tag = "5")]
    pub sum_squares: f64,
    #[prost(double, repeated, tag = "6")]
    pub bucket_limit: Vec<f64>,
    #[prost(double, repeated, tag = "7")]
    pub bucket: Vec<f64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Metadata {
    #[prost(message, optional, tag = "1")]
    pub plugin: Option<Plugin>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Plugin {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(bytes = "vec", tag = "2")]
    pub content: Vec<u8>,
}

/// What the plugin `hparams` keeps in its content.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct HparamsContent {
    #[prost(message, optional, tag = "2")]
    pub experiment: Option<Experiment>,
    #[prost(message, optional, tag = "3")]
    pub session_start: Option<SessionStart>,
    #[prost(message, optional, tag = "4")]
    pub session_end: Option<SessionEnd>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Experiment {
    #[prost(double, tag = "3")]
    pub time_created_s: f64,
    #[prost(message, repeated, tag = "4")]
    pub hparams: Vec<HparamInfo>,
    #[prost(message, repeated, tag = "5")]
    pub metrics: Vec<MetricInfo>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct HparamInfo {
    #[prost(string, tag = "1")]
    pub name: String,
    /// 1 a string, 2 a truth value, 3 a number.
    #[prost(int32, tag = "4")]
    pub kind: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricInfo {
    #[prost(message, optional, tag = "1")]
    pub name: Option<MetricName>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct MetricName {
    #[prost(string, tag = "2")]
    pub tag: String,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionStart {
    #[prost(map = "string, message", tag = "1")]
    pub hparams: HashMap<String, AnyValue>,
    #[prost(double, tag = "5")]
    pub start_time_s: f64,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct SessionEnd {
    /// 1 success, 2 failure.
    #[prost(int32, tag = "1")]
    pub status: i32,
    #[prost(double, tag = "2")]
    pub end_time_s: f64,
}

/// `google.protobuf.Value`.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AnyValue {
    #[prost(oneof = "AnyKind", tags = "2, 3, 4")]
    pub kind: Option<AnyKind>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(crate) enum AnyKind {
    #[prost(double, tag = "2")]
    Number(f64),
    #[prost(string, tag = "3")]
    Text(String),
    #[prost(bool, tag = "4")]
    Truth(bool),
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphDef {
    #[prost(message, repeated, tag = "1")]
    pub nodes: Vec<NodeDef>,
    #[prost(message, optional, tag = "4")]
    pub versions: Option<VersionDef>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct VersionDef {
    #[prost(int32, tag = "1")]
    pub producer: i32,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeDef {
    #[prost(string, tag = "1")]
    pub name: String,
    #[prost(string, tag = "2")]
    pub op: String,
    #[prost(string, repeated, tag = "3")]
    pub inputs: Vec<String>,
    #[prost(string, tag = "4")]
    pub device: String,
    #[prost(map = "string, message", tag = "5")]
    pub attributes: HashMap<String, AttributeValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeValue {
    #[prost(message, optional, tag = "1")]
    pub list: Option<ShapeList>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct ShapeList {
    #[prost(message, repeated, tag = "7")]
    pub shapes: Vec<TensorShape>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShape {
    #[prost(message, repeated, tag = "2")]
    pub dimensions: Vec<Dimension>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Dimension {
    /// -1 is unknown.
    #[prost(int64, tag = "1")]
    pub size: i64,
}
