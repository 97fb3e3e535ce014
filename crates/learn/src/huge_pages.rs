//! An allocator that asks for huge pages where they matter.
//!
//! Weights, gradients and activations are read from end to end several times a step; with pages of 4 KiB the processor
//! spends a tenth of that time looking up addresses. A program opts in:
//!
//! ```
//! #[global_allocator]
//! static ALLOCATOR: bonfire_learn::huge_pages::HugePages = bonfire_learn::huge_pages::HugePages;
//! ```

use std::alloc::{GlobalAlloc, Layout, System};

/// The system's allocator, with large blocks on boundaries of huge pages, and huge pages asked for.
#[derive(Clone, Copy, Debug)]
pub struct HugePages;

/// The size of a huge page on x86-64, and on ARM with pages of 4 KiB.
const HUGE: usize = 2 << 20;

/// From this size on a block is large.
const LARGE: usize = 1 << 20;

/// The layout that is really asked for.
fn stretched(layout: Layout) -> Layout {
    if layout.size() < LARGE || layout.align() >= HUGE {
        return layout;
    }
    // Only fails for sizes close to the whole address space, which then fail as they are.
    Layout::from_size_align(layout.size(), HUGE).unwrap_or(layout)
}

// SAFETY: every call goes to `System` with the layout of `stretched`, which depends on nothing but the layout it is
// given, so that a block is given back with the layout it was taken with; `stretched` keeps the size and only widens
// the alignment.
unsafe impl GlobalAlloc for HugePages {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's promise of a size above 0 holds for the stretched layout too.
        let block = unsafe { System.alloc(stretched(layout)) };
        if layout.size() >= LARGE && !block.is_null() {
            advise(block, layout.size());
        }
        block
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the block was taken with the same stretched layout.
        unsafe { System.dealloc(block, stretched(layout)) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.size() < LARGE {
            // SAFETY: the caller's promise.
            return unsafe { System.alloc_zeroed(layout) };
        }
        // SAFETY: the caller's promise; the block has `layout.size()` bytes.
        unsafe {
            let block = self.alloc(layout);
            if !block.is_null() {
                block.write_bytes(0, layout.size());
            }
            block
        }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        if layout.size() < LARGE && size < LARGE {
            // SAFETY: the block was taken with this layout, which is not stretched, and neither is the new one.
            return unsafe { System.realloc(block, layout, size) };
        }
        // SAFETY: `size` is not 0 and does not overflow with the alignment, as the caller promises; both blocks have at
        // least the bytes that are copied, and do not overlap.
        unsafe {
            let new = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            if !new.is_null() {
                std::ptr::copy_nonoverlapping(block, new, layout.size().min(size));
                self.dealloc(block, layout);
            }
            new
        }
    }
}

/// Asks for huge pages. It is a wish: whether it is granted changes nothing but the speed.
fn advise(block: *mut u8, size: usize) {
    #[cfg(target_os = "linux")]
    // SAFETY: the range is one block of ours, and the advice does not change its contents.
    unsafe {
        libc::madvise(block.cast(), size, libc::MADV_HUGEPAGE);
    }
    #[cfg(not(target_os = "linux"))]
    let _ = (block, size);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_keep_their_contents_when_they_grow_and_shrink() {
        let sizes = [100, LARGE - 1, LARGE, 3 * LARGE, LARGE + 5, 200];
        let mut layout = Layout::from_size_align(sizes[0], 8).expect("a layout");
        // SAFETY: sizes are above 0, and every block is used within its size and given back with its layout.
        unsafe {
            let mut block = HugePages.alloc_zeroed(layout);
            assert!(!block.is_null());
            block.write(42);
            for size in sizes {
                block = HugePages.realloc(block, layout, size);
                layout = Layout::from_size_align(size, 8).expect("a layout");
                assert!(!block.is_null());
                assert_eq!(block.read(), 42, "{size}");
                block.add(size - 1).write(7);
                assert!(size < LARGE || (block as usize).is_multiple_of(HUGE));
            }
            HugePages.dealloc(block, layout);
        }
    }
}
