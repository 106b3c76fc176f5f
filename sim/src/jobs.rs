//! `sim jobs`: how bricks are cut into jobs, from frame to frame.
//!
//! The trees of an answer may be given back with the next frame's costs: then a brick's cost is
//! shared among its former jobs as their former costs were, before they are split or merged.

use crate::{SimError, check_id};
use brickmesh_topology::{
    VoxelBox,
    balance::job_tree::{JobTree, Leaf, MIN_JOB_MICROS, SplitRule, threshold},
    data::brick_grid::DIM_MAX,
};
use glam::DVec3;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    bricks: Vec<Brick>,
    /// Number of devices.
    devices: usize,
    /// Most copies that any brick has.
    redundancy: u32,
    #[serde(default = "min_job")]
    min_job_us: u64,
    /// View direction in grid space; any length.
    view: [f64; 3],
    #[serde(default)]
    trees: Option<Vec<Tree>>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Brick {
    /// Text or number, given back as it is.
    id: Value,
    #[serde(rename = "box")]
    owned: VoxelBox,
    /// What the brick costs in this frame.
    cost_us: u64,
}

#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Tree {
    brick: Value,
    nodes: JobTree,
}

#[derive(Serialize)]
pub(crate) struct Output {
    threshold_us: u64,
    jobs: Vec<Job>,
    trees: Vec<Tree>,
}

#[derive(Serialize)]
struct Job {
    brick: Value,
    #[serde(rename = "box")]
    owned: VoxelBox,
    cost_us: u64,
}

fn min_job() -> u64 {
    MIN_JOB_MICROS
}

/// Costs beyond this, an hour, are no frame's.
const COST_MAX_MICROS: u64 = 3_600_000_000;
/// Most bricks: each can become a thousand jobs.
const BRICKS_MAX: usize = 1 << 14;
/// Most jobs of an answer.
const JOBS_MAX: usize = 1 << 18;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    check(&input)?;
    let mut former = former_trees(&input)?;
    let sum = input.bricks.iter().map(|b| b.cost_us).sum();
    let threshold_us = threshold(sum, input.devices, input.redundancy, input.min_job_us);
    let rule = SplitRule::in_the_middle(threshold_us, DVec3::from_array(input.view));
    let mut output = Output {
        threshold_us,
        jobs: Vec::new(),
        trees: Vec::new(),
    };
    for brick in input.bricks {
        let mut tree = former
            .remove(&brick.id.to_string())
            .unwrap_or_else(|| JobTree::whole(Leaf::default()));
        share(&mut tree, brick.owned, brick.cost_us);
        let tree = tree.split_and_merged(brick.owned, &rule);
        let leaves = tree.leaves(brick.owned);
        output.jobs.extend(leaves.map(|(owned, leaf)| Job {
            brick: brick.id.clone(),
            owned,
            cost_us: leaf.cost_micros,
        }));
        if output.jobs.len() > JOBS_MAX {
            let expected = "each brick gets so many: take a higher min_job_us, or fewer bricks";
            return Err(field("min_job_us".into(), &input.min_job_us, expected));
        }
        output.trees.push(Tree {
            brick: brick.id,
            nodes: tree,
        });
    }
    Ok(output)
}

/// Shares a brick's cost among the leaves of its tree as their costs were, or by voxels where they
/// had none; the sum is kept exactly.
fn share(tree: &mut JobTree, owned: VoxelBox, cost_micros: u64) {
    let leaves: Vec<_> = tree.leaves(owned).collect();
    let costless = leaves.iter().all(|l| l.1.cost_micros == 0);
    let weight = |(owned, leaf): &(VoxelBox, Leaf)| {
        u128::from(if costless {
            owned.voxel_count()
        } else {
            leaf.cost_micros
        })
    };
    let whole: u128 = leaves.iter().map(weight).sum();
    let (mut below, mut given) = (0, 0);
    let shares = leaves.iter().map(|leaf| {
        below += weight(leaf);
        let up_to = u128::from(cost_micros) * below / whole.max(1);
        let up_to = u64::try_from(up_to).unwrap_or(cost_micros);
        let share = Leaf {
            cost_micros: up_to - given,
            samples: 0,
        };
        given = up_to;
        share
    });
    let shares: Vec<Leaf> = shares.collect();
    tree.set_leaves(shares);
}

fn field(field: String, found: &dyn std::fmt::Display, expected: &str) -> SimError {
    SimError::Field {
        what: "jobs",
        field,
        found: found.to_string(),
        expected: expected.to_owned(),
    }
}

fn check(input: &Input) -> Result<(), SimError> {
    let count = input.bricks.len();
    if count > BRICKS_MAX {
        return Err(field("bricks".into(), &count, "there may be 16384 at most"));
    }
    if input.devices == 0 {
        return Err(field("devices".into(), &0, "it must be at least 1"));
    }
    if input.redundancy == 0 {
        return Err(field("redundancy".into(), &0, "it must be at least 1"));
    }
    if !input.view.iter().all(|v| v.is_finite()) {
        let found = format!("{:?}", input.view);
        return Err(field("view".into(), &found, "each must be finite"));
    }
    let mut ids = std::collections::BTreeSet::new();
    for brick in &input.bricks {
        check_id("jobs", &brick.id)?;
        let id = brick.id.to_string();
        if brick.owned.is_empty() || brick.owned.hi.iter().any(|&v| v > DIM_MAX) {
            let found = format!("{:?}", brick.owned);
            let expected = "each edge must have at least one voxel, and end at 65536 or before";
            return Err(field(format!("box of brick {id}"), &found, expected));
        }
        if brick.cost_us > COST_MAX_MICROS {
            let name = format!("cost_us of brick {id}");
            return Err(field(name, &brick.cost_us, "it must be at most 3600000000"));
        }
        if !ids.insert(id.clone()) {
            return Err(field("bricks".into(), &id, "each id may stand once"));
        }
    }
    Ok(())
}

/// The former trees by brick id, each checked against its brick.
fn former_trees(input: &Input) -> Result<BTreeMap<String, JobTree>, SimError> {
    let mut out = BTreeMap::new();
    for tree in input.trees.iter().flatten() {
        let id = tree.brick.to_string();
        let Some(brick) = input.bricks.iter().find(|b| b.id == tree.brick) else {
            continue; // A brick that is not rendered in this frame.
        };
        if let Err(error) = tree.nodes.validate(brick.owned) {
            let name = format!("tree of brick {id}");
            return Err(field(name, &error, "give back what a former answer had"));
        }
        if out.insert(id.clone(), tree.nodes.clone()).is_some() {
            let name = "trees".to_owned();
            return Err(field(name, &id, "each brick may have one tree"));
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    fn run(input: &Value) -> Value {
        serde_json::from_str(&crate::run("jobs", &input.to_string()).unwrap()).unwrap()
    }

    fn frame(costs: [u64; 2], trees: &Value) -> Value {
        json!({"bricks": [
                {"id": "a", "box": [[0, 0, 0], [64, 64, 64]], "cost_us": costs[0]},
                {"id": 7, "box": [[64, 0, 0], [128, 64, 64]], "cost_us": costs[1]}],
            "devices": 4, "redundancy": 2, "min_job_us": 500, "view": [0, 0, 1], "trees": trees})
    }

    fn costs(out: &Value, brick: &Value) -> Vec<u64> {
        let jobs = out["jobs"].as_array().unwrap().iter();
        jobs.filter(|j| &j["brick"] == brick)
            .map(|j| j["cost_us"].as_u64().unwrap())
            .collect()
    }

    #[test]
    fn a_dear_brick_is_cut_and_merged_when_it_gets_cheap() {
        let first = run(&frame([16_001, 400], &Value::Null));
        assert_eq!(first["threshold_us"], 16_401 / 16);
        let a = costs(&first, &"a".into());
        assert_eq!((a.len(), a.iter().sum::<u64>()), (16, 16_001));
        assert_eq!(costs(&first, &7.into()), [400]);
        let second = run(&frame([450, 450], &first["trees"]));
        assert_eq!(costs(&second, &"a".into()), [450]);
    }

    #[test]
    fn without_a_change_the_jobs_stay() {
        let first = run(&frame([16_001, 400], &Value::Null));
        assert_eq!(run(&frame([16_001, 400], &first["trees"])), first);
    }

    #[test]
    fn cubes_are_cut_along_the_view_first_and_then_across_long_edges() {
        let out = run(&frame([1_600, 1], &Value::Null));
        assert_eq!(out["jobs"][0]["box"], json!([[0, 0, 0], [32, 64, 32]]));
    }

    #[test]
    fn bad_input_is_named() {
        let text = |input: &Value| {
            let error = crate::run("jobs", &input.to_string()).unwrap_err();
            error.to_string()
        };
        let mut input = frame([1, 1], &json!([{"brick": 7, "nodes": [[0, 64, 0]]}]));
        assert!(text(&input).contains("tree of brick 7"));
        input["trees"] = Value::Null;
        input["bricks"][1]["box"] = json!([[9, 9, 9], [9, 10, 10]]);
        assert!(text(&input).contains("box of brick 7"));
        input["bricks"][1]["id"] = "x".repeat(300).into();
        assert!(text(&input).contains("id is"));
        input["devices"] = 0.into();
        assert!(text(&input).contains("devices is 0"));
    }
}
