//! The program starts and ends on a Vulkan device again and again, on a busy machine, and none of
//! them ends by a crash. `BRICKMESH_VULKAN_ENDS` is how many renders there are.
//!
//! Where the program did not wait for its device's thread, 2 of 100 ended with SIGSEGV or SIGABRT on
//! Mesa's llvmpipe, after their picture was written or when they were told to stop.

use brickmesh_tests::{
    program::{Running, brickmesh},
    skip::vulkan_is_there,
};
use std::{
    env, fs,
    num::NonZeroUsize,
    os::unix::process::ExitStatusExt as _,
    path::Path,
    process::{Command, ExitStatus, Stdio},
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How often the program is started where nothing was said: enough that a crash in 100 is found.
const ENDS: usize = 100;
/// How often for each way to end before all is done.
const EARLY_ENDS: usize = 12;
/// Programs at a time.
const AT_A_TIME: usize = 4;
/// No program runs as long as this unless the test fails.
const FAILED: Duration = Duration::from_secs(120);
/// Failures that the test names.
const TOLD_MAX: usize = 5;
/// What a stopped program waits for in steps of this.
const STEP: Duration = Duration::from_millis(2);
/// A program that was told to stop before it listens ends by this signal.
const SIGTERM: i32 = 15;

fn ends() -> usize {
    let ends = env::var("BRICKMESH_VULKAN_ENDS").ok();
    ends.map_or(ENDS, |n| n.parse().expect("a number"))
}

/// A program that renders `frames` pictures on Vulkan into a folder.
fn render(out: &Path, frames: usize, peers: usize) -> Command {
    let mut command = Command::new(brickmesh());
    command
        .args(["render", "--device", "vulkan", "--size", "64x64"])
        .args(["--frames", &frames.to_string()])
        .args(["--peers", &peers.to_string()])
        .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("data/avf.nrrd"))
        .arg("--out")
        .arg(out);
    command
}

/// Runs a program; tells it to stop at these times after its start. How it ended, and what it said.
fn run(mut command: Command, stops: &[Duration], said: &Path) -> (ExitStatus, String) {
    let log = fs::File::create(said).expect("a log");
    command.stdout(Stdio::null()).stderr(log);
    let start = Instant::now();
    let mut program = Running(command.spawn().expect("it starts"));
    let mut stops = stops.iter().peekable();
    let status = loop {
        if let Some(status) = program.0.try_wait().expect("its status") {
            break status;
        }
        if stops.next_if(|at| start.elapsed() >= **at).is_some() {
            let id = program.0.id().to_string();
            let sent = Command::new("kill").args(["-TERM", &id]).status();
            assert!(sent.expect("kill runs").success());
        }
        assert!(start.elapsed() < FAILED, "it does not end");
        thread::sleep(STEP);
    };
    (status, fs::read_to_string(said).expect("its log"))
}

/// Calls `end` with 0, 1, …, a few at a time, on a machine whose cores are all busy; what it says
/// is what went wrong.
fn on_a_busy_machine(count: usize, end: impl Fn(usize, &Path) -> Option<String> + Sync) {
    let folder = tempfile::tempdir().expect("a folder");
    let (next, is_over) = (AtomicUsize::new(0), AtomicBool::new(false));
    let failures = Mutex::new(Vec::new());
    let work = || {
        loop {
            let n = next.fetch_add(1, Ordering::Relaxed);
            if n >= count {
                return;
            }
            let own = folder.path().join(n.to_string());
            fs::create_dir(&own).expect("a folder");
            if let Some(failure) = end(n, &own) {
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push(format!("{n}: {failure}"));
            }
            fs::remove_dir_all(&own).expect("its folder");
        }
    };
    let cores = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(|| {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let workers: Vec<_> = (0..AT_A_TIME).map(|_| scope.spawn(work)).collect();
        let ended: Vec<_> = workers.into_iter().map(|w| w.join()).collect();
        is_over.store(true, Ordering::Relaxed);
        assert!(ended.iter().all(Result::is_ok), "a worker panicked");
    });
    let failures = failures
        .into_inner()
        .unwrap_or_else(PoisonError::into_inner);
    let told = failures[..failures.len().min(TOLD_MAX)].join("\n");
    assert!(
        failures.is_empty(),
        "{} of {count}:\n{told}",
        failures.len()
    );
}

#[test]
fn on_a_busy_machine_every_render_on_vulkan_ends_with_status_0() {
    if !vulkan_is_there("on_a_busy_machine_every_render_on_vulkan_ends_with_status_0") {
        return;
    }
    on_a_busy_machine(ends(), |n, folder| {
        let peers = if n % 4 == 3 { 3 } else { 1 };
        let out = folder.join("picture.png");
        let (status, said) = run(render(&out, 1, peers), &[], &folder.join("said"));
        // Nothing but what was chosen: no warning, no error.
        let is_choice = |line: &str| line.starts_with("brickmesh: transfer function ");
        let is_well = status.success() && out.exists() && said.lines().all(is_choice);
        (!is_well).then(|| format!("{peers} peers, {status}: {said}"))
    });
}

#[test]
fn on_a_busy_machine_a_render_on_vulkan_that_fails_or_is_stopped_ends_well() {
    if !vulkan_is_there("on_a_busy_machine_a_render_on_vulkan_that_fails_or_is_stopped_ends_well") {
        return;
    }
    on_a_busy_machine(3 * EARLY_ENDS, |n, folder| {
        let (kind, peers) = (n % 3, n % 2 + 1);
        // From its start on to frames under way.
        let first = STEP * u32::try_from(n).expect("a small number");
        let (picture, stops): (_, &[_]) = match kind {
            0 => ("no such folder/picture.png", &[]),
            1 => ("picture.png", &[first]),
            _ => ("picture.png", &[first, first + 10 * STEP]),
        };
        let command = render(&folder.join(picture), 10_000, peers);
        let (status, said) = run(command, stops, &folder.join("said"));
        let is_well = match (status.code(), status.signal()) {
            (Some(1), _) if kind == 0 => said.contains("there is no folder"),
            (Some(1), _) => said.contains("stopped"),
            (Some(130), _) => kind == 2,
            (_, signal) => kind > 0 && signal == Some(SIGTERM),
        };
        (!is_well).then(|| format!("kind {kind}, {peers} peers, {status}: {said}"))
    });
}
