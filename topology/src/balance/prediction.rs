//! What jobs will cost in the next frame, how fast devices are, and how long they wait for bricks.
//!
//! Costs are whole microseconds on a device of speed 1. Two predictions: the last frame's cost as
//! it was (Frey & Ertl 2011, section 5.1), or scaled by how the number of samples that the job is
//! expected to cast has changed since ([`crate::picture::sample_count`]): with the camera, the transfer
//! function, or the cut.

use crate::balance::{
    job_tree::{Leaf, MIN_JOB_MICROS},
    roster::WAIT_THOUSANDTHS_MAX,
    schedule::SPEED_ONE,
};
use serde::{Deserialize, Serialize};

/// How the next frame's costs follow from the last one's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "kebab-case")]
pub enum Prediction {
    /// As in the last frame; jobs that were never measured all cost the same.
    LastFrame,
    /// The last cost scaled by the expected number of samples; jobs that were never measured cost
    /// what their samples cost elsewhere.
    #[default]
    Projected,
}

/// Cost of a job that was never measured under [`Prediction::LastFrame`]: any value, the same for
/// all (section 5.1).
pub const UNMEASURED_MICROS: u64 = 10_000;
/// Time of 1024 samples before anything was measured, microseconds: about what one core of a
/// desktop CPU takes. Only the first frame's threshold depends on it.
pub const MICROS_PER_1024_SAMPLES: u64 = 8;

/// What a job costs whatever it samples, microseconds: it is started, its pixels are read back.
/// The shortest job worth it is known; that this is a sixteenth of it is a guess that need not be
/// good, for it is a small part of any job (0.2 to 0.5 ms even out the paper's loads alike).
const JOB_MICROS: u64 = MIN_JOB_MICROS / 16;

/// What is remembered of a job that was not rendered because nobody would have seen it, microseconds: 0 is one that
/// was never measured.
const HIDDEN_MICROS: u64 = 1;

/// Cost beyond the price of a job, and samples, added up over jobs that were measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rate {
    cost_micros: u64,
    samples: u64,
    jobs: u64,
}

/// How much the rate of all jobs weighs beside a job's own: as much as this part of a usual job's
/// samples. A job that hardly cast any says little of what samples cost in it: what it took was
/// the price of being a job.
const DOUBT_PART: u64 = 32;

impl Rate {
    /// The rate of these jobs; those never measured, or hidden when they were, do not count.
    #[must_use]
    pub fn of(leaves: impl IntoIterator<Item = Leaf>) -> Self {
        let measured = leaves
            .into_iter()
            .filter(|l| l.cost_micros > HIDDEN_MICROS && l.samples > 0);
        measured.fold(Self::default(), |sum, l| Self {
            cost_micros: sum.cost_micros.saturating_add(beyond_price(l.cost_micros)),
            samples: sum.samples.saturating_add(l.samples),
            jobs: sum.jobs + 1,
        })
    }

    /// What `samples` will cost in a job that was measured, microseconds, at least 1: at its own
    /// rate, drawn to that of all jobs the more the fewer samples it cast.
    fn cost_after(self, known: Leaf, samples: u64) -> u64 {
        let doubt = self.samples / (DOUBT_PART * self.jobs.max(1));
        let usual = scale(self.cost_micros, doubt, self.samples);
        let beyond = beyond_price(known.cost_micros);
        let price = known.cost_micros - beyond;
        let cost = beyond.saturating_add(usual);
        price
            .saturating_add(scale(cost, samples, known.samples.saturating_add(doubt)))
            .max(1)
    }

    /// What a job of `samples` costs at this rate, microseconds.
    fn cost(self, samples: u64) -> u64 {
        let beyond = if self.samples == 0 {
            scale(MICROS_PER_1024_SAMPLES, samples, 1024)
        } else {
            scale(self.cost_micros, samples, self.samples)
        };
        beyond.saturating_add(JOB_MICROS)
    }
}

/// What a job cost beyond the price of being one; of a job that is hardly dearer, half is price.
fn beyond_price(cost_micros: u64) -> u64 {
    cost_micros - JOB_MICROS.min(cost_micros / 2)
}

/// `value · numerator / denominator`, rounded down, without overflow on the way.
fn scale(value: u64, numerator: u64, denominator: u64) -> u64 {
    let product = u128::from(value) * u128::from(numerator);
    u64::try_from(product / u128::from(denominator.max(1))).unwrap_or(u64::MAX)
}

impl Prediction {
    /// What a job that was last `known` to cost something will cost now that it is expected to
    /// cast `samples_now`; `rate` is that of all measured jobs.
    #[must_use]
    pub fn predict(self, known: Leaf, samples_now: u64, rate: Rate) -> Leaf {
        let measured = known.cost_micros > 0;
        let cost_micros = match self {
            Self::LastFrame if measured => known.cost_micros,
            Self::LastFrame => UNMEASURED_MICROS,
            Self::Projected if measured && known.samples > 0 => rate.cost_after(known, samples_now),
            Self::Projected => rate.cost(samples_now),
        };
        Leaf {
            cost_micros,
            samples: samples_now,
        }
    }
}

/// A measured time beyond this factor of what was expected is news, not noise.
const NEWS: u64 = 2;

impl Prediction {
    /// The cost to remember of a job that was expected to cost `expected_micros` and was measured
    /// to cost `measured_micros`; 0: it was hidden.
    ///
    /// Times of single jobs are noisy: a thread waits for a core, a clock changes. So
    /// [`Prediction::Projected`] believes expectation and measurement by half each, as long as
    /// they are alike; the mean over past frames follows, younger ones counting twice as much as
    /// those before them.
    #[must_use]
    pub fn remember(self, expected_micros: u64, measured_micros: u64) -> u64 {
        let alike = measured_micros <= expected_micros.saturating_mul(NEWS)
            && expected_micros <= measured_micros.saturating_mul(NEWS);
        match self {
            _ if measured_micros == 0 => HIDDEN_MICROS,
            Self::Projected if alike => u64::midpoint(expected_micros, measured_micros),
            Self::Projected | Self::LastFrame => measured_micros,
        }
        .max(1)
    }
}

/// Slowest and fastest speed that is believed, in millionths: a thousandth and a thousand.
const SPEED_BOUNDS: (u64, u64) = (SPEED_ONE / 1_000, SPEED_ONE * 1_000);
/// A device that was slower than believed by more than this factor (in millionths) has become slow:
/// then the new speed counts at once.
const SUDDENLY_SLOW: u64 = 800_000;
/// Shorter work than this says nothing about a speed, microseconds.
const WORK_MICROS_MIN: u64 = 1_000;

/// What a device did in a frame.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Work {
    /// Costs that were expected of its jobs, microseconds on a device of speed 1.
    pub expected_micros: u64,
    /// Time that it took for them, microseconds.
    pub measured_micros: u64,
}

/// The devices' speeds after a frame, in millionths, from the speeds before and the work done.
///
/// A device's pace is expected over measured time; the middle pace of all devices is put down to
/// the prediction (the camera came nearer: all take longer), so only what differs from it changes
/// a speed. A device that is suddenly slow holds up all others, so it is believed at once; anything
/// else counts by half, for times are noisy, and too little for one device costs little. Devices that did next to nothing
/// keep theirs beside the others. The mean of all is a speed of 1; a lone device keeps what it has.
#[must_use]
pub fn next_speeds(speeds: &[u64], work: &[Work]) -> Vec<u64> {
    let pace = |(w, &speed): (&Work, &u64)| {
        let counts = w.measured_micros >= WORK_MICROS_MIN && w.expected_micros > 0;
        // Expected on this device: cost / speed; so this is 1 where it was as fast as believed.
        counts.then(|| {
            scale(
                scale(w.expected_micros, SPEED_ONE, speed),
                SPEED_ONE,
                w.measured_micros,
            )
            .max(1)
        })
    };
    let paces: Vec<Option<u64>> = work.iter().zip(speeds).map(pace).collect();
    let mut known: Vec<u64> = paces.iter().copied().flatten().collect();
    known.sort_unstable();
    if known.len() < 2 {
        return speeds.to_vec();
    }
    // The upper of two middles: one device of two that slows down is seen as such.
    let middle = known[known.len() / 2];
    let next = |(&speed, pace): (&u64, Option<u64>)| {
        let Some(pace) = pace else { return speed };
        let factor = scale(pace, SPEED_ONE, middle);
        let counted = if factor < SUDDENLY_SLOW {
            factor
        } else {
            u64::midpoint(factor, SPEED_ONE)
        };
        scale(speed, counted, SPEED_ONE).clamp(SPEED_BOUNDS.0, SPEED_BOUNDS.1)
    };
    let next: Vec<u64> = speeds.iter().zip(paces).map(next).collect();
    // Only ratios were measured: the mean stays where it is, or all would drift in time, and with
    // them what counts as a short job.
    let mean = next.iter().sum::<u64>() / next.len() as u64;
    let scaled = next.iter().map(|&s| scale(s, SPEED_ONE, mean));
    scaled
        .map(|s| s.clamp(SPEED_BOUNDS.0, SPEED_BOUNDS.1))
        .collect()
}

/// Time that a device waits for bricks that are read, per time that it renders, in thousandths, after a frame in which it
/// rendered and waited so long; `before`: what it was.
///
/// A device that has come to wait much longer holds up all others, so that is believed at once, as is what was measured first; anything
/// else counts by half. Of one that did next to nothing an eighth is forgotten: it is given something again in time.
#[must_use]
pub fn next_wait(before: Option<u64>, rendered_micros: u64, waited_micros: u64) -> Option<u64> {
    if rendered_micros.max(waited_micros) < WORK_MICROS_MIN {
        return before.map(|before| before - before.div_ceil(8));
    }
    let measured = scale(waited_micros, 1000, rendered_micros.max(WORK_MICROS_MIN));
    let next = before.filter(|&before| measured <= NEWS * before.max(1000));
    let next = next.map_or(measured, |before| u64::midpoint(before, measured));
    Some(next.min(WAIT_THOUSANDTHS_MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn leaf(cost_micros: u64, samples: u64) -> Leaf {
        Leaf {
            cost_micros,
            samples,
        }
    }

    #[test]
    fn twice_the_samples_cost_twice_as_much_beyond_the_price_of_a_job() {
        let ms = |beyond: u64| JOB_MICROS + beyond * 1000;
        let hidden = leaf(Prediction::Projected.remember(ms(10), 0), 5000);
        let rate = Rate::of([leaf(ms(10), 1000), leaf(0, 9), leaf(ms(30), 1000), hidden]);
        let p = Prediction::Projected;
        let twice = p.predict(leaf(ms(20), 1000), 2000, rate);
        assert!(twice.cost_micros.abs_diff(ms(40)) <= 2 && twice.samples == 2000);
        let none = p.predict(leaf(ms(10), 1000), 0, rate);
        assert_eq!(none, leaf(ms(0), 0));
        let unknown = p.predict(leaf(0, 0), 500, rate);
        assert_eq!(unknown, leaf(ms(10), 500), "the others' rate");
        let first = p.predict(leaf(0, 0), 1 << 20, Rate::default());
        assert_eq!(first.cost_micros, JOB_MICROS + (8 << 10));
    }

    #[test]
    fn a_job_that_hardly_cast_a_sample_says_nothing_of_their_price() {
        let rate = Rate::of([leaf(1_000, 100_000), leaf(30, 1)]);
        let many = Prediction::Projected.predict(leaf(30, 1), 100_000, rate);
        assert!(many.cost_micros < 4_000, "{many:?}");
        let own = Prediction::Projected.predict(leaf(3_000, 100_000), 100_000, rate);
        assert!((2_900..3_000).contains(&own.cost_micros), "{own:?}");
    }

    #[test]
    fn waiting_is_believed_at_once_where_it_is_news_and_else_by_half() {
        assert_eq!(next_wait(None, 500_000, 2_000_000), Some(4_000));
        assert_eq!(next_wait(Some(4_000), 500_000, 2_500_000), Some(4_500));
        assert_eq!(next_wait(Some(4_000), 500_000, 10_000_000), Some(20_000));
        assert_eq!(next_wait(Some(4_000), 500_000, 0), Some(2_000));
        assert_eq!(next_wait(Some(4_000), 0, 900), Some(3_500));
        let after = |frames: usize| {
            let frames =
                (0..frames).try_fold(WAIT_THOUSANDTHS_MAX, |wait, _| next_wait(Some(wait), 0, 0));
            frames.unwrap()
        };
        assert!(after(25) < 3_000 && after(100) == 0);
        assert_eq!(next_wait(None, 0, 900), None);
        assert_eq!(next_wait(None, 0, u64::MAX), Some(WAIT_THOUSANDTHS_MAX));
        assert_eq!(next_wait(Some(0), 500_000, 500_000), Some(500));
    }

    #[test]
    fn the_last_frame_is_taken_as_it_was() {
        let p = Prediction::LastFrame;
        assert_eq!(
            p.predict(leaf(100, 1000), 2000, Rate::default()),
            leaf(100, 2000)
        );
        assert_eq!(
            p.predict(leaf(0, 0), 7, Rate::default()).cost_micros,
            UNMEASURED_MICROS
        );
    }

    #[test]
    fn noise_is_evened_out_and_news_is_believed() {
        let p = Prediction::Projected;
        assert_eq!(p.remember(100, 120), 110);
        assert_eq!(p.remember(100, 201), 201);
        assert_eq!(p.remember(100, 49), 49);
        assert_eq!(p.remember(1, 0), 1);
        assert_eq!(Prediction::LastFrame.remember(100, 120), 120);
    }

    fn work(expected: u64, measured: u64) -> Work {
        Work {
            expected_micros: expected * 1000,
            measured_micros: measured * 1000,
        }
    }

    #[test]
    fn a_device_that_falls_to_a_quarter_is_known_after_one_frame() {
        let speeds = [SPEED_ONE; 4];
        let done = [work(100, 100), work(100, 400), work(100, 100), work(90, 90)];
        let one = SPEED_ONE * 16 / 13;
        assert_eq!(next_speeds(&speeds, &done), [one, one / 4, one, one]);
        let two = next_speeds(&[SPEED_ONE; 2], &[work(100, 100), work(100, 400)]);
        assert_eq!(two, [SPEED_ONE * 8 / 5, SPEED_ONE * 2 / 5]);
    }

    #[test]
    fn a_frame_dearer_for_all_slows_nobody_down() {
        let speeds = [SPEED_ONE / 2, SPEED_ONE * 3 / 2];
        let done = [work(50, 110), work(150, 110)];
        assert_eq!(next_speeds(&speeds, &done), speeds);
    }

    #[test]
    fn unlike_speeds_are_found_and_stay() {
        let truth = [1_u64, 2, 8];
        let mut speeds = vec![SPEED_ONE; 3];
        for _ in 0..12 {
            let done: Vec<Work> = truth.iter().map(|t| work(800, 800 / t)).collect();
            speeds = next_speeds(&speeds, &done);
        }
        assert!(speeds[1].abs_diff(2 * speeds[0]) * 100 < speeds[1]);
        assert!(speeds[2].abs_diff(8 * speeds[0]) * 100 < speeds[2]);
    }

    #[test]
    fn idle_and_lone_devices_keep_their_speed() {
        let idle = [work(1, 5), work(0, 0), work(1, 5)];
        assert_eq!(next_speeds(&[SPEED_ONE; 3], &idle), [SPEED_ONE; 3]);
        assert_eq!(next_speeds(&[7, 9], &[work(1, 5), work(0, 0)]), [7, 9]);
        assert_eq!(next_speeds(&[7], &[work(1, 5)]), [7]);
    }
}
