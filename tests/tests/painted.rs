//! Painted pictures: colours say who rendered what, who has what, which brick it is, and what moved.

use brickmesh_actors::requester::{Frame, JobStats};
use brickmesh_tests::{
    facets::bricks,
    mesh::{Mesh, cpu, peer_id},
    scenes::{looks, mode_fields, views},
};
use brickmesh_topology::{
    RenderSettings, View,
    balance::plan_rules::{Division, PlanRules},
    frame::painting::hue,
    picture::render_settings::Paint,
};
use std::collections::{BTreeMap, BTreeSet};

/// Peers of the mesh.
const PEERS: usize = 3;

/// What one frame after the other shows.
fn frames(paint: Paint, division: Division, count: usize) -> Vec<Frame> {
    let (_, field) = mode_fields().swap_remove(0);
    let (_, view): (_, View) = views(&field).swap_remove(0);
    let (_, plain) = looks(&field).swap_remove(0);
    let settings = RenderSettings {
        paint: Some(paint),
        ..plain
    };
    assert!(settings.paint().is_some());
    actix::System::new().block_on(async {
        let mut mesh = Mesh::start_met(PEERS, 1, bricks(&field, 16), &cpu).await;
        mesh.rules = PlanRules {
            division,
            ..PlanRules::default()
        };
        let mut frames = Vec::new();
        for _ in 0..count {
            let frame = mesh.frame_from(0, view, &settings).await;
            frames.push(frame.expect("all peers are there"));
        }
        frames
    })
}

/// The index of who rendered a job.
fn renderer(job: &JobStats) -> usize {
    let mut all: Vec<_> = (0..PEERS).map(peer_id).collect();
    all.sort();
    let at = all.iter().position(|peer| *peer == job.peer);
    at.expect("it is one of these")
}

/// The colours of pixels that show something of jobs that are alike, the brightest channel 1.
fn painted<T: Ord + Copy>(frame: &Frame, of: impl Fn(&JobStats) -> T) -> Vec<(T, [f32; 3])> {
    let rect = frame.image.rect();
    let mut colors = Vec::new();
    for (n, pixel) in (0_u32..).zip(frame.image.pixels()) {
        let (x, y) = (n % rect.width, n / rect.width);
        let is_there = |job: &&JobStats| {
            let r = job.rect;
            (r.x..r.x + r.width).contains(&x) && (r.y..r.y + r.height).contains(&y)
        };
        let jobs: BTreeSet<T> = frame.stats.jobs.iter().filter(is_there).map(&of).collect();
        if let (Some(&only), 1) = (jobs.first(), jobs.len())
            && pixel[3] > 0.02
        {
            let brightest = pixel[..3].iter().copied().fold(0.0, f32::max);
            colors.push((only, [0, 1, 2].map(|c| pixel[c] / brightest)));
        }
    }
    assert!(colors.len() > 10, "{} pixels", colors.len());
    colors
}

/// Whether that is a colour of a number.
fn is_hue(color: [f32; 3], number: usize) -> bool {
    let apart = color.iter().zip(hue(number)).map(|(a, b)| (a - b).abs());
    apart.fold(0.0, f32::max) < 0.01
}

#[test]
fn colours_say_who_rendered_a_pixel_and_which_brick_it_is() {
    for division in [Division::SortLast, Division::Image { tile: Some(24) }] {
        let frame = &frames(Paint::Renderer, division, 1)[0];
        for (renderer, color) in painted(frame, renderer) {
            assert!(
                is_hue(color, renderer),
                "{division:?}: {renderer} {color:?}"
            );
        }
        let renderers: BTreeSet<_> = frame.stats.jobs.iter().map(renderer).collect();
        assert_eq!(renderers.len(), PEERS);
        let frame = &frames(Paint::Order, division, 1)[0];
        for (brick, color) in painted(frame, |job| job.brick.0) {
            assert!(
                is_hue(color, brick as usize),
                "{division:?}: {brick} {color:?}"
            );
        }
    }
}

#[test]
fn colours_say_who_has_what_whoever_renders_it() {
    // With one copy of each, who renders a brick has it.
    let frame = &frames(Paint::Owner, Division::SortLast, 1)[0];
    for (renderer, color) in painted(frame, renderer) {
        assert!(is_hue(color, renderer), "{renderer} {color:?}");
    }
    // Whoever renders its parts, a brick has one colour, that of a peer.
    let frame = &frames(Paint::Owner, Division::Image { tile: Some(24) }, 1)[0];
    let mut owners: BTreeMap<u32, usize> = BTreeMap::new();
    for (brick, color) in painted(frame, |job| job.brick.0) {
        let owner = (0..PEERS).find(|&peer| is_hue(color, peer));
        let owner = owner.expect("it is the colour of a peer");
        assert_eq!(
            *owners.entry(brick).or_insert(owner),
            owner,
            "brick {brick}"
        );
    }
    let all: BTreeSet<_> = owners.values().collect();
    assert!(all.len() > 1, "{owners:?}");
}

#[test]
fn colours_say_what_moved() {
    let frames = frames(Paint::Moved, Division::Image { tile: Some(24) }, 3);
    let is_red = |frame: &Frame| {
        let seen = frame.image.pixels().iter().filter(|p| p[3] > 0.02);
        seen.fold([0, 0], |[all, red], p| {
            [all + 1, red + usize::from(p[0] > 3.0 * p[1])]
        })
    };
    let [all, red] = is_red(&frames[0]);
    assert!(all > 200 && red == all, "{red} of {all} in the first frame");
    for pair in frames.windows(2) {
        let who = |frame: &Frame| {
            let jobs = frame.stats.jobs.iter();
            let place = |j: &JobStats| (j.brick, j.rect.x / 24, j.rect.y / 24, j.peer.clone());
            jobs.map(place).collect::<BTreeSet<_>>()
        };
        let moved = who(&pair[1]).difference(&who(&pair[0])).count();
        // What moved may show nothing.
        let [all, red] = is_red(&pair[1]);
        assert!(
            red < all / 2 && (moved > 0 || red == 0),
            "{moved} jobs moved, {red} of {all} pixels are red"
        );
    }
}
