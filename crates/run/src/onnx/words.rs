//! Layers over the words of texts, which end at different places.

use bonfire_learn::layers::{Cell, Stack};

use super::INT64;
use super::graph::{Graph, int, ints, string};

/// How many words every text has, as numbers of 64 bits and as those that recurrent nodes want.
const LENGTHS: &str = "const/lengths";
const SHORT_LENGTHS: &str = "const/short_lengths";

const INT32: usize = 6;

impl Graph<'_> {
    /// Counts the words of every text: what is not padding.
    pub(super) fn find_lengths(&mut self, words: &str) {
        let padding = self.whole("const/padding", &[0]);
        let axis = self.whole("const/axis", &[1]);
        let is_padding = self.node("Equal", &[words, &padding], "const/is_padding", Vec::new());
        let is_word = self.node("Not", &[&is_padding], "const/is_word", Vec::new());
        let as_number = vec![int("to", INT64 as usize)];
        let counts = self.node("Cast", &[&is_word], "const/counts", as_number);
        self.node("ReduceSum", &[&counts, &axis], LENGTHS, vec![int("keepdims", 0)]);
        self.node("Cast", &[LENGTHS], SHORT_LENGTHS, vec![int("to", INT32)]);
    }

    /// A stack of recurrent layers. PyTorch and ONNX have the gates in different orders.
    pub(super) fn recurrent(&mut self, name: &str, stack: &Stack, x: String) -> Result<String, String> {
        let (op, gates): (_, &[usize]) = match stack.cell {
            // r, z, n in PyTorch; z, r, h here.
            Cell::Gru => ("GRU", &[1, 0, 2]),
            // i, f, g, o in PyTorch; i, o, f, c here.
            Cell::Lstm => ("LSTM", &[0, 3, 1, 2]),
        };
        let directions: &[&str] = if stack.bidirectional { &["", "_reverse"] } else { &[""] };
        let mut x = self.node("Transpose", &[&x], &format!("{name}/by_time"), vec![ints("perm", &[1, 0, 2])]);
        for layer in 0..stack.layers {
            let mut weights = Vec::new();
            for part in ["weight_ih", "weight_hh", "bias"] {
                weights.push(self.gates(name, layer, part, directions, gates, stack.hidden)?);
            }
            let mut inputs = vec![x.as_str(), &weights[0], &weights[1], &weights[2]];
            // In one direction, what follows the end of a text changes nothing before it.
            inputs.extend(stack.bidirectional.then_some(SHORT_LENGTHS));
            let direction = if stack.bidirectional { "bidirectional" } else { "forward" };
            let mut attributes = vec![int("hidden_size", stack.hidden), string("direction", direction)];
            if stack.cell == Cell::Gru {
                attributes.push(int("linear_before_reset", 1));
            }
            let place = format!("{name}/layer{layer}");
            let states = self.node(op, &inputs, &format!("{place}/states"), attributes);
            // (T, directions, B, H) becomes (T, B, directions · H).
            let order = vec![ints("perm", &[0, 2, 1, 3])];
            let turned = self.node("Transpose", &[&states], &format!("{place}/turned"), order);
            let shape = self.whole("const/rows_of_words", &[0, 0, -1]);
            x = self.node("Reshape", &[&turned, &shape], &place, Vec::new());
        }
        Ok(self.node("Transpose", &[&x], &format!("{name}/out"), vec![ints("perm", &[1, 0, 2])]))
    }

    /// The weights of one layer in all directions, `(directions, gates · hidden, …)`, or its biases, both in a row.
    fn gates(
        &mut self,
        name: &str,
        layer: usize,
        part: &str,
        directions: &[&str],
        gates: &[usize],
        hidden: usize,
    ) -> Result<String, String> {
        let (mut values, mut width) = (Vec::new(), 1);
        for direction in directions {
            let parts: &[&str] = if part == "bias" { &["bias_ih", "bias_hh"] } else { &[part] };
            for part in parts {
                let tensor = format!("{name}.{part}_l{layer}{direction}");
                let (shape, found) = self.weight(&tensor).ok_or_else(|| format!("there is no {tensor}"))?;
                width = shape.get(1).copied().unwrap_or(1);
                for gate in gates {
                    values.extend(&found[gate * hidden * width..(gate + 1) * hidden * width]);
                }
            }
        }
        let dims: &[usize] = match part {
            "bias" => &[directions.len(), 2 * gates.len() * hidden],
            _ => &[directions.len(), gates.len() * hidden, width],
        };
        Ok(self.floats(&format!("{name}.{part}_l{layer}"), dims, &values))
    }

    /// The features of every text's last word.
    pub(super) fn last_word(&mut self, x: &str, output: &str) -> String {
        let (one, axis) = (self.whole("const/one_word", &[1]), self.whole("const/axis", &[1]));
        let last = self.node("Sub", &[LENGTHS, &one], &format!("{output}/last"), Vec::new());
        let place = self.node("Unsqueeze", &[&last, &axis], &format!("{output}/place"), Vec::new());
        self.node("GatherND", &[x, &place], output, vec![int("batch_dims", 1)])
    }

    /// The features behind the padding.
    pub(super) fn last_step(&mut self, x: &str, output: &str) -> String {
        let (last, axis) = (self.whole("const/last_step", &[-1]), self.whole("const/axis", &[1]));
        let step = self.node("Gather", &[x, &last], &format!("{output}/step"), vec![int("axis", 1)]);
        self.node("Squeeze", &[&step, &axis], output, Vec::new())
    }
}
