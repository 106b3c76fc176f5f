use super::*;
use crate::{
    balance::frame_plan::scripted,
    data::{brick_grid::BrickIndex, voxel_box::VoxelBox},
    frame::{
        frame_requests::{BrickAccesses, FrameId},
        image::named::Names,
    },
    picture::{camera::PixelRect, tiles::Tile},
};

const RECT: PixelRect = PixelRect {
    x: 0,
    y: 0,
    width: 8,
    height: 8,
};

#[derive(Debug)]
struct Shown(FramePlan);

impl AsRef<FramePlan> for Shown {
    fn as_ref(&self) -> &FramePlan {
        &self.0
    }
}

type Output = WorkerOutput<Shown, Names>;
type Worker = FrameWorker<Shown, Names>;

/// Jobs of one tile, by what each should take; `a` and `b` hold all, `a` is to render all.
fn shown(costs: &[u64]) -> Arc<Shown> {
    in_rect(costs, RECT)
}

fn in_rect(costs: &[u64], rect: PixelRect) -> Arc<Shown> {
    let job = |(b, &micros): (u32, &u64)| PlannedJob {
        brick: BrickIndex(b),
        owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
        rect,
        leaf: 0,
        estimate_micros: micros,
        renderer: Some(0),
        is_rendered: false,
        content: None,
    };
    let jobs: Vec<PlannedJob> = (0..).zip(costs).map(job).collect();
    let holders = vec![vec![0, 1]; jobs.len()];
    let tile = Tile {
        rect,
        compositor: 1,
    };
    Arc::new(Shown(scripted(
        &["a", "b"],
        vec![1_000_000; 2],
        jobs,
        holders,
        vec![tile],
    )))
}

fn key(number: u64, attempt: u32) -> FrameKey {
    (PeerId::new("r"), FrameId { number, attempt })
}

fn data_set() -> Digest {
    Digest::of(b"a volume")
}

fn worker() -> Worker {
    FrameWorker::new(PeerId::new("a"), u64::MAX)
}

fn begin(worker: &mut Worker, key: FrameKey, frame: &Arc<Shown>) -> Vec<Output> {
    let mut out = Vec::new();
    let name = (key, data_set());
    worker.begin(0, name, Arc::clone(frame), true, &mut out);
    out
}

/// The device has rendered a job that it was told to.
fn done(worker: &mut Worker, key: &FrameKey, job: u32) -> Vec<Output> {
    let mut out = Vec::new();
    let image = (Names::of(job, RECT), 1_000);
    worker.rendered(key, [(job, image)], &mut out);
    out
}

/// The jobs that are rendered together.
fn together(out: &[Output]) -> Vec<(u64, Vec<u32>)> {
    let render = |o: &Output| match o {
        WorkerOutput::Render { key, jobs, .. } => Some((key.1.number, jobs.clone())),
        _ => None,
    };
    out.iter().filter_map(render).collect()
}

fn renders(out: &[Output]) -> Vec<(u64, u32)> {
    let together = together(out).into_iter();
    together
        .flat_map(|(number, jobs)| jobs.into_iter().map(move |job| (number, job)))
        .collect()
}

/// The names in the runs that go out.
fn runs(out: &[Output]) -> Vec<Vec<u32>> {
    let runs = out.iter().filter_map(|o| match o {
        WorkerOutput::Runs { runs, .. } => Some(runs),
        _ => None,
    });
    let names = runs.flatten().map(|r| r.image.names().to_vec());
    names.collect()
}

/// Whether each frame that is called off is over.
fn called_off(out: &[Output]) -> Vec<bool> {
    let is_over = |o: &Output| match o {
        WorkerOutput::CallOff { is_over, .. } => Some(*is_over),
        _ => None,
    };
    out.iter().filter_map(is_over).collect()
}

fn told(out: &[Output]) -> Vec<(FrameKey, FrameMessage)> {
    let tell = |o: &Output| match o {
        WorkerOutput::Tell(key, message) => Some((key.clone(), message.clone())),
        _ => None,
    };
    out.iter().filter_map(tell).collect()
}

#[test]
fn the_device_has_one_job_or_a_few_small_ones_on_hand_oldest_frame_first() {
    let mut worker = worker();
    let (large, small) = (shown(&[9_000, 9_000]), shown(&[700; 5]));
    assert_eq!(renders(&begin(&mut worker, key(1, 0), &large)), [(1, 0)]);
    assert_eq!(renders(&begin(&mut worker, key(2, 0), &small)), []);
    assert_eq!(renders(&done(&mut worker, &key(1, 0), 0)), [(1, 1)]);
    let out = done(&mut worker, &key(1, 0), 1);
    assert_eq!(renders(&out), [(2, 0), (2, 1)]);
    assert_eq!(runs(&out), [[0, 1]]);
    let plan = large.0.digest;
    let jobs = vec![(0, 1_000), (1, 1_000)];
    let jobs_done = FrameMessage::JobsDone {
        plan,
        jobs,
        rendered_micros: 2_000,
        bricks: BrickAccesses {
            held: 2,
            acquired: 2,
            ..BrickAccesses::default()
        },
    };
    assert_eq!(told(&out), [(key(1, 0), jobs_done)]);
    for (job, next) in [(0, vec![(2, 2)]), (1, vec![(2, 3)]), (2, vec![(2, 4)])] {
        assert_eq!(renders(&done(&mut worker, &key(2, 0), job)), next);
    }
    // A run goes once the last job of it that is on hand is done.
    assert_eq!(runs(&done(&mut worker, &key(2, 0), 3)), [[0; 0]; 0]);
    assert_eq!(runs(&done(&mut worker, &key(2, 0), 4)), [[0, 1, 2, 3, 4]]);
}

#[test]
fn short_jobs_of_a_frame_are_rendered_together_and_the_next_ones_are_on_hand_meanwhile() {
    let mut worker = worker();
    let small = shown(&[300; 12]);
    let mut now = together(&begin(&mut worker, key(1, 0), &small));
    assert_eq!(now, [(1, vec![0, 1, 2]), (1, vec![3, 4, 5])]);
    let mut count = 0;
    while !now.is_empty() {
        let (_, jobs) = now.remove(0);
        count += jobs.len();
        let image = |job| (job, (Names::of(job, RECT), 300));
        let mut out = Vec::new();
        worker.rendered(&key(1, 0), jobs.into_iter().map(image), &mut out);
        now.extend(together(&out));
        assert!(now.len() <= 2 && now.iter().all(|(_, jobs)| jobs.len() == 3));
    }
    assert_eq!(count, 12);
    // Frames do not mix, also where all are named at a time.
    worker.waits_for_room();
    for number in [2, 3] {
        assert!(begin(&mut worker, key(number, 0), &shown(&[300; 2])).is_empty());
    }
    let mut out = Vec::new();
    worker.sent(&mut out);
    assert_eq!(together(&out), [(2, vec![0, 1]), (3, vec![0, 1])]);
}

#[test]
fn many_short_jobs_are_rendered_in_batches_that_get_shorter_towards_the_end() {
    let mut worker = worker();
    let mut now = together(&begin(&mut worker, key(1, 0), &shown(&[300; 400])));
    let mut batches = Vec::new();
    while !now.is_empty() {
        let (_, jobs) = now.remove(0);
        batches.push(jobs.len());
        let image = |job| (job, (Names::of(job, RECT), 300));
        let mut out = Vec::new();
        worker.rendered(&key(1, 0), jobs.into_iter().map(image), &mut out);
        now.extend(together(&out));
        assert!(now.len() <= 2, "{now:?}");
    }
    assert_eq!(batches.iter().sum::<usize>(), 400);
    // 120 ms are left at first, and a part in 32 of it is a batch: 12 jobs of 300 us.
    assert_eq!(batches[0], 12);
    assert!(batches.is_sorted_by(|a, b| a >= b), "{batches:?}");
    assert!(batches[batches.len() - 3] <= 3, "{batches:?}");
    // However much is left.
    let first = together(&begin(
        &mut self::worker(),
        key(1, 0),
        &shown(&[1_000; 4_000]),
    ));
    assert_eq!(first[0].1.len(), 16);
}

#[test]
fn a_batch_of_which_a_job_is_done_is_one_still() {
    let mut worker = worker();
    let out = begin(&mut worker, key(1, 0), &shown(&[300; 12]));
    assert_eq!(together(&out), [(1, vec![0, 1, 2]), (1, vec![3, 4, 5])]);
    // Its driver says so one by one.
    for job in [0, 1] {
        assert_eq!(together(&done(&mut worker, &key(1, 0), job)), []);
    }
    let out = done(&mut worker, &key(1, 0), 2);
    assert_eq!(together(&out), [(1, vec![6, 7, 8])]);
}

#[test]
fn batches_are_shorter_where_somebody_else_waits() {
    let mut worker = worker();
    let many = shown(&[1_000; 4_000]);
    let first = |out: &[Output]| together(out)[0].1.len();
    assert_eq!(first(&begin(&mut worker, key(1, 0), &many)), 16);
    let mut out = Vec::new();
    let other = (PeerId::new("s"), key(1, 0).1);
    worker.begin(0, (other, data_set()), many, true, &mut out);
    let image = |job| (job, (Names::of(job, RECT), 1_000));
    let mut out = Vec::new();
    worker.rendered(&key(1, 0), (0..16).map(image), &mut out);
    worker.rendered(&key(1, 0), (16..32).map(image), &mut out);
    assert_eq!(first(&out), 5);
}

#[test]
fn what_is_expected_of_jobs_does_not_alone_say_how_many_are_rendered_together() {
    let counts = |frame: &Arc<Shown>| -> Vec<usize> {
        let out = begin(&mut worker(), key(1, 0), frame);
        together(&out).iter().map(|(_, jobs)| jobs.len()).collect()
    };
    assert_eq!(counts(&shown(&[1; 300])), [BATCH_JOBS_MAX, BATCH_JOBS_MAX]);
    let large = PixelRect {
        width: u32::try_from(BATCH_PIXELS_MAX / 16).unwrap(),
        ..RECT
    };
    assert_eq!(counts(&in_rect(&[1; 5], large)), [2, 2]);
}

#[test]
fn a_job_that_was_put_aside_goes_on_alone() {
    let mut worker = worker();
    let own = key(1, 0);
    let other = (PeerId::new("s"), own.1);
    let out = begin(&mut worker, own.clone(), &shown(&[25_000, 100, 100]));
    assert_eq!(together(&out), [(1, vec![0])]);
    begin(&mut worker, other.clone(), &shown(&[100]));
    let mut out = Vec::new();
    worker.put_aside(&own, 0, (24_900, Awaits::default()), &mut out);
    let jobs: Vec<_> = together(&out).into_iter().map(|(_, jobs)| jobs).collect();
    assert_eq!(jobs, [[0], [0]]);
    let out = done(&mut worker, &other, 0);
    assert_eq!(together(&out), [(1, vec![1, 2])]);
}

#[test]
fn a_slow_frame_of_one_requester_does_not_keep_that_of_another_waiting() {
    let mut worker = worker();
    let (slow, fast) = (shown(&[9_000; 20]), shown(&[4_000; 2]));
    let of_other = (
        PeerId::new("s"),
        FrameId {
            number: 7,
            attempt: 0,
        },
    );
    let mut now = renders(&begin(&mut worker, key(1, 0), &slow));
    begin(&mut worker, of_other.clone(), &fast);
    let mut order = Vec::new();
    while let [(number, job)] = now[..] {
        order.push(number);
        let key = if number == 7 {
            of_other.clone()
        } else {
            key(1, 0)
        };
        let micros = if number == 7 { 4_000 } else { 9_000 };
        let mut out = Vec::new();
        worker.rendered(&key, [(job, (Names::of(job, RECT), micros))], &mut out);
        now = renders(&out);
    }
    // One that was on the device, then as many as a turn has.
    assert_eq!(order[..6], [1, 1, 1, 7, 7, 1]);
    assert_eq!(order.len(), 22);
}

#[test]
fn a_long_job_is_put_aside_for_another_requester_and_goes_on_after_it() {
    let mut worker = worker();
    let (slow, fast) = (shown(&[900_000; 2]), shown(&[4_000; 2]));
    let other = (
        PeerId::new("s"),
        FrameId {
            number: 7,
            attempt: 0,
        },
    );
    let is_asked = |out: &[Output]| {
        let asked = out
            .iter()
            .filter(|o| matches!(o, WorkerOutput::PutAside { .. }));
        asked.count()
    };
    let own = key(1, 0);
    let out = begin(&mut worker, own.clone(), &slow);
    assert_eq!((renders(&out), is_asked(&out)), (vec![(1, 0)], 0));
    // Of the same requester: it waits.
    assert_eq!(is_asked(&begin(&mut worker, key(2, 0), &fast)), 0);
    let out = begin(&mut worker, other.clone(), &fast);
    assert_eq!((renders(&out), is_asked(&out)), (vec![], 1));
    let mut next = Vec::new();
    worker.put_aside(&own, 0, (25_000, Awaits::default()), &mut next);
    assert_eq!((renders(&next), is_asked(&next)), (vec![(7, 0)], 1));
    let of_other = |worker: &mut Worker, job| {
        let mut out = Vec::new();
        worker.rendered(&other, [(job, (Names::of(job, RECT), 4_000))], &mut out);
        renders(&out)
    };
    assert_eq!(of_other(&mut worker, 0), [(7, 1)]);
    assert_eq!(of_other(&mut worker, 1), [(1, 0)]);
    // What is called off is not gone on with.
    let mut out = Vec::new();
    worker.put_aside(&own, 0, (25_000, Awaits::default()), &mut out);
    assert_eq!(renders(&out), [(1, 0)]);
    begin(
        &mut worker,
        (
            other.0.clone(),
            FrameId {
                number: 8,
                attempt: 0,
            },
        ),
        &fast,
    );
    let mut out = Vec::new();
    worker.put_aside(&own, 0, (25_000, Awaits::default()), &mut out);
    assert_eq!(renders(&out), [(8, 0)]);
    worker.over(&own.0, Some(1), &mut out);
    out.clear();
    let eight = (
        other.0,
        FrameId {
            number: 8,
            attempt: 0,
        },
    );
    worker.over(&eight.0, Some(8), &mut out);
    worker.not_rendered(&eight, 0, None, &mut out);
    assert_eq!(renders(&out), [(2, 0)]);
}

#[test]
fn a_further_attempt_renders_what_no_earlier_one_has_and_a_frame_that_is_over_nothing() {
    let (mut worker, frame) = (worker(), shown(&[9_000; 3]));
    begin(&mut worker, key(1, 0), &frame);
    done(&mut worker, &key(1, 0), 0);
    let mut out = Vec::new();
    worker.cancel(&key(1, 0), &mut out);
    assert_eq!(renders(&out), []);
    // Job 1 is on the device, and comes after its attempt's end.
    assert_eq!(renders(&begin(&mut worker, key(1, 1), &frame)), []);
    assert_eq!(renders(&done(&mut worker, &key(1, 0), 1)), [(1, 2)]);
    let out = done(&mut worker, &key(1, 1), 2);
    assert_eq!(runs(&out), [[0, 1, 2]], "each job was rendered once");

    let mut out = Vec::new();
    worker.over(&PeerId::new("r"), Some(1), &mut out);
    assert_eq!(called_off(&out), [true], "what waits to be sent");
    assert_eq!(renders(&begin(&mut worker, key(1, 2), &frame)), [(1, 0)]);
    let mut out = Vec::new();
    worker.over(&PeerId::new("r"), Some(1), &mut out);
    assert_eq!(called_off(&out), [true, true], "and what is rendered");
    // It was too late for that.
    assert!(done(&mut worker, &key(1, 2), 0).is_empty());
    let out = begin(&mut worker, key(1, 3), &frame);
    assert_eq!(renders(&out), [(1, 0)], "nothing was kept");
    let mut out = Vec::new();
    worker.not_rendered(&key(1, 3), 0, None, &mut out);
    assert_eq!((called_off(&out), told(&out)), (vec![false], vec![]));
}

#[test]
fn what_the_device_renders_for_an_attempt_that_was_cancelled_is_not_rendered_again() {
    let (mut worker, frame) = (worker(), shown(&[100; 2]));
    assert_eq!(
        renders(&begin(&mut worker, key(1, 0), &frame)),
        [(1, 0), (1, 1)]
    );
    let mut out = Vec::new();
    worker.cancel(&key(1, 0), &mut out);
    assert_eq!(called_off(&out), [false]);
    assert_eq!(renders(&begin(&mut worker, key(1, 1), &frame)), []);
    assert_eq!(renders(&done(&mut worker, &key(1, 0), 0)), []);
    assert_eq!(runs(&done(&mut worker, &key(1, 0), 1)), [[0, 1]]);
}

#[test]
fn nothing_is_rendered_nor_taken_from_what_is_kept_while_something_waits_for_room() {
    // Runs of 128² pixels are worth a message each.
    let rect = PixelRect {
        width: 128,
        height: 128,
        ..RECT
    };
    let (mut worker, frame) = (worker(), in_rect(&[9_000; 3], rect));
    begin(&mut worker, key(1, 0), &frame);
    let image = |job| (Names::of(job, rect), 1_000);
    for job in 0..3 {
        let mut out = Vec::new();
        worker.rendered(&key(1, 0), [(job, image(job))], &mut out);
    }
    let mut out = begin(&mut worker, key(1, 1), &frame);
    let mut sent = runs(&out);
    while worker.resume(&mut out) {
        sent = runs(&out);
    }
    assert_eq!(sent, [[0, 1, 2]]);
    worker.waits_for_room();
    assert!(worker.is_waiting_for_room());
    let other = shown(&[9_000]);
    assert_eq!(renders(&begin(&mut worker, key(2, 0), &other)), []);
    let mut out = Vec::new();
    worker.sent(&mut out);
    assert_eq!(renders(&out), [(2, 0)]);
}

#[test]
fn who_is_lost_may_come_back_and_count_its_frames_from_the_first() {
    let (mut worker, frame) = (worker(), shown(&[9_000]));
    begin(&mut worker, key(0, 0), &frame);
    worker.lost(&PeerId::new("another"), &mut Vec::new());
    assert!(worker.was_begun(&key(0, 0)));
    worker.lost(&PeerId::new("r"), &mut Vec::new());
    assert!(!worker.was_begun(&key(0, 0)));
}

#[test]
fn a_frame_is_begun_once_and_too_many_of_one_requester_end_its_oldest() {
    let (mut worker, frame) = (worker(), shown(&[9_000]));
    assert!(!worker.was_begun(&key(0, 0)));
    for number in 0..8 {
        assert_eq!(told(&begin(&mut worker, key(number, 0), &frame)), []);
    }
    assert!(worker.was_begun(&key(0, 0)));
    let out = begin(&mut worker, key(8, 0), &frame);
    assert_eq!(told(&out), [(key(0, 0), FrameMessage::Busy)]);
    // Its job is on the device, and ends there.
    assert_eq!(renders(&done(&mut worker, &key(0, 0), 0)), [(1, 0)]);
}

#[test]
fn a_job_that_cannot_be_rendered_ends_its_frame_and_a_lost_device_all() {
    let (mut worker, frame) = (worker(), shown(&[9_000; 2]));
    for number in 1..4 {
        begin(&mut worker, key(number, 0), &frame);
    }
    let mut out = Vec::new();
    worker.not_rendered(&key(1, 0), 0, Some("no memory"), &mut out);
    let failed = |number, why: &str| {
        let why = why.to_owned();
        (key(number, 0), FrameMessage::Failed { why })
    };
    assert_eq!(told(&out), [failed(1, "no memory")]);
    assert_eq!(renders(&out), [(2, 0)]);
    let mut out = Vec::new();
    worker.device_lost("unplugged", &mut out);
    assert_eq!(called_off(&out), [false, false]);
    let both = [failed(2, "unplugged"), failed(3, "unplugged")];
    assert_eq!(told(&out), both);
    assert!(!worker.is_under_way(0));
    // What the device says of jobs that it was told before is void.
    let mut out = Vec::new();
    worker.not_rendered(&key(2, 0), 0, Some("no device"), &mut out);
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn who_is_done_steals_and_who_was_stolen_from_sends_what_it_has() {
    let frame = shown(&[9_000; 4]);
    let (mut a, mut b) = (worker(), Worker::new(PeerId::new("b"), u64::MAX));
    begin(&mut a, key(1, 0), &frame);
    let asked = begin(&mut b, key(1, 0), &frame);
    let [WorkerOutput::Steal { plan, message, .. }] = &asked[..] else {
        panic!("{asked:?}");
    };
    let mut out = Vec::new();
    a.heard(&PeerId::new("b"), &key(1, 0), *plan, message, &mut out);
    let given: Vec<u32> = told(&out)
        .into_iter()
        .filter_map(|(_, message)| match message {
            FrameMessage::Given { jobs, .. } => Some(jobs),
            _ => None,
        })
        .flatten()
        .collect();
    assert_eq!(given, [2, 3]);
    let granted = out.iter().find_map(|o| match o {
        WorkerOutput::Steal { message, .. } => Some(message.clone()),
        _ => None,
    });
    let mut out = Vec::new();
    let granted = granted.unwrap();
    b.heard(&PeerId::new("a"), &key(1, 0), *plan, &granted, &mut out);
    assert_eq!(renders(&out), [(1, 2)]);
    assert_eq!(renders(&done(&mut a, &key(1, 0), 0)), [(1, 1)]);
    assert_eq!(runs(&done(&mut a, &key(1, 0), 1)), [[0, 1]]);
    // Without a device nobody is asked for jobs.
    let mut out = Vec::new();
    b.device_lost("unplugged", &mut out);
    let mut out = begin(&mut b, key(2, 0), &frame);
    assert!(out.is_empty(), "{out:?}");
    b.device_opened();
    b.ask_again(0, &mut out);
    assert!(out.is_empty(), "{out:?}");
}

#[test]
fn whoever_waits_long_for_bricks_gives_its_jobs_to_those_that_do_not() {
    let frame = shown(&[1_000; 4]);
    let (mut a, mut b) = (holding(&[]), Worker::new(PeerId::new("b"), u64::MAX));
    begin(&mut a, key(1, 0), &frame);
    // What is said from one to the other until nobody says more; whether that was much.
    let talk = |a: &mut Worker, b: &mut Worker, mut out: Vec<Output>| {
        let mut is_any = false;
        while let Some((plan, to, message)) = out.iter().find_map(|o| match o {
            WorkerOutput::Steal {
                plan, to, message, ..
            } => Some((*plan, to.clone(), message.clone())),
            _ => None,
        }) {
            is_any = true;
            out.clear();
            let (from, to) = if to == PeerId::new("a") {
                ("b", &mut *a)
            } else {
                ("a", &mut *b)
            };
            to.heard(&PeerId::new(from), &key(1, 0), plan, &message, &mut out);
        }
        (is_any, renders(&out))
    };
    let asked = begin(&mut b, key(1, 0), &frame);
    let (_, first) = talk(&mut a, &mut b, asked);
    assert_eq!(first, [], "so little is not worth it as far as is known");
    let mut offers = 0;
    for tick in 0..30 {
        let mut out = Vec::new();
        a.ask_again(50_000 * tick, &mut out);
        let (is_offered, jobs) = talk(&mut a, &mut b, out);
        offers += u32::from(is_offered);
        for (_, job) in jobs {
            done(&mut b, &key(1, 0), job);
        }
    }
    assert!((2..10).contains(&offers), "{offers}");
    assert!(!a.is_under_way(u64::MAX), "nothing is left there");
}

/// Bricks that are asked for, or released.
fn stages(out: &[Output]) -> (Vec<u32>, Vec<u32>) {
    let of = |o: &Output| match o {
        WorkerOutput::Stage(_, brick, _) => Some((Some(brick.0), None)),
        WorkerOutput::Release(_, brick) => Some((None, Some(brick.0))),
        _ => None,
    };
    let all: (Vec<_>, Vec<_>) = out.iter().filter_map(of).unzip();
    (
        all.0.into_iter().flatten().collect(),
        all.1.into_iter().flatten().collect(),
    )
}

/// A worker whose peer holds these of four bricks.
fn holding(bricks: &[u32]) -> Worker {
    let mut worker = worker();
    let mut held = BrickSet::new(4);
    bricks.iter().for_each(|&b| {
        held.insert(BrickIndex(b));
    });
    worker.holds(data_set(), Arc::new(held), &mut Vec::new());
    worker
}

/// A brick that was asked for is there, or cannot be had; whichever question that was.
fn staged(worker: &mut Worker, brick: u32, is_there: bool) -> Vec<Output> {
    let mut out = Vec::new();
    for question in 0..100 {
        worker.staged(
            (data_set(), BrickIndex(brick)),
            question,
            is_there.then_some(40),
            &mut out,
        );
    }
    out
}

#[test]
fn jobs_wait_for_their_bricks_while_others_are_rendered() {
    let frame = shown(&[9_000; 4]);
    let mut worker = holding(&[2]);
    let out = begin(&mut worker, key(1, 0), &frame);
    assert_eq!(renders(&out), [(1, 2)]);
    assert_eq!(stages(&out), (vec![0, 1, 3], vec![]));
    assert!(
        staged(&mut worker, 3, true).is_empty(),
        "the device is busy"
    );
    let out = done(&mut worker, &key(1, 0), 2);
    assert_eq!(renders(&out), [(1, 3)]);
    assert_eq!(stages(&out), (vec![], vec![]), "the peer holds it");
    let out = done(&mut worker, &key(1, 0), 3);
    assert_eq!(stages(&out).1, [3]);
    assert!(worker.is_under_way(0), "two bricks are awaited");
    assert_eq!(renders(&staged(&mut worker, 1, true)), [(1, 1)]);
    let out = done(&mut worker, &key(1, 0), 1);
    assert!(runs(&out).is_empty(), "jobs before it are to come");
    staged(&mut worker, 0, true);
    let out = done(&mut worker, &key(1, 0), 0);
    assert_eq!(stages(&out).1, [0]);
    assert_eq!(runs(&out).concat(), [0, 1, 2, 3]);
    // Of the next frame, those are first that may be in memory still.
    worker.freed((data_set(), BrickIndex(0)));
    let out = begin(&mut worker, key(2, 0), &frame);
    assert_eq!(stages(&out).0, [1, 3, 0]);
}

#[test]
fn what_came_for_a_frame_and_what_made_room_for_it_is_told() {
    let mut worker = holding(&[2]);
    let frame = shown(&[9_000; 4]);
    begin(&mut worker, key(1, 0), &frame);
    let mut out = done(&mut worker, &key(1, 0), 2);
    for brick in [0, 1, 3] {
        staged(&mut worker, brick, true);
        out = done(&mut worker, &key(1, 0), brick);
        // Only what nobody needs any more can make room.
        (0..2).for_each(|_| worker.freed((data_set(), BrickIndex(0))));
    }
    let bricks = told(&out).into_iter().find_map(|(_, m)| match m {
        FrameMessage::JobsDone { bricks, .. } => Some(bricks),
        _ => None,
    });
    let expected = BrickAccesses {
        held: 1,
        missed: 3,
        missed_bytes: 120,
        evicted: 1,
        acquired: 4,
        ..BrickAccesses::default()
    };
    assert_eq!(bricks, Some(expected));
}

#[test]
fn the_time_for_which_a_frame_waits_for_bricks_is_told_without_that_of_rendering() {
    let mut worker = holding(&[2]);
    begin(&mut worker, key(1, 0), &shown(&[9_000; 4]));
    begin(&mut worker, key(2, 0), &shown(&[9_000; 4]));
    let mut out = Vec::new();
    let mut tick = |worker: &mut Worker, at: u64| {
        out.clear();
        worker.ask_again(at * 50_000, &mut out);
        let took = told(&out).into_iter().filter_map(|(key, m)| match m {
            FrameMessage::JobsDone {
                rendered_micros,
                bricks,
                ..
            } => Some((key.1.number, (rendered_micros, bricks.waited_micros))),
            _ => None,
        });
        took.collect::<Vec<_>>()
    };
    tick(&mut worker, 0);
    let rendered = |worker: &mut Worker, frame: u64, job: u32| {
        let done = [(job, (Names::of(job, RECT), 20_000))];
        worker.rendered(&key(frame, 0), done, &mut Vec::new());
    };
    rendered(&mut worker, 1, 2);
    assert_eq!(tick(&mut worker, 1), [(1, (20_000, 30_000))]);
    assert_eq!(tick(&mut worker, 2), []);
    // The device renders the next frame meanwhile, which is behind.
    rendered(&mut worker, 2, 2);
    staged(&mut worker, 0, true);
    rendered(&mut worker, 1, 0);
    let in_all = [(1, (40_000, 90_000)), (2, (20_000, 0))];
    assert_eq!(tick(&mut worker, 3), in_all);
    // Also where nothing comes.
    let told = [4, 5, 6, 7].map(|at| tick(&mut worker, at));
    let later = [(1, (40_000, 190_000))];
    assert_eq!(told, [&[][..], &later, &[], &[(1, (40_000, 290_000))]]);
}

#[test]
fn jobs_whose_bricks_come_one_by_one_are_rendered_together_where_the_device_is_busy() {
    let mut worker = holding(&[]);
    begin(&mut worker, key(1, 0), &shown(&[900, 400, 400, 400]));
    assert_eq!(together(&staged(&mut worker, 0, true)), [(1, vec![0])]);
    // The device has something for the time that it takes to name more.
    assert_eq!(together(&staged(&mut worker, 1, true)), [(1, vec![1])]);
    assert_eq!(together(&staged(&mut worker, 2, true)), []);
    assert_eq!(together(&staged(&mut worker, 3, true)), []);
    let out = done(&mut worker, &key(1, 0), 0);
    assert_eq!(together(&out), [(1, vec![2, 3])]);
    // What is rendered alone is no reason to wait: the device would be idle after it.
    let mut worker = holding(&[0]);
    let out = begin(&mut worker, key(1, 0), &shown(&[1_500, 200]));
    assert_eq!(together(&out), [(1, vec![0])]);
    assert_eq!(together(&staged(&mut worker, 1, true)), [(1, vec![1])]);
}

#[test]
fn bricks_that_cannot_be_had_end_a_frame_when_all_else_of_it_is_done() {
    let frame = shown(&[9_000; 4]);
    let mut worker = holding(&[0, 1]);
    begin(&mut worker, key(1, 0), &frame);
    assert_eq!(told(&staged(&mut worker, 2, false)), []);
    staged(&mut worker, 3, true);
    done(&mut worker, &key(1, 0), 0);
    done(&mut worker, &key(1, 0), 1);
    let out = done(&mut worker, &key(1, 0), 3);
    let why = "brick 2 cannot be read".to_owned();
    let failed = (key(1, 0), FrameMessage::Failed { why });
    assert!(told(&out).contains(&failed), "{out:?}");
    // Asked for again, what was rendered is sent and no brick read for it.
    let mut again = frame.0.clone();
    again.jobs.iter_mut().for_each(|j| j.is_rendered = true);
    again.jobs.remove(2);
    let mut out = begin(&mut worker, key(1, 1), &Arc::new(Shown(again)));
    while worker.resume(&mut out) {}
    assert!(stages(&out).0.is_empty());
    assert_eq!(runs(&out).concat(), [0, 1, 3]);
}

#[test]
fn bricks_of_a_frame_that_ends_are_released_but_for_one_that_is_rendered_or_needed() {
    let frame = shown(&[9_000; 4]);
    let mut worker = holding(&[]);
    begin(&mut worker, key(1, 0), &frame);
    assert_eq!(renders(&staged(&mut worker, 2, true)), [(1, 2)]);
    staged(&mut worker, 1, true);
    let mut out = begin(&mut worker, key(2, 0), &shown(&[9_000; 2]));
    assert_eq!(stages(&out), (vec![], vec![]), "they are asked for");
    out.clear();
    worker.over(&key(1, 0).0, Some(1), &mut out);
    assert_eq!(stages(&out).1, [3]);
    let out = done(&mut worker, &key(1, 0), 2);
    assert_eq!(stages(&out).1, [2]);
    assert_eq!(renders(&out), [(2, 1)]);
    let mut out = Vec::new();
    worker.over(&key(2, 0).0, Some(2), &mut out);
    assert_eq!(stages(&out).1, [0], "the other one is on the device");
    let out = done(&mut worker, &key(2, 0), 1);
    assert_eq!(stages(&out).1, [1]);
    assert!(staged(&mut worker, 0, true).is_empty(), "too late");
    // The answer to a question that was released is none to the next one.
    let out = begin(&mut worker, key(3, 0), &shown(&[9_000]));
    let [WorkerOutput::Stage(_, _, question)] = out[..] else {
        panic!("{out:?}");
    };
    let mut out = Vec::new();
    worker.staged(
        (data_set(), BrickIndex(0)),
        question - 1,
        Some(40),
        &mut out,
    );
    assert!(out.is_empty(), "{out:?}");
    assert_eq!(renders(&staged(&mut worker, 0, true)), [(3, 0)]);
}

#[test]
fn a_brick_that_two_frames_need_is_not_asked_for_when_both_have_it() {
    let (frame, short) = (shown(&[9_000; 40]), shown(&[9_000; 20]));
    let mut worker = worker();
    worker.holds(data_set(), Arc::new(BrickSet::new(40)), &mut Vec::new());
    let mut out = begin(&mut worker, key(1, 0), &frame);
    out.extend(begin(&mut worker, key(2, 0), &short));
    let (mut asked, mut released) = (Vec::new(), Vec::new());
    let mut to_come = VecDeque::new();
    // The device is faster than the bricks.
    loop {
        let (now_asked, now_released) = stages(&out);
        to_come.extend(now_asked.iter().copied());
        asked.extend(now_asked);
        released.extend(now_released);
        let rendered = renders(&out);
        out.clear();
        for &(number, job) in &rendered {
            out.extend(done(&mut worker, &key(number, 0), job));
        }
        if rendered.is_empty() {
            let Some(brick) = to_come.pop_front() else {
                break;
            };
            out.extend(staged(&mut worker, brick, true));
        }
    }
    asked.sort_unstable();
    released.sort_unstable();
    assert_eq!(asked, released);
    assert!(asked.iter().copied().eq(0..40), "{asked:?}");
}

#[test]
fn so_many_bricks_are_awaited_at_a_time_and_what_comes_to_be_held_is_rendered() {
    let many = shown(&[9_000; 40]);
    let mut worker = worker();
    worker.holds(data_set(), Arc::new(BrickSet::new(40)), &mut Vec::new());
    let asked = stages(&begin(&mut worker, key(1, 0), &many)).0;
    assert!(asked.len() < 40, "{asked:?}");
    assert_eq!(stages(&staged(&mut worker, 0, true)).0.len(), 1);
    let mut out = Vec::new();
    worker.holds(data_set(), Arc::new(BrickSet::all(40)), &mut out);
    let (asked_now, released) = stages(&out);
    assert_eq!((asked_now.len(), released.len()), (0, asked.len() + 1));
    for job in 0..40 {
        out.extend(done(&mut worker, &key(1, 0), job));
    }
    assert_eq!(renders(&out).len(), 39, "the first one before");
    assert_eq!(runs(&out).concat().len(), 40);
}

#[test]
fn of_bricks_that_are_awaited_those_come_first_that_are_kept_when_the_first_is_asked_for() {
    let mut worker = worker();
    let nothing = Arc::new(BrickSet::new(21));
    worker.holds(data_set(), nothing, &mut Vec::new());
    begin(&mut worker, key(1, 0), &shown(&[9_000; 21]));
    for brick in 0..21 {
        staged(&mut worker, brick, true);
        done(&mut worker, &key(1, 0), brick);
    }
    let free = |worker: &mut Worker, brick: u32| worker.freed((data_set(), BrickIndex(brick)));
    (0..18).chain([20]).for_each(|b| free(&mut worker, b));
    let out = begin(&mut worker, key(2, 0), &shown(&[9_000; 18]));
    assert_eq!(stages(&out).0.len(), 16, "so many at a time");
    begin(&mut worker, key(3, 0), &shown(&[9_000; 21]));
    free(&mut worker, 18);
    let mut asked = Vec::new();
    for brick in 0..18 {
        asked.extend(stages(&staged(&mut worker, brick, true)).0);
        asked.extend(stages(&done(&mut worker, &key(2, 0), brick)).0);
    }
    assert_eq!(asked, [16, 17, 19, 18, 20]);
}

/// The device has rendered a job, behind which nothing is seen.
fn done_opaque(worker: &mut Worker, key: &FrameKey, job: u32) -> Vec<Output> {
    let mut out = Vec::new();
    let image = (Names::of(job, RECT).opaque(), 1_000);
    worker.rendered(key, [(job, image)], &mut out);
    out
}

/// The jobs that the requester is told of, with what they took.
fn jobs_done(out: &[Output]) -> Vec<(u32, u64)> {
    let jobs = told(out)
        .into_iter()
        .filter_map(|(_, message)| match message {
            FrameMessage::JobsDone { jobs, .. } => Some(jobs),
            _ => None,
        });
    jobs.flatten().collect()
}

#[test]
fn what_nobody_would_see_is_neither_rendered_nor_read() {
    let mut worker = worker();
    let mut held = BrickSet::new(40);
    (0..3).for_each(|b| {
        held.insert(BrickIndex(b));
    });
    worker.holds(data_set(), Arc::new(held), &mut Vec::new());
    let out = begin(&mut worker, key(1, 0), &shown(&[9_000; 40]));
    assert_eq!(renders(&out), [(1, 0)]);
    let asked = stages(&out).0;
    assert_eq!(renders(&done(&mut worker, &key(1, 0), 0)), [(1, 1)]);
    // It hides those that are here, those that are being read, and all that were not asked for.
    let out = done_opaque(&mut worker, &key(1, 0), 1);
    assert_eq!((renders(&out), stages(&out)), (vec![], (vec![], asked)));
    assert_eq!(runs(&out), [[0, 1]], "one run");
    let mut times = jobs_done(&out);
    times.sort_unstable();
    let hidden = (2..40).map(|job| (job, 0));
    assert!(
        times
            .into_iter()
            .eq([(0, 1_000), (1, 1_000)].into_iter().chain(hidden))
    );
    // The next frame is another picture.
    assert_eq!(
        renders(&begin(&mut worker, key(2, 0), &shown(&[9_000; 3]))),
        [(2, 0)]
    );
}

#[test]
fn what_a_tiles_compositor_says_is_hidden_is_not_rendered_and_no_more_awaited() {
    let frame = shown(&[9_000; 4]);
    let mut worker = holding(&[0, 1]);
    let out = begin(&mut worker, key(1, 0), &frame);
    assert_eq!((renders(&out), stages(&out).0), (vec![(1, 0)], vec![2, 3]));
    let hidden = |jobs: &[(u32, u32)]| HiddenJobs {
        key: key(1, 0),
        plan: frame.0.digest,
        jobs: jobs.to_vec(),
    };
    let mut hears = |from: &str, hidden: &HiddenJobs| {
        let mut out = Vec::new();
        worker.are_hidden(&PeerId::new(from), hidden, &mut out);
        out
    };
    // Who does not composite the tile has no say, nor what is of no tile, plan or frame here.
    let all = hidden(&[(0, 1), (0, 2), (0, 3)]);
    assert!(hears("a", &all).is_empty() && hears("stranger", &all).is_empty());
    assert!(hears("b", &hidden(&[(9, 1), (u32::MAX, 1)])).is_empty());
    let (plan, other) = (data_set(), key(2, 0));
    assert!(
        hears(
            "b",
            &HiddenJobs {
                plan,
                ..all.clone()
            }
        )
        .is_empty()
    );
    assert!(hears("b", &HiddenJobs { key: other, ..all }).is_empty());
    // What is on the device is rendered, and what is no job is none.
    let out = hears(
        "b",
        &hidden(&[(0, 3), (0, 0), (0, 1), (0, 1), (0, 99), (0, u32::MAX)]),
    );
    assert_eq!((renders(&out), stages(&out).1), (vec![], vec![3]));
    let out = done(&mut worker, &key(1, 0), 0);
    assert_eq!(renders(&out), []);
    assert_eq!(renders(&staged(&mut worker, 2, true)), [(1, 2)]);
    let out = done(&mut worker, &key(1, 0), 2);
    assert_eq!(runs(&out), [[0, 2]]);
    assert_eq!(jobs_done(&out).len(), 4);
}

#[test]
fn a_job_is_hidden_where_each_of_its_tiles_is_by_whatever_is_known() {
    let halves = [0, 4].map(|x| Tile {
        rect: PixelRect {
            x,
            width: 4,
            ..RECT
        },
        compositor: 1,
    });
    let FramePlan {
        peers,
        speeds,
        jobs,
        holders,
        ..
    } = &shown(&[9_000; 3]).0;
    let (names, jobs): (Vec<&str>, _) = (peers.iter().map(|p| p.as_str()).collect(), jobs.clone());
    let plan = scripted(
        &names,
        speeds.clone(),
        jobs,
        holders.to_vec(),
        halves.to_vec(),
    );
    let frame = Arc::new(Shown(plan));
    let mut worker = worker();
    begin(&mut worker, key(1, 0), &frame);
    let hidden = HiddenJobs {
        key: key(1, 0),
        plan: frame.0.digest,
        jobs: vec![(1, 1), (1, 2)],
    };
    worker.are_hidden(&PeerId::new("b"), &hidden, &mut Vec::new());
    // The left half is hidden by a job of this peer's.
    let mut out = Vec::new();
    let left = Names::of(0, halves[0].rect).opaque();
    worker.rendered(&key(1, 0), [(0, (left, 1_000))], &mut out);
    assert_eq!(renders(&out), []);
    assert_eq!(jobs_done(&out), [(0, 1_000), (1, 0), (2, 0)]);
}

#[test]
fn nobody_is_given_what_nobody_would_see() {
    // The first hides the last ones; those between, beside it, are awaited.
    let beside = PixelRect { x: 8, ..RECT };
    let mut plan = in_rect(&[9_000; 40], RECT.around(&beside));
    let Shown(all) = Arc::get_mut(&mut plan).unwrap();
    for (job, at) in all.jobs.iter_mut().zip(0..) {
        job.rect = if (1..30).contains(&at) { beside } else { RECT };
    }
    let mut a = worker();
    let mut held = BrickSet::new(40);
    held.insert(BrickIndex(0));
    a.holds(data_set(), Arc::new(held), &mut Vec::new());
    begin(&mut a, key(1, 0), &plan);
    let first = (Names::of(0, RECT).opaque(), 9_000);
    a.rendered(&key(1, 0), [(0, first)], &mut Vec::new());
    let (mut out, question, pace) = (Vec::new(), 1, 1_000);
    let ask = StealMessage::Ask { question, pace };
    let digest = plan.0.digest;
    a.heard(&PeerId::new("b"), &key(1, 0), digest, &ask, &mut out);
    let granted = out.iter().find_map(|o| match o {
        WorkerOutput::Steal {
            message: StealMessage::Grant { jobs, .. },
            ..
        } => Some(jobs),
        _ => None,
    });
    let granted = granted.expect("there is enough for both");
    assert!(
        granted.len() > 10 && granted.iter().all(|job| (1..30).contains(job)),
        "{granted:?}"
    );
}

#[test]
fn a_further_attempt_reads_nothing_behind_what_is_kept() {
    let frame = shown(&[9_000; 4]);
    let mut worker = holding(&[0]);
    begin(&mut worker, key(1, 0), &frame);
    done_opaque(&mut worker, &key(1, 0), 0);
    worker.cancel(&key(1, 0), &mut Vec::new());
    let out = begin(&mut worker, key(1, 1), &frame);
    assert_eq!((renders(&out), stages(&out)), (vec![], (vec![], vec![])));
    assert_eq!(jobs_done(&out), [(0, 1_000), (1, 0), (2, 0), (3, 0)]);
}

#[test]
fn a_brick_that_cannot_be_had_ends_no_frame_where_nobody_would_see_it() {
    let mut worker = holding(&[0, 1]);
    begin(&mut worker, key(1, 0), &shown(&[9_000; 3]));
    assert!(told(&staged(&mut worker, 2, false)).is_empty());
    done(&mut worker, &key(1, 0), 0);
    let out = done_opaque(&mut worker, &key(1, 0), 1);
    assert_eq!(jobs_done(&out), [(0, 1_000), (1, 1_000), (2, 0)]);
    assert!(
        told(&out)
            .iter()
            .all(|(_, m)| matches!(m, FrameMessage::JobsDone { .. }))
    );
}

/// The device has begun a job whose rays are to go on through these bricks.
fn awaits(worker: &mut Worker, job: u32, bricks: &[u32]) -> Vec<Output> {
    let mut out = Vec::new();
    let awaits = Awaits {
        bricks: bricks.iter().copied().map(BrickIndex).collect(),
        bytes: 70 << 20,
    };
    worker.put_aside(&key(1, 0), job, (1_000, awaits), &mut out);
    out
}

#[test]
fn rays_go_on_through_each_brick_as_it_comes_and_keep_none_while_another_is_awaited() {
    let frame = shown(&[9_000; 2]);
    let mut worker = holding(&[]);
    begin(&mut worker, key(1, 0), &frame);
    assert_eq!(renders(&staged(&mut worker, 0, true)), [(1, 0)]);
    // Its own brick is not needed any more; another one of them was asked for before.
    let out = awaits(&mut worker, 0, &[3, 1, 2]);
    assert_eq!(stages(&out), (vec![3, 2], vec![0]));
    let out = staged(&mut worker, 2, true);
    assert_eq!(renders(&out), [(1, 0)], "it goes on");
    let out = awaits(&mut worker, 0, &[3, 1]);
    assert_eq!(stages(&out), (vec![], vec![2]));
    // A brick for both: the job that waits for its own comes after the one that was begun.
    let out = staged(&mut worker, 1, true);
    assert_eq!(renders(&out), [(1, 0)]);
    let out = awaits(&mut worker, 0, &[3]);
    assert_eq!(renders(&out), [(1, 1)]);
    assert_eq!(stages(&out).1, [0; 0], "it is needed");
    let out = done(&mut worker, &key(1, 0), 1);
    assert_eq!(stages(&out).1, [1]);
    assert!(worker.is_under_way(0) && runs(&out).is_empty());
    let out = staged(&mut worker, 3, true);
    assert_eq!(renders(&out), [(1, 0)]);
    let out = done(&mut worker, &key(1, 0), 0);
    assert_eq!(stages(&out), (vec![], vec![3]));
    assert_eq!(runs(&out).concat(), [0, 1]);
    let acquired = told(&out).into_iter().filter_map(|(_, m)| match m {
        FrameMessage::JobsDone { bricks, .. } => Some(bricks.acquired),
        _ => None,
    });
    assert!(
        acquired.eq([5]),
        "two of their own, and three on the way of rays"
    );
}

#[test]
fn a_brick_on_the_way_of_rays_that_cannot_be_had_ends_the_frame_and_all_is_released() {
    let mut worker = holding(&[0, 1]);
    begin(&mut worker, key(1, 0), &shown(&[9_000; 2]));
    awaits(&mut worker, 0, &[2, 3]);
    let out = staged(&mut worker, 2, false);
    let why = "brick 2 cannot be read".to_owned();
    assert_eq!(told(&out), [(key(1, 0), FrameMessage::Failed { why })]);
    assert_eq!(stages(&out).1, [3]);
    // So do frames that are over, and a lost device.
    for is_over in [true, false] {
        let mut worker = holding(&[0]);
        begin(&mut worker, key(1, 0), &shown(&[9_000]));
        awaits(&mut worker, 0, &[2]);
        let mut out = Vec::new();
        if is_over {
            worker.over(&key(1, 0).0, None, &mut out);
            assert_eq!(stages(&out).1, [2]);
        } else {
            worker.device_lost("gone", &mut out);
            assert_eq!(told(&out).len(), 1);
        }
        assert!(staged(&mut worker, 2, true).is_empty());
    }
}

#[test]
fn rays_that_wait_take_little_memory() {
    let mut frame = Shown(shown(&[9_000; 4]).0.clone());
    frame.0.casters = Arc::new(BrickSet::all(4));
    let frame = Arc::new(frame);
    let mut worker = holding(&[0, 1, 2]);
    begin(&mut worker, key(1, 0), &frame);
    assert_eq!(renders(&awaits(&mut worker, 0, &[3])), [(1, 1)]);
    let out = awaits(&mut worker, 1, &[3]);
    assert_eq!(renders(&out), [], "those that wait take much memory");
    // Other frames go on, also such as fetch.
    let other = (PeerId::new("other"), key(7, 0).1);
    let out = begin(&mut worker, other.clone(), &shown(&[9_000; 4]));
    assert_eq!(renders(&out), [(7, 0)]);
    let mut out = Vec::new();
    worker.over(&other.0, None, &mut out);
    done(&mut worker, &other, 0);
    let out = staged(&mut worker, 3, true);
    assert_eq!(renders(&out), [(1, 0)]);
    assert_eq!(renders(&done(&mut worker, &key(1, 0), 0)), [(1, 1)]);
}

#[test]
fn a_brick_that_was_read_is_rendered_whatever_memory_rays_take_that_wait() {
    let mut frame = Shown(shown(&[9_000; 4]).0.clone());
    frame.0.casters = Arc::new(BrickSet::all(4));
    let mut worker = holding(&[0, 1]);
    begin(&mut worker, key(1, 0), &Arc::new(frame));
    staged(&mut worker, 3, true);
    awaits(&mut worker, 0, &[2]);
    // The next job's brick is held; that behind it keeps room from the brick that rays wait for.
    let out = awaits(&mut worker, 1, &[2]);
    assert_eq!(renders(&out), [(1, 3)]);
    let out = done(&mut worker, &key(1, 0), 3);
    assert_eq!(stages(&out).1, [3]);
}
