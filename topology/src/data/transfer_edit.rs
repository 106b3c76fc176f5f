//! Edits of a transfer function by hand. Each leaves it valid if it was.

use crate::data::{
    default_transfer::stretched,
    transfer_function::{POINTS_MAX, TransferFunction, TransferPoint},
};

impl TransferFunction {
    /// First and last value; zeros where there is no point.
    #[must_use]
    pub fn ends(&self) -> [f64; 2] {
        let value = |p: Option<&TransferPoint>| p.map_or(0.0, |p| p.value);
        [value(self.points.first()), value(self.points.last())]
    }

    /// Adds a point with the colour that the value has already; its index, or `None` where there are
    /// [`POINTS_MAX`], or the value is none that a point can have.
    pub fn add_point(&mut self, value: f64, opacity: f64) -> Option<usize> {
        let (color, _) = self.classify(value);
        let index = self.points.partition_point(|p| p.value <= value);
        let point = TransferPoint {
            value,
            color,
            opacity: opacity.clamp(0.0, 1.0),
        };
        let before = self.points.len();
        self.try_change(|points| points.insert(index, point));
        (self.points.len() > before).then_some(index)
    }

    /// Moves a point, in value not beyond its neighbours.
    pub fn move_point(&mut self, index: usize, value: f64, opacity: f64) {
        let neighbour = |at: Option<usize>| Some(self.points.get(at?)?.value);
        let low = neighbour(index.checked_sub(1)).unwrap_or(f64::NEG_INFINITY);
        let high = neighbour(index.checked_add(1)).unwrap_or(f64::INFINITY);
        self.try_change(|points| {
            if let Some(point) = points.get_mut(index) {
                point.value = value.max(low).min(high);
                point.opacity = opacity.clamp(0.0, 1.0);
            }
        });
    }

    /// Removes a point, unless it is the last one left.
    pub fn remove_point(&mut self, index: usize) {
        if self.points.len() > 1 && index < self.points.len() {
            self.points.remove(index);
        }
    }

    /// Draws the opacity along a line of (value, opacity) by points on multiples of `spacing`; colours
    /// stay, and so does what is a spacing away.
    pub fn draw_opacity(&mut self, from: [f64; 2], to: [f64; 2], spacing: f64) {
        let (from, to) = if from[0] <= to[0] {
            (from, to)
        } else {
            (to, from)
        };
        let [first, last] = [from[0], to[0]].map(|v| (v / spacing).round());
        // Beyond that a float cannot count.
        let is_whole = |k: f64| k.abs() < 1e15;
        if !(spacing > 0.0 && is_whole(first) && is_whole(last) && last - first < POINTS_MAX as f64)
        {
            return;
        }
        let before = self.clone();
        let at = |value: f64, opacity: f64| TransferPoint {
            value,
            color: before.classify(value).0,
            opacity: opacity.clamp(0.0, 1.0),
        };
        let drawn = |value: f64| {
            let t = (value - from[0]) / (to[0] - from[0]);
            let t = if t.is_finite() {
                t.clamp(0.0, 1.0)
            } else {
                1.0
            };
            at(value, from[1] + (to[1] - from[1]) * t)
        };
        let edge = |k: f64| at(k * spacing, before.classify(k * spacing).1);
        let is_left = |p: &&TransferPoint| p.value < (first - 0.5) * spacing;
        let is_right = |p: &&TransferPoint| p.value > (last + 0.5) * spacing;
        let mut points: Vec<TransferPoint> =
            before.points.iter().filter(is_left).copied().collect();
        // What is outside goes on as it was up to a spacing away.
        if points
            .last()
            .is_none_or(|p| p.value < (first - 1.0) * spacing)
        {
            points.push(edge(first - 1.0));
        }
        let mut k = first;
        while k <= last {
            points.push(drawn(k * spacing));
            k += 1.0;
        }
        let right: Vec<TransferPoint> = before.points.iter().filter(is_right).copied().collect();
        if right
            .first()
            .is_none_or(|p| p.value > (last + 1.0) * spacing)
        {
            points.push(edge(last + 1.0));
        }
        points.extend(right);
        self.try_change(|p| *p = points);
    }

    /// Moves all values by so many times the width of the function.
    pub fn shift(&mut self, widths: f64) {
        let [low, high] = self.ends();
        let by = (high - low) * widths;
        self.try_change(|points| points.iter_mut().for_each(|p| p.value += by));
    }

    /// Makes the range of values so many times as wide, about its middle.
    pub fn widen(&mut self, factor: f64) {
        let [low, high] = self.ends();
        let (middle, half) = (0.5 * (low + high), 0.5 * (high - low) * factor);
        let wide = stretched(self, [middle - half, middle + half]).points;
        self.try_change(|points| *points = wide);
    }

    /// Changes points, and takes it back where that is not valid.
    fn try_change(&mut self, change: impl FnOnce(&mut Vec<TransferPoint>)) {
        let before = self.points.clone();
        change(&mut self.points);
        if self.validate().is_err() {
            self.points = before;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn ramp() -> TransferFunction {
        TransferFunction::ramp(0.0, 100.0)
    }

    #[test]
    fn a_point_that_is_added_changes_nothing_but_the_opacity() {
        let mut function = ramp();
        let (color, opacity) = function.classify(60.0);
        assert_eq!(function.add_point(60.0, opacity), Some(3));
        let close = |a: f64, b: f64| (a - b).abs() < 1e-12;
        for value in 0..=100 {
            let (before, after) = (
                ramp().classify(f64::from(value)),
                function.classify(f64::from(value)),
            );
            assert!((0..3).all(|c| close(before.0[c], after.0[c])), "{value}");
            assert!(close(before.1, after.1), "{value}");
        }
        function.move_point(3, 60.0, 7.0);
        assert_eq!(function.classify(60.0), (color, 1.0));
        function.remove_point(3);
        assert_eq!(function, ramp());
    }

    #[test]
    fn a_point_stays_between_its_neighbours_and_one_is_left() {
        let mut function = ramp();
        function.move_point(1, 80.0, 0.5);
        assert!((function.points[1].value - 50.0).abs() < 1e-12);
        assert_eq!(function.add_point(f64::NAN, 0.5), None);
        function.draw_opacity([1e20, 0.5], [1e20, 0.6], 512.0);
        assert_eq!(
            function.points.len(),
            5,
            "what cannot be counted is not drawn"
        );
        function.move_point(0, -1e300, 0.5);
        assert!(
            function.points[0].value.abs() < 1e-12,
            "beyond what a function may have"
        );
        for _ in 0..9 {
            function.remove_point(0);
        }
        assert_eq!(function.points.len(), 1);
        function.widen(3.0);
        function.shift(1.0);
        assert_eq!(function.validate(), Ok(()));
    }

    #[test]
    fn drawing_changes_the_drawn_range_alone() {
        let mut function = ramp();
        function.draw_opacity([70.0, 1.0], [40.0, 0.4], 1.0);
        for value in 0..=100 {
            let value = f64::from(value);
            let (color, opacity) = function.classify(value);
            let wanted = if (40.0..=70.0).contains(&value) {
                0.4 + 0.6 * (value - 40.0) / 30.0
            } else {
                ramp().classify(value).1
            };
            assert!(
                (opacity - wanted).abs() < 1e-9,
                "{value}: {opacity} {wanted}"
            );
            let apart = (0..3).map(|c| (color[c] - ramp().classify(value).0[c]).abs());
            assert!(apart.fold(0.0, f64::max) < 0.02, "{value}");
        }
    }

    proptest! {
        #[test]
        fn no_edit_makes_a_function_invalid(
            edits in prop::collection::vec((0..6, 0..20_usize, -1e3..1e3_f64, -1.0..2.0_f64, -1e3..1e3_f64), 1..60),
            scale in prop::sample::select(vec![1e-20, 1.0, 1e20]),
        ) {
            let mut function = TransferFunction::ramp(0.0, 100.0 * scale);
            for (edit, index, a, opacity, b) in edits {
                match edit {
                    0 => { function.add_point(a * scale, opacity); }
                    1 => function.move_point(index, a * scale, opacity),
                    2 => function.remove_point(index),
                    3 => function.draw_opacity([a * scale, opacity], [b * scale, 0.5], scale),
                    4 => function.shift(a),
                    _ => function.widen(a),
                }
                prop_assert_eq!(function.validate(), Ok(()));
            }
        }
    }
}
