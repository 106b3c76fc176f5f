//! `render` and `demo`: pictures without a window.

use super::CommandResult;
use crate::{
    args::{DemoArgs, MeshArgs, QualityArg, RenderArgs},
    camera_choice::{Shot, camera, shots},
    camera_path_file,
    demo_volume::demo_source,
    open_source::open_source,
    overlay::Overlay,
    picture::{self, numbered},
    picture_settings::PictureSettings,
    scene_file,
    session::{DataSource, Session},
    stats::StatsFile,
    stop::Stop,
    terminal::{note, say},
    trace_file::TraceFile,
    turn::Turn,
    video::Video,
};
use brickmesh_actors::plain_text::counted;
use brickmesh_topology::{
    Manifest, RenderSettings,
    balance::plan_rules::PlanRules,
    picture::{camera_path::CameraPath, framing::default_camera, render_settings::Mode},
};
use std::{
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};

/// Edge of the demo's picture in pixels.
const DEMO_PIXELS: u32 = 512;
/// What a video cannot be made of.
const ONE_PICTURE: &str = "--video needs several pictures: --frames, --path or --cameras";
/// Frames of the demo that are asked for before the first of them is awaited.
const FRAMES_AHEAD: u8 = 2;

pub(super) fn demo(args: &DemoArgs, stop: Stop) -> CommandResult {
    picture::check(&args.out)?;
    let source = demo_source()?;
    let manifest = source.manifest();
    let size = (DEMO_PIXELS, DEMO_PIXELS);
    let transfer = Mode::default().default_transfer(manifest).function;
    let step = 0.5 * manifest.volume().min_spacing();
    let turn = Turn {
        shots: vec![default_camera(manifest, size, None).into()],
        size,
        settings: PictureSettings {
            render: RenderSettings::new(transfer, step),
            quality: QualityArg::Exact,
            rules: PlanRules::default(),
            overlay: Overlay::default(),
            slices: None,
            told: Vec::new(),
        },
        ahead: FRAMES_AHEAD.into(),
        out: &args.out,
        stats: None,
        trace: None,
        is_transparent: false,
        whole: true,
        began: Instant::now(),
        deadline: None,
    };
    let mesh = MeshArgs {
        whole: true,
        ..MeshArgs::here(args.device, args.peers)
    };
    say(format_args!(
        "a mesh of {} in this process renders an arteriovenous fistula (MR angiography)",
        counted(args.peers, "peer")
    ))?;
    let stats = run_session(DataSource::Own(source), &mesh, stop, async |session| {
        let mut turn = turn;
        turn.render(&session).await
    })?;
    say(format_args!(
        "{}\nwrote {}",
        stats.table(),
        args.out.display()
    ))?;
    Ok(())
}

pub(super) fn render(args: &RenderArgs, stop: Stop) -> CommandResult {
    let picture = scene_file::picture_args(&args.source.volume, &args.picture)?;
    let args = RenderArgs {
        picture,
        ..args.clone()
    };
    render_pictures(&args, stop)
}

fn render_pictures(args: &RenderArgs, stop: Stop) -> CommandResult {
    let began = Instant::now();
    // Before anything is read or rendered: it would be for nothing.
    let path = args
        .path
        .as_deref()
        .map(camera_path_file::read)
        .transpose()?;
    let count = match (&path, &args.cameras) {
        (Some(path), _) => Some(path.frames()),
        (None, Some(_)) => None,
        (None, None) => Some(args.frames),
    };
    let first = if count != Some(1) {
        numbered(&args.out, 0)
    } else {
        args.out.clone()
    };
    picture::check(&first)?.is_not(&args.source.volume, "the volume")?;
    let stats_file = args.stats.as_deref().map(StatsFile::check).transpose()?;
    if let Some(file) = &stats_file {
        file.is_not(&args.source.volume, "the volume")?;
        file.is_not(&first, "the picture")?;
    }
    let trace = args.trace.as_deref().map(TraceFile::check).transpose()?;
    if let Some(trace) = &trace {
        trace.file().is_not(&args.source.volume, "the volume")?;
        trace.file().is_not(&first, "the picture")?;
    }
    let video = check_video(args, count)?;
    let mut mesh = args.mesh.clone();
    let source = open_source(&args.source, &args.surfaces, &mut mesh, &stop.goes_on())?;
    if let DataSource::Own(source) = &source {
        // Before anybody is asked for anything.
        settings_and_shots(args, path.as_ref(), source.manifest())?;
    }
    let stats = run_session(source, &mesh, stop.clone(), async |session| {
        let (settings, shots) = settings_and_shots(args, path.as_ref(), session.manifest())?;
        settings.tell();
        if video.is_some() && shots.len() == 1 {
            return Err(ONE_PICTURE.into());
        }
        let mut turn = Turn {
            shots,
            size: args.picture.size,
            settings,
            ahead: if args.trace.is_some() {
                1
            } else {
                args.ahead.into()
            },
            out: &args.out,
            stats: stats_file,
            trace,
            is_transparent: args.transparent,
            whole: args.mesh.whole,
            began,
            deadline: args.deadline.map(|ms| Duration::from_secs_f64(ms / 1e3)),
        };
        turn.render(&session).await
    })?;
    say(format_args!(
        "{}\n{}",
        stats.table(),
        written(args, stats.frame_count())
    ))?;
    if let Some(video) = video {
        video?.make(&args.out, u32::try_from(stats.frame_count())?, &stop)?;
        let to = args.video.as_deref().unwrap_or(&args.out);
        say(format_args!("wrote {}", to.display()))?;
    }
    Ok(())
}

/// The video that is asked for; where this machine cannot make one, why, which is told at once.
fn check_video(
    args: &RenderArgs,
    pictures: Option<u32>,
) -> Result<Option<Result<Video, String>>, Box<dyn Error>> {
    let Some(to) = &args.video else {
        return Ok(None);
    };
    let video = Video::check(to, args.fps)?;
    video.file().is_not(&args.source.volume, "the volume")?;
    if let Some(stats) = &args.stats {
        video.file().is_not(stats, "what --stats writes")?;
    }
    if pictures == Some(1) {
        return Err(ONE_PICTURE.into());
    }
    let is_there = Video::program_is_there();
    match &is_there {
        Ok(()) => video.check_format()?,
        Err(why) => note(format_args!("brickmesh: {why}")),
    }
    Ok(Some(is_there.map(|()| video)))
}

/// What was written, for people.
fn written(args: &RenderArgs, pictures: usize) -> String {
    let stats = args.stats.as_ref();
    let stats = stats.map_or_else(String::new, |path| format!(" and {}", path.display()));
    if pictures == 1 {
        return format!("wrote {}{stats}", args.out.display());
    }
    let last = u32::try_from(pictures.saturating_sub(1)).unwrap_or(u32::MAX);
    let [first, last] = [0, last].map(|n| numbered(&args.out, n));
    format!("wrote {} … {}{stats}", first.display(), last.display())
}

/// What the pictures have in common, and from where they are.
fn settings_and_shots(
    args: &RenderArgs,
    path: Option<&CameraPath>,
    manifest: &Manifest,
) -> Result<(PictureSettings, Vec<Shot>), Box<dyn Error>> {
    let picture = &args.picture;
    let shots = shots_of(args, path, manifest)?;
    for shot in &shots {
        shot.camera.view(picture.size.0, picture.size.1)?;
    }
    let settings = PictureSettings::of(
        picture,
        args.mesh.rules.rules(picture.sends_rays())?,
        manifest,
    )?;
    Ok((settings, shots))
}

/// All pictures: a path's, a file's, or a turn around the volume that begins at the camera asked for.
fn shots_of(
    args: &RenderArgs,
    path: Option<&CameraPath>,
    manifest: &Manifest,
) -> Result<Vec<Shot>, String> {
    if let Some(path) = path {
        let cameras = (0..path.frames()).filter_map(|frame| path.camera(frame));
        return Ok(cameras.map(Shot::from).collect());
    }
    if let Some(path) = &args.cameras {
        let mut shots = shots(path, manifest, args.picture.size)?;
        for shot in &mut shots {
            shot.camera.projection = args.picture.projection.unwrap_or_default();
        }
        return Ok(shots);
    }
    let first = camera(&args.picture, manifest)?;
    let spin = args.spin.unwrap_or(360.0 / f64::from(args.frames));
    Ok((0..args.frames)
        .map(|n| first.spun(spin * f64::from(n)).into())
        .collect())
}

/// Runs something in a session, and leaves it politely however that ends.
pub(super) fn run_session<T>(
    source: DataSource,
    mesh: &MeshArgs,
    stop: Stop,
    work: impl AsyncFnOnce(Arc<Session>) -> Result<T, Box<dyn Error>>,
) -> Result<T, Box<dyn Error>> {
    actix::System::new().block_on(async {
        let session = Arc::new(Session::open(source, mesh, stop).await?);
        let result = work(Arc::clone(&session)).await;
        session.close().await;
        result
    })
}
