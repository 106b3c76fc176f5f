//! `sim placement`: who should hold which bricks.

use crate::{SimError, check_id};
use brickmesh_topology::{
    BrickGrid,
    balance::placement::{PlacementMethod, place, quality, redundancy},
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
    #[serde(default)]
    method: PlacementMethod,
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

/// Edge of a brick in voxels: any, only the counts matter here.
const EDGE: u32 = 32;
/// Most bricks on an axis.
const COUNT_MAX: u32 = 1024;
/// Most devices times bricks: a bit each.
const BITS_MAX: u64 = 1 << 30;
/// Most pairs of bricks on one device, summed over the devices: quality looks at each.
const PAIRS_MAX: u64 = 1 << 32;

pub(crate) fn run(input: Input) -> Result<Output, SimError> {
    let field = |field: &str, found: String, expected: &str| SimError::Field {
        what: "placement",
        field: field.to_owned(),
        found,
        expected: expected.to_owned(),
    };
    if input.bricks.iter().any(|&n| !(1..=COUNT_MAX).contains(&n)) {
        return Err(field(
            "bricks",
            format!("{:?}", input.bricks),
            "each must be 1 to 1024",
        ));
    }
    let grid = BrickGrid::new(input.bricks.map(|n| n * EDGE), EDGE)
        .map_err(|e| field("bricks", format!("{:?}", input.bricks), &e.to_string()))?;
    let bricks = grid.brick_count();
    let rooms = input.devices.iter().map(|d| d.capacity.min(bricks));
    let capacities: Vec<u32> = rooms.collect();
    let bits = u64::from(bricks) * capacities.len() as u64;
    let pairs: u64 = capacities.iter().map(|&c| u64::from(c).pow(2)).sum();
    if bits > BITS_MAX || pairs > PAIRS_MAX {
        let found = format!("{} for {bricks} bricks", capacities.len());
        let expected = "that takes too long: take fewer bricks, devices or less capacity";
        return Err(field("devices", found, expected));
    }
    for device in &input.devices {
        check_id("placement", &device.id)?;
    }
    let placement = place(&grid, &capacities, input.method, input.seed);
    let redundancy = redundancy(grid.brick_count(), &placement.held);
    let placed = input
        .devices
        .into_iter()
        .zip(&placement.held)
        .map(|(device, bricks)| Placed {
            id: device.id,
            bricks: bricks.iter().map(|b| b.0).collect(),
            quality: quality(&grid, bricks),
        });
    Ok(Output {
        devices: placed.collect(),
        redundancy,
        swaps: placement.swaps,
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
    fn each_method_places_as_its_name_says() {
        let run = |method: &str| {
            let input = format!(
                r#"{{"bricks":[4,4,4],"devices":[{{"id":0,"capacity":16}},{{"id":1,"capacity":32}},{{"id":2,"capacity":40}}],"method":"{method}"}}"#
            );
            let out: serde_json::Value =
                serde_json::from_str(&crate::run("placement", &input).unwrap()).unwrap();
            assert!(out["swaps"].as_u64().unwrap() > 0, "{method}");
            let qualities = out["devices"].as_array().unwrap().iter();
            let quality: f64 = qualities.map(|d| d["quality"].as_f64().unwrap()).sum();
            (out["redundancy"].as_f64().unwrap(), quality)
        };
        let (redundant, clustered) = (run("redundant"), run("clustered"));
        let (single, clustered_single) = (run("single"), run("clustered-single"));
        assert!((redundant.0 - 88.0 / 64.0).abs() < 1e-12 && (single.0 - 1.0).abs() < 1e-12);
        assert!((clustered.0 - 88.0 / 64.0).abs() < 1e-12);
        assert!(clustered.1 < redundant.1 && clustered_single.1 < single.1);
        let unknown = r#"{"bricks":[4,4,4],"devices":[],"method":"best"}"#;
        let text = crate::run("placement", unknown).unwrap_err().to_string();
        assert!(text.contains("clustered-single"), "{text}");
    }

    #[test]
    fn bad_input_is_named() {
        let bad = r#"{"bricks":[0,3,3],"devices":[]}"#;
        let text = crate::run("placement", bad).unwrap_err().to_string();
        assert_eq!(
            text,
            "sim placement: bricks is [0, 3, 3]; each must be 1 to 1024"
        );
        let large = r#"{"bricks":[1024,1024,1],"devices":[{"id":0,"capacity":4294967295}]}"#;
        let text = crate::run("placement", large).unwrap_err().to_string();
        assert!(text.contains("take fewer bricks"), "{text}");
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
