use std::process::ExitCode;

use bonfire::learn::huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    bonfire::commands::main()
}
