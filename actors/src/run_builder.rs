//! Gathers what a peer renders into runs: jobs that follow each other in a tile's order are
//! blended here and sent once. Which jobs those are is the plan's, and what was stolen since.

use brickmesh_shaders::SubImage;
use brickmesh_topology::{PixelRect, balance::frame_plan::FramePlan};
use std::collections::BTreeMap;

/// Jobs that follow each other in a tile's order, blended.
#[derive(Clone, Debug)]
pub struct Run {
    /// Tile of the plan.
    pub tile: usize,
    /// Position of its first job in the tile's order.
    pub first: usize,
    /// Number of jobs.
    pub count: usize,
    /// Their pixels.
    pub image: SubImage,
}

/// Runs of one frame that may still grow, by tile.
#[derive(Debug, Default)]
pub struct RunBuilder {
    open: BTreeMap<usize, Run>,
}

impl RunBuilder {
    /// Takes a rendered job. Returns the runs that end with it, because the next job of the tile
    /// is not among those that `is_next_here` says will follow, or because they did not lead up
    /// to it.
    pub fn add(
        &mut self,
        plan: &FramePlan,
        job: usize,
        image: &SubImage,
        is_next_here: impl Fn(usize) -> bool,
    ) -> Vec<Run> {
        let mut ended = Vec::new();
        for tile in 0..plan.tiles.len() {
            let order = plan.tile_jobs.of_tile(tile);
            let Ok(position) = order.binary_search_by_key(&job, |&(j, _)| j) else {
                continue;
            };
            let part = image
                .crop(&order[position].1)
                .map_or_else(|| nothing(order[position].1), |p| p.trimmed());
            let run = match self.open.remove(&tile) {
                Some(run) if run.first + run.count == position => Run {
                    count: run.count + 1,
                    image: run.image.then(&part, plan.mode),
                    ..run
                },
                other => {
                    ended.extend(other);
                    Run {
                        tile,
                        first: position,
                        count: 1,
                        image: part,
                    }
                }
            };
            let next = order.get(position + 1);
            if next.is_some_and(|&(j, _)| is_next_here(j)) {
                self.open.insert(tile, run);
            } else {
                ended.push(run);
            }
        }
        ended
    }

    /// All runs that are still open, as they are: nothing more is rendered here for now.
    pub fn end_all(&mut self) -> Vec<Run> {
        std::mem::take(&mut self.open).into_values().collect()
    }
}

fn nothing(at: PixelRect) -> SubImage {
    SubImage::transparent(PixelRect {
        width: 0,
        height: 0,
        ..at
    })
}
