//! A turn of pictures: asked for in bands of whole rows, a few under way at a time, and written as they
//! come.
//!
//! Invariant: whatever the size of a picture, this machine holds a few of its bands and never all of
//! it, but where there is a deadline for it.

mod by_deadline;

use crate::{
    args::QualityArg,
    camera_choice::Shot,
    output_file::{OutputError, OutputFile},
    overlay::OverlayPicture,
    picture::{self, numbered, write_png},
    picture_settings::{PictureSettings, isosurfaces_of},
    progress::Progress,
    session::{Session, SessionError},
    short_numbers::{short, short_range},
    stats::{Stats, StatsFile},
    stop::Stop,
    terminal::note,
    trace_file::TraceFile,
};
use brickmesh_actors::requester::{Frame, FrameStats};
use brickmesh_shaders::sub_image::SubImage;
use brickmesh_topology::{
    Manifest, PixelRect, RenderSettings, VoxelBox,
    picture::{camera::bands, clip::Clip, finish::Finish, visible_cells::VisibleCells},
};
use std::{
    collections::{BTreeSet, VecDeque},
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::mpsc, task::JoinHandle};

/// Nothing, or why a turn has ended.
type TurnResult = Result<(), Box<dyn std::error::Error>>;

/// Missing boxes that a line of the log names; `--stats` has all of them.
const BOXES_TOLD_MAX: usize = 4;
/// Pixels of a band, at most, unless a row has more: 64 MiB while it is blended.
const BAND_PIXELS_MAX: u64 = 1 << 22;
/// Bands that wait to be written.
const BANDS_WAITING: usize = 1;
/// What differs from the background less than this everywhere is not seen.
const CONTRAST_MIN: f32 = 1.0 / 512.0;

/// The pictures of a turn.
pub(crate) struct Turn<'a> {
    pub(crate) shots: Vec<Shot>,
    pub(crate) size: (u32, u32),
    pub(crate) settings: PictureSettings,
    pub(crate) ahead: usize,
    pub(crate) out: &'a Path,
    pub(crate) stats: Option<StatsFile>,
    pub(crate) trace: Option<TraceFile>,
    /// There is no background.
    pub(crate) is_transparent: bool,
    /// Missing bricks are an error.
    pub(crate) whole: bool,
    /// When it began, and how long each picture may take.
    pub(crate) began: Instant,
    pub(crate) deadline: Option<Duration>,
}

/// Bands that are asked for and not yet awaited, since when, the next one first. Nobody waits for them once
/// this is gone.
#[derive(Default)]
struct Ahead(VecDeque<(Instant, JoinHandle<Result<Frame, SessionError>>)>);

impl Drop for Ahead {
    fn drop(&mut self) {
        self.0.iter().for_each(|(_, band)| band.abort());
    }
}

/// A picture that is being written.
struct Writing {
    overlay: Option<OverlayPicture>,
    bands: mpsc::Sender<Vec<u8>>,
    done: JoinHandle<Result<(), OutputError>>,
}

impl Writing {
    fn begin(file: OutputFile, size: (u32, u32), overlay: Option<OverlayPicture>) -> Self {
        let (bands, mut waiting) = mpsc::channel(BANDS_WAITING);
        let write = move || {
            let rows = std::iter::from_fn(|| waiting.blocking_recv());
            write_png(&file, size, rows)
        };
        let done = tokio::task::spawn_blocking(write);
        Self {
            overlay,
            bands,
            done,
        }
    }

    /// Writes a band more. A pipe may take its time, and need not be waited for to the end.
    async fn take(&self, rows: Vec<u8>, stop: &mut Stop) -> Result<bool, SessionError> {
        tokio::select! {
            sent = self.bands.send(rows) => Ok(sent.is_ok()),
            () = stop.said() => Err(SessionError::Stopped),
        }
    }

    /// Waits until the picture is where it shall be.
    async fn end(self, stop: &mut Stop) -> TurnResult {
        drop(self.bands);
        tokio::select! {
            done = self.done => Ok(done??),
            () = stop.said() => Err(SessionError::Stopped.into()),
        }
    }
}

/// What came of a picture so far.
#[derive(Default)]
struct Done {
    stats: Vec<FrameStats>,
    /// Whether some pixel differs from the background.
    is_seen: bool,
    since: Option<Instant>,
}

impl Turn<'_> {
    fn finished(&self) -> Finish {
        Finish {
            is_transparent: self.is_transparent,
            ..self.settings.render.finish()
        }
    }

    /// What is drawn over a picture.
    fn overlay(&self, session: &Session, shot: usize) -> Option<OverlayPicture> {
        let camera = &self.shots[shot].camera;
        let PictureSettings {
            overlay, render, ..
        } = &self.settings;
        OverlayPicture::new(overlay, self.size, camera, session.manifest(), render)
    }

    /// Where the n-th picture goes.
    fn path(&self, index: u32) -> PathBuf {
        if self.shots.len() == 1 {
            self.out.to_owned()
        } else {
            numbered(self.out, index)
        }
    }

    /// Renders all pictures.
    pub(crate) async fn render(
        &mut self,
        session: &Arc<Session>,
    ) -> Result<Stats, Box<dyn std::error::Error>> {
        let mut levels = self.levels(session)?;
        if let Some(limit) = self.deadline {
            let mut stats = Stats::new(session.manifest(), &session.status().await?);
            let result = self.render_by(session, (&levels, limit), &mut stats).await;
            return self.told(result, stats);
        }
        // Coarse ones first: they are the soonest there.
        for level in levels
            .iter()
            .copied()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .rev()
        {
            if self.settings.quality == QualityArg::Auto {
                let (finer, _) = session.open_level_or_finer(level).await?;
                let of_it = levels.iter_mut().filter(|l| **l == level);
                of_it.for_each(|l| *l = finer);
            } else {
                session.open_level(level).await?;
            }
        }
        let finest = levels.iter().min().copied().unwrap_or(0);
        let finest = session.open_level(finest).await?;
        let mut stats = Stats::new(&finest, &session.status().await?);
        let result = self.render_all(session, &levels, &mut stats).await;
        self.told(result, stats)
    }

    /// Writes what is told of the pictures.
    fn told(
        &mut self,
        result: TurnResult,
        stats: Stats,
    ) -> Result<Stats, Box<dyn std::error::Error>> {
        // What came before an interruption is kept, and the interruption is what is told.
        let written = self
            .stats
            .as_mut()
            .map_or(Ok(()), |file| file.write(&stats));
        if let (Err(_), Err(error)) = (&result, &written) {
            tracing::warn!("{error}");
        }
        result?;
        written?;
        if let Some(trace) = &self.trace {
            trace.write(&stats.names())?;
        }
        Ok(stats)
    }

    /// The level that each picture needs.
    fn levels(&self, session: &Session) -> Result<Vec<usize>, Box<dyn std::error::Error>> {
        let (quality, clip) = (self.settings.quality, &self.settings.render.clip);
        if quality == QualityArg::Auto && session.manifest().levels().is_empty() {
            note("brickmesh: the data set has no levels: --quality auto is exact");
        }
        let (width, height) = self.size;
        let level = |shot: &Shot| {
            let view = shot.camera.view(width, height)?;
            Ok(session.level_of(quality, &view, clip)?)
        };
        self.shots.iter().map(level).collect()
    }

    async fn render_all(
        &mut self,
        session: &Arc<Session>,
        levels: &[usize],
        stats: &mut Stats,
    ) -> TurnResult {
        let bands = bands(self.whole_picture(), BAND_PIXELS_MAX);
        let total = (self.shots.len() * bands.len()) as u64;
        let mut progress = Progress::new("rendering");
        let (mut ahead, mut asked) = (Ahead::default(), 0);
        // The one that is being written, and the one before, which may still be.
        let mut writing: Option<Writing> = None;
        let mut before: Option<Writing> = None;
        let mut done = Done::default();
        let mut stop = session.stop();
        for got in 0..total {
            while ahead.0.len() < self.ahead && asked < total {
                let (shot, band) = self.place(asked, bands.len());
                let manifest = session.open_level(levels[shot]).await?;
                let asked_for = self.ask(session, &manifest, shot, bands[band])?;
                ahead.0.push_back((Instant::now(), asked_for));
                asked += 1;
            }
            let Some((since, frame)) = ahead.0.pop_front() else {
                break;
            };
            done.since.get_or_insert(since);
            let frame = frame.await.map_err(|_| SessionError::Ended)??;
            let (shot, band) = self.place(got, bands.len());
            let index = u32::try_from(shot)?;
            let picture = match writing.take() {
                Some(picture) => picture,
                None => {
                    if let Some(before) = before.take() {
                        before.end(&mut stop).await?;
                    }
                    let overlay = self.overlay(session, shot);
                    Writing::begin(picture::check(&self.path(index))?, self.size, overlay)
                }
            };
            let finish = self.finished();
            let rows_of = [bands[band].y, self.size.1];
            done.is_seen = done.is_seen || is_seen(&frame.image, &finish, rows_of);
            let mut rows = frame.image.finished(&finish, rows_of[0], rows_of[1]);
            if let Some(overlay) = &picture.overlay {
                overlay.draw(&mut rows, bands[band].y);
            }
            if !picture.take(rows, &mut stop).await? {
                // It has ended before, and says why.
                picture.end(&mut stop).await?;
                return Err("a picture was not written to its end".into());
            }
            if let Some(trace) = &mut self.trace {
                trace.add(&frame.stats);
            }
            done.stats.push(frame.stats);
            progress.show(got + 1, total);
            if band + 1 < bands.len() {
                writing = Some(picture);
                continue;
            }
            before = Some(picture);
            let whole = std::mem::take(&mut done);
            self.finish(session, stats, levels[shot], index, whole)
                .await?;
        }
        if let Some(before) = before {
            before.end(&mut stop).await?;
        }
        Ok(())
    }

    fn whole_picture(&self) -> PixelRect {
        PixelRect {
            x: 0,
            y: 0,
            width: self.size.0,
            height: self.size.1,
        }
    }

    /// The picture and the band that the n-th frame is.
    fn place(&self, number: u64, bands: usize) -> (usize, usize) {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        (number / bands, number % bands)
    }

    fn ask(
        &self,
        session: &Arc<Session>,
        level: &Manifest,
        shot: usize,
        band: PixelRect,
    ) -> Result<JoinHandle<Result<Frame, SessionError>>, Box<dyn std::error::Error>> {
        let shot = self.shots[shot];
        let view = shot.camera.view(self.size.0, self.size.1)?.part(band);
        let PictureSettings { render, rules, .. } = &self.settings;
        let mut ask = session.ask(level, view, render, *rules);
        ask.is_traced = self.trace.is_some();
        ask.rules.steal = shot.steal.unwrap_or(ask.rules.steal);
        let session = Arc::clone(session);
        Ok(actix::spawn(async move { session.frame(ask).await }))
    }

    /// Counts a picture, and says what is wrong with it.
    async fn finish(
        &mut self,
        session: &Session,
        stats: &mut Stats,
        level: usize,
        index: u32,
        done: Done,
    ) -> TurnResult {
        let took = done.since.map_or(Duration::ZERO, |since| since.elapsed());
        let is_new = stats.lacks_some_of(&done.stats);
        if is_new {
            stats.learn(&session.status().await?);
        }
        stats.add(level, &done.stats, took);
        if let Some(file) = &mut self.stats {
            file.write_if_due(stats)?;
        }
        let missing = stats.missing();
        if !missing.is_empty() {
            note(format_args!(
                "brickmesh: frame {index}: {} missing, nobody holds {}: {}",
                counted_boxes(missing.len()),
                if missing.len() == 1 { "it" } else { "them" },
                in_words(missing)
            ));
            if self.whole {
                return Err("not all of the volume can be shown, and --whole was asked for".into());
            }
        }
        if !done.is_seen && missing.is_empty() {
            let path = self.path(index);
            let mut why = self.why_nothing(session, &done.stats);
            if level > 0 {
                why = format!(
                    "it is of level {level}, which ends half of its voxels inside of the volume and has means of its values; \
                     --quality exact may show something. Else: {why}"
                );
            }
            note(format_args!(
                "brickmesh: nothing is visible in {}: {why}",
                path.display()
            ));
        }
        Ok(())
    }

    /// Why a picture shows nothing, for people.
    fn why_nothing(&self, session: &Session, stats: &[FrameStats]) -> String {
        let manifest = session.manifest();
        let render = &self.settings.render;
        let transfer = &render.transfer;
        let Some(range) = manifest.value_range() else {
            return match manifest.materials() {
                [] => "every voxel is no data".to_owned(),
                _ => "no ray meets a triangle: all are outside of the picture, clipped away, thinner than pixels, or as dark as the background".to_owned(),
            };
        };
        let data = format!("the data are {}", short_range(range));
        let visible = VisibleCells::of(manifest, render);
        let shows_any =
            |visible: &VisibleCells| manifest.grid().bricks().any(|brick| visible.any(brick));
        if !shows_any(&visible) {
            let whole = RenderSettings {
                clip: Clip::default(),
                ..render.clone()
            };
            if shows_any(&VisibleCells::of(manifest, &whole)) {
                return format!(
                    "all that is visible of the volume, which has {:?} voxels, is clipped away",
                    manifest.volume().dims
                );
            }
            if !render.mode.has_samples() {
                return format!("{} are between no voxels; {data}", isosurfaces_of(render));
            }
            let shapes = render.shapes();
            if !shapes.is_empty() {
                return format!("no shape of the 2D transfer function shows any value; {data}");
            }
            let shown = transfer
                .points
                .windows(2)
                .filter(|p| p[0].opacity.max(p[1].opacity) > 0.0);
            let ends = shown.map(|p| [p[0].value, p[1].value]);
            return match ends.reduce(|a, b| [a[0].min(b[0]), a[1].max(b[1])]) {
                Some([from, to]) => format!(
                    "the transfer function shows {}, {data}; --transfer-range data stretches it over them",
                    short_range([from, to])
                ),
                None => format!("the transfer function is transparent everywhere; {data}"),
            };
        }
        if stats.iter().all(|s| s.jobs.is_empty()) {
            let middle = manifest.volume().center_in_world();
            return format!(
                "what is visible of the volume is not in view of the camera; the volume's middle is {:?}, its diagonal {}",
                middle.to_array(),
                short(manifest.volume().diagonal())
            );
        }
        self.why_dark(&data)
    }

    /// Why nothing is seen of what is visible and in view.
    fn why_dark(&self, data: &str) -> String {
        let render = &self.settings.render;
        let points = &render.transfer.points;
        let ends = [points.first(), points.last()];
        let ends = short_range(ends.map(|p| p.map_or(0.0, |p| p.value)));
        if render.mode.combines_values() {
            return format!(
                "what the rays come to is as dark as the background; the transfer function's values are {ends}, {data}; --transfer-range LOW,HIGH says what is black and what white"
            );
        }
        let finish = self.finished();
        if finish.is_toned() {
            return format!(
                "with exposure {} and gamma {} all that is seen is as the background, or it is transparent",
                finish.exposure, finish.gamma
            );
        }
        let of = if render.mode.has_samples() {
            format!("the transfer function's values {ends}")
        } else {
            isosurfaces_of(render)
        };
        format!(
            "all that the camera sees is transparent, as the background, or smaller than a pixel; {data}, {of}"
        )
    }
}

/// Whether some pixel of a part of a picture, from a row on, is not as if there were no volume.
fn is_seen(image: &SubImage, finish: &Finish, [first, height]: [u32; 2]) -> bool {
    let width = image.rect().width.max(1) as usize;
    let mut rows = image.pixels().chunks_exact(width).zip(first..);
    rows.any(|(row, y)| {
        let background = finish.background_at(y, height);
        let empty = finish.pixel([0.0; 4], background);
        let differs = |p: &[f32; 4]| {
            let pixel = finish.pixel(*p, background);
            (0..4).any(|c| (pixel[c] - empty[c]).abs() >= CONTRAST_MIN)
        };
        row.iter().any(differs)
    })
}

fn counted_boxes(count: usize) -> String {
    match count {
        1 => "1 box is".to_owned(),
        n => format!("{n} boxes are"),
    }
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
