use std::time::{SystemTime, UNIX_EPOCH};

const SECONDS_A_DAY: u64 = 86_400;
/// The Gregorian calendar repeats after 400 years.
const DAYS_IN_400_YEARS: u64 = 400 * 365 + 97;

/// A time in UTC as `2026-11-15T18-02-11`: sorts by time, and has no character that a file system objects to.
pub(crate) fn stamp(now: SystemTime) -> String {
    // A clock before 1970 is not set at all; any stamp is as good as another then.
    let seconds = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let (year, month, day) = civil(seconds / SECONDS_A_DAY);
    let second = seconds % SECONDS_A_DAY;
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}-{minute:02}-{second:02}")
}

/// Year, month and day, both counted from 1, of a day counted from 1970-01-01.
fn civil(day: u64) -> (u64, u64, u64) {
    let mut year = 1970 + 400 * (day / DAYS_IN_400_YEARS);
    let mut rest = day % DAYS_IN_400_YEARS;
    while rest >= days_in_year(year) {
        rest -= days_in_year(year);
        year += 1;
    }
    let mut month = 1;
    while rest >= days_in_month(year, month) {
        rest -= days_in_month(year, month);
        month += 1;
    }
    (year, month, rest + 1)
}

fn days_in_year(year: u64) -> u64 {
    if is_leap(year) { 366 } else { 365 }
}

fn days_in_month(year: u64, month: u64) -> u64 {
    match month {
        2 if is_leap(year) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

fn is_leap(year: u64) -> bool {
    year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn known_dates() {
        let check = |seconds, expect: &str| {
            assert_eq!(stamp(UNIX_EPOCH + Duration::from_secs(seconds)), expect);
        };
        check(0, "1970-01-01T00-00-00");
        check(68_169_599, "1972-02-28T23-59-59");
        check(68_169_600, "1972-02-29T00-00-00");
        check(951_782_400, "2000-02-29T00-00-00");
        check(951_868_800, "2000-03-01T00-00-00");
        check(1_000_000_000, "2001-09-09T01-46-40");
        check(1_234_567_890, "2009-02-13T23-31-30");
        check(1_735_689_599, "2024-12-31T23-59-59");
        check(1_794_765_731, "2026-11-15T18-02-11");
        check(4_107_542_400, "2100-03-01T00-00-00");
        check(32_503_680_000, "3000-01-01T00-00-00");
    }

    #[test]
    fn an_unset_clock_is_no_trouble() {
        assert_eq!(stamp(UNIX_EPOCH - Duration::from_secs(1)), "1970-01-01T00-00-00");
    }
}
