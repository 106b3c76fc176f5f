//! How fine pictures are while the camera moves, and in which passes they are refined once it rests.
//!
//! Pure: times in, choice out. A picture's time is predicted as a fixed part and one that goes with its
//! samples; both follow from what was measured. A choice is left for a finer one only where that is clearly
//! fast enough, so that pictures do not flicker between two.
//! Invariant: what holds the rate at full quality is never degraded; who rests ends at full quality.

use std::{collections::BTreeMap, time::Duration};

/// How fine a picture is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Fineness {
    /// Width and height, as parts of the window's.
    pub scale: f64,
    /// Step, as a multiple of the one asked for.
    pub step: f64,
    /// About what part of a full picture's time it takes.
    cost: f64,
}

/// What may be chosen, finest first.
const FINENESSES: [Fineness; 7] = [
    fineness(1.0, 1.0),
    fineness(0.75, 1.0),
    fineness(0.5, 1.0),
    fineness(0.5, 2.0),
    fineness(0.35, 2.0),
    fineness(0.25, 2.0),
    fineness(0.25, 4.0),
];
/// That of the first picture of all.
const FIRST: Choice = Choice(4);
/// A finer one is taken if it is predicted to take at most such a part of the time that there is.
const CLEARLY: f64 = 0.8;
/// Weight of the last time in a prediction.
const NEW: f64 = 0.5;
/// At rest, a pass comes before the full picture if that takes longer than this.
const PASS_AFTER: Duration = Duration::from_millis(500);
/// It is chosen to take such a part of the full picture's time.
const PASS_PART: f64 = 0.25;

const fn fineness(scale: f64, step: f64) -> Fineness {
    // Beside its samples each pixel costs about as much as one sample in three.
    Fineness {
        scale,
        step,
        cost: scale * scale * (0.25 + 0.75 / step),
    }
}

/// A choice: 0 is full quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice(usize);

impl Choice {
    /// Full quality.
    pub const FULL: Self = Self(0);

    /// What it means.
    #[must_use]
    pub fn fineness(self) -> Fineness {
        FINENESSES[self.0]
    }
}

/// What pictures take, seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Whatever the choice.
    fixed: f64,
    /// Of a full picture, beside that.
    work: f64,
    /// The last that was measured.
    last: (Choice, f64),
}

impl Times {
    fn of(&self, at: usize) -> f64 {
        self.fixed + self.work * FINENESSES[at].cost
    }

    fn measured(&mut self, choice: Choice, time: f64) {
        let cost = choice.fineness().cost;
        let (before, time_before) = std::mem::replace(&mut self.last, (choice, time));
        if before != choice {
            // Two choices, one after the other: what of their times does not go with the samples?
            let before = before.fineness().cost;
            let work = (time - time_before) / (cost - before);
            let fixed = (time - work * cost).clamp(0.0, time.min(time_before));
            self.fixed += (fixed - self.fixed) * NEW;
        }
        self.fixed = self.fixed.min(time);
        let work = (time - self.fixed) / cost;
        self.work += (work - self.work) * NEW;
    }
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Quality {
    /// Time that a picture may take while the camera moves.
    budget: Duration,
    moving: Choice,
    /// None while nothing was measured.
    times: Option<Times>,
}

impl Quality {
    /// Nothing was measured yet.
    #[must_use]
    pub fn new(frames_per_second: f64) -> Self {
        Self {
            budget: Duration::from_secs_f64(1.0 / frames_per_second.clamp(0.1, 1000.0)),
            moving: Choice::FULL,
            times: None,
        }
    }

    /// A picture has taken so long, from the question to the last pixel.
    pub fn took(&mut self, choice: Choice, time: Duration) {
        let time = time.as_secs_f64();
        match &mut self.times {
            Some(times) => times.measured(choice, time),
            None => {
                self.times = Some(Times {
                    fixed: 0.0,
                    work: time / choice.fineness().cost,
                    last: (choice, time),
                });
            }
        }
    }

    /// How long a full picture is expected to take, once one was measured.
    fn full(&self) -> Option<Duration> {
        let full = self.times.map(|times| times.of(0))?;
        Duration::try_from_secs_f64(full).ok()
    }

    /// The choice for a picture while the camera moves.
    pub fn moving(&mut self) -> Choice {
        let budget = self.budget.as_secs_f64();
        let Some(times) = self.times else {
            return self.moving;
        };
        let now = self.moving.0;
        let holds = |at: usize, part: f64| times.of(at) <= budget * part;
        let finer = (0..now).find(|&at| holds(at, CLEARLY));
        let as_now_or_coarser = (now..FINENESSES.len()).find(|&at| holds(at, 1.0));
        let chosen = finer.or(as_now_or_coarser).unwrap_or(FINENESSES.len() - 1);
        self.moving = Choice(chosen);
        self.moving
    }

    /// The choice for the next picture at rest, where `shown` is what is shown of this scene; `None`: it
    /// cannot be better.
    #[must_use]
    pub fn resting(&self, shown: Option<Choice>) -> Option<Choice> {
        if shown == Some(Choice::FULL) {
            return None;
        }
        let Some(times) = self.times else {
            // Nobody knows yet how long a full picture takes: something is to be seen at once.
            return Some(FIRST);
        };
        let full = times.of(0);
        let pass = (1..FINENESSES.len()).find(|&at| times.of(at) <= full * PASS_PART);
        let pass = pass.filter(|_| full > PASS_AFTER.as_secs_f64()).map(Choice);
        let is_better = |pass: &Choice| shown.is_none_or(|shown| *pass < shown);
        Some(pass.filter(is_better).unwrap_or(Choice::FULL))
    }
}

/// [`Quality`] of each level of a volume, as times of one say nothing of another's.
#[derive(Clone, Debug)]
pub struct Qualities {
    frames_per_second: f64,
    levels: BTreeMap<usize, Quality>,
}

impl Qualities {
    /// Nothing was measured yet.
    #[must_use]
    pub fn new(frames_per_second: f64) -> Self {
        Self {
            frames_per_second,
            levels: BTreeMap::new(),
        }
    }

    fn of(&mut self, level: usize) -> &mut Quality {
        let new = Quality::new(self.frames_per_second);
        self.levels.entry(level).or_insert(new)
    }

    /// A picture of a level has taken so long: [`Quality::took`].
    pub fn took(&mut self, level: usize, choice: Choice, time: Duration) {
        self.of(level).took(choice, time);
    }

    /// The choice for a picture of a level while the camera moves: [`Quality::moving`].
    pub fn moving(&mut self, level: usize) -> Choice {
        self.of(level).moving()
    }

    /// Level and choice of the next picture at rest, where `shown` is what is shown of this scene; `goal` is the level that
    /// is to be seen at last, `coarse` the one that is as fine as can be seen, or coarser: it comes before a goal of which a
    /// full picture may take long. `None`: it cannot be better.
    pub fn resting(
        &mut self,
        goal: usize,
        coarse: usize,
        shown: Option<(usize, Choice)>,
    ) -> Option<(usize, Choice)> {
        let is_slow = |quality: &Quality| quality.full().is_none_or(|full| full > PASS_AFTER);
        let (level, choice) = match shown {
            Some((level, choice)) if level == goal => (goal, self.of(goal).resting(Some(choice))?),
            // A picture of the goal that is not full might show less than this one.
            Some((level, Choice::FULL)) if level <= coarse => (goal, Choice::FULL),
            Some((level, choice)) if level == coarse => {
                (coarse, self.of(coarse).resting(Some(choice))?)
            }
            Some(_) => (coarse, Choice::FULL),
            None if coarse > goal && is_slow(self.of(goal)) => {
                (coarse, self.of(coarse).resting(None)?)
            }
            None => (goal, self.of(goal).resting(None)?),
        };
        Some((level, choice))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scene whose full picture takes so many milliseconds, `fixed` of them whatever the choice.
    struct Scene {
        full: f64,
        fixed: f64,
    }

    impl Scene {
        fn time(&self, choice: Choice) -> Duration {
            let rest = (self.full - self.fixed) * choice.fineness().cost;
            Duration::from_secs_f64((self.fixed + rest) / 1000.0)
        }

        fn moves(&self, quality: &mut Quality, frames: usize) -> Vec<Choice> {
            let frame = |_| {
                let choice = quality.moving();
                quality.took(choice, self.time(choice));
                choice
            };
            (0..frames).map(frame).collect()
        }
    }

    fn scene(full: f64) -> Scene {
        Scene { full, fixed: 1.0 }
    }

    #[test]
    fn what_holds_the_rate_is_never_degraded() {
        let mut quality = Quality::new(30.0);
        quality.took(Choice::FULL, scene(30.0).time(Choice::FULL));
        let moved = scene(30.0).moves(&mut quality, 100);
        assert!(moved.iter().all(|&c| c == Choice::FULL), "{moved:?}");
    }

    #[test]
    fn the_first_move_is_in_time_and_the_choice_stays() {
        for full in [50.0, 120.0, 400.0, 1500.0] {
            let mut quality = Quality::new(30.0);
            quality.took(Choice::FULL, scene(full).time(Choice::FULL));
            let moved = scene(full).moves(&mut quality, 60);
            let first = scene(full).time(moved[0]);
            assert!(first.as_millis() <= 45, "{full}: {first:?}");
            let changes = moved.windows(2).filter(|w| w[0] != w[1]).count();
            assert!(changes <= 2, "{full}: {moved:?}");
            let last = scene(full).time(moved[59]);
            assert!(
                last.as_millis() <= 34 || moved[59].0 == 6,
                "{full}: {last:?}"
            );
        }
    }

    #[test]
    fn a_scene_that_becomes_heavy_or_light_is_followed_within_some_frames() {
        let mut quality = Quality::new(30.0);
        quality.took(Choice::FULL, scene(20.0).time(Choice::FULL));
        scene(20.0).moves(&mut quality, 10);
        let heavy = scene(300.0).moves(&mut quality, 12);
        assert!(scene(300.0).time(heavy[11]).as_millis() <= 34, "{heavy:?}");
        let light = scene(20.0).moves(&mut quality, 30);
        assert_eq!(light[29], Choice::FULL, "never left coarse: {light:?}");
    }

    #[test]
    fn rest_ends_at_full_quality_by_a_pass_where_that_takes_long() {
        let passes = |full: f64, mut shown: Option<Choice>| {
            let mut quality = Quality::new(30.0);
            quality.took(Choice::FULL, scene(full).time(Choice::FULL));
            let next = || {
                let next = quality.resting(shown)?;
                shown = Some(next);
                Some(next.0)
            };
            std::iter::from_fn(next).take(9).collect::<Vec<_>>()
        };
        assert_eq!(passes(100.0, Some(Choice(5))), [0]);
        assert_eq!(passes(2000.0, Some(Choice(5))), [2, 0]);
        assert_eq!(passes(2000.0, None), [2, 0]);
        assert_eq!(
            passes(2000.0, Some(Choice(1))),
            [0],
            "not coarser than what is shown"
        );
        assert!(passes(100.0, Some(Choice::FULL)).is_empty());
    }

    #[test]
    fn a_coarse_level_comes_before_a_slow_one_and_the_goal_at_last() {
        /// What is shown until it cannot be better; a full picture of the goal takes so long, one of level 2 20 ms.
        fn passes(full: f64, is_known: bool, goal: usize) -> Vec<(usize, usize)> {
            let mut qualities = Qualities::new(30.0);
            let time = |(level, choice): (usize, Choice)| {
                scene(if level == goal { full } else { 20.0 }).time(choice)
            };
            qualities.took(2, Choice::FULL, time((2, Choice::FULL)));
            if is_known {
                qualities.took(goal, Choice::FULL, time((goal, Choice::FULL)));
            }
            let (mut shown, mut all) = (None, Vec::new());
            while let Some(next) = qualities.resting(goal, 2, shown) {
                qualities.took(next.0, next.1, time(next));
                shown = Some(next);
                all.push((next.0, next.1.0));
                assert!(all.len() < 9, "{all:?}");
            }
            all
        }
        assert_eq!(passes(3000.0, true, 0), [(2, 0), (0, 0)]);
        assert_eq!(passes(100.0, true, 0), [(0, 0)], "at once");
        assert_eq!(passes(3000.0, false, 0), [(2, 0), (0, 0)]);
        assert_eq!(passes(20.0, true, 2), [(2, 0)]);
        // Of a level that comes later no picture is shown that is not full.
        let mut qualities = Qualities::new(30.0);
        let next = qualities.resting(0, 3, Some((1, Choice::FULL)));
        assert_eq!(next, Some((0, Choice::FULL)));
        let next = qualities.resting(2, 2, Some((5, Choice::FULL)));
        assert_eq!(next, Some((2, Choice::FULL)));
    }

    #[test]
    fn the_first_picture_of_all_is_coarse_and_the_full_one_follows() {
        for (full, expected) in [(30.0, vec![4, 0]), (3000.0, vec![4, 2, 0])] {
            let (mut quality, mut shown, mut passes) = (Quality::new(30.0), None, Vec::new());
            while let Some(next) = quality.resting(shown) {
                quality.took(next, scene(full).time(next));
                passes.push(next.0);
                shown = Some(next);
            }
            assert_eq!(passes, expected);
        }
    }
}
