//! The thread of the viewer's peer: opens volumes, keeps the mesh going and renders what the window wants,
//! the latest alone.

use super::{
    AskedVolume, FrameReport, JobsDone, MeshReport, Opened, PeerRow, Shown, Slot, Told, Wanted,
    Wish, missing, scene::Scene,
};
use crate::{
    args::{MeshArgs, ViewArgs, VolumeArgs},
    camera_choice::camera,
    open_source::open_source,
    picture_settings::PictureSettings,
    session::{DataSource, Session, SessionError},
    stop::Stop,
    value_report::ValueReport,
};
use brickmesh_actors::{
    plain_text::plain_text,
    requester::{AskFrame, Frame},
};
use brickmesh_topology::{
    Camera, View,
    balance::plan_rules::PlanRules,
    picture::quality::{Choice, Level, Quality},
};
use std::{
    collections::BTreeMap,
    path::PathBuf,
    sync::{Arc, PoisonError},
    thread,
    time::{Duration, Instant},
};
use tokio::sync::watch;
use winit::event_loop::EventLoopProxy;

/// A camera that the wheel moved rests after this.
const REST: Duration = Duration::from_millis(150);
/// How often the window is told who is in the mesh.
const REPORT: Duration = Duration::from_millis(500);
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
        }
        Ok(())
    }

    /// Shows a volume until another one is to be shown; `None`: the window is gone.
    async fn show(&self, found: &Found, number: u32) -> Result<Option<Found>, PeerError> {
        let source = found.source.clone();
        let session = Session::open(source, &found.mesh, self.stop.clone()).await?;
        let shown = self.show_session(&session, found, number).await;
        session.close().await;
        shown
    }

    async fn show_session(
        &self,
        session: &Session,
        found: &Found,
        number: u32,
    ) -> Result<Option<Found>, PeerError> {
        let manifest = session.manifest();
        let picture = &self.args.picture;
        let rules = PlanRules {
            reuse: true,
            ..self.args.mesh.rules.rules()
        };
        let settings = PictureSettings::of(picture, rules, manifest)?;
        settings.tell();
        let opened = Opened {
            number,
            asked: found.asked,
            path: found.path.clone(),
            manifest: Arc::clone(manifest),
            histogram: ValueReport::of_manifest(manifest).histogram,
            scene: Scene {
                camera: camera(picture, manifest)?,
                settings: Arc::new(settings.render),
            },
        };
        tell(&self.proxy, Told::Opened(Box::new(opened)));
        let quality = Quality::new(self.args.target_fps);
        let (slot, proxy) = (Arc::clone(&self.slot), self.proxy.clone());
        let pictures = Pictures::new(session, rules, number, quality, slot, proxy);
        tokio::select! {
            gone = pictures.show(self.wanted.clone()) => gone.map(|()| None).map_err(Into::into),
            never = report(session, &self.proxy) => never.map(|()| None).map_err(Into::into),
            () = self.values(session) => Ok(None),
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
            let goes_on = || !stop.is_said() && wanted.has_changed().is_ok();
            let source = open_source(&volume, &mut mesh, &goes_on).map_err(|e| e.to_string())?;
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

/// Tells the window who is in the mesh, again and again.
async fn report(session: &Session, proxy: &EventLoopProxy<Told>) -> Result<(), SessionError> {
    let mut names = BTreeMap::new();
    loop {
        let status = session.status().await?;
        let of_set = status.data_sets.iter();
        let of_set = of_set.filter(|d| d.manifest.digest() == session.data_set());
        let mut report = MeshReport::default();
        for set in of_set {
            report.missing = set.safety.missing;
            report.copies_min = set.safety.copies_min;
            for (id, hello) in &status.peers {
                let bricks = set.residency.get(id).map_or(0, |r| r.held.len());
                let name = plain_text(&hello.name);
                names.insert(id.clone(), name.clone());
                report.peers.push(PeerRow {
                    id: id.clone(),
                    name,
                    device: plain_text(&hello.device),
                    bricks,
                    is_silent: status.suspects.contains(id),
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

/// The pictures of a session for a window.
struct Pictures<'a> {
    session: &'a Session,
    rules: PlanRules,
    /// The data set, as the window counts them.
    number: u32,
    quality: Quality,
    slot: Slot,
    proxy: EventLoopProxy<Told>,
    /// What is shown, and how fine.
    shown: Option<(Wish, Choice)>,
    /// What has not changed for a while: the scene rests.
    rested: Option<Wish>,
    /// What is wrong with what is shown.
    trouble: Option<String>,
}

/// A frame, its view, and how long it took.
type Come = (View, Frame, Duration);

impl<'a> Pictures<'a> {
    fn new(
        session: &'a Session,
        rules: PlanRules,
        number: u32,
        quality: Quality,
        slot: Slot,
        proxy: EventLoopProxy<Told>,
    ) -> Self {
        Self {
            session,
            rules,
            number,
            quality,
            slot,
            proxy,
            shown: None,
            rested: None,
            trouble: None,
        }
    }

    /// Renders what is wanted, always the latest, until the window is gone: as fast as asked for while the
    /// scene is edited, in passes up to full quality once it rests. What did not come, or came with holes,
    /// is asked for again: the mesh may heal.
    async fn show(mut self, mut wanted: watch::Receiver<Wanted>) -> Result<(), SessionError> {
        let mut stop = self.session.stop();
        loop {
            let now = wanted.borrow_and_update().picture.clone();
            let Some(now) = now.filter(|wish| wish.opened == self.number) else {
                tokio::select! {
                    changed = wanted.changed() => if changed.is_err() { return Ok(()) },
                    () = stop.said() => return Err(SessionError::Stopped),
                }
                continue;
            };
            let rests = !now.moving || self.rested.as_ref() == Some(&now);
            let gone = if let Some(choice) = self.next(&now, rests) {
                tokio::select! {
                    biased;
                    come = self.frame(&now, choice) => {
                        self.came(now, choice, come)?;
                        false
                    }
                    // A picture of a scene that rested is not waited for any more, and called off. One of
                    // a moving scene is: it takes little time, and without any nothing would move.
                    changed = wanted.changed(), if rests => changed.is_err(),
                }
            } else {
                let until = async {
                    match (&self.trouble, rests) {
                        (Some(_), _) => tokio::time::sleep(AGAIN).await,
                        (None, false) => tokio::time::sleep(REST).await,
                        (None, true) => std::future::pending().await,
                    }
                };
                tokio::select! {
                    changed = wanted.changed() => changed.is_err(),
                    () = until => {
                        self.rested = Some(now);
                        if self.trouble.is_some() {
                            self.shown = None;
                        }
                        false
                    }
                    () = stop.said() => return Err(SessionError::Stopped),
                }
            };
            if gone {
                return Ok(());
            }
        }
    }

    /// How fine the next picture is; `None`: what is shown is as good as it gets.
    fn next(&mut self, now: &Wish, rests: bool) -> Option<Choice> {
        let shown = self.shown.as_ref().filter(|(shown, _)| {
            let moving = now.moving;
            Wish {
                moving,
                ..shown.clone()
            } == *now
        });
        match (rests, shown.map(|(_, choice)| *choice)) {
            (true, shown) => self.quality.resting(shown),
            (false, Some(_)) => None,
            (false, None) => Some(self.quality.moving()),
        }
    }

    async fn frame(&self, now: &Wish, choice: Choice) -> Result<Option<Come>, SessionError> {
        let start = Instant::now();
        let level = choice.level();
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "pixels of a window"
        )]
        let size = [now.width, now.height].map(|n| ((f64::from(n) * level.scale) as u32).max(1));
        let view = match now.scene.camera.view(size[0], size[1]) {
            Ok(view) => view,
            Err(error) => {
                tracing::debug!(%error, "a camera that shows nothing");
                return Ok(None);
            }
        };
        let mut settings = (*now.scene.settings).clone();
        settings.step *= level.step;
        let ask = AskFrame {
            data_set: self.session.data_set(),
            view,
            settings,
            rules: self.rules,
        };
        let frame = self.session.frame(ask).await?;
        Ok(Some((view, frame, start.elapsed())))
    }

    /// Shows what came, and says what is wrong with it.
    fn came(
        &mut self,
        now: Wish,
        choice: Choice,
        come: Result<Option<Come>, SessionError>,
    ) -> Result<(), SessionError> {
        let moving = now.moving;
        let trouble = match come {
            Ok(Some((view, frame, took))) => {
                self.quality.took(choice, took);
                let Level { scale, step, .. } = choice.level();
                tracing::debug!(scale, step, ?took, moving, "shown");
                let trouble = self.present(&now.scene, &view, &frame, choice, took);
                self.shown = Some((now, choice));
                trouble
            }
            Ok(None) => {
                self.shown = Some((now, Choice::FULL));
                None
            }
            Err(SessionError::Frame(error)) => {
                let why = plain_text(&error.to_string());
                tracing::warn!(why, "a frame did not come; it is asked for again");
                // After a while.
                self.shown = Some((now, Choice::FULL));
                Some(why)
            }
            Err(error) => return Err(error),
        };
        if trouble != self.trouble {
            tell(&self.proxy, Told::Trouble(trouble.clone()));
            self.trouble = trouble;
        }
        Ok(())
    }

    /// Puts a frame into the slot; what is missing in it, for people.
    fn present(
        &self,
        scene: &Scene,
        view: &View,
        frame: &Frame,
        choice: Choice,
        took: Duration,
    ) -> Option<String> {
        let rect = frame.image.rect();
        let rgba = frame.image.to_rgba8(scene.settings.background);
        let pixel = |p: &[u8]| u32::from_be_bytes([0, p[0], p[1], p[2]]);
        let mut pixels: Vec<u32> = rgba.chunks_exact(4).map(pixel).collect();
        let missing = &frame.stats.missing;
        let volume = self.session.manifest().volume();
        missing::outline(&mut pixels, view, volume, missing);
        let shown = Shown {
            width: rect.width,
            height: rect.height,
            pixels,
            report: FrameReport::of(frame, scene.camera, choice, took),
        };
        *self.slot.lock().unwrap_or_else(PoisonError::into_inner) = Some(shown);
        tell(&self.proxy, Told::Frame);
        let some = format!("{} boxes are missing: nobody holds them", missing.len());
        (!missing.is_empty()).then_some(some)
    }
}

impl FrameReport {
    fn of(frame: &Frame, camera: Camera, choice: Choice, took: Duration) -> Self {
        let mut jobs: BTreeMap<_, JobsDone> = BTreeMap::new();
        for job in &frame.stats.jobs {
            let of_peer = jobs.entry(job.peer.clone()).or_default();
            of_peer.count += 1;
            of_peer.micros += job.measured_micros.unwrap_or(0);
        }
        let rect = frame.image.rect();
        Self {
            camera,
            took,
            size: [rect.width, rect.height],
            choice,
            jobs,
        }
    }
}
