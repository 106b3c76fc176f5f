//! The queue of events on a virtual clock, and the trace of what happened.
//!
//! Invariant: events come in the order of their times, those of one time in the order in which
//! they were put in: the same inputs give the same trace.

use super::notes::{Note, Who};
use brickmesh_topology::{BrickIndex, base::seeded::mixed};
use std::{cmp::Reverse, collections::BinaryHeap};

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A message arrives.
    Hear {
        to: Who,
        from: Who,
        note: Box<Note>,
    },
    /// A connection is there, or broken, as one of its ends sees it.
    LinkUp(Who, Who),
    LinkLost(Who, Who),
    /// A machine's clocks.
    Tick(Who),
    AskAgain(Who),
    /// A machine's device has rendered a job, or loaded a brick.
    Rendered {
        who: Who,
        micros: u64,
    },
    Loaded {
        who: Who,
        brick: BrickIndex,
        is_true: bool,
    },
    /// A time that the viewer set for a frame has come.
    Due {
        number: u64,
        at: u64,
    },
    /// A machine has written a brick to the network, for another one.
    Written(Who, Who, BrickIndex),
    /// The viewer may ask for its next frame.
    NextFrame,
    /// A machine is switched on.
    Start(Who),
    /// The source is offered.
    Offer(Who),
    /// A fault of the scenario begins, breaks the connections that it holds up, or ends.
    FaultBegins(usize),
    FaultBreaks(usize),
    FaultEnds(usize),
    /// Broken connections are made anew; invariants are looked at.
    Sweep,
}

/// The machine that an event happens at, and which start of it was meant, from 1.
pub(super) type At = Option<(Who, u32)>;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Queue {
    now: u64,
    count: u64,
    heap: BinaryHeap<Reverse<(u64, u64, u32)>>,
    slots: Vec<Option<(At, Event)>>,
    free: Vec<u32>,
    trace: u64,
}

impl Queue {
    /// Microseconds since the start.
    pub(super) fn now(&self) -> u64 {
        self.now
    }

    /// Puts an event in, that is void if its machine has been started again by then.
    pub(super) fn push(&mut self, time: u64, at: At, event: Event) {
        let entry = Some((at, event));
        let slot = if let Some(slot) = self.free.pop() {
            self.slots[slot as usize] = entry;
            slot
        } else {
            self.slots.push(entry);
            u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX)
        };
        self.count += 1;
        let time = time.max(self.now);
        self.heap.push(Reverse((time, self.count, slot)));
    }

    /// Goes on to the next event.
    pub(super) fn pop(&mut self) -> Option<(At, Event)> {
        let Reverse((time, _, slot)) = self.heap.pop()?;
        self.now = time;
        self.free.push(slot);
        self.slots[slot as usize].take()
    }

    /// Adds an event that is acted upon to the trace.
    pub(super) fn note(&mut self, event: &Event) {
        let word = |h: u64, w: u64| mixed(h ^ w);
        let marks = event.marks();
        let start = word(self.trace, self.now);
        self.trace = marks.into_iter().fold(start, word);
    }

    /// A hash of all that happened.
    pub(super) fn trace(&self) -> u64 {
        self.trace
    }

    /// Number of events that were put in.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

impl Event {
    fn marks(&self) -> [u64; 2] {
        let of = |kind: u64, a: usize, b: usize| kind | (a as u64) << 8 | (b as u64) << 32;
        match self {
            Self::Hear { to, from, note } => [of(0, *to, *from), note.mark()],
            Self::LinkUp(a, b) => [of(1, *a, *b), 0],
            Self::LinkLost(a, b) => [of(2, *a, *b), 0],
            Self::Tick(who) => [of(3, *who, 0), 0],
            Self::AskAgain(who) => [of(4, *who, 0), 0],
            Self::Rendered { who, micros } => [of(5, *who, 0), *micros],
            Self::Loaded { who, brick, .. } => [of(6, *who, brick.0 as usize), 0],
            Self::Due { number, at } => [7 | number << 8, *at],
            Self::NextFrame => [8, 0],
            Self::Start(who) => [of(9, *who, 0), 0],
            Self::Offer(who) => [of(10, *who, 0), 0],
            Self::FaultBegins(fault) => [of(11, *fault, 0), 0],
            Self::FaultBreaks(fault) => [of(12, *fault, 0), 0],
            Self::FaultEnds(fault) => [of(13, *fault, 0), 0],
            Self::Sweep => [14, 0],
            Self::Written(who, to, brick) => [of(15, *who, *to), u64::from(brick.0)],
        }
    }
}
