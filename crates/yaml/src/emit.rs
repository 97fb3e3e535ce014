use serde::ser::Serialize;

use crate::error::YamlError;
use crate::load::{Dialect, load};
use crate::node::{Meaning, YamlData, YamlNode, YamlScalar};

/// Lists of scalars up to this width stay on one line.
const LINE_CHARS: usize = 80;

/// Writes a value as block-style YAML that [`Tree::parse`](crate::Tree::parse) reads back as the same value,
/// and that readers of YAML 1.1 understand alike. The order of keys is kept.
///
/// # Errors
/// When the value has no form in JSON, such as a mapping whose keys are not text.
pub fn to_yaml<T: Serialize>(value: &T) -> Result<String, YamlError> {
    // JSON text keeps the order of fields and gives each number just the digits it needs, and JSON is YAML.
    let json = serde_json::to_string(value).map_err(YamlError::new)?;
    let json: String = json.chars().map(printable).collect();
    let node = load(&json, Dialect::Strict).map_err(|error| error.in_words("", &json, None))?;
    let mut out = String::new();
    match one_line(&node) {
        Some(line) => out.extend([&line, "\n"]),
        None => write_block(&node.data, 0, &mut out),
    }
    Ok(out)
}

/// Writes a mapping or list, each entry on lines of its own.
fn write_block(data: &YamlData, indent: usize, out: &mut String) {
    let margin = " ".repeat(indent);
    match data {
        YamlData::Scalar(_) => {}
        YamlData::Map(entries) => {
            for entry in entries {
                out.extend([&margin, plain_or_quoted(&entry.key).as_str(), ":"]);
                if let Some(value) = one_line(&entry.value) {
                    out.extend([" ", &value, "\n"]);
                } else {
                    out.push('\n');
                    write_block(&entry.value.data, indent + 2, out);
                }
            }
        }
        YamlData::List(items) => {
            for item in items {
                let start = out.len();
                match one_line(item) {
                    Some(value) => out.extend([&margin, "  ", &value, "\n"]),
                    None => write_block(&item.data, indent + 2, out),
                }
                // The dash stands in the margin of the item's first line.
                out.replace_range(start + indent..=start + indent, "-");
            }
        }
    }
}

/// A scalar, a short list of scalars, or anything empty.
fn one_line(node: &YamlNode) -> Option<String> {
    match &node.data {
        YamlData::Scalar(scalar) => Some(match scalar.meaning() {
            Meaning::Text(text) => plain_or_quoted(text),
            Meaning::Float(_) => float(&scalar.text),
            _ => scalar.text.clone(),
        }),
        YamlData::Map(entries) => entries.is_empty().then(|| "{}".to_owned()),
        YamlData::List(items) => {
            let scalar =
                |item: &YamlNode| if let YamlData::Scalar(_) = item.data { one_line(item) } else { None };
            let items: Option<Vec<String>> = items.iter().map(scalar).collect();
            items
                .map(|items| format!("[{}]", items.join(", ")))
                .filter(|line| line.chars().count() <= LINE_CHARS)
        }
    }
}

fn plain_or_quoted(text: &str) -> String {
    if reads_as_text(text) { text.to_owned() } else { quoted(text) }
}

/// Whether text without quotes stays text, in YAML 1.1 too, where `yes` is true and `1:30` a number.
fn reads_as_text(text: &str) -> bool {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let number_like = text.starts_with(|c: char| c.is_numeric()) && !text.contains(' ');
    let old_bool = ["y", "n", "yes", "no", "on", "off"].contains(&text.to_lowercase().as_str());
    text.starts_with(|c| word(c) || c == '/')
        && text.ends_with(word)
        && text.chars().all(|c| word(c) || " -./+".contains(c))
        && !number_like
        && !old_bool
        && matches!(YamlScalar::plain(text).meaning(), Meaning::Text(_))
}

fn quoted(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        '\n' => "\\n".to_owned(),
        '\t' => "\\t".to_owned(),
        _ => printable(c),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

/// A character in double quotes, escaped if it could pass for a line break, a byte order mark or rubbish.
fn printable(c: char) -> String {
    if c.is_control() || "\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}".contains(c) {
        format!("\\u{:04x}", u32::from(c))
    } else {
        c.to_string()
    }
}

/// YAML 1.1 takes a number for one only if it has a dot and, in an exponent, a sign.
fn float(text: &str) -> String {
    let Some((digits, power)) = text.split_once(['e', 'E']) else { return text.to_owned() };
    let dot = if digits.contains('.') { "" } else { ".0" };
    let sign = if power.starts_with(['-', '+']) { "" } else { "+" };
    format!("{digits}{dot}e{sign}{power}")
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test may panic")]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::Tree;

    #[track_caller]
    fn check(value: &Value, expect: &str) {
        assert_eq!(to_yaml(value).unwrap(), expect);
        let back: Value = Tree::parse("run.yml", expect).unwrap().read().unwrap();
        assert_eq!(back, *value);
    }

    #[test]
    fn blocks() {
        check(&json!({}), "{}\n");
        check(&json!({"a": null, "b": true, "c": -3}), "a: null\nb: true\nc: -3\n");
        check(&json!({"a": {"b": {"c": 1}, "d": {}}}), "a:\n  b:\n    c: 1\n  d: {}\n");
        check(&json!({"a": [64, 32], "b": []}), "a: [64, 32]\nb: []\n");
        check(&json!({"a": ["x, y", "z"]}), "a: [\"x, y\", z]\n");
        check(
            &json!({"s": [{"m": 1, "t": {"u": 2}}, [], [{"a": 1}, [1, 2]], "x"]}),
            "s:\n  - m: 1\n    t:\n      u: 2\n  - []\n  - - a: 1\n    - [1, 2]\n  - x\n",
        );
        let long = vec![123_456; 20];
        let expect = "a:\n".to_owned() + &"  - 123456\n".repeat(20);
        check(&json!({ "a": long }), &expect);
    }

    #[test]
    fn numbers() {
        let numbers = [
            (0.001, "0.001"),
            (1e-8, "1.0e-8"),
            (1.5e-8, "1.5e-8"),
            (1.0, "1.0"),
            (-0.25, "-0.25"),
            (1e16, "1.0e+16"),
            (f64::MAX, "1.7976931348623157e+308"),
            (f64::MIN_POSITIVE, "2.2250738585072014e-308"),
            (0.1 + 0.2, "0.30000000000000004"),
        ];
        for (number, text) in numbers {
            check(&json!({ "a": number }), &format!("a: {text}\n"));
        }
        check(&json!({"a": u64::MAX, "b": i64::MIN}), "a: 18446744073709551615\nb: -9223372036854775808\n");
        assert_eq!(
            to_yaml(&[0.001_f32]).unwrap(),
            "[0.001]\n",
            "an f32 is written without the noise of an f64"
        );
    }

    #[test]
    fn texts() {
        #[rustfmt::skip]
        let plain = [
            "a", "fashion-mnist", "50 rounds", "1 epoch", "runs/a.yml", "snake_case", "größer", "v1.0",
            "a  b", "/data/a",
        ];
        for text in plain {
            check(&json!({ "a": text }), &format!("a: {text}\n"));
        }
        #[rustfmt::skip]
        let quoted = [
            "", " ", " a", "a ", "yes", "No", "ON", "y", "true", "False", "null", "Null", "~", ".inf",
            ".nan", "1", "-1", "+1", "1e3", "1.5", "0x10", "0o7", "0b1", "1_000", "1:30", "2026-11-15",
            "- a", "-", "---", "...", ": ", "a: b", "a:", ":a", "#", "a #b", "?", "? a", "!a", "&a", "*a",
            "@a", "`a`", "%a", "|", ">", "[a]", "{a}", "a,b", "\"", "'a'", "a\\b", "a\nb", "\n", "a\tb",
            "\r", "\u{0}", "\u{7f}", "\u{85}", "\u{2028}", "\u{feff}", "\u{fffe}", "🔥", "<<", "=",
            "a\r\nb\n\n",
        ];
        for text in quoted {
            let line = format!("a: {}\n", super::quoted(text));
            check(&json!({ "a": text }), &line);
            let key = format!("{}: 1\n", super::quoted(text));
            check(&json!({ text: 1 }), &key);
        }
    }

    #[test]
    fn fields_keep_their_order() {
        #[derive(serde::Serialize)]
        struct InOrder {
            name: &'static str,
            model: &'static str,
            batch_size: u32,
        }
        let value = InOrder { name: "a", model: "mlp", batch_size: 32 };
        assert_eq!(to_yaml(&value).unwrap(), "name: a\nmodel: mlp\nbatch_size: 32\n");
    }
}
