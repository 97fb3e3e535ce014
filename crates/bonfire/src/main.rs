use std::process::ExitCode;

use bonfire::learn::huge_pages::HugePages;

#[global_allocator]
static ALLOCATOR: HugePages = HugePages;

fn main() -> ExitCode {
    #[cfg(unix)]
    outlive_file_limits();
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    return_what_is_freed();
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

/// Has the allocator give memory back, so that a head that strangers besiege, or a run after an evaluation, is as
/// small as before. By default glibc has several heaps a core, each with its own holes. What trains allocates nothing
/// after its first steps, so threads that share one heap do not wait for each other. Blocks that links read into stay
/// in the heap, and so does some free memory at its end: to get them anew from the system, page by page, took as long
/// as the exchange of a large gradient.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn return_what_is_freed() {
    // SAFETY: no other thread runs yet, and these only set numbers of the allocator.
    unsafe {
        libc::mallopt(libc::M_ARENA_MAX, 1);
        libc::mallopt(libc::M_MMAP_THRESHOLD, 4 << 20);
        libc::mallopt(libc::M_TRIM_THRESHOLD, 32 << 20);
    }
}
