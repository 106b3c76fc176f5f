//! How far schedules are from the best possible: `refined` against bounds proven by a solver.
//!
//! Shapes: seeded instances of 4 to 32 devices of speed 1 to 8, 27 to 216 bricks with one job
//! each, dealt out with 2 to 4 copies; costs of 1 to 100 milliseconds, most of them cheap.
//! Invariants: a bound is proven or not used: whatever a limit leaves undecided keeps the weaker
//! bound, so a gap printed here may be too large, never too small.
//!
//! The bounds: linear programs that forbid what is alone too late for a deadline, with counting
//! cuts; branch and bound of `microlp`; configurations of whole devices, by rows generated from
//! knapsacks. Each is argued where it stands.

use brickmesh_topology::{
    BrickIndex,
    balance::{
        placement::{deal, shares},
        schedule::{
            BUDGET_DEFAULT, SPEED_ONE, ScheduledJob, best_fit, cost_on, lower_bound, refined,
        },
    },
    base::seeded::Seeded,
};
use microlp::{
    ComparisonOp, Error, OptimizationDirection, Problem, Solution, SolveOptions, SolveOutcome,
};

/// Instances of each size, and numbers of bricks. Without optimization, where the solver is many
/// times slower, fewer.
const SEEDS: u64 = if cfg!(debug_assertions) { 1 } else { 4 };
const BRICKS: &[u32] = if cfg!(debug_assertions) {
    &[27, 64]
} else {
    &[27, 64, 216]
};

/// Nodes of branch and bound per instance. Counted, so that every run proves the same.
const NODES_MAX: u64 = 500;

/// Gaps in percent above which branch and bound, then configurations, are asked for a better
/// bound.
const GAP_FOR_BRANCHING: f64 = 0.2;
const GAP_FOR_CONFIGURATIONS: f64 = 2.0;

/// An instance and its costs: `costs[j]` has (device, microseconds) of each holder.
struct Instance {
    jobs: Vec<ScheduledJob>,
    speeds: Vec<u64>,
    costs: Vec<Vec<(usize, u64)>>,
}

fn instance(devices: usize, bricks: u32, redundancy: u32, seed: u64) -> Instance {
    let mut draws = Seeded::new(seed);
    let mut speed = || SPEED_ONE + draws.below(7 * SPEED_ONE + 1);
    let speeds: Vec<u64> = (0..devices).map(|_| speed()).collect();
    let held = deal(
        bricks,
        &shares(bricks, &vec![bricks; devices], redundancy),
        seed,
    );
    let mut job = |brick| {
        let skew = draws.below(1001);
        ScheduledJob {
            cost_micros: 1000 + 99_000 * skew * skew * skew / 1_000_000_000,
            holders: (0..devices)
                .filter(|&d| held[d].contains(BrickIndex(brick)))
                .collect(),
        }
    };
    let jobs: Vec<_> = (0..bricks).map(&mut job).collect();
    let on = |j: &ScheduledJob, d: usize| (d, cost_on(j.cost_micros, speeds[d]));
    let of = |j: &ScheduledJob| j.holders.iter().map(|&d| on(j, d)).collect();
    let costs = jobs.iter().map(of).collect();
    Instance {
        jobs,
        speeds,
        costs,
    }
}

/// How far `makespan` is above `bound`, percent.
#[expect(clippy::cast_precision_loss, reason = "for print and a loose limit")]
fn gap(makespan: u64, bound: u64) -> f64 {
    100.0 * makespan as f64 / bound as f64 - 100.0
}

/// Milliseconds for the solver, whose tolerances are made for values near 1.
#[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
fn millis(micros: u64) -> f64 {
    micros as f64 / 1000.0
}

/// The least whole microseconds that are not below a bound of the solver, less its tolerance.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "positive and far below 2^53"
)]
fn micros(millis: f64) -> u64 {
    (millis * 1000.0 - 1e-2).ceil() as u64
}

/// Solves for the least makespan not above `deadline`, with whole jobs or with jobs that may be
/// shared between devices. No job may go where it alone is too late; and no device takes more
/// than k jobs of which k + 1 are too late together, for k of 1 to 3.
fn solve(instance: &Instance, deadline: u64, whole: bool) -> Result<SolveOutcome, Error> {
    let mut problem = Problem::new(OptimizationDirection::Minimize);
    let makespan = problem.add_var(1.0, (0.0, millis(deadline)));
    let mut on = vec![Vec::new(); instance.speeds.len()];
    for costs in &instance.costs {
        let mut shares_of_job = Vec::new();
        for &(d, cost) in costs.iter().filter(|&&(_, cost)| cost <= deadline) {
            let share = if whole {
                problem.add_binary_var(0.0)
            } else {
                problem.add_var(0.0, (0.0, 1.0))
            };
            shares_of_job.push((share, 1.0));
            on[d].push((share, cost));
        }
        if shares_of_job.is_empty() {
            return Err(Error::Infeasible);
        }
        problem.add_constraint(shares_of_job, ComparisonOp::Eq, 1.0);
    }
    for jobs in on {
        let mut load: Vec<_> = jobs
            .iter()
            .map(|&(share, cost)| (share, millis(cost)))
            .collect();
        load.push((makespan, -1.0));
        problem.add_constraint(load, ComparisonOp::Le, 0.0);
        for k in 1_u32..=3 {
            let large = jobs
                .iter()
                .filter(|&&(_, cost)| cost * u64::from(k + 1) > deadline);
            let large: Vec<_> = large.map(|&(share, _)| (share, 1.0)).collect();
            problem.add_constraint(large, ComparisonOp::Le, f64::from(k));
        }
    }
    let mut options = SolveOptions::default();
    options.node_limit = whole.then_some(NODES_MAX);
    problem.solve_with(options)
}

/// The least deadline that sharing jobs can meet, at most `known`, a makespan that is possible.
fn deadline_bound(instance: &Instance, known: u64) -> u64 {
    let fastest = |costs: &Vec<(usize, u64)>| costs.iter().map(|c| c.1).min();
    let mut low = instance.costs.iter().filter_map(fastest).max().unwrap_or(0);
    let mut high = known;
    while low < high {
        let middle = u64::midpoint(low, high);
        match solve(instance, middle, false) {
            Err(Error::Infeasible) => low = middle + 1,
            other => high = other.map(|_| middle).expect("the solver decides"),
        }
    }
    low
}

/// `bound`, raised by branch and bound over the schedules better than `known`.
fn branching_bound(instance: &Instance, known: u64, bound: u64) -> u64 {
    match solve(instance, known - 1, true) {
        Err(Error::Infeasible) => known,
        outcome => {
            let best = outcome
                .expect("the solver stops by itself")
                .stats()
                .best_bound;
            best.map_or(bound, |best| micros(best).clamp(bound, known))
        }
    }
}

/// Jobs given to a device together.
type Configuration = (usize, Vec<usize>);

/// Raises `bound` by halving: no deadline below it can be met even if devices may be shared
/// between configurations.
fn configuration_bound(instance: &Instance, known: u64, mut bound: u64) -> u64 {
    let mut found = Vec::new();
    let mut high = known;
    while bound < high && gap(high, bound) > 0.2 {
        let middle = if high == known {
            known - 1
        } else {
            u64::midpoint(bound, high)
        };
        if is_refuted(instance, middle, &mut found) {
            bound = middle + 1;
        } else {
            high = middle;
        }
    }
    bound
}

/// Whether whole numbers prove that no schedule meets the deadline: points for each job such that
/// all jobs together have more than the devices can collect, each its best within the deadline.
/// The solver only proposes the points; the proof is a sum of knapsacks.
fn is_refuted(instance: &Instance, deadline: u64, found: &mut Vec<Configuration>) -> bool {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let one = |_| problem.add_var(1.0, (0.0, 1.0));
    let points: Vec<_> = (0..instance.jobs.len()).map(one).collect();
    let collected = |_| problem.add_var(-1.0, (0.0, f64::INFINITY));
    let collected: Vec<_> = (0..instance.speeds.len()).map(collected).collect();
    let row = |(d, jobs): &Configuration| {
        let mut row: Vec<_> = jobs.iter().map(|&j| (points[j], 1.0)).collect();
        row.push((collected[*d], -1.0));
        row
    };
    let cost = |j: usize, d: usize| cost_on(instance.jobs[j].cost_micros, instance.speeds[d]);
    for c in found.iter() {
        if c.1.iter().map(|&j| cost(j, c.0)).sum::<u64>() <= deadline {
            problem.add_constraint(row(c), ComparisonOp::Le, 0.0);
        }
    }
    let mut solution = optimum(problem.solve());
    for _ in 0..CONFIGURATION_ROUNDS_MAX {
        if solution.objective() < 1e-6 {
            return false;
        }
        let proposed: Vec<u64> = points
            .iter()
            .map(|&p| parts(solution.var_value(p)))
            .collect();
        let mut left: u64 = proposed.iter().sum();
        let mut more = Vec::new();
        for (d, &variable) in collected.iter().enumerate() {
            let best = Knapsack::best(instance, d, deadline, &proposed);
            left = left.saturating_sub(best.value);
            if best.value > parts(solution.var_value(variable)) + 10 {
                more.push((d, best.jobs));
            }
        }
        if left > 0 {
            return true;
        }
        if more.is_empty() {
            return false;
        }
        for c in more {
            let next = solution.add_constraint(row(&c), ComparisonOp::Le, 0.0);
            solution = optimum(next);
            found.push(c);
        }
    }
    false
}

fn optimum(outcome: Result<SolveOutcome, Error>) -> Solution {
    let found = outcome.map(SolveOutcome::into_solution);
    found
        .expect("zero points are allowed")
        .expect("no limit was set")
}

/// Rounds of new configurations for one deadline; undecided after them.
const CONFIGURATION_ROUNDS_MAX: u32 = 300;

/// A point of the solver in whole parts.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "0 to a few hundred million"
)]
fn parts(points: f64) -> u64 {
    (points.max(0.0) * 1e6) as u64
}

/// The jobs worth most within a deadline on one device.
struct Knapsack {
    /// Worth, cost, job: most worth per cost first.
    items: Vec<(u64, u64, usize)>,
    /// The best worth, or after too many nodes a bound that it does not exceed.
    value: u64,
    jobs: Vec<usize>,
    nodes_left: u32,
}

impl Knapsack {
    fn best(instance: &Instance, device: usize, deadline: u64, worth: &[u64]) -> Self {
        let at = |(j, costs): (usize, &Vec<(usize, u64)>)| {
            let cost = costs.iter().find(|c| c.0 == device)?.1;
            (worth[j] > 0 && cost <= deadline).then_some((worth[j], cost, j))
        };
        let mut items: Vec<_> = instance.costs.iter().enumerate().filter_map(at).collect();
        items.sort_by(|a, b| (b.0 * a.1).cmp(&(a.0 * b.1)));
        let mut knapsack = Self {
            items,
            value: 0,
            jobs: Vec::new(),
            nodes_left: 200_000,
        };
        knapsack.branch(0, deadline, 0, &mut Vec::new());
        if knapsack.nodes_left == 0 {
            knapsack.value = knapsack.shared(0, deadline);
        }
        knapsack
    }

    /// The worth of the items from `from` on where the last may be shared.
    fn shared(&self, from: usize, mut room: u64) -> u64 {
        let mut value = 0;
        for &(worth, cost, _) in &self.items[from..] {
            if cost > room {
                return value + worth * room / cost;
            }
            room -= cost;
            value += worth;
        }
        value
    }

    fn branch(&mut self, from: usize, room: u64, value: u64, taken: &mut Vec<usize>) {
        if value > self.value {
            self.value = value;
            self.jobs.clone_from(taken);
        }
        self.nodes_left = self.nodes_left.saturating_sub(1);
        let done = from == self.items.len() || self.nodes_left == 0;
        if done || value + self.shared(from, room) <= self.value {
            return;
        }
        let (worth, cost, job) = self.items[from];
        if cost <= room {
            taken.push(job);
            self.branch(from + 1, room - cost, value + worth, taken);
            taken.pop();
        }
        self.branch(from + 1, room, value, taken);
    }
}

/// The best bound that can be proven within the limits; `known` where that is the optimum.
fn proven_bound(instance: &Instance, known: u64) -> u64 {
    let mut bound = deadline_bound(instance, known);
    if gap(known, bound) > GAP_FOR_BRANCHING {
        bound = branching_bound(instance, known, bound);
    }
    if gap(known, bound) > GAP_FOR_CONFIGURATIONS {
        bound = configuration_bound(instance, known, bound);
    }
    bound
}

/// Gaps of some instances, percent.
#[derive(Default)]
struct Gaps {
    count: f64,
    sum: f64,
    worst: f64,
}

impl Gaps {
    fn add(&mut self, gap: f64) {
        self.count += 1.0;
        self.sum += gap;
        self.worst = self.worst.max(gap);
    }

    fn text(&self) -> String {
        format!("{:6.2} {:6.2}", self.sum / self.count, self.worst)
    }
}

#[test]
fn refined_schedules_are_within_two_percent_of_proven_bounds_and_six_at_worst() {
    let (mut all_best_fit, mut all_refined) = (Gaps::default(), Gaps::default());
    println!(
        "devices bricks copies | instances optimal | best fit mean, worst % | refined | own bound"
    );
    for (devices, bricks, redundancy) in sizes() {
        let (mut fit, mut fine, mut own, mut optimal) =
            (Gaps::default(), Gaps::default(), Gaps::default(), 0);
        for seed in 0..SEEDS {
            let instance = instance(devices, bricks, redundancy, seed);
            let (jobs, speeds) = (&instance.jobs, &instance.speeds);
            let start = best_fit(jobs, speeds).makespan_micros;
            let makespan = refined(jobs, speeds, BUDGET_DEFAULT).makespan_micros;
            let bound = proven_bound(&instance, makespan);
            let own_bound = lower_bound(jobs, speeds);
            assert!(
                own_bound <= makespan,
                "{devices} {bricks} {redundancy} {seed}"
            );
            optimal += u32::from(bound == makespan);
            for (gaps, gap) in [
                (&mut fit, gap(start, bound)),
                (&mut all_best_fit, gap(start, bound)),
                (&mut fine, gap(makespan, bound)),
                (&mut all_refined, gap(makespan, bound)),
                (&mut own, gap(bound, own_bound)),
            ] {
                gaps.add(gap);
            }
        }
        let (fit, fine, own) = (fit.text(), fine.text(), own.text());
        println!(
            "{devices:7} {bricks:6} {redundancy:6} | {SEEDS:9} {optimal:7} | {fit} | {fine} | {own}"
        );
    }
    println!(
        "all: best fit {} | refined {}",
        all_best_fit.text(),
        all_refined.text()
    );
    assert!(
        all_refined.sum / all_refined.count <= 2.0,
        "mean {}",
        all_refined.text()
    );
    assert!(all_refined.worst <= 6.0, "worst {}", all_refined.text());
}

/// Devices, bricks, copies of each.
fn sizes() -> impl Iterator<Item = (usize, u32, u32)> {
    let of = |d| {
        let copies = move |&b| (2..=4).map(move |r| (d, b, r));
        BRICKS.iter().flat_map(copies)
    };
    [4, 8, 16, 32].into_iter().flat_map(of)
}

/// The least makespan, by trying all schedules of the jobs from `j` on.
fn least_makespan(instance: &Instance, j: usize, loads: &mut [u64]) -> u64 {
    let Some(costs) = instance.costs.get(j) else {
        return loads.iter().copied().max().unwrap_or(0);
    };
    let mut least = u64::MAX;
    for &(d, cost) in costs {
        loads[d] += cost;
        least = least.min(least_makespan(instance, j + 1, loads));
        loads[d] -= cost;
    }
    least
}

#[test]
fn no_schedule_of_a_small_instance_beats_its_proven_bounds() {
    for seed in 0..40 {
        let instance = instance(5, 9, 2 + u32::from(seed % 2 == 0), seed);
        let least = least_makespan(&instance, 0, &mut [0; 5]);
        let known = best_fit(&instance.jobs, &instance.speeds).makespan_micros;
        let bound = deadline_bound(&instance, known);
        assert!(bound <= least, "deadline, seed {seed}");
        if bound < known {
            let by_branching = branching_bound(&instance, known, bound);
            assert_eq!(by_branching, least, "branching, seed {seed}");
            let by_configurations = configuration_bound(&instance, known, bound);
            assert!(by_configurations <= least, "configurations, seed {seed}");
            assert!(by_configurations >= bound, "configurations, seed {seed}");
        }
    }
}
