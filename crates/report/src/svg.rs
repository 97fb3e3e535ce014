//! A line chart as SVG: for papers, so black on white, with lines that also differ where there is no colour.

use std::fmt::Write as _;

/// A chart of a few curves.
#[derive(Debug)]
pub(crate) struct LineChart {
    pub x: String,
    pub y: String,
    pub curves: Vec<Curve>,
}

#[derive(Debug)]
pub(crate) struct Curve {
    pub label: String,
    pub points: Vec<(f64, f64)>,
    pub has_dots: bool,
}

/// Okabe and Ito's, which the colour-blind can tell apart.
const COLOURS: [&str; 7] = ["#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#555555"];
const DASHES: [&str; 3] = ["", "6 3", "2 2"];

const WIDTH: f64 = 560.0;
const PLOT: f64 = 260.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 14.0;
const LINE: f64 = 17.0;

/// No printer shows more points than these on a line.
const MOST_POINTS: usize = 2000;

/// From where to where an axis goes, and its ticks.
struct Axis {
    low: f64,
    high: f64,
    ticks: Vec<f64>,
}

impl Axis {
    fn around(values: impl Iterator<Item = f64> + Clone, from_zero: bool) -> Self {
        let low = values.clone().fold(f64::INFINITY, f64::min);
        let high = values.fold(f64::NEG_INFINITY, f64::max);
        let (low, high) = if low <= high { (low, high) } else { (0.0, 1.0) };
        let low = if from_zero && low > 0.0 { 0.0 } else { low };
        let high = if high > low { high } else { low + 1.0 };
        let step = step((high - low) / 5.0);
        let (first, last) = ((low / step).floor(), (high / step).ceil());
        let ticks: Vec<f64> = (0..=(last - first) as usize).map(|i| (first + i as f64) * step).collect();
        Self { low: first * step, high: last * step, ticks }
    }

    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }
}

/// A round number about as large.
fn step(about: f64) -> f64 {
    let power = 10_f64.powf(about.log10().floor());
    [1.0, 2.0, 5.0, 10.0].into_iter().map(|digit| digit * power).find(|step| *step >= about).unwrap_or(power)
}

impl LineChart {
    pub(crate) fn to_svg(&self) -> String {
        let curves: Vec<&Curve> = self.curves.iter().filter(|curve| !curve.points.is_empty()).collect();
        let points = curves.iter().flat_map(|curve| &curve.points);
        let (x, y) = (
            Axis::around(points.clone().map(|(x, _)| *x), true),
            Axis::around(points.map(|(_, y)| *y), true),
        );
        let height = TOP + PLOT + 44.0 + LINE * curves.len() as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" \
             height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
        );
        self.axes(&mut svg, &x, &y);
        for (i, curve) in curves.iter().enumerate() {
            let (colour, dash) = (COLOURS[i % COLOURS.len()], DASHES[i / COLOURS.len() % DASHES.len()]);
            let line =
                format!("fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\"");
            let every = curve.points.len().div_ceil(MOST_POINTS).max(1);
            let places = curve.points.iter().step_by(every).map(|point| place(&x, &y, *point));
            let path: Vec<String> = places.clone().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(svg, "<polyline points=\"{}\" {line}/>", path.join(" "));
            for (x, y) in places.filter(|_| curve.has_dots) {
                let _ = writeln!(svg, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.6\" fill=\"{colour}\"/>");
            }
            let row = TOP + PLOT + 44.0 + LINE * i as f64;
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{row}\" y2=\"{row}\" {line}/><text x=\"{}\" y=\"{}\">{}</text>",
                LEFT + 26.0,
                LEFT + 34.0,
                row + 4.0,
                escaped(&curve.label)
            );
        }
        svg + "</svg>\n"
    }

    fn axes(&self, svg: &mut String, x: &Axis, y: &Axis) {
        let (bottom, right) = (TOP + PLOT, WIDTH - RIGHT);
        for &tick in &y.ticks {
            let (_, at) = place(x, y, (x.low, tick));
            let _ = writeln!(
                svg,
                "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#dddddd\"/>\
                 <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
                LEFT - 6.0,
                at + 4.0,
                figure(tick)
            );
        }
        for &tick in &x.ticks {
            let (at, _) = place(x, y, (tick, y.low));
            let _ = writeln!(
                svg,
                "<text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
                bottom + 16.0,
                figure(tick)
            );
        }
        let _ = writeln!(
            svg,
            "<line x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\" stroke=\"black\"/>\
             <text x=\"{right}\" y=\"{}\" text-anchor=\"end\" font-style=\"italic\">{}</text>\
             <text x=\"14\" y=\"{}\" transform=\"rotate(-90 14 {})\" text-anchor=\"middle\">{}</text>",
            bottom + 32.0,
            escaped(&self.x),
            TOP + PLOT / 2.0,
            TOP + PLOT / 2.0,
            escaped(&self.y)
        );
    }
}

fn place(x: &Axis, y: &Axis, (px, py): (f64, f64)) -> (f64, f64) {
    (LEFT + x.share(px) * (WIDTH - LEFT - RIGHT), TOP + (1.0 - y.share(py)) * PLOT)
}

/// As short as a tick may be.
fn figure(tick: f64) -> String {
    if tick.abs() >= 1e4 {
        return format!("{}k", tick.round() / 1e3);
    }
    format!("{}", (tick * 1e6).round() / 1e6)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_around_all() {
        let check = |values: &[f64], expect: &[f64]| {
            let axis = Axis::around(values.iter().copied(), true);
            assert_eq!(axis.ticks.iter().map(|tick| (tick * 1e6).round() / 1e6).collect::<Vec<_>>(), expect);
        };
        check(&[1.0, 4.0], &[0.0, 1.0, 2.0, 3.0, 4.0]);
        check(&[0.03, 0.97], &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(&[], &[0.0, 0.2, 0.4, 0.6, 0.8, 1.0]);
        check(&[7.0], &[0.0, 2.0, 4.0, 6.0, 8.0]);
    }

    #[test]
    fn every_curve_is_drawn_and_named() {
        let curve = |label: &str, has_dots| Curve {
            label: label.to_owned(),
            points: (0..10).map(|i| (f64::from(i), f64::from(i * i))).collect(),
            has_dots,
        };
        let curves = vec![curve("a < b", false), curve("c", true)];
        let svg = LineChart { x: "round".to_owned(), y: "loss".to_owned(), curves }.to_svg();
        assert_eq!(svg.matches("<polyline").count(), 2);
        assert_eq!(svg.matches("<circle").count(), 10);
        assert!(svg.contains("a &lt; b") && !svg.contains("NaN"), "{svg}");
    }
}
