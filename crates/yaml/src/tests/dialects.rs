//! The same text, as a file for this program and as a file of others.

use crate::{Dialect, LoadFault, ScalarForm, YamlData, YamlNode, load};

/// A tree in a few words: of every key its line, of every scalar its text, with its tag.
fn words(node: &YamlNode) -> String {
    match &node.data {
        YamlData::Scalar(scalar) => match &scalar.form {
            ScalarForm::Tagged(tag) => format!("!{tag} {}", scalar.text),
            ScalarForm::Plain if node.is_null() => "-".to_owned(),
            ScalarForm::Plain | ScalarForm::Quoted => scalar.text.clone(),
        },
        YamlData::List(items) => format!("[{}]", items.iter().map(words).collect::<Vec<_>>().join(" ")),
        YamlData::Map(entries) => {
            let entry = |entry: &crate::YamlEntry| {
                format!("{}@{}={}", entry.key, entry.place.line(), words(&entry.value))
            };
            format!("{{{}}}", entries.iter().map(entry).collect::<Vec<_>>().join(" "))
        }
    }
}

#[track_caller]
fn check(text: &str, strict: &str, lenient: &str) {
    for (dialect, expect) in [(Dialect::Strict, strict), (Dialect::Lenient, lenient)] {
        let outcome = match load(text, dialect) {
            Ok(root) => words(&root),
            Err(error) => format!("{}: {}: {:?}", error.line, error.path, error.fault),
        };
        assert_eq!(outcome, expect, "{dialect:?}: {text}");
    }
}

#[test]
fn dialects() {
    check("", "-", "-");
    check("a: 1\nb:\n  - x\n  - c:\n", "{a@1=1 b@2=[x {c@4=-}]}", "{a@1=1 b@2=[x {c@4=-}]}");
    check("a: &x 1\nb: *x", "{a@1=1 b@2=1}", "{a@1=1 b@2=1}");
    check("&x a: 1\nb: *x", "{a@1=1 b@2=a}", "{a@1=1 b@2=a}");
    check(
        "a: &x {p: 1, q: 2}\nb:\n  q: 3\n  <<: *x",
        "{a@1={p@1=1 q@1=2} b@2={q@3=3 <<@4={p@1=1 q@1=2}}}",
        "{a@1={p@1=1 q@1=2} b@2={q@3=3 p@1=1}}",
    );
    check(
        "a: {<<: [{p: 1}, {p: 2, q: 3}, 4]}",
        "{a@1={<<@1=[{p@1=1} {p@1=2 q@1=3} 4]}}",
        "{a@1={p@1=1 q@1=3}}",
    );
    let tag = |tag: &str| format!("1: a: Refused(\"the tag `{tag}` has no meaning here; leave it out\")");
    check("a: !vault x", &tag("!vault"), "{a@1=!vault x}");
    check("a: !!set {b: }", &tag("!!set"), "{a@1={b@1=-}}");
    check("a: !!str 5", "{a@1=5}", "{a@1=!str 5}");
    let key =
        |key: &str| format!("2: : Refused(\"a key must be text; to make `{key}` text, put it in quotes\")");
    check("a: 1\n22: b", &key("22"), "{a@1=1 22@2=b}");
    check("a: 1\n~: b", &key("~"), "{a@1=1 ~@2=b}");
}

#[test]
fn faults() {
    let both = |text: &str, expect: &str| check(text, expect, expect);
    both("a:\n  b: 1\n  b: 2", "3: a.b: KeyTwice { key: \"b\", first_line: 2 }");
    both("a: 1\n---\nb: 2", "2: : SecondDocument");
    both("a: &a [*a]", "1: a[0]: Refused(\"an anchor cannot be used inside itself\")");
    both("? [a]\n: b", "1: : Refused(\"a key must be text, not a list or mapping\")");
    for dialect in [Dialect::Strict, Dialect::Lenient] {
        let error = load("a: [1\n", dialect).expect_err("a list without its end");
        assert!(matches!(error.fault, LoadFault::NoYaml(_)), "{error:?}");
    }
}
