//! The target triple, which only build scripts are told: `bonfire version` says it.

fn main() {
    let target = std::env::var("TARGET").expect("cargo names the target");
    println!("cargo::rustc-env=BONFIRE_TARGET={target}");
    println!("cargo::rerun-if-changed=build.rs");
}
