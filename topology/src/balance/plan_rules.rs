//! How plans are made: a named strategy for each stage. Every peer of a frame follows the same rules.

use crate::balance::{job_tree::MIN_JOB_MICROS, prediction::Prediction, schedule::Assignment};
use serde::{Deserialize, Serialize};

/// How each stage of a plan is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// As Frey and Ertl 2011 describe it
    #[serde(rename = "frey-ertl-2011")]
    #[cfg_attr(feature = "clap", value(name = "frey-ertl-2011"))]
    FreyErtl2011,
    /// Ours: fewer and more even jobs, a refined schedule, longer runs in tiles
    #[default]
    Refined,
}

/// What of a frame is divided among peers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Division {
    /// The volume: each peer renders what it holds, and parts of the picture are blended.
    #[default]
    SortLast,
    /// The picture: each peer renders its tiles, and fetches what it lacks for them ([`crate::balance::image_division`]). As long as
    /// somebody who takes part cannot fetch, frames are divided as by [`Division::SortLast`].
    Image {
        /// Edge of a tile, pixels; `None`: by the number of peers.
        tile: Option<u32>,
    },
    /// Whichever of the two is expected to take less, frame by frame: the requester chooses ([`crate::balance::division_choice`]), and
    /// asks by that. No frame is planned by this.
    Auto {
        /// As of [`Division::Image`].
        tile: Option<u32>,
    },
}

impl Division {
    /// What a frame may be planned by, of which the first one can always be.
    #[must_use]
    pub fn candidates(self) -> Vec<Self> {
        match self {
            Self::Auto { tile } => vec![Self::SortLast, Self::Image { tile }],
            one => vec![one],
        }
    }
}

/// Who renders which tile of a divided picture.
///
/// Source: DeMarle, Gribble, Boulos, Parker 2005, section 4.4.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum TileSharing {
    /// Tiles side by side for each peer, by their costs and its speed; who is done takes jobs from others. Ours
    #[default]
    Planned,
    /// Who rendered a tile in the last frame has it again; who is done takes jobs from others
    Steal,
    /// One peer keeps a queue of all tiles; who is done takes the next one: no forecast, but more messages and more bricks to fetch
    Demand,
}

/// The rules of a frame's plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PlanRules {
    /// What is divided.
    pub division: Division,
    /// Who renders which tile, where the picture is divided.
    pub tile_sharing: TileSharing,
    /// How bricks are cut into jobs ([`crate::balance::decompose`]).
    pub decompose: Strategy,
    /// Shortest job that a cut may make, microseconds on a device of speed 1; with the largest number
    /// none is cut. Nor is any where what the same peers hold is rendered whole.
    #[serde(alias = "min_job_us")]
    pub min_job_micros: u64,
    /// How costs follow from the last frame.
    pub prediction: Prediction,
    /// Who gives jobs to peers ([`crate::balance::schedule`]).
    pub assign: Assignment,
    /// Who composites which tile ([`crate::balance::tile_runs`]).
    pub composite: Strategy,
    /// Whether peers that are done take jobs from others.
    pub steal: bool,
    /// Whether what a peer has rendered for one frame is taken for another where it is the same: for who
    /// edits a picture. Nothing is measured by frames that do.
    pub reuse: bool,
}

impl PlanRules {
    /// Whether peers fetch what they lack for their part of a frame, or may.
    #[must_use]
    pub fn fetches(&self) -> bool {
        self.division != Division::SortLast
    }

    /// The rules where rays go on from surfaces: then the picture is divided.
    #[must_use]
    pub fn for_rays(self) -> Self {
        let tile = match self.division {
            Division::Image { tile } | Division::Auto { tile } => tile,
            Division::SortLast => None,
        };
        Self {
            division: Division::Image { tile },
            ..self
        }
    }

    /// All stages by one strategy.
    #[must_use]
    pub fn all(strategy: Strategy) -> Self {
        Self {
            division: Division::SortLast,
            tile_sharing: TileSharing::Planned,
            decompose: strategy,
            min_job_micros: MIN_JOB_MICROS,
            prediction: match strategy {
                Strategy::FreyErtl2011 => Prediction::LastFrame,
                Strategy::Refined => Prediction::Projected,
            },
            assign: match strategy {
                Strategy::FreyErtl2011 => Assignment::BestFit,
                Strategy::Refined => Assignment::Refined,
            },
            composite: strategy,
            steal: strategy == Strategy::Refined,
            reuse: false,
        }
    }
}

impl Default for PlanRules {
    fn default() -> Self {
        Self::all(Strategy::Refined)
    }
}
