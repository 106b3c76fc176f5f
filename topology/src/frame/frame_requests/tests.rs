use super::*;
use crate::{
    balance::{
        frame_plan::{PlannedJob, scripted},
        job_tree::{JobTree, Leaf},
        plan_rules::{Division, PlanRules},
    },
    data::{brick_grid::BrickIndex, brick_set::BrickSet, voxel_box::VoxelBox},
    frame::frame_requests::attempt::ATTEMPTS_MAX,
    picture::{camera::PixelRect, tiles::Tile},
};
use proptest::prelude::*;

const MS: u64 = 1_000;

fn complaint(about: PeerId) -> FrameMessage {
    let what = Complaint::Unreachable;
    FrameMessage::Complaint { about, what }
}

/// Frames of peer `me` of one data set, each of two jobs and a tile.
struct Asking {
    frames: FrameRequests,
    now: u64,
    /// Plans that were asked for.
    inputs: Vec<(FrameId, AttemptInputs)>,
    /// The plan of each attempt.
    plans: BTreeMap<FrameId, Arc<FramePlan>>,
    /// How long who is done says that it waited.
    waited: u64,
}

fn id(name: &str) -> PeerId {
    PeerId::new(name)
}

fn data_set() -> Digest {
    Digest::of(b"a volume")
}

fn candidate(name: &str, bricks: impl IntoIterator<Item = u32>) -> Candidate {
    let mut held = BrickSet::new(2);
    bricks.into_iter().for_each(|b| {
        held.insert(BrickIndex(b));
    });
    Candidate {
        entry: RosterEntry::new(id(name), held),
        readable: BrickSet::default(),
        suspects: Arc::default(),
        is_silent: false,
        is_late: false,
    }
}

/// The first peer renders job 0, the second job 1; the last one blends the tile.
fn plan_of(inputs: &AttemptInputs) -> FramePlan {
    let roster = &inputs.roster.value;
    let names: Vec<&str> = roster.entries().iter().map(|e| e.peer.as_str()).collect();
    let rect = PixelRect {
        x: 0,
        y: 0,
        width: 8,
        height: 8,
    };
    let job = |b: u32| PlannedJob {
        brick: BrickIndex(b),
        owned: VoxelBox::new([b, 0, 0], [b + 1, 1, 1]),
        rect,
        leaf: 0,
        estimate_micros: 1_000,
        renderer: Some(b as usize % names.len()),
        is_rendered: false,
        content: None,
    };
    let compositor = names.len() - 1;
    let is_image = matches!(inputs.rules.division, Division::Image { .. });
    FramePlan {
        image_tile: is_image.then_some(8),
        ..scripted(
            &names,
            vec![SPEED_ONE; names.len()],
            vec![job(0), job(1)],
            vec![(0..names.len()).collect(); 2],
            vec![Tile { rect, compositor }],
        )
    }
}

impl Asking {
    fn new(candidates: &[Candidate]) -> Self {
        let mut asking = Self {
            frames: FrameRequests::new(id("me")),
            now: 0,
            inputs: Vec::new(),
            plans: BTreeMap::new(),
            waited: 0,
        };
        asking.candidates(candidates);
        asking
    }

    /// What follows, with the plans that were asked for derived.
    fn step(&mut self, input: FramesInput) -> Vec<FramesOutput> {
        let mut all = Vec::new();
        let mut out = Vec::new();
        self.frames.step(self.now, input, &mut out);
        for output in out {
            let (frame, inputs) = match output {
                FramesOutput::Plan(frame, inputs) => (frame, inputs),
                FramesOutput::Begin(frame, plan) => {
                    self.plans.insert(frame, plan);
                    continue;
                }
                other => {
                    all.push(other);
                    continue;
                }
            };
            let plans = inputs.iter().map(|i| Arc::new(plan_of(i))).collect();
            self.inputs.extend(inputs.into_iter().map(|i| (frame, i)));
            all.extend(self.step(FramesInput::Planned(frame, plans)));
        }
        all
    }

    fn candidates(&mut self, candidates: &[Candidate]) -> Vec<FramesOutput> {
        self.step(FramesInput::Candidates(data_set(), candidates.to_vec()))
    }

    fn ask(&mut self, number: u64) -> Vec<FramesOutput> {
        self.step(FramesInput::Ask {
            number,
            data_set: data_set(),
            rules: PlanRules::default(),
        })
    }

    /// Costs were measured.
    fn measured(&mut self) {
        let trees = BTreeMap::from([(BrickIndex(0), JobTree::whole(Leaf::default()))]);
        let data_set = self.frames.data_sets.entry(data_set()).or_default();
        data_set.costs = Arc::new(CostTable {
            trees,
            tile_renderers: None,
        });
    }

    fn plan(&self, frame: FrameId) -> Digest {
        self.plans[&frame].digest
    }

    fn says(&mut self, name: &str, frame: FrameId, message: FrameMessage) -> Vec<FramesOutput> {
        self.step(FramesInput::Said(id(name), frame, message))
    }

    fn done(&mut self, name: &str, frame: FrameId, job: u32) -> Vec<FramesOutput> {
        self.done_in(name, frame, (job, MS))
    }

    /// A job, and the time that it took.
    fn done_in(&mut self, name: &str, frame: FrameId, job: (u32, u64)) -> Vec<FramesOutput> {
        let jobs = vec![job];
        let plan = self.plan(frame);
        let bricks = BrickAccesses {
            waited_micros: self.waited,
            ..BrickAccesses::default()
        };
        self.says(
            name,
            frame,
            FrameMessage::JobsDone {
                plan,
                jobs,
                rendered_micros: job.1,
                bricks,
            },
        )
    }

    fn tile(&mut self, name: &str, frame: FrameId) -> Vec<FramesOutput> {
        let plan = self.plan(frame);
        self.says(name, frame, FrameMessage::Tile { tile: 0, plan })
    }

    /// Lets time go on to the one that was named last among these.
    fn wake(&mut self, out: &[FramesOutput]) -> Vec<FramesOutput> {
        let wakes = out.iter().filter_map(|o| match o {
            FramesOutput::Wake { number, at } => Some((*number, *at)),
            _ => None,
        });
        let (number, at) = wakes.reduce(|_, last| last).expect("a time was named");
        self.now = self.now.max(at);
        self.step(FramesInput::Due { number, at })
    }
}

fn frame(number: u64, attempt: u32) -> FrameId {
    FrameId { number, attempt }
}

fn ended(out: &[FramesOutput]) -> Option<&EndedFrame> {
    out.iter().find_map(|o| match o {
        FramesOutput::Ended(ended) => Some(&**ended),
        _ => None,
    })
}

/// What is said to a peer.
fn said_to<'a>(out: &'a [FramesOutput], name: &str) -> Vec<&'a FrameOrder> {
    let of = |o: &'a FramesOutput| match o {
        FramesOutput::Send(to, order) if to.as_str() == name => Some(order),
        _ => None,
    };
    out.iter().filter_map(of).collect()
}

fn three() -> Asking {
    let all = ["a", "b", "c"].map(|name| candidate(name, [0, 1]));
    Asking::new(&all)
}

fn without(out: &[FramesOutput]) -> Option<Vec<&str>> {
    out.iter().find_map(|o| match o {
        FramesOutput::AskedAgain(_, without, _) => {
            Some(without.iter().map(PeerId::as_str).collect())
        }
        _ => None,
    })
}

#[test]
fn a_frame_ends_when_its_tiles_and_times_are_there_and_is_learnt_from() {
    let mut mesh = three();
    let out = mesh.ask(0);
    let to_a = said_to(&out, "a");
    assert!(
        matches!(
            to_a[..],
            [
                FrameOrder::Roster(_),
                FrameOrder::Costs(_),
                FrameOrder::Begin(_)
            ]
        ),
        "{to_a:?}"
    );
    mesh.now = 5 * MS;
    let out = mesh.tile("c", frame(0, 0));
    assert_eq!(out, [FramesOutput::Take(frame(0, 0))]);
    assert_eq!(mesh.tile("c", frame(0, 0)), [], "a tile counts once");
    assert_eq!(mesh.done("a", frame(0, 0), 0), []);
    let out = mesh.done_in("b", frame(0, 0), (1, 4 * MS));
    let end = ended(&out).expect("the frame has ended");
    assert_eq!(end.end, FrameEnd::Whole);
    assert_eq!((end.attempts_before, end.total_micros), (0, 5 * MS));
    let measured = BTreeMap::from([(0, (0, MS)), (1, (1, 4 * MS))]);
    assert_eq!(end.measured, measured);
    let over = FrameOrder::Cancel {
        frame: frame(0, 0),
        is_over: true,
    };
    assert_eq!(said_to(&out, "c"), [&over]);

    let out = mesh.ask(1);
    let to_a = said_to(&out, "a");
    let begins = to_a.iter().filter(|o| matches!(o, FrameOrder::Begin(_)));
    assert_eq!(begins.count(), 1);
    let is_costs = |o: &&FrameOrder| matches!(o, FrameOrder::Costs(_));
    assert!(!to_a.iter().any(is_costs), "the same are not sent again");
    let entries = mesh.inputs[1].1.roster.value.entries();
    let speeds: Vec<u64> = entries.iter().map(|e| e.speed_millionths).collect();
    assert!(
        speeds[1] < speeds[0],
        "b turned out to be slower: {speeds:?}"
    );
    // What made it slow may be gone when it comes back.
    mesh.step(FramesInput::Forget(1));
    mesh.step(FramesInput::Lost(id("b")));
    mesh.ask(2);
    let entries = mesh.inputs.last().unwrap().1.roster.value.entries();
    let b = entries.iter().find(|e| e.peer == id("b")).unwrap();
    assert_eq!(b.speed_millionths, SPEED_ONE);
}

#[test]
fn who_waits_for_bricks_that_are_read_is_planned_to_do_so_where_some_are_read_again() {
    let readers = ["a", "b"].map(|name| Candidate {
        readable: BrickSet::all(2),
        ..candidate(name, [])
    });
    let mut mesh = Asking::new(&readers);
    let waits = |mesh: &Asking| {
        let inputs = &mesh.inputs.last().unwrap().1;
        let entries = inputs.roster.value.entries().iter();
        entries.map(|e| e.wait_thousandths).collect::<Vec<_>>()
    };
    let rendered = |mesh: &mut Asking, number, waited: [u64; 2]| {
        mesh.ask(number);
        let planned = waits(mesh);
        mesh.now += 100 * MS;
        for (job, (name, waited)) in (0..).zip(["a", "b"].into_iter().zip(waited)) {
            mesh.waited = waited;
            mesh.done(name, frame(number, 0), job);
        }
        assert!(ended(&mesh.tile("b", frame(number, 0))).is_some());
        planned
    };
    assert_eq!(rendered(&mut mesh, 0, [0, 9 * MS]), [0, 0]);
    // Nobody can have waited longer than the frame took.
    assert_eq!(rendered(&mut mesh, 1, [0, u64::MAX]), [0, 9_000]);
    assert_eq!(rendered(&mut mesh, 2, [0, 0]), [0, 64_000]);
    // All is held now.
    mesh.candidates(&[candidate("a", [0, 1]), candidate("b", [0, 1])]);
    assert_eq!(rendered(&mut mesh, 3, [0, 0]), [0, 0]);
    mesh.candidates(&readers);
    assert_eq!(rendered(&mut mesh, 4, [0, 0]), [0, 32_000]);
    mesh.step(FramesInput::Lost(id("b")));
    assert_eq!(
        rendered(&mut mesh, 5, [0, 0]),
        [0, 0],
        "it may be another disk"
    );
}

#[test]
fn who_was_lost_is_sent_everything_again() {
    let mut mesh = three();
    mesh.ask(0);
    mesh.step(FramesInput::Forget(0));
    mesh.step(FramesInput::Lost(id("a")));
    let out = mesh.ask(1);
    assert_eq!(said_to(&out, "a").len(), 3);
    assert_eq!(said_to(&out, "b").len(), 1);
}

#[test]
fn a_whole_picture_is_not_thrown_away_for_times_that_are_late() {
    let mut mesh = three();
    let out = mesh.ask(0);
    mesh.tile("c", frame(0, 0));
    mesh.done("a", frame(0, 0), 0);
    let out = mesh.wake(&out);
    let end = ended(&out).expect("the frame has ended");
    assert_eq!((&end.end, end.measured.len()), (&FrameEnd::Whole, 1));
}

#[test]
fn who_follows_another_plan_is_left_out_once_for_all_that_it_says() {
    let mut mesh = three();
    mesh.ask(0);
    let plan = Digest::of(b"another plan");
    let jobs = vec![(0, MS), (1, MS)];
    let done = FrameMessage::JobsDone {
        plan,
        jobs,
        rendered_micros: 0,
        bricks: BrickAccesses::default(),
    };
    let out = mesh.says("a", frame(0, 0), done);
    assert_eq!(without(&out), Some(vec!["a"]));
    let again = out
        .iter()
        .filter(|o| matches!(o, FramesOutput::AskedAgain(..)));
    assert_eq!(again.count(), 1);
    let out = mesh.says("b", frame(0, 1), FrameMessage::BadTile);
    assert_eq!(without(&out), Some(vec!["b"]));
}

#[test]
fn what_all_attempts_rendered_is_told_under_the_first_roster() {
    let mut mesh = three();
    mesh.ask(0);
    mesh.done("a", frame(0, 0), 0);
    mesh.step(FramesInput::Lost(id("b")));
    mesh.done("c", frame(0, 1), 1);
    mesh.step(FramesInput::Lost(id("a")));
    let earlier = mesh.inputs[2].1.earlier.as_ref().expect("attempts before");
    assert_eq!(earlier.roster.value.entries().len(), 3);
    assert_eq!(
        *earlier.rendered,
        BTreeMap::from([(0, id("a")), (1, id("c"))])
    );
}

#[test]
fn what_nobody_would_have_seen_was_not_rendered() {
    let mut mesh = three();
    mesh.ask(0);
    mesh.done("a", frame(0, 0), 0);
    mesh.done_in("c", frame(0, 0), (2, 0));
    mesh.step(FramesInput::Lost(id("b")));
    let earlier = mesh.inputs[1].1.earlier.as_ref();
    let rendered = &earlier.expect("an attempt before").rendered;
    assert_eq!(**rendered, BTreeMap::from([(0, id("a"))]));
}

#[test]
fn a_time_longer_than_the_frame_is_not_believed() {
    let mut mesh = three();
    mesh.ask(0);
    mesh.now = 10;
    mesh.done("a", frame(0, 0), 0);
    mesh.done("b", frame(0, 0), 1);
    let out = mesh.tile("c", frame(0, 0));
    let end = ended(&out).expect("the frame has ended");
    assert!(end.measured.values().all(|m| m.1 == 10));
}

#[test]
fn who_is_lost_is_made_up_for_and_what_was_rendered_is_kept() {
    let mut mesh = three();
    mesh.ask(0);
    mesh.done("a", frame(0, 0), 0);
    let out = mesh.step(FramesInput::Lost(id("b")));
    assert_eq!(without(&out), Some(vec!["b"]));
    let late = |o: &FramesOutput| matches!(o, FramesOutput::Late(_));
    assert!(!out.iter().any(late), "who is lost is not late");
    let (of, inputs) = mesh.inputs.last().expect("it was planned again");
    assert_eq!(*of, frame(0, 1));
    let names = inputs
        .roster
        .value
        .entries()
        .iter()
        .map(|e| e.peer.as_str());
    assert_eq!(names.collect::<Vec<_>>(), ["a", "c"]);
    let earlier = inputs.earlier.as_ref().expect("there was an attempt");
    assert_eq!(earlier.roster.value.entries().len(), 3);
    assert_eq!(*earlier.rendered, BTreeMap::from([(0, id("a"))]));
    let to_c = said_to(&out, "c");
    assert!(
        matches!(
            to_c[..],
            [
                FrameOrder::Cancel { is_over: false, .. },
                FrameOrder::Roster(_),
                FrameOrder::Begin(_)
            ]
        ),
        "{to_c:?}"
    );
    assert_eq!(
        mesh.tile("c", frame(0, 0)),
        [],
        "of the attempt that is over"
    );
    mesh.done("a", frame(0, 1), 0);
    mesh.done("c", frame(0, 1), 1);
    let out = mesh.tile("c", frame(0, 1));
    let end = ended(&out).expect("the frame has ended");
    assert_eq!((&end.end, end.attempts_before), (&FrameEnd::Whole, 1));
    assert_eq!(end.left_out, BTreeSet::from([id("b")]));
    let over = |o: &&FrameOrder| matches!(o, FrameOrder::Cancel { is_over: true, .. });
    let told = said_to(&out, "b").into_iter().filter(over).count();
    assert_eq!(told, 1, "it may be at it still");
}

#[test]
fn who_is_late_is_left_out_and_a_frame_that_failed_twice_rests() {
    let mut mesh = three();
    let out = mesh.ask(0);
    mesh.done("a", frame(0, 0), 0);
    let out = mesh.wake(&out);
    assert_eq!(without(&out), Some(vec!["b"]));
    assert!(out.contains(&FramesOutput::Late(BTreeSet::from([id("b")]))));
    let planned = mesh.inputs.len();
    let why = "no memory".to_owned();
    let out = mesh.says("a", frame(0, 1), FrameMessage::Failed { why });
    mesh.candidates(&["a", "b", "c"].map(|name| candidate(name, [0, 1])));
    assert_eq!(mesh.inputs.len(), planned, "it rests");
    let out = mesh.wake(&out);
    assert_eq!(mesh.inputs.len(), planned + 1);
    assert_eq!(said_to(&out, "a"), [] as [&FrameOrder; 0]);
    let last = &mesh.inputs[planned].1;
    assert_eq!(last.roster.value.entries().len(), 1, "only c is left");
}

#[test]
fn a_frame_in_which_nothing_can_be_seen_is_whole_without_a_word() {
    let mut frames = FrameRequests::new(id("me"));
    let both = [candidate("a", [0]), candidate("b", [1])];
    let mut out = Vec::new();
    frames.step(
        0,
        FramesInput::Candidates(data_set(), both.to_vec()),
        &mut out,
    );
    let ask = FramesInput::Ask {
        number: 7,
        data_set: data_set(),
        rules: PlanRules::default(),
    };
    frames.step(0, ask, &mut out);
    out.clear();
    let plan = Arc::new(scripted(
        &["a", "b"],
        vec![SPEED_ONE; 2],
        vec![],
        vec![],
        vec![],
    ));
    frames.step(0, FramesInput::Planned(frame(7, 0), vec![plan]), &mut out);
    assert_eq!(ended(&out).unwrap().end, FrameEnd::Whole);
    assert_eq!(said_to(&out, "a").len() + said_to(&out, "b").len(), 0);
}

#[test]
fn an_old_time_means_nothing() {
    let mut mesh = three();
    let out = mesh.ask(0);
    mesh.now = MS;
    mesh.step(FramesInput::Lost(id("b")));
    assert_eq!(mesh.wake(&out), [], "the first attempt's time is void");
    let out = mesh.says("a", frame(0, 0), FrameMessage::NeedInputs);
    assert_eq!(out, [], "so is what is said of it");
}

#[test]
fn who_lost_the_inputs_is_sent_them_again() {
    let mut mesh = three();
    mesh.ask(0);
    let out = mesh.says("b", frame(0, 0), FrameMessage::NeedInputs);
    assert_eq!(out.len(), 3);
    assert_eq!(said_to(&out, "b").len(), 3);
    assert_eq!(mesh.says("b", frame(0, 1), FrameMessage::NeedInputs), []);
}

#[test]
fn compositors_are_asked_why_tiles_do_not_come() {
    let mut mesh = three();
    let out = mesh.ask(0);
    mesh.done("a", frame(0, 0), 0);
    mesh.done("b", frame(0, 0), 1);
    let asked = mesh.wake(&out);
    let due = FrameOrder::TilesDue { frame: frame(0, 0) };
    assert_eq!(said_to(&asked, "c"), [&due]);
    let plan = mesh.plan(frame(0, 0));
    let lacks = |jobs| FrameMessage::Lacking { plan, jobs };
    // Nobody can tell which of the two of a quarrel lies, and two of three are most of them.
    let out = mesh.says("c", frame(0, 0), lacks(vec![1]));
    let longer = |o: &FramesOutput| matches!(o, FramesOutput::Prolonged(_, Why::TilesMissing));
    assert!(out.iter().any(longer), "{out:?}");
    // One that lacks nothing and sends nothing is at fault itself.
    let asked = mesh.wake(&out);
    let out = mesh.wake(&asked);
    assert_eq!(without(&out), Some(vec!["c"]));
}

#[test]
fn a_complaint_is_believed_once() {
    let mut mesh = three();
    mesh.ask(0);
    let about = |name| complaint(id(name));
    let stranger = mesh.says("x", frame(0, 0), about("b"));
    assert_eq!(stranger, []);
    let out = mesh.says("c", frame(0, 0), about("a"));
    assert_eq!(without(&out), Some(vec!["a"]));
    let out = mesh.says("c", frame(0, 1), about("b"));
    assert_eq!(without(&out), Some(vec!["c"]), "who complains of all");
}

#[test]
fn who_has_no_room_is_done_without_or_asked_again_and_is_not_at_fault() {
    let late = |o: &FramesOutput| matches!(o, FramesOutput::Late(_));
    let mut mesh = three();
    mesh.ask(0);
    let out = mesh.says("a", frame(0, 0), FrameMessage::Busy);
    assert_eq!(without(&out), Some(vec!["a"]));
    assert!(!out.iter().any(late));
    assert!(!said_to(&out, "b").is_empty(), "at once");
    // Nobody else holds the bricks: it is asked again, less and less often, and at last it has failed.
    let mut mesh = Asking::new(&[candidate("a", [0, 1])]);
    let mut out = mesh.ask(0);
    let (since, mut attempt, mut failed) = (mesh.now, 0, 0);
    while ended(&out).is_none() {
        out = mesh.says("a", frame(0, attempt), FrameMessage::Busy);
        failed += u32::from(out.iter().any(late));
        attempt += 1;
        let begins = |o: &&FrameOrder| matches!(o, FrameOrder::Begin(_));
        while ended(&out).is_none() && !said_to(&out, "a").iter().any(begins) {
            out = mesh.wake(&out);
        }
    }
    assert_eq!(attempt, BUSY_MAX + ATTEMPTS_MAX);
    assert_eq!(failed, ATTEMPTS_MAX - 1, "the last time it is given up");
    assert!(mesh.now - since > 9_000 * MS);
}

#[test]
fn a_frame_waits_for_a_holder_but_not_for_ever() {
    let mut mesh = Asking::new(&[]);
    mesh.ask(0);
    assert_eq!(mesh.inputs.len(), 0);
    let begun = mesh.candidates(&[candidate("a", [0, 1])]);
    assert_eq!(mesh.inputs.len(), 1);
    assert_eq!(said_to(&begun, "a").len(), 3);
    mesh.step(FramesInput::Closed(data_set()));
    let out = mesh.step(FramesInput::Forget(0));
    let over = FrameOrder::Cancel {
        frame: frame(0, 0),
        is_over: true,
    };
    assert_eq!(said_to(&out, "a"), [&over]);

    let since = mesh.now;
    let out = mesh.ask(1);
    let out = mesh.wake(&out);
    assert_eq!(ended(&out).map(|e| &e.end), Some(&FrameEnd::NobodyHolds));
    assert_eq!(mesh.now, since + WAIT_MICROS_MAX);
}

#[test]
fn a_frame_that_nobody_can_render_is_given_up_soon_and_says_why() {
    let mut mesh = Asking::new(&[candidate("a", [0, 1])]);
    let mut out = mesh.ask(0);
    let why = "no memory".to_owned();
    for attempt in 0..ATTEMPTS_MAX {
        assert_eq!(ended(&out), None);
        if !mesh.plans.contains_key(&frame(0, attempt)) {
            mesh.wake(&out);
        }
        let failed = FrameMessage::Failed { why: why.clone() };
        out = mesh.says("a", frame(0, attempt), failed);
    }
    let why = Why::Said(id("a"), why);
    let end = FrameEnd::GaveUp { awaited: 3, why };
    assert_eq!(ended(&out).map(|e| &e.end), Some(&end));
    assert!(mesh.now < 3_000 * MS, "{} µs", mesh.now);
    assert_eq!(mesh.tile("a", frame(0, ATTEMPTS_MAX - 1)), []);
}

#[test]
fn a_frame_whose_only_peer_fails_and_has_nothing_any_more_says_why() {
    let mut mesh = Asking::new(&[candidate("a", [0, 1])]);
    mesh.ask(0);
    let why = "the device is lost".to_owned();
    mesh.says("a", frame(0, 0), FrameMessage::Failed { why: why.clone() });
    let failed = FrameMessage::Failed { why: why.clone() };
    let rests = mesh.says("a", frame(0, 1), failed);
    mesh.candidates(&[candidate("a", [])]);
    let waits = mesh.wake(&rests);
    assert_eq!(ended(&waits), None, "the device may come back");
    let out = mesh.wake(&waits);
    let why = Why::Said(id("a"), why);
    let end = FrameEnd::GaveUp { awaited: 3, why };
    assert_eq!(ended(&out).map(|e| &e.end), Some(&end));
    assert_eq!(mesh.now, WAIT_MICROS_MAX);
}

/// A frame that one peer is asked for, where costs were measured.
fn measured_alone() -> (Asking, Vec<FramesOutput>) {
    let mut mesh = Asking::new(&[candidate("a", [0, 1])]);
    mesh.measured();
    let out = mesh.ask(1);
    (mesh, out)
}

#[test]
fn one_lost_message_costs_the_only_peers_frame_some_seconds() {
    let (mut mesh, mut out) = measured_alone();
    let since = mesh.now;
    while without(&out).is_none() {
        out = mesh.wake(&out);
    }
    assert_eq!(without(&out), Some(vec![]), "it is nobody's fault");
    let late = |o: &FramesOutput| matches!(o, FramesOutput::Late(_));
    assert!(!out.iter().any(late));
    let begins = said_to(&out, "a");
    let is_begin = |o: &&FrameOrder| matches!(o, FrameOrder::Begin(_));
    assert!(begins.iter().any(is_begin), "{begins:?}");
    let waited = mesh.now - since;
    assert!(waited < 6_000 * MS, "{waited} µs");
    mesh.done("a", frame(1, 1), 0);
    mesh.done("a", frame(1, 1), 1);
    let end = mesh.tile("a", frame(1, 1));
    assert_eq!(ended(&end).map(|e| &e.end), Some(&FrameEnd::Whole));
}

#[test]
fn a_peer_that_renders_alone_and_says_nothing_for_long_loses_no_frame() {
    let minutes = 60_000 * MS;
    let first = {
        let mut mesh = Asking::new(&[candidate("a", [0, 1])]);
        let out = mesh.ask(0);
        (mesh, out, 30 * minutes)
    };
    let known = measured_alone();
    for (mut mesh, mut out, least) in [first, (known.0, known.1, 2 * minutes)] {
        let since = mesh.now;
        while ended(&out).is_none() {
            out = mesh.wake(&out);
        }
        let waited = mesh.now - since;
        assert!(waited > least, "{waited} µs");
        let end = &ended(&out).unwrap().end;
        let why = |e: &FrameEnd| {
            matches!(
                e,
                FrameEnd::GaveUp {
                    why: Why::NoAnswer(_),
                    ..
                }
            )
        };
        assert!(why(end), "{end:?}");
    }
}

#[test]
fn an_attempt_has_the_time_of_those_ahead_of_it_too() {
    let at = |out: &[FramesOutput]| {
        out.iter().find_map(|o| match o {
            FramesOutput::Wake { at, .. } => Some(*at),
            _ => None,
        })
    };
    let mut mesh = three();
    let (first, second) = (at(&mesh.ask(0)), at(&mesh.ask(1)));
    assert!(second > first, "{first:?} {second:?}");
}

/// Something that may happen to frames 0 and 1: what, who, about whom.
fn anything() -> impl Strategy<Value = (u8, usize, usize)> {
    (0_u8..12, 0_usize..3, 0_usize..3)
}

proptest! {
    /// Whatever is said, lost and complained of in whatever order, each frame ends, once.
    #[test]
    fn every_frame_ends_once(events in proptest::collection::vec(anything(), 0..40)) {
        let names = ["a", "b", "c"];
        let mut mesh = three();
        let mut all = [mesh.ask(0), mesh.ask(1)].concat();
        for (what, who, other) in events {
            let number = u64::from(what % 2);
            let attempts = mesh.plans.keys().filter(|f| f.number == number);
            let Some(&of) = attempts.max() else { continue };
            let (from, peer) = (names[who], id(names[other]));
            let job = u32::try_from(other % 2).unwrap();
            let plan = mesh.plan(of);
            let out = match what / 2 {
                0 => mesh.tile(from, of),
                1 => mesh.done(from, of, job),
                2 => mesh.step(FramesInput::Lost(peer)),
                3 => mesh.says(from, of, complaint(peer)),
                4 => mesh.says(from, of, FrameMessage::Lacking { plan, jobs: vec![job] }),
                _ => mesh.says(from, of, FrameMessage::Given { plan, jobs: vec![job], by: peer }),
            };
            mesh.now += MS;
            all.extend(out);
        }
        // Then time goes by, and nobody says anything more.
        let mut wakes: BTreeSet<(u64, u64)> = wakes(&all);
        while let Some((at, number)) = wakes.pop_first() {
            mesh.now = mesh.now.max(at);
            let out = mesh.step(FramesInput::Due { number, at });
            wakes.extend(self::wakes(&out));
            all.extend(out);
        }
        let ends = all.iter().filter_map(|o| match o {
            FramesOutput::Ended(ended) => Some(ended.number),
            _ => None,
        });
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable();
        prop_assert_eq!(ends, [0, 1]);
    }
}

/// When, and which frame.
fn wakes(out: &[FramesOutput]) -> BTreeSet<(u64, u64)> {
    let wake = |o: &FramesOutput| match o {
        FramesOutput::Wake { number, at } => Some((*at, *number)),
        _ => None,
    };
    out.iter().filter_map(wake).collect()
}

#[test]
fn frames_wait_until_all_have_room_for_what_they_fetch_at_first_and_after_a_rest() {
    let mut peers = [candidate("a", [0]), candidate("b", [1])];
    peers[0].entry.fetches = true;
    let mut asking = Asking::new(&peers);
    let ask = |asking: &mut Asking, number| {
        let rules = PlanRules {
            division: Division::Image { tile: None },
            ..PlanRules::default()
        };
        let ask = FramesInput::Ask {
            number,
            data_set: data_set(),
            rules,
        };
        let out = asking.step(ask);
        out.iter().find_map(|o| match o {
            FramesOutput::Wake { at, .. } => Some(*at),
            _ => None,
        })
    };
    // Until two seconds after the first one; then they are divided otherwise.
    let at = ask(&mut asking, 1);
    assert_eq!((at, asking.inputs.len()), (Some(2_000_000), 0));
    asking.now = 2_000_000;
    asking.step(FramesInput::Due {
        number: 1,
        at: 2_000_000,
    });
    assert_eq!(asking.inputs.len(), 1);
    asking.now += 1_000_000;
    ask(&mut asking, 2);
    assert_eq!(asking.inputs.len(), 2);
    // The room was given to something else meanwhile.
    asking.now += 60_000_000;
    let at = ask(&mut asking, 3);
    assert_eq!((at, asking.inputs.len()), (Some(asking.now + 2_000_000), 2));
    peers[1].entry.fetches = true;
    asking.candidates(&peers);
    let (_, inputs) = asking.inputs.last().unwrap();
    assert!(asking.inputs.len() == 3 && inputs.are_fetched && !inputs.are_read);
}

/// The rules that peer `a` is asked by.
fn asked_by(out: &[FramesOutput]) -> Option<PlanRules> {
    let orders = said_to(out, "a").into_iter();
    let mut begun = orders.filter_map(|o| match o {
        FrameOrder::Begin(request) => Some(request.rules),
        _ => None,
    });
    begun.next()
}

#[test]
fn where_the_requester_chooses_peers_are_asked_by_what_it_chose_and_further_attempts_by_the_same() {
    let auto = PlanRules {
        division: Division::Auto { tile: Some(8) },
        ..PlanRules::default()
    };
    let image = Division::Image { tile: Some(8) };
    let ask = |number| FramesInput::Ask {
        number,
        data_set: data_set(),
        rules: auto,
    };
    let mut peers = [candidate("a", [0, 1]), candidate("b", [1])];
    let mut mesh = Asking::new(&peers);
    // Nobody waits for room for what is fetched.
    let out = mesh.step(ask(0));
    assert_eq!(mesh.inputs.len(), 1);
    assert_eq!(asked_by(&out).unwrap().division, Division::SortLast);
    peers[1].entry.fetches = true;
    mesh.candidates(&peers);
    mesh.step(FramesInput::Forget(0));
    // Nothing is measured yet, then the volume is, then the picture is tried.
    let mut divisions = Vec::new();
    for number in 1..=6 {
        let out = mesh.step(ask(number));
        let rules = asked_by(&out).unwrap();
        divisions.push(rules.division);
        if rules.division == image {
            let out = mesh.step(FramesInput::Lost(id("b")));
            assert_eq!(asked_by(&out).unwrap().division, image);
            break;
        }
        let peers = mesh.plans[&frame(number, 0)].peers.clone();
        let compositor = peers[peers.len() - 1].as_str().to_owned();
        for (job, name) in [(0, 0), (1, 1 % peers.len())] {
            mesh.done(peers[name].as_str(), frame(number, 0), job);
        }
        mesh.now += 20 * MS;
        let out = mesh.tile(&compositor, frame(number, 0));
        let ended = ended(&out).unwrap();
        assert_eq!(ended.forecasts.len(), if number == 1 { 0 } else { 2 });
        mesh.measured();
    }
    assert_eq!(divisions.last(), Some(&image), "{divisions:?}");
    assert!(divisions.len() >= 5, "{divisions:?}");
}
