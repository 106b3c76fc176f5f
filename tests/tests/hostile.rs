//! Every reader of files and every message, attacked with inputs that seeds derive from good ones:
//! each ends in an answer or a clear error, without a panic, within the memory stated here.
//!
//! A few seconds each; `BRICKMESH_FUZZ_SECONDS=600` attacks for longer. What fails says its seed
//! and how to try it again.
//!
//! The limits: 64 MiB whatever comes, which holds the tables of the largest grid; and for each
//! byte what a reader may make of it at most. One byte of a list can be a number of 8, and a list that
//! grows is there twice for a moment.

#![expect(
    clippy::unwrap_used,
    reason = "a test may fail by a panic, also outside of its function"
)]

use brickmesh_actors::{
    data_set::BrickSource as _,
    messages::{FrameMessage, FrameRequest, Message, decode},
};
use brickmesh_node::{
    brick_store::{self, BrickEdge, DirectoryStore, FileOptions, open_with_surfaces},
    camera_choice, config_file,
    network::MeshKey,
    scene_file,
    surface_file::{self, ScratchError, Spill},
    transfer, volume_file,
};
use brickmesh_tests::{
    hostile::{
        Outcome, Target,
        files::{self, Hostile, Sample},
        memory::{self, Counting},
        mutation::{mutate, one_of, pick},
        wire,
    },
    volumes::{Bricks, waves},
};
use brickmesh_topology::{
    BrickBytes, BrickIndex, Camera, Digest, Manifest, PeerId, RenderSettings, TransferFunction,
    VoxelType,
    balance::{
        cost_table::CostTable,
        frame_plan::{FramePlan, PlanInputs},
        roster::Roster,
        stealing::Work,
    },
    base::seeded::Seeded,
    data::{
        default_transfer::default_transfer,
        manifest::ManifestParts,
        voxel_numbers::{NO_DATA_MIN, NUMBER_MAX},
    },
    frame::{
        frame_requests::attempt::{Attempt, AttemptInput},
        image::Packed as _,
    },
    mesh::{
        keeper::{Hello, Keeper, KeeperInput, KeeperMessage, KeeperOutput, Sharing},
        membership::Heartbeat,
    },
    picture::{render_settings::Mode, visible_cells::VisibleCells},
};
use std::{
    collections::BTreeMap,
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::TempDir;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MIB: u64 = 1 << 20;
/// Edge of the bricks that volumes are cut into.
const EDGE: u32 = 4;
/// Voxels that a volume may have to be loaded, in bytes: beyond that it is only read.
const LOADED_BYTES_MAX: u64 = 4 * MIB;

/// Files: what is packed may hold a thousand times its length, which is read in pieces.
const fn of_files(name: &'static str) -> Target {
    Target {
        name,
        bytes_max: 64 * MIB,
        bytes_per_byte: 8,
    }
}

/// Texts and messages become lists of structures, an entry for a few bytes.
const fn of_lists(name: &'static str) -> Target {
    Target {
        name,
        bytes_max: 64 * MIB,
        bytes_per_byte: 64,
    }
}

/// Reads a volume whole, and cuts it into bricks if it is small.
fn read_volume(path: &Path) -> Result<(), String> {
    let file = volume_file::open(path).map_err(|e| e.to_string())?;
    let (total, mut done) = (file.description.voxel_bytes(), 0);
    let mut stream = file.voxels().map_err(|e| e.to_string())?;
    let mut voxels = vec![0; 1 << 16];
    while done < total {
        let n = usize::try_from((total - done).min(1 << 16)).unwrap();
        stream.read(&mut voxels[..n]).map_err(|e| e.to_string())?;
        done += n as u64;
    }
    stream.finish().map_err(|e| e.to_string())?;
    if total <= LOADED_BYTES_MAX {
        load_volume(path)?;
    }
    Ok(())
}

fn load_volume(path: &Path) -> Result<(), String> {
    let file = volume_file::open(path).map_err(|e| e.to_string())?;
    let store =
        brick_store::load(&file, EDGE, u64::MAX, &mut |_, _| true).map_err(|e| e.to_string())?;
    use_manifest(store.manifest());
    Ok(())
}

/// What a program does with a manifest that it has taken: everything that follows is usable.
fn use_manifest(manifest: &Manifest) {
    let transfer = default_transfer(manifest).function;
    let settings = RenderSettings::new(transfer, manifest.volume().min_spacing());
    settings.validate(manifest.volume()).unwrap();
    let visible = VisibleCells::of(manifest, &settings);
    let numbers = manifest.numbers();
    for stored in [f32::MIN, -1.0, 0.0, 1e-38, 255.0, f32::MAX, f32::NAN] {
        let number = numbers.number(stored);
        let is_data = number.abs() <= NUMBER_MAX || !numbers.is_checked();
        assert!(is_data || number > NO_DATA_MIN, "{stored}: {number}");
    }
    let seen = manifest.grid().bricks().filter(|&b| visible.any(b));
    assert!(seen.count() <= manifest.grid().brick_count() as usize);
    assert!(manifest.largest_brick_bytes() > 0);
    let whole = Camera::whole(manifest.volume()).view(64, 48);
    whole.unwrap_or_else(|e| panic!("{e}: {:?}", manifest.volume()));
}

/// One of the samples, turned bad, in a folder of its own, and how many bytes it has.
fn written(draws: &mut Seeded, samples: &[Sample]) -> ((TempDir, PathBuf), usize) {
    let (file, length) = Hostile::of(draws, samples);
    let folder = tempfile::tempdir().unwrap();
    let path = file.write(folder.path());
    ((folder, path), length)
}

fn assert_named(path: &Path, error: &str) {
    let name = path.display().to_string();
    assert!(error.contains(&name), "the file is named: {error}");
}

/// Attacks the readers of volumes with these files.
fn attack_volumes(target: Target, samples: &[Sample]) {
    target.attack(
        |draws| {
            let (file, length) = written(draws, samples);
            ((file, draws.below(8) == 0), length)
        },
        |((folder, path), load)| {
            // What is not read through first must not be believed either.
            let outcome = if load {
                load_volume(&path)
            } else {
                read_volume(&path)
            };
            if let Err(error) = &outcome {
                // It may be the one beside it.
                assert_named(folder.path(), error);
            }
            outcome.into()
        },
    );
}

#[test]
fn nrrd_files() {
    attack_volumes(of_files("nrrd_files"), &files::nrrd());
}

#[test]
fn meta_image_files() {
    attack_volumes(of_files("meta_image_files"), &files::meta_image());
}

#[test]
fn nifti_files() {
    attack_volumes(of_files("nifti_files"), &files::nifti());
}

#[test]
fn vti_files() {
    attack_volumes(of_files("vti_files"), &files::vti());
}

#[test]
fn raw_files() {
    attack_volumes(of_files("raw_files"), &files::raw());
}

#[test]
fn surface_files() {
    of_lists("surface_files").attack(
        |draws| written(draws, &files::surfaces()),
        |(folder, path)| {
            let read = || {
                let edge = BrickEdge::Shared;
                let how = FileOptions::default();
                // Of glTF the file is in memory, of others nothing that can be in scratch files.
                let is_gltf = path.extension().is_some_and(|e| e == "glb" || e == "gltf");
                let bytes_max = if is_gltf { 1 << 30 } else { 0 };
                let spill = Spill::in_temp(bytes_max, Arc::new(|| true));
                let found = surface_file::read(&path, &spill, &mut |_, _| true);
                let mut found = found.map_err(|e| e.to_string())?;
                let mut count = 0;
                let counted = found.each_triangle(|_, _, _| {
                    count += 1;
                    Ok::<(), ScratchError>(())
                });
                counted.map_err(|e| e.to_string())?;
                assert_eq!(count, found.triangle_count());
                let opened =
                    open_with_surfaces(&path, how, edge, &[], (1 << 30, &spill), &mut |_, _| true);
                let source = opened.map_err(|e| e.to_string())?;
                use_manifest(source.manifest());
                for brick in source.manifest().grid().bricks() {
                    source.read(brick).map_err(|e| e.to_string())?;
                }
                Ok::<(), String>(())
            };
            let found = read();
            drop(folder);
            found.into()
        },
    );
}

#[test]
fn real_files() {
    // Their voxels, a megabyte and less, are loaded too.
    attack_volumes(of_files("real_files"), &files::real());
}

#[test]
fn a_header_that_lies_costs_no_memory() {
    let fields = "type: float\nendian: little\ndimension: 3\nsizes: 32768 32768 500\n";
    let target = of_files("a_header_that_lies_costs_no_memory");
    let data = [("raw", vec![1; 100]), ("gzip", files::gzip(&[1; 100]))];
    for (encoding, data) in data {
        let text = format!("NRRD0004\n{fields}encoding: {encoding}\n\n");
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.nrrd");
        fs::write(&path, [text.as_bytes(), &data].concat()).unwrap();
        for (edge, expected) in [
            (512, "smaller --brick"),
            (256, "expected 2147483648000"),
            (128, "larger --brick"),
        ] {
            memory::begin(target.name, edge.into(), target.bytes_max);
            let file = volume_file::open(&path).unwrap();
            let error = brick_store::load(&file, edge, u64::MAX, &mut |_, _| true).unwrap_err();
            let peak = memory::end().bytes;
            assert!(error.to_string().contains(expected), "{error}");
            assert!(peak < target.bytes_max, "{peak} bytes");
        }
    }
}

#[test]
fn transfer_functions() {
    let samples = files::transfer();
    let field = waves([9, 9, 9], VoxelType::I16, false);
    let manifest = Bricks::cut(&field, 9).manifest().clone();
    of_lists("transfer_functions").attack(
        |draws| written(draws, &samples),
        |(_folder, path)| {
            let result = transfer::choose(Some(&path), None, Mode::Dvr, &manifest);
            if let Ok(transfer) = &result {
                let transfer = &transfer.function;
                transfer.validate().unwrap();
                for value in [-1e30, -3.0, 0.0, 0.5, 250.0, 1e30] {
                    let (color, opacity) = transfer.classify(value);
                    let all = color.iter().chain([&opacity]);
                    assert!(
                        all.into_iter().all(|v| (0.0..=1.0).contains(v)),
                        "{color:?}"
                    );
                }
            }
            result.into()
        },
    );
}

#[test]
fn lists_of_cameras() {
    let samples = files::cameras();
    let field = waves([8, 9, 10], VoxelType::U8, false);
    let manifest = Bricks::cut(&field, 8).manifest().clone();
    of_lists("lists_of_cameras").attack(
        |draws| written(draws, &samples),
        |(_folder, path)| {
            let shots = camera_choice::shots(&path, &manifest, (64, 48));
            let views = shots.and_then(|all| {
                let view =
                    |s: &camera_choice::Shot| s.camera.view(64, 48).map_err(|e| e.to_string());
                all.iter().map(view).collect::<Result<Vec<_>, _>>()
            });
            views.into()
        },
    );
}

#[test]
fn scene_files() {
    of_lists("scene_files").attack(
        |draws| written(draws, &files::scenes()),
        |(_folder, path)| {
            let scene = scene_file::read(&path).map_err(|e| e.to_string());
            if let Ok(scene) = &scene {
                assert!(scene.volume.is_some() || !scene.surfaces.is_empty());
                assert!(scene.surfaces.iter().all(|s| s.place.is_finite()));
            }
            scene.into()
        },
    );
}

#[test]
fn configuration_files() {
    let samples = files::configurations();
    of_lists("configuration_files").attack(
        |draws| written(draws, &samples),
        |(_folder, path)| {
            let config = path.clone().into_os_string();
            let words = ["brickmesh", "peer", "--config"].map(OsString::from);
            let words = [&words[..], &[config]].concat();
            let result = config_file::command_line(&words, None);
            if let Err(error) = &result {
                assert_named(&path, &error.to_string());
            }
            result.into()
        },
    );
}

#[cfg(unix)]
#[test]
fn mesh_keys() {
    use std::os::unix::fs::PermissionsExt;
    let samples = files::mesh_keys();
    of_lists("mesh_keys").attack(
        |draws| written(draws, &samples),
        |(_folder, path)| {
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
            let result = MeshKey::load(&path);
            if let Err(error) = &result {
                assert_named(&path, &error.to_string());
            }
            result.into()
        },
    );
}

/// A store of a small volume: its files by name, and its bricks' bytes.
fn store(folder: &Path) -> (BTreeMap<String, Vec<u8>>, Vec<Vec<u8>>) {
    let path = folder.join("v_9x7x10_int16.raw");
    let voxels = (0_u8..=250).cycle().take(9 * 7 * 10 * 2);
    fs::write(&path, voxels.collect::<Vec<u8>>()).unwrap();
    let file = volume_file::open(&path).unwrap();
    let out = folder.join("good.brickmesh");
    let store = brick_store::import(&file, 5, &out, &mut |_, _| true).unwrap();
    let mut all = BTreeMap::new();
    for (sub, within) in [("", out.clone()), ("bricks/", out.join("bricks"))] {
        for entry in fs::read_dir(within).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                let name = path.file_name().unwrap().to_string_lossy().into_owned();
                all.insert(format!("{sub}{name}"), fs::read(&path).unwrap());
            }
        }
    }
    let bricks = store.manifest().grid().bricks();
    let bricks = bricks.map(|b| store.read(b).unwrap().to_vec()).collect();
    (all, bricks)
}

fn write_store(folder: &Path, files: &BTreeMap<String, Vec<u8>>) {
    fs::create_dir(folder.join("bricks")).unwrap();
    for (name, bytes) in files {
        fs::write(folder.join(name), bytes).unwrap();
    }
}

#[test]
fn stores_that_lost_something_are_refused_or_say_which_brick() {
    let folder = tempfile::tempdir().unwrap();
    let (good, bricks) = store(folder.path());
    let names: Vec<String> = good.keys().cloned().collect();
    let target = of_lists("stores_that_lost_something_are_refused_or_say_which_brick");
    target.attack(
        |draws| {
            let mut files = good.clone();
            for _ in 0..=draws.below(3) {
                damage(draws, &mut files, &names);
            }
            let folder = tempfile::tempdir().unwrap();
            write_store(folder.path(), &files);
            let length = files.values().map(Vec::len).sum();
            (folder, length)
        },
        |folder| {
            let store = match DirectoryStore::open(folder.path()) {
                Ok(store) => store,
                Err(error) => {
                    let text = error.to_string();
                    let files = ["manifest.json", "bricks.index", "bricks/places"];
                    assert!(files.iter().any(|f| text.contains(f)), "{text}");
                    return Outcome::Refused(text);
                }
            };
            let damaged = store.verify(&mut |_, _| true).unwrap();
            let mut first = None;
            for (brick, expected) in store.manifest().grid().bricks().zip(&bricks) {
                let told = damaged.iter().any(|(d, _)| *d == brick);
                match store.read(brick) {
                    Ok(bytes) => assert!(bytes == expected && !told, "silent damage"),
                    Err(error) => {
                        let text = error.what;
                        let brick = format!("brick {} ", brick.0);
                        assert!(told && text.contains(&brick), "{text}");
                        assert!(text.contains("bricks/"), "the file is named: {text}");
                        first.get_or_insert(text);
                    }
                }
            }
            first.map_or(Outcome::Read, Outcome::Refused)
        },
    );
}

/// Takes a file away, its end, or what is in it.
fn damage(draws: &mut Seeded, files: &mut BTreeMap<String, Vec<u8>>, names: &[String]) {
    let (name, other) = (one_of(draws, names), one_of(draws, names));
    let other = files.get(other).cloned().unwrap_or_default();
    let Some(bytes) = files.get_mut(name) else {
        return;
    };
    match draws.below(8) {
        0 => drop(files.remove(name)),
        1 => *bytes = other,
        2..=4 => bytes.truncate(pick(draws, bytes.len())),
        5 => {
            let lost = pick(draws, bytes.len());
            bytes[lost..].fill(0);
        }
        _ => {
            let all = bytes.len();
            mutate(draws, bytes, all, &other);
        }
    }
}

#[test]
fn manifests_with_a_right_checksum() {
    let folder = tempfile::tempdir().unwrap();
    let (good, _) = store(folder.path());
    let manifest = &good["manifest.json"];
    let end = manifest.len() - r#","checksum":""}"#.len() - 64;
    let target = of_lists("manifests_with_a_right_checksum");
    target.attack(
        |draws| {
            let mut text = manifest[..end].to_vec();
            mutate(draws, &mut text, end, &manifest[..end]);
            let checksum = Digest::of(&text).to_string();
            let sealed = format!(",\"checksum\":\"{checksum}\"}}");
            text.extend_from_slice(sealed.as_bytes());
            let mut files = good.clone();
            files.insert("manifest.json".to_owned(), text);
            let folder = tempfile::tempdir().unwrap();
            write_store(folder.path(), &files);
            (folder, files.values().map(Vec::len).sum())
        },
        |folder| {
            let store = DirectoryStore::open(folder.path());
            if let Ok(store) = &store {
                use_manifest(store.manifest());
                drop(store.verify(&mut |_, _| true).unwrap());
            }
            store.into()
        },
    );
}

#[test]
fn pages_of_bricks() {
    let bricks = Bricks::cut(&waves([45, 13, 17], VoxelType::I16, true), 4);
    let root = bricks.manifest().root();
    let good = bricks.manifest().pages().to_vec();
    let target = of_lists("pages_of_bricks");
    target.attack(
        |draws| {
            let mut bytes = good.clone();
            mutate(draws, &mut bytes, 100, &good);
            let length = bytes.len();
            (bytes, length)
        },
        |bytes| {
            let is_good = *bytes == good;
            let of = |index| {
                Manifest::try_from(ManifestParts {
                    index,
                    pages: bytes.clone().into(),
                    ..root.clone()
                })
            };
            assert_eq!(of(root.index).is_ok(), is_good, "another name was given");
            let manifest = of(None);
            if let Ok(manifest) = &manifest {
                use_manifest(manifest);
                let weights = manifest.occupied_voxels();
                assert_eq!(weights.len(), manifest.grid().brick_count() as usize);
            }
            manifest.into()
        },
    );
}

/// What a message is about.
struct Scene {
    manifest: Arc<Manifest>,
    request: FrameRequest,
    roster: Roster,
    costs: CostTable,
    visible: VisibleCells,
    plan: FramePlan,
}

impl Scene {
    fn new() -> Self {
        let bricks = Bricks::cut(&waves([19, 13, 17], VoxelType::U8, true), 8);
        let manifest = bricks.manifest().clone();
        let request = wire::request(&manifest);
        let (roster, costs) = (wire::roster(&manifest), wire::costs(&manifest));
        let visible = VisibleCells::of(&manifest, &request.settings);
        let plan = plan(&manifest, &request, &roster, &costs, &visible);
        Self {
            manifest,
            request,
            roster,
            costs,
            visible,
            plan,
        }
    }
}

/// The plan of a frame, all of whose inputs are valid: there must be one.
fn plan(
    manifest: &Manifest,
    request: &FrameRequest,
    roster: &Roster,
    costs: &CostTable,
    visible: &VisibleCells,
) -> FramePlan {
    let inputs = PlanInputs {
        manifest,
        view: &request.view,
        settings: &request.settings,
        visible,
        roster,
        costs,
        rules: &request.attempt.rules,
        earlier: None,
    };
    let plan = FramePlan::derive(&inputs).unwrap();
    let whole = request.view.rect();
    for job in &plan.jobs {
        assert_eq!(job.rect.intersection(&whole), Some(job.rect), "{job:?}");
        let brick = manifest.grid().owned_box(job.brick);
        assert!(brick.contains_box(&job.owned), "{job:?}");
    }
    plan
}

/// What an honest peer's keeper does with what another one says, whatever it is.
fn keep(scene: &Scene, message: KeeperMessage) -> Result<(), String> {
    let hello = |name: &str| Hello {
        name: name.to_owned(),
        device: "cpu".to_owned(),
        is_device_lost: false,
        memory_bytes: 9 * scene.manifest.largest_brick_bytes(),
        shelf_bytes: 9 * scene.manifest.largest_brick_bytes(),
        sharing: Sharing::Object,
        version: String::new(),
        is_viewer: false,
    };
    let manifest = Arc::clone(&scene.manifest);
    let data_set = manifest.digest();
    let has_source = vec![KeeperInput::Offer(Arc::clone(&manifest), 2)];
    // One that keeps bricks on a disk.
    let has_shelf = vec![
        KeeperInput::Know(manifest),
        KeeperInput::OnShelf(data_set, vec![BrickIndex(0)]),
        KeeperInput::Use(data_set, true),
    ];
    keep_as(hello, data_set, has_source, message.clone())?;
    keep_as(hello, data_set, has_shelf, message)
}

/// The same of one that was told this first.
fn keep_as(
    hello: impl Fn(&str) -> Hello,
    data_set: Digest,
    first: Vec<KeeperInput>,
    message: KeeperMessage,
) -> Result<(), String> {
    let mallory = PeerId::new("mallory");
    let mut keeper = Keeper::new(
        PeerId::new("honest"),
        hello("honest"),
        BrickBytes::default(),
        1,
    );
    let mut out = Vec::new();
    let heartbeat = KeeperMessage::Heartbeat {
        heartbeat: Heartbeat::default(),
        hello: Arc::new(hello("mallory")),
        vitals: Arc::default(),
    };
    let met = [
        KeeperInput::Connected(mallory.clone()),
        KeeperInput::Said(mallory.clone(), heartbeat),
    ];
    let then = [
        KeeperInput::Said(mallory, message),
        KeeperInput::Tick,
        KeeperInput::Tick,
        KeeperInput::Leave,
        KeeperInput::Tick,
    ];
    let inputs = met.into_iter().chain(first).chain(then);
    for (now, input) in (0..).zip(inputs) {
        keeper.step(now * 100_000, input, &mut out);
    }
    let dropped = |o: &KeeperOutput| match o {
        KeeperOutput::Dropping(_, why) => Some((*why).to_owned()),
        _ => None,
    };
    for (manifest, holding) in keeper.data_sets() {
        let own = holding.announcement();
        assert!(own.is_valid(manifest.grid().brick_count()));
        assert!(own.assigned.len() <= 9);
    }
    assert!(keeper.candidates(data_set).is_some());
    out.iter().find_map(dropped).map_or(Ok(()), Err)
}

/// Does with a message what its receiver does before it trusts it, and after.
fn receive(scene: &Scene, message: Message) -> Result<(), String> {
    let brick_count = scene.manifest.grid().brick_count();
    let (manifest, request) = (&scene.manifest, &scene.request);
    match message {
        Message::Keeper(message) => {
            if let KeeperMessage::Open { manifest, .. } = &message {
                use_manifest(manifest);
            }
            keep(scene, message)?;
        }
        Message::BrickData { brick, .. } => {
            if brick.0 >= brick_count {
                return Err("a brick that is not in the grid".to_owned());
            }
            assert!(manifest.brick_bytes(BrickIndex(brick.0)) > 0);
        }
        Message::Roster(roster) => {
            roster.validate(brick_count).map_err(|e| e.to_string())?;
            plan(manifest, request, &roster, &scene.costs, &scene.visible);
        }
        Message::Costs(costs) => {
            costs.validate(manifest.grid()).map_err(|e| e.to_string())?;
            plan(manifest, request, &scene.roster, &costs, &scene.visible);
        }
        Message::Frame(request) => frame(scene, &request)?,
        Message::Partial(partial) => {
            let mut parts = partial.parts.into_iter();
            if parts.any(|t| t.pixels.unpack(Mode::Dvr).is_none()) {
                return Err("a part that is no image".to_owned());
            }
        }
        Message::Tile { pixels, .. } => {
            let image = pixels
                .into_image(Mode::Dvr)
                .ok_or("a tile that is no image")?;
            drop(image.crop(&scene.plan.tiles[0].rect));
        }
        Message::Steal(note) => {
            let mut work = Work::new(&scene.plan, 0, true);
            for from in 0..2 {
                let mut out = Vec::new();
                work.heard(from, &note.message, &mut out);
                work.idle(&mut out);
                work.heard(from, &note.message, &mut out);
            }
        }
        Message::Reply { reply, .. } => hear(scene, reply),
        _ => {}
    }
    Ok(())
}

/// Does with what is said to a requester what it does.
fn hear(scene: &Scene, reply: FrameMessage) {
    let (manifest, request) = (&scene.manifest, &scene.request);
    match reply {
        FrameMessage::JobsDone { jobs, .. } => {
            let times = jobs.iter().map(|&(job, micros)| (job, (0, micros)));
            let rules = &request.attempt.rules;
            let costs = scene.plan.learned(&scene.costs, &times.collect(), rules);
            costs.1.validate(manifest.grid()).unwrap();
        }
        FrameMessage::Given { jobs, by, .. } => {
            let mut attempt = Attempt::new(Arc::new(scene.plan.clone()), 0, 0);
            for job in jobs {
                attempt.step(AttemptInput::Given {
                    job,
                    plan: scene.plan.digest,
                    from: scene.plan.peers[0].clone(),
                    by: by.clone(),
                });
            }
        }
        FrameMessage::Lacking { jobs, .. } => {
            let attempt = Attempt::new(Arc::new(scene.plan.clone()), 0, 0);
            assert!(attempt.owners(&jobs).len() <= scene.plan.peers.len());
        }
        _ => {}
    }
}

/// A request is checked, and then there is a plan for it.
fn frame(scene: &Scene, request: &FrameRequest) -> Result<(), String> {
    request.view.validate().map_err(|e| e.to_string())?;
    let valid = request.settings.validate(scene.manifest.volume());
    valid.map_err(|e| e.to_string())?;
    let visible = VisibleCells::of(&scene.manifest, &request.settings);
    plan(
        &scene.manifest,
        request,
        &scene.roster,
        &scene.costs,
        &visible,
    );
    Ok(())
}

#[test]
fn messages() {
    let scene = Scene::new();
    let good = wire::encoded(&scene.manifest);
    for bytes in &good {
        let message = decode(bytes).unwrap();
        receive(&scene, message).unwrap();
    }
    of_lists("messages").attack(
        |draws| wire::hostile(draws, &good),
        |bytes| match decode(&bytes) {
            Ok(message) => receive(&scene, message).into(),
            Err(error) => Outcome::Refused(error.to_string()),
        },
    );
}

/// Attacks a simulation; `tame` keeps what a person may ask for, but a test has no time for.
fn attack_simulation(what: &'static str, target: Target, tame: fn(&mut serde_json::Value)) {
    let samples = files::simulation(what);
    for sample in &samples {
        brickmesh_sim::run(what, std::str::from_utf8(&sample.bytes).unwrap()).unwrap();
    }
    target.attack(
        |draws| {
            let (file, _) = Hostile::of(draws, &samples);
            let text = String::from_utf8_lossy(&file.bytes).into_owned();
            let text = match serde_json::from_str(&text) {
                Ok(mut json) => {
                    tame(&mut json);
                    json.to_string()
                }
                Err(_) => text,
            };
            let length = text.len();
            (text, length)
        },
        |text| brickmesh_sim::run(what, &text).into(),
    );
}

/// Simulations answer with more than they were given, and keep tables: a bit for each brick and
/// device, pixels of a picture, a thousand jobs of a brick.
const fn of_simulation(name: &'static str) -> Target {
    Target {
        name,
        bytes_max: 512 * MIB,
        bytes_per_byte: 64,
    }
}

#[test]
fn inputs_of_sim_placement() {
    attack_simulation(
        "placement",
        of_simulation("inputs_of_sim_placement"),
        |json| {
            // At most some thousand bricks: a million take a minute.
            for count in json
                .pointer_mut("/bricks")
                .and_then(|b| b.as_array_mut())
                .into_iter()
                .flatten()
            {
                if (17..=1024).contains(&count.as_u64().unwrap_or(0)) {
                    *count = 17.into();
                }
            }
        },
    );
}

#[test]
fn inputs_of_sim_schedule() {
    attack_simulation("schedule", of_simulation("inputs_of_sim_schedule"), |_| {});
}

#[test]
fn inputs_of_sim_jobs() {
    attack_simulation("jobs", of_simulation("inputs_of_sim_jobs"), |_| {});
}

#[test]
fn inputs_of_sim_mesh() {
    attack_simulation("mesh", of_simulation("inputs_of_sim_mesh"), |json| {
        let at_most = |value: Option<&mut serde_json::Value>, most: u64, valid: u64| {
            if let Some(value) = value
                && (most..=valid).contains(&value.as_u64().unwrap_or(0))
            {
                *value = most.into();
            }
        };
        at_most(json.pointer_mut("/path/frames"), 5, 100_000);
        for axis in 0..3 {
            let dim = json.pointer_mut(&format!("/volume/dims/{axis}"));
            at_most(dim, 40, 512);
        }
    });
}

#[test]
fn a_ramp_is_valid_for_the_largest_and_the_smallest_values() {
    for (low, high) in [(-1e69, 1e69), (0.0, 1e-300), (5.0, 5.0)] {
        TransferFunction::ramp(low, high).validate().unwrap();
    }
}
