//! The state of a replica on its way: in pieces of bounded size, each asked for by who takes it.
//!
//! Who takes a state asks for some pieces ahead, and for the next one whenever one has come. So nobody sends more than
//! the other side takes, whatever comes in between is not held up, and no frame grows with the model.

use anyhow::{Result, ensure};
use bonfire_run::replica::Replica;
use bonfire_wire::proto;
use bytes::Bytes;

use crate::floats_to_bytes;

/// How many parameters travel in one piece, each with its moments. A whole number of the blocks of an update.
pub const PIECE: usize = 1 << 16;

/// How many pieces are asked for ahead.
const AHEAD: usize = 4;

/// No piece of a state has more bytes: an optimiser has at most two moments, an outer step at most a velocity.
pub const MOST_BYTES: usize = PIECE * 4 * 4;

/// A copy of a replica's state after a round.
#[derive(Debug)]
pub struct Snapshot {
    pub round: u64,
    steps: u64,
    /// The parameters, then each moment, then the velocity of the outer step.
    vectors: Vec<Vec<f32>>,
    /// Whether its last piece was asked for.
    pub is_given: bool,
}

impl Snapshot {
    pub fn of(replica: &Replica, round: u64) -> Self {
        let vectors = std::iter::once(&replica.parameters).chain(replica.memory()).cloned().collect();
        Self { round, steps: replica.optimizer.steps(), vectors, is_given: false }
    }

    /// The piece that is asked for.
    pub fn piece(&mut self, wanted: &proto::StateWanted) -> (proto::State, Bytes) {
        self.is_given |= wanted.offset.saturating_add(PIECE as u64) >= self.vectors[0].len() as u64;
        let vectors: Vec<&[f32]> = self.vectors.iter().map(Vec::as_slice).collect();
        piece(&vectors, self.round, self.steps, wanted)
    }
}

/// The piece of a replica's state that is asked for. The replica has done `round`.
pub fn piece_of(replica: &Replica, round: u64, wanted: &proto::StateWanted) -> (proto::State, Bytes) {
    let vectors = std::iter::once(&replica.parameters).chain(replica.memory());
    let vectors: Vec<&[f32]> = vectors.map(Vec::as_slice).collect();
    piece(&vectors, round, replica.optimizer.steps(), wanted)
}

/// The moments of a replica's optimiser alone, piece after piece.
pub fn moments_of(replica: &Replica) -> impl Iterator<Item = (proto::State, Bytes)> {
    let moments: Vec<&[f32]> = replica.optimizer.moments().iter().map(Vec::as_slice).collect();
    let len = moments.first().map_or(0, |moment| moment.len());
    let steps = replica.optimizer.steps();
    (0..len).step_by(PIECE).map(move |start| {
        let range = start..len.min(start + PIECE);
        let state = proto::State { round: 0, steps, moments: moments.len() as u32, offset: start as u64 };
        (state, floats_to_bytes(moments.iter().map(|moment| &moment[range.clone()])))
    })
}

/// The moments of another replica's optimiser, on their way.
#[derive(Debug)]
pub struct Moments {
    steps: u64,
    have: usize,
    vectors: Vec<Vec<f32>>,
}

impl Moments {
    /// Of an optimiser like that of a replica.
    pub fn like(replica: &Replica) -> Self {
        let vectors = replica.optimizer.moments().iter().map(|moment| vec![0.0; moment.len()]).collect();
        Self { steps: 0, have: 0, vectors }
    }

    /// Puts a piece in its place. One that does not follow the others is passed over.
    pub fn take(&mut self, state: &proto::State, payload: &[u8]) {
        if state.offset == 0 {
            // Perhaps another one's, in the place of one that is lost.
            self.have = 0;
        }
        let len = self.vectors.first().map_or(0, Vec::len);
        let range = self.have..len.min(self.have + PIECE);
        let bytes = range.len() * 4;
        if bytes == 0 || state.offset != self.have as u64 || payload.len() != bytes * self.vectors.len() {
            return;
        }
        for (vector, payload) in self.vectors.iter_mut().zip(payload.chunks(bytes)) {
            copy_floats(payload, &mut vector[range.clone()]);
        }
        (self.have, self.steps) = (range.end, state.steps);
    }

    /// Gives them to a replica if they are whole, and numbers.
    pub fn give(self, replica: &mut Replica) {
        let is_whole = self.vectors.first().is_some_and(|moment| moment.len() == self.have);
        if is_whole && self.vectors.iter().flatten().all(|value| value.is_finite()) {
            // They are of the same sizes.
            let _ = replica.optimizer.restore(self.steps, self.vectors);
        }
    }
}

/// The answer to who asks for a state that is not here.
pub fn nothing(wanted: &proto::StateWanted) -> proto::State {
    proto::State { round: wanted.round, offset: wanted.offset, ..proto::State::default() }
}

fn piece(vectors: &[&[f32]], round: u64, steps: u64, wanted: &proto::StateWanted) -> (proto::State, Bytes) {
    let vectors = if wanted.parameters_only { &vectors[..1] } else { vectors };
    let len = vectors[0].len();
    let start = usize::try_from(wanted.offset).unwrap_or(len).min(len);
    let range = start..len.min(start.saturating_add(PIECE));
    let moments = vectors.len() as u32 - 1;
    let state = proto::State { round, steps, moments, offset: start as u64 };
    (state, floats_to_bytes(vectors.iter().map(|vector| &vector[range.clone()])))
}

/// A state that is being taken, from its beginning to its end.
#[derive(Clone, Copy, Debug)]
pub struct Intake {
    /// Which round's; 0 until it is known, where that is left to who has it.
    pub round: u64,
    parameters_only: bool,
    /// Pieces may be of different rounds: updates that come in between bring those that are here up to date.
    is_moving: bool,
    /// How much was asked for.
    asked: usize,
    /// How much has come.
    pub have: usize,
    len: usize,
}

impl Intake {
    /// The state of a round; of whichever round it is, if that is 0.
    pub fn new(replica: &Replica, round: u64, parameters_only: bool) -> Self {
        let len = replica.parameters.len();
        Self { round, parameters_only, is_moving: false, asked: 0, have: 0, len }
    }

    /// A state of which every piece is as new as it can be.
    pub fn moving(replica: &Replica) -> Self {
        Self { is_moving: true, ..Self::new(replica, 0, false) }
    }

    /// How many more pieces there are to take.
    pub fn left(&self) -> usize {
        (self.len - self.have).div_ceil(PIECE)
    }

    /// What to ask for now.
    pub fn wanted(&mut self) -> Vec<proto::StateWanted> {
        let mut wanted = Vec::new();
        // Until it is known which round's it is, one piece.
        let ahead = if self.round == 0 && !self.is_moving { 1 } else { AHEAD };
        while self.asked < self.len && self.asked < self.have + ahead * PIECE {
            let Self { round, parameters_only, asked, .. } = *self;
            wanted.push(proto::StateWanted { round, offset: asked as u64, parameters_only });
            self.asked += PIECE.min(self.len - asked);
        }
        wanted
    }

    pub fn is_whole(&self) -> bool {
        self.have == self.len
    }

    /// Puts a piece in its place. One that is of no use now is passed over; one that does not fit is an error and
    /// changes nothing.
    pub fn take(&mut self, replica: &mut Replica, state: &proto::State, payload: &[u8]) -> Result<()> {
        if self.is_whole()
            || state.offset != self.have as u64
            || (self.round != 0 && state.round != self.round)
        {
            return Ok(());
        }
        let moments = if self.parameters_only { 0 } else { replica.memory().count() };
        ensure!(
            state.moments as usize == moments,
            "a state with {} moments is of another optimiser",
            state.moments
        );
        let range = self.have..self.len.min(self.have + PIECE);
        let bytes = range.len() * 4;
        ensure!(payload.len() == bytes * (1 + moments), "a piece of {} bytes does not fit", payload.len());
        copy_floats(&payload[..bytes], &mut replica.parameters[range.clone()]);
        if !self.parameters_only {
            let vectors = replica.restore_part(state.steps);
            for (vector, payload) in vectors.zip(payload[bytes..].chunks(bytes)) {
                copy_floats(payload, &mut vector[range.clone()]);
            }
        }
        if !self.is_moving {
            self.round = state.round;
        }
        self.have = range.end;
        Ok(())
    }
}

fn copy_floats(bytes: &[u8], into: &mut [f32]) {
    for (value, bytes) in into.iter_mut().zip(bytes.as_chunks().0) {
        *value = f32::from_le_bytes(*bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bonfire_learn::layout::Init;
    use bonfire_learn::{Layout, OptimizerSpec};

    fn replica(len: usize, seed: u64) -> Replica {
        let mut layout = Layout::default();
        layout.vector("all".into(), len, Init::Uniform(1.0));
        Replica::new(&layout, OptimizerSpec::default(), seed)
    }

    /// Takes a state as fast as it can, answered by `answer`.
    fn take(
        into: &mut Replica,
        mut intake: Intake,
        answer: impl Fn(&proto::StateWanted) -> (proto::State, Bytes),
    ) {
        let mut on_the_way = std::collections::VecDeque::new();
        loop {
            on_the_way.extend(intake.wanted());
            assert!(on_the_way.len() <= AHEAD, "no more is asked for than that");
            let Some(wanted) = on_the_way.pop_front() else { break };
            let (state, payload) = answer(&wanted);
            assert!(payload.len() <= MOST_BYTES);
            intake.take(into, &state, &payload).expect("a piece");
        }
        assert!(intake.is_whole());
    }

    #[test]
    fn a_state_arrives_in_pieces() {
        for len in [1, PIECE - 1, PIECE, PIECE + 1, 5 * PIECE + 7] {
            let from = replica(len, 1);
            for round in [7, 0] {
                let mut into = replica(len, 2);
                let intake = Intake::new(&into, round, false);
                take(&mut into, intake, |wanted| piece_of(&from, 7, wanted));
                assert_eq!(into.digest(), from.digest(), "{len}");
            }
            let snapshot = std::cell::RefCell::new(Snapshot::of(&from, 7));
            let mut into = replica(len, 2);
            let intake = Intake::new(&into, 7, true);
            take(&mut into, intake, |wanted| snapshot.borrow_mut().piece(wanted));
            assert!(snapshot.borrow().is_given);
            assert_eq!(into.digest(), from.digest(), "{len}");
        }
    }

    #[test]
    fn moments_travel_alone() {
        for len in [1, PIECE, 2 * PIECE + 7] {
            let (mut from, mut into) = (replica(len, 1), replica(len, 2));
            let vectors: Vec<Vec<f32>> = (1..3).map(|k| (0..len).map(|i| (i * k) as f32).collect()).collect();
            assert!(from.restore(9, vectors.clone(), None));
            let before = into.digest();
            let mut moments = Moments::like(&into);
            let pieces: Vec<_> = moments_of(&from).collect();
            let (last, rest) = pieces.split_last().expect("a piece");
            for (state, payload) in rest {
                moments.take(state, payload);
                moments.take(state, payload);
            }
            moments.take(&last.0, &last.1[1..]);
            Moments { steps: 9, have: moments.have, vectors: moments.vectors.clone() }.give(&mut into);
            assert_eq!(into.optimizer.steps(), 0, "they are not whole");
            moments.take(&last.0, &last.1);
            moments.give(&mut into);
            assert_eq!((into.optimizer.steps(), into.optimizer.moments()), (9, &vectors[..]));
            assert_eq!(into.digest(), before, "parameters stay");
        }
    }

    #[test]
    fn what_does_not_fit_changes_nothing() {
        let (from, mut into) = (replica(PIECE * 2, 1), replica(PIECE * 2, 2));
        let before = into.digest();
        let mut intake = Intake::new(&into, 7, false);
        let [first, ..] = intake.wanted()[..] else { panic!("nothing is asked for") };
        let (state, payload) = piece_of(&from, 7, &first);
        assert!(intake.take(&mut into, &state, &payload[1..]).is_err());
        assert!(intake.take(&mut into, &proto::State { moments: 1, ..state }, &payload).is_err());
        for passed_over in
            [proto::State { round: 8, ..state }, proto::State { offset: 3, ..state }, nothing(&first)]
        {
            let taken = intake.take(&mut into, &passed_over, &payload);
            assert!(passed_over.moments == 0 || taken.is_ok());
        }
        assert_eq!((into.digest(), intake.have), (before, 0));
    }
}
