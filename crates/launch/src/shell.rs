//! Words for the shell of another machine.

/// A word as the shell reads it back, whatever is in it. Within single quotes nothing has a meaning but the quote
/// itself: `it's` becomes `'it'\''s'`.
pub(crate) fn quote(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "@%+=:,./_-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// Words as one line.
pub(crate) fn line<I: IntoIterator<Item: AsRef<str>>>(words: I) -> String {
    let words: Vec<String> = words.into_iter().map(|word| quote(word.as_ref())).collect();
    words.join(" ")
}

/// A script for `sh` with its arguments `$1`, `$2`…, as one line that any login shell hands on unread.
pub(crate) fn script(script: &str, arguments: &[&str]) -> String {
    line(["sh", "-c", script, "sh"].iter().chain(arguments))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    const WORDS: &[&str] = &[
        "",
        "plain",
        "two words",
        "it's",
        "''",
        "\"double\"",
        "$HOME `id` $(id)",
        "a\\b\\",
        "a;b|c&d>e<f",
        "*?[a-z]{1,2}~",
        "new\nline",
        "tab\there",
        "-n",
        "!history",
        "#comment",
        "größer 木",
        "key={num_workers: 2, type: 'sync'}",
    ];

    fn printed(line: &str) -> String {
        let output = Command::new("sh").args(["-c", line]).output().expect("a shell");
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    #[test]
    fn the_shell_reads_every_word_back() {
        for word in WORDS {
            assert_eq!(printed(&format!("printf %s {}", quote(word))), *word, "{word:?}");
        }
        let all = line(["printf", "%s|"].iter().chain(WORDS));
        assert_eq!(printed(&all), format!("{}|", WORDS.join("|")));
    }

    #[test]
    fn the_arguments_of_a_script_are_read_back_through_two_shells() {
        let line = script(r#"for word in "$@"; do printf '%s|' "$word"; done"#, WORDS);
        assert_eq!(printed(&line), format!("{}|", WORDS.join("|")));
    }

    #[test]
    fn plain_words_stay_as_they_are() {
        let check = |word: &str, expect: &str| assert_eq!(quote(word), expect);
        check("bonfire", "bonfire");
        check("/home/pi/run.yml", "/home/pi/run.yml");
        check("", "''");
        check("a b", "'a b'");
        check("~", "'~'");
    }
}
