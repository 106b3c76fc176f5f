//! Brick grouping: bricks into cells, one image each, so that a frame takes the least time by a cost model.
//!
//! Shapes: B bricks with their precedence, N nodes, at most M bricks a cell; out, cells in depth order. Feasible is a
//! partition whose cells are connected by precedences, have M bricks at most, and have no circle among
//! themselves, so that each is an image that blends whole.
//!
//! Method: dynamic programming, a stage a brick, the last one first. A state is what later bricks can tell apart: how
//! the bricks that have unplaced ones before them are joined, which of these groups lies before which, the most bricks of a cell,
//! the number of groups. A brick begins a group, or joins some of those that it lies before; groups
//! that stay apart are cells in the end. Each feasible partition is met exactly once, so that they are counted, too.
//!
//! Source: Frank, Kaufman 2009, sections 3.1, 5 and 6.1, equation (1). The paper adds a brick to one cell only; then cells whose
//! bricks are joined by one in front of them are missed (two bricks side by side behind a third), and the
//! least cost with them. Its listing asks for |k| >= M where the text has |k| < M.

use super::precedence::Precedence;
use std::collections::BTreeMap;

/// Prices of a frame, in any unit of time (section 5.2).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Prices {
    /// Rendering a brick: R.
    pub render: f64,
    /// Blending two images of a node: L.
    pub local: f64,
    /// Sending an image and blending it: X.
    pub send: Sending,
}

/// What images cost that go to another node.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sending {
    /// X for each but one; the number of nodes bounds nothing (equation 1).
    Each(f64),
    /// X1 for the first of each node but one, X2 for those beyond as many as there are nodes (section 6.1).
    TwoTier {
        /// The first image of a node.
        first: f64,
        /// A further one.
        further: f64,
        /// Number of nodes.
        nodes: usize,
    },
}

impl Prices {
    /// Cost of a partition of `bricks` into `cells`, the largest of `largest` bricks (equation 1).
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "counts of bricks")]
    pub fn cost(&self, bricks: usize, cells: usize, largest: usize) -> f64 {
        let count = |n: usize| n as f64;
        let sending = match self.send {
            Sending::Each(x) => x * count(cells.saturating_sub(1)),
            Sending::TwoTier {
                first,
                further,
                nodes,
            } => {
                let own = cells.min(nodes);
                first * count(own.saturating_sub(1)) + further * count(cells - own)
            }
        };
        sending + self.render * count(largest) + self.local * count(bricks - cells)
    }

    /// Whether one cell more never costs less, the largest being the same.
    fn rises_with_cells(&self) -> bool {
        match self.send {
            Sending::Each(x) => x >= self.local,
            Sending::TwoTier { first, further, .. } => first.min(further) >= self.local,
        }
    }
}

/// What a search may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupingLimits {
    /// M: most bricks of a cell.
    pub bricks_max: usize,
    /// Most states of a stage, of few bricks; of many so many as [`STAGE_WORK`] allows. Beyond them the cheapest so far go
    /// on, and the answer is not proven.
    pub states_max: usize,
    /// Whether every feasible partition is to be counted: then no state is dropped that another one betters.
    pub count: bool,
}

/// The best partition that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Grouping {
    /// Bricks of each cell, ascending; cells front to back.
    pub cells: Vec<Vec<usize>>,
    /// Its cost.
    pub cost: f64,
    /// Whether no partition costs less.
    pub is_optimal: bool,
    /// Number of feasible partitions, where they were counted.
    pub feasible: Option<u128>,
    /// States of all stages.
    pub states: usize,
}

/// A state, as far as later bricks can tell it from others.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    /// Group of each open brick: those with unplaced bricks before them, in stage order. Groups are numbered by their
    /// first brick.
    groups: Vec<u16>,
    /// Bricks of each open group.
    sizes: Vec<u16>,
    /// Whether group a lies before group b, at a·groups + b.
    reach: Vec<bool>,
    /// The most bricks of a group so far.
    largest: u16,
    /// Groups so far, closed ones counted.
    cells: u16,
}

impl Key {
    /// What it takes to keep it and to go on from it, about.
    fn size(&self) -> usize {
        1 + self.groups.len() + self.sizes.len() + self.reach.len()
    }
}

/// How a state was reached.
#[derive(Clone, Debug)]
struct Reached {
    /// Index of the state before, in its stage.
    from: usize,
    /// Open groups of that state which the brick joined.
    joined: Vec<u16>,
    /// Ways to come here.
    ways: u128,
}

/// Most bricks: counts of a state are 16 bits wide.
pub const GROUPED_BRICKS_MAX: usize = 4096;

/// What all stages together may take, in units of about a nanosecond: some seconds.
pub const STAGE_WORK: usize = 1 << 31;
/// Most work of a stage: what follows from it is kept meanwhile.
const NEXT_WORK_MAX: usize = 1 << 27;
/// Work of a state, whatever its size.
const STATE_WORK: usize = 200;
/// Most states of all stages: they are kept until the end.
const STATES_KEPT_MAX: usize = 1 << 21;

/// Groups bricks so that the cost is least. Exponential in how many bricks lie side by side, bounded by the limits.
///
/// # Panics
/// Where there are more than [`GROUPED_BRICKS_MAX`] bricks, or M is 0.
#[must_use]
pub fn group(precedence: &Precedence, prices: &Prices, limits: &GroupingLimits) -> Grouping {
    assert!(precedence.len() <= GROUPED_BRICKS_MAX && limits.bricks_max > 0);
    let stages = Stages::new(precedence);
    let mut search = Search {
        stages: &stages,
        prices,
        limits,
        is_complete: true,
    };
    let mut reached: Vec<Vec<(Vec<u16>, Reached)>> = Vec::with_capacity(precedence.len());
    let (mut now, mut ways, mut states) = (vec![Key::default()], vec![1], 1);
    for stage in 0..stages.bricks.len() {
        let next = search.next(stage, &now, &ways);
        let kept = search.limited(stage, next);
        states += kept.len();
        ways = kept.iter().map(|(_, r)| r.ways).collect();
        let groups = kept.iter().map(|(key, r)| (key.groups.clone(), r.clone()));
        reached.push(groups.collect());
        now = kept.into_iter().map(|(key, _)| key).collect();
    }
    let cost = |key: &Key| search.cost(precedence.len(), key);
    let best = now
        .iter()
        .enumerate()
        .min_by(|a, b| cost(a.1).total_cmp(&cost(b.1)));
    let (best, cost) = best.map_or((0, 0.0), |(i, key)| (i, cost(key)));
    let all_ways = || ways.iter().fold(0, |a: u128, &w| a.saturating_add(w));
    Grouping {
        cells: stages.cells(precedence, &reached, best),
        cost,
        is_optimal: search.is_complete,
        feasible: limits.count.then(all_ways),
        states,
    }
}

struct Search<'a> {
    stages: &'a Stages,
    prices: &'a Prices,
    limits: &'a GroupingLimits,
    /// No state was left out that could be the best one's.
    is_complete: bool,
}

impl Search<'_> {
    fn cost(&self, bricks: usize, key: &Key) -> f64 {
        self.prices
            .cost(bricks, key.cells.into(), key.largest.into())
    }

    /// The states after the brick of a stage is placed, from those before it and the ways to each.
    fn next(&mut self, stage: usize, now: &[Key], ways: &[u128]) -> BTreeMap<Key, Reached> {
        let mut next: BTreeMap<Key, Reached> = BTreeMap::new();
        let stages = self.stages.bricks.len();
        let most = if self.limits.count {
            usize::MAX
        } else {
            NEXT_WORK_MAX.min(STAGE_WORK / stages)
        };
        let mut work = 0_usize;
        for (from, key) in now.iter().enumerate() {
            let width = key.sizes.len() + 1;
            let is_whole =
                self.stages
                    .successors(stage, key, self.limits.bricks_max, |key, joined| {
                        work = work.saturating_add(STATE_WORK + key.size() + width * width);
                        let entry = next.entry(key).or_insert_with(|| Reached {
                            from,
                            joined,
                            ways: 0,
                        });
                        entry.ways = entry.ways.saturating_add(ways[from]);
                        work < most
                    });
            if !is_whole {
                self.is_complete = false;
                break;
            }
        }
        next
    }

    /// The states of a stage from which it goes on.
    fn limited(&mut self, stage: usize, next: BTreeMap<Key, Reached>) -> Vec<(Key, Reached)> {
        let mut kept: Vec<(Key, Reached)> = next.into_iter().collect();
        if self.limits.count {
            return kept;
        }
        if self.prices.rises_with_cells() {
            kept = without_bettered(kept);
        }
        let largest = kept.iter().map(|(key, _)| key.size()).max().unwrap_or(1);
        let stages = self.stages.bricks.len();
        let most = (STAGE_WORK / stages / largest).min(STATES_KEPT_MAX / stages);
        let most = most.min(self.limits.states_max).max(1);
        // The cheapest first: the work of the next stage may end before all of them.
        let cost = |state: &(Key, Reached)| self.cost(stage + 1, &state.0);
        kept.sort_by(|a, b| cost(a).total_cmp(&cost(b)).then_with(|| a.0.cmp(&b.0)));
        self.is_complete &= kept.len() <= most;
        kept.truncate(most);
        kept
    }
}

/// Drops states that have another one of the same groups with no larger cell and no more cells.
fn without_bettered(mut states: Vec<(Key, Reached)>) -> Vec<(Key, Reached)> {
    // Keys ascend by groups, then by the largest cell, then by cells: who betters one comes before it.
    let mut kept: Vec<(Key, Reached)> = Vec::with_capacity(states.len());
    let mut least_cells = u16::MAX;
    for state in states.drain(..) {
        let same = kept.last().is_some_and(|(last, _)| {
            (&last.groups, &last.sizes, &last.reach)
                == (&state.0.groups, &state.0.sizes, &state.0.reach)
        });
        if same && state.0.cells >= least_cells {
            continue;
        }
        least_cells = state.0.cells;
        kept.push(state);
    }
    kept
}

/// The bricks in stage order, the last first, and what is open after each stage.
struct Stages {
    /// Brick of each stage.
    bricks: Vec<usize>,
    /// Of each stage: the bricks that stay open after it, as indices into the open bricks before it and, last, the
    /// new one.
    open_after: Vec<Vec<usize>>,
    /// Of each stage: which of the open bricks before it lie behind the new one.
    behind: Vec<Vec<usize>>,
    /// Open bricks before each stage.
    open_before: Vec<Vec<usize>>,
}

impl Stages {
    fn new(precedence: &Precedence) -> Self {
        let bricks: Vec<usize> = precedence.front_to_back().iter().rev().copied().collect();
        let after = precedence.without_shortcuts();
        let mut stage_of = vec![0; bricks.len()];
        for (stage, &brick) in bricks.iter().enumerate() {
            stage_of[brick] = stage;
        }
        // The last stage in which a brick is behind the new one.
        let mut open_until = vec![0; bricks.len()];
        for &brick in &bricks {
            for &behind in &after[brick] {
                open_until[behind] = open_until[behind].max(stage_of[brick]);
            }
        }
        let mut stages = Self {
            bricks: bricks.clone(),
            open_after: Vec::new(),
            behind: Vec::new(),
            open_before: Vec::new(),
        };
        let mut open: Vec<usize> = Vec::new();
        for (stage, &brick) in bricks.iter().enumerate() {
            let is_behind = |b: &usize| after[brick].binary_search(b).is_ok();
            let behind = open.iter().enumerate().filter(|(_, b)| is_behind(b));
            stages.behind.push(behind.map(|(i, _)| i).collect());
            let with_new: Vec<usize> = open.iter().copied().chain([brick]).collect();
            let stays = |b: &usize| open_until[*b] > stage;
            let after = with_new.iter().enumerate().filter(|(_, b)| stays(b));
            stages.open_after.push(after.map(|(i, _)| i).collect());
            stages.open_before.push(open);
            open = with_new.into_iter().filter(stays).collect();
        }
        stages
    }

    /// Calls `of` with each state that may follow `key` when the brick of `stage` is placed, and the open groups that
    /// the brick joins, as long as it says true; whether it always did. A group of its own comes first.
    fn successors(
        &self,
        stage: usize,
        key: &Key,
        bricks_max: usize,
        mut of: impl FnMut(Key, Vec<u16>) -> bool,
    ) -> bool {
        let group_count = key.sizes.len();
        let mut behind: Vec<u16> = self.behind[stage].iter().map(|&i| key.groups[i]).collect();
        behind.sort_unstable();
        behind.dedup();
        // A group that another one of those behind the brick lies before would be on both sides of it.
        let reaches = |a: u16, b: u16| key.reach[usize::from(a) * group_count + usize::from(b)];
        let joinable = behind
            .iter()
            .copied()
            .filter(|&g| !behind.iter().any(|&other| other != g && reaches(other, g)));
        let joinable: Vec<u16> = joinable.collect();
        // Depth first over the sets that may be joined, as long as they are small enough.
        let mut stack: Vec<(usize, usize, Vec<u16>)> = vec![(0, 1, Vec::new())];
        while let Some((next, size, joined)) = stack.pop() {
            if next == joinable.len() {
                if !of(self.joined(stage, key, &behind, &joined, size), joined) {
                    return false;
                }
                continue;
            }
            let group = joinable[next];
            let with = size + usize::from(key.sizes[usize::from(group)]);
            if with <= bricks_max {
                let mut more = joined.clone();
                more.push(group);
                stack.push((next + 1, with, more));
            }
            stack.push((next + 1, size, joined));
        }
        true
    }

    /// The state after the brick of `stage` has joined some groups.
    fn joined(&self, stage: usize, key: &Key, behind: &[u16], joined: &[u16], size: usize) -> Key {
        let before = key.sizes.len();
        let width = before + 1;
        // The new group has the last number; those that it joins are renamed to it.
        let name = |g: usize| {
            if joined.iter().any(|&j| usize::from(j) == g) {
                before
            } else {
                g
            }
        };
        let mut reach = vec![false; width * width];
        for a in 0..before {
            for b in 0..before {
                if key.reach[a * before + b] && name(a) != name(b) {
                    reach[name(a) * width + name(b)] = true;
                }
            }
        }
        for &b in behind {
            let b = name(usize::from(b));
            if b != before {
                reach[before * width + b] = true;
            }
        }
        // What a group behind the new one lies before, the new one does as well.
        for g in 0..before {
            if reach[before * width + g] {
                for b in 0..before {
                    reach[before * width + b] |= reach[g * width + b];
                }
            }
        }
        // And so does what lies before the new one.
        for a in 0..before {
            if reach[a * width + before] {
                for b in 0..before {
                    reach[a * width + b] |= reach[before * width + b];
                }
            }
        }
        let mut sizes: Vec<u16> = key.sizes.clone();
        sizes.push(narrow(size));
        let groups = key
            .groups
            .iter()
            .map(|&g| name(usize::from(g)))
            .chain([before]);
        let groups: Vec<usize> = groups.collect();
        let open: Vec<usize> = self.open_after[stage].iter().map(|&i| groups[i]).collect();
        // Groups are numbered anew by their first open brick; closed ones are forgotten.
        let mut numbers: Vec<Option<usize>> = vec![None; width];
        let mut old = Vec::new();
        for &g in &open {
            if numbers[g].is_none() {
                numbers[g] = Some(old.len());
                old.push(g);
            }
        }
        let pairs = old.iter().flat_map(|&a| old.iter().map(move |&b| (a, b)));
        Key {
            groups: open
                .iter()
                .filter_map(|&g| numbers[g])
                .map(narrow)
                .collect(),
            sizes: old.iter().map(|&g| sizes[g]).collect(),
            reach: pairs.map(|(a, b)| reach[a * width + b]).collect(),
            largest: key.largest.max(narrow(size)),
            cells: key.cells + 1 - narrow(joined.len()),
        }
    }

    /// The cells of the partition that ends in state `last`.
    fn cells(
        &self,
        precedence: &Precedence,
        reached: &[Vec<(Vec<u16>, Reached)>],
        last: usize,
    ) -> Vec<Vec<usize>> {
        // States back to the first one.
        let (mut path, mut at) = (Vec::new(), last);
        for stage in reached.iter().rev() {
            path.push(&stage[at].1);
            at = stage[at].1.from;
        }
        path.reverse();
        // Forth again: the cell of each brick, and bricks by cell.
        let mut cell_of = vec![0; self.bricks.len()];
        let mut cells: Vec<Vec<usize>> = Vec::new();
        let empty = Vec::new();
        for (stage, step) in path.iter().enumerate() {
            let brick = self.bricks[stage];
            let groups = if stage == 0 {
                &empty
            } else {
                &reached[stage - 1][step.from].0
            };
            let mut own = vec![brick];
            for (open, group) in self.open_before[stage].iter().zip(groups) {
                if step.joined.contains(group) {
                    own.append(&mut cells[cell_of[*open]]);
                }
            }
            for &b in &own {
                cell_of[b] = cells.len();
            }
            cells.push(own);
        }
        cells_front_to_back(precedence, cells)
    }
}

/// Cells that are not empty, each ascending, front to back.
fn cells_front_to_back(precedence: &Precedence, cells: Vec<Vec<usize>>) -> Vec<Vec<usize>> {
    let mut cells: Vec<Vec<usize>> = cells.into_iter().filter(|c| !c.is_empty()).collect();
    let mut cell_of = vec![0; precedence.len()];
    for (c, cell) in cells.iter_mut().enumerate() {
        cell.sort_unstable();
        cell.iter().for_each(|&b| cell_of[b] = c);
    }
    let mut links = Vec::new();
    for (c, cell) in cells.iter().enumerate() {
        let behind = cell.iter().flat_map(|&b| precedence.after(b));
        links.extend(behind.map(|&b| (c, cell_of[b])).filter(|&(c, b)| c != b));
    }
    let order = Precedence::of_links(cells.len(), &links);
    let order = order.expect("cells of a feasible partition have no circle");
    let front_to_back = order.front_to_back().iter();
    front_to_back
        .map(|&c| std::mem::take(&mut cells[c]))
        .collect()
}

fn narrow(n: usize) -> u16 {
    u16::try_from(n).unwrap_or(u16::MAX)
}

/// Section 5.5's bound on the partitions of a stage, for bricks with `children` others behind each on average and at
/// most `bricks_max` a cell.
#[must_use]
pub fn stage_bound(children: f64, bricks_max: u32) -> f64 {
    let sum = |last: u32| {
        (1..=last)
            .map(|m| children.powi(m.cast_signed()))
            .sum::<f64>()
    };
    sum(bricks_max.saturating_sub(1)) + sum(bricks_max)
}

#[cfg(test)]
mod tests;
