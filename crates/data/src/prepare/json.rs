//! One line of JSON, of which two values are wanted and the rest only has to be right.
//!
//! Nothing is built: a value is a stretch of the line. What is accepted is what RFC 8259 accepts, and what Python
//! writes and reads besides: half a surrogate pair in `\u`, and `NaN`, `Infinity` and `-Infinity` as values.

use super::eight;
use std::borrow::Cow;

/// Deeper lines are no reviews. Python's own limit is about this, too.
const DEPTH_LIMIT: usize = 990;

/// What is wrong with a line, and at which byte of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Flaw {
    pub column: usize,
    pub message: &'static str,
}

/// A value as it stands in the line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum JsonValue<'a> {
    #[default]
    Missing,
    Null,
    /// Between the quotation marks, with its escapes.
    String(&'a [u8]),
    Number(&'a [u8]),
    /// A list, an object, `true`, `false`, or a number that is none.
    Other,
}

/// The names that a value may have. The first of them that a line has counts.
#[derive(Clone, Debug)]
pub(crate) struct Keys {
    pub text: Vec<String>,
    pub label: Vec<String>,
    /// A bit for every length that one of them has; the highest also stands for all longer ones.
    lengths: u64,
}

impl Keys {
    pub(crate) fn new(text: Vec<String>, label: Vec<String>) -> Self {
        let lengths = text.iter().chain(&label).fold(0, |bits, name| bits | length_bit(name.len()));
        Self { text, label, lengths }
    }
}

fn length_bit(length: usize) -> u64 {
    1 << length.min(63)
}

/// The two values that are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ReviewFields<'a> {
    pub text: JsonValue<'a>,
    pub label: JsonValue<'a>,
}

/// Reads a line, which is UTF-8.
pub(crate) fn fields<'a>(line: &'a [u8], keys: &Keys) -> Result<ReviewFields<'a>, Flaw> {
    let mut scanner = Scanner { line, at: 0 };
    let mut found = ReviewFields::default();
    let (mut text_rank, mut label_rank) = (usize::MAX, usize::MAX);
    scanner.space();
    if scanner.peek() != Some(b'{') {
        return Err(scanner.flaw("expected a JSON object"));
    }
    scanner.members(0, &mut |name, value| {
        // Most names can be told from those that are wanted by their length.
        if keys.lengths & length_bit(name.len()) == 0 && !name.contains(&b'\\') {
            return;
        }
        let name = plain_name(name);
        let rank = |names: &[String]| names.iter().position(|known| known.as_bytes() == &*name);
        // Of equal names the last counts, as in every reader that makes a map.
        if let Some(rank) = rank(&keys.text).filter(|&rank| rank <= text_rank) {
            (text_rank, found.text) = (rank, value);
        }
        if let Some(rank) = rank(&keys.label).filter(|&rank| rank <= label_rank) {
            (label_rank, found.label) = (rank, value);
        }
    })?;
    scanner.space();
    if scanner.at < line.len() {
        return Err(scanner.flaw("expected the end of the line"));
    }
    Ok(found)
}

/// Gives the characters of a string to `take` in pieces. Of an escape beyond ASCII the piece is a byte that no letter
/// has.
pub(crate) fn unescape(mut string: &[u8], mut take: impl FnMut(&[u8])) {
    while let Some(place) = memchr::memchr(b'\\', string) {
        take(&string[..place]);
        let escape = string.get(place + 1).copied().unwrap_or(b'\\');
        let length = if escape == b'u' { 6 } else { 2 };
        let letter = match escape {
            b'b' => 8,
            b'f' => 12,
            b'n' => b'\n',
            b'r' => b'\r',
            b't' => b'\t',
            b'u' => u8::try_from(code(&string[place..]).unwrap_or(0xFF)).unwrap_or(0xFF),
            other => other,
        };
        take(&[letter]);
        string = string.get(place + length..).unwrap_or_default();
    }
    take(string);
}

/// A key or a rating without escapes, of which it has hardly ever any.
pub(crate) fn plain_name(name: &[u8]) -> Cow<'_, [u8]> {
    if !name.contains(&b'\\') {
        return Cow::Borrowed(name);
    }
    let quoted = [b"\"", name, b"\""].concat();
    Cow::Owned(serde_json::from_slice::<String>(&quoted).unwrap_or_default().into_bytes())
}

/// The number of `\uXXXX`.
fn code(escape: &[u8]) -> Option<u32> {
    let digits = escape.get(2..6)?;
    digits.iter().try_fold(0, |code, &digit| Some(code * 16 + (digit as char).to_digit(16)?))
}

/// A place in a line.
struct Scanner<'a> {
    line: &'a [u8],
    at: usize,
}

impl<'a> Scanner<'a> {
    fn peek(&self) -> Option<u8> {
        self.line.get(self.at).copied()
    }

    fn flaw(&self, message: &'static str) -> Flaw {
        let message = if self.at >= self.line.len() { "the line ends too early" } else { message };
        Flaw { column: self.at + 1, message }
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\r' | b'\n') = self.peek() {
            self.at += 1;
        }
    }

    fn expect(&mut self, byte: u8, message: &'static str) -> Result<(), Flaw> {
        if self.peek() != Some(byte) {
            return Err(self.flaw(message));
        }
        self.at += 1;
        Ok(())
    }

    /// An object, of which every member is told.
    fn members<F>(&mut self, depth: usize, take: &mut F) -> Result<(), Flaw>
    where
        F: FnMut(&'a [u8], JsonValue<'a>),
    {
        self.at += 1;
        self.space();
        if self.peek() == Some(b'}') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.space();
            if self.peek() != Some(b'"') {
                return Err(self.flaw("expected a key in quotation marks"));
            }
            let name = self.string()?;
            self.space();
            self.expect(b':', "expected a colon")?;
            let value = self.value(depth)?;
            take(name, value);
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b'}') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.flaw("expected a comma or a closing brace")),
            }
        }
    }

    fn items(&mut self, depth: usize) -> Result<(), Flaw> {
        self.at += 1;
        self.space();
        if self.peek() == Some(b']') {
            self.at += 1;
            return Ok(());
        }
        loop {
            self.value(depth)?;
            self.space();
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b']') => {
                    self.at += 1;
                    return Ok(());
                }
                _ => return Err(self.flaw("expected a comma or a closing bracket")),
            }
        }
    }

    fn value(&mut self, depth: usize) -> Result<JsonValue<'a>, Flaw> {
        self.space();
        if depth >= DEPTH_LIMIT {
            return Err(self.flaw("is nested too deeply"));
        }
        match self.peek() {
            Some(b'"') => self.string().map(JsonValue::String),
            Some(b'-') if self.line[self.at..].starts_with(b"-I") => {
                self.word(b"-Infinity").map(|()| JsonValue::Other)
            }
            Some(b'-' | b'0'..=b'9') => self.number().map(JsonValue::Number),
            Some(b'{') => self.members(depth + 1, &mut |_, _| {}).map(|()| JsonValue::Other),
            Some(b'[') => self.items(depth + 1).map(|()| JsonValue::Other),
            Some(b'n') => self.word(b"null").map(|()| JsonValue::Null),
            Some(b't') => self.word(b"true").map(|()| JsonValue::Other),
            Some(b'f') => self.word(b"false").map(|()| JsonValue::Other),
            Some(b'N') => self.word(b"NaN").map(|()| JsonValue::Other),
            Some(b'I') => self.word(b"Infinity").map(|()| JsonValue::Other),
            _ => Err(self.flaw("expected a value")),
        }
    }

    fn word(&mut self, word: &'static [u8]) -> Result<(), Flaw> {
        if !self.line[self.at..].starts_with(word) {
            return Err(self.flaw("expected a value"));
        }
        self.at += word.len();
        Ok(())
    }

    fn digits(&mut self) -> Result<(), Flaw> {
        if !matches!(self.peek(), Some(b'0'..=b'9')) {
            return Err(self.flaw("expected a digit"));
        }
        while let Some(b'0'..=b'9') = self.peek() {
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<&'a [u8], Flaw> {
        let start = self.at;
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.peek() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.peek() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.line[start..self.at])
    }

    /// What stands between quotation marks.
    fn string(&mut self) -> Result<&'a [u8], Flaw> {
        let start = self.at + 1;
        self.at = start;
        loop {
            self.at += plain(&self.line[self.at..]);
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(&self.line[start..self.at - 1]);
                }
                Some(b'\\') => self.escape()?,
                _ => return Err(self.flaw("a control character in a string")),
            }
        }
    }

    fn escape(&mut self) -> Result<(), Flaw> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') if code(&self.line[self.at - 1..]).is_some() => self.at += 5,
            _ => return Err(self.flaw("an escape that JSON does not have")),
        }
        Ok(())
    }
}

/// So many bytes of a long string are looked at together.
const BLOCK: usize = 32;

/// How many bytes stand before the next quotation mark, backslash or control character.
fn plain(bytes: &[u8]) -> usize {
    let mut at = 0;
    loop {
        // Behind the end are zeros, which end a string as all control characters do.
        let word = eight::load(&bytes[at..]);
        let found = eight::below(word, 0x20) | eight::equal(word, b'"') | eight::equal(word, b'\\');
        if found != 0 {
            return at + eight::before(found);
        }
        at += 8;
        if at == 2 * 8 {
            at += plain_blocks(&bytes[at..]);
        }
    }
}

/// How many bytes of whole blocks have none of those. Nothing but the question whether there is any goes through a
/// block: the compiler makes a few vector instructions of it.
fn plain_blocks(bytes: &[u8]) -> usize {
    let special = |byte: u8| u8::from(byte < 0x20) | u8::from(byte == b'"') | u8::from(byte == b'\\');
    let blocks = bytes.as_chunks::<BLOCK>().0.iter();
    blocks.take_while(|block| block.iter().fold(0, |any, &byte| any | special(byte)) == 0).count() * BLOCK
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::random::Random;

    fn keys() -> Keys {
        let names = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect();
        Keys::new(names(&["reviewText", "text"]), names(&["overall", "stars"]))
    }

    #[test]
    fn two_values_are_found() {
        let check = |line: &str, text: JsonValue<'_>, label: JsonValue<'_>| {
            let found = fields(line.as_bytes(), &keys());
            assert_eq!(found, Ok(ReviewFields { text, label }), "{line}");
        };
        let (string, number) = (JsonValue::String, JsonValue::Number);
        check("{}", JsonValue::Missing, JsonValue::Missing);
        check(r#" { "text" : "a b" , "stars" : 5 } "#, string(b"a b"), number(b"5"));
        check(r#"{"overall": 4.0, "reviewText": null}"#, JsonValue::Null, number(b"4.0"));
        check(
            r#"{"helpful": [0, {"text": "no"}], "text": "a\"b\\"}"#,
            string(br#"a\"b\\"#),
            JsonValue::Missing,
        );
        check(r#"{"text": "one", "text": "two"}"#, string(b"two"), JsonValue::Missing);
        check(r#"{"reviewText": "one", "text": "two"}"#, string(b"one"), JsonValue::Missing);
        check(r#"{"text": "two", "reviewText": "one"}"#, string(b"one"), JsonValue::Missing);
        check(r#"{"te\u0078t": true, "stars": "5"}"#, JsonValue::Other, string(b"5"));
        check(
            r#"{"a": [NaN, Infinity, -Infinity], "text": "a", "stars": NaN}"#,
            string(b"a"),
            JsonValue::Other,
        );
        check(r#"{"text": "\ud800", "stars": -0.5e+3}"#, string(br"\ud800"), number(b"-0.5e+3"));
    }

    #[test]
    fn what_is_no_json_is_found() {
        let check = |line: &str, column: usize, message: &str| {
            let flaw = fields(line.as_bytes(), &keys()).expect_err(line);
            assert_eq!((flaw.column, flaw.message), (column, message), "{line}");
        };
        check("", 1, "the line ends too early");
        check("null", 1, "expected a JSON object");
        check("[1]", 1, "expected a JSON object");
        check(r#"{"text": "a"#, 12, "the line ends too early");
        check(r#"{"text": "a"} x"#, 15, "expected the end of the line");
        check(r#"{"text": 'a'}"#, 10, "expected a value");
        check(r#"{text: 1}"#, 2, "expected a key in quotation marks");
        check(r#"{"a": 1,}"#, 9, "expected a key in quotation marks");
        check(r#"{"a": 01}"#, 8, "expected a comma or a closing brace");
        check(r#"{"a": nan}"#, 7, "expected a value");
        check(r#"{"a": -Inf}"#, 7, "expected a value");
        check(r#"{"a" 1}"#, 6, "expected a colon");
        check(r#"{"a": "\x"}"#, 9, "an escape that JSON does not have");
        check("{\"a\": \"one\ttwo\"}", 11, "a control character in a string");
        check(&format!("{{\"a\": {}", "[".repeat(2000)), 997, "is nested too deeply");
    }

    #[test]
    fn strings_end_where_they_end() {
        let mut random = Random::at(5, &[]);
        for _ in 0..2000 {
            let bytes: Vec<u8> = (0..random.below(150))
                .map(|_| match random.below(50) {
                    0 => b"\"\\\x1f"[random.below(3)],
                    _ => b" !\x20\x7f\x80\xa2\xdcaz"[random.below(9)],
                })
                .collect();
            let slow = bytes
                .iter()
                .position(|&byte| byte < 0x20 || byte == b'"' || byte == b'\\')
                .unwrap_or(bytes.len());
            assert_eq!(plain(&bytes), slow, "{bytes:?}");
        }
    }

    /// Damaged lines are refused exactly where another parser refuses them.
    #[test]
    fn damage_is_noticed_as_others_notice_it() {
        let line =
            r#"{"a": [1, -2.5e3, true, null], "text": "caf\u00e9 \"x\"\n", "o": {"k": "v"}, "overall": 5.0}"#;
        let letters = b"{}[]\":,\\u0519 .-+eEtfnl\t";
        let mut random = Random::at(7, &[]);
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut damaged = line.as_bytes().to_vec();
            for _ in 0..=random.below(2) {
                let place = random.below(damaged.len());
                match random.below(3) {
                    0 => damaged[place] = letters[random.below(letters.len())],
                    1 => drop(damaged.remove(place)),
                    _ => damaged.insert(place, letters[random.below(letters.len())]),
                }
            }
            let text = String::from_utf8(damaged).unwrap();
            let other = serde_json::from_str::<serde_json::Map<String, serde_json::Value>>(&text);
            let ours = fields(text.as_bytes(), &keys());
            let is_range = other.as_ref().is_err_and(|error| error.to_string().contains("out of range"));
            let is_half_pair = other.as_ref().is_err_and(|error| error.to_string().contains("surrogate"));
            if !is_range && !is_half_pair {
                assert_eq!(ours.is_ok(), other.is_ok(), "{text}: {ours:?} {other:?}");
                refused += usize::from(ours.is_err());
            }
        }
        assert!(refused > 5000, "{refused}");
    }

    #[test]
    fn escapes_become_letters() {
        let check = |string: &str, expect: &[u8]| {
            let mut letters = Vec::new();
            unescape(string.as_bytes(), |piece| letters.extend_from_slice(piece));
            assert_eq!(letters, expect, "{string}");
        };
        check("plain", b"plain");
        check(r"a\nb\t\u0041\u0027", b"a\nb\tA'");
        check(r#"\"\\\/"#, b"\"\\/");
        check(r"\u00e9\ud83d\ude00", b"\xE9\xFF\xFF");
    }
}
