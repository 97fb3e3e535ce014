use std::path::PathBuf;

use anyhow::Result;
use bonfire_learn::layer_list::{Flow, LayerKind, LayerPlan, PlannedLayer, PlannedShortcut, pytorch};
use bonfire_report::number;
use bonfire_run::job;

use crate::Training;
use crate::terminal::print;

/// Show the layers of the model of a run file: what comes out of each, and what it takes.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Shapes are PyTorch's, without the batch. FLOPs are those of the forward pass of a sample, or \
                        of a word of a text: two for every product that is added to a sum.\n\n\
                        Examples:\n  bonfire model run.yml\n  \
                        bonfire model --set model=resnet20 --set data=cifar-10\n  \
                        bonfire model run.yml --pytorch > model.py"
)]
pub(crate) struct ModelArgs {
    /// The run file (YAML) [default: lenet5 on digits]
    run_file: Option<PathBuf>,
    /// Change a key of the run file; may be given several times
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Print the same model as a module of PyTorch, whose weights have the same names
    #[arg(long)]
    pytorch: bool,
}

pub(crate) fn run(args: &ModelArgs) -> Result<()> {
    let mut training = match &args.run_file {
        Some(path) => Training::of_file(path)?,
        None => Training::of(""),
    };
    for assignment in &args.set {
        training = training.set(assignment);
    }
    let settings = training.settings()?;
    let plan = job::plan(&settings)?;
    if args.pytorch {
        return print(pytorch::module(&plan).trim_end());
    }
    print(&format!("{}\n{}", settings.file.name, table(&plan).join("\n")))
}

/// One row of the table: the name, the layer, what comes out, parameters, operations.
type Row = [String; 5];

fn table(plan: &LayerPlan) -> Vec<String> {
    let heading = ["name", "layer", "output", "parameters", "FLOPs"].map(str::to_owned);
    let input = Flow::of(&plan.shape).to_string();
    let mut rows = vec![heading, [String::new(), "input".to_owned(), input, String::new(), String::new()]];
    plan.layers.iter().for_each(|layer| add_rows(layer, 0, &mut rows));
    rows.push([
        String::new(),
        "total".to_owned(),
        plan.output().to_string(),
        number::count(plan.parameters() as u64),
        number::count(plan.flops() as u64),
    ]);
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 5] = std::array::from_fn(width);
    let line = |row: &Row| {
        let [name, layer, output, parameters, flops] = row;
        let [a, b, c, d, e] = widths;
        format!("{name:a$}  {layer:b$}  {output:c$}  {parameters:>d$}  {flops:>e$}").trim_end().to_owned()
    };
    rows.iter().map(line).collect()
}

fn add_rows(layer: &PlannedLayer, depth: usize, rows: &mut Vec<Row>) {
    let count = |number: usize| if number == 0 { String::new() } else { number::count(number as u64) };
    rows.push([
        layer.name.clone(),
        format!("{}{}", "  ".repeat(depth), in_words(layer)),
        layer.output.to_string(),
        count(layer.parameters()),
        count(layer.flops()),
    ]);
    layer.parts().for_each(|part| add_rows(part, depth + 1, rows));
}

/// A layer with those of its options that are not the usual ones.
fn in_words(layer: &PlannedLayer) -> String {
    let key = layer.key;
    match &layer.kind {
        LayerKind::Conv2d { kernel, stride, padding, .. } => {
            let stride = if *stride > 1 { format!(" stride {stride}") } else { String::new() };
            let padding = if *padding > 0 { format!(" padding {padding}") } else { String::new() };
            format!("{key} {kernel}×{kernel}{stride}{padding}")
        }
        LayerKind::MaxPool2d(window) | LayerKind::AvgPool2d(window) => {
            let (kernel, stride) = (window.kernel, window.stride);
            let stride = if stride == kernel { String::new() } else { format!(" stride {stride}") };
            format!("{key} {kernel}×{kernel}{stride}")
        }
        LayerKind::Dropout(rate) => format!("{key} {rate}"),
        LayerKind::Recurrent { stack, .. } => {
            let layers = if stack.layers > 1 { format!(" × {}", stack.layers) } else { String::new() };
            let both = if stack.bidirectional { " both ways" } else { "" };
            format!("{key}{layers}{both}")
        }
        LayerKind::Residual { shortcut: PlannedShortcut::Subsample(_), .. } => format!("{key}, subsampled"),
        LayerKind::Residual { shortcut: PlannedShortcut::Layers(_), .. } => format!("{key}, projected"),
        _ => key.to_owned(),
    }
}
