//! `sim paper`: the evaluations of papers, theirs beside ours. `silva-1995` and `frank-kaufman-2009` are in modules of their own; all
//! others here are `frey-ertl-2011`, on a virtual cluster.
//!
//! Source: Frey, Ertl 2011, section 6: a volume of 1024³ voxels in 27 bricks of 352³, ten of them
//! on a device, pictures of 1024² pixels, a random walk of 5000 frames, 3 to 8 devices, the
//! variants of Table 1; and ours beside them. Decisions are `topology`'s; times are a model's
//! (`cost_model`). What the paper does not give is a named parameter (`parameters`).

mod camera_path;
mod cell_volume;
mod cost_model;
mod evaluation;
mod frank_kaufman_2009;
mod parameters;
mod plots;
mod ray_counts;
mod silva_1995;
mod tables;
#[cfg(test)]
mod tests;
mod variants;
mod vary;
mod virtual_cluster;

pub use plots::Plot;

use crate::SimError;
use parameters::Parameters;

/// Edge of the volume in voxels.
const EDGE: u32 = 1024;

/// The paper whose evaluation there is.
pub(crate) const FREY_ERTL: &str = "frey-ertl-2011";

/// A volume that an evaluation looks at.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperVolume {
    /// Its name, for people.
    pub name: String,
    /// Voxels on each axis.
    pub dims: [u32; 3],
    /// Values, x fastest; NaN is no data.
    pub values: Vec<f32>,
}

/// Most voxels of such a volume: half a GiB.
pub const PAPER_VOXELS_MAX: u64 = 1 << 27;

/// What to evaluate.
#[derive(Clone, Debug, PartialEq)]
pub struct PaperOptions {
    /// Name of the paper.
    pub paper: String,
    /// Frames of the camera path.
    pub frames: usize,
    /// Seed of path, placement and noise.
    pub seed: u64,
    /// Parameters that differ from their defaults, `name=value`.
    pub vary: Vec<String>,
    /// Whether the figures are drawn.
    pub plots: bool,
    /// The volume, of `silva-1995`.
    pub volume: Option<PaperVolume>,
}

/// What came out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PaperAnswer {
    /// The tables and the data of the figures, and the parameters they were made with.
    pub json: String,
    /// The figures, where they were asked for.
    pub plots: Vec<Plot>,
}

impl Default for PaperOptions {
    fn default() -> Self {
        Self {
            paper: FREY_ERTL.to_owned(),
            frames: 5000,
            seed: 1,
            vary: Vec::new(),
            plots: false,
            volume: None,
        }
    }
}

/// Names and defaults of a paper's parameters that [`PaperOptions::vary`] changes, a line each.
///
/// # Errors
/// [`SimError`] where there is no such paper.
pub fn paper_parameters(paper: &str) -> Result<String, SimError> {
    match paper {
        FREY_ERTL => Ok(Parameters::listed()),
        silva_1995::NAME => Ok(silva_1995::listed()),
        frank_kaufman_2009::NAME => Ok(frank_kaufman_2009::listed()),
        _ => Err(unknown(paper)),
    }
}

fn unknown(paper: &str) -> SimError {
    let [silva, frank] = [silva_1995::NAME, frank_kaufman_2009::NAME];
    let expected = format!("there are {FREY_ERTL:?}, {silva:?} and {frank:?}");
    vary::field("paper", &format!("{paper:?}"), &expected)
}

/// Runs a paper's evaluation. With 5000 frames it takes minutes.
///
/// # Errors
/// [`SimError`] where there is no such paper, or an option is out of bounds.
pub fn paper(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    if options.paper == silva_1995::NAME {
        return silva_1995::evaluate(options);
    }
    if options.paper == frank_kaufman_2009::NAME {
        return frank_kaufman_2009::evaluate(options);
    }
    if options.paper != FREY_ERTL {
        return Err(unknown(&options.paper));
    }
    if options.volume.is_some() {
        let expected = "this paper's volumes are given by formulas";
        return Err(vary::field("volume", "given", expected));
    }
    let parameters = Parameters::new(options.frames, options.seed, &options.vary)?;
    let series = evaluation::evaluate(&parameters, evaluation::DEVICES)?;
    let answer = tables::answer(&parameters, &series);
    let json = serde_json::to_string_pretty(&answer).map_err(|source| SimError::Json {
        what: "paper",
        source,
    })?;
    let plots = if options.plots {
        plots::plots(&series)
    } else {
        Vec::new()
    };
    Ok(PaperAnswer { json, plots })
}
