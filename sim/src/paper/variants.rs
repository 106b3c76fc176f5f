//! The variants of the paper's Table 1, and ours.

use super::parameters::Parameters;
use brickmesh_topology::balance::{
    placement::PlacementMethod,
    plan_rules::{PlanRules, Strategy},
};

/// A variant of the method.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Variant {
    pub(super) name: &'static str,
    pub(super) placement: PlacementMethod,
    /// Whether bricks are split into several jobs.
    pub(super) split: bool,
    /// How frames are planned.
    strategy: Strategy,
    /// The paper's mean longest render time, milliseconds, on eight and four devices.
    paper_ms: Option<[f64; 2]>,
}

const fn paper(
    name: &'static str,
    placement: PlacementMethod,
    split: bool,
    on_8_and_4: [f64; 2],
) -> Variant {
    Variant {
        name,
        placement,
        split,
        strategy: Strategy::FreyErtl2011,
        paper_ms: Some(on_8_and_4),
    }
}

/// The variants with bricks of 352³, `standard` first.
pub(super) const VARIANTS: [Variant; 7] = [
    paper("standard", PlacementMethod::Redundant, true, [55.5, 122.9]),
    paper("clustered", PlacementMethod::Clustered, true, [58.6, 140.8]),
    paper("single", PlacementMethod::Single, true, [74.6, 122.6]),
    paper(
        "clustered-single",
        PlacementMethod::ClusteredSingle,
        true,
        [85.2, 141.5],
    ),
    paper("no-split", PlacementMethod::Redundant, false, [75.2, 123.2]),
    paper(
        "clustered-no-split",
        PlacementMethod::Clustered,
        false,
        [68.2, 142.2],
    ),
    Variant {
        name: "refined",
        placement: PlacementMethod::Redundant,
        split: true,
        strategy: Strategy::Refined,
        paper_ms: None,
    },
];

/// Edge of the small bricks that the paper compares with, voxels.
pub(super) const SMALL_EDGE: u32 = 256;
/// Edge of its bricks, voxels.
pub(super) const BRICK_EDGE: u32 = 352;

impl Variant {
    /// The paper's number in milliseconds, where it has one.
    pub(super) fn paper_ms(&self, brick_edge: u32, devices: usize) -> Option<f64> {
        let [on_8, on_4] = self.paper_ms?;
        match (brick_edge, devices) {
            (BRICK_EDGE, 8) => Some(on_8),
            (BRICK_EDGE, 4) => Some(on_4),
            // "73 ms … almost equally well … in the No Redundancy case" (below Table 1).
            (SMALL_EDGE, 8) if self.name == "standard" => Some(73.0),
            (SMALL_EDGE, 8) if self.name == "single" => Some(74.6),
            _ => None,
        }
    }

    /// The live mesh's rules for it.
    pub(super) fn rules(&self, parameters: &Parameters) -> PlanRules {
        PlanRules {
            min_job_micros: if self.split {
                parameters.min_job_micros
            } else {
                u64::MAX
            },
            ..PlanRules::all(self.strategy)
        }
    }

    /// Whether it is run with bricks of this edge.
    pub(super) fn has(&self, brick_edge: u32) -> bool {
        brick_edge == BRICK_EDGE || matches!(self.name, "standard" | "single" | "refined")
    }
}
