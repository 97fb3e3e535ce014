//! What the hosts of a lab are like, in a file.

use std::fs;
use std::path::Path;
use std::str::FromStr;

use bonfire_yaml::{Tree, YamlError};
use serde::Deserialize;

use super::LabError;
use super::shape::{HostShape, LinkShape, check_count};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShapeFile {
    hosts: Vec<HostLine>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct HostLine {
    cpu: Option<String>,
    rate: Option<String>,
    delay: Option<String>,
    arch: Option<String>,
}

/// Reads a list of hosts: `- {cpu: 0.5, rate: 100mbit, delay: 5ms, arch: aarch64}` for each, all of it optional.
///
/// # Errors
/// When the file cannot be read, or says what no host can be.
pub fn read(path: &Path) -> Result<Vec<HostShape>, LabError> {
    let unfit = |error: &dyn std::fmt::Display| LabError::Unfit(format!("{}: {error}", path.display()));
    let text = fs::read_to_string(path).map_err(|error| unfit(&error))?;
    let shapes =
        parse(&path.display().to_string(), &text).map_err(|error| LabError::Unfit(error.to_string()))?;
    check_count(shapes.len()).map_err(|error| unfit(&error))?;
    Ok(shapes)
}

fn parse(origin: &str, text: &str) -> Result<Vec<HostShape>, YamlError> {
    let tree = Tree::parse_list(origin, text, "hosts")?;
    let file: ShapeFile = tree.read()?;
    let shape = |(i, line): (usize, &HostLine)| {
        let key = |name: &str| format!("hosts[{i}].{name}");
        Ok(HostShape {
            cpu: value(&tree, &key("cpu"), line.cpu.as_deref())?,
            arch: value(&tree, &key("arch"), line.arch.as_deref())?,
            link: LinkShape {
                rate: value(&tree, &key("rate"), line.rate.as_deref())?,
                delay: value(&tree, &key("delay"), line.delay.as_deref())?,
            },
        })
    };
    file.hosts.iter().enumerate().map(shape).collect()
}

fn value<T: FromStr<Err = String>>(
    tree: &Tree,
    key: &str,
    text: Option<&str>,
) -> Result<Option<T>, YamlError> {
    let wrong = |text: &str, error| tree.wrong(key, format!("{error}, found `{text}`"));
    text.map(|text| text.parse().map_err(|error: String| wrong(text, error))).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> Result<Vec<String>, String> {
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        let show = |shape: &HostShape| {
            let (cpu, rate, delay) = (shape.cpu, shape.link.rate, shape.link.delay);
            [cpu.map(|x| x.to_string()), rate.map(|x| x.to_string()), delay.map(|x| x.to_string())]
                .map(or_none)
                .join(" ")
        };
        let shapes = parse("lab.yml", text).map_err(|error| error.to_string())?;
        Ok(shapes.iter().map(show).collect())
    }

    #[test]
    fn a_line_a_host() {
        let text = "- {cpu: 1, rate: 1gbit, delay: 5ms}\n- {cpu: 0.25}\n-\n- rate: 10mbit\n";
        let expect = ["1 1gbit 5ms", "0.25 - -", "- - -", "- 10mbit -"].map(str::to_owned);
        assert_eq!(shown(text), Ok(expect.to_vec()));
        assert_eq!(shown("hosts:\n- {cpu: 0.5}\n"), Ok(vec!["0.5 - -".to_owned()]), "under a key, too");
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        let check = |text: &str, expect: &str| {
            let error = shown(text).expect_err(text);
            assert!(error.starts_with(expect), "{error}");
        };
        check(
            "- {cpu: 1}\n- {cpu: 0}\n",
            "lab.yml:2: hosts[1].cpu: expected a share of one core from 0.01 to",
        );
        check("- cpu: 1\n  rate: fast\n", "lab.yml:2: hosts[0].rate: expected a rate from 64kbit to 100gbit");
        check("- {cpus: 1}\n", "lab.yml:1: hosts[0]: unknown key `cpus`; did you mean `cpu`?");
        check(
            "- {arch: arm}\n",
            "lab.yml:1: hosts[0].arch: expected an architecture: x86_64, aarch64 or armv7",
        );
        check("- {delay: 5}\n", "lab.yml:1: hosts[0].delay: expected a delay of up to 10s");
        check("- [1]\n", "lab.yml:1: hosts[0]: expected");
    }
}
