//! Sums among equals: every member of a ring sends to its right neighbour and receives from its left one.
//!
//! A buffer is cut into as many segments as there are members. A segment starts at its member, and at every hop the next
//! one adds its own part, until it has gone around; the whole sum then goes around once more to be kept by everybody. So
//! each member sends and receives 2 (n - 1) / n of the buffer, every segment is added in one order, and all members end
//! with the same bits. Segments travel in pieces, so that a piece is on its way while the next is
//! added; a member deals with each as it comes.

use std::ops::Range;
use std::sync::Arc;

use bonfire_learn::kernels::vectorized;
use bonfire_wire::proto::frame::Body;
use bonfire_wire::{Closed, Frame, Outbox, Pool, proto};
use bytes::Bytes;

/// One member's place in a ring, for one exchange after the other.
pub struct Circle<'a, E> {
    pub index: usize,
    pub members: usize,
    pub right: &'a Outbox,
    /// The next piece from the left neighbour.
    pub receive: &'a mut dyn FnMut() -> Result<(proto::Piece, Bytes), E>,
    /// Counts exchanges, so that a piece of one is never taken for one of another.
    pub generation: u64,
    pub round: u64,
    pub pool: &'a Pool,
}

/// A way for members to hear each other: around a ring, or by MPI.
pub trait Gather<E> {
    /// What every member has, in the order of the members. All have as many bytes.
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E>;
}

/// How many floats travel in one piece, at most. With its head it just fits into what HTTP/2 reads at once, a mebibyte:
/// what comes whole need not be copied, and every piece costs hand-overs from thread to thread.
const PIECE: usize = 255 << 10;

/// And at least, unless there are no more.
const SMALL_PIECE: usize = 8 << 10;

/// How many pieces of its own a member sends before the first one has come from the left.
const AHEAD: usize = 4;

/// No piece of vectors of so many numbers has more bytes: one has all of a member's, where all hear all, and its weight.
pub fn most_bytes(numbers: usize) -> usize {
    (numbers + 1).saturating_mul(4).max(PIECE * 4)
}

impl<E: From<Closed>> Circle<'_, E> {
    /// Replaces the buffer by its sum over all members. All have buffers of one length. `spare` is memory to use, and
    /// again afterwards.
    pub fn sum(&mut self, buffer: &mut Vec<f32>, spare: &mut Vec<f32>) -> Result<(), E> {
        if self.members == 1 || buffer.is_empty() {
            return Ok(());
        }
        // What is sent from it must not change until it has been read; so the sums go elsewhere.
        let own = Arc::new(std::mem::take(buffer));
        spare.resize(own.len(), 0.0);
        self.go_around(&own, spare)?;
        *buffer = std::mem::take(spare);
        *spare = Arc::try_unwrap(own).unwrap_or_default();
        Ok(())
    }

    fn go_around(&mut self, own: &Arc<Vec<f32>>, sums: &mut [f32]) -> Result<(), E> {
        let (n, len) = (self.members, own.len());
        let piece = (len / n / 4).clamp(SMALL_PIECE, PIECE);
        let hops = 2 * (n - 1);
        // Segment `k` in pieces.
        let pieces = |k: usize| {
            let (start, end) = (len * k / n, len * (k + 1) / n);
            (start..end).step_by(piece).map(move |at| at..(at + piece).min(end))
        };
        let mut first = pieces(self.index);
        for part in first.by_ref().take(AHEAD) {
            self.send(0, part.start, in_place(own, part))?;
        }
        // Each segment but one comes by twice: on its way to be summed, and on its way to be kept.
        let coming = (0..hops).map(|hop| pieces((self.index + 2 * n - hop - 1) % n).count()).sum::<usize>();
        // On a link nothing overtakes, so that the pieces of a hop come in their order.
        let mut awaited: Vec<_> = (0..hops).map(|hop| pieces((self.index + 2 * n - hop - 1) % n)).collect();
        for _ in 0..coming {
            if let Some(part) = first.next() {
                self.send(0, part.start, in_place(own, part))?;
            }
            let (hop, start, arrived) = self.piece()?;
            let end = start + arrived.len() / 4;
            let next = awaited.get_mut(hop).and_then(Iterator::next);
            if next != Some(start..end) || !arrived.len().is_multiple_of(4) {
                // A neighbour with another buffer is none.
                return Err(Closed.into());
            }
            let onward = match hop {
                _ if hop + 2 < n => added(self.pool, &arrived, &own[start..end]),
                _ if hop + 2 == n => summed(self.pool, &arrived, &own[start..end], &mut sums[start..end]),
                _ => {
                    keep(&arrived, &mut sums[start..end]);
                    arrived
                }
            };
            if hop + 1 < hops {
                self.send(hop + 1, start, onward)?;
            }
        }
        Ok(())
    }

    fn send(&self, hop: usize, index: usize, payload: Bytes) -> Result<(), E> {
        let piece = proto::Piece {
            generation: self.generation,
            round: self.round,
            step: hop as u32,
            index: index as u32,
        };
        Ok(self.right.send(Frame { body: Body::Piece(piece), payload })?)
    }

    /// The next piece of this exchange: its hop, where it belongs, and its content. What is not of this exchange is left
    /// over from one that broke off.
    fn piece(&mut self) -> Result<(usize, usize, Bytes), E> {
        loop {
            let (piece, payload) = (self.receive)()?;
            if (piece.generation, piece.round) == (self.generation, self.round) {
                return Ok((piece.step as usize, piece.index as usize, payload));
            }
        }
    }
}

impl<E: From<Closed>> Gather<E> for Circle<'_, E> {
    fn gather(&mut self, own: Bytes) -> Result<Vec<Bytes>, E> {
        let n = self.members;
        let mut all = vec![Bytes::new(); n];
        let mut onward = own;
        for hop in 0..n {
            let from = (self.index + n - hop) % n;
            all[from] = onward.clone();
            if hop + 1 < n {
                self.send(hop, from, onward)?;
                let (step, index, arrived) = self.piece()?;
                if (step, index) != (hop, (from + n - 1) % n) {
                    return Err(Closed.into());
                }
                onward = arrived;
            }
        }
        Ok(all)
    }
}

/// A part of a buffer as bytes, where it lies.
fn in_place(buffer: &Arc<Vec<f32>>, part: Range<usize>) -> Bytes {
    struct Owner(Arc<Vec<f32>>);
    impl AsRef<[u8]> for Owner {
        fn as_ref(&self) -> &[u8] {
            bytemuck::cast_slice(&self.0)
        }
    }
    if cfg!(target_endian = "big") {
        return buffer[part].iter().flat_map(|float| float.to_le_bytes()).collect();
    }
    Bytes::from_owner(Owner(Arc::clone(buffer))).slice(part.start * 4..part.end * 4)
}

fn added(pool: &Pool, bytes: &[u8], floats: &[f32]) -> Bytes {
    let mut buffer = pool.take(bytes.len());
    let sums = buffer.as_mut().as_chunks_mut().0;
    vectorized(
        #[inline(always)]
        || {
            for ((sum, bytes), float) in sums.iter_mut().zip(bytes.as_chunks().0).zip(floats) {
                *sum = (f32::from_le_bytes(*bytes) + float).to_le_bytes();
            }
        },
    );
    buffer.freeze()
}

/// The same, and the sums stay here too: nobody has more to add to them.
fn summed(pool: &Pool, bytes: &[u8], floats: &[f32], kept: &mut [f32]) -> Bytes {
    let mut buffer = pool.take(bytes.len());
    let sums = buffer.as_mut().as_chunks_mut().0;
    vectorized(
        #[inline(always)]
        || {
            let floats = floats.iter().zip(kept);
            for ((sum, bytes), (float, kept)) in sums.iter_mut().zip(bytes.as_chunks().0).zip(floats) {
                *kept = f32::from_le_bytes(*bytes) + float;
                *sum = kept.to_le_bytes();
            }
        },
    );
    buffer.freeze()
}

fn keep(bytes: &[u8], floats: &mut [f32]) {
    let place: &mut [u8] = bytemuck::cast_slice_mut(floats);
    place.copy_from_slice(bytes);
    swap_if_big_endian(place);
}

/// Turns floats as this machine has them into little-endian ones, or back.
fn swap_if_big_endian(floats: &mut [u8]) {
    if cfg!(target_endian = "big") {
        floats.as_chunks_mut::<4>().0.iter_mut().for_each(|float| float.reverse());
    }
}

/// Combines gradients so that those that point the same way are averaged, and those at right angles are added: `(1 - a·b /
/// 2|a|²) a + (1 - a·b / 2|b|²) b`, in pairs, then pairs of pairs; an odd one waits for the next turn. Each has the vectors
/// of one tensor; the result is left in the first.
pub fn adasum(vectors: &mut Vec<Vec<f32>>) {
    while vectors.len() > 1 {
        let mut pairs = std::mem::take(vectors).into_iter();
        while let Some(mut a) = pairs.next() {
            if let Some(b) = pairs.next() {
                combine(&mut a, &b);
            }
            vectors.push(a);
        }
    }
}

fn combine(a: &mut [f32], b: &[f32]) {
    let dot = |a: &[f32], b: &[f32]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * f64::from(*b)).sum::<f64>();
    let (ab, aa, bb) = (dot(a, b), dot(a, a), dot(b, b));
    // A vector of nothing adds nothing, and takes nothing from the other.
    let share = |square: f64| if square > 0.0 { (1.0 - ab / (2.0 * square)) as f32 } else { 1.0 };
    let (of_a, of_b) = (share(aa), share(bb));
    for (a, b) in a.iter_mut().zip(b) {
        *a = of_a * *a + of_b * b;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_wire::{Incoming, memory_link};
    use std::sync::mpsc::{Receiver, sync_channel};
    use std::time::Duration;

    /// Runs one member a thread, connected in a ring over memory, and returns what each has in the end.
    fn around(members: usize, member: impl Fn(Circle<'_, Closed>) -> Vec<f32> + Sync) -> Vec<Vec<f32>> {
        let (mut rights, mut lefts): (Vec<Outbox>, Vec<Receiver<Incoming>>) = (Vec::new(), Vec::new());
        for _ in 0..members {
            let (sender, receiver) = sync_channel(1024);
            let deliver = Box::new(move |incoming| drop(sender.send(incoming)));
            let (out, _back) = memory_link(Box::new(|_| ()), deliver);
            // The back end must live as long as the link is used.
            std::mem::forget(_back);
            rights.push(out);
            lefts.push(receiver);
        }
        lefts.rotate_right(1);
        std::thread::scope(|scope| {
            let threads: Vec<_> = lefts
                .into_iter()
                .enumerate()
                .map(|(index, left)| {
                    let (right, member) = (&rights[index], &member);
                    scope.spawn(move || {
                        let mut receive = || match left.recv_timeout(Duration::from_secs(20)) {
                            Ok(Incoming::Frame(Frame { body: Body::Piece(piece), payload })) => {
                                Ok((piece, payload))
                            }
                            other => panic!("no piece but {other:?}"),
                        };
                        let pool = Pool::default();
                        member(Circle {
                            index,
                            members,
                            right,
                            receive: &mut receive,
                            generation: 1,
                            round: 1,
                            pool: &pool,
                        })
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().expect("a member")).collect()
        })
    }

    #[test]
    fn all_members_end_with_the_same_sum() {
        for members in 1..=5 {
            for len in [0, 1, 3, 7, 1000, 70_001, 1_000_003] {
                let value = |member: usize, i: usize| ((i * 31 + member * 17) % 101) as f32 - 50.0;
                let ends = around(members, |mut circle| {
                    let mut buffer: Vec<f32> = (0..len).map(|i| value(circle.index, i)).collect();
                    circle.sum(&mut buffer, &mut Vec::new()).expect("a sum");
                    buffer
                });
                let expect: Vec<f32> =
                    (0..len).map(|i| (0..members).map(|member| value(member, i)).sum()).collect();
                // These sums are exact, whatever their order.
                assert!(ends.iter().all(|end| *end == expect), "{members} members, {len} floats");
            }
        }
    }

    #[test]
    fn rounding_is_the_same_for_all() {
        let ends = around(4, |mut circle| {
            let mut buffer: Vec<f32> =
                (0..10_007).map(|i| ((i * 7919 + circle.index * 104_729) as f32).sin() / 3.0).collect();
            circle.sum(&mut buffer, &mut Vec::new()).expect("a sum");
            buffer
        });
        assert!(ends.iter().all(|end| *end == ends[0]));
    }

    #[test]
    fn everybody_hears_everybody() {
        for members in 1..=4 {
            let ends = around(members, |mut circle| {
                let own = Bytes::from(vec![circle.index as u8; circle.index + 1]);
                let all = circle.gather(own).expect("all");
                all.iter().enumerate().for_each(|(i, bytes)| assert_eq!(*bytes, vec![i as u8; i + 1]));
                vec![all.len() as f32]
            });
            assert_eq!(ends, vec![vec![members as f32]; members]);
        }
    }

    #[test]
    fn adasum_averages_what_is_parallel_and_adds_what_is_not() {
        let check = |vectors: &[[f32; 2]], expect: [f32; 2]| {
            let mut vectors: Vec<Vec<f32>> = vectors.iter().map(|vector| vector.to_vec()).collect();
            adasum(&mut vectors);
            let found = &vectors[0];
            assert!(
                found.iter().zip(expect).all(|(found, expect)| (found - expect).abs() < 1e-6),
                "{found:?}"
            );
        };
        check(&[[2.0, 4.0]], [2.0, 4.0]);
        check(&[[2.0, 4.0], [2.0, 4.0]], [2.0, 4.0]);
        check(&[[2.0, 0.0], [0.0, 4.0]], [2.0, 4.0]);
        check(&[[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]], [1.0, 1.0]);
        check(&[[0.0, 0.0], [1.0, 2.0], [0.0, 0.0]], [1.0, 2.0]);
        // Opposite ones of the same length: each is one and a half times as large.
        check(&[[2.0, 0.0], [-2.0, 0.0]], [0.0, 0.0]);
    }
}
