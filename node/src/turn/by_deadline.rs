//! Pictures by a deadline: of each a coarse level first, then finer ones as long as there is time. One in which boxes are missing, as peers have just
//! opened its level, takes the place of no whole one, and is tried again.

use super::{Ahead, BAND_PIXELS_MAX, Done, Turn, TurnResult, Writing, is_seen};
use crate::{
    picture,
    progress::Progress,
    session::{OpenLevels, Session, SessionError},
    stats::Stats,
    terminal::note,
};
use brickmesh_topology::picture::{camera::bands, level_choice::next_level};
use std::{
    collections::BTreeMap,
    error::Error,
    sync::Arc,
    time::{Duration, Instant},
};
use tokio::{sync::watch, task::JoinHandle};

/// Levels that are being opened, the coarsest first. Nobody opens more of them once this is gone.
struct Opening {
    opened: watch::Receiver<OpenLevels>,
    task: JoinHandle<Result<(), SessionError>>,
    is_done: bool,
}

impl Drop for Opening {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Opening {
    fn begin(session: &Arc<Session>, goal: usize) -> Self {
        let opened = session.open_levels();
        let session = Arc::clone(session);
        let task = actix::spawn(async move {
            for level in (goal..session.volumes().len()).rev() {
                match session.open_level_soon(level).await {
                    Err(error @ SessionError::Level { .. }) if level > goal => {
                        tracing::warn!("{error}; finer ones are seen");
                    }
                    opened => drop(opened?),
                }
            }
            Ok(())
        });
        Self {
            opened,
            task,
            is_done: false,
        }
    }

    /// Waits until more are open, or all are.
    async fn more(&mut self) -> Result<(), Box<dyn Error>> {
        tokio::select! {
            changed = self.opened.changed() => changed.map_err(|_| SessionError::Ended)?,
            done = &mut self.task => {
                self.is_done = true;
                done.map_err(|_| SessionError::Ended)??;
            }
        }
        Ok(())
    }
}

/// Between two trials at a level of which boxes were missing.
const AGAIN: Duration = Duration::from_millis(50);

/// A picture that was rendered.
struct Picture {
    level: usize,
    /// The rows of each band.
    bands: Vec<Vec<u8>>,
    done: Done,
}

impl Picture {
    fn is_whole(&self) -> bool {
        self.done.stats.iter().all(|band| band.missing.is_empty())
    }
}

impl Turn<'_> {
    /// Renders all pictures, each within so much time if any of it is there by then; `goals`: the level that each shows if
    /// there is time.
    pub(super) async fn render_by(
        &mut self,
        session: &Arc<Session>,
        (goals, limit): (&[usize], Duration),
        stats: &mut Stats,
    ) -> TurnResult {
        let finest = goals.iter().min().copied().unwrap_or(0);
        let mut opening = Opening::begin(session, finest);
        let mut progress = Progress::new("rendering");
        let mut since = self.began;
        let mut stop = session.stop();
        for (shot, &goal) in goals.iter().enumerate() {
            let best = self.best_by(session, (shot, goal), since, limit, &mut opening);
            let best = best.await?;
            if best.level > goal {
                note(format_args!(
                    "brickmesh: frame {shot} is of level {}: finer ones were not there within {} ms",
                    best.level,
                    limit.as_millis()
                ));
            }
            let index = u32::try_from(shot)?;
            let file = picture::check(&self.path(index))?;
            let writing = Writing::begin(file, self.size, None);
            for band in best.bands {
                // One that has ended before says why at its end.
                if !writing.take(band, &mut stop).await? {
                    break;
                }
            }
            writing.end(&mut stop).await?;
            self.finish(session, stats, best.level, index, best.done)
                .await?;
            progress.show(shot as u64 + 1, goals.len() as u64);
            since = Instant::now();
        }
        Ok(())
    }

    /// The finest whole picture, no finer than its goal, that is there in time; the first one however long it takes. Where none is whole, one that is not.
    async fn best_by(
        &self,
        session: &Arc<Session>,
        (shot, goal): (usize, usize),
        since: Instant,
        limit: Duration,
        opening: &mut Opening,
    ) -> Result<Picture, Box<dyn Error>> {
        let mut best: Option<Picture> = None;
        let mut times: Vec<(usize, Duration)> = Vec::new();
        // Levels of which boxes were missing, and when that was.
        let mut tried: BTreeMap<usize, Instant> = BTreeMap::new();
        loop {
            let left = limit.saturating_sub(since.elapsed());
            let is_good = |best: &Picture| best.level <= goal && best.is_whole();
            if let Some(best) = best.take_if(|best| is_good(best) || left.is_zero()) {
                return Ok(best);
            }
            let whole = best.as_ref().filter(|best| best.is_whole());
            let open: Vec<usize> = opening.opened.borrow_and_update().keys().copied().collect();
            let finer = open.into_iter().filter(|&l| l >= goal);
            let finer = finer.filter(|l| whole.is_none_or(|best| *l < best.level));
            let is_due = |l: &usize| tried.get(l).is_none_or(|at| at.elapsed() >= AGAIN);
            let next = next_level(&times, finer.filter(is_due).rev(), left);
            if next.is_none() && opening.is_done && tried.is_empty() {
                return best.ok_or_else(|| SessionError::Ended.into());
            }
            let is_done = opening.is_done;
            let work = async {
                match next {
                    Some(level) => self.picture(session, shot, level, since).await.map(Some),
                    None if tried.is_empty() => opening.more().await.map(|()| None),
                    None => tokio::select! {
                        more = opening.more(), if !is_done => more.map(|()| None),
                        () = tokio::time::sleep(AGAIN) => Ok(None),
                    },
                }
            };
            let begun = Instant::now();
            let done = if best.is_some() {
                tokio::time::timeout(left, work).await
            } else {
                Ok(work.await)
            };
            match done {
                Ok(Ok(Some(picture))) => {
                    if picture.is_whole() {
                        tried.remove(&picture.level);
                        times.push((picture.level, begun.elapsed()));
                    } else {
                        tried.insert(picture.level, Instant::now());
                    }
                    if picture.is_whole() || best.as_ref().is_none_or(|best| !best.is_whole()) {
                        best = Some(picture);
                    }
                }
                Ok(Err(error)) => return Err(error),
                // More levels are open, or the time is over.
                Ok(Ok(None)) | Err(_) => {}
            }
        }
    }

    /// A picture of a level.
    async fn picture(
        &self,
        session: &Arc<Session>,
        shot: usize,
        level: usize,
        since: Instant,
    ) -> Result<Picture, Box<dyn Error>> {
        let manifest = session.open_level(level).await?;
        let overlay = self.overlay(session, shot);
        let finish = self.finished();
        let mut picture = Picture {
            level,
            bands: Vec::new(),
            done: Done {
                since: Some(since),
                ..Done::default()
            },
        };
        for band in bands(self.whole_picture(), BAND_PIXELS_MAX) {
            let mut ahead = Ahead::default();
            let asked = self.ask(session, &manifest, shot, band)?;
            ahead.0.push_back((Instant::now(), asked));
            let Some((_, asked)) = ahead.0.front_mut() else {
                continue;
            };
            let frame = asked.await.map_err(|_| SessionError::Ended)??;
            ahead.0.clear();
            let done = &mut picture.done;
            done.is_seen |= is_seen(&frame.image, &finish, [band.y, self.size.1]);
            let mut rows = frame.image.finished(&finish, band.y, self.size.1);
            if let Some(overlay) = &overlay {
                overlay.draw(&mut rows, band.y);
            }
            picture.bands.push(rows);
            done.stats.push(frame.stats);
        }
        Ok(picture)
    }
}
