//! The one query: read and clean, bring equal texts together, sort, count.
//!
//! Its lines are those of the filter `map`: a text, a tab and its rating. A tab is smaller than all letters of a text,
//! so lines sort as texts do. What became of a chunk of input is a line, too, which begins with a tab.

mod codec;
mod read;

pub(crate) use codec::ReviewsCodec;

use std::sync::Arc;

use bonfire_data::prepare::{InputShare, Rules};
use datafusion::common::Result;
use datafusion::functions_aggregate::count::count_udaf;
use datafusion::physical_expr::aggregate::AggregateExprBuilder;
use datafusion::physical_expr::expressions::{col, lit};
use datafusion::physical_expr::{LexOrdering, Partitioning, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode, PhysicalGroupBy};
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::sorts::sort::SortExec;

use read::ReadExec;

/// The column of lines.
const LINE: &str = "line";
/// The column that says how often there is a line.
const COUNT: &str = "count";

/// Every line with its count, in so many pieces, each of which is sorted.
pub(crate) fn query(rules: Rules, shares: &[InputShare], pieces: usize) -> Result<Arc<dyn ExecutionPlan>> {
    let lines: Arc<dyn ExecutionPlan> = Arc::new(ReadExec::new(rules, read::table(shares)?));
    let schema = lines.schema();
    let line = col(LINE, &schema)?;
    let met = RepartitionExec::try_new(lines, Partitioning::Hash(vec![Arc::clone(&line)], pieces))?;
    let order = LexOrdering::from([PhysicalSortExpr::new_default(Arc::clone(&line))]);
    let sorted = SortExec::new(order, Arc::new(met)).with_preserve_partitioning(true);
    let count =
        AggregateExprBuilder::new(count_udaf(), vec![lit(1_i64)]).schema(Arc::clone(&schema)).alias(COUNT);
    let reduced = AggregateExec::try_new(
        AggregateMode::SinglePartitioned,
        PhysicalGroupBy::new_single(vec![(line, LINE.to_owned())]),
        vec![Arc::new(count.build()?)],
        vec![None],
        Arc::new(sorted),
        schema,
    )?;
    Ok(Arc::new(reduced))
}
