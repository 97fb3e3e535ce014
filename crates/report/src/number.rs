//! Numbers as people read them.

/// `1234567` as `1,234,567`.
pub fn count(value: u64) -> String {
    let digits = value.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// So many of something: `1 worker`, `1,000 workers`.
pub fn of(value: u64, noun: &str) -> String {
    let plural = if value == 1 { "" } else { "s" };
    format!("{} {noun}{plural}", count(value))
}

/// A speed, in about four digits: `12,345`, `56.8`, `0.42`.
pub fn rate(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 0.0 => "-".into(),
        v if v < 9.995 => format!("{v:.2}"),
        v if v < 99.95 => format!("{v:.1}"),
        v => count(v.round() as u64),
    }
}

/// A number of samples a second in at most eight characters, up to a billion: `12,345/s`, `123.5k/s`, `1.235M/s`.
pub fn speed(value: f64) -> String {
    match value {
        v if !v.is_finite() || v < 99_999.5 => format!("{}/s", rate(v)),
        v if v < 999_950.0 => format!("{:.1}k/s", v / 1e3),
        v if v < 9_999_500.0 => format!("{:.3}M/s", v / 1e6),
        v => format!("{:.1}M/s", v / 1e6),
    }
}

/// A loss or another small number, in six characters where that is enough, so that a column of them lines up.
pub fn decimal(value: f64) -> String {
    let size = value.abs();
    match size {
        s if s.is_nan() => "NaN".into(),
        s if s.is_infinite() => if value > 0.0 { "inf" } else { "-inf" }.into(),
        0.0 => "0.0000".into(),
        s if s < 0.001 => format!("{value:.1e}"),
        s if s < 9.99995 => format!("{value:.4}"),
        s if s < 99.9995 => format!("{value:.3}"),
        s if s < 999.995 => format!("{value:.2}"),
        s if s < 9999.95 => format!("{value:.1}"),
        s if s < 999_999.5 => format!("{value:.0}"),
        _ => format!("{value:.1e}"),
    }
}

/// A fraction of one as `96.41 %`. What is not quite all never shows as `100.00 %`.
pub fn percent(fraction: f64) -> String {
    if fraction.is_nan() {
        return "- %".into();
    }
    let shown = if fraction < 1.0 { (fraction * 100.0).min(99.99) } else { fraction * 100.0 };
    format!("{shown:.2} %")
}

/// The same in at most seven characters: only `100.00 %` has more, and as `100 %` it says as much.
pub fn short_percent(fraction: f64) -> String {
    if fraction == 1.0 { "100 %".into() } else { percent(fraction) }
}

/// A number of epochs: `5`, `2.35`.
pub fn epochs(value: f64) -> String {
    let text = format!("{value:.2}");
    text.strip_suffix(".00").unwrap_or(&text).to_owned()
}

/// A time: `0.42s`, `8.1s`, `1m 23s`, `2h 05m`, `3d 04h`.
pub fn seconds(value: f64) -> String {
    if !value.is_finite() || value < 0.0 {
        return "-".into();
    }
    if value < 0.995 {
        return format!("{value:.2}s");
    }
    if value < 9.95 {
        return format!("{value:.1}s");
    }
    let whole = value.round() as u64;
    let (minutes, hours, days) = (whole / 60, whole / 3600, whole / 86_400);
    match whole {
        0..60 => format!("{whole}s"),
        60..3600 => format!("{minutes}m {:02}s", whole % 60),
        3600..86_400 => format!("{hours}h {:02}m", minutes % 60),
        _ => format!("{days}d {:02}h", hours % 24),
    }
}

/// An amount of energy, in the unit that leaves few digits.
pub fn watt_hours(value: f64) -> String {
    let (value, unit) = match value {
        value if value >= 1000.0 => (value / 1000.0, "kWh"),
        value if value >= 0.1 => (value, "Wh"),
        value => (value * 1000.0, "mWh"),
    };
    let decimals = if value >= 100.0 { 0 } else { 2 };
    format!("{value:.decimals$} {unit}")
}

/// A size in powers of ten: `512 B`, `248 kB`, `1.2 MB`.
pub fn bytes(value: u64) -> String {
    let mut size = value as f64;
    for unit in ["B", "kB", "MB", "GB"] {
        if size < 999.5 {
            let digits = usize::from(size < 9.95 && unit != "B");
            return format!("{size:.digits$} {unit}");
        }
        size /= 1000.0;
    }
    format!("{size:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T>(show: fn(T) -> String, cases: impl IntoIterator<Item = (T, &'static str)>) {
        for (value, expect) in cases {
            assert_eq!(show(value), expect);
        }
    }

    #[test]
    fn counts_have_separators() {
        check(count, [(0, "0"), (7, "7"), (999, "999"), (1000, "1,000"), (12_345, "12,345")]);
        check(count, [(123_456, "123,456"), (1_234_567, "1,234,567")]);
        check(count, [(u64::MAX, "18,446,744,073,709,551,615")]);
        assert_eq!(of(1, "worker"), "1 worker");
        assert_eq!(of(0, "worker"), "0 workers");
        assert_eq!(of(1000, "worker"), "1,000 workers");
    }

    #[test]
    fn rates_have_sensible_digits() {
        check(rate, [(0.0, "0.00"), (0.4216, "0.42"), (9.994, "9.99"), (9.996, "10.0"), (56.78, "56.8")]);
        check(rate, [(99.96, "100"), (123.4, "123"), (12_345.4, "12,345"), (1e7, "10,000,000")]);
        check(rate, [(f64::NAN, "-"), (f64::INFINITY, "-"), (-1.0, "-")]);
    }

    #[test]
    fn speeds_are_short() {
        check(speed, [(0.0, "0.00/s"), (56.78, "56.8/s"), (12_345.4, "12,345/s"), (99_999.4, "99,999/s")]);
        check(speed, [(99_999.6, "100.0k/s"), (123_456.0, "123.5k/s"), (999_949.0, "999.9k/s")]);
        check(speed, [(999_951.0, "1.000M/s"), (9_999_600.0, "10.0M/s"), (f64::NAN, "-/s")]);
    }

    #[test]
    fn decimals_keep_their_width() {
        check(decimal, [(0.0, "0.0000"), (0.123_44, "0.1234"), (2.345_67, "2.3457"), (9.999_96, "10.000")]);
        check(decimal, [(12.3456, "12.346"), (123.456, "123.46"), (1234.56, "1234.6"), (12_345.6, "12346")]);
        check(
            decimal,
            [(123_456.7, "123457"), (1_234_567.0, "1.2e6"), (0.000_999, "1.0e-3"), (1e-5, "1.0e-5")],
        );
        check(
            decimal,
            [(-0.5, "-0.5000"), (f64::NAN, "NaN"), (f64::INFINITY, "inf"), (-f64::INFINITY, "-inf")],
        );
    }

    #[test]
    fn percents_do_not_round_up_to_all() {
        check(percent, [(0.0, "0.00 %"), (0.9641, "96.41 %"), (0.1, "10.00 %"), (1.0, "100.00 %")]);
        check(percent, [(0.999_99, "99.99 %"), (f64::NAN, "- %")]);
        check(short_percent, [(0.0, "0.00 %"), (0.9641, "96.41 %"), (1.0, "100 %"), (f64::NAN, "- %")]);
    }

    #[test]
    fn epochs_are_short() {
        check(epochs, [(5.0, "5"), (2.35, "2.35"), (2.349_999_9, "2.35"), (0.5, "0.50"), (10.0, "10")]);
    }

    #[test]
    fn times_have_two_units() {
        check(seconds, [(0.0, "0.00s"), (0.4216, "0.42s"), (0.996, "1.0s"), (8.12, "8.1s"), (9.96, "10s")]);
        check(seconds, [(59.4, "59s"), (59.6, "1m 00s"), (83.25, "1m 23s"), (3599.7, "1h 00m")]);
        check(seconds, [(7500.0, "2h 05m"), (86_399.9, "1d 00h"), (273_600.0, "3d 04h")]);
        check(seconds, [(f64::NAN, "-"), (-1.0, "-"), (f64::INFINITY, "-")]);
    }

    #[test]
    fn energies_have_units() {
        let cases = [(0.00012, "0.12 mWh"), (0.005, "5.00 mWh"), (0.1, "0.10 Wh"), (1.5, "1.50 Wh")];
        check(watt_hours, cases);
        check(watt_hours, [(345.6, "346 Wh"), (1234.0, "1.23 kWh")]);
    }

    #[test]
    fn sizes_have_units() {
        check(
            bytes,
            [(0, "0 B"), (512, "512 B"), (1000, "1.0 kB"), (247_512, "248 kB"), (999_600, "1.0 MB")],
        );
        check(bytes, [(1_234_567, "1.2 MB"), (12_345_678, "12 MB"), (5_000_000_000_000, "5.0 TB")]);
    }
}
