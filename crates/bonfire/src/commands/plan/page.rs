//! A plan as one HTML file: a chart that needs no script and nothing from elsewhere.

use std::fmt::Write;

use bonfire_cluster::plan::figures::Pool;
use bonfire_cluster::plan::{Forecast, Plan};

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem;\
    color:#222;background:#fff}text{font:12px system-ui,sans-serif;fill:currentColor}td,th{padding:.1rem .8rem .1rem 0;\
    text-align:right;font-variant-numeric:tabular-nums}td:first-child,th:first-child{text-align:left}\
    .best{font-weight:bold}@media(prefers-color-scheme:dark){body{color:#ddd;background:#181818}}";

/// What each colour of a bar means.
const COLOURS: [(&str, &str); 3] = [("computing", "#3b7dd8"), ("wire", "#e08a3c"), ("waiting", "#b0b0b0")];

const NAMES: f64 = 300.0;
const BARS: f64 = 500.0;
const ROW: f64 = 20.0;

/// The page of a plan.
pub(super) fn page(name: &str, plan: &Plan, pool: &Pool, sentences: &[String]) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<title>Plan: {0}</title>\n\
         <style>{STYLE}</style>\n<h1>{0}, {1} hosts</h1>\n",
        escaped(name),
        pool.hosts.len()
    );
    for sentence in sentences {
        let _ = writeln!(page, "<p>{}</p>", escaped(sentence));
    }
    chart(&mut page, plan, pool);
    listing(&mut page, plan, pool);
    page.push_str("</html>\n");
    page
}

fn chart(page: &mut String, plan: &Plan, pool: &Pool) {
    let rows = super::table::shown(plan);
    let longest = rows.iter().map(|&row| plan.forecasts[row].seconds).fold(1e-9, f64::max);
    let (width, height) = (NAMES + BARS + 80.0, ROW * (rows.len() as f64 + 2.0));
    let _ = writeln!(
        page,
        "<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"seconds an epoch of every candidate\">"
    );
    for (i, (word, colour)) in COLOURS.iter().enumerate() {
        let x = NAMES + 110.0 * i as f64;
        let _ = writeln!(
            page,
            "<rect x=\"{x}\" y=\"4\" width=\"12\" height=\"12\" fill=\"{colour}\"/>\
             <text x=\"{}\" y=\"14\">{word}</text>",
            x + 16.0
        );
    }
    for (i, &row) in rows.iter().enumerate() {
        let y = ROW * (i as f64 + 1.5);
        bar(page, &plan.forecasts[row], pool, (y, longest), row == plan.best);
    }
    page.push_str("</svg>\n");
}

fn bar(page: &mut String, forecast: &Forecast, pool: &Pool, (y, longest): (f64, f64), is_best: bool) {
    let words = escaped(&forecast.candidate.in_words(&pool.hosts));
    let class = if is_best { " class=\"best\"" } else { "" };
    let _ = writeln!(page, "<text x=\"0\" y=\"{}\"{class}>{words}</text>", y + 11.0);
    let mut x = NAMES;
    let parts = [forecast.computing_s, forecast.wire_s, forecast.waiting_s];
    for (seconds, (_, colour)) in parts.into_iter().zip(COLOURS) {
        let width = seconds / longest * BARS;
        let _ = write!(
            page,
            "<rect x=\"{x:.1}\" y=\"{y}\" width=\"{width:.1}\" height=\"14\" fill=\"{colour}\"/>"
        );
        x += width;
    }
    let _ = writeln!(page, "<text x=\"{:.1}\" y=\"{}\">{:.2} s</text>", x + 6.0, y + 11.0, forecast.seconds);
}

fn listing(page: &mut String, plan: &Plan, pool: &Pool) {
    page.push_str(
        "<table>\n<tr><th>candidate<th>seconds<th>computing<th>wire<th>waiting<th>MB a round<th>Wh</tr>\n",
    );
    for (place, forecast) in plan.forecasts.iter().enumerate() {
        let class = if place == plan.best { " class=\"best\"" } else { "" };
        let wh = forecast.wh.map_or_else(|| "–".to_owned(), |wh| format!("{wh:.3}"));
        let _ = writeln!(
            page,
            "<tr{class}><td>{}<td>{:.3}<td>{:.3}<td>{:.3}<td>{:.3}<td>{:.2}<td>{wh}</tr>",
            escaped(&forecast.candidate.in_words(&pool.hosts)),
            forecast.seconds,
            forecast.computing_s,
            forecast.wire_s,
            forecast.waiting_s,
            forecast.bytes_per_round / 1e6,
        );
    }
    page.push_str("</table>\n");
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}
