//! What `plan` foretells, and what then happens, with the program itself.

use brickmesh_tests::program::{brickmesh, imported, run};
use serde_json::Value;
use std::{collections::BTreeSet, fs, path::Path, process::Command};

/// Volumes of `tests/data`, in bricks of 16³ with levels.
const VOLUMES: [&str; 3] = ["neghip_64x64x64_uint8.raw.gz", "hydrogen.vti", "avf.nrrd"];

#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
fn plan(bricks: &Path, more: &[&str]) -> Value {
    let mut plan = Command::new(brickmesh());
    plan.args(["plan", "--json", "--device", "cpu"]).args(more);
    let out = plan.arg(bricks).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    serde_json::from_slice(&out.stdout).unwrap()
}

/// Renders a picture; what is said, and the bricks that all peers held when it began.
#[expect(clippy::unwrap_used, reason = "a test may fail by a panic")]
fn render(bricks: &Path, more: &[&str]) -> (String, u64) {
    let folder = tempfile::tempdir().unwrap();
    let [out, stats] = ["p.png", "s.json"].map(|n| folder.path().join(n));
    let mut render = Command::new(brickmesh());
    render
        .args(["render", "--device", "cpu", "--size", "64x64"])
        .arg(bricks);
    render.arg("--out").arg(&out).arg("--stats").arg(&stats);
    let said = run(render.args(more));
    let stats: Value = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    let held = stats["peers"].as_array().unwrap().iter();
    (
        said,
        held.map(|p| p["bricks"].as_array().unwrap().len() as u64)
            .sum(),
    )
}

fn is_read(said: &str) -> bool {
    said.contains("read for each frame")
}

#[test]
fn what_is_foretold_of_meshes_happens() {
    for volume in VOLUMES {
        let (_folder, bricks) = imported(volume);
        let levels = plan(&bricks, &["--memory", "4G"])["levels"].clone();
        let number = |level: usize, name: &str| levels[level][name].as_u64().unwrap();
        let (count, brick) = (
            number(0, "bricks"),
            number(0, "copy_bytes") / number(0, "bricks"),
        );
        // Two copies, and one: of three peers, each with so many bricks in a hundred of a copy.
        for (percent, copies) in [(70, 2), (40, 1)] {
            let memory = ((count * percent).div_ceil(100) * brick).to_string();
            let peers = ["--memory", &memory, "--peers", "3"];
            assert_eq!(
                plan(&bricks, &peers)["levels"][0]["copies"],
                copies,
                "{volume}"
            );
            let (said, held) = render(&bricks, &peers);
            assert!(
                !is_read(&said) && held >= copies * count,
                "{volume}: {held}, {said}"
            );
        }
        // Some peers more, and one less than these.
        let memory = ((count * 28).div_ceil(100) * brick).to_string();
        let alone = plan(&bricks, &["--memory", &memory]);
        let more = alone["levels"][0]["more_peers"].as_u64().unwrap();
        assert!(more >= 2, "{volume}: {more}");
        for (peers, reads) in [(1 + more, false), (more, true)] {
            let peers = ["--memory", &memory, "--peers", &peers.to_string()];
            let copies = plan(&bricks, &peers)["levels"][0]["copies"].as_u64();
            assert_eq!(copies, Some(u64::from(!reads)), "{volume}");
            let (said, _) = render(&bricks, &peers);
            assert_eq!(is_read(&said), reads, "{volume}: {said}");
        }
        // The finest level that fits, and the next finer one.
        let memory = (count * brick / 3).to_string();
        let fine = plan(&bricks, &["--memory", &memory])["finest_held"]
            .as_u64()
            .unwrap();
        assert!(fine > 0, "{volume}");
        for (level, reads) in [(fine, false), (fine - 1, true)] {
            let quality = ["--memory", &memory, "--quality", &level.to_string()];
            let (said, _) = render(&bricks, &quality);
            assert_eq!(is_read(&said), reads, "{volume}, level {level}: {said}");
        }
    }
}

#[test]
fn the_bricks_that_a_picture_needs_are_foretold_and_how_long_it_takes() {
    let (folder, bricks) = imported(VOLUMES[2]);
    let stats = folder.path().join("s.json");
    let (near, out) = (["--orbit", "30,20,4"], folder.path().join("p.png"));
    let size = ["--size", "64x64", "--memory", "96K"];
    let more = [&size[..], &near].concat();
    let foretold = plan(&bricks, &[&more[..], &["--time"]].concat());
    let mut render = Command::new(brickmesh());
    render.args(["render", "--device", "cpu"]).arg(&bricks);
    render.arg("--out").arg(&out).arg("--stats").arg(&stats);
    run(render.args(&more));
    let stats: Value = serde_json::from_slice(&fs::read(&stats).unwrap()).unwrap();
    let jobs = stats["frames"][0]["jobs"].as_array().unwrap().iter();
    let shown: BTreeSet<u64> = jobs.map(|j| j["brick"].as_u64().unwrap()).collect();
    let exact = &foretold["levels"][0];
    let needed = exact["picture"]["needed"].as_u64().unwrap();
    assert_eq!(needed, shown.len() as u64);
    assert!(
        needed > 0 && needed < exact["bricks"].as_u64().unwrap(),
        "{exact}"
    );
    let (held, read) = (&exact["picture"]["held"], &exact["picture"]["read"]);
    assert!(
        held.as_u64() > Some(0) && read.as_u64() > held.as_u64(),
        "{exact}"
    );
    assert!(exact["picture"]["ms"].as_f64().unwrap() > 0.0);
    assert!(foretold["levels"][1]["picture"]["ms"].is_null());
    // What cannot be tried.
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("data")
        .join(VOLUMES[2]);
    for (volume, more, words) in [
        (&file, vec!["--time"], "import it"),
        (&bricks, vec!["--time", "--memory", "1M,2M"], "one size"),
        (&bricks, vec!["--quality", "9", "--time"], "coarsest level"),
    ] {
        let mut plan = Command::new(brickmesh());
        let refused = plan.arg("plan").arg(volume).args(more).output().unwrap();
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(!refused.status.success() && said.contains(words), "{said}");
    }
}
