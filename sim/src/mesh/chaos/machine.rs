//! A simulated machine: a keeper, a device, a compositor, and at one of them a viewer. It hands
//! each message to the part that it concerns, as the router does.

use super::{
    compositing::Compositing,
    environment::Environment,
    network::BRICK_MICROS,
    notes::{Note, Who},
    queue::{At, Event},
    rendering::Rendering,
    scenario::Recipe,
    viewer::Viewer,
};
use brickmesh_topology::{
    BrickBytes, BrickIndex, Digest, Manifest, PeerId,
    data::brick_set::BrickSet,
    mesh::{
        keeper::{
            Hello, Keeper, KeeperInput, KeeperMessage, KeeperOutput, LoadResult, Sharing,
            ShelfResult, TICK_MICROS, UploadResult,
        },
        replicas::Origin,
    },
};
use std::{
    collections::{BTreeSet, VecDeque},
    sync::Arc,
};

/// How long thieves wait before they ask again, microseconds.
const ASK_AGAIN_MICROS: u64 = 50_000;

/// See the module.
#[derive(Debug)]
pub(super) struct Machine {
    me: Who,
    pub(super) recipe: Recipe,
    keeper: Keeper,
    pub(super) rendering: Rendering,
    compositing: Compositing,
    pub(super) viewer: Option<Viewer>,
    data_set: Digest,
    /// The bricks that it says it holds.
    said: BrickSet,
    /// What the viewer wants of the keeper next.
    wishes: Option<KeeperInput>,
    is_source: bool,
    /// Bricks on its disk, which outlast its end.
    pub(super) shelf: BTreeSet<BrickIndex>,
    /// It handles nothing for now; what comes waits.
    pub(super) is_frozen: bool,
    pub(super) waiting: VecDeque<(At, Event)>,
    /// It was told to leave, and has said goodbye.
    pub(super) is_leaving: bool,
    pub(super) has_left: bool,
}

impl Machine {
    /// A machine that was just switched on.
    pub(super) fn new(
        env: &Environment,
        me: Who,
        recipe: Recipe,
        viewer: Option<Viewer>,
        manifest: &Manifest,
    ) -> Self {
        let hello = Hello {
            name: String::new(),
            device: String::new(),
            is_device_lost: false,
            memory_bytes: u64::from(recipe.room) * manifest.largest_brick_bytes(),
            shelf_bytes: u64::from(recipe.shelf) * manifest.largest_brick_bytes(),
            sharing: Sharing::Object,
            version: String::new(),
            is_viewer: false,
        };
        let bricks = manifest.grid().brick_count();
        Self {
            me,
            recipe,
            keeper: Keeper::new(
                env.name(me).clone(),
                hello,
                BrickBytes::default(),
                env.now() + 1,
            ),
            rendering: Rendering::new(env, me, recipe.speed, bricks),
            compositing: Compositing::new(env.name(me).clone()),
            viewer,
            data_set: manifest.digest(),
            said: BrickSet::new(bricks),
            wishes: None,
            is_source: false,
            shelf: BTreeSet::new(),
            is_frozen: false,
            waiting: VecDeque::new(),
            is_leaving: false,
            has_left: false,
        }
    }

    /// Starts the clocks; what is on the disk is known.
    pub(super) fn start(&mut self, env: &mut Environment) {
        if !self.shelf.is_empty() {
            let manifest = Arc::clone(&env.plans().manifest);
            self.keep(env, KeeperInput::Know(manifest), true);
        }
        let phase = 7_919 * self.me as u64;
        env.later(phase % TICK_MICROS, self.me, Event::Tick(self.me));
        env.later(phase % ASK_AGAIN_MICROS, self.me, Event::AskAgain(self.me));
    }

    /// Whether this machine can give every brick.
    pub(super) fn is_source(&self) -> bool {
        self.is_source
    }

    /// This machine has the source of the data set.
    pub(super) fn offer(&mut self, env: &mut Environment, redundancy: u32) {
        self.is_source = true;
        env.oracle.has_source(self.me);
        let manifest = Arc::clone(&env.plans().manifest);
        self.keep(env, KeeperInput::Offer(manifest, redundancy), true);
    }

    /// This machine is to leave politely.
    pub(super) fn leave(&mut self, env: &mut Environment) {
        self.is_leaving = true;
        self.keep(env, KeeperInput::Leave, true);
    }

    /// What happens here.
    pub(super) fn handle(&mut self, env: &mut Environment, event: Event) {
        match event {
            Event::Hear { from, note, .. } => self.hear(env, from, *note),
            Event::LinkUp(_, other) => {
                let other = env.name(other).clone();
                self.keep(env, KeeperInput::Connected(other), true);
            }
            Event::LinkLost(_, other) => {
                let other = env.name(other).clone();
                self.rendering.lost(env, &other);
                self.compositing.forget(&other, None);
                self.keep(env, KeeperInput::Lost(other), true);
            }
            Event::Tick(_) => {
                if self.rendering.is_under_way(env.now()) {
                    self.keep(env, KeeperInput::Rendering, true);
                }
                self.keep(env, KeeperInput::Tick, true);
                env.later(TICK_MICROS, self.me, Event::Tick(self.me));
            }
            Event::AskAgain(_) => {
                self.rendering.ask_again(env);
                env.later(ASK_AGAIN_MICROS, self.me, Event::AskAgain(self.me));
            }
            Event::Rendered { micros, .. } => self.rendering.rendered(env, micros),
            Event::Loaded { brick, is_true, .. } => self.loaded(env, brick, is_true),
            Event::Written(_, to, brick) => self.written(env, to, brick),
            Event::Due { number, at } => {
                if let Some(viewer) = &mut self.viewer {
                    viewer.due(env, number, at);
                }
            }
            Event::NextFrame => {
                if let Some(viewer) = &mut self.viewer {
                    viewer.ask(env);
                    if env.rules().fetches() {
                        self.keep(env, KeeperInput::Fetches(self.data_set), true);
                    }
                }
            }
            _ => env.oracle.broken("an event came to the wrong place"),
        }
        if let Some(wish) = self.wishes.take() {
            self.keep(env, wish, true);
        }
        while let Some(stage) = self.rendering.stages.pop_front() {
            self.keep(env, stage, true);
        }
        let late = self.viewer.as_mut().map(|v| std::mem::take(&mut v.late));
        if let Some(late) = late.filter(|l| !l.is_empty()) {
            self.keep(env, KeeperInput::Late(late), true);
        }
    }

    fn hear(&mut self, env: &mut Environment, from: Who, note: Note) {
        match note {
            Note::Keeper(message) => {
                let from = env.name(from).clone();
                self.keep(env, KeeperInput::Said(from, message), true);
            }
            Note::Brick(data_set, brick, is_true) => {
                let from = env.name(from).clone();
                self.keep(env, KeeperInput::Brick(from, data_set, brick), is_true);
            }
            Note::Roster(roster) => self.rendering.take_roster(roster),
            Note::Costs(costs) => self.rendering.take_costs(costs),
            Note::Frame(request) => {
                self.keep(env, KeeperInput::Rendering, true);
                let (rendering, compositing) = (&mut self.rendering, &mut self.compositing);
                rendering.start(env, compositing, from, &request);
            }
            Note::Cancel(frame, is_over) => {
                let key = (env.name(from).clone(), frame);
                self.rendering.cancel(env, &key, is_over);
                self.compositing.forget(&key.0, Some(frame));
            }
            Note::Steal(key, plan, message) => {
                let (from, requester) = (env.name(from).clone(), env.name(key.0).clone());
                let key = (requester, key.1);
                self.rendering.steal(env, &from, &key, plan, &message);
            }
            Note::Hidden(hidden) => {
                let from = env.name(from).clone();
                self.rendering.are_hidden(env, &from, &hidden);
            }
            Note::TilesDue(frame) => {
                self.compositing.tiles_due(env, self.me, (from, frame));
            }
            Note::Partial(partial) => self.compositing.take(env, self.me, from, &partial),
            to_viewer => {
                if let Some(viewer) = &mut self.viewer {
                    viewer.hear(env, from, to_viewer);
                }
            }
        }
    }

    fn loaded(&mut self, env: &mut Environment, brick: BrickIndex, is_true: bool) {
        self.rendering.loaded(brick, is_true, self.recipe.really);
        let result = if !is_true {
            LoadResult::Failed
        } else if self.rendering.bricks.contains(brick) {
            env.oracle.holds(self.me, brick, env.queue.now());
            LoadResult::Done
        } else {
            LoadResult::NoRoom
        };
        let loaded = KeeperInput::Loaded(self.data_set, brick, result);
        self.keep(env, loaded, true);
        self.rendering.next_task(env);
    }

    /// Lets the keeper decide, and does what it says. `is_true`: bytes that came with what it is
    /// told are what they should be.
    fn keep(&mut self, env: &mut Environment, input: KeeperInput, is_true: bool) {
        let mut outputs = Vec::new();
        self.keeper.step(env.now(), input, &mut outputs);
        self.tell_oracle(env);
        // Many changes at once are one to the viewer.
        let mut is_told = self.viewer.is_none();
        for output in outputs {
            match output {
                KeeperOutput::Roster(data_set) if !is_told => {
                    is_told = true;
                    self.tell_viewer(env, data_set);
                }
                KeeperOutput::Send(to, message) => self.say(env, &to, message),
                KeeperOutput::Load(_, brick, origin) => {
                    let is_true = is_true || origin == Origin::Source;
                    self.rendering.load(env, brick, is_true);
                }
                KeeperOutput::Upload(to, data_set, brick) => self.upload(env, &to, data_set, brick),
                KeeperOutput::Shelve(_, brick) => {
                    let result = if is_true {
                        self.shelf.insert(brick);
                        env.oracle.shelves(self.me, brick, true);
                        ShelfResult::Done
                    } else {
                        ShelfResult::Lost
                    };
                    let shelved = KeeperInput::Shelved(self.data_set, brick, result);
                    self.keep(env, shelved, true);
                }
                other => self.carry_out(env, other),
            }
        }
    }

    /// Says what is on the disk, all of it as it should be.
    fn list_shelf(&mut self, env: &mut Environment) {
        let there: Vec<BrickIndex> = self.shelf.iter().copied().collect();
        let listed = KeeperInput::OnShelf(self.data_set, there.clone());
        self.keep(env, listed, true);
        for brick in there {
            let checked = KeeperInput::Shelved(self.data_set, brick, ShelfResult::Done);
            self.keep(env, checked, true);
        }
    }

    /// What this machine says that it holds has changed, or not.
    fn tell_oracle(&mut self, env: &mut Environment) {
        let set = self.keeper.data_sets().next();
        if let Some((_, holding)) = set.filter(|(_, h)| h.announcement().held != self.said) {
            self.said.clone_from(&holding.announcement().held);
            env.oracle.says(self.me, &self.said, env.queue.now());
            let said = self.said.clone();
            self.rendering.holds(env, self.data_set, said);
        }
    }

    fn carry_out(&mut self, env: &mut Environment, output: KeeperOutput) {
        if let KeeperOutput::Unload(_, brick) | KeeperOutput::Unstage(_, brick) = output
            && self.said.contains(brick)
        {
            env.oracle
                .broken("a brick was freed that is said to be held");
        }
        match output {
            KeeperOutput::Unload(_, brick) => {
                self.rendering.bricks.remove(brick);
                // Whoever has the source may drop what it can read again.
                env.dropped(self.me, brick, self.is_source);
            }
            KeeperOutput::Unstage(data_set, brick) => {
                self.rendering.bricks.remove(brick);
                env.dropped(self.me, brick, true);
                self.rendering.freed((data_set, brick));
            }
            KeeperOutput::Staged(data_set, brick, question, is_there) => {
                let answer = (question, is_there);
                self.rendering.staged(env, (data_set, brick), answer);
            }
            KeeperOutput::Opened(manifest) => {
                if self.viewer.is_some() {
                    self.wishes = Some(KeeperInput::Use(manifest.digest(), true));
                }
                self.rendering.open(manifest);
                self.rendering.holds(env, self.data_set, self.said.clone());
                if self.recipe.shelf > 0 {
                    self.list_shelf(env);
                }
            }
            KeeperOutput::Unshelve(_, brick) => {
                self.shelf.remove(&brick);
                env.oracle.shelves(self.me, brick, false);
            }
            KeeperOutput::Closed(data_set) => self.rendering.close(data_set),
            KeeperOutput::GoOnWithout(peer) => {
                if let Some(viewer) = &mut self.viewer {
                    viewer.lost(env, peer);
                }
            }
            KeeperOutput::Dropping(..) => env.oracle.broken("a message of a peer was refused"),
            KeeperOutput::Left(_) => self.has_left = true,
            _ => {}
        }
    }

    fn tell_viewer(&mut self, env: &mut Environment, data_set: Digest) {
        let Some((_, candidates)) = self.keeper.candidates(data_set) else {
            return;
        };
        if let Some(viewer) = &mut self.viewer {
            viewer.take_candidates(env, candidates);
        }
    }

    fn say(&mut self, env: &mut Environment, to: &PeerId, message: KeeperMessage) {
        let asked = match message {
            KeeperMessage::BrickRequest {
                data_set,
                brick,
                for_frame,
            } => Some((data_set, brick, for_frame)),
            _ => None,
        };
        let to = env.who(to);
        let sent = env.try_send(self.me, to, Note::Keeper(message));
        if let Some((data_set, brick, for_frame)) = asked.filter(|_| !sent) {
            let not_asked = KeeperInput::NotAsked(data_set, brick, for_frame);
            self.keep(env, not_asked, true);
        }
    }

    fn upload(&mut self, env: &mut Environment, to: &PeerId, data_set: Digest, brick: BrickIndex) {
        let is_here = self.rendering.bricks.contains(brick) || self.shelf.contains(&brick);
        let note = if self.is_source || is_here {
            Note::Brick(data_set, brick, true)
        } else {
            let why = String::new();
            Note::Keeper(KeeperMessage::BrickRefused {
                data_set,
                brick,
                why,
            })
        };
        let who = env.who(to);
        let result = if env.try_send(self.me, who, note) {
            env.later(BRICK_MICROS, self.me, Event::Written(self.me, who, brick));
            UploadResult::Queued
        } else {
            UploadResult::NotSent
        };
        self.keep(
            env,
            KeeperInput::Uploaded(to.clone(), data_set, brick, result),
            true,
        );
    }

    /// A brick that was given is on its way.
    fn written(&mut self, env: &mut Environment, to: Who, brick: BrickIndex) {
        let to = env.name(to).clone();
        let gave = KeeperInput::Uploaded(to, self.data_set, brick, UploadResult::Written);
        self.keep(env, gave, true);
    }
}
