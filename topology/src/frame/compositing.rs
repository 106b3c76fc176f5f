//! The compositor of a peer: combines the partials of its tiles.
//!
//! A pure state machine; who drives it sends what it says, and tells it which tiles were sent.
//! Invariant: a tile is combined in the plan's order, front to back, whatever the order of
//! arrival; each job of it exactly once, whoever rendered it. A partial of another plan is not
//! combined.
//! Invariant: memory is bounded, by bytes: partials that came early by [`EARLY_BYTES_MAX`], tiles by
//! [`TILE_BYTES_MAX`] and runs that wait in them by [`WAITING_BYTES_MAX`]. A frame for which there is no
//! room is refused.

mod early;
mod open_tile;

pub use early::Arrived;
pub use open_tile::BadPart;

use crate::{
    balance::frame_plan::FramePlan,
    base::{digest::Digest, peer::PeerId},
    frame::{
        frame_requests::{Complaint, FrameId, FrameMessage},
        image::Packed,
        occlusion::OcclusionMap,
    },
};
use early::Early;
use open_tile::OpenTile;
use serde::{Deserialize, Serialize};
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Frames of one requester that are composited at a time; older ones are dropped.
const FRAMES_MAX: usize = 16;
/// Bytes of partials that wait for their frame to be announced; older ones are dropped.
pub const EARLY_BYTES_MAX: usize = 128 << 20;
/// Bytes of tiles that are being combined, of all frames; one frame alone may have more. 16 a pixel,
/// of the tiles that this peer composites: four pictures of 7680 x 4320 fit.
pub const TILE_BYTES_MAX: usize = 2 << 30;
/// Bytes of runs that wait for what they follow on, of all frames.
pub const WAITING_BYTES_MAX: usize = 512 << 20;

/// Who asked for a frame, and which of its frames.
pub type FrameKey = (PeerId, FrameId);

/// What a peer rendered of a compositor's tiles.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Partial<P> {
    /// The frame.
    pub key: FrameKey,
    /// Digest of the plan that the renderer followed.
    pub plan: Digest,
    /// The parts.
    pub parts: Vec<Part<P>>,
}

/// A run of a tile, as it travels: jobs that follow each other in its order, combined by who rendered
/// them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part<P> {
    /// Tile of the plan.
    pub tile: u32,
    /// Position of the first job in the tile's order.
    pub first: u32,
    /// Number of jobs.
    pub count: u32,
    /// What they came to.
    pub pixels: P,
}

/// Jobs that nobody would see in some tile: what came of others, in front of them, is opaque there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenJobs {
    /// The frame.
    pub key: FrameKey,
    /// Digest of the plan.
    pub plan: Digest,
    /// Tiles of the plan, each with a job that is hidden there.
    pub jobs: Vec<(u32, u32)>,
}

/// See the module.
#[derive(Debug)]
pub struct Compositing<P: Packed> {
    local: PeerId,
    frames: BTreeMap<FrameKey, Frame<P>>,
    early: Early<P>,
}

#[derive(Debug)]
struct Frame<P: Packed> {
    plan: Arc<FramePlan>,
    tiles: BTreeMap<u32, OpenTile<P::Image>>,
}

/// A tile that is whole.
#[derive(Clone, Debug)]
pub struct WholeTile<I> {
    /// Digest of the plan.
    pub plan: Digest,
    /// Tile of the plan.
    pub tile: u32,
    /// What its jobs came to.
    pub image: Arc<I>,
    /// Bytes that came for it from other peers.
    pub received_bytes: u64,
}

impl<P: Packed> Compositing<P> {
    /// A compositor without frames.
    #[must_use]
    pub fn new(local: PeerId) -> Self {
        Self {
            local,
            frames: BTreeMap::new(),
            early: Early::new(EARLY_BYTES_MAX),
        }
    }

    /// Announces a frame: partials of it may come. What came early is taken.
    pub fn expect(&mut self, key: &FrameKey, plan: &Arc<FramePlan>) -> Vec<FrameMessage> {
        let frame = Frame::<P>::new(Arc::clone(plan), &self.local);
        if frame.tiles.is_empty() {
            return Vec::new();
        }
        let taken: usize = self.frames.values().map(Frame::tile_bytes).sum();
        if taken > 0 && taken + frame.tile_bytes() > TILE_BYTES_MAX {
            return vec![FrameMessage::Busy];
        }
        self.frames.insert(key.clone(), frame);
        let of_requester = self.frames.keys().filter(|(r, _)| *r == key.0);
        let old: Vec<_> = of_requester.rev().skip(FRAMES_MAX).cloned().collect();
        old.iter().for_each(|k| drop(self.frames.remove(k)));
        let early = self.early.take(|of| of == key).into_iter();
        early.flat_map(|arrived| self.take(arrived)).collect()
    }

    /// Takes a partial; what its requester is to be told.
    pub fn take(&mut self, arrived: Arrived<P>) -> Vec<FrameMessage> {
        let Some(frame) = self.frames.get_mut(&arrived.partial.key) else {
            self.early.keep(arrived);
            return Vec::new();
        };
        let Arrived {
            from,
            partial,
            wire_bytes,
        } = arrived;
        let key = partial.key.clone();
        // A stranger's partial is dropped.
        if frame.plan.index_of(&from).is_none() {
            return Vec::new();
        }
        if partial.plan != frame.plan.digest {
            return vec![complaint(from, Complaint::AnotherPlan)];
        }
        let bad = frame.take(partial, wire_bytes);
        let mut replies: Vec<_> = bad
            .into_iter()
            .map(|bad| complaint(from.clone(), Complaint::Refused(bad.to_string())))
            .collect();
        let waiting: usize = self.frames.values().map(Frame::waiting_bytes).sum();
        if waiting > WAITING_BYTES_MAX {
            self.frames.remove(&key);
            replies.push(FrameMessage::Busy);
        }
        replies
    }

    /// What was found to be hidden in the tiles of a frame since this was asked last, for who is to render it.
    pub fn hidden(&mut self, key: &FrameKey) -> Vec<(PeerId, HiddenJobs)> {
        let Some(Frame { plan, tiles }) = self.frames.get_mut(key) else {
            return Vec::new();
        };
        let mut hidden: BTreeMap<usize, Vec<(u32, u32)>> = BTreeMap::new();
        for (&tile, open) in tiles {
            for (renderer, job) in open.take_hidden(plan, tile) {
                hidden.entry(renderer).or_default().push((tile, job));
            }
        }
        let hidden = hidden.into_iter().map(|(renderer, jobs)| {
            let (key, plan, peer) = (key.clone(), plan.digest, plan.peers[renderer].clone());
            (peer, HiddenJobs { key, plan, jobs })
        });
        hidden.collect()
    }

    /// The tiles of a frame that are whole and were not sent yet.
    #[must_use]
    pub fn whole(&self, key: &FrameKey) -> Vec<u32> {
        let tiles = self.frames.get(key).into_iter().flat_map(|f| &f.tiles);
        let whole = tiles.filter(|(_, open)| open.is_whole());
        whole.map(|(&tile, _)| tile).collect()
    }

    /// A whole tile, to be sent to the frame's requester.
    #[must_use]
    pub fn tile(&mut self, key: &FrameKey, tile: u32) -> Option<WholeTile<P::Image>> {
        let frame = self.frames.get_mut(key)?;
        let open = frame.tiles.get_mut(&tile).filter(|open| open.is_whole())?;
        Some(WholeTile {
            plan: frame.plan.digest,
            tile,
            image: open.image(),
            received_bytes: open.received_bytes(),
        })
    }

    /// A tile was sent.
    pub fn sent(&mut self, key: &FrameKey, tile: u32) {
        if let Some(frame) = self.frames.get_mut(key) {
            frame.tiles.remove(&tile);
            if frame.tiles.is_empty() {
                self.frames.remove(key);
            }
        }
    }

    /// How partials of a frame combine, if it is known.
    #[must_use]
    pub fn plan(&self, key: &FrameKey) -> Option<&Arc<FramePlan>> {
        self.frames.get(key).map(|f| &f.plan)
    }

    /// What the tiles of a frame lack that is awaited. Whoever never heard of the frame, or is done with
    /// it, lacks nothing.
    #[must_use]
    pub fn lacking(&self, key: &FrameKey) -> Option<FrameMessage> {
        let frame = self.frames.get(key)?;
        let tiles = frame.tiles.iter();
        let jobs = tiles.flat_map(|(&tile, open)| open.lacking(&frame.plan, tile));
        let jobs: BTreeSet<u32> = jobs.collect();
        let jobs = jobs.into_iter().collect();
        let plan = frame.plan.digest;
        Some(FrameMessage::Lacking { plan, jobs })
    }

    /// Frames of a requester are over; `None`: all of them.
    pub fn forget(&mut self, requester: &PeerId, frame: Option<FrameId>) {
        let over = |key: &FrameKey| key.0 == *requester && frame.is_none_or(|f| f == key.1);
        self.frames.retain(|key, _| !over(key));
        drop(self.early.take(over));
    }
}

fn complaint(about: PeerId, what: Complaint) -> FrameMessage {
    FrameMessage::Complaint { about, what }
}

impl<P: Packed> Frame<P> {
    /// The tiles of a plan that a peer composites.
    fn new(plan: Arc<FramePlan>, local: &PeerId) -> Self {
        let tiles = plan.tiles_of(local).map(|(index, tile)| {
            let count = plan.tile_jobs.of_tile(index).len();
            let number = u32::try_from(index).unwrap_or(u32::MAX);
            // A peer that is alone knows it all.
            let opaque = plan.opaque.filter(|_| plan.peers.len() > 1);
            let map = opaque.map(|opaque| OcclusionMap::new(tile.rect, opaque));
            (number, OpenTile::new(tile.rect, count, map))
        });
        let tiles = tiles.filter(|(_, tile)| !tile.is_whole()).collect();
        Self { plan, tiles }
    }

    fn tile_bytes(&self) -> usize {
        self.tiles.values().map(OpenTile::image_bytes).sum()
    }

    fn waiting_bytes(&self) -> usize {
        self.tiles.values().map(OpenTile::waiting_bytes).sum()
    }

    /// Takes a peer's runs; what is wrong with one of them, unless it came twice.
    fn take(&mut self, partial: Partial<P>, wire_bytes: u64) -> Option<BadPart> {
        let share = wire_bytes / partial.parts.len().max(1) as u64;
        let mut refused = None;
        for part in partial.parts {
            let Some(open) = self.tiles.get_mut(&part.tile) else {
                continue;
            };
            match open.take(&self.plan, part, share) {
                // It would be waited for; what came twice is there.
                Err(bad) if bad != BadPart::Twice => refused = refused.or(Some(bad)),
                _ => {}
            }
        }
        refused
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

    const RECT: PixelRect = PixelRect {
        x: 0,
        y: 0,
        width: 8,
        height: 8,
    };

    fn key() -> FrameKey {
        let frame = FrameId {
            number: 1,
            attempt: 0,
        };
        (PeerId::new("r"), frame)
    }

    /// Three jobs in one tile, which `a` composites.
    fn plan() -> Arc<FramePlan> {
        let job = |b: u32| PlannedJob {
            brick: BrickIndex(b),
            owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
            rect: RECT,
            leaf: 0,
            estimate_micros: 1,
            renderer: Some(0),
            is_rendered: false,
            content: None,
        };
        let tile = Tile {
            rect: RECT,
            compositor: 0,
        };
        let jobs = (0..3).map(job).collect();
        let plan = scripted(&["a", "b"], vec![1; 2], jobs, vec![vec![0]; 3], vec![tile]);
        Arc::new(plan)
    }

    fn part(first: u32, names: &[u32]) -> Part<Names> {
        let mut image = Names::of(names[0], RECT);
        for &name in &names[1..] {
            use crate::frame::image::Image as _;
            image.combine(&Names::of(name, RECT), Default::default());
        }
        Part {
            tile: 0,
            first,
            count: u32::try_from(names.len()).unwrap(),
            pixels: image,
        }
    }

    fn arrived(plan: &FramePlan, parts: Vec<Part<Names>>) -> Arrived<Names> {
        Arrived {
            from: PeerId::new("b"),
            partial: Partial {
                key: key(),
                plan: plan.digest,
                parts,
            },
            wire_bytes: 10,
        }
    }

    #[test]
    fn runs_are_combined_in_the_order_of_the_plan_each_job_once() {
        let plan = plan();
        let mut compositing = Compositing::new(PeerId::new("a"));
        // Before the frame is announced.
        assert!(
            compositing
                .take(arrived(&plan, vec![part(1, &[1])]))
                .is_empty()
        );
        assert!(compositing.expect(&key(), &plan).is_empty());
        assert_eq!(
            compositing.lacking(&key()),
            Some(FrameMessage::Lacking {
                plan: plan.digest,
                jobs: vec![0, 2]
            })
        );
        // One that came is not taken again, alone or with others.
        for parts in [part(1, &[1]), part(0, &[0, 1])] {
            assert!(compositing.take(arrived(&plan, vec![parts])).is_empty());
        }
        compositing.take(arrived(&plan, vec![part(2, &[2])]));
        assert!(compositing.whole(&key()).is_empty());
        compositing.take(arrived(&plan, vec![part(0, &[0])]));
        assert_eq!(compositing.whole(&key()), [0]);
        let tile = compositing.tile(&key(), 0).unwrap();
        assert_eq!(
            (tile.image.names(), tile.received_bytes),
            (&[0, 1, 2][..], 30)
        );
        compositing.sent(&key(), 0);
        assert_eq!(compositing.lacking(&key()), None);
    }

    #[test]
    fn renderers_are_told_once_what_is_hidden_by_what_came() {
        let plan = plan();
        let mut compositing = Compositing::new(PeerId::new("a"));
        assert!(compositing.expect(&key(), &plan).is_empty());
        let mut hidden_after = |first: u32, pixels: Names| {
            let part = Part {
                tile: 0,
                first,
                count: 1,
                pixels,
            };
            compositing.take(arrived(&plan, vec![part]));
            compositing.hidden(&key())
        };
        assert!(
            hidden_after(2, Names::of(2, RECT).opaque()).is_empty(),
            "nothing is behind it"
        );
        let [(to, hidden)] = &hidden_after(0, Names::of(0, RECT).opaque())[..] else {
            panic!("one peer is told");
        };
        assert_eq!((to.as_str(), &hidden.jobs[..]), ("a", &[(0, 1)][..]));
        assert_eq!((&hidden.key, hidden.plan), (&key(), plan.digest));
        assert!(compositing.hidden(&key()).is_empty(), "it was told");
        compositing.take(arrived(&plan, vec![part(1, &[1])]));
        assert_eq!(compositing.whole(&key()), [0]);
        // A renderer that is alone need not be told.
        let job = plan.jobs[0];
        let jobs = vec![job; 2];
        let alone = scripted(&["a"], vec![1], jobs, vec![vec![0]; 2], plan.tiles.clone());
        let alone = Arc::new(alone);
        compositing.expect(&key(), &alone);
        let pixels = Names::of(0, RECT).opaque();
        let part = Part {
            tile: 0,
            first: 0,
            count: 1,
            pixels,
        };
        let from = PeerId::new("a");
        compositing.take(Arrived {
            from,
            ..arrived(&alone, vec![part])
        });
        assert!(compositing.hidden(&key()).is_empty());
    }

    #[test]
    fn what_cannot_be_combined_is_refused_and_another_plan_is_told() {
        let plan = plan();
        let mut compositing = Compositing::new(PeerId::new("a"));
        compositing.expect(&key(), &plan);
        let refused = |replies: Vec<FrameMessage>| match &replies[..] {
            [
                FrameMessage::Complaint {
                    what: Complaint::Refused(why),
                    ..
                },
            ] => why.clone(),
            other => panic!("{other:?}"),
        };
        let of = |part| arrived(&plan, vec![part]);
        assert_eq!(
            refused(compositing.take(of(part(2, &[2, 3])))),
            BadPart::Jobs.to_string()
        );
        let mut outside = part(0, &[0]);
        outside.pixels = Names::of(0, PixelRect { x: 4, ..RECT });
        assert_eq!(
            refused(compositing.take(of(outside))),
            BadPart::Place.to_string()
        );
        let mut other = arrived(&plan, vec![part(0, &[0])]);
        other.partial.plan = Digest::of(b"another");
        let diverged = complaint(PeerId::new("b"), Complaint::AnotherPlan);
        assert_eq!(compositing.take(other), [diverged]);
        let mut stranger = arrived(&plan, vec![part(0, &[0])]);
        stranger.from = PeerId::new("z");
        assert!(compositing.take(stranger).is_empty());
        compositing.forget(&key().0, None);
        assert_eq!(compositing.lacking(&key()), None);
    }
}
