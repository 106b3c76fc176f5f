//! Runs: jobs that follow each other in a tile's order and are rendered by one peer are blended
//! there and sent once. The plan prefers neighbours on one peer, and tiles on the peer that has
//! most of them, as far as the makespan allows.
//!
//! Space: pixel. Traffic is counted in pixels: the area of the rectangle around each run, for
//! runs that are not on their tile's compositor. Bytes on the wire are fewer, as empty borders
//! are trimmed.
//! Invariants: every job stays with a holder of its brick; the makespan grows by at most
//! `MAKESPAN_SLACK`; whole numbers only, ties to the earlier job and peer.
//!
//! Source: the future work of Frey, Ertl 2011, section 7 (compositing in the schedule); direct
//! send (Neumann 1993) for the tiles. The search itself is ours.

use crate::{
    balance::schedule::{Schedule, ScheduledJob, cost_on},
    picture::{camera::PixelRect, tiles::Tile},
};

/// How much longer the makespan may become, in thousandths: 2 %.
const MAKESPAN_SLACK: u64 = 20;
/// Entries of tile lists that the search may visit: bounds its time, the same on every machine.
const VISITS_MAX: u64 = 400_000;
/// Passes over all jobs.
const PASSES: usize = 2;

/// Which jobs meet in which tile, front to back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileJobs {
    /// Per tile: its jobs, front to back, and the pixels that each may touch there.
    tiles: Vec<Vec<(usize, PixelRect)>>,
    /// The tiles of all jobs, ascending, and where those of each end.
    tiles_of: Vec<usize>,
    ends: Vec<usize>,
}

impl TileJobs {
    /// The lists of jobs with these rectangles, front to back. A job that `rendered` denies is
    /// in no list.
    #[must_use]
    pub fn new(rects: &[PixelRect], rendered: impl Fn(usize) -> bool, tiles: &[Tile]) -> Self {
        let list = |t: &Tile| {
            let jobs = rects.iter().enumerate().filter(|&(j, _)| rendered(j));
            jobs.filter_map(|(j, r)| Some((j, r.intersection(&t.rect)?)))
                .collect()
        };
        Self::of_lists(tiles.iter().map(list).collect(), rects.len())
    }

    /// The lists of so many jobs, of each of which one tile shows all: its number, in the order of the jobs. A job that `rendered`
    /// denies is in no list.
    #[must_use]
    pub fn in_one_tile(
        rects: &[PixelRect],
        of: &[usize],
        rendered: impl Fn(usize) -> bool,
        tiles: usize,
    ) -> Self {
        let mut lists = vec![Vec::new(); tiles];
        let jobs = rects.iter().zip(of).enumerate();
        for (j, (rect, &tile)) in jobs.filter(|(j, _)| rendered(*j)) {
            lists[tile].push((j, *rect));
        }
        Self::of_lists(lists, rects.len())
    }

    fn of_lists(tiles: Vec<Vec<(usize, PixelRect)>>, jobs: usize) -> Self {
        // Counted, then filled: each list's end moves from its begin there.
        let mut ends = vec![0; jobs + 1];
        let all = || tiles.iter().flatten();
        all().for_each(|&(j, _)| ends[j + 1] += 1);
        for j in 0..jobs {
            ends[j + 1] += ends[j];
        }
        let mut tiles_of = vec![0; ends[jobs]];
        for (t, list) in tiles.iter().enumerate() {
            for &(j, _) in list {
                tiles_of[ends[j]] = t;
                ends[j] += 1;
            }
        }
        Self {
            tiles,
            tiles_of,
            ends,
        }
    }

    /// The numbers of a job's tiles, ascending.
    fn tiles_of(&self, job: usize) -> &[usize] {
        let first = job.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.tiles_of[first..self.ends[job]]
    }

    /// The jobs of a tile, front to back, with the pixels that each may touch there.
    #[must_use]
    pub fn of_tile(&self, tile: usize) -> &[(usize, PixelRect)] {
        self.tiles.get(tile).map_or(&[], Vec::as_slice)
    }

    /// The tiles of a job: each with its position there, and the pixels that it may touch.
    pub fn of_job(&self, job: usize) -> impl Iterator<Item = (usize, usize, &PixelRect)> {
        self.tiles_of(job).iter().filter_map(move |&tile| {
            let jobs = self.of_tile(tile);
            let position = jobs.binary_search_by_key(&job, |&(j, _)| j).ok()?;
            Some((tile, position, &jobs[position].1))
        })
    }

    /// The runs of a tile, front to back, when job j is rendered by `renderer(j)`: who renders each, and the pixels around it.
    pub fn each_run(
        &self,
        tile: usize,
        renderer: impl Fn(usize) -> usize,
        mut of: impl FnMut(usize, PixelRect),
    ) {
        let mut run: Option<(usize, PixelRect)> = None;
        for &(j, rect) in self.of_tile(tile) {
            let by = renderer(j);
            run = match run {
                Some((last, around)) if last == by => Some((by, around.around(&rect))),
                ended => {
                    if let Some((by, around)) = ended {
                        of(by, around);
                    }
                    Some((by, rect))
                }
            };
        }
        if let Some((by, around)) = run {
            of(by, around);
        }
    }

    /// Pixels that go to a tile's compositor when job j is rendered by `renderer(j)`.
    fn traffic(&self, tile: usize, compositor: usize, renderer: impl Fn(usize) -> usize) -> u64 {
        let mut sum = 0;
        self.each_run(tile, renderer, |by, around| {
            if by != compositor {
                sum += around.pixel_count() as u64;
            }
        });
        sum
    }
}

/// Pixels that all tiles' compositors get from other peers.
#[must_use]
pub fn traffic(jobs: &TileJobs, tiles: &[Tile], assignment: &[Option<usize>]) -> u64 {
    let by = |j: usize| assignment[j].unwrap_or(usize::MAX);
    (0..tiles.len())
        .map(|t| jobs.traffic(t, tiles[t].compositor, by))
        .sum()
}

/// Gives tiles to the peers that render most of them, and moves or swaps jobs between holders
/// where runs become longer and the makespan allows it. `tiles` and `schedule` are changed.
pub fn lengthen_runs(
    jobs: &[ScheduledJob],
    lists: &TileJobs,
    tiles: &mut [Tile],
    schedule: &mut Schedule,
    speeds: &[u64],
) {
    if speeds.len() < 2 {
        return;
    }
    settle_tiles(lists, tiles, &schedule.assignment, speeds.len());
    let limit = schedule
        .makespan_micros
        .saturating_add(schedule.makespan_micros.saturating_mul(MAKESPAN_SLACK) / 1000);
    let mut search = Search::new(jobs, lists, tiles, schedule, speeds, limit);
    for _ in 0..PASSES {
        if !search.pass() {
            break;
        }
    }
    let Search { loads, by, .. } = search;
    let held = schedule.assignment.iter_mut().zip(by);
    held.filter(|(a, _)| a.is_some())
        .for_each(|(a, d)| *a = Some(d));
    schedule.makespan_micros = loads.iter().copied().max().unwrap_or(0);
    schedule.loads_micros = loads;
    settle_tiles(lists, tiles, &schedule.assignment, speeds.len());
}

/// Each tile to the peer that renders most of its pixels, none more than its share and one, where
/// that sends less than before.
fn settle_tiles(lists: &TileJobs, tiles: &mut [Tile], assignment: &[Option<usize>], peers: usize) {
    if peers < 2 {
        return;
    }
    let before: Vec<Tile> = tiles.to_vec();
    let room = tiles.len().div_ceil(peers) + 1;
    let mut wishes = Vec::new();
    for t in 0..tiles.len() {
        let mut pixels = vec![0_u64; peers];
        for &(j, rect) in lists.of_tile(t) {
            if let Some(d) = assignment[j] {
                pixels[d] += rect.pixel_count() as u64;
            }
        }
        let wish = |(d, n): (usize, u64)| (n > 0).then_some((std::cmp::Reverse(n), t, d));
        wishes.extend(pixels.into_iter().enumerate().filter_map(wish));
    }
    wishes.sort_unstable();
    let (mut settled, mut taken) = (vec![false; tiles.len()], vec![0; peers]);
    for (_, t, d) in wishes {
        if !settled[t] && taken[d] < room {
            tiles[t].compositor = d;
            settled[t] = true;
            taken[d] += 1;
        }
    }
    if traffic(lists, tiles, assignment) > traffic(lists, &before, assignment) {
        tiles.copy_from_slice(&before);
    }
}

/// The state of the search.
struct Search<'a> {
    jobs: &'a [ScheduledJob],
    lists: &'a TileJobs,
    tiles: &'a [Tile],
    speeds: &'a [u64],
    limit: u64,
    /// Renderer of each job; `usize::MAX` for those of nobody.
    by: Vec<usize>,
    loads: Vec<u64>,
    /// Traffic of each tile.
    pixels: Vec<u64>,
    visits: u64,
}

/// A change of renderers: each job with its new one.
type Change = [(usize, usize)];

impl<'a> Search<'a> {
    fn new(
        jobs: &'a [ScheduledJob],
        lists: &'a TileJobs,
        tiles: &'a [Tile],
        schedule: &Schedule,
        speeds: &'a [u64],
        limit: u64,
    ) -> Self {
        let by: Vec<usize> = schedule
            .assignment
            .iter()
            .map(|a| a.unwrap_or(usize::MAX))
            .collect();
        let pixels = (0..tiles.len())
            .map(|t| lists.traffic(t, tiles[t].compositor, |j| by[j]))
            .collect();
        Self {
            jobs,
            lists,
            tiles,
            speeds,
            limit,
            loads: schedule.loads_micros.clone(),
            by,
            pixels,
            visits: 0,
        }
    }

    /// Looks at every job once; whether anything changed.
    fn pass(&mut self) -> bool {
        let mut changed = false;
        for j in 0..self.jobs.len() {
            if self.by[j] == usize::MAX || self.visits > VISITS_MAX {
                continue;
            }
            let best = self
                .wanted_by(j)
                .into_iter()
                .filter_map(|e| self.best_towards(j, e))
                .min_by(|a, b| (a.0, &a.1).cmp(&(b.0, &b.1)));
            if let Some((_, change)) = best {
                self.apply(&change);
                changed = true;
            }
        }
        changed
    }

    /// Other holders that render a neighbour of the job in some tile, or composite the tile.
    fn wanted_by(&self, j: usize) -> Vec<usize> {
        let holders = &self.jobs[j].holders;
        let mut wanted = Vec::new();
        if holders.len() == 1 {
            return wanted;
        }
        for &t in self.lists.tiles_of(j) {
            let list = self.lists.of_tile(t);
            let at = list.partition_point(|&(other, _)| other < j);
            wanted.push(self.tiles[t].compositor);
            let before = at.checked_sub(1).map(|i| list[i].0);
            let after = list.get(at + 1).map(|l| l.0);
            wanted.extend(before.into_iter().chain(after).map(|n| self.by[n]));
        }
        wanted.retain(|d| *d != self.by[j] && holders.binary_search(d).is_ok());
        wanted.sort_unstable();
        wanted.dedup();
        wanted
    }

    /// The best way to bring a job to a peer: alone, or in exchange for one of its jobs. The
    /// change in pixels (negative) and the change.
    fn best_towards(&mut self, j: usize, e: usize) -> Option<(i64, Vec<(usize, usize)>)> {
        let d = self.by[j];
        let alone = self.gain(&[(j, e)]);
        if alone >= 0 {
            return None;
        }
        let (j_on_e, j_on_d) = (self.cost(j, e), self.cost(j, d));
        if self.loads[e] + j_on_e <= self.limit {
            return Some((alone, vec![(j, e)]));
        }
        let mut best = None;
        for k in 0..self.jobs.len() {
            if self.by[k] != e || self.jobs[k].holders.binary_search(&d).is_err() {
                continue;
            }
            let (k_on_d, k_on_e) = (self.cost(k, d), self.cost(k, e));
            let fits = self.loads[e] - k_on_e + j_on_e <= self.limit
                && self.loads[d] - j_on_d + k_on_d <= self.limit;
            if !fits || self.visits > VISITS_MAX {
                continue;
            }
            let gain = self.gain(&[(j, e), (k, d)]);
            if gain < best.as_ref().map_or(0, |b: &(i64, _)| b.0) {
                best = Some((gain, vec![(j, e), (k, d)]));
            }
        }
        best
    }

    fn cost(&self, j: usize, d: usize) -> u64 {
        cost_on(self.jobs[j].cost_micros, self.speeds[d])
    }

    /// The change in pixels that a change of renderers makes; negative is better.
    fn gain(&mut self, change: &Change) -> i64 {
        let touched = self.touched(change);
        let by = |j: usize| {
            let changed = change.iter().find(|(c, _)| *c == j);
            changed.map_or(self.by[j], |(_, d)| *d)
        };
        let mut sum = 0_i64;
        let mut visits = 0;
        for t in touched {
            let now = self.lists.traffic(t, self.tiles[t].compositor, by);
            sum += now.cast_signed() - self.pixels[t].cast_signed();
            visits += self.lists.of_tile(t).len() as u64;
        }
        self.visits += visits;
        sum
    }

    fn touched(&self, change: &Change) -> Vec<usize> {
        let mut touched: Vec<usize> = change
            .iter()
            .flat_map(|(j, _)| self.lists.tiles_of(*j).iter().copied())
            .collect();
        touched.sort_unstable();
        touched.dedup();
        touched
    }

    fn apply(&mut self, change: &Change) {
        for &(j, e) in change {
            let d = std::mem::replace(&mut self.by[j], e);
            self.loads[d] -= self.cost(j, d);
            self.loads[e] += self.cost(j, e);
        }
        for t in self.touched(change) {
            self.pixels[t] = self
                .lists
                .traffic(t, self.tiles[t].compositor, |j| self.by[j]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        balance::schedule::{SPEED_ONE, best_fit},
        picture::tiles::tiles,
    };
    use proptest::prelude::*;

    const PICTURE: PixelRect = PixelRect {
        x: 0,
        y: 0,
        width: 128,
        height: 128,
    };

    fn rect(x: u32, y: u32, width: u32, height: u32) -> PixelRect {
        PixelRect {
            x,
            y,
            width,
            height,
        }
    }

    #[test]
    fn a_run_is_sent_once_and_not_at_all_to_its_own_peer() {
        let rects = [rect(0, 0, 4, 4), rect(2, 0, 4, 4), rect(0, 0, 4, 4)];
        let one = [Tile {
            rect: PICTURE,
            compositor: 1,
        }];
        let lists = TileJobs::new(&rects, |_| true, &one);
        let pixels = |by: [usize; 3]| traffic(&lists, &one, &by.map(Some));
        assert_eq!(pixels([0, 0, 0]), 24);
        assert_eq!(pixels([0, 0, 1]), 24);
        assert_eq!(pixels([0, 1, 0]), 32);
        assert_eq!(pixels([1, 1, 1]), 0);
    }

    proptest! {
        #[test]
        fn less_is_sent_and_the_makespan_stays_within_two_percent(
            raw in prop::collection::vec(
                (1_000u64..20_000, prop::collection::btree_set(0usize..5, 1..4), 0u32..100, 0u32..100, 8u32..60), 1..60),
            speeds in prop::collection::vec(500_000u64..3_000_000, 5),
        ) {
            let jobs: Vec<ScheduledJob> = raw.iter().map(|r| ScheduledJob {
                cost_micros: r.0,
                holders: r.1.iter().copied().collect(),
            }).collect();
            let rects: Vec<PixelRect> = raw.iter()
                .filter_map(|r| rect(r.2, r.3, r.4, r.4).intersection(&PICTURE)).collect();
            let mut tiles = tiles(PICTURE, 5);
            let lists = TileJobs::new(&rects, |_| true, &tiles);
            let before = best_fit(&jobs, &speeds);
            let sent_before = traffic(&lists, &tiles, &before.assignment);
            let mut after = before.clone();
            lengthen_runs(&jobs, &lists, &mut tiles, &mut after, &speeds);
            prop_assert!(traffic(&lists, &tiles, &after.assignment) <= sent_before);
            prop_assert!(after.makespan_micros * 1000 <= before.makespan_micros * 1020);
            let mut loads = vec![0; 5];
            for (job, d) in jobs.iter().zip(&after.assignment) {
                let d = d.unwrap();
                prop_assert!(job.holders.contains(&d));
                loads[d] += cost_on(job.cost_micros, speeds[d]);
            }
            prop_assert_eq!(loads, after.loads_micros);
        }
    }

    #[test]
    fn scattered_neighbours_come_together_where_loads_allow() {
        // Sixteen equal layers over the whole picture, dealt in turn to two peers that hold all.
        let jobs = vec![
            ScheduledJob {
                cost_micros: 1000,
                holders: vec![0, 1],
            };
            16
        ];
        let rects = [PICTURE; 16];
        let mut tiles = tiles(PICTURE, 2);
        let lists = TileJobs::new(&rects, |_| true, &tiles);
        let mut schedule = best_fit(&jobs, &[SPEED_ONE; 2]);
        let before = traffic(&lists, &tiles, &schedule.assignment);
        lengthen_runs(&jobs, &lists, &mut tiles, &mut schedule, &[SPEED_ONE; 2]);
        let after = traffic(&lists, &tiles, &schedule.assignment);
        assert_eq!(schedule.makespan_micros, 8000);
        assert!(after * 3 <= before, "{before} -> {after}");
    }
}
