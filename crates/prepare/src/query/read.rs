//! Reads shares of the input and maps their chunks to lines.
//!
//! Which shares these are is a table, a row a share: Ballista gives each task some partitions of a table, which it
//! could not do with an operator that it does not know.

use std::fmt;
use std::sync::Arc;

use bonfire_data::prepare::{ChunkMapper, InputShare, Rules};
use datafusion::arrow::array::{ArrayBuilder, ArrayRef, AsArray, RecordBatch, StringArray, StringBuilder};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::datasource::memory::MemorySourceConfig;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchReceiverStreamBuilder;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan, PlanProperties};

use futures::StreamExt;

use super::LINE;

/// The column of shares.
const SHARE: &str = "share";

/// So many lines are handed on at once.
const BATCH_LINES: usize = 4096;
/// Or lines of so many bytes.
const BATCH_BYTES: usize = 1 << 20;
/// So many batches wait for whoever takes them.
const BATCHES_AHEAD: usize = 2;

/// The lines of shares.
#[derive(Debug)]
pub(super) struct ReadExec {
    pub(super) rules: Rules,
    shares: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl ReadExec {
    /// Of a table of shares.
    pub(super) fn new(rules: Rules, shares: Arc<dyn ExecutionPlan>) -> Self {
        let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new(LINE, DataType::Utf8, false)]));
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema),
            Partitioning::UnknownPartitioning(shares.properties().output_partitioning().partition_count()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self { rules, shares, properties: Arc::new(properties) }
    }
}

/// A table of shares, a partition each.
pub(super) fn table(shares: &[InputShare]) -> Result<Arc<dyn ExecutionPlan>> {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new(SHARE, DataType::Utf8, false)]));
    let partition = |share: &InputShare| {
        let share = serde_json::to_string(share).map_err(|error| DataFusionError::External(error.into()))?;
        let column: ArrayRef = Arc::new(StringArray::from(vec![share]));
        Ok(vec![RecordBatch::try_new(Arc::clone(&schema), vec![column])?])
    };
    let partitions = shares.iter().map(partition).collect::<Result<Vec<_>>>()?;
    Ok(MemorySourceConfig::try_new_exec(&partitions, schema, None)?)
}

/// The shares of some rows.
fn shares_of(rows: &RecordBatch) -> Result<Vec<InputShare>> {
    let strange = || DataFusionError::Internal("shares of the input are expected".to_owned());
    let rows = rows.column(0).as_string_opt::<i32>().ok_or_else(strange)?;
    rows.iter().map(|row| serde_json::from_str(row.unwrap_or_default()).map_err(|_| strange())).collect()
}

impl DisplayAs for ReadExec {
    fn fmt_as(&self, _: DisplayFormatType, form: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(form, "ReadExec")
    }
}

impl ExecutionPlan for ReadExec {
    fn name(&self) -> &str {
        "ReadExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.shares]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match <[_; 1]>::try_from(children) {
            Ok([shares]) => Ok(Arc::new(Self::new(self.rules.clone(), shares))),
            Err(_) => Err(DataFusionError::Internal("lines are read from one table of shares".to_owned())),
        }
    }

    fn execute(&self, partition: usize, context: Arc<TaskContext>) -> Result<SendableRecordBatchStream> {
        let mut rows = self.shares.execute(partition, context)?;
        let (rules, schema) = (self.rules.clone(), self.schema());
        let mut builder = RecordBatchReceiverStreamBuilder::new(Arc::clone(&schema), BATCHES_AHEAD);
        let sender = builder.tx();
        builder.spawn_blocking(move || {
            let send = |lines: ArrayRef| {
                let batch = RecordBatch::try_new(Arc::clone(&schema), vec![lines])?;
                // Nobody takes them any more when the task is over.
                Ok(sender.blocking_send(Ok(batch)).is_ok())
            };
            while let Some(rows) = futures::executor::block_on(rows.next()) {
                for share in shares_of(&rows?)? {
                    read(&rules, &share, &send)?;
                }
            }
            Ok(())
        });
        Ok(builder.build())
    }
}

/// Gives the lines of a share to `send`, until it wants no more.
fn read(rules: &Rules, share: &InputShare, send: &dyn Fn(ArrayRef) -> Result<bool>) -> Result<()> {
    let mut mapper = ChunkMapper::new(rules).map_err(wrong)?;
    let mut lines = StringBuilder::new();
    let mut outcome = Ok(true);
    let send_if = |lines: &mut StringBuilder, least: usize, outcome: &mut Result<bool>| {
        let is_full = lines.len() >= least || lines.values_slice().len() >= BATCH_BYTES;
        if is_full && matches!(outcome, Ok(true)) {
            *outcome = send(Arc::new(StringBuilder::finish(lines)));
        }
    };
    let read = share.read(rules, |chunk| {
        let mapped = mapper.map(&chunk, |line| {
            lines.append_value(line);
            send_if(&mut lines, BATCH_LINES, &mut outcome);
        });
        if let Err(error) = mapped {
            outcome = Err(wrong(error));
        }
        matches!(outcome, Ok(true))
    });
    read.map_err(wrong)?;
    if !lines.is_empty() {
        send_if(&mut lines, 1, &mut outcome);
    }
    outcome.map(|_| ())
}

/// What is wrong with the input is so everywhere: no other executor is asked to try.
fn wrong(error: bonfire_data::Error) -> DataFusionError {
    DataFusionError::Execution(format!("on {}: {error}", host_name()))
}

fn host_name() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    if name.trim().is_empty() { "an executor".to_owned() } else { name.trim().to_owned() }
}
