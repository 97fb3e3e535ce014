//! A plan as people read it, in at most 80 columns.

use bonfire_cluster::plan::advice::Advice;
use bonfire_cluster::plan::figures::Pool;
use bonfire_cluster::plan::{Forecast, Plan};
use bonfire_report::number;
use bonfire_run::run_file::arch::Arch;

/// So many candidates are shown.
const MOST_ROWS: usize = 14;

const NAME: usize = 36;
const BAR: usize = 23;

/// Of a terminal.
const COLUMNS: usize = 80;

/// The rows that are worth a line: the fastest, and one machine.
pub(super) fn shown(plan: &Plan) -> Vec<usize> {
    let is_alone = |forecast: &Forecast| forecast.candidate.arch == Arch::Single;
    let alone = plan.forecasts.iter().position(is_alone);
    let mut rows: Vec<usize> = (0..plan.forecasts.len().min(MOST_ROWS)).collect();
    rows.extend(alone.into_iter().chain([plan.best]));
    rows.sort_unstable();
    rows.dedup();
    rows
}

/// A bar chart.
pub(super) fn table(name: &str, plan: &Plan, pool: &Pool) -> Vec<String> {
    let rows = shown(plan);
    let longest = rows.iter().map(|&row| plan.forecasts[row].seconds).fold(0.0, f64::max);
    let has_watts = rows.iter().any(|&row| plan.forecasts[row].wh.is_some());
    let energy = if has_watts { "      Wh" } else { "        " };
    let mut lines = vec![
        format!("{name}, {}: seconds an epoch", number::of(pool.hosts.len() as u64, "host")),
        String::new(),
        format!("  {:NAME$} {:>8}{energy}  █ compute ▒ wire ░ wait", "", "seconds"),
    ];
    for &row in &rows {
        let forecast = &plan.forecasts[row];
        let mark = if row == plan.best { "▸" } else { " " };
        let words: String = forecast.candidate.in_words(&pool.hosts).chars().take(NAME).collect();
        let wh = forecast.wh.map_or_else(String::new, short);
        let line =
            format!("{mark} {words:NAME$} {:>8}{wh:>8}  {}", short(forecast.seconds), bar(forecast, longest));
        lines.push(line.trim_end().to_owned());
    }
    let more = plan.forecasts.len() - rows.len();
    if more > 0 {
        lines.push(format!("  … and {more} more: --json has all"));
    }
    lines
}

fn bar(forecast: &Forecast, longest: f64) -> String {
    let columns = |seconds: f64| (seconds / longest * BAR as f64).round().max(0.0) as usize;
    let (computing, wire) = (columns(forecast.computing_s), columns(forecast.wire_s));
    let all = columns(forecast.seconds).max(1);
    let (computing, wire) = (computing.min(all), wire.min(all.saturating_sub(computing)));
    "█".repeat(computing) + &"▒".repeat(wire) + &"░".repeat(all - computing - wire)
}

/// A sentence in lines that a terminal has room for.
pub(super) fn wrapped(sentence: &str) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in sentence.split(' ') {
        let last = lines.last_mut().filter(|line| line.chars().count() + 1 + word.chars().count() <= COLUMNS);
        match last {
            Some(line) if line.is_empty() => line.push_str(word),
            Some(line) => line.extend([" ", word]),
            None => lines.push(word.to_owned()),
        }
    }
    lines
}

/// Three digits that count.
fn short(value: f64) -> String {
    match value {
        ..10.0 => format!("{value:.2}"),
        ..100.0 => format!("{value:.1}"),
        _ => number::count(value.round() as u64),
    }
}

/// What is best, and what would help most.
pub(super) fn sentences(plan: &Plan, pool: &Pool, advice: Option<&Advice>) -> Vec<String> {
    let best = plan.best();
    let (words, seconds) = (best.candidate.in_words(&pool.hosts), short(best.seconds));
    let alone = plan.forecasts.iter().find(|forecast| forecast.candidate.arch == Arch::Single);
    let several = plan.forecasts.iter().find(|forecast| forecast.candidate.arch != Arch::Single);
    let first = match (best.candidate.arch, alone, several) {
        (Arch::Single, _, Some(several)) => format!(
            "The best is {words}: {seconds} s an epoch; of several hosts the fastest, {}, takes {} s.",
            several.candidate.in_words(&pool.hosts),
            short(several.seconds)
        ),
        (Arch::Single, ..) | (_, None, _) => format!("The best is {words}: {seconds} s an epoch."),
        (_, Some(alone), _) => format!(
            "The best is {words}: {seconds} s an epoch, {:.1} times as fast as one machine.",
            alone.seconds / best.seconds
        ),
    };
    let second = match advice {
        Some(Advice { change, times }) => format!("What would help most: {change}: {times:.1} times."),
        None => "Nothing that can be bought would help much.".to_owned(),
    };
    let left_out = plan.left_out.iter().map(|why| format!("Left out: {why}."));
    [first, second].into_iter().chain(left_out).collect()
}

#[cfg(test)]
mod tests {
    use super::{short, wrapped};

    #[test]
    fn a_sentence_is_wrapped() {
        let sentence = "word ".repeat(30);
        let lines = wrapped(sentence.trim());
        assert_eq!(lines.len(), 2);
        assert!(lines.iter().all(|line| line.len() <= 80 && !line.ends_with(' ')), "{lines:?}");
    }

    #[test]
    fn three_digits_are_enough() {
        assert_eq!(
            [0.123, 9.99, 12.34, 123.4, 12345.6].map(short),
            ["0.12", "9.99", "12.3", "123", "12,346"]
        );
    }
}
