//! A model's vectors cut into chunks: what travels, is summed, and comes back, one at a time.

use std::ops::Range;

use bonfire_learn::layout::{Layout, TensorKind};
use bonfire_payload::{Precision, Schema, Section};

/// A layout in chunks. All nodes of a run cut it alike.
#[derive(Clone, Debug)]
pub struct Chunks {
    list: Vec<Chunk>,
}

/// A stretch of the flat vector.
#[derive(Clone, Debug)]
pub struct Chunk {
    pub range: Range<usize>,
    /// What lies in it, in order and without gaps.
    pub stretches: Vec<Stretch>,
    /// The same for payloads, counted from the beginning of the chunk.
    pub schema: Schema,
}

/// What a chunk has of one tensor.
#[derive(Clone, Debug)]
pub struct Stretch {
    pub tensor: usize,
    pub kind: TensorKind,
    /// In the flat vector.
    pub range: Range<usize>,
    /// Where the tensor begins there.
    pub start: usize,
}

/// Into about so many chunks a vector is cut, so that every member of a group has some of its own, and the first ones
/// are on their way back while the last ones leave. Every frame takes processors time, so there are no more; and 48 are
/// shared out evenly among 2, 3, 4, 6, 8, 12 and 16 members.
const WANTED: usize = 48;

/// The floats of a chunk. A smaller one is not worth its frame. Of larger ones those that are on their way do not fit
/// into the cache together.
const FLOATS: (usize, usize) = (4 << 10, 90 << 10);

/// So many for every member are few.
const FEW: usize = 4;

/// Of a table few rows travel, so that so many of its floats count like one that always travels.
const ROW_FLOATS: usize = 8;

impl Chunks {
    /// Cuts a layout.
    pub fn of(layout: &Layout) -> Self {
        Self::some(layout, WANTED)
    }

    /// Cuts it into few chunks for so many members.
    pub fn few(layout: &Layout, members: usize) -> Self {
        Self::some(layout, WANTED.min(FEW * members))
    }

    /// About so many.
    fn some(layout: &Layout, wanted: usize) -> Self {
        let (least, most) = FLOATS;
        let load: usize =
            layout.tensors().iter().map(|tensor| tensor.range.len().div_ceil(share(tensor.kind))).sum();
        Self::with_size(layout, (load / wanted).clamp(least, most))
    }

    /// Cuts a layout into chunks that load a link like about so many floats: a row of a table is not cut.
    fn with_size(layout: &Layout, size: usize) -> Self {
        let mut list = Vec::new();
        let mut stretches: Vec<Stretch> = Vec::new();
        let (mut load, mut floats) = (0, 0);
        for (tensor, of) in layout.tensors().iter().enumerate() {
            let (share, grain) = match of.kind {
                TensorKind::Rows { width } => (share(of.kind), width),
                TensorKind::Dense | TensorKind::Buffer => (1, 1),
            };
            let mut at = of.range.start;
            while at < of.range.end {
                let room = ((size - load) * share).min(size.max(FLOATS.1) - floats);
                let end = of.range.end.min(at + room.next_multiple_of(grain));
                stretches.push(Stretch { tensor, kind: of.kind, range: at..end, start: of.range.start });
                load += (end - at).div_ceil(share);
                floats += end - at;
                at = end;
                if load >= size || floats >= FLOATS.1 {
                    list.push(Chunk::new(std::mem::take(&mut stretches)));
                    (load, floats) = (0, 0);
                }
            }
        }
        if !stretches.is_empty() {
            list.push(Chunk::new(stretches));
        }
        Self { list }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.list.len()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Chunk> {
        self.list.iter()
    }

    /// No chunk has more bytes on its way.
    pub fn most_bytes(&self) -> usize {
        self.list.iter().map(Chunk::most_bytes).max().unwrap_or(0)
    }
}

impl std::ops::Index<usize> for Chunks {
    type Output = Chunk;

    fn index(&self, index: usize) -> &Chunk {
        &self.list[index]
    }
}

impl Chunk {
    fn new(stretches: Vec<Stretch>) -> Self {
        let start = stretches.first().map_or(0, |first| first.range.start);
        let end = stretches.last().map_or(start, |last| last.range.end);
        let part = |stretch: &Stretch| {
            let range = stretch.range.start - start..stretch.range.end - start;
            match stretch.kind {
                TensorKind::Dense => Section::Dense { range },
                TensorKind::Buffer => Section::Exact { range },
                TensorKind::Rows { width } => Section::Rows { range, width },
            }
        };
        let schema = Schema::new(stretches.iter().map(part).collect());
        Self { range: start..end, stretches, schema }
    }

    /// How many floats that always travel would load a link as much.
    pub fn load(&self) -> usize {
        self.stretches.iter().map(|stretch| stretch.range.len().div_ceil(share(stretch.kind))).sum()
    }

    /// It never has more bytes on its way.
    pub fn most_bytes(&self) -> usize {
        self.schema.most_bytes(Precision::F32)
    }

    /// Whether all of its values travel whatever was touched, so that in full precision they need no schema.
    pub fn is_plain(&self) -> bool {
        !self.stretches.iter().any(|stretch| matches!(stretch.kind, TensorKind::Rows { .. }))
    }
}

/// How many floats of a tensor load a link as much as one that always travels.
fn share(kind: TensorKind) -> usize {
    match kind {
        TensorKind::Rows { .. } => ROW_FLOATS,
        TensorKind::Dense | TensorKind::Buffer => 1,
    }
}

impl Stretch {
    /// The rows of its table that lie in it.
    pub fn rows(&self, width: usize) -> Range<u32> {
        ((self.range.start - self.start) / width) as u32..((self.range.end - self.start) / width) as u32
    }

    /// Its place in its tensor.
    pub fn within(&self) -> Range<usize> {
        self.range.start - self.start..self.range.end - self.start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;

    #[track_caller]
    fn check_cover(chunks: &Chunks, layout: &Layout) {
        let mut at = 0;
        for stretch in chunks.iter().flat_map(|chunk| &chunk.stretches) {
            assert_eq!(stretch.range.start, at);
            assert!(!stretch.range.is_empty());
            if let TensorKind::Rows { width } = stretch.kind {
                assert!(stretch.within().start.is_multiple_of(width));
                assert!(stretch.range.len().is_multiple_of(width));
            }
            at = stretch.range.end;
        }
        assert_eq!(at, layout.len());
    }

    #[test]
    fn few_chunks_are_some_for_every_member_or_as_large_as_may_be() {
        let layout = |floats: usize| {
            let mut layout = Layout::default();
            layout.rows("table".into(), floats / 64, 32, Init::Constant(0.0));
            layout.vector("a".into(), floats / 2, Init::Constant(0.0));
            layout
        };
        let counts = |floats: usize, members: usize| {
            let (layout, most) = (layout(floats), FLOATS.1 + 32);
            let [all, few] = [Chunks::of(&layout), Chunks::few(&layout, members)];
            check_cover(&few, &layout);
            assert!(few.iter().all(|chunk| chunk.range.len() <= most));
            (few.count(), all.count())
        };
        assert_eq!(counts(1 << 19, 4), (17, 48));
        assert_eq!(counts(1 << 19, 16), (48, 48));
        assert_eq!(counts(1 << 10, 4), (1, 1));
        let (few, all) = counts(1 << 25, 4);
        assert_eq!(few, all, "none is larger");
    }

    #[test]
    fn chunks_cover_everything_once_and_cut_no_row() {
        for (rows, width, dense) in [(50, 7, 1000), (0, 3, 10), (1, 100, 0), (200, 1, 33)] {
            let mut layout = Layout::default();
            layout.vector("a".into(), dense, Init::Constant(0.0));
            layout.rows("table".into(), rows, width, Init::Constant(0.0));
            layout.vector("b".into(), 5, Init::Constant(0.0));
            layout.buffer("mean".into(), dense / 2, Init::Constant(0.0));
            for size in [1, 10, 64, 10_000] {
                let chunks = Chunks::with_size(&layout, size);
                check_cover(&chunks, &layout);
                assert!(chunks.iter().all(|chunk| chunk.load() < size + width.max(1)));
            }
        }
    }
}
