//! NEON on ARM of 32 bits, in assembly: stable Rust has no word for it there, and the compiler does not use it for
//! floats by itself, because it takes the smallest of them for zero.
//!
//! One kernel serves products and convolutions, since both are the same sums: six floats of one side meet two registers
//! of the other. That fills the sixteen registers that there are: twelve sums, two registers, and two more for the six
//! floats in turn.

use std::arch::global_asm;
use std::sync::OnceLock;

use pulp::Simd;

use super::instructions;

/// The rows of a tile, and its registers across.
const ROWS: usize = 6;
const ACROSS: usize = 2;

/// Fewer rows than this are not worth the work on the rows that are not there.
const FEWEST_ROWS: usize = 4;

/// The sums of a tile: registers of four floats.
type Sums = [[[f32; 4]; ACROSS]; ROWS];

unsafe extern "C" {
    /// `sums[i][v] += rows[i][k · row_step] · across[v][k · across_step ..][..4]` for all `k` below `depth`, which is
    /// not zero. Steps are in bytes.
    fn bonfire_neon32_tile(
        depth: usize,
        rows: *const [*const f32; ROWS],
        row_step: usize,
        across: *const [*const f32; ACROSS],
        across_step: usize,
        sums: *mut Sums,
    );
}

// A product is rounded before it is added (`vmla`, not `vfma`), as the portable kernels do; and `vmla` alone takes one
// float for all lanes. Each of the six floats fills its register: to load half of one would wait for its other half.
global_asm!(
    ".syntax unified",
    ".arm",
    ".fpu neon",
    ".global bonfire_neon32_tile",
    ".hidden bonfire_neon32_tile",
    ".type bonfire_neon32_tile, %function",
    ".p2align 4",
    "bonfire_neon32_tile:",
    "push {{r4-r11, lr}}",
    "vpush {{d8-d15}}",
    // Behind what was pushed, 36 and 64 bytes, lie the last two arguments.
    "ldr r11, [sp, #100]",
    "ldr r12, [sp, #104]",
    "ldr r4, [r3]",
    "ldr r5, [r3, #4]",
    "vldm r12!, {{d8-d23}}",
    "vldm r12, {{d24-d31}}",
    "ldm r1, {{r1, r6, r7, r8, r9, r10}}",
    "2:",
    "vld1.32 {{d0, d1}}, [r4], r11",
    "vld1.32 {{d4[]}}, [r1], r2",
    "vld1.32 {{d2, d3}}, [r5], r11",
    "vld1.32 {{d5[]}}, [r6], r2",
    "vmla.f32 q4, q0, d4[0]",
    "vld1.32 {{d6[]}}, [r7], r2",
    "vmla.f32 q5, q1, d4[0]",
    "vld1.32 {{d7[]}}, [r8], r2",
    "vmla.f32 q6, q0, d5[0]",
    "vld1.32 {{d4[]}}, [r9], r2",
    "vmla.f32 q7, q1, d5[0]",
    "vld1.32 {{d5[]}}, [r10], r2",
    "vmla.f32 q8, q0, d6[0]",
    "vmla.f32 q9, q1, d6[0]",
    "vmla.f32 q10, q0, d7[0]",
    "vmla.f32 q11, q1, d7[0]",
    "subs r0, r0, #1",
    "vmla.f32 q12, q0, d4[0]",
    "vmla.f32 q13, q1, d4[0]",
    "vmla.f32 q14, q0, d5[0]",
    "vmla.f32 q15, q1, d5[0]",
    "bne 2b",
    "ldr r12, [sp, #104]",
    "vstm r12!, {{d8-d23}}",
    "vstm r12, {{d24-d31}}",
    "vpop {{d8-d15}}",
    "pop {{r4-r11, pc}}",
    ".size bonfire_neon32_tile, . - bonfire_neon32_tile",
);

/// What the sums of a tile run over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TileSums {
    pub depth: usize,
    /// The first float of the first row; rows start every `row` floats, and a row has one float every `row_step`.
    pub rows: *const f32,
    pub row: usize,
    pub row_step: usize,
    /// The first register; the other is `column` floats away, and both go on every `column_step` floats.
    pub across: *const f32,
    pub column: usize,
    pub column_step: usize,
}

/// Whether there is a kernel for sums of so many rows and registers across, and it may be used.
#[inline(always)]
pub(crate) fn is_for(rows: usize, across: usize) -> bool {
    across == ACROSS && (FEWEST_ROWS..=ROWS).contains(&rows) && is_used()
}

impl TileSums {
    /// Adds the products to sums of `M` rows and `V` registers, for which there must be a kernel ([`is_for`]).
    ///
    /// # Safety
    /// All that is read must be there: `depth` floats of `M` rows, and `depth` times two registers of four floats.
    #[inline(always)]
    pub(crate) unsafe fn add_to<S: Simd, const M: usize, const V: usize>(
        self,
        _: S,
        sums: &mut [[S::f32s; V]; M],
    ) {
        assert!(S::F32_LANES == 4 && is_for(M, V), "sums of {M} rows and {V} registers");
        let mut tile = Sums::default();
        // SAFETY: `tile` has at least as many registers as `sums`, all of four floats; the caller says that everything
        // is there that is read.
        unsafe {
            let here = sums.as_mut_ptr().cast::<f32>();
            std::ptr::copy_nonoverlapping(here, tile.as_mut_ptr().cast(), M * V * 4);
            self.add_to_tile(&mut tile, M);
            std::ptr::copy_nonoverlapping(tile.as_ptr().cast(), here, M * V * 4);
        }
    }

    /// The same for the first `count` rows of a tile; the sums of others become something.
    ///
    /// # Safety
    /// As above, and the machine must have NEON.
    unsafe fn add_to_tile(self, sums: &mut Sums, count: usize) {
        assert!(self.depth > 0 && (1..=ROWS).contains(&count), "a tile of {count} rows");
        // A row that is not there is the last one again.
        let rows = std::array::from_fn(|i| self.rows.wrapping_add(i.min(count - 1) * self.row));
        let across = [self.across, self.across.wrapping_add(self.column)];
        // SAFETY: the caller says that everything is there.
        unsafe {
            bonfire_neon32_tile(self.depth, &rows, 4 * self.row_step, &across, 4 * self.column_step, sums);
        }
    }
}

/// Whether this machine has NEON, by what the kernel says.
pub(crate) fn is_there() -> bool {
    const HWCAP_NEON: libc::c_ulong = 1 << 12;
    // SAFETY: reads a number that the kernel gave to this process.
    unsafe { libc::getauxval(libc::AT_HWCAP) & HWCAP_NEON != 0 }
}

/// Whether it is there, and nobody has asked for less.
#[inline]
pub(crate) fn is_used() -> bool {
    static USED: OnceLock<bool> = OnceLock::new();
    *USED.get_or_init(|| is_there() && !instructions::is_portable_asked_for())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tile_is_what_its_definition_says() {
        if !is_there() {
            return;
        }
        let floats: Vec<f32> = (0..400).map(|i| (i * 37 % 101) as f32 / 64.0 - 0.75).collect();
        let (a, b) = (&floats[..100], &floats[100..]);
        for (depth, count, row, row_step) in [(1, 6, 1, 6), (7, 6, 1, 7), (9, 4, 10, 1), (3, 5, 3, 15)] {
            let tile = TileSums {
                depth,
                rows: a.as_ptr(),
                row,
                row_step,
                across: b.as_ptr(),
                column: 11,
                column_step: 17,
            };
            let mut sums = [[[0.5; 4]; ACROSS]; ROWS];
            // SAFETY: the largest places are 5 + 6 · 7 and 11 + 8 · 17 + 3.
            unsafe { tile.add_to_tile(&mut sums, count) };
            for (i, v, lane) in (0..count * 8).map(|n| (n / 8, n / 4 % 2, n % 4)) {
                let product = |k: usize| a[i * row + k * row_step] * b[v * 11 + k * 17 + lane];
                let expect = (0..depth).fold(0.5, |sum, k| sum + product(k));
                assert_eq!(sums[i][v][lane], expect, "{count} rows, {depth} deep, at {i}, {v}, {lane}");
            }
        }
    }
}
