//! `sim paper`: the evaluations of papers, theirs beside ours. `silva-1995`, `frank-kaufman-2009` and `demarle-2005` are in modules of their own; all
//! others here are `frey-ertl-2011`, on a virtual cluster.
//!
//! Source: Frey, Ertl 2011, section 6: a volume of 1024³ voxels in 27 bricks of 352³, ten of them
//! on a device, pictures of 1024² pixels, a random walk of 5000 frames, 3 to 8 devices, the
//! variants of Table 1; and ours beside them. Decisions are `topology`'s; times are a model's
//! (`cost_model`). What the paper does not give is a named parameter (`parameters`).

mod camera_path;
mod cell_volume;
mod cost_model;
mod demarle_2005;
mod evaluation;
mod fit;
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
use serde::Serialize;

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
    /// Frames of the camera path, of `frey-ertl-2011`; `None`: the paper's 5000.
    pub frames: Option<usize>,
    /// Seed of path, placement and noise, of `frey-ertl-2011`.
    pub seed: Option<u64>,
    /// Parameters that differ from their defaults, `name=value`.
    pub vary: Vec<String>,
    /// Whether the figures are drawn.
    pub plots: bool,
    /// The volume, of `silva-1995`.
    pub volume: Option<PaperVolume>,
    /// Whether the parameters that the paper does not state are searched, of `frey-ertl-2011`.
    pub fit: bool,
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
            frames: None,
            seed: None,
            vary: Vec::new(),
            plots: false,
            volume: None,
            fit: false,
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
        demarle_2005::NAME => Ok(demarle_2005::listed()),
        _ => Err(unknown(paper)),
    }
}

fn unknown(paper: &str) -> SimError {
    let [silva, frank] = [silva_1995::NAME, frank_kaufman_2009::NAME];
    let demarle = demarle_2005::NAME;
    let expected = format!("there are {FREY_ERTL:?}, {silva:?}, {frank:?} and {demarle:?}");
    vary::field("paper", &format!("{paper:?}"), &expected)
}

/// Runs a paper's evaluation. `frey-ertl-2011` takes minutes.
///
/// # Errors
/// [`SimError`] where there is no such paper, or an option is out of bounds or of another paper.
pub fn paper(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    let paper = options.paper.as_str();
    let of_frey_ertl = [
        ("frames", options.frames.is_some()),
        ("seed", options.seed.is_some()),
        ("fit", options.fit),
    ];
    let others = match paper {
        silva_1995::NAME | frank_kaufman_2009::NAME | demarle_2005::NAME => {
            of_frey_ertl.into_iter().find(|o| o.1)
        }
        FREY_ERTL => None,
        _ => return Err(unknown(paper)),
    };
    if let Some((option, _)) = others {
        let expected = format!("only {FREY_ERTL} has it");
        return Err(vary::field(
            option,
            &format!("given for {paper}"),
            &expected,
        ));
    }
    match paper {
        silva_1995::NAME => silva_1995::evaluate(options),
        frank_kaufman_2009::NAME => frank_kaufman_2009::evaluate(options),
        demarle_2005::NAME => demarle_2005::evaluate(options),
        _ => frey_ertl_2011(options),
    }
}

fn frey_ertl_2011(options: &PaperOptions) -> Result<PaperAnswer, SimError> {
    if options.volume.is_some() {
        let expected = "this paper's volumes are given by formulas";
        return Err(vary::field("volume", "given", expected));
    }
    let defaults = Parameters::default();
    let frames = options.frames.unwrap_or(defaults.frames);
    let seed = options.seed.unwrap_or(defaults.seed);
    let parameters = Parameters::new(frames, seed, &options.vary)?;
    if options.fit {
        if options.plots {
            let expected = "a search draws no figures; leave one of both out";
            return Err(vary::field("plots", "given with fit", expected));
        }
        return PaperAnswer::new(&fit::fit(&parameters)?, Vec::new());
    }
    let series = evaluation::evaluate(&parameters, evaluation::DEVICES)?;
    let plots = if options.plots {
        plots::plots(&series)
    } else {
        Vec::new()
    };
    PaperAnswer::new(&tables::answer(&parameters, &series), plots)
}

impl PaperAnswer {
    fn new(tables: &impl Serialize, plots: Vec<Plot>) -> Result<Self, SimError> {
        let json = serde_json::to_string_pretty(tables).map_err(|source| SimError::Json {
            what: "paper",
            source,
        })?;
        Ok(Self { json, plots })
    }
}
