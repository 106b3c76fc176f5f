//! `brickmesh partition` and `sim paper silva-1995` on a real volume: the numbers that the papers print, and
//! what is said of wrong options.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::program::brickmesh;
use serde_json::{Value, json};
use std::process::{Command, Output};

const NEGHIP: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/data/neghip_64x64x64_uint8.raw.gz"
);

fn run(args: &[&str]) -> Output {
    Command::new(brickmesh()).args(args).output().unwrap()
}

fn partition(args: &[&str]) -> Value {
    let all = [&["partition", NEGHIP, "--keep", "10..200", "--json"], args].concat();
    let out = run(&all);
    assert!(
        out.status.success(),
        "{}",
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).unwrap()
}

fn loads(out: &Value) -> Vec<u64> {
    let parts = out["parts"].as_array().unwrap().iter();
    parts.map(|p| p["load"].as_u64().unwrap()).collect()
}

#[test]
fn the_slabs_of_neghip_are_those_that_parc_prints() {
    let cubes = [
        "--nodes",
        "16",
        "--cubes",
        "4",
        "--cube-border",
        "1",
        "--method",
        "slabs-equal",
    ];
    let counts = [
        12, 28, 61, 138, 149, 154, 139, 104, 106, 139, 156, 151, 129, 62, 29, 13,
    ];
    assert_eq!(loads(&partition(&cubes)), counts);
    let four = |method: &str| {
        let mut args = cubes;
        (args[1], args[7]) = ("4", method);
        loads(&partition(&args))
    };
    assert_eq!(four("slabs-equal"), [239, 546, 552, 233]);
    assert_eq!(four("slabs-min-max"), [388, 397, 401, 384]);
    assert_eq!(four("slabs-least-squares"), [388, 397, 401, 384]);
    let out = run(&["sim", "paper", "silva-1995", "--volume", NEGHIP]);
    let out: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!(out["example"]["counts"]["ours"], json!(counts));
    assert!(out["correlation"].as_f64().unwrap() > 0.95);
}

#[test]
fn trees_halve_the_voxels_and_slab_projections_spare_the_slices() {
    let of =
        |method: &str, slab: &str| partition(&["--nodes", "8", "--method", method, "--slab", slab]);
    let (tree, single) = (of("kd-tree", "1..1"), of("skd-tree", "1..1"));
    assert_eq!(tree["parts"], single["parts"]);
    assert!(tree["slices_read"].as_u64().unwrap() >= 64 * 4);
    assert_eq!(single["slices_read"], 0);
    let voxels = single["load"].as_u64().unwrap();
    for out in [
        tree,
        of("skd-tree", "4..8"),
        of("grid", "4..8"),
        of("brick-grouping", "8..32"),
    ] {
        assert_eq!(loads(&out).iter().sum::<u64>(), voxels);
    }
}

#[test]
fn wrong_options_are_named_and_nothing_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("cuts.svg");
    let mask = folder.path().join("m_4x4x4_uint8.raw");
    std::fs::write(&mask, [1; 64]).unwrap();
    let cases = [
        (vec!["--keep", "9..1"], "9 is above 1"),
        (vec!["--slab", "0..4"], "1 to 65535"),
        (vec!["--slab", "9..4"], "the fewest first"),
        (vec!["--keep", "300..400"], "no voxel is kept"),
        (
            vec!["--mask", mask.to_str().unwrap()],
            "the volume has 64 x 64 x 64",
        ),
        (vec!["--cost", "-1,0,0"], "no price may be below 0"),
        (vec!["--nodes", "0"], "0"),
        (
            vec!["--nodes", "65", "--method", "slabs-min-max"],
            "there are 64 slabs",
        ),
    ];
    for (more, expected) in cases {
        let mut args = vec!["partition", NEGHIP, "--svg", svg.to_str().unwrap()];
        for (name, value) in [("--nodes", "4"), ("--method", "kd-tree")] {
            if !more.contains(&name) {
                args.extend([name, value]);
            }
        }
        let out = run(&[args, more.clone()].concat());
        let said = String::from_utf8_lossy(&out.stderr);
        assert!(
            !out.status.success() && said.contains(expected),
            "{more:?}: {said}"
        );
        assert!(!svg.exists());
    }
    let out = run(&[
        "partition",
        NEGHIP,
        "--nodes",
        "2",
        "--method",
        "grid",
        "--svg",
        svg.to_str().unwrap(),
    ]);
    assert!(out.status.success());
    assert!(std::fs::read_to_string(&svg).unwrap().starts_with("<svg"));
}
