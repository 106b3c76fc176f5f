//! How frames are planned, as the command line asks for it.

use crate::args::RulesArgs;
use brickmesh_topology::balance::{
    frame_plan::PlanRules, prediction::Prediction, schedule::Scheduler,
};

impl RulesArgs {
    /// The rules that every peer of a frame follows.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "0 to a minute"
    )]
    pub fn rules(&self) -> PlanRules {
        PlanRules {
            split: self.split,
            min_job_micros: (self.min_job * 1000.0) as u64,
            prediction: self.prediction,
            scheduler: self.scheduler,
            lengthen_runs: self.runs,
            steal: self.steal,
            ..PlanRules::default()
        }
    }
}

impl Default for RulesArgs {
    fn default() -> Self {
        Self {
            split: true,
            min_job: 5.0,
            prediction: Prediction::Projected,
            scheduler: Scheduler::Refined,
            runs: true,
            steal: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_options_the_rules_are_the_default_ones() {
        assert_eq!(RulesArgs::default().rules(), PlanRules::default());
    }
}
