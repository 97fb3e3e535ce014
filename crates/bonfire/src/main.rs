use std::process::ExitCode;

use bonfire::learn::huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    #[cfg(unix)]
    outlive_file_limits();
    bonfire::commands::main()
}

/// A file that may not grow any more (`ulimit -f`) costs what was to be written, as a full disk does, and not the run:
/// by default the signal ends the process.
#[cfg(unix)]
fn outlive_file_limits() {
    // SAFETY: no other thread runs yet, and ignoring a signal calls nothing of ours.
    unsafe {
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}
