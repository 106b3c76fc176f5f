//! Jobs as their bricks are placed: what the same devices hold is a cell, which one of them renders whole.
//!
//! With one copy of each brick a device renders what it holds, and nothing else: as partitions have it. Where a partition is held
//! several times, neighbours in depth stay with one device, which blends them before it sends anything; the price
//! is that loads are as even as whole cells can be.
//!
//! Source: Frank, Kaufman 2009, section 3 (a cell is rendered by one node, in the order of the others).

use super::{Schedule, ScheduledJob, best_fit, cost_on};
use std::collections::BTreeMap;

/// Cells in descending cost, each to the holder that would finish it first. O(jobs · holders · log jobs).
#[must_use]
pub fn as_placed(jobs: &[ScheduledJob], speeds: &[u64]) -> Schedule {
    let mut cells = BTreeMap::<&[usize], u64>::new();
    for job in jobs {
        let cost = cells.entry(&job.holders).or_default();
        *cost = cost.saturating_add(job.cost_micros);
    }
    let whole = |(holders, &cost_micros): (&&[usize], &u64)| ScheduledJob {
        cost_micros,
        holders: holders.to_vec(),
    };
    let whole: Vec<ScheduledJob> = cells.iter().map(whole).collect();
    let of_cells = best_fit(&whole, speeds).assignment;
    let device: BTreeMap<&[usize], Option<usize>> = cells.into_keys().zip(of_cells).collect();
    let mut loads_micros = vec![0_u64; speeds.len()];
    let assignment = jobs.iter().map(|job| {
        let device = device[&*job.holders];
        if let Some(d) = device {
            let cost = cost_on(job.cost_micros, speeds[d]);
            loads_micros[d] = loads_micros[d].saturating_add(cost);
        }
        device
    });
    Schedule {
        assignment: assignment.collect(),
        makespan_micros: loads_micros.iter().copied().max().unwrap_or(0),
        lower_bound_micros: super::lower_bound(jobs, speeds),
        loads_micros,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{SPEED_ONE, job};
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_the_same_devices_hold_stays_together() {
        let jobs = [
            job(5, &[0, 1]),
            job(4, &[1, 2]),
            job(5, &[0, 1]),
            job(3, &[2]),
            job(4, &[1, 2]),
            job(1, &[]),
        ];
        let s = as_placed(&jobs, &[SPEED_ONE; 3]);
        let placed = [Some(0), Some(1), Some(0), Some(2), Some(1), None];
        assert_eq!(s.assignment, placed);
        assert_eq!((s.loads_micros, s.makespan_micros), (vec![10, 8, 3], 10));
    }

    proptest! {
        #[test]
        fn every_job_goes_to_a_holder_and_cells_are_whole(
            raw in prop::collection::vec((0u64..10_000, prop::collection::btree_set(0usize..6, 0..4)), 0..60),
            speeds in prop::collection::vec(200_000u64..5_000_000, 6)
        ) {
            let jobs: Vec<_> = raw.into_iter().map(|(c, h)| job(c, &h.into_iter().collect::<Vec<_>>())).collect();
            let s = as_placed(&jobs, &speeds);
            let mut loads = vec![0; 6];
            for (j, d) in jobs.iter().zip(&s.assignment) {
                prop_assert_eq!(d.is_none(), j.holders.is_empty());
                if let Some(d) = *d {
                    prop_assert!(j.holders.contains(&d));
                    loads[d] += cost_on(j.cost_micros, speeds[d]);
                }
                for (other, e) in jobs.iter().zip(&s.assignment) {
                    prop_assert!(other.holders != j.holders || d == e);
                }
            }
            prop_assert_eq!(&loads, &s.loads_micros);
            prop_assert!(s.lower_bound_micros <= s.makespan_micros);
        }
    }
}
