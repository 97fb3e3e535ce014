/// A quote that is never closed, or a backslash before nothing.
#[derive(Debug, PartialEq)]
pub(super) struct Unclosed;

/// Splits a line into words as a shell would. With `comments`, a `#` outside quotes ends the line, also inside a
/// word: so Ansible has it.
pub(super) fn split(line: &str, comments: bool) -> Result<Vec<String>, Unclosed> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '#' if comments => break,
            '\'' | '"' => quoted(c, &mut chars, word.get_or_insert_default())?,
            '\\' => word.get_or_insert_default().push(chars.next().ok_or(Unclosed)?),
            c if c.is_whitespace() => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

/// Reads up to the closing quote. Between double quotes a backslash guards a quote or a backslash.
fn quoted(quote: char, chars: &mut std::str::Chars<'_>, into: &mut String) -> Result<(), Unclosed> {
    loop {
        match chars.next().ok_or(Unclosed)? {
            c if c == quote => return Ok(()),
            '\\' if quote == '"' => match chars.next().ok_or(Unclosed)? {
                c @ ('"' | '\\') => into.push(c),
                c => into.extend(['\\', c]),
            },
            c => into.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Unclosed, split};

    #[test]
    fn words_as_a_shell_has_them() {
        let check = |line: &str, comments: bool, expect: &[&str]| {
            let expect: Vec<String> = expect.iter().map(|&word| word.to_owned()).collect();
            assert_eq!(split(line, comments), Ok(expect), "{line}");
        };
        check("", true, &[]);
        check("  a  b\t", true, &["a", "b"]);
        check("a k='x y' # c", true, &["a", "k=x y"]);
        check("a#b", true, &["a"]);
        check("a#b", false, &["a#b"]);
        check(r#"a="x\"y\z" ''"#, true, &[r#"a=x"y\z"#, ""]);
        check(r"a\ b", true, &["a b"]);
        check("-o ProxyCommand=\"ssh -W %h:%p jump\"", false, &["-o", "ProxyCommand=ssh -W %h:%p jump"]);
        for line in ["'a", "\"a", "\"a\\\"", "a\\"] {
            assert_eq!(split(line, true), Err(Unclosed), "{line}");
        }
    }
}
