//! Who holds and who renders what: placement, partitions, job trees, costs, the schedule, the plan of a frame, stealing.
//!
//! May use `base`, `data` and `picture`; `.ci/arrows` checks it.

pub mod cost_table;
pub mod decompose;
pub mod division_choice;
pub mod frame_plan;
pub mod image_division;
pub mod job_tree;
pub mod partition;
pub mod placement;
pub mod plan_rules;
pub mod prediction;
pub mod roster;
pub mod schedule;
pub mod stealing;
pub mod tile_runs;
