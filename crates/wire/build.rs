//! Compiles the messages of `proto/fire.proto`, in Rust alone: building needs no `protoc`.

use std::error::Error;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=proto/fire.proto");
    let files = protox::compile(["proto/fire.proto"], ["proto"])?;
    prost_build::Config::new().bytes(["."]).compile_fds(files)?;
    Ok(())
}
