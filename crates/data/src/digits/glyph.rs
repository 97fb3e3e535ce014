//! The ten digits as pen strokes, in a box of about -1 to 1, with x to the right and y downwards.

use bonfire_learn::random::Random;

/// One move of the pen.
#[derive(Clone, Copy, Debug)]
enum Mark {
    /// Lift the pen and set it down here.
    Move(f32, f32),
    /// A straight stroke to here.
    Line(f32, f32),
    /// A quadratic curve: drawn towards the first point, ending at the second.
    Curve(f32, f32, f32, f32),
}

use Mark::{Curve, Line, Move};

/// A straight piece of a stroke, from one point to another.
pub(super) type Segment = [[f32; 2]; 2];

/// Into how many straight pieces a curve is cut. At 28 pixels more pieces cannot be told from these.
const PIECES: usize = 4;

/// The ways to write each digit.
const GLYPHS: [&[&[Mark]]; 10] = [
    &[&[
        Move(0.0, -0.9),
        Curve(0.62, -0.85, 0.6, 0.0),
        Curve(0.58, 0.85, 0.0, 0.9),
        Curve(-0.58, 0.85, -0.6, 0.0),
        Curve(-0.62, -0.85, 0.0, -0.9),
    ]],
    &[
        &[Move(-0.3, -0.5), Line(0.1, -0.9), Line(0.1, 0.9)],
        &[Move(-0.3, -0.5), Line(0.05, -0.9), Line(0.05, 0.9), Move(-0.35, 0.9), Line(0.45, 0.9)],
        &[Move(0.05, -0.9), Line(0.0, 0.9)],
    ],
    &[
        &[
            Move(-0.5, -0.45),
            Curve(-0.45, -0.92, 0.0, -0.9),
            Curve(0.6, -0.88, 0.5, -0.35),
            Curve(0.4, 0.05, -0.55, 0.88),
            Line(0.6, 0.88),
        ],
        &[
            Move(-0.45, -0.6),
            Curve(0.1, -1.2, 0.45, -0.55),
            Curve(0.55, 0.0, -0.45, 0.75),
            Curve(-0.3, 0.45, 0.1, 0.8),
            Curve(0.35, 0.95, 0.6, 0.65),
        ],
    ],
    &[
        &[
            Move(-0.5, -0.7),
            Curve(0.4, -1.2, 0.45, -0.5),
            Curve(0.4, -0.05, -0.15, -0.05),
            Curve(0.6, 0.0, 0.52, 0.45),
            Curve(0.4, 1.1, -0.55, 0.7),
        ],
        &[
            Move(-0.5, -0.88),
            Line(0.48, -0.88),
            Line(-0.05, -0.15),
            Curve(0.6, -0.1, 0.5, 0.45),
            Curve(0.35, 1.1, -0.55, 0.7),
        ],
    ],
    &[
        &[Move(0.2, -0.9), Line(-0.58, 0.3), Line(0.6, 0.3), Move(0.25, -0.3), Line(0.25, 0.9)],
        &[Move(-0.45, -0.85), Line(-0.5, 0.1), Line(0.5, 0.1), Move(0.4, -0.85), Line(0.35, 0.9)],
        &[Move(0.25, 0.9), Line(0.25, -0.9), Line(-0.55, 0.35), Line(0.6, 0.35)],
    ],
    &[
        &[
            Move(0.5, -0.88),
            Line(-0.38, -0.88),
            Line(-0.45, -0.1),
            Curve(0.05, -0.4, 0.38, 0.0),
            Curve(0.65, 0.4, 0.3, 0.72),
            Curve(-0.05, 1.0, -0.55, 0.7),
        ],
        &[
            Move(-0.35, -0.88),
            Line(-0.4, -0.1),
            Curve(0.7, -0.3, 0.5, 0.45),
            Curve(0.3, 1.05, -0.55, 0.75),
            Move(-0.35, -0.88),
            Line(0.5, -0.92),
        ],
    ],
    &[&[
        Move(0.4, -0.85),
        Curve(-0.6, -0.6, -0.52, 0.35),
        Curve(-0.45, 0.95, 0.05, 0.9),
        Curve(0.55, 0.85, 0.5, 0.35),
        Curve(0.4, -0.1, -0.05, 0.0),
        Curve(-0.4, 0.1, -0.5, 0.45),
    ]],
    &[
        &[Move(-0.55, -0.88), Line(0.55, -0.88), Curve(0.05, 0.0, -0.15, 0.9)],
        &[Move(-0.55, -0.85), Line(0.55, -0.88), Line(-0.1, 0.9), Move(-0.3, 0.0), Line(0.5, 0.0)],
    ],
    &[&[
        Move(0.0, -0.05),
        Curve(-0.5, -0.2, -0.45, -0.5),
        Curve(-0.35, -0.95, 0.0, -0.9),
        Curve(0.4, -0.95, 0.45, -0.5),
        Curve(0.45, -0.2, 0.0, -0.05),
        Curve(-0.6, 0.1, -0.52, 0.5),
        Curve(-0.4, 0.95, 0.0, 0.9),
        Curve(0.45, 0.95, 0.52, 0.5),
        Curve(0.55, 0.1, 0.0, -0.05),
    ]],
    &[
        &[
            Move(0.45, -0.4),
            Curve(0.4, -0.95, 0.0, -0.9),
            Curve(-0.5, -0.85, -0.48, -0.4),
            Curve(-0.4, 0.1, 0.05, 0.0),
            Curve(0.45, -0.1, 0.48, -0.45),
            Curve(0.6, 0.6, -0.3, 0.88),
        ],
        &[
            Move(0.4, -0.55),
            Curve(0.1, -1.1, -0.35, -0.7),
            Curve(-0.7, -0.1, -0.1, 0.0),
            Curve(0.35, -0.1, 0.4, -0.6),
            Line(0.35, 0.9),
        ],
    ],
];

/// Writes one digit by hand: picks a way to write it, moves every point of it by up to `unrest`, and cuts the curves
/// into straight pieces, which it adds to `segments`.
pub(super) fn write(digit: usize, unrest: f32, random: &mut Random, segments: &mut Vec<Segment>) {
    let mut pen = [0.0, 0.0];
    for mark in *random.pick(GLYPHS[digit]) {
        let mut near =
            |x: f32, y: f32| [x + random.between(-unrest, unrest), y + random.between(-unrest, unrest)];
        match *mark {
            Move(x, y) => pen = near(x, y),
            Line(x, y) => {
                let end = near(x, y);
                segments.push([pen, end]);
                pen = end;
            }
            Curve(cx, cy, x, y) => {
                let (start, towards, end) = (pen, near(cx, cy), near(x, y));
                for piece in 1..=PIECES {
                    let next = on_curve(start, towards, end, piece as f32 / PIECES as f32);
                    segments.push([pen, next]);
                    pen = next;
                }
            }
        }
    }
}

/// The point of a quadratic curve at `t` from 0 to 1.
fn on_curve(start: [f32; 2], towards: [f32; 2], end: [f32; 2], t: f32) -> [f32; 2] {
    let blend = |axis: usize| {
        let (first, second) = (1.0 - t, t);
        first * first * start[axis] + 2.0 * first * second * towards[axis] + second * second * end[axis]
    };
    [blend(0), blend(1)]
}
