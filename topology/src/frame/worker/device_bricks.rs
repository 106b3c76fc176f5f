//! What the worker knows of the bricks in device memory: those that the peer holds, and those that are read
//! for its frames.
//!
//! Invariant: a brick that was asked for is released once, when no job needs it; until then it stays in memory.

use crate::{
    base::digest::Digest,
    data::{brick_grid::BrickIndex, brick_set::BrickSet},
};
use std::{collections::BTreeMap, sync::Arc};

/// Bricks that are asked for at a time and are not there yet: those that are read, and the next ones.
const ASKED_MAX: usize = 16;

/// A brick of a data set.
pub(super) type BrickName = (Digest, BrickIndex);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct DeviceBricks {
    /// By data set; all bricks of others count as held.
    held: BTreeMap<Digest, Arc<BrickSet>>,
    staged: BTreeMap<BrickName, State>,
    /// How often a brick was asked for.
    questions: u64,
    /// Jobs do not wait for bricks: they come when they are read.
    are_paged: bool,
}

/// Of a brick that is not held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// By the question of this number: an answer to one before it, which was released, may be on its way.
    Asked(u64),
    /// In memory, until it is released.
    Ready,
    /// In memory, until its room is needed.
    Kept,
}

/// Whether a brick is to be asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// By this question.
    Now(u64),
    /// It was.
    WasAsked,
    /// Enough others are on their way.
    Later,
}

impl DeviceBricks {
    /// Whether the peer holds a brick.
    pub(super) fn is_held(&self, (data_set, brick): BrickName) -> bool {
        let held = self.held.get(&data_set);
        held.is_none_or(|held| held.contains(brick))
    }

    /// From now on bricks come when they are read.
    pub(super) fn are_paged_now(&mut self) {
        self.are_paged = true;
    }

    /// Whether bricks come when they are read.
    pub(super) fn are_paged(&self) -> bool {
        self.are_paged
    }

    /// Whether a job of the brick can be rendered.
    pub(super) fn is_here(&self, name: BrickName) -> bool {
        self.are_paged || self.is_in_memory(name)
    }

    /// Whether the brick is held, or read for a frame that needs it.
    pub(super) fn is_in_memory(&self, name: BrickName) -> bool {
        self.is_held(name) || self.staged.get(&name) == Some(&State::Ready)
    }

    /// Whether the brick is in memory, or was asked for.
    pub(super) fn is_here_or_comes(&self, name: BrickName) -> bool {
        self.is_held(name) || self.staged.contains_key(&name)
    }

    /// Whether the brick is in memory, though nobody needed it of late.
    pub(super) fn is_kept(&self, name: BrickName) -> bool {
        self.staged.get(&name) == Some(&State::Kept)
    }

    /// The peer holds these bricks of a data set now. Returns those that were asked for and need not be any more.
    pub(super) fn set_held(&mut self, data_set: Digest, held: Arc<BrickSet>) -> Vec<BrickName> {
        let is_held = |name: &BrickName| name.0 == data_set && held.contains(name.1);
        let staged = self.staged.extract_if(.., |name, _| is_held(name));
        let asked = staged.filter(|(_, state)| *state != State::Kept);
        let asked = asked.map(|(name, _)| name).collect();
        self.held.insert(data_set, held);
        asked
    }

    /// A data set is closed.
    pub(super) fn close(&mut self, data_set: Digest) {
        self.held.remove(&data_set);
        self.staged.retain(|name, _| name.0 != data_set);
    }

    /// The device is lost, with all that was read.
    pub(super) fn clear(&mut self) {
        self.staged.clear();
    }

    /// The number of the question by which a brick is to be asked for now.
    pub(super) fn ask(&mut self, name: BrickName) -> Ask {
        let state = self.staged.get(&name).copied();
        if matches!(state, Some(State::Asked(_) | State::Ready)) {
            return Ask::WasAsked;
        }
        if state.is_none() && self.asked().count() >= ASKED_MAX {
            return Ask::Later;
        }
        self.questions += 1;
        self.staged.insert(name, State::Asked(self.questions));
        Ask::Now(self.questions)
    }

    /// Bricks that were asked for and are not there yet.
    pub(super) fn asked(&self) -> impl Iterator<Item = BrickName> + '_ {
        let asked = self.staged.iter();
        let asked = asked.filter(|(_, state)| matches!(state, State::Asked(_)));
        asked.map(|(name, _)| *name)
    }

    /// A brick that was asked for by this question is there, or cannot be had. False: it was released meanwhile.
    pub(super) fn answered(&mut self, name: BrickName, question: u64, is_there: bool) -> bool {
        let is_awaited = self.staged.get(&name) == Some(&State::Asked(question));
        if is_awaited && is_there {
            self.staged.insert(name, State::Ready);
        } else if is_awaited {
            self.staged.remove(&name);
        }
        is_awaited
    }

    /// No job needs the brick; true where that is to be said.
    pub(super) fn release(&mut self, name: BrickName) -> bool {
        match self.staged.get(&name) {
            Some(State::Asked(_)) => {
                self.staged.remove(&name);
                true
            }
            Some(State::Ready) => {
                self.staged.insert(name, State::Kept);
                true
            }
            Some(State::Kept) | None => false,
        }
    }

    /// The memory of a brick was freed. True: nobody needed it of late.
    pub(super) fn freed(&mut self, name: BrickName) -> bool {
        self.is_kept(name) && self.staged.remove(&name).is_some()
    }
}
