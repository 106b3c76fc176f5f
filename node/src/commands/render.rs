//! `render` and `demo`: pictures without a window.

use super::CommandResult;
use crate::{
    args::{DemoArgs, MeshArgs, NetworkArgs, RenderArgs, RulesArgs, VolumeArgs},
    brick_store,
    camera_choice::{Shot, camera, needs_default, shots},
    formula::FormulaVolume,
    framing::framed,
    free_memory::free_memory_bytes,
    network::MeshKey,
    picture::{PictureError, numbered, write_png},
    picture_settings::PictureSettings,
    progress::Progress,
    session::{DataSource, Session, SessionError},
    stats::Stats,
    stop::Stop,
};
use brickmesh_actors::{data_set::BrickSource, requester::Frame};
use brickmesh_topology::{Camera, Manifest, VolumeDescription, VoxelBox, frame_plan::PlanRules};
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
    /// Whose default camera the shots are to have, once it is known.
    to_frame: Option<&'a RenderArgs>,
    size: (u32, u32),
    settings: PictureSettings,
    ahead: usize,
    out: &'a Path,
}

pub(super) fn demo(args: &DemoArgs, stop: Stop) -> CommandResult {
    let source = Arc::new(FormulaVolume::new(DEMO_EDGE, DEMO_BRICK)?);
    let volume = source.manifest().volume().clone();
    let turn = Turn {
        shots: vec![Camera::orbit(&volume, 45.0, 35.0, 1.5).into()],
        to_frame: None,
        size: (512, 512),
        settings: PictureSettings {
            transfer: FormulaVolume::transfer(),
            step: 0.5 * volume.min_spacing(),
            shade: true,
            jitter: true,
            background: [0.0; 3],
            rules: PlanRules::default(),
            told: Vec::new(),
        },
        ahead: FRAMES_AHEAD.into(),
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
    let source = open_source(&args.source, &mut mesh, &stop)?;
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
    let volume = manifest.volume();
    let to_frame = args.cameras.is_none() && needs_default(picture);
    let turn = Turn {
        shots: path_of(args, volume, Camera::whole(volume))?,
        to_frame: to_frame.then_some(args),
        size: picture.size,
        settings: PictureSettings::of(picture, args.mesh.rules.rules(), manifest)?,
        ahead: args.ahead.into(),
        out: &args.out,
    };
    for shot in &turn.shots {
        shot.camera.view(turn.size.0, turn.size.1)?;
    }
    Ok(turn)
}

/// All pictures: a file's, or a turn around the volume that begins at the camera asked for; what is
/// left out of that is as in `default`.
fn path_of(
    args: &RenderArgs,
    volume: &VolumeDescription,
    default: Camera,
) -> Result<Vec<Shot>, String> {
    if let Some(path) = &args.cameras {
        return shots(path, volume);
    }
    let first = camera(&args.picture, volume, default);
    let spin = args.spin.unwrap_or(360.0 / f64::from(args.frames));
    Ok((0..args.frames)
        .map(|n| first.spun(spin * f64::from(n)).into())
        .collect())
}

/// Opens a volume for a session; loads it into memory where it is no `.brickmesh` folder. What is
/// no file here is looked for in the mesh: by digest, or with `--mesh` by the name of its file.
pub(crate) fn open_source(
    args: &VolumeArgs,
    mesh: &mut MeshArgs,
    stop: &Stop,
) -> Result<DataSource, Box<dyn std::error::Error>> {
    let volume = args.volume.as_path();
    if let Some(name) = volume.to_str().filter(|_| !volume.exists())
        && (mesh.mesh || DataSource::is_digest(name))
    {
        if args.fill.is_some() {
            return Err(
                "--fill belongs to a file: who opened the data set has said what is no data".into(),
            );
        }
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
    let source =
        brick_store::open_source(volume, args.fill, edge, bytes_max, &mut |done, total| {
            progress.show(done, total);
            !stop.is_said()
        })?;
    Ok(DataSource::Own(source))
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
            Ok(turn) => render_turn(&session, turn).await,
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
    mut turn: Turn<'_>,
) -> Result<Stats, Box<dyn std::error::Error>> {
    let settings = &turn.settings;
    settings.tell();
    if let Some(args) = turn.to_frame {
        let fov = args.picture.camera.and_then(|c| c.fov);
        let default = framed(session, settings, turn.size, fov).await?;
        turn.shots = path_of(args, session.manifest().volume(), default)?;
    }
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
            let mut ask = settings.ask(session.data_set(), view);
            ask.rules.steal = shot.steal.unwrap_or(ask.rules.steal);
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
        let (image, background) = (frame.image, settings.background);
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
