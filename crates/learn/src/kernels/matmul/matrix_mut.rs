//! A matrix that is being written: where a product goes.

use std::marker::PhantomData;
use std::ops::Range;

use super::Matrix;

/// Some columns of some rows of a matrix that is being written. Two parts side by side can be written at once, although
/// their rows alternate in memory: two slices could not be split so.
pub(super) struct MatrixMut<'a> {
    /// The first float.
    start: *mut f32,
    rows: usize,
    columns: usize,
    stride: usize,
    borrowed: PhantomData<&'a mut [f32]>,
}

// SAFETY: a `MatrixMut` stands for a mutable borrow of its floats, of which there is no other.
unsafe impl Send for MatrixMut<'_> {}

impl<'a> MatrixMut<'a> {
    /// The place of the product of two matrices in `c`, whose rows start every `stride` floats.
    pub(super) fn of(c: &'a mut [f32], stride: usize, a: Matrix<'_>, b: Matrix<'_>) -> Self {
        let (rows, columns) = (a.rows, b.columns);
        assert_eq!(a.columns, b.rows, "a {rows}×{} matrix cannot multiply one of {} rows", a.columns, b.rows);
        let fits =
            rows == 0 || columns == 0 || (columns <= stride && (rows - 1) * stride + columns <= c.len());
        assert!(fits, "the product {rows}×{columns} does not fit");
        Self { start: c.as_mut_ptr(), rows, columns, stride, borrowed: PhantomData }
    }

    /// The columns before one, and those from it on.
    pub(super) fn split(self, column: usize) -> (Self, Self) {
        assert!(column <= self.columns, "a matrix is split within its columns");
        // A product without rows or columns may have no floats at all: its place is never used.
        let right = Self { start: self.start.wrapping_add(column), columns: self.columns - column, ..self };
        (Self { columns: column, ..self }, right)
    }

    /// Some rows of some columns.
    #[inline(always)]
    pub(super) fn part(&mut self, rows: Range<usize>, columns: Range<usize>) -> MatrixMut<'_> {
        assert!(rows.start <= rows.end && rows.end <= self.rows, "rows of the matrix");
        assert!(columns.start <= columns.end && columns.end <= self.columns, "columns of the matrix");
        MatrixMut {
            start: self.start.wrapping_add(rows.start * self.stride + columns.start),
            rows: rows.len(),
            columns: columns.len(),
            ..*self
        }
    }

    #[inline(always)]
    pub(super) fn rows(&self) -> usize {
        self.rows
    }

    #[inline(always)]
    pub(super) fn columns(&self) -> usize {
        self.columns
    }

    /// The first float, and how far apart rows are. Of each row, `columns` floats may be read and written.
    #[inline(always)]
    pub(super) fn floats(&mut self) -> (*mut f32, usize) {
        (self.start, self.stride)
    }

    /// Makes everything zero.
    pub(super) fn clear(&mut self) {
        for row in 0..self.rows {
            for column in 0..self.columns {
                // SAFETY: the place lies in the rows and columns that the matrix stands for.
                unsafe { *self.start.add(row * self.stride + column) = 0.0 };
            }
        }
    }
}
