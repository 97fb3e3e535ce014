use std::process::ExitCode;

fn main() -> ExitCode {
    bonfire::commands::main()
}
