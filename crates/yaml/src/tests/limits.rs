//! What no run file holds, but a file may.

use serde_json::Value;

use super::sample::SampleConfig;
use super::{CHOICES, check};
use crate::{Tree, to_yaml};

#[test]
fn limits() {
    let outcome = |yaml: &str| Tree::parse("run.yml", yaml).map(|_| ()).map_err(|wrong| wrong.to_string());
    let refused = |yaml: &str, part: &str| {
        let wrong = outcome(yaml).expect_err(part);
        assert!(wrong.contains(part), "{}", &wrong[..wrong.len().min(300)]);
    };
    refused(&"#".repeat((1 << 20) + 1), "expected at most 1048576 bytes, found 1048577");
    refused(&("a: ".to_owned() + &"[".repeat(100_000)), "nested deeper than 64 levels");
    refused(&("a: ".to_owned() + &"{a: ".repeat(100_000)), "nested deeper than 64 levels");
    refused(&"- ".repeat(500_000), "nested deeper than 64 levels");
    refused(&"? ".repeat(500_000), "a key must be text");
    let stairs: String = (0..1000).map(|i| " ".repeat(i) + "a:\n").collect();
    refused(&stairs, "nested deeper than 64 levels");
    let laughs: String = (1..40).map(|i| format!("a{i}: &a{i} [*a{0}, *a{0}]\n", i - 1)).collect();
    refused(&("a0: &a0 ha\n".to_owned() + &laughs), "anchors repeat more than 100000 values");
    let tower: String = (1..400).map(|i| format!("a{i}: &a{i} [*a{}]\n", i - 1)).collect();
    refused(&("a0: &a0 up\n".to_owned() + &tower), "nested deeper than 64 levels");
    refused(&format!("? {}\n: 1", "k".repeat(2000)), "expected a key of at most 1024 bytes");
    let wide: String = (0..60_000).map(|i| format!("k{i}: {i}\n")).collect();
    assert_eq!(outcome(&wide), Ok(()));
    let deep_set = format!("{}=1", vec!["a"; 100].join("."));
    check("", &[&deep_set], &format!("--set {deep_set}: nested deeper than 64 levels"));
}

/// Whatever a file or an assignment holds, reading it ends with a value or an error.
#[test]
fn mutations_never_panic() {
    const FILE: &str = "---\nname: fashion # why\nmodel: {tagger: {hidden: 128, cell: gru}}\noptimizer:\n  \
                        adam: &a\n    \
                        lr: 1e-3\nimage: [28, 28]\nglobal_server:\n  local_servers:\n    - {type: sync, \
                        num_workers: 2}\n    \
                        - type: async\nnotes: {a: .5, 'b': -0x1, \"c\\n\": *a}\ndata: |\n  text\n...\n";
    const BITS: &[&str] = &[
        "\t", "\n", "- ", "? ", ": ", "&a ", "*a", "!!str ", "|", ">-", "'", "\"", "{", "]", "\u{feff}", "é",
        "\0", "%", "---\n", "#", "\\u", "<<",
    ];
    let mut state = 20_261_115_u64;
    let mut draw = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    for _ in 0..5000 {
        let mut chars: Vec<char> = FILE.chars().collect();
        for _ in 0..=draw(6) {
            let at = draw(chars.len());
            let end = (at + draw(8)).min(chars.len());
            match draw(3) {
                0 => drop(chars.drain(at..end)),
                1 => drop(chars.splice(at..at, BITS[draw(BITS.len())].chars())),
                _ => chars[at..end].reverse(),
            }
        }
        let yaml: String = chars.iter().collect();
        let (from, to) = (draw(chars.len()), draw(chars.len()));
        let set: String = chars[from.min(to)..from.max(to)].iter().collect();
        if let Ok(mut tree) = Tree::parse("run.yml", &yaml) {
            let _ = tree.set(&set, CHOICES);
            let _ = tree.set(&format!("model.tagger.hidden={set}"), CHOICES);
            let _ = tree.wrong(&set, tree.has(&set));
            let _ = tree.read::<SampleConfig>();
            let value: Value = tree.read().unwrap();
            let written = to_yaml(&value).unwrap();
            assert_eq!(Tree::parse("", &written).unwrap().read::<Value>().unwrap(), value, "{written}");
        }
    }
}
