//! What a peer has to send of a frame, until there is enough of it: a message costs its two ends
//! as much as tens of kilobytes do.
//!
//! Runs wait for others to the same compositor, and times for others to the requester; all goes
//! when a compositor's share is large enough to be worth its way, or when nothing more is
//! rendered here for now.

use crate::messages::{JobTime, Pixels, TilePart};
use crate::run_builder::{Run, RunBuilder};
use brickmesh_topology::picture::render_settings::Mode;
use std::collections::BTreeMap;

/// Bytes of pixels to one compositor that are worth a message.
const BYTES_ENOUGH: usize = 64 << 10;
/// Bytes of pixels in one message, if it has more than one part; a part is a tile at most.
const BYTES_MAX: usize = 8 << 20;

/// What goes to one compositor, in one message.
#[derive(Debug, Default, PartialEq)]
pub struct Parcel {
    /// Pieces of its tiles.
    pub tiles: Vec<TilePart>,
    bytes: usize,
}

/// See the module. Of one frame.
#[derive(Debug, Default)]
pub struct Parcels {
    /// Runs that may still grow.
    pub runs: RunBuilder,
    by_compositor: BTreeMap<usize, Parcel>,
    /// Parcels that took no more.
    closed: Vec<(usize, Parcel)>,
    times: Vec<JobTime>,
}

impl Parcels {
    /// Takes a job's time.
    pub fn add_time(&mut self, time: JobTime) {
        self.times.push(time);
    }

    /// Takes runs that have ended, each for the compositor that `compositor` names by its tile.
    pub fn add(&mut self, ended: Vec<Run>, mode: Mode, compositor: impl Fn(usize) -> usize) {
        let number = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        for run in ended {
            let compositor = compositor(run.tile);
            let part = TilePart {
                tile: number(run.tile),
                first: number(run.first),
                count: number(run.count),
                pixels: Pixels::of(&run.image, mode),
            };
            let parcel = self.by_compositor.entry(compositor).or_default();
            let bytes = part.pixels.bytes.len();
            if !parcel.tiles.is_empty() && parcel.bytes + bytes > BYTES_MAX {
                self.closed.push((compositor, std::mem::take(parcel)));
            }
            parcel.bytes += bytes;
            parcel.tiles.push(part);
        }
    }

    /// The parcels that are large enough.
    pub fn take_full(&mut self) -> Vec<(usize, Parcel)> {
        let full = |_: &usize, p: &mut Parcel| p.bytes >= BYTES_ENOUGH;
        let mut parcels = std::mem::take(&mut self.closed);
        parcels.extend(self.by_compositor.extract_if(.., full));
        parcels
    }

    /// All parcels, however small, and the times.
    pub fn take_all(&mut self) -> (Vec<(usize, Parcel)>, Vec<JobTime>) {
        let mut parcels = std::mem::take(&mut self.closed);
        parcels.extend(std::mem::take(&mut self.by_compositor));
        (parcels, std::mem::take(&mut self.times))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_shaders::SubImage;
    use brickmesh_topology::PixelRect;

    fn run(tile: usize, edge: u32) -> Run {
        let rect = PixelRect {
            x: 0,
            y: 0,
            width: edge,
            height: edge,
        };
        Run {
            tile,
            first: 0,
            count: 1,
            image: SubImage::transparent(rect),
        }
    }

    #[test]
    fn small_parts_wait_and_go_together() {
        let mut parcels = Parcels::default();
        // 80² pixels of 8 bytes are 50 KiB.
        parcels.add(vec![run(0, 8), run(1, 80), run(2, 8)], Mode::Dvr, |tile| {
            tile % 2
        });
        assert!(parcels.take_full().is_empty());
        parcels.add(vec![run(3, 80)], Mode::Dvr, |tile| tile % 2);
        let full = parcels.take_full();
        let tiles: Vec<u32> = full[0].1.tiles.iter().map(|t| t.tile).collect();
        assert_eq!((full.len(), full[0].0, tiles), (1, 1, vec![1, 3]));
        // 1024² pixels are 8 MiB: each goes alone.
        parcels.add(vec![run(0, 1024), run(2, 1024)], Mode::Dvr, |tile| tile % 2);
        let sizes: Vec<usize> = (parcels.take_full().iter())
            .map(|p| p.1.tiles.len())
            .collect();
        assert_eq!(sizes, [2, 1, 1]);
        parcels.add(vec![run(0, 8), run(2, 8)], Mode::Dvr, |tile| tile % 2);
        let time = JobTime {
            job: 4,
            measured_micros: 5,
        };
        parcels.add_time(time);
        let (rest, times) = parcels.take_all();
        let tiles: Vec<u32> = rest[0].1.tiles.iter().map(|t| t.tile).collect();
        assert_eq!((rest.len(), rest[0].0, tiles), (1, 0, vec![0, 2]));
        assert_eq!(times, [time]);
        assert_eq!(parcels.take_all(), (vec![], vec![]));
    }
}
