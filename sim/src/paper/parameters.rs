//! What the evaluation depends on: given by the paper, or assumed where it is silent.

use super::{
    cost_model::CostModel,
    vary::{self, field},
};
use crate::SimError;
use serde::{Deserialize, Serialize};

/// Parameters of the evaluation; any can be varied by name.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Parameters {
    /// Frames of the camera path (paper: 5000).
    pub(super) frames: usize,
    /// Seed of path, placement and noise.
    pub(super) seed: u64,
    /// Placements that take turns along the path, each with a seed of its own, so that no variant's
    /// number hangs on the luck of one (paper: one).
    pub(super) placements: usize,
    /// Pixels on each axis of the picture (paper: 1024).
    pub(super) pixels: u32,
    /// Bricks of 352³ that a device has room for (paper: 10).
    pub(super) room: u32,
    /// Lower bound r of equation (2), microseconds (paper: 5000).
    pub(super) min_job_micros: u64,
    /// Tangent of half the field of view (paper: silent; 45° assumed).
    pub(super) tangent: f64,
    /// Distance of samples on a ray, voxels (paper: silent).
    pub(super) step_voxels: f64,
    /// Fetches of a lit sample of the volume `jet`: the sample and six for its central differences
    /// (`filled` is not lit: one).
    pub(super) lit_fetches: f64,
    /// Farthest the camera may be from the centre on the path `near`, in diagonals of the volume
    /// (paper: "a certain distance").
    pub(super) near_distance: f64,
    /// The same for `far`.
    pub(super) far_distance: f64,
    /// Longest step of camera and focal point, in diagonals (paper: "a fraction").
    pub(super) step_max: f64,
    /// Measured times differ from the model by up to this fraction, evenly.
    pub(super) noise: f64,
    /// What jobs cost; starts as the GTX 285.
    pub(super) cost: CostModel,
}

impl Default for Parameters {
    fn default() -> Self {
        Self {
            frames: 5000,
            seed: 1,
            placements: 10,
            pixels: 1024,
            room: 10,
            min_job_micros: 5_000,
            tangent: 0.414_213_562_373_095,
            step_voxels: 1.0,
            lit_fetches: 7.0,
            near_distance: 0.75,
            far_distance: 1.25,
            step_max: 0.02,
            noise: 0.02,
            cost: CostModel::GTX_285,
        }
    }
}

/// Most frames: the search for the farthest candidate is quadratic in them.
const FRAMES_MAX: usize = 50_000;

impl Parameters {
    /// The defaults with `frames`, `seed`, and `name=value` changes; `cost=cpu` takes the prices
    /// of brickmesh's own CPU device, `cost.sample_nanos=2` a single price.
    ///
    /// # Errors
    /// [`SimError::Field`] where a name is unknown or a value out of bounds.
    pub(super) fn new(frames: usize, seed: u64, vary: &[String]) -> Result<Self, SimError> {
        let start = Self {
            frames,
            seed,
            ..Self::default()
        };
        let mut all = vary.iter().try_fold(start, |p, change| p.varied(change))?;
        all.check()?;
        all.cost.rays_to_fill = all.cost.rays_to_fill.max(0.0);
        Ok(all)
    }

    /// Names and defaults of all that can be varied, a line each.
    pub(super) fn listed() -> String {
        vary::listed(&Self::default()) + "cost = gtx-285 or cpu: all of its prices\n"
    }

    fn varied(self, change: &str) -> Result<Self, SimError> {
        let cost = match change {
            "cost=cpu" => CostModel::CPU,
            "cost=gtx-285" => CostModel::GTX_285,
            _ => return vary::varied(&self, change),
        };
        Ok(Self { cost, ..self })
    }

    fn check(&self) -> Result<(), SimError> {
        let within = vary::check;
        if !(1..=FRAMES_MAX).contains(&self.frames) {
            let found = self.frames.to_string();
            return Err(field("frames", &found, "it must be 1 to 50000"));
        }
        if !(1..=1000).contains(&self.placements) {
            let found = self.placements.to_string();
            return Err(field("placements", &found, "it must be 1 to 1000"));
        }
        within("pixels", self.pixels.into(), 16.0, 16384.0)?;
        within("room", self.room.into(), 1.0, 64.0)?;
        within("tangent", self.tangent, 0.01, 10.0)?;
        within("step_voxels", self.step_voxels, 0.01, 16.0)?;
        // The camera must have somewhere to be: farther out than the volume's corners.
        within("near_distance", self.near_distance, 0.51, 100.0)?;
        within("far_distance", self.far_distance, 0.51, 100.0)?;
        within("lit_fetches", self.lit_fetches, 0.1, 100.0)?;
        within("step_max", self.step_max, 1e-6, 1.0)?;
        within("noise", self.noise, 0.0, 0.9)?;
        for (name, price) in [
            ("cost.job_micros", self.cost.job_micros),
            ("cost.ray_nanos", self.cost.ray_nanos),
            ("cost.sample_nanos", self.cost.sample_nanos),
            ("cost.rays_to_fill", self.cost.rays_to_fill),
        ] {
            within(name, price, 0.0, 1e9)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_parameter_can_be_varied_by_name() {
        let vary = ["noise=0".to_owned(), "cost.sample_nanos=2.5".to_owned()];
        let p = Parameters::new(10, 3, &vary).unwrap();
        assert!(p.noise.abs() < 1e-12 && (p.cost.sample_nanos - 2.5).abs() < 1e-12);
        let text = |change: &str| {
            let error = Parameters::new(10, 3, &[change.to_owned()]).unwrap_err();
            error.to_string()
        };
        assert!(text("speed=3").contains("no such parameter"));
        assert!(text("noise").contains("name=value"));
        assert!(text("noise=x").contains("no number"));
        assert!(text("noise=2").contains("0 to 0.9"));
    }
}
