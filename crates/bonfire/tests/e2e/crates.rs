//! Which crate may know which.

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// Every crate of the workspace and those of the workspace that it may depend on.
const EDGES: &[(&str, &[&str])] = &[
    ("bonfire-learn", &["bonfire-spoil"]),
    ("bonfire-data", &["bonfire-learn", "bonfire-spoil"]),
    ("bonfire-strategy", &[]),
    ("bonfire-payload", &["bonfire-spoil"]),
    ("bonfire-wire", &["bonfire-spoil"]),
    ("bonfire-report", &[]),
    ("bonfire-run", &["bonfire-data", "bonfire-learn", "bonfire-report", "bonfire-yaml"]),
    (
        "bonfire-exchange",
        &["bonfire-run", "bonfire-learn", "bonfire-payload", "bonfire-wire", "bonfire-yaml", "bonfire-spoil"],
    ),
    (
        "bonfire-cluster",
        &[
            "bonfire-exchange",
            "bonfire-run",
            "bonfire-data",
            "bonfire-learn",
            "bonfire-payload",
            "bonfire-strategy",
            "bonfire-wire",
            "bonfire-report",
            "bonfire-yaml",
            "bonfire-spoil",
        ],
    ),
    ("bonfire-yaml", &[]),
    ("bonfire-launch", &["bonfire-yaml"]),
    // Tests only.
    ("bonfire-spoil", &[]),
    (
        "bonfire",
        &[
            "bonfire-launch",
            "bonfire-cluster",
            "bonfire-run",
            "bonfire-data",
            "bonfire-learn",
            "bonfire-report",
            "bonfire-wire",
        ],
    ),
];

/// Everything that is wrong with the edges between these packages.
fn forbidden(packages: &[(String, Vec<String>)]) -> Vec<String> {
    let ours: BTreeSet<&str> = packages.iter().map(|(name, _)| name.as_str()).collect();
    let mut wrong = Vec::new();
    for (name, dependencies) in packages {
        let Some((_, allowed)) = EDGES.iter().find(|(known, _)| known == name) else {
            wrong.push(format!(
                "{name} is not in the table EDGES of tests/e2e/crates.rs: add it, with what it may know"
            ));
            continue;
        };
        for dependency in dependencies.iter().filter(|dependency| ours.contains(dependency.as_str())) {
            if !allowed.contains(&dependency.as_str()) {
                wrong.push(format!("{name} must not depend on {dependency}"));
            }
        }
    }
    wrong
}

fn packages() -> Vec<(String, Vec<String>)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.args(["metadata", "--no-deps", "--format-version", "1", "--offline"]).output();
    let output = output.expect("cargo");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let name = |value: &Value| value["name"].as_str().expect("a name").to_owned();
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let package =
        |package: &Value| (name(package), list(&package["dependencies"]).iter().map(name).collect());
    list(&metadata["packages"]).iter().map(package).collect()
}

#[test]
fn no_crate_knows_what_it_should_not() {
    let packages = packages();
    assert!(packages.iter().any(|(name, _)| name == "bonfire"), "{packages:?}");
    assert_eq!(forbidden(&packages), Vec::<String>::new());
}

#[test]
fn a_wrong_edge_is_noticed() {
    let check = |packages: &[(&str, &[&str])], expect: &[&str]| {
        let own =
            |&(name, on): &(&str, &[&str])| (name.to_owned(), on.iter().map(|&on| on.to_owned()).collect());
        let packages: Vec<(String, Vec<String>)> = packages.iter().map(own).collect();
        let found = forbidden(&packages);
        assert_eq!(found.len(), expect.len(), "{found:?}");
        assert!(found.iter().zip(expect).all(|(found, expect)| found.starts_with(expect)), "{found:?}");
    };
    let learn = ("bonfire-learn", &["serde"][..]);
    check(&[learn, ("bonfire-cluster", &["bonfire-learn"])], &[]);
    check(
        &[learn, ("bonfire-report", &["bonfire-learn"])],
        &["bonfire-report must not depend on bonfire-learn"],
    );
    let wire = ("bonfire-wire", &["h2"][..]);
    check(&[wire, ("bonfire-run", &["bonfire-wire"])], &["bonfire-run must not depend on bonfire-wire"]);
    check(&[learn, ("bonfire-data", &["bonfire-learn"])], &[]);
    check(
        &[("bonfire-learn", &["bonfire-data"]), ("bonfire-data", &[])],
        &["bonfire-learn must not depend on bonfire-data"],
    );
    let yaml = ("bonfire-yaml", &["serde"][..]);
    check(&[yaml, ("bonfire-launch", &["bonfire-yaml"]), ("bonfire-cluster", &["bonfire-yaml"])], &[]);
    check(&[learn, ("bonfire-yaml", &["bonfire-learn"])], &["bonfire-yaml must not depend on bonfire-learn"]);
    check(&[("bonfire-new", &[])], &["bonfire-new is not in the table"]);
}
