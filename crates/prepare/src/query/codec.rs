//! The query on its way from machine to machine.

use std::sync::Arc;

use ballista_core::serde::BallistaPhysicalExtensionCodec;
use bonfire_data::prepare::Rules;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{PhysicalExtensionCodec, PhysicalProtoConverterExtension};

use super::read::ReadExec;

/// What a [`ReadExec`] begins with, which nothing of Ballista's own does: there a message begins with the number of a
/// field.
const MARK: &[u8] = b"\0reviews";

/// Writes and reads [`ReadExec`]; everything else is Ballista's.
#[derive(Debug, Default)]
pub(crate) struct ReviewsCodec {
    other: BallistaPhysicalExtensionCodec,
}

impl PhysicalExtensionCodec for ReviewsCodec {
    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let Some(message) = bytes.strip_prefix(MARK) else {
            return self.other.try_decode(bytes, inputs, context, converter);
        };
        let rules: Rules = serde_json::from_slice(message).map_err(|error| strange(&error.to_string()))?;
        let [shares] = inputs else { return Err(strange("a table of shares is missing")) };
        Ok(Arc::new(ReadExec::new(rules, Arc::clone(shares))))
    }

    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        bytes: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let Some(read) = node.downcast_ref::<ReadExec>() else {
            return self.other.try_encode(node, bytes, converter);
        };
        bytes.extend_from_slice(MARK);
        serde_json::to_writer(bytes, &read.rules).map_err(|error| strange(&error.to_string()))
    }
}

fn strange(reason: &str) -> DataFusionError {
    DataFusionError::Internal(format!("a query of another version: {reason}"))
}
