//! The order of boxes as seen from an octant of directions: which must be blended before which.
//!
//! Space: grid. For a direction of looking only the signs of its components count: every direction of that octant
//! has this order. Box a comes before box b where some ray of the octant meets a first; that is so
//! where a plane across an axis has a in front of b, and no plane has b in front of a. Boxes that touch by faces alone
//! would miss the order across empty space. Along an axis that is not looked along, boxes beside each other are on
//! no common ray.
//!
//! Source: Frank, Kaufman 2009, sections 3 and 4.4: the DAG of bricks of a viewing octant.

use crate::data::voxel_box::VoxelBox;
use std::cmp::Ordering;

/// A directed acyclic graph of bricks: before → after, all pairs of the order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Precedence {
    /// Bricks behind each, ascending.
    after: Vec<Vec<usize>>,
    /// An order that keeps all precedences, front to back.
    order: Vec<usize>,
}

/// Boxes or links without an order.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PrecedenceError {
    /// Two boxes share voxels.
    #[error("bricks {first} and {second} overlap")]
    Overlap {
        /// 0-based brick.
        first: usize,
        /// Another one.
        second: usize,
    },
    /// Bricks that lie before each other in a circle.
    #[error("bricks {bricks:?} lie before each other in a circle: cut one of them")]
    Circle {
        /// Bricks of the circle, each before the next.
        bricks: Vec<usize>,
    },
}

impl Precedence {
    /// The order of disjoint boxes as seen along `direction`. O(n²).
    ///
    /// # Errors
    /// [`PrecedenceError`].
    pub fn of_boxes(boxes: &[VoxelBox], direction: [f64; 3]) -> Result<Self, PrecedenceError> {
        let signs = direction.map(|d| d.partial_cmp(&0.0).unwrap_or(Ordering::Equal));
        let mut links = Vec::new();
        for (a, box_a) in boxes.iter().enumerate() {
            for (b, box_b) in boxes.iter().enumerate().skip(a + 1) {
                if !box_a.intersection(box_b).is_empty() {
                    return Err(PrecedenceError::Overlap {
                        first: a,
                        second: b,
                    });
                }
                match order_of(box_a, box_b, signs) {
                    Some(true) => links.push((a, b)),
                    Some(false) => links.push((b, a)),
                    None => {}
                }
            }
        }
        Self::of_links(boxes.len(), &links)
    }

    /// The order of `count` bricks in which the first of each pair comes before the second.
    ///
    /// # Errors
    /// [`PrecedenceError::Circle`].
    pub fn of_links(count: usize, links: &[(usize, usize)]) -> Result<Self, PrecedenceError> {
        let mut after = vec![Vec::new(); count];
        let mut before_count = vec![0_usize; count];
        let mut sorted = links.to_vec();
        sorted.sort_unstable();
        sorted.dedup();
        for (a, b) in sorted {
            after[a].push(b);
            before_count[b] += 1;
        }
        // Kahn 1962, the lowest index first.
        let mut ready: std::collections::BTreeSet<usize> =
            (0..count).filter(|&i| before_count[i] == 0).collect();
        let mut order = Vec::with_capacity(count);
        while let Some(next) = ready.pop_first() {
            order.push(next);
            for &behind in &after[next] {
                before_count[behind] -= 1;
                if before_count[behind] == 0 {
                    ready.insert(behind);
                }
            }
        }
        if order.len() < count {
            return Err(PrecedenceError::Circle {
                bricks: circle(&after, &before_count),
            });
        }
        Ok(Self { after, order })
    }

    /// Number of bricks.
    #[must_use]
    pub fn len(&self) -> usize {
        self.after.len()
    }

    /// Whether there is no brick.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.after.is_empty()
    }

    /// The bricks that must be blended after this one, ascending.
    #[must_use]
    pub fn after(&self, brick: usize) -> &[usize] {
        &self.after[brick]
    }

    /// The bricks behind each, ascending, without those that are behind another one behind it, which is behind it as
    /// well. O(links · n / 64).
    #[must_use]
    pub fn without_shortcuts(&self) -> Vec<Vec<usize>> {
        let words = self.len().div_ceil(64);
        let bits = |after: &Vec<usize>| {
            let mut row = vec![0_u64; words];
            after.iter().for_each(|&b| row[b / 64] |= 1 << (b % 64));
            row
        };
        let rows: Vec<Vec<u64>> = self.after.iter().map(bits).collect();
        let direct = |after: &Vec<usize>| {
            let mut further = vec![0_u64; words];
            for &between in after {
                further
                    .iter_mut()
                    .zip(&rows[between])
                    .for_each(|(f, r)| *f |= r);
            }
            let is_short = |b: &&usize| further[**b / 64] >> (**b % 64) & 1 == 1;
            after.iter().filter(|b| !is_short(b)).copied().collect()
        };
        self.after.iter().map(direct).collect()
    }

    /// All bricks, front to back.
    #[must_use]
    pub fn front_to_back(&self) -> &[usize] {
        &self.order
    }
}

/// Whether a comes before b; `None`: no ray of the octant meets both.
fn order_of(a: &VoxelBox, b: &VoxelBox, signs: [Ordering; 3]) -> Option<bool> {
    let (mut a_first, mut b_first) = (false, false);
    for (axis, sign) in signs.into_iter().enumerate() {
        let (below, above) = (a.hi[axis] <= b.lo[axis], b.hi[axis] <= a.lo[axis]);
        match sign {
            Ordering::Greater => (a_first, b_first) = (a_first | below, b_first | above),
            Ordering::Less => (a_first, b_first) = (a_first | above, b_first | below),
            Ordering::Equal if below || above => return None,
            Ordering::Equal => {}
        }
    }
    (a_first != b_first).then_some(a_first)
}

/// A circle among the bricks that still have some before them.
fn circle(after: &[Vec<usize>], before_count: &[usize]) -> Vec<usize> {
    // Each of them has a predecessor among them: going back ends in a circle.
    let is_left = |i: &usize| before_count[*i] > 0;
    let before = |i: usize| {
        (0..after.len())
            .filter(is_left)
            .find(|&p| after[p].contains(&i))
    };
    let mut walked: Vec<usize> = (0..after.len()).find(is_left).into_iter().collect();
    while let Some(next) = walked.last().and_then(|&last| before(last)) {
        if let Some(at) = walked.iter().position(|&w| w == next) {
            walked.drain(..at);
            walked.reverse();
            return walked;
        }
        walked.push(next);
    }
    walked
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cube(lo: [u32; 3], size: [u32; 3]) -> VoxelBox {
        VoxelBox::new(lo, std::array::from_fn(|a| lo[a] + size[a]))
    }

    #[test]
    fn there_is_an_order_across_empty_space() {
        let boxes = [cube([0; 3], [2; 3]), cube([9, 1, 0], [2; 3])];
        let order = |d| Precedence::of_boxes(&boxes, d).unwrap();
        assert_eq!(order([1.0, 1.0, 1.0]).after(0), [1]);
        assert_eq!(order([-1.0, 1.0, 1.0]).after(1), [0]);
        // From z alone no ray meets both.
        assert!(order([0.0, 0.0, 1.0]).after(0).is_empty());
        // Beside each other, and behind in the other axis: no ray of the octant meets both.
        let crossed = [cube([0, 2, 0], [2; 3]), cube([2, 0, 0], [2; 3])];
        let order = Precedence::of_boxes(&crossed, [1.0; 3]).unwrap();
        assert!(order.after(0).is_empty() && order.after(1).is_empty());
    }

    #[test]
    fn circles_and_overlaps_are_refused() {
        // Three slabs around a corner, each before the next.
        let slabs = [
            VoxelBox::new([0, 0, 1], [1, 3, 3]),
            VoxelBox::new([1, 0, 0], [3, 1, 3]),
            VoxelBox::new([0, 1, 0], [3, 3, 1]),
        ];
        let found = Precedence::of_boxes(&slabs, [1.0; 3]).unwrap_err();
        assert!(found.to_string().contains("in a circle"), "{found}");
        assert!(Precedence::of_boxes(&slabs, [-1.0, 1.0, 1.0]).is_ok());
        let circle = Precedence::of_links(5, &[(3, 4), (0, 1), (1, 2), (2, 0), (2, 3)]);
        let bricks = vec![1, 2, 0];
        assert_eq!(circle, Err(PrecedenceError::Circle { bricks }));
        let twice = [cube([0; 3], [2; 3]), cube([1; 3], [2; 3])];
        let (first, second) = (0, 1);
        let overlap = Err(PrecedenceError::Overlap { first, second });
        assert_eq!(Precedence::of_boxes(&twice, [1.0; 3]), overlap);
    }

    proptest! {
        #[test]
        fn no_ray_of_the_octant_meets_a_later_box_first(
            cells in prop::collection::btree_set(0u32..64, 2..20),
            d in prop::array::uniform3(prop_oneof![-1.0..-0.05f64, 0.05..1.0f64]),
            start in prop::array::uniform3(0.0..4.0f64)
        ) {
            let boxes: Vec<VoxelBox> =
                cells.iter().map(|c| cube([c % 4, c / 4 % 4, c / 16], [1; 3])).collect();
            let order = Precedence::of_boxes(&boxes, d).unwrap();
            let mut place = vec![0; boxes.len()];
            for (at, &brick) in order.front_to_back().iter().enumerate() {
                place[brick] = at;
            }
            // Boxes met along the line through `start`, by where it enters them.
            let mut met: Vec<(f64, usize)> = boxes.iter().enumerate().filter_map(|(i, b)| {
                let (mut near, mut far) = (f64::NEG_INFINITY, f64::INFINITY);
                for a in 0..3 {
                    let ends = [b.lo[a], b.hi[a]].map(|p| (f64::from(p) - start[a]) / d[a]);
                    near = near.max(ends[0].min(ends[1]));
                    far = far.min(ends[0].max(ends[1]));
                }
                (far - near > 1e-9).then_some((near, i))
            }).collect();
            met.sort_by(|a, b| a.0.total_cmp(&b.0));
            for pair in met.windows(2) {
                prop_assert!(order.after(pair[0].1).contains(&pair[1].1));
                prop_assert!(place[pair[0].1] < place[pair[1].1]);
            }
        }
    }
}
