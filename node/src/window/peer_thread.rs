//! The thread of the viewer's peer: opens volumes, keeps the mesh going and renders what the window wants,
//! the latest alone.

use super::{
    AskedVolume, FrameReport, JobsDone, MeshReport, Opened, PeerRow, PictureFile, Shown, Slot,
    Told, Wanted, Wish,
    canvas::Canvas,
    following, missing,
    panes::{PANES, Pane},
    scene::Scene,
};
use crate::{
    args::{MeshArgs, QualityArg, SurfaceArgs, ViewArgs, VolumeArgs},
    camera_choice::camera,
    open_source::open_source,
    picture_settings::PictureSettings,
    session::{DataSource, OpenLevels, Session, SessionError},
    stop::{GoesOn, Stop},
    turn::Turn,
    value_report::ValueReport,
};
use brickmesh_actors::{
    plain_text::plain_text,
    requester::{AskFrame, Frame},
};
use brickmesh_shaders::{Scene as RenderedScene, SubImage, transfer_table::TransferTable};
use brickmesh_topology::{
    Camera, View, VolumeDescription,
    balance::plan_rules::PlanRules,
    data::levels::in_exact,
    picture::{
        quality::{Choice, Fineness, Qualities},
        slice_views::SliceViews,
    },
};
use std::{
    collections::BTreeMap,
    convert::Infallible,
    path::PathBuf,
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::{mpsc, watch};
use winit::event_loop::EventLoopProxy;

/// A camera that the wheel moved rests after this.
const REST: Duration = Duration::from_millis(150);
/// How often the window is told who is in the mesh.
const REPORT: Duration = Duration::from_millis(500);
/// An exact volume of so many bytes is open at once, and needs no coarser one before it.
const AT_ONCE_BYTES: u64 = 64 << 20;
/// After this, a level that could not be opened is tried again.
const OPEN_AGAIN: Duration = Duration::from_secs(5);
/// From one level that is seen while finer ones are opened to the next: each has 64 times as many voxels.
const LEVELS_A_STEP: usize = 2;
/// Tiles that wait to be shown, at most; others come with the whole picture.
const TILES_MAX: usize = 1024;
/// From one look at the tiles of a picture to the next, at least.
const LOOK: Duration = Duration::from_millis(16);
/// After this, what did not come or had holes is asked for again.
const AGAIN: Duration = Duration::from_secs(1);

/// Why the peer's work ended.
type PeerError = Box<dyn std::error::Error + Send + Sync>;

/// The thread of the peer; what it answers is why it has ended, where it should not have.
pub(super) type PeerThread = thread::JoinHandle<Option<String>>;

/// Runs a peer's work in an actix system on a thread of its own.
pub(super) fn start_peer(
    work: impl Future<Output = Result<(), PeerError>> + Send + 'static,
    proxy: EventLoopProxy<Told>,
) -> std::io::Result<PeerThread> {
    let run = move || {
        let result = actix::System::new().block_on(work);
        let why = result.err().filter(|e| !is_stop(e));
        let why = why.map(|e| e.to_string());
        tell(&proxy, Told::Ended(why.clone()));
        why
    };
    thread::Builder::new().name("peer".to_owned()).spawn(run)
}

fn is_stop(error: &PeerError) -> bool {
    matches!(error.downcast_ref(), Some(SessionError::Stopped))
}

fn tell(proxy: &EventLoopProxy<Told>, told: Told) {
    if proxy.send_event(told).is_err() {
        tracing::debug!("the window is closed");
    }
}

/// What the peer of a window works with.
pub(super) struct Viewer {
    pub args: ViewArgs,
    pub stop: Stop,
    pub slot: Slot,
    pub proxy: EventLoopProxy<Told>,
    pub wanted: watch::Receiver<Wanted>,
}

/// A volume, with all that is needed to open it again.
#[derive(Clone)]
struct Found {
    source: DataSource,
    path: Option<PathBuf>,
    mesh: MeshArgs,
    /// [`Opened::asked`].
    asked: u32,
}

impl Viewer {
    /// Shows volumes, one after the other, until the window is gone. Where another one cannot be opened,
    /// the one before is opened again.
    pub(super) async fn run(mut self, source: DataSource) -> Result<(), PeerError> {
        let mut found = Found {
            source,
            path: self.args.source.as_ref().map(|s| s.volume.clone()),
            mesh: self.args.mesh.clone(),
            asked: 0,
        };
        let mut before: Option<Found> = None;
        for number in 0.. {
            match self.show(&found, number).await {
                Ok(None) => break,
                Ok(Some(next)) => before = Some(std::mem::replace(&mut found, next)),
                Err(why) => match before.take().filter(|_| !is_stop(&why)) {
                    Some(before) => {
                        tell(&self.proxy, Told::NotOpened(found.asked, why.to_string()));
                        let asked = found.asked;
                        found = Found { asked, ..before };
                    }
                    None => return Err(why),
                },
            }
            // Camera, transfer function and session of the command line are of the first volume.
            let picture = &mut self.args.picture;
            (picture.camera, picture.orbit, picture.transfer) = (None, None, None);
            (picture.transfer_range, picture.session) = (None, None);
            picture.note.clear();
        }
        Ok(())
    }

    /// Shows a volume until another one is to be shown; `None`: the window is gone.
    async fn show(&self, found: &Found, number: u32) -> Result<Option<Found>, PeerError> {
        let source = found.source.clone();
        let session = Session::open(source, &found.mesh, self.stop.clone()).await?;
        let session = Arc::new(session);
        let first = self.first_level(&session);
        let shown = match session.open_level_or_finer(first).await {
            Ok(_) => self.show_session(&session, found, number).await,
            Err(error) => Err(error.into()),
        };
        session.close().await;
        shown
    }

    /// The level that is seen first: one that is there at once.
    fn first_level(&self, session: &Session) -> usize {
        let manifest = session.manifest();
        let bricks = u64::from(manifest.grid().brick_count());
        match self.args.picture.quality {
            QualityArg::Exact if bricks * manifest.largest_brick_bytes() <= AT_ONCE_BYTES => 0,
            _ => session.volumes().len() - 1,
        }
    }

    async fn show_session(
        &self,
        session: &Arc<Session>,
        found: &Found,
        number: u32,
    ) -> Result<Option<Found>, PeerError> {
        let manifest = session.manifest();
        let picture = &self.args.picture;
        let rules = PlanRules {
            reuse: true,
            ..self.args.mesh.rules.rules(picture.sends_rays())?
        };
        let settings = PictureSettings::of(picture, rules, manifest)?;
        settings.tell();
        let camera = camera(picture, manifest)?;
        let view = camera.view(picture.size.0, picture.size.1)?;
        session.level_of(picture.quality, &view, &settings.render.clip)?;
        let opened = Opened {
            number,
            asked: found.asked,
            path: found.path.clone(),
            manifest: Arc::clone(manifest),
            histogram: ValueReport::of_manifest(manifest).histogram,
            scene: Scene {
                camera,
                settings: Arc::new(settings.render),
                slices: settings.slices.unwrap_or_else(|| SliceViews::new(manifest)),
                overlay: settings.overlay,
            },
        };
        tell(&self.proxy, Told::Opened(Box::new(opened)));
        let (slot, proxy) = (Arc::clone(&self.slot), self.proxy.clone());
        let pictures = Pictures::new(session, &self.args, rules, number, (slot, proxy));
        let goal = pictures.goal.subscribe();
        tokio::select! {
            never = refine(session, goal) => never.map(|()| None).map_err(Into::into),
            gone = pictures.show(self.wanted.clone()) => gone.map(|()| None).map_err(Into::into),
            never = report(session, &self.proxy) => never.map(|()| None).map_err(Into::into),
            () = self.values(session) => Ok(None),
            () = self.picture_files(session, rules, number) => Ok(None),
            gone = following::show(session, number, self.wanted.clone()) => gone.map(|()| None).map_err(Into::into),
            gone = following::follow(session, self.wanted.clone(), |told| tell(&self.proxy, told)) => gone.map(|()| None).map_err(Into::into),
            next = self.next_volume(found.asked) => Ok(next),
        }
    }

    /// Tells the values of voxels that are asked for, the latest alone, until the window is gone.
    async fn values(&self, session: &Session) {
        let mut wanted = self.wanted.clone();
        let mut told = None;
        loop {
            let asked = wanted.wait_for(|w| w.voxel.is_some() && w.voxel != told);
            let Ok(Some(voxel)) = asked.await.map(|w| w.voxel) else {
                return;
            };
            told = Some(voxel);
            let value = session.voxel(voxel).await;
            tracing::debug!(?voxel, ?value, "a voxel was read");
            let has_failed = value.is_err();
            tell(&self.proxy, Told::Voxel((voxel, value)));
            if has_failed {
                tokio::time::sleep(REPORT).await;
                told = None;
            }
        }
    }

    /// Renders pictures of a data set to files until the window is gone; it asks for one at a time.
    async fn picture_files(&self, session: &Arc<Session>, rules: PlanRules, opened: u32) {
        let (mut wanted, mut last) = (self.wanted.clone(), 0);
        loop {
            let is_it = |p: &PictureFile| p.number > last && p.opened == opened;
            let is_new = |w: &Wanted| w.picture_file.as_ref().is_some_and(is_it);
            let asked = wanted.wait_for(is_new).await;
            let Ok(Some(asked)) = asked.map(|w| w.picture_file.clone()) else {
                return;
            };
            last = asked.number;
            let path = asked.path.clone();
            let quality = self.args.picture.quality;
            let saved = picture_file(session, quality, rules, asked).await;
            let saved = saved.map(|()| path).map_err(|e| e.to_string());
            tell(&self.proxy, Told::Saved(saved));
        }
    }

    /// Waits until a volume is asked for, after the one numbered so, and can be read; `None`: the window
    /// is gone.
    async fn next_volume(&self, last: u32) -> Option<Found> {
        let (mut wanted, mut last) = (self.wanted.clone(), last);
        loop {
            let is_new = |w: &Wanted| w.volume.as_ref().is_some_and(|v| v.number > last);
            let asked = wanted.wait_for(is_new).await.ok()?.volume.clone()?;
            last = asked.number;
            match self.read(&asked).await {
                Ok(found) => return Some(found),
                Err(why) => tell(&self.proxy, Told::NotOpened(last, why)),
            }
        }
    }

    /// Reads a volume, beside the thread of the peer, which others wait for; no longer than there is a
    /// window.
    async fn read(&self, asked: &AskedVolume) -> Result<Found, String> {
        let mut mesh = self.args.mesh.clone();
        let volume = VolumeArgs {
            volume: asked.path.clone(),
            fill: None,
        };
        let (stop, wanted) = (self.stop.clone(), self.wanted.clone());
        let read = move || {
            let goes_on: GoesOn = Arc::new(move || !stop.is_said() && wanted.has_changed().is_ok());
            let source = open_source(&volume, &SurfaceArgs::default(), &mut mesh, &goes_on)
                .map_err(|e| e.to_string())?;
            Ok((source, mesh))
        };
        let read = tokio::task::spawn_blocking(read).await;
        let (source, mesh) = read.map_err(|e| e.to_string()).flatten()?;
        Ok(Found {
            source,
            path: Some(asked.path.clone()),
            mesh,
            asked: asked.number,
        })
    }
}

/// Opens finer levels, every other one, down to the goal; it does not end. What cannot be had is tried again: what is
/// seen is seen until then.
async fn refine(session: &Session, mut goal: watch::Receiver<usize>) -> Result<(), SessionError> {
    loop {
        let goal_now = *goal.borrow_and_update();
        let finest = session.open_levels().borrow().keys().next().copied();
        match finest {
            Some(finest) if finest > goal_now => {
                let next = finest.saturating_sub(LEVELS_A_STEP).max(goal_now);
                match session.open_level_or_finer(next).await {
                    Ok(_) => {}
                    Err(SessionError::Stopped) => return Err(SessionError::Stopped),
                    Err(error) => {
                        tracing::warn!("level {next}: {error}; it is tried again");
                        tokio::time::sleep(OPEN_AGAIN).await;
                    }
                }
            }
            _ => {
                if goal.changed().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }
}

/// Renders a picture to a file.
async fn picture_file(
    session: &Arc<Session>,
    quality: QualityArg,
    rules: PlanRules,
    asked: PictureFile,
) -> Result<(), Box<dyn std::error::Error>> {
    crate::picture::check(&asked.path)?;
    asked.seen.camera.view(asked.size.0, asked.size.1)?;
    let mut turn = Turn {
        shots: vec![asked.seen.camera.into()],
        size: asked.size,
        settings: PictureSettings {
            render: (*asked.seen.settings).clone(),
            quality,
            rules,
            overlay: asked.overlay,
            slices: None,
            told: Vec::new(),
        },
        ahead: 1,
        out: &asked.path,
        stats: None,
        trace: None,
        is_transparent: asked.is_transparent,
        whole: false,
        began: Instant::now(),
        deadline: None,
    };
    let stats = turn.render(session).await?;
    match stats.missing().len() {
        0 => Ok(()),
        missing => {
            let path = asked.path.display();
            Err(format!("{path} was written, but {}", missing_boxes(missing)).into())
        }
    }
}

/// That so many boxes of a picture are missing, for people.
fn missing_boxes(count: usize) -> String {
    match count {
        1 => "a box is missing: nobody holds it".to_owned(),
        n => format!("{n} boxes are missing: nobody holds them"),
    }
}

/// Tells the window who is in the mesh, again and again.
async fn report(session: &Session, proxy: &EventLoopProxy<Told>) -> Result<(), SessionError> {
    let mut names = BTreeMap::new();
    loop {
        let status = session.status().await?;
        let of_set = status.data_sets.iter();
        let finest = session.finest().digest();
        let of_set = of_set.filter(|d| d.manifest.digest() == finest);
        let mut report = MeshReport::default();
        for set in of_set {
            report.missing = set.safety.missing;
            report.read = set.safety.read;
            report.copies_min = set.safety.copies_min;
            for (id, hello) in &status.peers {
                let bricks = set.residency.get(id).map_or(0, |r| r.held.len());
                let name = plain_text(&hello.name);
                let speed = status.vitals.get(id).and_then(|v| v.speed_millionths);
                names.insert(id.clone(), name.clone());
                report.peers.push(PeerRow {
                    id: id.clone(),
                    name,
                    device: plain_text(&hello.device),
                    is_device_lost: hello.is_device_lost,
                    bricks,
                    memory_bytes: hello.memory_bytes,
                    speed: speed.map(|millionths| millionths as f64 / 1e6),
                    is_silent: status.suspects.contains(id),
                    is_viewer: hello.is_viewer && id != session.local(),
                });
            }
        }
        let gone = names
            .iter()
            .filter(|(id, _)| !status.peers.contains_key(*id));
        report.gone = gone.map(|(_, name)| name.clone()).collect();
        tell(proxy, Told::Mesh(report));
        tokio::time::sleep(REPORT).await;
    }
}

/// The pictures of a session for the panes of a window.
struct Pictures<'a> {
    session: &'a Session,
    quality: QualityArg,
    rules: PlanRules,
    /// Levels that can be seen.
    levels: watch::Receiver<OpenLevels>,
    /// The finest level that is wanted.
    goal: watch::Sender<usize>,
    /// The data set, as the window counts them.
    number: u32,
    panes: [PanePicture; PANES],
    /// From one picture of a moving scene to the next, at least.
    interval: Duration,
    /// Tiles are shown as they come.
    is_frameless: bool,
    /// Pictures that were asked for.
    asked: u64,
    /// What the window was told to be wrong.
    trouble: Option<String>,
    slot: Slot,
    proxy: EventLoopProxy<Told>,
}

/// The picture of a pane.
#[derive(Clone, Debug)]
struct PanePicture {
    qualities: Qualities,
    /// What is shown, of which level, and how fine.
    shown: Option<(Wish, Seen)>,
    /// What has not changed for a while: the scene rests.
    rested: Option<Wish>,
    /// What is shown of it, where that may be parts of several pictures.
    canvas: Canvas,
    /// What is wrong with what is shown.
    trouble: Option<String>,
    /// [`Pictures::asked`] when it was last asked for, and when that was.
    asked: u64,
    began: Option<Instant>,
}

/// A level, and how fine its picture is.
type Seen = (usize, Choice);

/// A frame, its view, and how long it took.
type Come = (View, Frame, Duration);

/// A picture that is to be rendered.
struct Next {
    wish: Wish,
    seen: Seen,
    rests: bool,
}

impl PanePicture {
    fn new(qualities: Qualities) -> Self {
        Self {
            qualities,
            shown: None,
            rested: None,
            canvas: Canvas::default(),
            trouble: None,
            asked: 0,
            began: None,
        }
    }

    fn rests(&self, wish: &Wish) -> bool {
        !wish.moving || self.rested.as_ref() == Some(wish)
    }

    /// How fine the next picture is; `None`: what is shown is as good as it gets. `goal`: the level that is to be seen at
    /// last, `coarse` that of a moving scene.
    fn next(&mut self, wish: &Wish, goal: usize, coarse: usize) -> Option<Seen> {
        let shown = self.shown.as_ref().filter(|(shown, _)| {
            let moving = wish.moving;
            Wish {
                moving,
                ..shown.clone()
            } == *wish
        });
        match (self.rests(wish), shown.map(|(_, seen)| *seen)) {
            (true, shown) => self.qualities.resting(goal, coarse, shown),
            (false, Some(_)) => None,
            (false, None) => Some((coarse, self.qualities.moving(coarse))),
        }
    }
}

impl<'a> Pictures<'a> {
    fn new(
        session: &'a Session,
        args: &ViewArgs,
        rules: PlanRules,
        number: u32,
        (slot, proxy): (Slot, EventLoopProxy<Told>),
    ) -> Self {
        let target_fps = args.target_fps;
        Self {
            session,
            quality: args.picture.quality,
            rules,
            is_frameless: args.frameless,
            levels: session.open_levels(),
            goal: watch::channel(usize::MAX).0,
            number,
            interval: Duration::from_secs_f64(1.0 / target_fps.clamp(0.1, 1000.0)),
            panes: std::array::from_fn(|pane| {
                // Slices move together, one after the other.
                let together = if pane == Pane::Volume.index() {
                    1.0
                } else {
                    3.0
                };
                PanePicture::new(Qualities::new(target_fps * together))
            }),
            asked: 0,
            trouble: None,
            slot,
            proxy,
        }
    }

    /// Renders what is wanted, always the latest, until the window is gone: as fast as asked for while the
    /// scene is edited, in passes up to full quality once it rests. What did not come, or came with holes,
    /// is asked for again: the mesh may heal.
    async fn show(mut self, mut wanted: watch::Receiver<Wanted>) -> Result<(), SessionError> {
        let mut stop = self.session.stop();
        loop {
            let now = wanted.borrow_and_update().pictures.clone();
            self.levels.mark_unchanged();
            self.forget_hidden(&now);
            let next = self.next(&now);
            let rests = next.as_ref().is_none_or(|next| next.rests);
            let changed = wanted.wait_for(|w| w.pictures != now);
            let gone = if let Some(due) = next.as_ref().and_then(|next| self.due(next)) {
                // Then with the camera as it is by that time.
                tokio::select! {
                    changed = changed => changed.is_err(),
                    () = tokio::time::sleep_until(due.into()) => false,
                    () = stop.said() => return Err(SessionError::Stopped),
                }
            } else if let Some(Next { wish, seen, .. }) = next {
                self.begins(&wish);
                let pane = wish.pane.index();
                let mut canvas = std::mem::take(&mut self.panes[pane].canvas);
                let ended = tokio::select! {
                    biased;
                    come = self.frame(&wish, seen, &mut canvas) => Ok(come),
                    // A picture of a scene that rested is not waited for any more, and called off. One of
                    // a moving scene is: it takes little time, and without any nothing would move.
                    changed = changed, if rests => Err(changed.is_err()),
                };
                self.panes[pane].canvas = canvas;
                match ended {
                    Ok(come) => {
                        self.came(wish, seen, come)?;
                        false
                    }
                    Err(gone) => {
                        // Some of its tiles may be over what was shown before.
                        let is_over = self.is_frameless;
                        self.panes[pane].shown.take_if(|_| is_over);
                        gone
                    }
                }
            } else {
                let (wait, mut levels) = (self.wait(&now), self.levels.clone());
                let until = async {
                    match wait {
                        Some(wait) => tokio::time::sleep(wait).await,
                        None => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = changed => changed.is_err(),
                    () = until => {
                        self.rested(&now);
                        false
                    }
                    // There is a finer one.
                    _ = levels.changed() => false,
                    () = stop.said() => return Err(SessionError::Stopped),
                }
            };
            if gone {
                return Ok(());
            }
        }
    }

    /// The next picture: of panes that move before those that rest, of those with nothing before those with
    /// something, of those that were asked for longest ago.
    fn next(&mut self, wishes: &[Wish]) -> Option<Next> {
        let of_this = wishes.iter().filter(|wish| wish.opened == self.number);
        let with_levels: Vec<_> = of_this
            .map(|wish| (wish, self.wanted_levels(wish)))
            .collect();
        if let Some(goal) = with_levels.iter().map(|(_, [goal, _])| *goal).min() {
            self.goal
                .send_if_modified(|g| std::mem::replace(g, goal) != goal);
        }
        let next = with_levels.into_iter().filter_map(|(wish, levels)| {
            let [goal, coarse] = levels.map(|level| self.seen_in_place_of(level));
            let pane = &mut self.panes[wish.pane.index()];
            let (seen, rests) = (pane.next(wish, goal, coarse)?, pane.rests(wish));
            let order = (rests, pane.shown.is_some(), pane.asked);
            Some((order, wish, seen))
        });
        let ((rests, ..), wish, seen) = next.min_by_key(|(order, ..)| *order)?;
        Some(Next {
            wish: wish.clone(),
            seen,
            rests,
        })
    }

    /// The level that is to be seen at last, and that of a moving scene: no finer than what can be seen.
    fn wanted_levels(&self, wish: &Wish) -> [usize; 2] {
        let clip = &wish.seen.settings.clip;
        let view = wish.seen.camera.view(wish.width, wish.height).ok();
        let level = |quality| {
            let level = view.map(|view| self.session.level_of(quality, &view, clip));
            level.and_then(Result::ok).unwrap_or(0)
        };
        let goal = level(self.quality);
        [goal, level(QualityArg::Auto).max(goal)]
    }

    /// The level that can be seen in place of one: no finer where there is such a one.
    fn seen_in_place_of(&self, level: usize) -> usize {
        let open = self.levels.borrow();
        let coarser = open.range(level..).next();
        let open = coarser.or_else(|| open.range(..level).next_back());
        open.map_or(0, |(level, _)| *level)
    }

    /// When it is time for a picture of a moving scene, if that is later: more of them than are asked for take
    /// the peers' time from others.
    fn due(&self, next: &Next) -> Option<Instant> {
        let began = self.panes[next.wish.pane.index()].began?;
        let due = began + self.interval;
        (!next.rests && Instant::now() < due).then_some(due)
    }

    /// A picture is asked for.
    fn begins(&mut self, wish: &Wish) {
        self.asked += 1;
        let pane = &mut self.panes[wish.pane.index()];
        (pane.asked, pane.began) = (self.asked, Some(Instant::now()));
    }

    /// After what time there may be more to do, though no wish has changed.
    fn wait(&self, wishes: &[Wish]) -> Option<Duration> {
        let mut panes = wishes
            .iter()
            .map(|wish| (&self.panes[wish.pane.index()], wish));
        if panes.clone().any(|(pane, wish)| !pane.rests(wish)) {
            return Some(REST);
        }
        let is_wrong = |(pane, _): (&PanePicture, &Wish)| pane.trouble.is_some();
        panes.any(is_wrong).then_some(AGAIN)
    }

    /// These wishes have not changed for a while.
    fn rested(&mut self, wishes: &[Wish]) {
        for wish in wishes {
            let pane = &mut self.panes[wish.pane.index()];
            pane.rested = Some(wish.clone());
            if pane.trouble.is_some() {
                pane.shown = None;
            }
        }
    }

    /// A picture; where that is wanted, its tiles are shown as they come, over what is there.
    async fn frame(
        &self,
        wish: &Wish,
        (level, choice): Seen,
        canvas: &mut Canvas,
    ) -> Result<Option<Come>, SessionError> {
        let start = Instant::now();
        let fineness = choice.fineness();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "pixels of a window"
        )]
        let size =
            [wish.width, wish.height].map(|n| ((f64::from(n) * fineness.scale) as u32).max(1));
        let view = match wish.seen.camera.view(size[0], size[1]) {
            Ok(view) => view,
            Err(error) => {
                tracing::debug!(%error, "a camera that shows nothing");
                return Ok(None);
            }
        };
        let mut settings = (*wish.seen.settings).clone();
        settings.step *= fineness.step;
        let manifest = self.session.open_level(level).await?;
        let (to_canvas, tiles) = mpsc::channel(TILES_MAX);
        let ask = AskFrame {
            is_traced: wish.is_traced,
            tiles: self.is_frameless.then_some(to_canvas),
            ..self.session.ask(&manifest, view, &settings, self.rules)
        };
        // Of its level.
        let settings = ask.settings.clone();
        let scene = || RenderedScene::new(&manifest, view, settings.clone());
        tokio::select! {
            biased;
            frame = self.session.frame(ask) => Ok(Some((view, frame?, start.elapsed()))),
            never = self.show_tiles(wish, (scene, size), tiles, canvas) => match never {},
        }
    }

    /// Shows the tiles of a picture that is rendered as they come.
    async fn show_tiles(
        &self,
        wish: &Wish,
        (scene, size): (impl Fn() -> RenderedScene, [u32; 2]),
        mut tiles: mpsc::Receiver<SubImage>,
        canvas: &mut Canvas,
    ) -> Infallible {
        let settings = &wish.seen.settings;
        let (finish, mode) = (settings.finish(), settings.mode);
        let (mut table, size) = (None, size.map(|n| n as usize));
        let (mut due, mut is_new) = (Instant::now(), false);
        loop {
            tokio::select! {
                biased;
                tile = tiles.recv() => {
                    let Some(mut tile) = tile else {
                        // The whole picture is about to come.
                        return std::future::pending().await;
                    };
                    if mode.combines_values() {
                        let table = table.get_or_insert_with(|| TransferTable::new(&scene()));
                        tile.finish(table, mode);
                    }
                    *canvas = std::mem::take(canvas).resized(size);
                    canvas.put(&tile, &finish);
                    is_new = true;
                }
                () = tokio::time::sleep_until(due.into()), if is_new => {
                    let canvas = canvas.clone();
                    self.put(wish.pane, Shown { canvas, report: None });
                    (due, is_new) = (Instant::now() + LOOK, false);
                }
            }
        }
    }

    /// Puts a picture into the slot; a report there that the window has not seen stays where there is no newer one.
    fn put(&self, pane: Pane, shown: Shown) {
        let mut slot = self.slot.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut slot[pane.index()];
        let before = place.take().and_then(|before| before.report);
        let report = shown.report.or(before);
        *place = Some(Shown { report, ..shown });
        drop(slot);
        tell(&self.proxy, Told::Frame);
    }

    /// Shows what came, and says what is wrong with it.
    fn came(
        &mut self,
        wish: Wish,
        seen: Seen,
        come: Result<Option<Come>, SessionError>,
    ) -> Result<(), SessionError> {
        let (moving, at) = (wish.moving, wish.pane.index());
        let (level, choice) = seen;
        let (choice, trouble) = match come {
            Ok(Some((view, frame, took))) => {
                self.panes[at].qualities.took(level, choice, took);
                let Fineness { scale, step, .. } = choice.fineness();
                let pane = wish.pane;
                tracing::debug!(?pane, level, scale, step, ?took, moving, "shown");
                (choice, self.present(&wish, &view, &frame, seen, took))
            }
            Ok(None) => (Choice::FULL, None),
            Err(SessionError::Frame(error)) => {
                let why = plain_text(&error.to_string());
                tracing::warn!(why, "a frame did not come; it is asked for again");
                // After a while.
                (Choice::FULL, Some(why))
            }
            Err(error) => return Err(error),
        };
        self.panes[at].shown = Some((wish, (level, choice)));
        self.panes[at].trouble = trouble;
        self.tell_trouble();
        Ok(())
    }

    /// What is wrong with pictures that are not shown any more is forgotten.
    fn forget_hidden(&mut self, wishes: &[Wish]) {
        for (at, pane) in self.panes.iter_mut().enumerate() {
            if wishes.iter().all(|wish| wish.pane.index() != at) {
                pane.trouble = None;
            }
        }
        self.tell_trouble();
    }

    fn tell_trouble(&mut self) {
        let trouble = self.panes.iter().find_map(|pane| pane.trouble.clone());
        if trouble != self.trouble {
            tell(&self.proxy, Told::Trouble(trouble.clone()));
            self.trouble = trouble;
        }
    }

    /// Puts a frame into the slot; what is missing in it, for people.
    fn present(
        &mut self,
        wish: &Wish,
        view: &View,
        frame: &Frame,
        seen: Seen,
        took: Duration,
    ) -> Option<String> {
        let mut canvas = Canvas::of(&frame.image, &wish.seen.settings.finish());
        let missing = &frame.stats.missing;
        let volumes = self.session.volumes();
        let volume = &volumes[seen.0];
        missing::outline(&mut canvas.pixels, view, volume, missing);
        let report = FrameReport::of(frame, wish.seen.camera, seen, [&volumes[0], volume], took);
        if self.is_frameless {
            self.panes[wish.pane.index()].canvas = canvas.clone();
        }
        let report = Some(report);
        self.put(wish.pane, Shown { canvas, report });
        (!missing.is_empty()).then(|| missing_boxes(missing.len()))
    }
}

impl FrameReport {
    /// Of the second of these volumes, which is a level of the first.
    fn of(
        frame: &Frame,
        camera: Camera,
        (level, choice): Seen,
        [exact, volume]: [&VolumeDescription; 2],
        took: Duration,
    ) -> Self {
        let mut jobs: BTreeMap<_, JobsDone> = BTreeMap::new();
        for job in &frame.stats.jobs {
            let of_peer = jobs.entry(job.peer.clone()).or_default();
            of_peer.count += 1;
            of_peer.micros += job.measured_micros.unwrap_or(0);
            of_peer.expected_micros += job.estimate_micros;
            of_peer.taken += u32::from(job.stolen_from.is_some());
        }
        let boxes = frame.stats.jobs.iter();
        let boxes = boxes.map(|job| (in_exact(&job.owned, exact, volume), job.peer.clone()));
        let rect = frame.image.rect();
        Self {
            camera,
            took,
            size: [rect.width, rect.height],
            level,
            choice,
            schedule_micros: frame.stats.schedule_micros,
            composite_micros: frame.stats.composite_micros,
            bytes_sent: frame.stats.bytes_sent,
            jobs,
            boxes: boxes.collect(),
            trace: frame.stats.trace.clone(),
        }
    }
}
