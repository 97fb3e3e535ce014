//! Adasum: gradients that point the same way are averaged, and those at right angles are added.

/// Combines gradients so that those that point the same way are averaged, and those at right angles are added: `(1 -
/// a·b / 2|a|²) a + (1 - a·b / 2|b|²) b`, in pairs, then pairs of pairs; an odd one waits for the next turn. Each has
/// the vectors of one tensor; the result is left in the first.
pub(crate) fn adasum(vectors: &mut Vec<Vec<f32>>) {
    while vectors.len() > 1 {
        let mut pairs = std::mem::take(vectors).into_iter();
        while let Some(mut a) = pairs.next() {
            if let Some(b) = pairs.next() {
                combine(&mut a, &b);
            }
            vectors.push(a);
        }
    }
}

fn combine(a: &mut [f32], b: &[f32]) {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let (ab, aa, bb) = (dot(a, b), dot(a, a), dot(b, b));
    // A vector of nothing adds nothing, and takes nothing from the other.
    let share = |square: f64| if square > 0.0 { (1.0 - ab / (2.0 * square)) as f32 } else { 1.0 };
    let (of_a, of_b) = (share(aa), share(bb));
    for (a, b) in a.iter_mut().zip(b) {
        *a = of_a * *a + of_b * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adasum_averages_what_is_parallel_and_adds_what_is_not() {
        let check = |vectors: &[[f32; 2]], expect: [f32; 2]| {
            let mut vectors: Vec<Vec<f32>> = vectors.iter().map(|vector| vector.to_vec()).collect();
            adasum(&mut vectors);
            let found = &vectors[0];
            assert!(
                found.iter().zip(expect).all(|(found, expect)| (found - expect).abs() < 1e-6),
                "{found:?}"
            );
        };
        check(&[[2.0, 4.0]], [2.0, 4.0]);
        check(&[[2.0, 4.0], [2.0, 4.0]], [2.0, 4.0]);
        check(&[[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]);
        check(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]);
        check(&[[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]], [1.0, 2.0]);
        // Opposite ones of the same length: each is one and a half times as large.
        check(&[[2.0, 0.0], [-2.0, 0.0]], [0.0, 0.0]);
    }
}
