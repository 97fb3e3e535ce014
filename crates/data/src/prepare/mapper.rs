//! From a line to a cleaned text with its rating: the first step.

use super::clean::Cleaner;
use super::json::{self, Flaw, JsonValue, Keys, ReviewFields};
use super::rating::RatingScale;

/// What texts are called: by Amazon's collections of 2014 and 2018, by Yelp and Amazon's of 2023, by Amazon's tables.
const TEXT_KEYS: [&str; 3] = ["reviewText", "text", "review_body"];
/// The same for ratings.
const LABEL_KEYS: [&str; 4] = ["overall", "stars", "rating", "star_rating"];

/// What a line came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MappedLine {
    /// A text with words, and its rating.
    Kept(u8),
    /// A text without a word, or none.
    Empty,
    /// Nothing but space.
    Blank,
    /// What is wrong with it.
    Bad(String),
}

/// Reads lines and cleans their texts.
#[derive(Clone, Debug)]
pub struct Mapper {
    keys: Keys,
    scale: RatingScale,
    cleaner: Cleaner,
}

impl Mapper {
    /// For texts and ratings under these keys, or else under the usual ones.
    pub fn new(text: Option<&str>, label: Option<&str>, scale: RatingScale, cleaner: Cleaner) -> Self {
        let names = |given: Option<&str>, usual: &[&str]| match given {
            Some(name) => vec![name.to_owned()],
            None => usual.iter().map(|&name| name.to_owned()).collect(),
        };
        let keys = Keys::new(names(text, &TEXT_KEYS), names(label, &LABEL_KEYS));
        Self { keys, scale, cleaner }
    }

    /// Reads a line of JSON, and appends its cleaned text to `out` if it has one.
    pub fn json(&self, line: &[u8], out: &mut Vec<u8>) -> MappedLine {
        if is_blank(line) {
            return MappedLine::Blank;
        }
        if let Err(error) = std::str::from_utf8(line) {
            return MappedLine::Bad(format!("not valid UTF-8 at byte {}", error.valid_up_to() + 1));
        }
        self.checked_json(line, out)
    }

    /// The same of a line that is UTF-8 and has something on it.
    pub(crate) fn checked_json(&self, line: &[u8], out: &mut Vec<u8>) -> MappedLine {
        let ReviewFields { text, label } = match json::fields(line, &self.keys) {
            Ok(fields) => fields,
            Err(Flaw { column, message }) => return MappedLine::Bad(format!("{message} (column {column})")),
        };
        let rating = match label {
            JsonValue::Number(letters) | JsonValue::String(letters) => {
                match self.scale.parse(&json::plain_name(letters)) {
                    Some(rating) => rating,
                    None => return MappedLine::Bad(self.wrong_rating(letters)),
                }
            }
            JsonValue::Missing => return MappedLine::Bad(format!("{} is missing", named(&self.keys.label))),
            JsonValue::Null => return MappedLine::Bad(format!("{} is null", named(&self.keys.label))),
            JsonValue::Other => return MappedLine::Bad(format!("{} is no number", named(&self.keys.label))),
        };
        match text {
            JsonValue::String(letters) => {
                let mut wash = self.cleaner.begin(out);
                json::unescape(letters, |piece| wash.add(piece));
                if wash.end() { MappedLine::Kept(rating) } else { MappedLine::Empty }
            }
            JsonValue::Missing | JsonValue::Null => MappedLine::Empty,
            JsonValue::Number(_) | JsonValue::Other => {
                MappedLine::Bad(format!("{} is no string", named(&self.keys.text)))
            }
        }
    }

    /// Appends the words of a text to `out`.
    pub fn clean(&self, text: &str, out: &mut Vec<u8>) {
        self.cleaner.clean(text, out);
    }

    /// Cleans the text of a row of a table.
    pub(crate) fn row(&self, text: &[u8], rating: &[u8], out: &mut Vec<u8>) -> MappedLine {
        let Some(rating) = self.scale.parse(rating) else {
            return MappedLine::Bad(self.wrong_rating(rating));
        };
        let mut wash = self.cleaner.begin(out);
        wash.add(text);
        if wash.end() { MappedLine::Kept(rating) } else { MappedLine::Empty }
    }

    pub(crate) fn keys(&self) -> &Keys {
        &self.keys
    }

    pub(crate) fn scale(&self) -> RatingScale {
        self.scale
    }

    fn wrong_rating(&self, letters: &[u8]) -> String {
        let shown: String = String::from_utf8_lossy(letters).chars().take(20).collect();
        format!("{} is {shown:?}, {}", named(&self.keys.label), self.scale.in_words())
    }
}

/// Whether there is nothing on a line but what Python strips, which is more than JSON takes for space.
pub(crate) fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| byte.is_ascii_whitespace() || *byte == 0x0B)
}

/// Names as one would say them.
pub(crate) fn named(names: &[String]) -> String {
    names.iter().map(|name| format!("{name:?}")).collect::<Vec<_>>().join(" or ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::prepare::{Other, Rules};

    fn check(rules: &Rules, line: &str, expect: Result<(&str, u8), &str>) {
        let mut out = Vec::new();
        let found = rules.mapper().unwrap().json(line.as_bytes(), &mut out);
        let text = String::from_utf8(out).unwrap();
        match (&found, expect) {
            (MappedLine::Kept(rating), Ok(expect)) => assert_eq!((text.as_str(), *rating), expect, "{line}"),
            (MappedLine::Empty, Err("empty")) | (MappedLine::Blank, Err("blank")) => {
                assert_eq!(text, "", "{line}")
            }
            (MappedLine::Bad(reason), Err(expect)) => {
                assert!(reason.contains(expect), "{line}: {reason:?} should say {expect:?}");
                assert_eq!(text, "", "{line}");
            }
            _ => panic!("{line}: {found:?} with {text:?}, expected {expect:?}"),
        }
    }

    #[test]
    fn lines_of_all_collections_are_read() {
        let check = |line, expect| check(&Rules::default(), line, expect);
        // Amazon 2014, Amazon 2018, Amazon 2023, Yelp.
        check(
            r#"{"reviewerID": "A2", "asin": "00", "helpful": [0, 0], "reviewText": "Good case.", "overall": 5.0}"#,
            Ok(("good case", 5)),
        );
        check(
            r#"{"overall": 2.0, "verified": true, "style": {"Size:": " L"}, "reviewText": "Too small", "vote": "3"}"#,
            Ok(("small", 2)),
        );
        check(r#"{"rating": 4.0, "title": "Fine", "text": "Works fine"}"#, Ok(("works fine", 4)));
        check(r#"{"review_id": "x", "stars": 1, "useful": 0, "text": "Never again!"}"#, Ok(("never", 1)));
        check(r#"{"text": "fine", "stars": "3"}"#, Ok(("fine", 3)));
        check(r#"{"text": "fine", "stars": "3.0"}"#, Ok(("fine", 3)));
        check(r#"{"text": "fine", "stars": "\u0033\n", "price": NaN}"#, Ok(("fine", 3)));
    }

    #[test]
    fn escapes_are_characters() {
        let check = |line, expect| check(&Rules::default(), line, expect);
        check(r#"{"text": "don\u0027t stop\u0021 caf\u00e9", "stars": 5}"#, Ok(("stop caf", 5)));
        check(r#"{"text": "\u0047reat\nstuff", "stars": 5}"#, Ok(("greatstuff", 5)));
        check(r#"{"text": "say \"hello\" \\ \/ \t", "stars": 5}"#, Ok(("say hello", 5)));
        check(r#"{"text": "smile \ud83d\ude00 half \ud83d", "stars": 5}"#, Ok(("smile half", 5)));
    }

    #[test]
    fn lines_without_words_are_empty_and_wrong_ones_bad() {
        let check = |line, expect| check(&Rules::default(), line, Err(expect));
        check("", "blank");
        check("  \r", "blank");
        check("\t\x0b\x0c", "blank");
        check("\x0b{}", "expected a JSON object (column 1)");
        check(r#"{"reviewText": "", "overall": 5.0}"#, "empty");
        check(r#"{"reviewText": null, "overall": 5.0}"#, "empty");
        check(r#"{"overall": 5.0}"#, "empty");
        check(r#"{"reviewText": "it is the product", "overall": 5.0}"#, "empty");
        check(r#"{"reviewText": "42 !!", "overall": 5.0}"#, "empty");
        check(r#"{"reviewText": "good"}"#, r#""overall" or "stars" or "rating" or "star_rating" is missing"#);
        check("{}", "is missing");
        check(r#"{"reviewText": "good", "overall": null}"#, "is null");
        check(r#"{"reviewText": "good", "overall": [5]}"#, "is no number");
        check(r#"{"reviewText": "good", "overall": true}"#, "is no number");
        check(r#"{"reviewText": "good", "overall": NaN}"#, "is no number");
        check(r#"{"reviewText": "good", "overall": "\ud800"}"#, r#"is "\\ud800""#);
        check(
            r#"{"reviewText": "good", "overall": 0}"#,
            r#"is "0", expected a whole number of stars from 1 to 5"#,
        );
        check(r#"{"reviewText": "good", "overall": 4.5}"#, r#"is "4.5""#);
        check(r#"{"reviewText": "good", "overall": "great"}"#, r#"is "great""#);
        check(r#"{"reviewText": 5, "overall": 5}"#, "is no string");
        check(r#"{"reviewText": ["good"], "overall": 5}"#, "is no string");
        check(r#"{"reviewText": "good", "overall": 5"#, "the line ends too early (column 36)");
        check("good", "expected a JSON object (column 1)");
    }

    #[test]
    fn options_change_what_is_read() {
        let rules = Rules { text: Some("t".into()), label: Some("s".into()), ..Rules::default() };
        check(&rules, r#"{"t": "good", "s": 5, "text": "no", "stars": 1}"#, Ok(("good", 5)));
        check(&rules, r#"{"t": "good", "stars": 1}"#, Err(r#""s" is missing"#));
        let rules = Rules { other: Other::Space, stop_words: "none".into(), ..Rules::default() };
        check(&rules, r#"{"text": "The well-made\none", "stars": 5}"#, Ok(("the well made one", 5)));
        let rules = Rules { ratings: RatingScale::Classes, ..Rules::default() };
        check(&rules, r#"{"text": "good", "stars": 0}"#, Ok(("good", 0)));
        check(&rules, r#"{"text": "good", "stars": 5}"#, Err("expected 0 or 1"));
    }

    #[test]
    fn bytes_that_are_no_text_are_bad() {
        let mut out = Vec::new();
        let line = Rules::default().mapper().unwrap().json(b"{\"text\": \"\xE9\", \"stars\": 5}", &mut out);
        assert_eq!(line, MappedLine::Bad("not valid UTF-8 at byte 11".to_owned()));
    }
}
