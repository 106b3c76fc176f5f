//! `render` and `demo`: pictures without a window.

use super::CommandResult;
use crate::{
    args::{DemoArgs, MeshArgs, NetworkArgs, RenderArgs, RulesArgs},
    brick_store,
    camera_choice::{Shot, camera, shots},
    formula::FormulaVolume,
    free_memory::free_memory_bytes,
    network::MeshKey,
    picture::{PictureError, numbered, write_png},
    progress::Progress,
    session::{DataSource, Session, SessionError},
    stats::Stats,
    stop::Stop,
    transfer,
};
use brickmesh_actors::{
    data_set::BrickSource,
    requester::{AskFrame, Frame},
};
use brickmesh_topology::{
    Camera, Manifest, TransferFunction, VolumeDescription, VoxelBox, frame_plan::PlanRules,
};
use std::{collections::VecDeque, path::Path, sync::Arc};
use tokio::task::JoinHandle;

/// Voxels on an axis of the demo's volume.
const DEMO_EDGE: u32 = 128;
/// Edge of its bricks.
const DEMO_BRICK: u32 = 32;
/// Frames of the demo that are asked for before the first of them is awaited.
const FRAMES_AHEAD: u8 = 2;
/// Missing boxes that a line of the log names; `--stats` has all of them.
const BOXES_TOLD_MAX: usize = 4;
/// Edge of a brick where one peer renders alone: few jobs, little overhead.
pub(crate) const BRICK_ALONE: u32 = 256;
/// Edge of a brick where several share the work.
pub(crate) const BRICK_SHARED: u32 = 64;

/// The pictures of a turn.
struct Turn<'a> {
    shots: Vec<Shot>,
    size: (u32, u32),
    transfer: TransferFunction,
    step: f64,
    shade: bool,
    rules: PlanRules,
    ahead: usize,
    background: [f32; 3],
    out: &'a Path,
}

pub(super) fn demo(args: &DemoArgs, stop: Stop) -> CommandResult {
    let source = Arc::new(FormulaVolume::new(DEMO_EDGE, DEMO_BRICK)?);
    let volume = source.manifest().volume().clone();
    let turn = Turn {
        shots: vec![Camera::whole(&volume).into()],
        size: (512, 512),
        transfer: FormulaVolume::transfer(),
        step: 0.5 * volume.min_spacing(),
        shade: true,
        rules: PlanRules::default(),
        ahead: FRAMES_AHEAD.into(),
        background: [0.0; 3],
        out: &args.out,
    };
    let mesh = MeshArgs {
        device: args.device,
        peers: args.peers,
        mesh: false,
        wait_peers: 0,
        redundancy: None,
        brick: None,
        memory: None,
        network: NetworkArgs::default(),
        rules: RulesArgs::default(),
    };
    println!(
        "a mesh of {} peers in this process renders a built-in volume of {DEMO_EDGE}³ voxels",
        args.peers
    );
    let stats = run_session(DataSource::Own(source), &mesh, |_| Ok(turn), stop)?;
    println!("{}\nwrote {}", stats.table(), args.out.display());
    Ok(())
}

pub(super) fn render(args: &RenderArgs, stop: Stop) -> CommandResult {
    let mut mesh = args.mesh.clone();
    let source = open_source(&args.volume, &mut mesh, &stop)?;
    if let DataSource::Own(source) = &source {
        // Before anybody is asked for anything.
        turn_of(args, source.manifest())?;
    }
    let stats = run_session(source, &mesh, |manifest| turn_of(args, manifest), stop)?;
    if let Some(path) = &args.stats {
        stats.write(path)?;
    }
    println!("{}", stats.table());
    Ok(())
}

/// The pictures asked for, of a data set.
fn turn_of<'a>(
    args: &'a RenderArgs,
    manifest: &Manifest,
) -> Result<Turn<'a>, Box<dyn std::error::Error>> {
    let picture = &args.picture;
    let turn = Turn {
        shots: path_of(args, manifest.volume())?,
        size: picture.size,
        transfer: transfer_of(picture.transfer.as_deref(), manifest)?,
        step: picture.step * manifest.volume().min_spacing(),
        shade: picture.shade == crate::args::Shade::On,
        rules: args.mesh.rules.rules(),
        ahead: args.ahead.into(),
        background: picture.background,
        out: &args.out,
    };
    for shot in &turn.shots {
        shot.camera.view(turn.size.0, turn.size.1)?;
    }
    Ok(turn)
}

/// All pictures: a file's, or a turn around the volume.
fn path_of(args: &RenderArgs, volume: &VolumeDescription) -> Result<Vec<Shot>, String> {
    if let Some(path) = &args.cameras {
        return shots(path, volume);
    }
    let first = camera(&args.picture, volume);
    let spin = args.spin.unwrap_or(360.0 / f64::from(args.frames));
    Ok((0..args.frames)
        .map(|n| first.spun(spin * f64::from(n)).into())
        .collect())
}

/// Opens a volume for a session; loads it into memory where it is no `.brickmesh` folder. What is
/// no file here is looked for in the mesh: by digest, or with `--mesh` by the name of its file.
pub(crate) fn open_source(
    volume: &Path,
    mesh: &mut MeshArgs,
    stop: &Stop,
) -> Result<DataSource, Box<dyn std::error::Error>> {
    if let Some(name) = volume.to_str().filter(|_| !volume.exists())
        && (mesh.mesh || DataSource::is_digest(name))
    {
        mesh.mesh = true;
        return Ok(DataSource::Named(name.to_owned()));
    }
    if mesh.mesh {
        // Before the volume is read, which may take a while: it is for nothing without the key.
        MeshKey::load(&mesh.network.key_file()?)?;
    }
    let alone = mesh.peers == 1 && !mesh.mesh;
    let edge = mesh
        .brick
        .unwrap_or(if alone { BRICK_ALONE } else { BRICK_SHARED });
    let mut progress = Progress::new("reading the volume");
    // A device on the processor shares the bricks with the source; any other's copies go when it
    // has them, and the source's stay where others may ask for them.
    let memory = mesh.memory.unwrap_or(0).saturating_mul(mesh.peers.into());
    let bytes_max = memory.max(free_memory_bytes() / 2);
    let source = brick_store::open_source(volume, edge, bytes_max, &mut |done, total| {
        progress.show(done, total);
        !stop.is_said()
    })?;
    Ok(DataSource::Own(source))
}

/// The transfer function asked for, or one from the histogram.
pub(crate) fn transfer_of(
    file: Option<&Path>,
    manifest: &Manifest,
) -> Result<TransferFunction, transfer::TransferFileError> {
    let [low, high] = manifest.range().map(|v| manifest.volume().value(v));
    match file {
        Some(path) => transfer::load(path, [low.min(high), low.max(high)]),
        None => Ok(transfer::from_histogram(manifest)),
    }
}

fn run_session<'a>(
    source: DataSource,
    mesh: &MeshArgs,
    turn: impl FnOnce(&Manifest) -> Result<Turn<'a>, Box<dyn std::error::Error>>,
    stop: Stop,
) -> Result<Stats, Box<dyn std::error::Error>> {
    actix::System::new().block_on(async {
        let session = Arc::new(Session::open(source, mesh, stop).await?);
        let rendered = match turn(session.manifest()) {
            Ok(turn) => render_turn(&session, &turn).await,
            Err(error) => Err(error),
        };
        session.close().await;
        rendered
    })
}

/// Frames that are asked for and not yet awaited, the next one first. Nobody waits for them once
/// this is gone.
#[derive(Default)]
struct Ahead(VecDeque<JoinHandle<Result<Frame, SessionError>>>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}

type Writing = JoinHandle<Result<(), PictureError>>;

/// Waits until a picture is on disk.
async fn written(writing: Option<Writing>) -> CommandResult {
    if let Some(writing) = writing {
        writing.await??;
    }
    Ok(())
}

/// Boxes that are missing, in one line, as `--stats` writes them.
fn in_words(missing: &[VoxelBox]) -> String {
    let told = missing.iter().take(BOXES_TOLD_MAX);
    let mut words: Vec<String> = told
        .map(|b| format!("{:?}", <[[u32; 3]; 2]>::from(*b)))
        .collect();
    if missing.len() > BOXES_TOLD_MAX {
        words.push(format!("{} boxes more", missing.len() - BOXES_TOLD_MAX));
    }
    words.join(", ")
}

/// Renders all frames, a few of them under way at a time.
async fn render_turn(
    session: &Arc<Session>,
    turn: &Turn<'_>,
) -> Result<Stats, Box<dyn std::error::Error>> {
    let mut stats = Stats::new(session, &session.status().await?);
    let mut progress = Progress::new("rendering");
    let total = turn.shots.len() as u64;
    let mut ahead = Ahead::default();
    let mut shots = turn.shots.iter();
    let mut done = 0_u32;
    let mut writing: Option<Writing> = None;
    loop {
        while ahead.0.len() < turn.ahead
            && let Some(shot) = shots.next()
        {
            let view = shot.camera.view(turn.size.0, turn.size.1)?;
            let ask = AskFrame {
                data_set: session.data_set(),
                view,
                transfer: turn.transfer.clone(),
                step: turn.step,
                shade: turn.shade,
                rules: PlanRules {
                    steal: shot.steal.unwrap_or(turn.rules.steal),
                    ..turn.rules
                },
            };
            let session = Arc::clone(session);
            ahead
                .0
                .push_back(actix::spawn(async move { session.frame(ask).await }));
        }
        let Some(asked) = ahead.0.pop_front() else {
            written(writing.take()).await?;
            return Ok(stats);
        };
        let frame = asked.await.map_err(|_| SessionError::Ended)??;
        stats.add(session, &frame.stats);
        if !frame.stats.missing.is_empty() {
            let missing = &frame.stats.missing;
            eprintln!(
                "brickmesh: frame {done}: {} boxes are missing, nobody holds them: {}",
                missing.len(),
                in_words(missing)
            );
        }
        let rect = frame.image.rect();
        let path = if total == 1 {
            turn.out.to_owned()
        } else {
            numbered(turn.out, done)
        };
        // Encoding takes longer than many a frame: the requester must not wait for it.
        written(writing.take()).await?;
        let (image, background) = (frame.image, turn.background);
        writing = Some(tokio::task::spawn_blocking(move || {
            write_png(&path, rect.width, rect.height, &image.to_rgba8(background))
        }));
        done += 1;
        progress.show(u64::from(done), total);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_log_names_the_missing_boxes_up_to_a_bound() {
        let missing = [VoxelBox::new([0, 16, 32], [16, 32, 40]); 6];
        assert_eq!(in_words(&missing[..1]), "[[0, 16, 32], [16, 32, 40]]");
        let words = in_words(&missing);
        assert!(words.ends_with("[16, 32, 40]], 2 boxes more"), "{words}");
        assert_eq!(words.matches("[[").count(), BOXES_TOLD_MAX);
    }
}
