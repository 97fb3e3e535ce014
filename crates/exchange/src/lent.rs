//! Gradients that are sent from where they lie.

use std::ops::{Deref, Range};
use std::sync::Arc;

use bonfire_learn::Gradient;
use bytes::Bytes;

/// A member's own gradient in an exchange.
#[derive(Clone, Copy, Debug)]
pub(crate) enum OwnGradient<'a> {
    /// Some of it is still being computed: what leaves of it is copied.
    InWork(&'a Gradient),
    /// Nobody writes it any more.
    Done(&'a Arc<Gradient>),
}

impl Deref for OwnGradient<'_> {
    type Target = Gradient;

    fn deref(&self) -> &Gradient {
        match self {
            Self::InWork(gradient) => gradient,
            Self::Done(gradient) => gradient,
        }
    }
}

/// Values of a gradient on their way, as they are in memory.
#[derive(Debug)]
pub(crate) struct LentChunk {
    gradient: Arc<Gradient>,
    range: Range<usize>,
}

impl LentChunk {
    pub(crate) fn of(gradient: &Arc<Gradient>, range: Range<usize>) -> Bytes {
        Bytes::from_owner(Self { gradient: Arc::clone(gradient), range })
    }
}

impl AsRef<[u8]> for LentChunk {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.gradient.values[self.range.clone()])
    }
}

/// Gradients of which a link may not have let go yet. When all sums are here, all has been received; what is left then
/// is the moment until the link's thread goes on.
#[derive(Debug, Default)]
pub(crate) struct LentGradients(Vec<Arc<Gradient>>);

impl LentGradients {
    /// Takes a gradient that was lent, and returns one that nobody reads: after some exchanges without new memory.
    pub(crate) fn replace(&mut self, lent: Arc<Gradient>, model: &Gradient) -> Gradient {
        self.0.push(lent);
        let free = self.0.iter_mut().position(|lent| Arc::get_mut(lent).is_some());
        let free = free.and_then(|place| Arc::into_inner(self.0.swap_remove(place)));
        free.unwrap_or_else(|| model.clone())
    }
}

#[cfg(test)]
mod tests {
    use bonfire_learn::Layout;
    use bonfire_learn::layout::Init;

    use super::*;

    #[test]
    fn what_somebody_still_reads_is_not_given_away() {
        let mut layout = Layout::default();
        layout.vector("weights".into(), 8, Init::Constant(0.0));
        let mut gradient = Gradient::new(&layout);
        gradient.values.fill(2.0);
        let (place, model) = (gradient.values.as_ptr(), Gradient::new(&layout));
        let mut lent = LentGradients::default();
        let own = Arc::new(gradient);
        let chunk = LentChunk::of(&own, 2..4);
        assert_eq!(chunk.as_ptr(), own.values[2..].as_ptr().cast(), "nothing is copied");
        let mut next = lent.replace(own, &model);
        assert_ne!(next.values.as_ptr(), place, "the chunk is on its way");
        next.values.fill(3.0);
        assert_eq!(chunk, bytemuck::cast_slice::<f32, u8>(&[2.0; 2])[..]);
        drop(chunk);
        assert_eq!(lent.replace(Arc::new(next), &model).values.as_ptr(), place, "it has come");
    }
}
