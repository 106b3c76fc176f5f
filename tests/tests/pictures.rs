//! Pictures across rooms: bricks and peers make no difference, and the CPU device agrees with a
//! slow float64 reference and with closed forms. Each test says which limit it holds; the tests
//! at the end break the product on purpose and demand that the difference is seen.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::{data_set::BrickSource, requester::Frame};
use brickmesh_node::{
    brick_store,
    volume_file::{self, VolumeFile},
};
use brickmesh_shaders::{
    BrickKey, BrickVoxels, Job, RenderDevice, Scene, SubImage, device::cpu::CpuDevice,
};
use brickmesh_tests::{
    compare::{compare, to_rgba8},
    mesh::{MakeDevice, Mesh, cpu, picture, scalar},
    reference::{self, Field},
    scenes::{clipped, fields, looks, mode_fields, peaks, settings, views},
    skip::skip,
    volumes::{Bricks, waves},
};
use brickmesh_topology::{
    Camera, RenderSettings, TransferFunction, View, VoxelBox, VoxelType,
    balance::plan_rules::{PlanRules, Strategy},
    data::transfer_function::TransferPoint,
    picture::{
        camera::Projection, depth_order::front_to_back, isosurface::Isosurface,
        render_settings::Mode,
    },
};
use glam::DVec3;
use std::{
    num::NonZeroUsize,
    path::{Path, PathBuf},
    sync::Arc,
};

#[test]
fn one_peer_with_one_brick_and_five_peers_with_bricks_of_32_differ_by_at_most_1() {
    for (name, field) in fields() {
        for shade in [false, true] {
            let settings = settings(&field, shade);
            for (eye, view) in views(&field) {
                let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
                let five = picture(Arc::new(Bricks::cut(&field, 32)), 5, &cpu, view, &settings);
                let d = compare(&one, &five);
                assert!(d.max <= 1, "{name}, {eye}, shade {shade}: {d:?}");
                assert!(
                    one.iter().any(|&c| c > 60 && c < 255),
                    "{name}, {eye}: there is a picture"
                );
            }
        }
    }
}

#[test]
fn the_cpu_device_agrees_with_the_reference_within_2() {
    for (name, field) in fields() {
        for shade in [false, true] {
            let settings = settings(&field, shade);
            for (eye, view) in views(&field) {
                let ours = picture(Arc::new(Bricks::cut(&field, 32)), 2, &cpu, view, &settings);
                let reference = to_rgba8(&reference::render(&field, &view, &settings));
                let d = compare(&ours, &reference);
                assert!(d.max <= 2, "{name}, {eye}, shade {shade}: {d:?}");
            }
        }
    }
}

#[test]
fn every_look_agrees_with_the_reference_within_2_and_with_other_cuts_within_1() {
    for (name, field) in mode_fields() {
        for (look, whole) in looks(&field) {
            for (eye, view) in views(&field) {
                let settings = if eye.ends_with("below") {
                    clipped(&field, whole.clone())
                } else {
                    whole.clone()
                };
                let what = format!("{name}, {eye}, {look}");
                let of = |edge, peers, device: MakeDevice<'_>| {
                    let source = Arc::new(Bricks::cut(&field, edge));
                    picture(source, peers, device, view, &settings)
                };
                let one = of(128, 1, &cpu);
                for (other, device) in [("five", of(32, 5, &cpu)), ("scalar", of(32, 2, &scalar))] {
                    let d = compare(&one, &device);
                    assert!(d.max <= 1, "{what}, {other}: {d:?}");
                }
                let reference = to_rgba8(&reference::render(&field, &view, &settings));
                let d = compare(&one, &reference);
                assert!(d.max <= 2, "{what}: {d:?}");
                assert!(one.iter().any(|&c| c > 60 && c < 255), "{what}: a picture");
            }
        }
    }
}

#[test]
fn rectangles_around_what_is_visible_lose_no_pixel() {
    // Neither rule cuts a brick here; the paper's job has the rectangle of its box.
    let [ours, papers] = [Strategy::Refined, Strategy::FreyErtl2011].map(|decompose| PlanRules {
        decompose,
        min_job_micros: u64::MAX,
        ..PlanRules::default()
    });
    let (mut same, mut smaller) = (0, 0);
    for (name, field) in mode_fields() {
        actix::System::new().block_on(async {
            let source = Arc::new(Bricks::cut(&field, 24));
            let mut mesh = Mesh::start(1, 1, source, &cpu).await;
            for (look, whole) in looks(&field) {
                let sparse = RenderSettings {
                    transfer: peaks(whole.transfer.ends()),
                    ..whole.clone()
                };
                for (eye, view) in views(&field) {
                    for settings in [&whole, &sparse, &clipped(&field, whole.clone())] {
                        mesh.rules = papers;
                        let all = mesh.frame_from(0, view, settings).await.unwrap();
                        mesh.rules = ours;
                        let tight = mesh.frame_from(0, view, settings).await.unwrap();
                        let pictures = [&all, &tight].map(|f| f.image.to_rgba8([0.0; 3]));
                        // What is hidden in a smaller rectangle is not rendered: at most 1/1000 is dropped.
                        let d = compare(&pictures[0], &pictures[1]);
                        assert!(d.max <= 1, "{name}, {look}, {eye}: {d:?}");
                        same += 1;
                        let jobs = |f: &Frame| f.stats.jobs.len();
                        smaller += usize::from(jobs(&tight) < jobs(&all));
                    }
                }
            }
        });
    }
    assert!(same > 100 && smaller > 20, "{same} {smaller}");
}

#[test]
fn pre_integration_shows_what_point_samples_miss() {
    for (name, field) in fields() {
        let ends = settings(&field, false).transfer.ends();
        peaks_are_nearer_pre_integrated(name, Arc::new(Bricks::cut(&field, 64)), ends);
    }
    // Scans and simulations are not as smooth as waves.
    for name in ["neghip_64x64x64_uint8.raw.gz", "avf.nrrd", "hydrogen.vti"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("data")
            .join(name);
        let file = volume_file::open(&path).unwrap();
        let source = brick_store::load(&file, 64, u64::MAX, &mut |_, _| true).unwrap();
        let ends = source.manifest().value_range().unwrap();
        peaks_are_nearer_pre_integrated(name, Arc::new(source), ends);
    }
}

/// Holds pictures at step 1 of peaks against one at step 0.05 of point samples.
fn peaks_are_nearer_pre_integrated(name: &str, source: Arc<dyn BrickSource>, ends: [f64; 2]) {
    let volume = source.manifest().volume().clone();
    let camera = Camera::orbit(&volume, 30.0, 25.0, 1.1);
    let of = |step: f64, preintegrate| {
        let settings = RenderSettings {
            shade: false,
            preintegrate,
            ..RenderSettings::new(peaks(ends), step * volume.min_spacing())
        };
        let view = camera.view(72, 60).unwrap();
        picture(source.clone(), 1, &cpu, view, &settings)
    };
    let fine = of(0.05, false);
    let [points, segments] =
        [false, true].map(|preintegrate| compare(&fine, &of(1.0, preintegrate)).psnr);
    println!("{name}: point samples {points:.1} dB, pre-integrated {segments:.1} dB");
    assert!(segments >= points + 10.0, "{name}: {points}, {segments}");
}

/// Volumes whose isosurfaces are held against the reference: the first are here, the others where they are found.
const OF_SURFACES: [(&str, f64); 8] = [
    ("neghip_64x64x64_uint8.raw.gz", 90.5),
    ("hydrogen.vti", 0.05),
    ("avf.nrrd", 400.5),
    ("tooth.nrrd", 130.5),
    ("engine.nhdr", 120.5),
    ("aneurism.vti", 60.5),
    ("bonsai_256x256x256_uint8.raw.gz", 40.5),
    ("ch2.nii.gz", 90.5),
];

#[test]
fn isosurfaces_of_real_volumes_are_those_of_the_reference_to_45_db() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("data");
    let given = std::env::var_os("BRICKMESH_VOLUMES").map(PathBuf::from);
    let others = given.unwrap_or_else(|| here.join("../../../shared/volumes"));
    for (name, value) in OF_SURFACES {
        let found = [&here, &others].map(|folder| folder.join(name));
        let Some(path) = found.iter().find(|path| path.exists()) else {
            skip(name, &format!("it is not in {}", others.display()));
            continue;
        };
        let file = volume_file::open(path).unwrap();
        let field = stored(&file);
        let source = brick_store::load(&file, 64, u64::MAX, &mut |_, _| true).unwrap();
        let source: Arc<dyn BrickSource> = Arc::new(source);
        let mut settings = settings(&field, true);
        settings.mode = Mode::Iso;
        settings.isosurfaces = vec![Isosurface {
            value,
            color: [0.9, 0.8, 0.6],
            opacity: 1.0,
        }];
        let camera = Camera::orbit(&field.volume, 30.0, 25.0, 1.1);
        let view = camera.view(120, 100).unwrap();
        let reference = to_rgba8(&reference::render(&field, &view, &settings));
        for peers in [1, 3] {
            let ours = picture(Arc::clone(&source), peers, &cpu, view, &settings);
            let d = compare(&ours, &reference);
            println!("{name} at {value}: {d:?}");
            assert!(d.psnr >= 45.0, "{name}, {peers} peers: {d:?}");
            let lit = ours.iter().filter(|c| (60..255).contains(*c)).count();
            assert!(lit > 1000, "{name}: {lit}");
        }
    }
}

/// The stored numbers of a file.
fn stored(file: &VolumeFile) -> Field {
    let volume = file.description.clone();
    let mut bytes = vec![0; usize::try_from(volume.voxel_bytes()).unwrap()];
    file.voxels().unwrap().read(&mut bytes).unwrap();
    let stored = match volume.voxel {
        VoxelType::U8 => bytes.iter().map(|b| (*b).into()).collect(),
        VoxelType::F32 => {
            let (words, _) = bytes.as_chunks();
            words
                .iter()
                .map(|w| f32::from_le_bytes(*w).into())
                .collect()
        }
        VoxelType::I16 => {
            let (words, _) = bytes.as_chunks();
            words
                .iter()
                .map(|w| i16::from_le_bytes(*w).into())
                .collect()
        }
        other => panic!("{other:?}"),
    };
    Field { volume, stored }
}

/// A field of one value, one voxel wider than `cells` on each axis.
fn constant(cells: u32, value: f64) -> Field {
    let mut field = waves([cells + 1; 3], VoxelType::F32, false);
    field.stored.fill(value);
    field
}

fn plain(opacity: f64) -> TransferFunction {
    let p = |value| TransferPoint {
        value,
        color: [0.5, 1.0, 0.25],
        opacity,
    };
    TransferFunction {
        unit_distance: None,
        points: vec![p(-10.0), p(10.0)],
    }
}

#[test]
fn what_bright_pictures_show_behind_dark_walls_does_not_depend_on_cuts() {
    // Through the wall comes less than a thousandth of the light.
    let mut field = constant(40, 0.0);
    for (i, v) in field.stored.iter_mut().enumerate() {
        *v = match i % 41 {
            0..4 => 0.0,
            4..14 => 1.0,
            _ => 2.0,
        };
    }
    let p = |value, grey, opacity| TransferPoint {
        value,
        color: [grey; 3],
        opacity,
    };
    let transfer = TransferFunction {
        unit_distance: None,
        points: vec![
            p(0.0, 0.0, 0.0),
            p(0.9, 0.0, 0.5),
            p(1.1, 0.0, 0.5),
            p(1.5, 1.0, 1.0),
            p(2.0, 1.0, 1.0),
        ],
    };
    for (exposure, gamma) in [(50.0, 1.0), (1.0, 2.2), (0.5, 3.0)] {
        let settings = RenderSettings {
            shade: false,
            exposure,
            gamma,
            ..RenderSettings::new(transfer.clone(), 0.5)
        };
        let of = |edge, peers, device| {
            let bricks = Arc::new(Bricks::cut(&field, edge));
            picture(bricks, peers, device, along_x(&field), &settings)
        };
        let whole = of(64, 1, &cpu);
        assert!(whole[16] > 8 && whole[16] < 100, "{whole:?}");
        for (edge, peers, device) in [
            (8, 1, &cpu as MakeDevice<'_>),
            (8, 1, &scalar),
            (16, 2, &cpu),
        ] {
            let d = compare(&whole, &of(edge, peers, device));
            assert!(d.max <= 1, "{exposure}, {gamma}, {edge}, {peers}: {d:?}");
        }
    }
}

/// Looks along x through the middle of a field from ten units before it: a ray through the
/// picture's middle has samples at `10 + k/4`.
fn along_x(field: &Field) -> View {
    let center = field.volume.center_in_world();
    let camera = Camera {
        eye: DVec3::new(-10.0, center.y, center.z),
        at: center,
        up: DVec3::Z,
        fov_degrees: 1.0,
        projection: Projection::Perspective,
    };
    camera.view(3, 3).unwrap()
}

#[test]
fn a_constant_volume_has_the_opacity_of_its_samples() {
    let field = constant(32, 1.0);
    let (opacity, step) = (0.05_f64, 0.25_f64);
    let settings = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(plain(opacity), step)
    };
    for (peers, edge) in [(1, 64), (3, 8)] {
        let picture = picture(
            Arc::new(Bricks::cut(&field, edge)),
            peers,
            &cpu,
            along_x(&field),
            &settings,
        );
        // Samples stand on both borders: 32 / 0.25 + 1 of them.
        let alpha = 1.0 - (1.0 - opacity).powf(step * 129.0);
        let middle = &picture[4 * 4..4 * 5];
        for (c, color) in [0.5, 1.0, 0.25].into_iter().enumerate() {
            let expected = color * alpha * 255.0;
            assert!(
                (f64::from(middle[c]) - expected).abs() <= 1.0,
                "{edge}: {middle:?}, {expected}"
            );
        }
    }
}

#[test]
fn an_empty_volume_is_the_background_and_an_opaque_one_its_colour() {
    let field = constant(20, 1.0);
    let view = along_x(&field);
    let empty = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(plain(0.0), 0.5)
    };
    let opaque = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(plain(1.0), 0.5)
    };
    let bricks: Arc<dyn BrickSource> = Arc::new(Bricks::cut(&field, 8));
    let nothing = picture(Arc::clone(&bricks), 2, &cpu, view, &empty);
    assert!(nothing.chunks_exact(4).all(|p| p == [0, 0, 0, 255]));
    let full = picture(bricks, 2, &cpu, view, &opaque);
    assert!(full.chunks_exact(4).all(|p| p == [128, 255, 64, 255]));
}

#[test]
fn an_opaque_slab_hides_what_is_behind_it_and_shows_what_is_before() {
    // Values rise along x: transparent to 8, half transparent to 16, opaque from 16 on.
    let mut field = constant(32, 0.0);
    for (i, v) in field.stored.iter_mut().enumerate() {
        *v = f64::from(u32::try_from(i % 33).unwrap());
    }
    let p = |value, color, opacity| TransferPoint {
        value,
        color,
        opacity,
    };
    let transfer = TransferFunction {
        unit_distance: None,
        points: vec![
            p(0.0, [1.0, 0.0, 0.0], 0.0),
            p(8.0, [1.0, 0.0, 0.0], 0.0),
            p(8.0, [1.0, 0.0, 0.0], 0.1),
            p(16.0, [1.0, 0.0, 0.0], 0.1),
            p(16.0, [0.0, 1.0, 0.0], 1.0),
            p(32.0, [0.0, 0.0, 1.0], 1.0),
        ],
    };
    let settings = RenderSettings {
        shade: false,
        jitter: false,
        ..RenderSettings::new(transfer, 0.3)
    };
    let picture = picture(
        Arc::new(Bricks::cut(&field, 8)),
        3,
        &cpu,
        along_x(&field),
        &settings,
    );
    // 10 + 8 … 10 + 16 holds the samples k = 60 … 86; k = 87 stands at 16.1, in the slab.
    let red = 1.0 - 0.9_f64.powf(0.3 * 27.0);
    let slab = field_color(16.1);
    let middle = &picture[16..20];
    let expected = [
        red * 255.0,
        (1.0 - red) * slab.1 * 255.0,
        (1.0 - red) * slab.2 * 255.0,
    ];
    for (c, e) in expected.into_iter().enumerate() {
        assert!(
            (f64::from(middle[c]) - e).abs() <= 2.0,
            "{middle:?}, {expected:?}"
        );
    }
}

/// Green and blue between the slab's two points.
fn field_color(x: f64) -> (f64, f64, f64) {
    let t = (x - 16.0) / 16.0;
    (0.0, 1.0 - t, t)
}

// What follows breaks the product on purpose: the difference must be seen.

#[test]
fn bricks_without_ghost_voxels_are_seen() {
    let field = waves([70, 65, 41], VoxelType::U8, false);
    let settings = settings(&field, false);
    let (_, view) = views(&field)[0];
    let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
    let broken = picture(
        Arc::new(Bricks::without_ghosts(&field, 32)),
        1,
        &cpu,
        view,
        &settings,
    );
    assert!(compare(&one, &broken).max > 1);
}

/// Renders bricks of 32 one by one and blends them in `order`, with boxes changed by `change`.
fn by_hand(
    field: &Field,
    view: View,
    settings: &RenderSettings,
    change: fn(VoxelBox) -> VoxelBox,
    reverse: bool,
) -> Vec<u8> {
    let source = Bricks::cut(field, 32);
    let manifest = source.manifest();
    let mut device = CpuDevice::new(Some(NonZeroUsize::MIN), 1 << 30).unwrap();
    let scene = Scene::new(manifest, view, settings.clone());
    device.set_scene(&scene).unwrap();
    let grid = manifest.grid();
    let boxes: Vec<VoxelBox> = grid.bricks().map(|b| grid.owned_box(b)).collect();
    let eye = field.volume.grid_from_world().transform_point3(view.eye);
    let mut order = front_to_back(&boxes, eye).unwrap();
    if reverse {
        order.reverse();
    }
    let mut image = SubImage::transparent(view.rect());
    for index in order {
        let brick = grid.bricks().nth(index).unwrap();
        let (owned, stored) = (grid.owned_box(brick), grid.stored_box(brick));
        let bytes = source.read(brick).unwrap();
        let voxels = BrickVoxels::new(stored, stored, field.volume.voxel, bytes).unwrap();
        device
            .load_brick(
                BrickKey {
                    data_set: manifest.digest(),
                    brick,
                },
                voxels,
            )
            .unwrap();
        let job = Job {
            brick,
            owned: change(owned),
            rect: view.rect(),
        };
        image.combine(&device.render(&job).unwrap().image, Mode::Dvr);
    }
    image.to_rgba8([0.0; 3])
}

#[test]
fn boxes_that_overlap_or_a_wrong_order_are_seen() {
    let field = waves([70, 65, 41], VoxelType::U8, false);
    let settings = settings(&field, false);
    let (_, view) = views(&field)[0];
    let one = picture(Arc::new(Bricks::cut(&field, 128)), 1, &cpu, view, &settings);
    let right = by_hand(&field, view, &settings, |b| b, false);
    assert!(compare(&one, &right).max <= 1);
    // One voxel more than owned: samples between two bricks are blended twice.
    let wider = |b: VoxelBox| VoxelBox::new(b.lo, b.hi.map(|v| if v == 32 { v + 1 } else { v }));
    let twice = by_hand(&field, view, &settings, wider, false);
    assert!(compare(&one, &twice).max > 1);
    let reversed = by_hand(&field, view, &settings, |b| b, true);
    assert!(compare(&one, &reversed).max > 1);
}
