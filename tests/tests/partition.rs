//! `brickmesh partition` and `sim paper silva-1995` on a real volume: the numbers that the papers print, and
//! what is said of wrong options.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::data_set::BrickSource;
use brickmesh_node::{brick_store, volume_file};
use brickmesh_tests::program::brickmesh;
use brickmesh_topology::{
    Camera, Manifest, PeerId, RenderSettings, TransferFunction,
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, FrameWork, PlanInputs},
        placement::partitioned::place_partition,
        plan_rules::PlanRules,
        roster::{Roster, RosterEntry},
    },
    base::seeded::Seeded,
    data::{
        brick_set::BrickSet, partition_method::PartitionMethod, transfer_function::TransferPoint,
    },
    mesh::assignment::{Demand, FirstPlacement, Member, next_assignment},
    picture::visible_cells::VisibleCells,
};
use serde_json::{Value, json};
use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Command, Output},
};

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

/// Bytes that a program reads from files, by the system's count.
#[cfg(target_os = "linux")]
fn import_reads(args: &[&str]) -> (Output, u64) {
    // The shell's own count has what its children read, once they have ended.
    let script = "\"$@\" && cat /proc/$$/io";
    let out = Command::new("sh")
        .args(["-c", script, "sh"])
        .arg(brickmesh())
        .args(args)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&out.stdout).into_owned();
    let line = text.lines().find_map(|l| l.strip_prefix("rchar: "));
    let bytes = line.map_or(0, |n| n.parse().unwrap());
    (out, bytes)
}

/// A ball of 9 in noise of 0 to 3, as a file; and how many voxels are 9.
fn ball(folder: &Path) -> (PathBuf, u64) {
    let path = folder.join("ball_160x160x160_uint8.raw");
    let value = |i: i32| {
        let [x, y, z] = [i % 160 - 40, i / 160 % 160 - 40, i / 25_600 - 40];
        let mixed = i.wrapping_mul(747_796_405);
        let noise = u8::try_from((mixed ^ mixed >> 15).wrapping_mul(277_803_737) >> 9 & 3).unwrap();
        if x * x + y * y + z * z < 900 {
            9
        } else {
            noise
        }
    };
    let voxels: Vec<u8> = (0..4_096_000).map(value).collect();
    std::fs::write(&path, &voxels).unwrap();
    let kept = voxels.into_iter().filter(|&v| v == 9).count();
    (path, kept as u64)
}

/// The folder that it is imported to, and the bytes that were read.
fn import(ball: &Path, name: &str, more: &[&str]) -> (String, u64) {
    let out = ball.with_file_name(name);
    let [ball, out] = [ball, &out].map(|p| p.to_str().unwrap());
    let args = [&["import", ball, "--out", out, "--brick", "32"], more].concat();
    let (done, bytes) = import_reads(&args);
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
    (out.to_owned(), bytes)
}

const TOLD: [&str; 4] = ["--keep", "9..9", "--slab", "4..16"];

#[test]
#[cfg(target_os = "linux")]
fn an_import_that_is_told_what_is_empty_reads_the_file_once_and_leaves_empty_bricks_out() {
    let folder = tempfile::tempdir().unwrap();
    let (ball, kept) = ball(folder.path());
    let (plain, plain_bytes) = import(&ball, "plain", &[]);
    let (told, bytes) = import(&ball, "told", &TOLD);
    // What programs read when they start is in both.
    assert!(plain_bytes >= 4_096_000, "{plain_bytes}");
    assert!(bytes < plain_bytes + 40_960, "{bytes} {plain_bytes}");
    let bricks = |folder: &str| {
        std::fs::metadata(format!("{folder}/bricks/0.pack"))
            .unwrap()
            .len()
    };
    let (fewer, all) = (bricks(&told), bricks(&plain));
    assert!(fewer * 3 < all, "{fewer} of {all}");
    let manifest = std::fs::read_to_string(format!("{told}/manifest.json")).unwrap();
    let mut values = serde_json::Deserializer::from_str(&manifest).into_iter::<Value>();
    let manifest = values.next().unwrap().unwrap();
    let of_bricks = manifest["kept_voxels"].as_array().unwrap().iter();
    assert_eq!(of_bricks.map(|n| n.as_u64().unwrap()).sum::<u64>(), kept);
    let info = run(&["info", &told, "--json"]).stdout;
    let info: Value = serde_json::from_slice(&info).unwrap();
    assert_eq!(info["kept"]["voxels"].as_u64(), Some(kept));
}

#[test]
#[cfg(target_os = "linux")]
fn a_folder_is_parted_by_the_projections_of_its_import_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (ball, kept) = ball(folder.path());
    let (told, _) = import(&ball, "told", &TOLD);
    std::fs::remove_file(format!("{told}/bricks/0.pack")).unwrap();
    let of = |source: &str, method: &str, more: &[&str]| {
        let args = [
            "partition",
            source,
            "--nodes",
            "5",
            "--json",
            "--method",
            method,
        ];
        run(&[&args, more].concat())
    };
    for method in ["skd-tree", "brick-grouping"] {
        let [from_folder, from_file] = [(told.as_str(), &[][..]), (ball.to_str().unwrap(), &TOLD)]
            .map(|(source, more)| {
                let out = of(source, method, more);
                assert!(
                    out.status.success(),
                    "{}",
                    String::from_utf8_lossy(&out.stderr)
                );
                serde_json::from_slice::<Value>(&out.stdout).unwrap()
            });
        assert_eq!(from_folder, from_file, "{method}");
        assert_eq!(from_file["load"], kept);
    }
    let damaged = format!("{told}/slab-projections.gz");
    let bytes = std::fs::read(&damaged).unwrap();
    std::fs::write(&damaged, &bytes[..bytes.len() / 2]).unwrap();
    let out = of(&told, "skd-tree", &[]);
    let error = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(!out.status.success(), "{error}");
    assert!(
        error.contains("slab-projections.gz") && error.contains("damaged"),
        "{error}"
    );
}

#[test]
fn placements_are_compared_and_the_best_is_marked() {
    let placements = |more: &[&str]| {
        run(&[
            &["placements", NEGHIP, "--brick", "16", "--nodes", "4"],
            more,
        ]
        .concat())
    };
    let out = placements(&["--json", "--copies", "2"]);
    let all: Value = serde_json::from_slice(&out.stdout).unwrap();
    let rows = all["placements"].as_array().unwrap();
    assert_eq!(rows.len(), 12);
    let least = rows
        .iter()
        .map(|r| r["frame_us"].as_f64().unwrap())
        .fold(f64::INFINITY, f64::min);
    assert_eq!(all["best"]["frame_us"], json!(least));
    for row in rows {
        assert!(
            row["max_over_mean"].as_f64().unwrap() >= 1.0 - 1e-9,
            "{row}"
        );
    }
    let error = |more: &[&str]| {
        let out = placements(more);
        assert!(!out.status.success());
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(error(&["--speeds", "1,2"]).contains("--speeds has 2 numbers for 4 machines"));
    assert!(error(&["--speeds", "0"]).contains("must be 0.001 to 1000"));
    assert!(error(&["--memory", "1K"]).contains("take more memory"));
    assert!(error(&["--link", "0"]).contains("--link"));
}

#[test]
fn a_placement_is_chosen_for_the_peers_that_are_there() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("p.png");
    let render = |more: &[&str]| {
        let args = [
            "render",
            NEGHIP,
            "--device",
            "cpu",
            "--out",
            out.to_str().unwrap(),
            "--peers",
            "3",
            "--brick",
            "16",
            "--placement",
            "auto",
        ];
        let done = run(&[&args, more].concat());
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        assert!(done.status.success(), "{said}");
        let line = said
            .lines()
            .find_map(|l| l.strip_prefix("brickmesh: placement "));
        line.unwrap().to_owned()
    };
    for copies in ["1", "2"] {
        let out = run(&[
            "placements",
            NEGHIP,
            "--brick",
            "16",
            "--nodes",
            "3",
            "--copies",
            copies,
            "--size",
            "1024x1024",
            "--json",
        ]);
        let all: Value = serde_json::from_slice(&out.stdout).unwrap();
        let rows = all["placements"].as_array().unwrap().iter();
        let of_copies = rows.filter(|r| r["copies"] == json!(copies.parse::<u32>().unwrap()));
        let micros = |r: &Value| r["frame_us"].as_f64().unwrap();
        let best = of_copies.min_by(|a, b| micros(a).total_cmp(&micros(b)));
        assert_eq!(
            render(&["--redundancy", copies]),
            best.unwrap()["placement"].as_str().unwrap()
        );
    }
    // Room for one copy and a half of the two that are wanted.
    assert_eq!(
        render(&["--redundancy", "2", "--memory", "205770"]),
        "redundant"
    );
    let out = folder.path().join("never");
    let out = run(&[
        "import",
        NEGHIP,
        "--out",
        out.to_str().unwrap(),
        "--placement",
        "auto",
    ]);
    assert!(!out.status.success());
}

/// A random window of values that is seen.
fn window(draws: &mut Seeded) -> TransferFunction {
    #[expect(clippy::cast_precision_loss, reason = "bytes")]
    let low = 5.0 + draws.below(150) as f64;
    #[expect(clippy::cast_precision_loss, reason = "bytes")]
    let high = f64::min(low + 10.0 + draws.below(60) as f64, 255.0);
    let point = |value, opacity| TransferPoint {
        value,
        color: [1.0; 3],
        opacity,
    };
    TransferFunction {
        unit_distance: None,
        points: vec![
            point(low, 0.0),
            point(low, 0.1),
            point(high, 0.1),
            point(high, 0.0),
        ],
    }
}

/// The plan of a frame of whole peers that hold these bricks.
fn planned(
    manifest: &Manifest,
    peers: &[PeerId],
    held: &[BrickSet],
    settings: &RenderSettings,
) -> FramePlan {
    let entry =
        |(peer, bricks): (&PeerId, &BrickSet)| RosterEntry::new(peer.clone(), bricks.clone());
    let camera = Camera::whole(manifest.volume());
    let plan = FramePlan::derive(&PlanInputs {
        manifest,
        view: &camera.view(512, 512).unwrap(),
        settings,
        visible: &VisibleCells::of(manifest, settings),
        roster: &Roster::new(peers.iter().zip(held).map(entry)),
        costs: &CostTable::default(),
        rules: &PlanRules::default(),
        earlier: None,
    });
    plan.unwrap()
}

#[expect(clippy::cast_precision_loss, reason = "microseconds")]
fn max_over_mean(plan: &FramePlan) -> f64 {
    let loads = &plan.schedule.loads_micros;
    let (most, all) = (loads.iter().max().unwrap(), loads.iter().sum::<u64>());
    (most * loads.len() as u64) as f64 / all as f64
}

/// What peers with so much room decide to hold, once all know what all hold.
fn decided(
    first: &mut FirstPlacement,
    peers: &[PeerId],
    held: &[BrickSet],
    room: u32,
    work: &FrameWork,
) -> Vec<BrickSet> {
    let member = |(peer, assigned)| Member {
        peer,
        capacity: room,
        assigned,
        held: assigned,
        leaving: false,
    };
    let members: Vec<Member<'_>> = peers.iter().zip(held).map(member).collect();
    let demand = Demand {
        alone: false,
        redundancy: 1,
        pressed: false,
        work: Some(work),
        seen: None,
    };
    let next = |me| next_assignment(first, &members, me, demand, &mut BTreeSet::new());
    (0..members.len()).map(next).collect()
}

/// Bricks that are held and were not before.
fn taken(held: &[BrickSet], before: &[BrickSet]) -> u32 {
    let pairs = held.iter().zip(before);
    pairs.map(|(h, b)| h.len_without(b)).sum()
}

#[test]
fn a_hundred_edits_of_the_transfer_function_leave_work_even_and_copy_little() {
    // Room for all, and for an eighth more than a part.
    for room in [512, 72] {
        edits(room);
    }
}

fn edits(room: u32) {
    let file = volume_file::open(Path::new(NEGHIP)).unwrap();
    let source = brick_store::load(&file, 8, u64::MAX, &mut |_, _| true).unwrap();
    let (manifest, grid) = (source.manifest(), *source.manifest().grid());
    let peers: Vec<PeerId> = (0..8).map(|n| PeerId::new(&format!("peer-{n}"))).collect();
    let parted = |weights: &[u64]| {
        place_partition(&grid, weights, &[room; 8], PartitionMethod::KdTree, 1).unwrap()
    };
    let fixed = parted(&manifest.occupied_voxels());
    let (mut held, mut anew) = (fixed.clone(), fixed.clone());
    let mut first = FirstPlacement::new(grid, 1, None);
    let mut draws = Seeded::new(1);
    let (mut copied, mut moved, mut without, mut with) = (0, 0, Vec::new(), Vec::new());
    for _ in 0..100 {
        let settings = RenderSettings::new(window(&mut draws), 0.5);
        let plan = |held: &[BrickSet]| planned(manifest, &peers, held, &settings);
        without.push(max_over_mean(&plan(&fixed)));
        let work = plan(&held).work(grid.brick_count());
        // Two frames: each peer decides twice.
        for _ in 0..2 {
            let next = decided(&mut first, &peers, &held, room, &work);
            copied += taken(&next, &held);
            held = next;
        }
        with.push(max_over_mean(&plan(&held)));
        let parts = parted(&work.micros);
        moved += taken(&parts, &anew);
        anew = parts;
    }
    without.sort_by(f64::total_cmp);
    with.sort_by(f64::total_cmp);
    println!(
        "room for {room} bricks: busiest over mean without copies {:.3}, at most {:.3}; with {:.3}, {:.3}; \
         bricks copied {copied}, by new partitions {moved}; held {} of {}",
        without[50],
        without[99],
        with[50],
        with[99],
        held.iter().map(BrickSet::len).sum::<u32>(),
        grid.brick_count(),
    );
    assert!(without[50] > 1.1 && with[99] <= 1.1, "{without:?} {with:?}");
    assert!(4 * copied <= moved, "{copied} {moved}");
}
