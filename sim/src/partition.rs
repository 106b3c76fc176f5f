//! `sim partition`: which node gets which part of a volume.

use crate::{SimError, check_id};
use brickmesh_topology::{
    VoxelBox,
    balance::partition::{
        PartitionMethod, boxes_of_regions,
        grouping::{Grouping, GroupingLimits, Prices, Sending, group},
        nodes_of_cells,
        planes::{BoxCounts, SlabbedCounts, grid, kd_tree},
        precedence::{Precedence, PrecedenceError},
        slabs::{self, SLAB_WORK_MAX},
    },
    data::brick_grid::DIM_MAX,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    method: PartitionMethod,
    nodes: usize,
    /// Non-empty units of the slices along an axis, for slabs.
    #[serde(default)]
    counts: Option<Vec<u64>>,
    /// For all other methods.
    #[serde(default)]
    bricks: Option<Vec<Brick>>,
    /// Direction of looking, for brick grouping: its octant counts.
    #[serde(default = "diagonal")]
    view: [f64; 3],
    /// M: most bricks of a cell [default: the bricks of a node, rounded up].
    #[serde(default)]
    max_bricks: Option<usize>,
    #[serde(default)]
    cost: Option<Cost>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Brick {
    /// Text or number, given back as it is.
    id: Value,
    #[serde(rename = "box")]
    owned: VoxelBox,
    /// Non-empty voxels [default: all].
    #[serde(default)]
    voxels: Option<u64>,
}

/// Prices of the paper, all in the same unit of time.
#[derive(Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "UPPERCASE")]
struct Cost {
    r: f64,
    #[serde(default)]
    l: f64,
    #[serde(default)]
    x: Option<f64>,
    #[serde(default)]
    x1: Option<f64>,
    #[serde(default)]
    x2: Option<f64>,
}

#[derive(Serialize)]
pub(crate) struct Output {
    parts: Vec<Part>,
    /// Number of parts with something in them.
    cells: usize,
    /// Slabs: what the method makes least, for equal ones the largest load. Bricks: equation 1 where prices are
    /// given, else the largest load.
    cost: f64,
    /// Whether no partition of this kind costs less, proven.
    optimal: bool,
    /// Number of feasible partitions, of up to 12 bricks.
    feasible: Option<u64>,
    /// States of the dynamic programming.
    states: Option<usize>,
}

#[derive(Serialize)]
struct Part {
    node: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    slabs: Option<[usize; 2]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bricks: Option<Vec<Value>>,
    /// Non-empty units.
    load: u64,
}

fn diagonal() -> [f64; 3] {
    [1.0; 3]
}

/// Most bricks: their order looks at each pair.
const BRICKS_MAX: usize = 4096;
/// Most bricks times the voxels along the longest axis: planes look at each.
const PLANE_WORK_MAX: u64 = 1 << 28;
/// Bricks of which the feasible partitions are counted.
const COUNTED_BRICKS_MAX: usize = 12;
/// Most states of a stage: some hundred MiB of states in all.
const STATES_MAX: usize = 1 << 12;
/// Largest count and price.
const NUMBER_MAX: u64 = 1 << 53;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    if input.nodes == 0 {
        return Err(field("nodes", &0, "it must be at least 1"));
    }
    if input.method.is_slabs() {
        return slab_parts(&input);
    }
    let Some(bricks) = &input.bricks else {
        let expected = "this method cuts bricks, each with id, box and voxels";
        return Err(field("bricks", &"missing", expected));
    };
    check_bricks(bricks, input.nodes)?;
    let prices = input
        .cost
        .map(|cost| prices(cost, input.nodes))
        .transpose()?;
    if input.method == PartitionMethod::BrickGrouping {
        return grouped(&input, bricks, prices);
    }
    region_parts(&input, bricks, prices)
}

fn slab_parts(input: &Input) -> Result<Output, SimError> {
    let Some(counts) = &input.counts else {
        let expected = "slabs need the non-empty units of each slice along the axis";
        return Err(field("counts", &"missing", expected));
    };
    let sum = counts.iter().fold(0, |a: u64, &c| a.saturating_add(c));
    if sum > NUMBER_MAX {
        return Err(field(
            "counts",
            &sum,
            "their sum must be at most 9007199254740992",
        ));
    }
    let (nodes, slices) = (input.nodes, counts.len());
    if nodes > slices {
        let expected = format!("there are {slices} slabs: take at most as many nodes");
        return Err(field("nodes", &nodes, &expected));
    }
    if nodes as u64 * slices as u64 > SLAB_WORK_MAX {
        let expected = format!("nodes times counts must be at most {SLAB_WORK_MAX}");
        return Err(field("counts", &slices, &expected));
    }
    let least = || slabs::largest(&slabs::loads(counts, &slabs::min_max(counts, nodes)));
    let runs = match input.method {
        PartitionMethod::SlabsMinMax => slabs::min_max(counts, nodes),
        PartitionMethod::SlabsLeastSquares => slabs::least_squares(counts, nodes),
        _ => slabs::equal(slices, nodes),
    };
    let loads = slabs::loads(counts, &runs);
    let largest = slabs::largest(&loads);
    let (cost, optimal) = match input.method {
        PartitionMethod::SlabsLeastSquares => (slabs::squared_differences(&loads), true),
        PartitionMethod::SlabsMinMax => (float(largest), true),
        _ => (float(largest), largest == least()),
    };
    let part = |(node, (run, load)): (usize, (std::ops::Range<usize>, u64))| Part {
        node,
        slabs: Some([run.start, run.end]),
        bricks: None,
        load,
    };
    let parts: Vec<Part> = runs.into_iter().zip(loads).enumerate().map(part).collect();
    Ok(Output {
        cells: parts.len(),
        parts,
        cost,
        optimal,
        feasible: None,
        states: None,
    })
}

fn region_parts(
    input: &Input,
    bricks: &[Brick],
    prices: Option<Prices>,
) -> Result<Output, SimError> {
    let boxes: Vec<VoxelBox> = bricks.iter().map(|b| b.owned).collect();
    if let Err(error) = Precedence::of_boxes(&boxes, [0.0; 3]) {
        return Err(not_ordered(bricks, &error));
    }
    let weighted: Vec<(VoxelBox, u64)> = bricks.iter().map(|b| (b.owned, voxels(b))).collect();
    let mut counts = BoxCounts::new(&weighted);
    let regions = match input.method {
        PartitionMethod::Grid => grid(&mut counts, input.nodes),
        PartitionMethod::KdTree => kd_tree(&mut counts, input.nodes),
        _ => {
            let ends = boxes.iter().flat_map(|b| [b.lo[2], b.hi[2]]).collect();
            kd_tree(&mut SlabbedCounts::new(counts, ends), input.nodes)
        }
    };
    let inside = boxes_of_regions(&boxes, &regions);
    let cells = inside.iter().filter(|i| !i.is_empty()).count();
    let loads: Vec<u64> = regions.iter().map(|r| r.load).collect();
    let most = inside.iter().map(Vec::len).max().unwrap_or(0);
    let images: usize = inside.iter().map(Vec::len).sum();
    let part = |(node, (inside, &load)): (usize, (&Vec<usize>, &u64))| Part {
        node,
        slabs: None,
        bricks: Some(inside.iter().map(|&i| bricks[i].id.clone()).collect()),
        load,
    };
    Ok(Output {
        parts: inside.iter().zip(&loads).enumerate().map(part).collect(),
        cells,
        cost: prices.map_or(float(slabs::largest(&loads)), |p| {
            p.cost(images, cells, most)
        }),
        optimal: false,
        feasible: None,
        states: None,
    })
}

fn grouped(input: &Input, bricks: &[Brick], prices: Option<Prices>) -> Result<Output, SimError> {
    let Some(prices) = prices else {
        let expected = "brick grouping needs the prices R, L, and X or X1 and X2";
        return Err(field("cost", &"missing", expected));
    };
    if !input.view.iter().all(|v| v.is_finite()) || input.view.iter().all(|v| v.abs() <= 0.0) {
        let found = format!("{:?}", input.view);
        return Err(field(
            "view",
            &found,
            "each must be finite, and one of them not 0",
        ));
    }
    let bricks_max = input
        .max_bricks
        .unwrap_or(bricks.len().div_ceil(input.nodes));
    if bricks_max == 0 {
        return Err(field("max_bricks", &0, "it must be at least 1"));
    }
    let boxes: Vec<VoxelBox> = bricks.iter().map(|b| b.owned).collect();
    let precedence =
        Precedence::of_boxes(&boxes, input.view).map_err(|e| not_ordered(bricks, &e))?;
    let is_counted = bricks.len() <= COUNTED_BRICKS_MAX;
    let limits = |count| GroupingLimits {
        bricks_max,
        states_max: if count { usize::MAX } else { STATES_MAX },
        count,
    };
    let found: Grouping = group(&precedence, &prices, &limits(false));
    let feasible = is_counted.then(|| group(&precedence, &prices, &limits(true)).feasible);
    let nodes = nodes_of_cells(&found.cells, input.nodes);
    let part = |(cell, node): (&Vec<usize>, usize)| Part {
        node,
        slabs: None,
        bricks: Some(cell.iter().map(|&b| bricks[b].id.clone()).collect()),
        load: cell.iter().map(|&b| voxels(&bricks[b])).sum(),
    };
    Ok(Output {
        parts: found.cells.iter().zip(nodes).map(part).collect(),
        cells: found.cells.len(),
        cost: found.cost,
        optimal: found.is_optimal,
        feasible: feasible.flatten().and_then(|n| u64::try_from(n).ok()),
        states: Some(found.states),
    })
}

fn voxels(brick: &Brick) -> u64 {
    brick.voxels.unwrap_or_else(|| brick.owned.voxel_count())
}

fn prices(cost: Cost, nodes: usize) -> Result<Prices, SimError> {
    let all = [
        ("R", Some(cost.r)),
        ("L", Some(cost.l)),
        ("X", cost.x),
        ("X1", cost.x1),
        ("X2", cost.x2),
    ];
    for (name, price) in all {
        if let Some(price) = price.filter(|p| !(0.0..=float(NUMBER_MAX)).contains(p)) {
            let name = format!("{name} of cost");
            return Err(field(&name, &price, "it must be 0 to 9007199254740992"));
        }
    }
    let send = match (cost.x, cost.x1, cost.x2) {
        (Some(x), None, None) => Sending::Each(x),
        (None, Some(first), Some(further)) => Sending::TwoTier {
            first,
            further,
            nodes,
        },
        _ => {
            let found = all.iter().filter(|(_, p)| p.is_some()).map(|(n, _)| *n);
            let found = found.collect::<Vec<_>>().join(", ");
            return Err(field(
                "cost",
                &found,
                "give R, L, and either X, or X1 and X2",
            ));
        }
    };
    Ok(Prices {
        render: cost.r,
        local: cost.l,
        send,
    })
}

fn check_bricks(bricks: &[Brick], nodes: usize) -> Result<(), SimError> {
    if !(1..=BRICKS_MAX).contains(&bricks.len()) {
        return Err(field("bricks", &bricks.len(), "there must be 1 to 4096"));
    }
    if nodes > BRICKS_MAX {
        return Err(field("nodes", &nodes, "there may be 4096 at most"));
    }
    let mut ids = std::collections::BTreeSet::new();
    let mut work = 0;
    for brick in bricks {
        check_id("partition", &brick.id)?;
        let id = brick.id.to_string();
        if brick.owned.is_empty() || brick.owned.hi.iter().any(|&v| v > DIM_MAX) {
            let found = format!("{:?}", brick.owned);
            let expected = "each edge must have at least one voxel, and end at 65536 or before";
            return Err(field(&format!("box of brick {id}"), &found, expected));
        }
        let most = brick.owned.voxel_count();
        if let Some(found) = brick.voxels.filter(|&v| v > most) {
            let expected = format!("its box has {most}");
            return Err(field(&format!("voxels of brick {id}"), &found, &expected));
        }
        work += u64::from(brick.owned.size().into_iter().max().unwrap_or(0));
        if !ids.insert(id.clone()) {
            return Err(field("bricks", &id, "each id may stand once"));
        }
    }
    if work * nodes as u64 > PLANE_WORK_MAX {
        return Err(field(
            "nodes",
            &nodes,
            "that takes too long: take fewer, or smaller bricks",
        ));
    }
    Ok(())
}

fn not_ordered(bricks: &[Brick], error: &PrecedenceError) -> SimError {
    let name = |b: usize| bricks[b].id.to_string();
    let (found, expected) = match error {
        PrecedenceError::Overlap { first, second } => (
            format!("overlapping: {} and {}", name(*first), name(*second)),
            "each voxel may be in one brick",
        ),
        PrecedenceError::Circle { bricks } => (
            format!(
                "in a circle: {}",
                bricks
                    .iter()
                    .map(|&b| name(b))
                    .collect::<Vec<_>>()
                    .join(" before ")
            ),
            "cut one of them, so that there is an order",
        ),
        other => (other.to_string(), "they must have an order"),
    };
    field("bricks", &found, expected)
}

#[expect(clippy::cast_precision_loss, reason = "bounded by 2^53, or for people")]
fn float(n: u64) -> f64 {
    n as f64
}

fn field(field: &str, found: &dyn std::fmt::Display, expected: &str) -> SimError {
    SimError::Field {
        what: "partition",
        field: field.to_owned(),
        found: found.to_string(),
        expected: expected.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    /// A change of an input, and what is said of it.
    type Case = (fn(&mut Value), &'static str);

    fn run(input: &Value) -> Value {
        serde_json::from_str(&crate::run("partition", &input.to_string()).unwrap()).unwrap()
    }

    fn loads(out: &Value) -> Vec<u64> {
        let parts = out["parts"].as_array().unwrap().iter();
        parts.map(|p| p["load"].as_u64().unwrap()).collect()
    }

    /// A row of cubes along x, of 8 voxels a side.
    fn row(count: u32) -> Vec<Value> {
        let brick = |i: u32| json!({"id": format!("b{i}"), "box": [[8 * i, 0, 0], [8 * i + 8, 8, 8]], "voxels": 100});
        (0..count).map(brick).collect()
    }

    #[test]
    fn slabs_are_those_of_the_paper() {
        let counts = [
            12, 28, 61, 138, 149, 154, 139, 104, 106, 139, 156, 151, 129, 62, 29, 13,
        ];
        let of = |method: &str| run(&json!({"method": method, "nodes": 4, "counts": counts}));
        let equal = of("slabs-equal");
        assert_eq!(loads(&equal), [239, 546, 552, 233]);
        assert_eq!(equal["optimal"], false);
        for method in ["slabs-min-max", "slabs-least-squares"] {
            let out = of(method);
            assert_eq!(loads(&out), [388, 397, 401, 384], "{method}");
            assert_eq!(out["parts"][1]["slabs"], json!([5, 8]));
            assert_eq!(out["optimal"], true);
        }
        assert_eq!(of("slabs-min-max")["cost"], 401.0);
    }

    #[test]
    fn bricks_go_to_cells_in_depth_order() {
        let cost = json!({"R": 10, "L": 1, "X": 25});
        let mut input = json!({"method": "brick-grouping", "nodes": 2, "bricks": row(6), "view": [-1, 1, 1], "cost": cost});
        let out = run(&input);
        assert_eq!(out["parts"][0]["bricks"], json!(["b3", "b4", "b5"]));
        assert_eq!(
            (out["cells"].as_u64(), out["cost"].as_f64()),
            (Some(2), Some(59.0))
        );
        // Compositions of six into parts of three at most.
        assert_eq!(
            (out["feasible"].as_u64(), &out["optimal"]),
            (Some(24), &json!(true))
        );
        assert!(out["states"].as_u64().unwrap() > 0);
        input["bricks"] = row(13).into();
        assert!(run(&input)["feasible"].is_null());
        for method in ["grid", "kd-tree", "skd-tree"] {
            input["bricks"] = row(6).into();
            input["method"] = method.into();
            let out = run(&input);
            assert_eq!(loads(&out), [300, 300], "{method}");
            assert_eq!(out["cost"].as_f64(), Some(59.0));
        }
    }

    #[test]
    fn a_brick_on_a_plane_goes_to_both_sides() {
        let out = run(&json!({"method": "kd-tree", "nodes": 2, "bricks": row(3)}));
        let bricks = |part: usize| out["parts"][part]["bricks"].clone();
        assert_eq!(
            (bricks(0), bricks(1)),
            (json!(["b0", "b1"]), json!(["b1", "b2"]))
        );
        assert_eq!(loads(&out), [150, 150]);
    }

    #[test]
    fn bad_input_is_named() {
        let text = |change: fn(&mut Value)| {
            let cost = json!({"R": 1, "X": 1});
            let mut input =
                json!({"method": "brick-grouping", "nodes": 2, "bricks": row(3), "cost": cost});
            change(&mut input);
            crate::run("partition", &input.to_string())
                .unwrap_err()
                .to_string()
        };
        let cases: [Case; 12] = [
            (|i| i["nodes"] = 0.into(), "nodes is 0"),
            (|i| i["max_bricks"] = 0.into(), "max_bricks is 0"),
            (
                |i| i["bricks"][1]["box"] = json!([[7, 0, 0], [9, 8, 8]]),
                "overlapping: \"b0\" and \"b1\"",
            ),
            (
                |i| i["bricks"][1]["box"] = json!([[7, 0, 0], [7, 8, 8]]),
                "box of brick \"b1\"",
            ),
            (|i| i["bricks"][1]["voxels"] = 513.into(), "its box has 512"),
            (
                |i| i["bricks"][1]["id"] = "b0".into(),
                "each id may stand once",
            ),
            (|i| i["cost"]["R"] = (-1.0).into(), "R of cost is -1"),
            (|i| i["cost"]["X1"] = 1.0.into(), "either X, or X1 and X2"),
            (|i| i["cost"] = Value::Null, "cost is missing"),
            (|i| i["view"] = json!([0, 0, 0]), "view is"),
            (|i| i["bricks"] = Value::Null, "bricks is missing"),
            (
                |i| {
                    i["bricks"] = json!([
                    {"id": "a", "box": [[0, 0, 1], [1, 3, 3]]},
                    {"id": "b", "box": [[1, 0, 0], [3, 1, 3]]},
                    {"id": "c", "box": [[0, 1, 0], [3, 3, 1]]}]);
                },
                "in a circle",
            ),
        ];
        for (change, expected) in cases {
            let text = text(change);
            assert!(text.contains(expected), "{text}");
        }
        let slabs = |nodes: u32| {
            json!({"method": "slabs-equal", "nodes": nodes, "counts": [1, 2]}).to_string()
        };
        let error = crate::run("partition", &slabs(3)).unwrap_err().to_string();
        assert!(error.contains("there are 2 slabs"), "{error}");
    }
}
