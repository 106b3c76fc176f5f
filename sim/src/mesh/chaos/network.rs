//! The simulated network: connections between machines, and what happens to messages on them.
//!
//! A message comes after a latency and a jitter of its own; by draw it is lost, comes twice, or is
//! held up for long. That is harder than TCP, on which a live connection loses, doubles and
//! reorders nothing. A cut link swallows messages, or holds them up until it is mended, as TCP
//! does; after a while both ends see that the connection is broken. Only bricks and who asks for
//! them get no worse than TCP: they are lost with the connection or the machine alone, as a peer
//! waits long for a brick before it asks again.

use super::{
    notes::{Class, Note, Who},
    queue::{Event, Queue},
};
use brickmesh_topology::base::seeded::Seeded;
use std::collections::BTreeMap;

/// Longest time that a message is held up by draw, microseconds.
const HELD_UP_MICROS_MAX: u64 = 300_000;
/// Most messages that wait on cut links; more are lost.
const STALLED_MAX: usize = 20_000;
/// Time that a brick takes on its way besides, microseconds: some tens of kilobytes at 1 Gbit/s.
pub(super) const BRICK_MICROS: u64 = 400;
/// One in millionths.
const ONE: u64 = 1_000_000;

/// Shares of the messages, in millionths.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Weather {
    /// Lost between keepers, between thieves and victims, and of all else.
    pub(super) loss: u64,
    pub(super) steal_loss: u64,
    pub(super) frame_loss: u64,
    pub(super) doubled: u64,
    pub(super) held_up: u64,
    /// Bricks whose bytes are not what they should be.
    pub(super) damaged: u64,
}

/// Messages that do not pass.
#[derive(Clone, Debug)]
pub(super) enum Cut {
    /// Between machines of unlike sides.
    Sides(Vec<bool>),
    /// Between two machines, both ways.
    Pair(Who, Who),
    /// From one machine to another.
    OneWay(Who, Who),
}

impl Cut {
    fn holds(&self, from: Who, to: Who) -> bool {
        match self {
            Self::Sides(sides) => sides[from] != sides[to],
            Self::Pair(a, b) => (from, to) == (*a, *b) || (to, from) == (*a, *b),
            Self::OneWay(a, b) => (from, to) == (*a, *b),
        }
    }

    /// Whether it touches the connection of two machines.
    pub(super) fn touches(&self, a: Who, b: Who) -> bool {
        self.holds(a, b) || self.holds(b, a)
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Network {
    weather: Weather,
    latency_micros: u64,
    jitter_micros: u64,
    /// How often each machine was started, and whether it is up.
    starts: Vec<u32>,
    up: Vec<bool>,
    /// Connections, by both ends.
    links: Vec<bool>,
    /// Cuts that hold now, by fault, and whether messages wait for their end.
    cuts: BTreeMap<usize, (Cut, bool)>,
    stalled: Vec<(Who, Who, Note)>,
    draws: Seeded,
    /// Messages sent, lost, and bricks that came.
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) bricks: u64,
}

impl Network {
    /// A network of so many machines, all of them off.
    pub(super) fn new(machines: usize, latency: u64, jitter: u64, draws: Seeded) -> Self {
        Self {
            weather: Weather::default(),
            latency_micros: latency,
            jitter_micros: jitter,
            starts: vec![0; machines],
            up: vec![false; machines],
            links: vec![false; machines * machines],
            cuts: BTreeMap::new(),
            stalled: Vec::new(),
            draws,
            sent: 0,
            lost: 0,
            bricks: 0,
        }
    }

    pub(super) fn set_weather(&mut self, weather: Weather) {
        self.weather = weather;
    }

    /// Whether keepers' messages may be lost at any moment.
    pub(super) fn loses(&self) -> bool {
        let weather = &self.weather;
        weather.loss > 0 || weather.held_up > 0
    }

    pub(super) fn machines(&self) -> usize {
        self.up.len()
    }

    pub(super) fn is_up(&self, who: Who) -> bool {
        self.up[who]
    }

    /// Which start of a machine this is.
    pub(super) fn start_of(&self, who: Who) -> u32 {
        self.starts[who]
    }

    pub(super) fn is_linked(&self, a: Who, b: Who) -> bool {
        self.links[a * self.machines() + b]
    }

    fn set_link(&mut self, a: Who, b: Who, linked: bool) {
        let n = self.machines();
        self.links[a * n + b] = linked;
        self.links[b * n + a] = linked;
    }

    /// Whether something holds up the connection of two machines.
    pub(super) fn is_cut(&self, a: Who, b: Who) -> bool {
        self.cuts.values().any(|(c, _)| c.touches(a, b))
    }

    fn passes(&self, from: Who, to: Who) -> bool {
        !self.cuts.values().any(|(c, _)| c.holds(from, to))
    }

    pub(super) fn delay(&mut self) -> u64 {
        self.latency_micros + self.draws.below(self.jitter_micros + 1)
    }

    fn by_chance(&mut self, share: u64) -> bool {
        share > 0 && self.draws.below(ONE) < share
    }

    /// A machine is switched on.
    pub(super) fn start(&mut self, who: Who) {
        self.starts[who] += 1;
        self.up[who] = true;
    }

    /// A machine is off, and what was on its way to it is lost.
    pub(super) fn stop(&mut self, who: Who) {
        self.up[who] = false;
        self.stalled
            .retain(|(from, to, _)| *from != who && *to != who);
    }

    /// Connects two machines; both are told.
    pub(super) fn link(&mut self, a: Who, b: Who, queue: &mut Queue) {
        self.set_link(a, b, true);
        // What breaks and what is made anew are heard of in this order.
        let time = queue.now() + self.latency_micros;
        queue.push(time, Some((a, self.starts[a])), Event::LinkUp(a, b));
        queue.push(time, Some((b, self.starts[b])), Event::LinkUp(b, a));
    }

    /// A connection is not there any more, and nobody is told.
    pub(super) fn forget_link(&mut self, a: Who, b: Who) {
        self.set_link(a, b, false);
        self.stalled
            .retain(|(from, to, _)| (*from, *to) != (a, b) && (*from, *to) != (b, a));
    }

    /// Breaks a connection; those that are up are told.
    pub(super) fn unlink(&mut self, a: Who, b: Who, queue: &mut Queue) {
        if !self.is_linked(a, b) {
            return;
        }
        self.forget_link(a, b);
        let time = queue.now() + self.latency_micros;
        for (who, other) in [(a, b), (b, a)] {
            if self.up[who] {
                let at = Some((who, self.starts[who]));
                queue.push(time, at, Event::LinkLost(who, other));
            }
        }
    }

    /// A cut begins; `stalls`: messages wait for its end.
    pub(super) fn cut(&mut self, fault: usize, cut: Cut, stalls: bool) {
        self.cuts.insert(fault, (cut, stalls));
    }

    /// The cut of a fault, while it holds.
    pub(super) fn cut_of(&self, fault: usize) -> Option<&Cut> {
        self.cuts.get(&fault).map(|(cut, _)| cut)
    }

    /// A cut is mended: what waited goes on its way.
    pub(super) fn mend(&mut self, fault: usize, queue: &mut Queue) {
        self.cuts.remove(&fault);
        for (from, to, note) in std::mem::take(&mut self.stalled) {
            if self.passes(from, to) {
                self.go(from, to, note, 0, queue);
            } else {
                self.stalled.push((from, to, note));
            }
        }
    }

    /// Sends a message; false where there is no connection. What a machine says to itself always
    /// comes, at once.
    pub(super) fn send(&mut self, from: Who, to: Who, mut note: Note, queue: &mut Queue) -> bool {
        if from == to {
            let at = Some((to, self.starts[to]));
            let note = Box::new(note);
            queue.push(queue.now(), at, Event::Hear { to, from, note });
            return true;
        }
        self.sent += 1;
        if !self.is_linked(from, to) {
            self.lost += 1;
            return false;
        }
        let class = note.class();
        let loss = match class {
            Class::Brick => 0,
            Class::Keeper => self.weather.loss,
            Class::Frame => self.weather.frame_loss,
            Class::Steal => self.weather.steal_loss,
        };
        if !self.up[to] || self.by_chance(loss) {
            self.lost += 1;
            return true;
        }
        if let Note::Brick(_, _, is_true) = &mut note {
            *is_true &= !self.by_chance(self.weather.damaged);
        }
        if !self.passes(from, to) {
            let mut holding = self.cuts.values().filter(|(c, _)| c.holds(from, to));
            let stalls = class == Class::Brick || holding.all(|(_, stalls)| *stalls);
            if stalls && self.stalled.len() < STALLED_MAX {
                self.stalled.push((from, to, note));
            } else {
                self.lost += 1;
            }
            return true;
        }
        if self.by_chance(self.weather.doubled) {
            let late = self.draws.below(HELD_UP_MICROS_MAX);
            self.go(from, to, note.clone(), late, queue);
        }
        let late = if self.by_chance(self.weather.held_up) {
            self.draws.below(HELD_UP_MICROS_MAX)
        } else {
            0
        };
        self.go(from, to, note, late, queue);
        true
    }

    fn go(&mut self, from: Who, to: Who, note: Note, late: u64, queue: &mut Queue) {
        let transfer = match note {
            Note::Brick(..) => {
                self.bricks += 1;
                BRICK_MICROS
            }
            _ => 0,
        };
        let time = queue.now() + self.delay() + transfer + late;
        let at = Some((to, self.starts[to]));
        let note = Box::new(note);
        queue.push(time, at, Event::Hear { to, from, note });
    }
}
