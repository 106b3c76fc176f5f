//! `brickmesh import` is killed at moments drawn from a seed: what lies at its place then is a whole
//! store, or nothing; nothing else stays for ever; the next import succeeds.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_tests::program::{brickmesh, damage_brick};
use brickmesh_topology::base::seeded::Seeded;
use std::{
    fs,
    io::{BufWriter, Write as _},
    path::{Path, PathBuf},
    process::{Command, Output, Stdio},
    time::{Duration, Instant},
};

/// Voxels on each axis: enough that an import takes some tenths of a second.
const DIM: usize = 256;
/// Times that it is killed.
const KILLS: u64 = 12;

/// Writes a volume of which no two bricks are equal.
fn volume(folder: &Path) -> PathBuf {
    let path = folder.join(format!("v_{DIM}x{DIM}x{DIM}_uint8.raw"));
    let mut file = BufWriter::new(fs::File::create(&path).unwrap());
    let mut state = 1_u32;
    for _ in 0..DIM * DIM * DIM / 4 {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        file.write_all(&(state >> 3).to_le_bytes()).unwrap();
    }
    file.flush().unwrap();
    path
}

fn import(volume: &Path, out: &Path) -> Command {
    let mut command = Command::new(brickmesh());
    command.arg("import").arg(volume).arg("--out").arg(out);
    command.args(["--brick", "32"]);
    command.stdout(Stdio::null()).stderr(Stdio::piped());
    command
}

fn verify(store: &Path) -> Output {
    let mut command = Command::new(brickmesh());
    command.arg("info").arg(store).arg("--verify");
    command.output().unwrap()
}

fn says(output: &Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts.map(|t| String::from_utf8_lossy(t)).concat()
}

/// What is in the folder beside the volume and the store.
fn left(folder: &Path) -> usize {
    let names = fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().file_name());
    let ours = |name: &std::ffi::OsString| name.to_string_lossy().starts_with(".brickmesh");
    names.filter(ours).count()
}

#[test]
fn a_killed_import_leaves_a_whole_store_or_none_and_the_next_one_succeeds() {
    let folder = tempfile::tempdir().unwrap();
    let volume = volume(folder.path());
    let out = folder.path().join("v.brickmesh");
    // Built before the time is taken.
    assert!(brickmesh().is_file());
    let started = Instant::now();
    assert!(import(&volume, &out).output().unwrap().status.success());
    let usual = started.elapsed();
    let (mut whole, mut none, mut killed_at_work) = (0, 0, 0);
    for seed in 0..KILLS {
        fs::remove_dir_all(&out).unwrap();
        // Some later than usual: those are killed when they are about to be done, or done.
        let latest = usual * if seed % 3 == 2 { 4 } else { 1 };
        let after = Seeded::new(seed).below(u64::try_from(latest.as_micros()).unwrap());
        let mut child = import(&volume, &out).spawn().unwrap();
        std::thread::sleep(Duration::from_micros(after));
        child.kill().unwrap();
        child.wait().unwrap();
        killed_at_work += left(folder.path());
        let output = verify(&out);
        let text = says(&output);
        if out.exists() {
            whole += 1;
            assert!(
                output.status.success(),
                "seed {seed}, after {after} us: {text}"
            );
            assert!(text.contains("585 bricks are what"), "{text}");
            fs::remove_dir_all(&out).unwrap();
        } else {
            none += 1;
            assert_eq!(output.status.code(), Some(1), "seed {seed}: {text}");
            let parts = ["v.brickmesh", "import the volume again"];
            assert!(parts.iter().all(|p| text.contains(p)), "{text}");
        }
        let again = import(&volume, &out).output().unwrap();
        assert!(again.status.success(), "seed {seed}: {}", says(&again));
        assert_eq!(left(folder.path()), 0, "what was killed is taken away");
    }
    assert!(verify(&out).status.success());
    println!("{whole} whole, {none} none, {killed_at_work} killed at work; usual {usual:?}");
    assert!(killed_at_work > 0, "some are killed while they work");
}

#[test]
fn a_damaged_store_is_told_by_info_with_its_bricks() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("v_40x40x40_uint8.raw");
    let voxels = (0_u32..64_000).map(|i| (i * i / 7 % 253) as u8);
    fs::write(&path, voxels.collect::<Vec<u8>>()).unwrap();
    let out = folder.path().join("v.brickmesh");
    assert!(import(&path, &out).output().unwrap().status.success());
    assert!(says(&verify(&out)).contains("9 bricks are what the manifest says"));
    let damaged =
        [&out, &out.join("levels/1")].map(|folder| damage_brick(folder, 0).display().to_string());
    let output = verify(&out);
    let text = says(&output);
    assert_eq!(output.status.code(), Some(1), "{text}");
    let parts = [
        "2 of 9 bricks are damaged",
        "import the volume again",
        &damaged[0],
        &damaged[1],
    ];
    assert!(parts.iter().all(|p| text.contains(p)), "{text}");
    let json = Command::new(brickmesh())
        .args(["info", "--json", "--verify"])
        .arg(&out)
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(json["damaged"].as_array().unwrap().len(), 1);
    assert_eq!(json["damaged_of_levels"], serde_json::json!([[1, 0]]));
    // Files are read to their end, too.
    assert!(says(&verify(&path)).contains("every voxel can be read"));
}
