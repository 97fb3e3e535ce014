//! One entry for one host or many: `pi[01:07].local:2222`.

use std::net::Ipv6Addr;

use super::error::short;

/// As many hosts as one entry may stand for.
const MAX_HOSTS: usize = 10_000;

/// The hosts that an entry names, and the port behind them.
#[derive(Debug, PartialEq)]
pub(super) struct Pattern {
    pub names: Vec<String>,
    pub port: Option<u16>,
}

/// Reads an entry of one of Ansible's formats.
pub(super) fn expand(text: &str) -> Result<Pattern, String> {
    let (host, port) = split_port(text)?;
    let mut names = Vec::new();
    expand_ranges(host, &mut names)?;
    for name in &names {
        check_address(name)?;
    }
    Ok(Pattern { names, port })
}

/// Takes the port off. An IPv6 address has one only behind brackets.
fn split_port(text: &str) -> Result<(&str, Option<u16>), String> {
    if let Some((address, rest)) = text.strip_prefix('[').and_then(|inner| inner.split_once(']'))
        && is_ipv6(address)
    {
        return match rest.strip_prefix(':') {
            Some(digits) => Ok((address, Some(port(digits)?))),
            None if rest.is_empty() => Ok((address, None)),
            None => Err(format!("expected `[{address}]:22`, found `{}`", short(text))),
        };
    }
    let mut inside = false;
    let mut colons = text.char_indices().filter(|&(_, c)| {
        inside = c == '[' || inside && c != ']';
        c == ':' && !inside
    });
    match (colons.next(), colons.next()) {
        (Some((at, _)), None) => Ok((&text[..at], Some(port(&text[at + 1..])?))),
        _ => Ok((text, None)),
    }
}

/// Reads a port.
pub(super) fn port(text: &str) -> Result<u16, String> {
    match text.trim().parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(format!("expected a port from 1 to 65535, found `{}`", short(text))),
    }
}

/// Replaces the first range by each of its values, and so on with the next, until none is left. The list is kept as one
/// level at a time, because a text of brackets could otherwise nest as deep as it is long.
fn expand_ranges(text: &str, into: &mut Vec<String>) -> Result<(), String> {
    let mut level = vec![String::new()];
    let mut rest = text;
    while let Some(open) = rest.find('[') {
        let head = &rest[..open];
        let Some(length) = rest[open..].find(']') else {
            return Err(format!("the range of `{}` lacks its `]`", short(text)));
        };
        let values = range(&rest[open + 1..open + length])?;
        if level.len() * values.len() > MAX_HOSTS {
            return Err(format!("`{}` stands for more than {MAX_HOSTS} hosts", short(text)));
        }
        let next = |prefix: &String| values.iter().map(|value| format!("{prefix}{head}{value}")).collect();
        level = level.iter().flat_map::<Vec<String>, _>(next).collect();
        rest = &rest[open + length + 1..];
    }
    into.extend(level.into_iter().map(|prefix| prefix + rest));
    Ok(())
}

/// The values of `begin:end` or `begin:end:step`: whole numbers, with leading zeros if wanted, or single letters.
fn range(text: &str) -> Result<Vec<String>, String> {
    let wrong = |what: &str| Err(format!("the range `[{}]` {what}", short(text)));
    let parts: Vec<&str> = text.split(':').collect();
    let (begin, end, step) = match parts[..] {
        [begin, end] => (begin, end, 1),
        [begin, end, step] => match step.parse() {
            Ok(step @ 1..) => (begin, end, step),
            _ => return wrong("needs a step of 1 or more, such as `[1:9:2]`"),
        },
        _ => return wrong("is none; write `[1:7]`, `[01:07]`, `[a:d]` or `[1:9:2]`"),
    };
    let begin = if begin.is_empty() { "0" } else { begin };
    if let (Some(first), Some(last)) = (letter(begin), letter(end)) {
        let letters: Vec<String> = LETTERS.chars().map(String::from).collect();
        return match letters.get(first..=last) {
            Some(letters) if first <= last => Ok(letters.iter().step_by(step).cloned().collect()),
            _ => wrong("ends before it begins"),
        };
    }
    let (Some(first), Some(last)) = (whole(begin), whole(end)) else {
        return wrong("needs two whole numbers or two letters, such as `[1:7]` or `[a:d]`");
    };
    let padded = begin.len() > 1 && begin.starts_with('0');
    if padded && begin.len() != end.len() {
        return wrong("needs as many digits at its end as at its begin, such as `[01:12]`");
    }
    if first > last {
        return wrong("ends before it begins");
    }
    if (last - first) / step as u64 >= MAX_HOSTS as u64 {
        return wrong(&format!("stands for more than {MAX_HOSTS} hosts"));
    }
    let width = if padded { begin.len() } else { 0 };
    Ok((first..=last).step_by(step).map(|number| format!("{number:0width$}")).collect())
}

/// In the order that a range counts them.
const LETTERS: &str = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";

fn letter(text: &str) -> Option<usize> {
    LETTERS.find(text).filter(|_| text.len() == 1)
}

/// A number of digits only: `parse` alone would take a sign.
fn whole(text: &str) -> Option<u64> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// Refuses what is no name or address, above all what ssh would take for an option.
pub(super) fn check_address(text: &str) -> Result<(), String> {
    let host = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let is_good = |c: char| c.is_alphanumeric() || "._-".contains(c);
    let is_name = !host.is_empty() && host.chars().all(is_good);
    if text.starts_with('-') || host.starts_with('-') || !(is_name || is_ipv6(host)) {
        return Err(format!("expected the name or address of a host, found `{}`", short(text)));
    }
    match text.rsplit_once('@') {
        Some((user, _)) => check_user(user),
        None => Ok(()),
    }
}

/// Refuses what is no user, above all what ssh would take for an option.
pub(super) fn check_user(text: &str) -> Result<(), String> {
    let is_bad = |c: char| c.is_whitespace() || c.is_control() || "'\"`;&|<>()$#@".contains(c);
    if text.is_empty() || text.starts_with('-') || text.contains(is_bad) {
        return Err(format!("expected the name of a user, found `{}`", short(text)));
    }
    Ok(())
}

/// An address of IPv6, with the link behind `%` if it has one.
pub(super) fn is_ipv6(text: &str) -> bool {
    let (address, zone) = text.split_once('%').unwrap_or((text, "x"));
    let is_zone = !zone.is_empty() && zone.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    is_zone && address.parse::<Ipv6Addr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::expand;

    #[test]
    fn entries() {
        let check = |text: &str, names: &str, port: Option<u16>| {
            let pattern = expand(text).expect(text);
            assert_eq!((pattern.names.join(" ").as_str(), pattern.port), (names, port), "{text}");
        };
        check("pi1", "pi1", None);
        check("pi1:2222", "pi1", Some(2222));
        check("192.168.2.101", "192.168.2.101", None);
        check("pi[1:3]", "pi1 pi2 pi3", None);
        check("pi[08:11].local:22", "pi08.local pi09.local pi10.local pi11.local", Some(22));
        check("[a:d]", "a b c d", None);
        check("[y:B]", "y z A B", None);
        check("n[1:9:4]x", "n1x n5x n9x", None);
        check("n[a:e:2]", "na nc ne", None);
        check("r[1:2]-n[a:b]", "r1-na r1-nb r2-na r2-nb", None);
        check("n[:2]", "n0 n1 n2", None);
        check("10.0.[0:1].[1:2]", "10.0.0.1 10.0.0.2 10.0.1.1 10.0.1.2", None);
        check("fe80::1", "fe80::1", None);
        check("fe80::1%eth0", "fe80::1%eth0", None);
        check("[fe80::1]:22", "fe80::1", Some(22));
        check("[::1]", "::1", None);
        check("fe80::[1:2]", "fe80::1 fe80::2", None);
        check("user@pi1", "user@pi1", None);
    }

    #[test]
    fn entries_that_are_none() {
        let check = |text: &str, expect: &str| assert_eq!(expand(text).expect_err(text), expect);
        check("pi[1:3", "the range of `pi[1:3` lacks its `]`");
        check("pi[1]", "the range `[1]` is none; write `[1:7]`, `[01:07]`, `[a:d]` or `[1:9:2]`");
        check("pi[7:1]", "the range `[7:1]` ends before it begins");
        check("pi[d:a]", "the range `[d:a]` ends before it begins");
        check("pi[1:9:0]", "the range `[1:9:0]` needs a step of 1 or more, such as `[1:9:2]`");
        check(
            "pi[1:x]",
            "the range `[1:x]` needs two whole numbers or two letters, such as `[1:7]` or `[a:d]`",
        );
        check(
            "pi[-1:3]",
            "the range `[-1:3]` needs two whole numbers or two letters, such as `[1:7]` or `[a:d]`",
        );
        check(
            "pi[01:7]",
            "the range `[01:7]` needs as many digits at its end as at its begin, such as `[01:12]`",
        );
        check("pi[0:10000]", "the range `[0:10000]` stands for more than 10000 hosts");
        check(
            "pi[0:18446744073709551615]",
            "the range `[0:18446744073709551615]` stands for more than 10000 hosts",
        );
        check("[1:200][1:200]", "`[1:200][1:200]` stands for more than 10000 hosts");
        check("pi:", "expected a port from 1 to 65535, found ``");
        check("pi:0", "expected a port from 1 to 65535, found `0`");
        check("pi:70000", "expected a port from 1 to 65535, found `70000`");
        check("pi:x", "expected a port from 1 to 65535, found `x`");
        check("[fe80::1]22", "expected `[fe80::1]:22`, found `[fe80::1]22`");
        check("-oProxyCommand=x", "expected the name or address of a host, found `-oProxyCommand=x`");
        check("a@-b", "expected the name or address of a host, found `a@-b`");
        check("-l@b", "expected the name or address of a host, found `-l@b`");
        check("a$b@c", "expected the name of a user, found `a$b`");
        check("a b", "expected the name or address of a host, found `a b`");
        check("1:2:3", "expected the name or address of a host, found `1:2:3`");
        check("", "expected the name or address of a host, found ``");
    }
}
