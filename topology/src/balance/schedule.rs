//! Who renders which job: best-fit decreasing over the devices that hold the job's brick.
//!
//! Shapes: J jobs with a cost in microseconds on a device of speed 1 and their holders; D devices
//! with a speed in millionths. Out: a device per job, loads, makespan, a lower bound.
//! Invariants: whole numbers only; ties go to the earlier job and the earlier device, so equal
//! inputs give equal bytes on every machine.
//!
//! [`best_fit`] is quick; [`refined()`] starts from it and searches on within a counted budget; [`as_placed()`] keeps together what the
//! same devices hold.
//!
//! Source: Frey, Ertl 2011, section 5.2. O(J log J + Σ holders).

mod as_placed;
mod lower_bound;
mod refined;

pub use as_placed::as_placed;
pub use lower_bound::lower_bound;
pub use refined::{BUDGET_DEFAULT, refined};

use serde::{Deserialize, Serialize};

/// The speed 1.0, in millionths.
pub const SPEED_ONE: u64 = 1_000_000;

/// A job to be given to one of its holders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScheduledJob {
    /// Cost in microseconds on a device of speed 1.
    pub cost_micros: u64,
    /// Devices that hold its brick, ascending.
    pub holders: Vec<usize>,
}

/// How jobs are given to devices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Assignment {
    /// Best-fit decreasing, as in the paper
    BestFit,
    /// Best fit, then a bounded search
    #[default]
    Refined,
    /// What the same peers hold is rendered whole by one of them, as partitions have it
    AsPlaced,
}

/// The second stage of a plan: jobs are given to devices.
#[must_use]
pub fn assign(how: Assignment, jobs: &[ScheduledJob], speeds: &[u64]) -> Schedule {
    match how {
        Assignment::BestFit => best_fit(jobs, speeds),
        Assignment::Refined => refined(jobs, speeds, BUDGET_DEFAULT),
        Assignment::AsPlaced => as_placed(jobs, speeds),
    }
}

/// Who renders what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// Device of each job, in the order of the jobs; `None`: nobody holds its brick.
    pub assignment: Vec<Option<usize>>,
    /// Sum of the costs of each device's jobs, on that device, microseconds.
    pub loads_micros: Vec<u64>,
    /// Largest load, microseconds.
    pub makespan_micros: u64,
    /// No schedule has a smaller makespan, microseconds.
    pub lower_bound_micros: u64,
}

/// Cost in microseconds of a job on a device: `⌈cost / speed⌉`.
#[must_use]
pub fn cost_on(cost_micros: u64, speed_millionths: u64) -> u64 {
    let speed = speed_millionths.max(1);
    if let Some(scaled) = cost_micros.checked_mul(SPEED_ONE) {
        // The usual case, apart because 128-bit division is many times slower.
        return scaled.div_ceil(speed);
    }
    let scaled = u128::from(cost_micros) * u128::from(SPEED_ONE);
    u64::try_from(scaled.div_ceil(u128::from(speed))).unwrap_or(u64::MAX)
}

/// The cost on a device of speed 1 of a job that took `micros` on a device of this speed.
#[must_use]
pub fn work_of(micros: u64, speed_millionths: u64) -> u64 {
    let scaled = u128::from(micros) * u128::from(speed_millionths);
    u64::try_from(scaled / u128::from(SPEED_ONE)).unwrap_or(u64::MAX)
}

/// Jobs in descending cost, each to the holder that would finish it first.
#[must_use]
pub fn best_fit(jobs: &[ScheduledJob], speeds: &[u64]) -> Schedule {
    let costs = jobs.iter().map(|job| std::cmp::Reverse(job.cost_micros));
    let mut order: Vec<_> = costs.zip(0..).collect();
    order.sort_unstable();
    let mut loads = vec![0_u64; speeds.len()];
    let mut assignment = vec![None; jobs.len()];
    for (_, j) in order {
        let after = |d: usize| loads[d].saturating_add(cost_on(jobs[j].cost_micros, speeds[d]));
        let holders = jobs[j]
            .holders
            .iter()
            .copied()
            .filter(|&d| d < speeds.len());
        if let Some((load, d)) = holders.map(|d| (after(d), d)).min() {
            loads[d] = load;
            assignment[j] = Some(d);
        }
    }
    Schedule {
        makespan_micros: loads.iter().copied().max().unwrap_or(0),
        lower_bound_micros: lower_bound(jobs, speeds),
        assignment,
        loads_micros: loads,
    }
}

/// What each device has to do, microseconds; `costs`: of each job on a device of speed 1; `assignment`: who has it.
#[must_use]
pub(super) fn loads(
    costs: impl Iterator<Item = u64>,
    assignment: &[Option<usize>],
    speeds: &[u64],
) -> Vec<u64> {
    let mut loads = vec![0_u64; speeds.len()];
    for (cost, device) in costs.zip(assignment) {
        if let Some(d) = *device {
            loads[d] = loads[d].saturating_add(cost_on(cost, speeds[d]));
        }
    }
    loads
}

/// A job, for the tests of this room.
#[cfg(test)]
fn job(cost_micros: u64, holders: &[usize]) -> ScheduledJob {
    ScheduledJob {
        cost_micros,
        holders: holders.to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dear_jobs_come_first_and_go_to_the_emptiest_holder() {
        let jobs = [
            job(2, &[0, 1]),
            job(5, &[0, 1]),
            job(4, &[0, 1]),
            job(1, &[0]),
        ];
        let s = best_fit(&jobs, &[SPEED_ONE; 2]);
        assert_eq!(s.assignment, [Some(1), Some(0), Some(1), Some(0)]);
        assert_eq!((s.makespan_micros, s.lower_bound_micros), (6, 6));
    }

    #[test]
    fn a_device_twice_as_fast_takes_twice_the_work() {
        let jobs = vec![job(100, &[0, 1]); 30];
        let s = best_fit(&jobs, &[SPEED_ONE, 2 * SPEED_ONE]);
        assert_eq!(s.loads_micros, [1000, 1000]);
    }

    #[test]
    fn a_job_that_nobody_holds_is_given_to_nobody() {
        let s = best_fit(&[job(7, &[]), job(3, &[0])], &[SPEED_ONE]);
        assert_eq!(s.assignment, [None, Some(0)]);
        assert_eq!(s.makespan_micros, 3);
    }

    proptest! {
        #[test]
        fn every_job_goes_to_a_holder_and_the_bound_holds(
            raw in prop::collection::vec((0u64..10_000, prop::collection::btree_set(0usize..6, 1..4)), 0..60),
            speeds in prop::collection::vec(200_000u64..5_000_000, 6)
        ) {
            let jobs: Vec<_> = raw.into_iter().map(|(c, h)| job(c, &h.into_iter().collect::<Vec<_>>())).collect();
            let s = best_fit(&jobs, &speeds);
            let mut loads = [0; 6];
            for (j, d) in jobs.iter().zip(&s.assignment) {
                let d = d.unwrap();
                prop_assert!(j.holders.contains(&d));
                loads[d] += cost_on(j.cost_micros, speeds[d]);
            }
            prop_assert_eq!(&loads[..], &s.loads_micros[..]);
            prop_assert!(s.lower_bound_micros <= s.makespan_micros);
        }
    }
}
