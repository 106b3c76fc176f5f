//! `sim placement`: who should hold which bricks.

use crate::SimError;
use brickmesh_topology::{
    BrickGrid,
    placement::{deal, quality, redundancy},
};
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Input {
    bricks: [u32; 3],
    devices: Vec<Device>,
    #[serde(default = "one")]
    seed: u64,
    #[serde(default = "redundant")]
    method: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Device {
    /// Text or number, given back as it is.
    id: Value,
    /// Room in bricks.
    capacity: u32,
}

#[derive(Serialize)]
pub(crate) struct Output {
    devices: Vec<Placed>,
    redundancy: f64,
    swaps: u64,
}

#[derive(Serialize)]
struct Placed {
    id: Value,
    bricks: Vec<u32>,
    quality: f64,
}

fn one() -> u64 {
    1
}

fn redundant() -> String {
    "redundant".to_owned()
}

/// Edge of a brick in voxels: any, only the counts matter here.
const EDGE: u32 = 32;
/// Most bricks on an axis.
const COUNT_MAX: u32 = 1024;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    let field = |field: &str, found: String, expected: &str| SimError::Field {
        what: "placement",
        field: field.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if input.method != "redundant" {
        return Err(field(
            "method",
            format!("{:?}", input.method),
            "it must be \"redundant\"",
        ));
    }
    if input.bricks.iter().any(|&n| !(1..=COUNT_MAX).contains(&n)) {
        return Err(field(
            "bricks",
            format!("{:?}", input.bricks),
            "each must be 1 to 1024",
        ));
    }
    let grid = BrickGrid::new(input.bricks.map(|n| n * EDGE), EDGE)
        .map_err(|e| field("bricks", format!("{:?}", input.bricks), &e.to_string()))?;
    let capacities: Vec<u32> = input.devices.iter().map(|d| d.capacity).collect();
    let held = deal(grid.brick_count(), &capacities, input.seed);
    let redundancy = redundancy(grid.brick_count(), &held);
    let placed = input
        .devices
        .into_iter()
        .zip(&held)
        .map(|(device, bricks)| Placed {
            id: device.id,
            bricks: bricks.iter().map(|b| b.0).collect(),
            quality: quality(&grid, bricks),
        });
    // Dealing alone makes no swaps: the second step of the paper is not part of this method yet.
    Ok(Output {
        devices: placed.collect(),
        redundancy,
        swaps: 0,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn bricks_are_dealt_and_counted() {
        let input = r#"{"bricks":[3,3,3],"devices":[{"id":"a","capacity":10},{"id":7,"capacity":20}],"seed":1}"#;
        let out: serde_json::Value =
            serde_json::from_str(&crate::run("placement", input).unwrap()).unwrap();
        assert_eq!(out["devices"][0]["bricks"].as_array().unwrap().len(), 10);
        assert_eq!(out["devices"][1]["id"], 7);
        assert!((out["redundancy"].as_f64().unwrap() - 30.0 / 27.0).abs() < 1e-12);
        assert_eq!(
            crate::run("placement", input).unwrap(),
            crate::run("placement", input).unwrap()
        );
    }

    #[test]
    fn bad_input_is_named() {
        let bad = r#"{"bricks":[0,3,3],"devices":[]}"#;
        let text = crate::run("placement", bad).unwrap_err().to_string();
        assert_eq!(
            text,
            "sim placement: bricks is [0, 3, 3]; each must be 1 to 1024"
        );
        assert!(
            crate::run("placement", "{")
                .unwrap_err()
                .to_string()
                .contains("line 1")
        );
        assert!(
            crate::run("other", "{}")
                .unwrap_err()
                .to_string()
                .contains("placement, schedule")
        );
    }
}
