use serde_json::{Value, json};

fn run(input: &Value) -> Value {
    serde_json::from_str(&crate::run("mesh", &input.to_string()).unwrap()).unwrap()
}

fn peers(n: usize) -> Vec<Value> {
    (0..n)
        .map(|p| json!({"id": format!("peer-{p:02}")}))
        .collect()
}

fn total(out: &Value, frame: usize) -> u64 {
    out["frames"][frame]["total_us"].as_u64().unwrap()
}

#[test]
fn eight_peers_are_nearly_eight_times_as_fast_as_one() {
    let time = |n| {
        let path = json!({"frames": 20, "spin": 3.0, "size": [2048, 2048]});
        let out = run(&json!({"peers": peers(n), "path": path, "redundancy": 3.min(n)}));
        (5..20).map(|f| total(&out, f)).sum::<u64>()
    };
    let (one, eight) = (time(1), time(8));
    assert!(one > eight * 7, "{one} / {eight}");
}

#[test]
fn the_same_seed_gives_the_same_trace() {
    let input = json!({
        "peers": peers(6), "path": {"frames": 12}, "seed": 5,
        "network": {"loss": 0.2, "doubled": 0.2, "jitter_us": 3000},
        "faults": [{"frame": 4, "peer": "peer-02", "kind": "slow", "factor": 0.3}],
    });
    assert_eq!(run(&input), run(&input));
}

#[test]
fn a_peer_that_slows_down_is_known_after_a_frame() {
    let input = |slow: usize, steal: bool| {
        json!({
            "peers": peers(8), "path": {"frames": 12, "spin": 1.0}, "redundancy": 3,
            "rules": {"steal": steal}, "volume": {"brick": 16},
            "faults": [{"frame": 5, "peer": format!("peer-{slow:02}"), "kind": "slow", "factor": 0.25}],
        })
    };
    let (mut with, mut without, mut stolen) = (0, 0, 0);
    for slow in 0..4 {
        let outs = [true, false].map(|steal| run(&input(slow, steal)));
        let before = total(&outs[0], 4);
        for out in &outs {
            assert!(
                total(out, 11) * 100 < before * 125 * 8 / 7,
                "{}",
                total(out, 11)
            );
        }
        with += total(&outs[0], 5);
        without += total(&outs[1], 5);
        stolen += outs[0]["frames"][5]["stolen"].as_u64().unwrap();
    }
    assert!(with < without, "stealing helps where the plan is wrong");
    assert!(stolen > 0);
}

#[test]
fn a_mesh_in_which_everything_goes_wrong_may_see_a_part_of_the_volume() {
    // What is broken is an error.
    let out = run(&json!({
        "peers": 4, "path": {"frames": 60, "spin": 200, "zoom": 4, "leaps": [5, 20]},
        "volume": {"dims": [96, 96, 96], "brick": 16, "field": "shells"}, "redundancy": 2, "chaos": {},
    }));
    assert!(out["chaos"]["messages"].as_u64().unwrap() > 1000);
}

#[test]
fn a_peer_that_dies_leaves_no_hole_while_others_hold_its_bricks() {
    let out = run(&json!({
        "peers": peers(5), "path": {"frames": 6}, "redundancy": 2,
        "faults": [{"frame": 2, "after_us": 5000, "peer": "peer-01", "kind": "crash"}],
    }));
    assert_eq!(out["frames"][2]["attempts"], 2);
    assert_eq!(
        (&out["totals"]["missing"], &out["totals"]["given_up"]),
        (&json!(0), &json!(0))
    );
    let one_copy = |dies: &str| {
        let out = run(&json!({
            "peers": peers(3), "path": {"frames": 4}, "redundancy": 1,
            "faults": [{"frame": 2, "after_us": 5000, "peer": dies, "kind": "crash"}],
        }));
        out["frames"][3]["missing"].as_u64().unwrap()
    };
    assert!(one_copy("peer-01") > 0, "and says so where not");
}

#[test]
fn what_nobody_has_memory_for_is_read_from_disks_after_its_source_died() {
    let missing = |shelf: u32| {
        let peer = |id| json!({"id": id, "capacity": 16, "shelf": shelf});
        let out = run(&json!({
            "peers": [{"id": "source", "capacity": 16}, peer("a"), peer("b")],
            "path": {"frames": 600}, "redundancy": 1,
            "faults": [{"frame": 500, "peer": "source", "kind": "crash"}],
        }));
        let of = |frame: usize| out["frames"][frame]["missing"].as_u64().unwrap();
        (of(499), of(599))
    };
    assert_eq!(missing(40), (0, 0));
    let (before, after) = missing(0);
    assert!(before == 0 && after > 0, "{after}");
}

#[test]
fn no_job_is_rendered_twice_or_lost_on_a_bad_network() {
    let mut stolen = 0;
    for seed in 0..20 {
        let out = run(&json!({
            "peers": peers(6), "path": {"frames": 15, "leaps": [4, 9], "size": [1024, 1024]},
            "seed": seed, "redundancy": 4, "rules": {"min_job_us": 500},
            "network": {"loss": 0.3, "doubled": 0.3, "jitter_us": 5000},
            "faults": [{"frame": 3, "peer": "peer-05", "kind": "slow", "factor": 0.2}],
        }));
        let totals = &out["totals"];
        assert_eq!(totals["rendered_twice"], 0, "seed {seed}");
        assert_eq!(totals["given_up"], 0, "seed {seed}");
        let frames = out["frames"].as_array().unwrap();
        assert!(frames.iter().all(|f| f["attempts"] == 1), "seed {seed}");
        stolen += totals["stolen"].as_u64().unwrap();
    }
    assert!(stolen > 20, "{stolen} jobs changed hands");
}

#[test]
fn bad_input_is_named() {
    let refused = |input: Value| {
        crate::run("mesh", &input.to_string())
            .unwrap_err()
            .to_string()
    };
    assert!(refused(json!({"peers": []})).contains("peers is 0"));
    assert!(refused(json!({"peers": [{"id": "a"}, {"id": "a"}]})).contains("once"));
    assert!(refused(json!({"peers": [{"id": "a", "speed": 0.0}]})).contains("speed is 0"));
    assert!(refused(json!({"peers": 5000})).contains("5000 peers"));
    assert!(refused(json!({"peers": 3, "chaos": {"loss": 1.5}})).contains("loss is 1.5"));
    assert!(refused(json!({"peers": 3, "chaos": {"cuts": 1_000_000}})).contains("cuts is 1000000"));
    assert!(refused(json!({"peers": 3, "chaos": {"interval_us": 0}})).contains("interval_us is 0"));
    assert!(refused(json!({"peers": [{"id": "viewer"}], "chaos": {}})).contains("viewer"));
    let fault = json!([{"frame": 1, "peer": "z", "kind": "crash"}]);
    assert!(refused(json!({"peers": [{"id": "a"}], "faults": fault})).contains("faults is z"));
}
