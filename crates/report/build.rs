//! Packs what every page has, which is more than a hundredth of the program as it is.

use std::error::Error;
use std::io::Write;
use std::path::PathBuf;
use std::{env, fs};

use flate2::Compression;
use flate2::write::DeflateEncoder;

/// In the order in which a page has them.
const STYLES: [&str; 2] = ["uplot/uPlot.min.css", "page.css"];
const SCRIPTS: [&str; 6] =
    ["uplot/uPlot.iife.min.js", "fold.js", "words.js", "charts.js", "page.js", "compare.js"];

fn main() -> Result<(), Box<dyn Error>> {
    pack("style", &STYLES)?;
    pack("script", &SCRIPTS)
}

fn pack(name: &str, files: &[&str]) -> Result<(), Box<dyn Error>> {
    let mut texts = Vec::new();
    for file in files {
        let path = format!("page/{file}");
        println!("cargo:rerun-if-changed={path}");
        texts.push(fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?);
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").ok_or("OUT_DIR is not set")?).join(name);
    let mut packed = DeflateEncoder::new(fs::File::create(out)?, Compression::best());
    packed.write_all(texts.join("\n").as_bytes())?;
    packed.finish()?;
    Ok(())
}
