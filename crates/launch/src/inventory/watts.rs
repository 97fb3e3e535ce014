use std::fmt;

use bonfire_yaml::{Dialect, YamlData, load};
use serde::{Deserialize, Serialize};

use super::document;
use super::error::short;

/// What a host takes when it has nothing to do, and when all its cores have.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostWatts {
    pub idle: f64,
    pub full: f64,
}

/// More than any machine that trains on its processors takes.
const MOST: f64 = 100_000.0;

impl HostWatts {
    /// `2.7,6.4`, or a mapping in one line.
    pub(super) fn of_text(text: &str) -> Result<Self, String> {
        let text = text.trim();
        if text.starts_with('{')
            && let Ok(root) = load(text, Dialect::Lenient)
            && let YamlData::Map(entries) = &root.data
        {
            return Self::of_pairs(&document::pairs(entries));
        }
        match text.split_once(',') {
            Some((idle, full)) => Self::of_pairs(&[
                ("idle".to_owned(), Some(idle.to_owned())),
                ("full".to_owned(), Some(full.to_owned())),
            ]),
            None => Err(expected(text)),
        }
    }

    /// `idle` and `full`, each once.
    pub(super) fn of_pairs(pairs: &[(String, Option<String>)]) -> Result<Self, String> {
        if let Some((key, _)) = pairs.iter().find(|(key, _)| key != "idle" && key != "full") {
            return Err(expected(key));
        }
        let number = |wanted: &str, least: f64, why: &str| {
            let found = pairs.iter().find(|(key, _)| key == wanted);
            let (_, value) = found.ok_or_else(|| format!("the key `{wanted}` is missing"))?;
            let text = value.as_deref().unwrap_or_default().trim();
            let number = text.parse().ok().filter(|number| (least..=MOST).contains(number));
            let rule = || format!("{wanted} must be from {least}{why} to {MOST}, found `{}`", short(text));
            number.ok_or_else(rule)
        };
        let idle = number("idle", 0.0, "")?;
        Ok(Self { idle, full: number("full", idle, ", as when it is idle,")? })
    }
}

fn expected(found: &str) -> String {
    format!(
        "expected watts when idle and when busy, such as `2.7,6.4` or `{{idle: 2.7, full: 6.4}}`, found `{}`",
        short(found)
    )
}

/// As `--watts` takes them.
impl fmt::Display for HostWatts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.idle, self.full)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_numbers_or_the_reason() {
        let check = |text: &str, expect: Result<&str, &str>| {
            let read = HostWatts::of_text(text).map(|watts| watts.to_string());
            match (read, expect) {
                (Ok(read), Ok(expect)) => assert_eq!(read, expect, "{text}"),
                (Err(error), Err(expect)) => assert!(error.contains(expect), "{text}: {error}"),
                (read, expect) => panic!("{text}: {read:?}, not {expect:?}"),
            }
        };
        check("2.7,6.4", Ok("2.7,6.4"));
        check(" 0, 5 ", Ok("0,5"));
        check("{idle: 2.7, full: 6.4}", Ok("2.7,6.4"));
        check("{\"full\": 6.4, \"idle\": 6.4}", Ok("6.4,6.4"));
        check("-1,5", Err("idle must be from 0 to 100000, found `-1`"));
        check("6,5", Err("full must be from 6, as when it is idle, to 100000, found `5`"));
        check("nan,5", Err("idle must be from 0"));
        check("1,inf", Err("full must be from 1, as when it is idle, to 100000"));
        check("{idle: 1}", Err("the key `full` is missing"));
        check("{idle: 1, fall: 2}", Err("found `fall`"));
        check("5", Err("expected watts when idle and when busy"));
        check("", Err("expected watts"));
    }
}
