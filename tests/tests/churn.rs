//! Machines come, go and die while frames are rendered: every frame is whole and right, and in the
//! end every brick has its copies. Ten seeds on a larger volume: `cargo run --release -p
//! brickmesh-tests --bin churn`.

use brickmesh_tests::{churn::Churn, skip::skip};
use std::time::Duration;

#[test]
fn machines_that_come_go_and_die_leave_no_hole() {
    let name = "machines_that_come_go_and_die_leave_no_hole";
    if let Err(why) = brickmesh_tests::lab::Lab::new(1, brickmesh_tests::lab::Wiring::Bridge) {
        return skip(name, &format!("no network namespaces here: {why}"));
    }
    let volume = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/data/neghip_64x64x64_uint8.raw.gz"
    );
    let churn = Churn {
        volume: volume.into(),
        brick: 16,
        size: "256x256".to_owned(),
        frames: 900,
        share: 0.2,
        seed: 1,
        every: Duration::from_secs(6),
        render: Vec::new(),
    };
    let alone = tempfile::tempdir().expect("a folder");
    churn.render_alone(alone.path()).expect("one peer renders");
    let outcome = churn.run(alone.path()).expect("the lab runs");
    // How long a frame takes depends on the machine: measured by the program, not asserted here.
    let faults = outcome.faults(churn.frames, f64::INFINITY);
    assert!(faults.is_empty(), "{faults:?} {outcome:?}");
}
