//! What a peer has rendered of a frame, until it is sent: a message costs its two ends as much as tens
//! of kilobytes do.
//!
//! Jobs that follow each other in a tile's depth order are combined here into runs. Runs wait for others to
//! the same compositor, and times for others to the requester; all goes when a compositor's share is
//! large enough to be worth its way, or when nothing more is rendered here for now.

use crate::{
    balance::frame_plan::FramePlan,
    frame::image::{Image, PIXEL_BYTES},
};
use std::collections::BTreeMap;

/// Bytes of pixels to one compositor that are worth a message.
const BYTES_ENOUGH: usize = 64 << 10;
/// Bytes of pixels in one message, if it has more than one run; a run is a tile at most.
const BYTES_MAX: usize = 8 << 20;
/// Bytes of runs that may grow; beyond it none waits for that.
const OPEN_BYTES_MAX: usize = 32 << 20;

/// Jobs that follow each other in a tile's depth order, combined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run<I> {
    /// Tile of the plan.
    pub tile: u32,
    /// Position of its first job in the tile's order.
    pub first: u32,
    /// Number of jobs.
    pub count: u32,
    /// What they came to.
    pub image: I,
}

/// Runs to the compositor with this index in the roster.
pub type Batch<I> = (usize, Vec<Run<I>>);

/// See the module.
#[derive(Debug)]
pub struct Outgoing<I> {
    /// Runs that may still grow, by tile and first job.
    open: BTreeMap<(u32, u32), Run<I>>,
    /// What they take.
    open_bytes: usize,
    /// Runs that wait, and their bytes, by compositor.
    waiting: BTreeMap<usize, (Vec<Run<I>>, usize)>,
    /// Batches that take no more.
    closed: Vec<Batch<I>>,
    times: Vec<(u32, u64)>,
}

impl<I> Default for Outgoing<I> {
    fn default() -> Self {
        Self {
            open: BTreeMap::new(),
            open_bytes: 0,
            waiting: BTreeMap::new(),
            closed: Vec::new(),
            times: Vec::new(),
        }
    }
}

impl<I: Image> Outgoing<I> {
    /// Takes a rendered job and the time that it took, in whatever order they come. A run ends in tiles where the jobs
    /// before and after it are not among those that `follows` says will come.
    pub fn rendered(
        &mut self,
        plan: &FramePlan,
        job: u32,
        measured_micros: u64,
        image: &I,
        follows: impl Fn(u32) -> bool,
    ) {
        self.times.push((job, measured_micros));
        for (tile, position, inside) in plan.tile_jobs.of_job(job as usize) {
            let order = plan.tile_jobs.of_tile(tile);
            let [tile, first] = [tile, position].map(|n| u32::try_from(n).unwrap_or(u32::MAX));
            let mut run = match self.take_ending_at(tile, first) {
                Some(run) => Run {
                    count: run.count + 1,
                    image: run.image.then(image, inside, plan.mode),
                    ..run
                },
                None => Run {
                    tile,
                    first,
                    count: 1,
                    image: image.part(inside),
                },
            };
            if let Some(after) = self.take_open((tile, first + 1)) {
                let rect = after.image.rect();
                run.image = run.image.then(&after.image, &rect, plan.mode);
                run.count += after.count;
            }
            let comes = |position: Option<u32>| {
                let job = position.and_then(|p| order.get(p as usize));
                job.is_some_and(|&(j, _)| u32::try_from(j).is_ok_and(&follows))
            };
            let bytes = run.image.bytes();
            let grows = comes(run.first.checked_sub(1)) || comes(run.first.checked_add(run.count));
            if grows && self.open_bytes + bytes <= OPEN_BYTES_MAX {
                self.open_bytes += bytes;
                self.open.insert((tile, run.first), run);
            } else {
                self.end(plan, run);
            }
        }
    }

    /// Takes the open run of a tile that ends before a position.
    fn take_ending_at(&mut self, tile: u32, position: u32) -> Option<Run<I>> {
        let (&name, run) = self.open.range((tile, 0)..(tile, position)).next_back()?;
        let is_it = run.first + run.count == position;
        is_it.then(|| self.take_open(name)).flatten()
    }

    fn take_open(&mut self, name: (u32, u32)) -> Option<Run<I>> {
        let run = self.open.remove(&name)?;
        self.open_bytes -= run.image.bytes();
        Some(run)
    }

    fn end(&mut self, plan: &FramePlan, run: Run<I>) {
        let compositor = plan.tiles[run.tile as usize].compositor;
        let (runs, bytes) = self.waiting.entry(compositor).or_default();
        let more = run.image.rect().pixel_count() * PIXEL_BYTES;
        if !runs.is_empty() && *bytes + more > BYTES_MAX {
            self.closed.push((compositor, std::mem::take(runs)));
            *bytes = 0;
        }
        *bytes += more;
        runs.push(run);
    }

    /// The batches that are large enough.
    pub fn take_full(&mut self) -> Vec<Batch<I>> {
        let full = |_: &usize, (_, bytes): &mut (Vec<Run<I>>, usize)| *bytes >= BYTES_ENOUGH;
        let mut batches = std::mem::take(&mut self.closed);
        let waiting = self.waiting.extract_if(.., full);
        batches.extend(waiting.map(|(compositor, (runs, _))| (compositor, runs)));
        batches
    }

    /// The times of jobs whose runs may wait yet.
    pub fn take_times(&mut self) -> Vec<(u32, u64)> {
        std::mem::take(&mut self.times)
    }

    /// All runs, also those that might have grown, and the times: jobs, and microseconds.
    pub fn take_all(&mut self, plan: &FramePlan) -> (Vec<Batch<I>>, Vec<(u32, u64)>) {
        self.open_bytes = 0;
        for run in std::mem::take(&mut self.open).into_values() {
            self.end(plan, run);
        }
        let mut batches = std::mem::take(&mut self.closed);
        let waiting = std::mem::take(&mut self.waiting).into_iter();
        batches.extend(waiting.map(|(compositor, (runs, _))| (compositor, runs)));
        (batches, std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        balance::frame_plan::{PlannedJob, scripted},
        data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
        frame::image::named::Names,
        picture::{camera::PixelRect, tiles::Tile},
    };

    fn rect(x: u32, edge: u32) -> PixelRect {
        PixelRect {
            x,
            y: 0,
            width: edge,
            height: edge,
        }
    }

    /// Jobs that cover all of a row of tiles of this edge, which two peers composite in turn.
    fn row(jobs: u32, tiles: u32, edge: u32) -> FramePlan {
        let all = PixelRect {
            width: tiles * edge,
            ..rect(0, edge)
        };
        let job = |b: u32| PlannedJob {
            brick: BrickIndex(b),
            owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
            rect: all,
            leaf: 0,
            estimate_micros: 1,
            renderer: Some(0),
            is_rendered: false,
            content: None,
        };
        let tile = |t: u32| Tile {
            rect: rect(t * edge, edge),
            compositor: (t % 2) as usize,
        };
        scripted(
            &["a", "b"],
            vec![1_000_000; 2],
            (0..jobs).map(job).collect(),
            vec![vec![0, 1]; jobs as usize],
            (0..tiles).map(tile).collect(),
        )
    }

    /// Compositor, and tile, first job and count of each of its runs.
    type Runs = (usize, Vec<(u32, u32, u32)>);

    fn tiles_of(batches: &[Batch<Names>]) -> Vec<Runs> {
        let of = |(to, runs): &Batch<Names>| {
            let runs = runs.iter().map(|r| (r.tile, r.first, r.count));
            (*to, runs.collect())
        };
        batches.iter().map(of).collect()
    }

    #[test]
    fn neighbours_in_depth_are_one_run_and_what_is_small_waits() {
        let plan = row(4, 1, 8);
        let mut out = Outgoing::default();
        let image = |job| Names::of(job, plan.jobs[job as usize].rect);
        out.rendered(&plan, 0, 10, &image(0), |next| next == 1);
        out.rendered(&plan, 1, 11, &image(1), |_| false);
        out.rendered(&plan, 3, 12, &image(3), |_| true);
        assert!(out.take_full().is_empty());
        let (all, times) = out.take_all(&plan);
        assert_eq!(tiles_of(&all), [(0, vec![(0, 0, 2), (0, 3, 1)])]);
        assert_eq!(all[0].1[0].image.names(), [0, 1]);
        assert_eq!(times, [(0, 10), (1, 11), (3, 12)]);
        assert_eq!(out.take_all(&plan), (vec![], vec![]));
    }

    #[test]
    fn jobs_that_come_in_another_order_are_one_run_too_within_bounds() {
        let plan = row(5, 1, 8);
        let mut out = Outgoing::default();
        let mut left = vec![3, 1, 4, 0, 2];
        while let Some(job) = left.pop() {
            let image = Names::of(job, plan.jobs[job as usize].rect);
            out.rendered(&plan, job, 1, &image, |j| left.contains(&j));
        }
        assert_eq!(out.open_bytes, 0);
        let (all, _) = out.take_all(&plan);
        assert_eq!(tiles_of(&all), [(0, vec![(0, 0, 5)])]);
        assert_eq!(all[0].1[0].image.names(), [0, 1, 2, 3, 4]);
        // 2048² pixels are 64 MiB.
        let large = row(3, 1, 2048);
        let image = Names::of(0, large.jobs[0].rect);
        out.rendered(&large, 0, 1, &image, |_| true);
        assert_eq!((out.open.len(), out.open_bytes), (0, 0));
    }

    #[test]
    fn batches_go_when_they_are_large_enough_and_are_not_too_large() {
        // 80² pixels of 8 bytes are 50 KiB.
        let small = row(1, 4, 80);
        let mut out = Outgoing::default();
        out.rendered(&small, 0, 1, &Names::of(0, small.jobs[0].rect), |_| false);
        let both = [
            (0, vec![(0, 0, 1), (2, 0, 1)]),
            (1, vec![(1, 0, 1), (3, 0, 1)]),
        ];
        assert_eq!(tiles_of(&out.take_full()), both);
        // 1024² pixels are 8 MiB: each goes alone.
        let large = row(1, 3, 1024);
        out.rendered(&large, 0, 1, &Names::of(0, large.jobs[0].rect), |_| false);
        let alone = [
            (0, vec![(0, 0, 1)]),
            (0, vec![(2, 0, 1)]),
            (1, vec![(1, 0, 1)]),
        ];
        assert_eq!(tiles_of(&out.take_full()), alone);
    }
}
