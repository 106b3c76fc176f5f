//! How fine pictures are while the camera moves, and in which passes they are refined once it rests.
//!
//! Pure: times in, choice out. A picture's time is predicted as a fixed part and one that goes with its
//! samples; both follow from what was measured. A level is left for a finer one only where that is clearly
//! fast enough, so that pictures do not flicker between two.
//! Invariant: what holds the rate at full quality is never degraded; who rests ends at full quality.

use std::time::Duration;

/// How fine a picture is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// Width and height, as parts of the window's.
    pub scale: f64,
    /// Step, as a multiple of the one asked for.
    pub step: f64,
    /// About what part of a full picture's time it takes.
    cost: f64,
}

/// The levels, finest first.
const LEVELS: [Level; 7] = [
    level(1.0, 1.0),
    level(0.75, 1.0),
    level(0.5, 1.0),
    level(0.5, 2.0),
    level(0.35, 2.0),
    level(0.25, 2.0),
    level(0.25, 4.0),
];
/// That of the first picture of all.
const FIRST: Choice = Choice(4);
/// A finer level is taken if it is predicted to take at most such a part of the time that there is.
const CLEARLY: f64 = 0.8;
/// Weight of the last time in a prediction.
const NEW: f64 = 0.5;
/// At rest, a pass comes before the full picture if that takes longer than this.
const PASS_AFTER: Duration = Duration::from_millis(500);
/// It is chosen to take such a part of the full picture's time.
const PASS_PART: f64 = 0.25;

const fn level(scale: f64, step: f64) -> Level {
    // Beside its samples each pixel costs about as much as one sample in three.
    Level {
        scale,
        step,
        cost: scale * scale * (0.25 + 0.75 / step),
    }
}

/// A choice: number of the level, 0 is full quality.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Choice(usize);

impl Choice {
    /// Full quality.
    pub const FULL: Self = Self(0);

    /// What it means.
    #[must_use]
    pub fn level(self) -> Level {
        LEVELS[self.0]
    }
}

/// What pictures take, seconds.
#[derive(Clone, Copy, Debug)]
struct Times {
    /// Whatever the level.
    fixed: f64,
    /// Of a full picture, beside that.
    work: f64,
    /// The last that was measured.
    last: (Choice, f64),
}

impl Times {
    fn of(&self, at: usize) -> f64 {
        self.fixed + self.work * LEVELS[at].cost
    }

    fn measured(&mut self, choice: Choice, time: f64) {
        let cost = choice.level().cost;
        let (before, time_before) = std::mem::replace(&mut self.last, (choice, time));
        if before != choice {
            // Two levels, one after the other: what of their times does not go with the samples?
            let before = before.level().cost;
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
                    work: time / choice.level().cost,
                    last: (choice, time),
                });
            }
        }
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
        let as_now_or_coarser = (now..LEVELS.len()).find(|&at| holds(at, 1.0));
        let chosen = finer.or(as_now_or_coarser).unwrap_or(LEVELS.len() - 1);
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
        let pass = (1..LEVELS.len()).find(|&at| times.of(at) <= full * PASS_PART);
        let pass = pass.filter(|_| full > PASS_AFTER.as_secs_f64()).map(Choice);
        let is_better = |pass: &Choice| shown.is_none_or(|shown| *pass < shown);
        Some(pass.filter(is_better).unwrap_or(Choice::FULL))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A scene whose full picture takes so many milliseconds, `fixed` of them whatever the level.
    struct Scene {
        full: f64,
        fixed: f64,
    }

    impl Scene {
        fn time(&self, choice: Choice) -> Duration {
            let rest = (self.full - self.fixed) * choice.level().cost;
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
    fn the_first_move_is_in_time_and_the_level_stays() {
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
