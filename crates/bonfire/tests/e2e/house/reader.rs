//! Reads as much of Rust as it takes to find functions and types: words and braces, but not those in texts and
//! comments.

/// A source as words and signs, each with its line.
#[derive(Debug)]
pub(crate) struct Code<'a>(Vec<(&'a str, usize)>);

/// Where something that has a name stands.
#[derive(Debug, PartialEq)]
pub(crate) struct Place {
    pub name: String,
    /// From 1.
    pub line: usize,
    /// How many, the first and the last one included.
    pub lines: usize,
}

/// What a block of braces belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Block {
    Module,
    /// Types in here are those of a trait.
    Implementation,
    /// A function's body, a type's fields, a test's module: nothing of it is looked for.
    Other,
}

impl<'a> Code<'a> {
    pub(crate) fn read(text: &'a str) -> Self {
        let (mut tokens, mut rest, mut line) = (Vec::new(), text, 1);
        while let Some(first) = rest.chars().next() {
            let len = match quoted(rest) {
                Some(len) => len,
                None => {
                    let word = rest.find(|c: char| !is_word(c)).unwrap_or(rest.len());
                    let len = word.max(first.len_utf8());
                    if !first.is_whitespace() {
                        tokens.push((&rest[..len], line));
                    }
                    len
                }
            };
            line += rest[..len].matches('\n').count();
            rest = &rest[len..];
        }
        Self(tokens)
    }

    /// All functions that have a body.
    pub(crate) fn functions(&self) -> Vec<Place> {
        let is_function = |pair: &[(&str, usize)]| pair[0].0 == "fn" && pair[1].0.starts_with(is_word);
        let starts = self.0.windows(2).enumerate().filter(|(_, pair)| is_function(pair));
        starts
            .filter_map(|(at, pair)| {
                let body = (at..self.0.len()).find(|&i| matches!(self.0[i].0, "{" | ";"))?;
                let end = self.0[self.end_of_block(body)?].1;
                Some(Place { name: pair[1].0.to_owned(), line: pair[0].1, lines: end - pair[0].1 + 1 })
            })
            .collect()
    }

    /// The place of the brace that closes the one at a place, if there is one that opens.
    fn end_of_block(&self, open: usize) -> Option<usize> {
        let mut depth = 0usize;
        for (i, (token, _)) in self.0.iter().enumerate().skip(open) {
            match *token {
                "{" => depth += 1,
                "}" => depth = depth.checked_sub(1)?,
                _ => {}
            }
            if depth == 0 {
                return (i > open).then_some(i);
            }
        }
        None
    }

    /// All types of modules, but for those of their tests.
    pub(crate) fn types(&self) -> Vec<Place> {
        let (mut types, mut blocks, mut item) = (Vec::new(), vec![Block::Module], 0);
        for (i, (token, line)) in self.0.iter().enumerate() {
            let before = &self.0[item..i];
            match *token {
                "{" => blocks.push(Block::of(before)),
                "}" => drop(blocks.pop()),
                ";" => {}
                "struct" | "enum" | "union" | "type" | "trait" if blocks.last() == Some(&Block::Module) => {
                    let name = self.0.get(i + 1).map_or("", |(name, _)| name);
                    if name.starts_with(is_word) && !before.iter().any(|(word, _)| *word == "macro_rules") {
                        types.push(Place { name: name.to_owned(), line: *line, lines: 1 });
                    }
                }
                _ => {}
            }
            if matches!(*token, "{" | "}" | ";") {
                item = i + 1;
            }
        }
        types
    }
}

impl Block {
    /// The block of an item that begins with these words.
    fn of(item: &[(&str, usize)]) -> Self {
        let has = |word: &str| item.iter().any(|(token, _)| *token == word);
        match () {
            () if has("fn") || has("test") => Self::Other,
            () if has("impl") || has("trait") => Self::Implementation,
            () if has("mod") => Self::Module,
            () => Self::Other,
        }
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The length of the comment, text or character that a source begins with, if it begins with one.
fn quoted(rest: &str) -> Option<usize> {
    let bytes = rest.as_bytes();
    match bytes {
        [b'/', b'/', ..] => Some(rest.find('\n').unwrap_or(rest.len())),
        [b'/', b'*', ..] => Some(comment(rest)),
        [b'"', ..] => Some(text(rest, 0)),
        [b'b' | b'c', b'"', ..] => Some(text(rest, 1)),
        [b'r', b'"' | b'#', ..] => raw(rest, 1),
        [b'b' | b'c', b'r', b'"' | b'#', ..] => raw(rest, 2),
        [b'b', b'\'', ..] => character(rest, 1),
        [b'\'', ..] => character(rest, 0),
        // A word that ends in one of the letters above is no prefix of a text.
        _ => None,
    }
}

/// Comments may lie in comments.
fn comment(rest: &str) -> usize {
    let (mut depth, mut at) = (0, 0);
    while at < rest.len() {
        match &rest.as_bytes()[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] if depth == 1 => return at + 2,
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
    }
    rest.len()
}

fn text(rest: &str, quote: usize) -> usize {
    let mut escaped = false;
    for (at, byte) in rest.bytes().enumerate().skip(quote + 1) {
        match byte {
            b'"' if !escaped => return at + 1,
            b'\\' => escaped = !escaped,
            _ => escaped = false,
        }
    }
    rest.len()
}

/// `r#"…"#`, but not `r#type`.
fn raw(rest: &str, prefix: usize) -> Option<usize> {
    let marks = rest[prefix..].bytes().take_while(|byte| *byte == b'#').count();
    let inside = rest[prefix + marks..].strip_prefix('"')?;
    let close = format!("\"{}", "#".repeat(marks));
    Some(inside.find(&close).map_or(rest.len(), |end| prefix + marks + 1 + end + close.len()))
}

/// `'x'` and `'\n'`, but not `'lifetime`.
fn character(rest: &str, quote: usize) -> Option<usize> {
    let mut inside = rest[quote + 1..].char_indices();
    let (_, first) = inside.next()?;
    let end = match first {
        '\\' => rest[quote + 3..].find('\'')? + 2,
        _ => inside.next().filter(|(_, c)| *c == '\'')?.0,
    };
    Some(quote + 1 + end + 1)
}

#[test]
fn functions_are_measured() {
    let check = |text: &str, expect: &[(&str, usize, usize)]| {
        let place = |&(name, line, lines): &(&str, usize, usize)| Place { name: name.into(), line, lines };
        let expect: Vec<Place> = expect.iter().map(place).collect();
        assert_eq!(Code::read(text).functions(), expect, "{text}");
    };
    check("fn a() {}", &[("a", 1, 1)]);
    check("\nfn a(\n    b: u8,\n) -> u8 {\n    b\n}\n", &[("a", 2, 5)]);
    check("trait A {\n    fn without(&self);\n    fn with() {\n    }\n}", &[("with", 3, 2)]);
    check("fn a() {\n    fn b() {\n    }\n}", &[("a", 1, 4), ("b", 2, 2)]);
    check("type F = fn(u8) -> u8;", &[]);
    check("fn a() {\n    \"}\\\"}\";\n    r#\"}\"}\"#;\n    '}';\n    '\\'';\n    b'}';\n}", &[("a", 1, 7)]);
    check("fn a<'b>(c: &'b str) {\n    // }\n    /* } /* } */ } */\n}", &[("a", 1, 4)]);
    check("// fn no() {}\nfn a() { \"fn no() {}\"; }", &[("a", 2, 1)]);
    check("fn a() {\n    \"several\n    lines {\";\n}", &[("a", 1, 4)]);
}

#[test]
fn types_of_modules_are_found() {
    let check = |text: &str, expect: &[&str]| {
        let found: Vec<String> = Code::read(text).types().into_iter().map(|place| place.name).collect();
        assert_eq!(found, expect, "{text}");
    };
    check("pub struct A;\nenum B { C }\npub(crate) trait D {}\ntype E = u8;", &["A", "B", "D", "E"]);
    check("mod a { struct B<T>(T); }", &["B"]);
    check("impl A for B { type Error = C; fn d() { struct E; } }\nstruct F;", &["F"]);
    check("trait A { type B; }", &["A"]);
    check("fn a(b: impl C) { struct D; }\nstruct E { f: u8 }", &["E"]);
    check("#[cfg(test)]\nmod tests { struct A; }\nstruct B;", &["B"]);
    check("macro_rules! a { () => { struct B; } }", &[]);
}
