//! Painted pictures: colours say where a picture comes from, in place of those of the volume and its surfaces.
//!
//! Each peer paints the jobs that it renders, so that what is stolen has the thief's colour, and pixels to which several peers add have
//! theirs mixed by depth.
//!
//! Source: DeMarle, Gribble, Boulos, Parker 2005: figures 1 (who rendered which pixels), 2 (who owns which data) and 9 (what is rendered
//! elsewhere than in the frame before).

use crate::{
    balance::{
        frame_plan::{FramePlan, PlannedJob},
        roster::Roster,
    },
    base::peer::PeerId,
    data::brick_grid::BrickIndex,
    picture::render_settings::Paint,
};
use std::collections::{BTreeMap, BTreeSet};

/// Frames of a requester whose jobs are known: the last one, and those that are under way beside it.
const FRAMES_MAX: usize = 8;
/// Requesters whose frames are known.
const REQUESTERS_MAX: usize = 16;
/// From one colour to the next, in turns around the circle of hues: neighbours in number are far apart.
const HUE_TURN: f32 = 0.618_034;
/// What did not move, and what did. Linear RGB.
const STAYED: [f32; 3] = [0.35, 0.35, 0.35];
const MOVED: [f32; 3] = [1.0, 0.15, 0.05];
/// What nobody owns.
const OWNED_BY_NOBODY: [f32; 3] = [0.5, 0.5, 0.5];

/// A job by its place: brick, and tile where the picture is divided.
type Place = (BrickIndex, [u32; 2]);

/// What this peer painted for requesters: see the module.
#[derive(Clone, Debug, Default)]
pub struct Painter {
    /// By requester and number of the frame.
    rendered: BTreeMap<PeerId, BTreeMap<u64, BTreeSet<Place>>>,
}

impl Painter {
    /// The colour of a job that this peer has rendered for a frame, linear RGB; `owner`: who has its brick, by index in the plan's peers.
    pub fn color(
        &mut self,
        paint: Paint,
        (requester, frame): (&PeerId, u64),
        plan: &FramePlan,
        (renderer, owner): (usize, Option<usize>),
        job: &PlannedJob,
    ) -> [f32; 3] {
        match paint {
            Paint::Renderer => hue(renderer),
            Paint::Owner => owner.map_or(OWNED_BY_NOBODY, hue),
            Paint::Order => hue(job.brick.0 as usize),
            Paint::Moved => {
                if self.moves(requester, frame, place(plan, job)) {
                    MOVED
                } else {
                    STAYED
                }
            }
        }
    }

    /// Whether this peer did not render a place in the frame before; it has now.
    fn moves(&mut self, requester: &PeerId, frame: u64, place: Place) -> bool {
        while self.rendered.len() >= REQUESTERS_MAX && !self.rendered.contains_key(requester) {
            self.rendered.pop_first();
        }
        let frames = self.rendered.entry(requester.clone()).or_default();
        frames.entry(frame).or_default().insert(place);
        while frames.len() > FRAMES_MAX {
            frames.pop_first();
        }
        let before = frame.checked_sub(1).and_then(|before| frames.get(&before));
        before.is_none_or(|before| !before.contains(&place))
    }
}

/// Who owns the brick of each job: the first who has it, by index in the roster.
#[must_use]
pub fn owners(roster: &Roster, plan: &FramePlan) -> Vec<Option<usize>> {
    let of = |job: &PlannedJob| {
        let mut entries = roster.entries().iter();
        entries.position(|e| e.bricks.contains(job.brick))
    };
    plan.jobs.iter().map(of).collect()
}

fn place(plan: &FramePlan, job: &PlannedJob) -> Place {
    let tile = plan.image_tile.map_or([0; 2], |edge| {
        [job.rect.x, job.rect.y].map(|start| start / edge.max(1))
    });
    (job.brick, tile)
}

/// A bright colour, linear RGB, for a number.
#[must_use]
pub fn hue(number: usize) -> [f32; 3] {
    // Numbers repeat after as many as colours that can be told apart.
    let turn = ((number % 4096) as f32 * HUE_TURN).fract() * 6.0;
    [0.0, 4.0, 2.0].map(|shift| {
        let distance = ((turn + shift) % 6.0 - 3.0).abs();
        (distance - 1.0).clamp(0.06, 1.0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_of_peers_that_follow_each_other_can_be_told_apart() {
        let apart = |a: [f32; 3], b: [f32; 3]| {
            let squares = a.iter().zip(b).map(|(a, b)| (a - b) * (a - b));
            squares.sum::<f32>().sqrt()
        };
        for n in 0..64 {
            let color = hue(n);
            assert!(color.iter().all(|c| (0.05..=1.0).contains(c)), "{color:?}");
            assert!(color.iter().any(|c| *c > 0.99), "{color:?}");
            for next in 1..4 {
                assert!(apart(color, hue(n + next)) > 0.3, "{n} {next}");
            }
        }
    }

    #[test]
    fn what_a_peer_rendered_in_the_frame_before_has_not_moved() {
        let mut painter = Painter::default();
        let (viewer, other) = (PeerId::new("viewer"), PeerId::new("other"));
        let place = |brick, column| (BrickIndex(brick), [column, 0]);
        assert!(painter.moves(&viewer, 7, place(1, 0)));
        assert!(painter.moves(&viewer, 7, place(1, 1)));
        assert!(!painter.moves(&viewer, 8, place(1, 0)));
        assert!(painter.moves(&viewer, 8, place(2, 0)));
        assert!(painter.moves(&other, 8, place(1, 0)), "another's frames");
        // It was not there in frame 8.
        assert!(painter.moves(&viewer, 9, place(1, 1)));
        // In whichever order frames are rendered that are under way together.
        assert!(!painter.moves(&viewer, 8, place(1, 1)));
        assert!(painter.moves(&viewer, 0, place(1, 1)));
        for frame in 0..100 {
            painter.moves(&viewer, frame, place(0, 0));
        }
        assert_eq!(painter.rendered[&viewer].len(), FRAMES_MAX);
        for n in 0..100 {
            painter.moves(&PeerId::new(&format!("viewer {n}")), 0, place(0, 0));
        }
        assert_eq!(painter.rendered.len(), REQUESTERS_MAX);
    }
}
