//! What goes wrong, and when, by seed.
//!
//! Faults are chosen by swarm testing (Groce and others 2012): in each scenario some kinds are off
//! entirely, the others have rates of their own, so that seeds differ more than equal mixtures
//! would. A number in the input takes the place of a draw.

use super::{
    ChaosInput,
    network::{Cut, Weather},
    notes::Who,
};
use crate::mesh::{FaultKind, Input, millionths};
use brickmesh_topology::{balance::schedule::SPEED_ONE, base::seeded::Seeded};

/// Frames from which on something may happen: before, the mesh comes up.
const FIRST_FRAME: u32 = 5;
/// Longest time after a frame was asked for that its fault begins, microseconds.
const AFTER_MICROS_MAX: u64 = 40_000;
/// At most one peer in so many goes for good, or one where there are fewer, but not the only one.
const GONE_PART: usize = 4;
/// Frames and peers for which the numbers of faults are drawn; longer runs and larger meshes have
/// more.
const FRAMES_PER_DRAW: u32 = 600;
const PEERS_PER_DRAW: usize = 25;
/// One fault in so many begins just before faults stop: what it leaves behind must be coped with
/// within the bounds.
const LATE_PART: u64 = 5;

/// A machine before it is started.
#[derive(Clone, Copy, Debug)]
pub(super) struct Recipe {
    /// Bricks that it says it has room for, and really has.
    pub(super) room: u32,
    pub(super) really: u32,
    /// Bricks that its disk has room for.
    pub(super) shelf: u32,
    /// Real speed in millionths.
    pub(super) speed: u64,
    /// It joins later.
    pub(super) joins: bool,
}

/// What happens.
#[derive(Clone, Debug)]
pub(super) enum Kind {
    /// A machine dies; `is_loud`: its connections break at once, as when a process is killed, not as
    /// when power fails; `returns`: it is started again when the fault ends.
    Crash {
        who: Who,
        is_loud: bool,
        returns: bool,
    },
    /// A machine handles nothing; what comes waits.
    Freeze(Who),
    /// Messages do not pass; `stalls`: they wait instead of being lost.
    Cut { cut: Cut, stalls: bool },
    /// What is left of a machine's speed, in millionths.
    Slow { who: Who, left: u64 },
    /// A machine leaves politely.
    Leave(Who),
    /// A machine comes.
    Join(Who),
}

/// Something that goes wrong.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    /// The frame that it begins in, and how long after that was asked for, microseconds.
    pub(super) frame: u32,
    pub(super) after: u64,
    /// How long it lasts, and after which time connections that it holds up break.
    pub(super) lasts: u64,
    pub(super) breaks_after: u64,
    pub(super) kind: Kind,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Scenario {
    /// The peers; the viewer is none of them.
    pub(super) peers: Vec<Recipe>,
    pub(super) source: Who,
    pub(super) faults: Vec<Fault>,
    pub(super) weather: Weather,
    pub(super) latency: u64,
    pub(super) jitter: u64,
    pub(super) in_flight: usize,
    /// Faults stop when this frame is asked for; `None`: nothing goes wrong but the faults that are
    /// named, frames begin when all bricks are where they should be, and end it.
    pub(super) until: Option<u32>,
}

struct Draws<'a> {
    draws: Seeded,
    input: &'a ChaosInput,
    peers: usize,
    until: u32,
    /// Peers that may still go for good.
    may_go: usize,
    faults: Vec<Fault>,
}

impl Scenario {
    pub(super) fn new(input: &Input, chaos: &ChaosInput, frames: u32, bricks: u32) -> Self {
        let until = chaos.until_frame.unwrap_or(frames / 5 * 3).min(frames);
        let peers = input.peers.len();
        let mut d = Draws {
            draws: Seeded::new(input.seed ^ 0x0c4a_0500),
            input: chaos,
            peers,
            until,
            may_go: (peers / GONE_PART).max(usize::from(peers > 1)),
            faults: Vec::new(),
        };
        let weather = d.weather();
        let source = d.who();
        d.peers_faults(source);
        d.cuts();
        let mut recipes = d.recipes(input, bricks);
        d.joins(&mut recipes, source);
        let mut faults = d.faults;
        faults.extend(named(input));
        faults.sort_by_key(|f| (f.frame, f.after));
        Self {
            peers: recipes,
            source,
            faults,
            weather,
            latency: input.network.latency_us,
            jitter: input.network.jitter_us,
            in_flight: 1 + usize::try_from(d.draws.below(3)).unwrap_or(0),
            until: Some(until),
        }
    }

    /// A mesh in which nothing goes wrong but what the input names.
    pub(super) fn calm(input: &Input, bricks: u32) -> Self {
        let recipe = |p: &crate::mesh::PeerInput| Recipe {
            room: p.capacity.min(bricks),
            really: p.capacity.min(bricks),
            shelf: p.shelf,
            speed: millionths(p.speed),
            joins: false,
        };
        Self {
            peers: input.peers.iter().map(recipe).collect(),
            source: 0,
            faults: named(input),
            weather: Weather {
                steal_loss: millionths(input.network.loss),
                doubled: millionths(input.network.doubled),
                ..Weather::default()
            },
            latency: input.network.latency_us,
            jitter: input.network.jitter_us,
            in_flight: 1,
            until: None,
        }
    }
}

impl Draws<'_> {
    fn chance(&mut self, percent: u64) -> bool {
        self.draws.below(100) < percent
    }

    fn who(&mut self) -> Who {
        let who = self.draws.below(self.peers as u64);
        usize::try_from(who).unwrap_or(0)
    }

    /// A value given, or one of these by draw, in millionths.
    fn share(&mut self, given: Option<f64>, choices: &[u64]) -> u64 {
        let choice = self.draws.below(choices.len() as u64);
        let drawn = choices[usize::try_from(choice).unwrap_or(0)];
        given.map_or(drawn, millionths)
    }

    fn weather(&mut self) -> Weather {
        let input = self.input;
        Weather {
            loss: self.share(input.loss, &[0, 0, 0, 1_000, 50_000, 200_000]),
            steal_loss: self.share(input.steal_loss, &[0, 0, 50_000, 300_000]),
            frame_loss: self.share(input.frame_loss, &[0, 0, 0, 10, 50]),
            doubled: self.share(input.doubled, &[0, 0, 10_000, 200_000]),
            held_up: self.share(input.delayed, &[0, 0, 0, 1_000, 20_000]),
            damaged: self.share(input.damaged, &[0, 0, 50_000]),
        }
    }

    /// How many faults of a kind: as given, or none, or some.
    fn number(&mut self, given: Option<u32>, most: u64) -> u32 {
        let drawn = if self.chance(60) {
            1 + self.draws.below(most)
        } else {
            0
        };
        let times = self.until.div_ceil(FRAMES_PER_DRAW);
        let times =
            times.saturating_mul(u32::try_from(self.peers.div_ceil(PEERS_PER_DRAW)).unwrap_or(1));
        given.unwrap_or(u32::try_from(drawn).unwrap_or(0).saturating_mul(times))
    }

    /// A time between two, short ones as likely as long ones, microseconds.
    fn time(&mut self, least: u64, most: u64) -> u64 {
        let mut range = most;
        while range / 2 > least && self.chance(50) {
            range /= 2;
        }
        least + self.draws.below(range.saturating_sub(least).max(1))
    }

    fn add(&mut self, lasts: u64, kind: Kind) {
        if self.until <= FIRST_FRAME {
            return;
        }
        let span = u64::from(self.until - FIRST_FRAME);
        let frame = if self.draws.below(LATE_PART) == 0 {
            self.until - 1
        } else {
            FIRST_FRAME + u32::try_from(self.draws.below(span)).unwrap_or(0)
        };
        let after = self.draws.below(AFTER_MICROS_MAX);
        let breaks_after = self.time(1_000_000, 12_000_000);
        self.faults.push(Fault {
            frame,
            after,
            lasts,
            breaks_after,
            kind,
        });
    }

    fn peers_faults(&mut self, source: Who) {
        for _ in 0..self.number(self.input.crashes, 8) {
            let (who, is_loud) = (self.who(), self.chance(50));
            let stays_away = who != source && self.may_go > 0 && self.chance(40);
            self.may_go -= usize::from(stays_away);
            let lasts = self.time(50_000, 15_000_000);
            let returns = !stays_away;
            self.add(
                lasts,
                Kind::Crash {
                    who,
                    is_loud,
                    returns,
                },
            );
        }
        for _ in 0..self.number(self.input.freezes, 6) {
            let (who, lasts) = (self.who(), self.time(50_000, 12_000_000));
            self.add(lasts, Kind::Freeze(who));
        }
        for _ in 0..self.number(self.input.slowdowns, 4) {
            let (who, lasts) = (self.who(), self.time(100_000, 20_000_000));
            let left = 50_000 + self.draws.below(600_000);
            self.add(lasts, Kind::Slow { who, left });
        }
        for _ in 0..self.number(self.input.leaves, 3) {
            if self.may_go > 0 {
                self.may_go -= 1;
                let who = self.who();
                self.add(30_000_000, Kind::Leave(who));
            }
        }
    }

    fn cuts(&mut self) {
        for _ in 0..self.number(self.input.partitions, 3) {
            // The viewer, the last machine, is on a side too.
            let few = 5 + self.draws.below(46);
            let sides = (0..=self.peers).map(|_| self.draws.below(100) < few);
            let cut = Cut::Sides(sides.collect());
            let (stalls, lasts) = (self.chance(50), self.time(100_000, 12_000_000));
            self.add(lasts, Kind::Cut { cut, stalls });
        }
        for _ in 0..self.number(self.input.cuts, 6) {
            let viewer = self.peers;
            let a = self.who();
            let b = if self.chance(20) { viewer } else { self.who() };
            let cut = if self.chance(50) {
                Cut::Pair(a, b)
            } else if self.chance(50) {
                Cut::OneWay(a, b)
            } else {
                Cut::OneWay(b, a)
            };
            let (stalls, lasts) = (self.chance(50), self.time(100_000, 12_000_000));
            self.add(lasts, Kind::Cut { cut, stalls });
        }
    }

    fn recipes(&mut self, input: &Input, bricks: u32) -> Vec<Recipe> {
        // From too little memory for the copies that are wanted to plenty of it.
        let spare = self.share(
            self.input.spare,
            &[700_000, 1_100_000, 1_500_000, 2_000_000, 4_000_000],
        );
        let copies = u64::from(bricks) * u64::from(input.redundancy.max(1));
        let mean = (copies * spare / SPEED_ONE).div_ceil(self.peers as u64);
        let short = self.chance(30);
        // Draws of their own, so that all else stays as it was: one mesh in three has disks.
        let mut disks = Seeded::new(input.seed ^ 0x0c4a_d15c);
        let have_disks = disks.below(3) == 0;
        let mut shelf = || {
            let room = disks.below(u64::from(bricks) * 3 / 2 + 1);
            u32::try_from(room).unwrap_or(0) * u32::from(have_disks)
        };
        let mut recipe = |p: &crate::mesh::PeerInput| {
            let drawn = mean / 2 + self.draws.below(mean + 1);
            let drawn = u32::try_from(drawn).unwrap_or(u32::MAX).max(1);
            let room = if p.capacity == u32::MAX {
                drawn
            } else {
                p.capacity
            };
            let room = room.min(bricks);
            // Some devices have less memory than they say.
            let really = if short && self.draws.below(10) == 0 {
                room - room / 3
            } else {
                room
            };
            let pace = 700_000 + self.draws.below(800_000);
            Recipe {
                room,
                really,
                shelf: if p.shelf > 0 { p.shelf } else { shelf() },
                speed: millionths(p.speed) * pace / SPEED_ONE,
                joins: false,
            }
        };
        input.peers.iter().map(&mut recipe).collect()
    }

    fn joins(&mut self, recipes: &mut [Recipe], source: Who) {
        let joins = self.number(self.input.joins, 4).min(64);
        for _ in 0..joins {
            let who = self.who();
            if who != source && !recipes[who].joins {
                recipes[who].joins = true;
                self.add(0, Kind::Join(who));
            }
        }
    }
}

/// The faults that the input names.
fn named(input: &Input) -> Vec<Fault> {
    let fault = |fault: &crate::mesh::FaultInput| {
        let who = input.peers.iter().position(|p| p.id == fault.peer);
        let who = who.unwrap_or(0);
        let kind = match fault.kind {
            FaultKind::Slow => Kind::Slow {
                who,
                left: millionths(fault.factor),
            },
            FaultKind::Crash => Kind::Crash {
                who,
                is_loud: true,
                returns: false,
            },
        };
        Fault {
            frame: fault.frame,
            after: fault.after_us,
            lasts: u64::MAX >> 1,
            breaks_after: u64::MAX >> 1,
            kind,
        }
    };
    input.faults.iter().map(fault).collect()
}
