//! A makespan that no schedule heartbeats, found without a schedule.
//!
//! Shapes: J jobs, D devices, as in [`schedule`](super); whole microseconds.
//! Invariants: a true bound for whole numbers, rounding included; the same for every order of the
//! jobs; never below the dearest job on its fastest holder nor all work on all devices.
//!
//! Source: the problem is Frey, Ertl 2011, section 5.2. The bound is ours: linear programming
//! duality, with places forbidden whose cost alone exceeds the deadline, as it is known from
//! Lenstra, Shmoys and Tardos; the proof stands at `priced`. O(rounds · (Σ holders + D log D)).

use super::{SPEED_ONE, ScheduledJob, cost_on};
use std::cmp::Reverse;

/// Rounds of price changes. On 216 seeded instances these, with the nested sets, gave the bound
/// of the linear program on all but one; half of them left up to 8 % where bricks have two copies.
const ROUNDS: u64 = 32;

/// Rounds without a rise after which more are not worth their time: they are most of the cost
/// where jobs are many and the first rounds have said it all.
const IDLE_ROUNDS_MAX: u64 = 12;

/// Rounds from one look at nested sets to the next.
const NESTED_EVERY: u64 = 4;

/// Prices are at most this at first; a device may become 16 times dearer than the dearest then.
const PRICE_ONE: u64 = 1 << 20;
const PRICE_MAX: u64 = PRICE_ONE << 4;

/// Fraction bits of a price change.
const CHANGE_BITS: u32 = 16;

/// All costs at all holders together must be below this, 76 hours, so that prices times loads fit
/// a `u64`; above it the bound does without prices.
const WORK_MAX_MICROS: u128 = 1 << 38;

/// A makespan that no schedule of `jobs` on devices of `speeds`, in millionths, heartbeats,
/// microseconds. Jobs without a holder cost nothing.
#[must_use]
pub fn lower_bound(jobs: &[ScheduledJob], speeds: &[u64]) -> u64 {
    let places = Places::new(jobs, speeds);
    let dearest = places.of_each_job().filter_map(fastest).max();
    let work: u128 = jobs
        .iter()
        .filter(|j| j.holders.iter().any(|&d| d < speeds.len()))
        .map(|j| u128::from(j.cost_micros))
        .sum();
    let spread = spread_evenly(work, speeds);
    places.priced(dearest.unwrap_or(0).max(spread), jobs, speeds)
}

/// All work on all devices, perfectly shared.
fn spread_evenly(work: u128, speeds: &[u64]) -> u64 {
    let speed: u128 = speeds.iter().map(|&s| u128::from(s.max(1))).sum();
    let micros = (work * u128::from(SPEED_ONE)).div_ceil(speed.max(1));
    u64::try_from(micros).unwrap_or(u64::MAX)
}

fn fastest(places: &[(usize, u64)]) -> Option<u64> {
    places.iter().map(|&(_, cost)| cost).min()
}

/// Device and cost there of each holder of each job, job after job.
struct Places {
    all: Vec<(usize, u64)>,
    /// One past the last place of each job.
    ends: Vec<usize>,
}

impl Places {
    fn new(jobs: &[ScheduledJob], speeds: &[u64]) -> Self {
        let mut all = Vec::with_capacity(jobs.iter().map(|j| j.holders.len()).sum());
        let mut ends = Vec::with_capacity(jobs.len());
        for job in jobs {
            let known = job.holders.iter().filter(|&&d| d < speeds.len());
            all.extend(known.map(|&d| (d, cost_on(job.cost_micros, speeds[d]))));
            ends.push(all.len());
        }
        Self { all, ends }
    }

    fn of_each_job(&self) -> impl Iterator<Item = &[(usize, u64)]> {
        let mut begin = 0;
        self.ends.iter().map(move |&end| {
            let places = &self.all[begin..end];
            begin = end;
            places
        })
    }

    /// Raises `bound`, which must not be below any job on its fastest holder.
    ///
    /// Let devices charge prices p per microsecond. A schedule of makespan T pays at most T · Σp,
    /// and at least Σ over jobs of the cheapest p · c among the places with c <= T. Where that sum
    /// exceeds T · Σp for T = bound, no such schedule exists, and the bound rises. Any prices will
    /// do; good ones charge most where the cheapest places put most load.
    fn priced(&self, mut bound: u64, jobs: &[ScheduledJob], speeds: &[u64]) -> u64 {
        let work: u128 = self.all.iter().map(|&(_, c)| u128::from(c)).sum();
        if work >= WORK_MAX_MICROS || bound == 0 {
            return bound;
        }
        let top = speeds.iter().copied().max().unwrap_or(0).max(1);
        let at_first = |s: &u64| u128::from(*s) * u128::from(PRICE_ONE) / u128::from(top);
        // A device that takes its share of the work at first: p · c is alike at all holders.
        let mut prices: Vec<u64> = speeds
            .iter()
            .map(|s| u64::try_from(at_first(s)).unwrap_or(PRICE_ONE).max(1))
            .collect();
        let mut loads = vec![0; speeds.len()];
        let mut risen_in = 0;
        for round in 0..ROUNDS {
            let before = bound;
            bound = self.round(bound, &prices, &mut loads);
            if round % NESTED_EVERY == NESTED_EVERY - 1 {
                bound = self.nested(bound, &prices, jobs, speeds);
            }
            if bound > before {
                risen_in = round;
            }
            if loads.iter().all(|&load| load <= bound) {
                // The cheapest places are a schedule of this makespan: nothing is left to prove.
                break;
            }
            if round - risen_in >= IDLE_ROUNDS_MAX {
                break;
            }
            // Large changes first, then smaller ones, so that the prices settle.
            let whole = bound * (2 + round / 2);
            for (price, &load) in prices.iter_mut().zip(&loads) {
                let part = whole - bound + load.min(3 * bound);
                *price =
                    ((*price * ((part << CHANGE_BITS) / whole)) >> CHANGE_BITS).clamp(1, PRICE_MAX);
            }
        }
        bound
    }

    /// Gives each job to its cheapest place allowed by `bound`; the raised bound.
    fn round(&self, bound: u64, prices: &[u64], loads: &mut [u64]) -> u64 {
        loads.fill(0);
        let mut paid = 0;
        let mut least_forbidden = u64::MAX;
        for places in self.of_each_job() {
            let mut cheapest = (u64::MAX, 0, 0);
            for &(device, cost) in places {
                if cost > bound {
                    least_forbidden = least_forbidden.min(cost);
                } else if prices[device] * cost < cheapest.0 {
                    cheapest = (prices[device] * cost, device, cost);
                }
            }
            if cheapest.0 < u64::MAX {
                paid += cheapest.0;
                loads[cheapest.1] += cheapest.2;
            }
        }
        let price: u128 = prices.iter().map(|&p| u128::from(p)).sum();
        let raised = u128::from(paid).div_ceil(price.max(1));
        // From the cost of a forbidden place on, that place is allowed and the sum another.
        let raised = u64::try_from(raised)
            .unwrap_or(u64::MAX)
            .min(least_forbidden);
        raised.max(bound)
    }

    /// The raised bound from the dearest device, the two dearest, the three dearest and so on:
    /// the jobs that `bound` allows on no other device, spread over them perfectly. The best
    /// prices are often of this form, and the changes alone would come near it only slowly.
    fn nested(&self, bound: u64, prices: &[u64], jobs: &[ScheduledJob], speeds: &[u64]) -> u64 {
        let mut by_price: Vec<usize> = (0..speeds.len()).collect();
        // A price is for a microsecond of the device: over the speed, it is for a unit of work.
        let per_work =
            |d: usize| u128::from(prices[d]) * u128::from(PRICE_ONE) / u128::from(speeds[d].max(1));
        by_price.sort_by_key(|&d| (Reverse(per_work(d)), d));
        let mut rank = vec![0; speeds.len()];
        for (r, &device) in by_price.iter().enumerate() {
            rank[device] = r;
        }
        // Work that only the first r + 1 devices may do, and not only the first r.
        let mut work = vec![0_u128; speeds.len()];
        let mut least_forbidden = u64::MAX;
        for (places, job) in self.of_each_job().zip(jobs) {
            let mut last = None;
            for &(device, there) in places {
                if there > bound {
                    least_forbidden = least_forbidden.min(there);
                } else {
                    last = last.max(Some(rank[device]));
                }
            }
            if let Some(last) = last {
                work[last] += u128::from(job.cost_micros);
            }
        }
        let (mut inside, mut speed, mut raised) = (0, 0_u128, bound);
        for (&device, &more) in by_price.iter().zip(&work) {
            inside += more;
            speed += u128::from(speeds[device].max(1));
            let micros = (inside * u128::from(SPEED_ONE)).div_ceil(speed);
            raised = raised.max(
                u64::try_from(micros)
                    .unwrap_or(u64::MAX)
                    .min(least_forbidden),
            );
        }
        raised
    }
}

#[cfg(test)]
mod tests {
    use super::{super::job, *};
    use proptest::prelude::*;

    /// The least makespan, by trying all schedules.
    fn least_makespan(jobs: &[ScheduledJob], speeds: &[u64], loads: &mut [u64]) -> u64 {
        let Some((first, rest)) = jobs.split_first() else {
            return loads.iter().copied().max().unwrap();
        };
        let mut least = u64::MAX;
        for &d in &first.holders {
            let cost = cost_on(first.cost_micros, speeds[d]);
            loads[d] += cost;
            least = least.min(least_makespan(rest, speeds, loads));
            loads[d] -= cost;
        }
        least
    }

    #[test]
    fn work_that_only_some_devices_hold_counts_on_them_alone() {
        let mut jobs = vec![job(10, &[0, 1]); 6];
        jobs.push(job(1, &[2, 3]));
        assert_eq!(lower_bound(&jobs, &[SPEED_ONE; 4]), 30);
    }

    #[test]
    fn a_holder_that_alone_would_be_too_late_counts_for_nothing() {
        // Either job takes 100 on device 1, and both together 40 on device 0.
        let jobs = [job(20, &[0, 1]), job(20, &[0, 1])];
        assert_eq!(lower_bound(&jobs, &[SPEED_ONE, SPEED_ONE / 5]), 40);
    }

    #[test]
    fn no_work_is_done_at_once() {
        assert_eq!(lower_bound(&[], &[SPEED_ONE]), 0);
        assert_eq!(lower_bound(&[job(9, &[]), job(9, &[7])], &[SPEED_ONE]), 0);
        assert_eq!(lower_bound(&[job(9, &[0])], &[]), 0);
    }

    #[test]
    fn costs_beyond_any_frame_still_have_a_bound() {
        let jobs = [job(u64::MAX / 2, &[0, 1]), job(u64::MAX / 2, &[0, 1])];
        assert_eq!(lower_bound(&jobs, &[SPEED_ONE; 2]), u64::MAX / 2);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]
        #[test]
        fn no_schedule_beats_the_bound(
            raw in prop::collection::vec((0u64..200, prop::collection::btree_set(0usize..4, 1..4)), 0..8),
            speeds in prop::collection::vec(200_000u64..5_000_000, 4)
        ) {
            let jobs: Vec<_> = raw.into_iter().map(|(c, h)| job(c, &h.into_iter().collect::<Vec<_>>())).collect();
            let bound = lower_bound(&jobs, &speeds);
            prop_assert!(bound <= least_makespan(&jobs, &speeds, &mut [0; 4]));
        }
    }
}
