//! Exact front-to-back order of disjoint boxes for any eye, also inside the volume.
//!
//! Space: grid. The boxes must be separable by axis-aligned planes, recursively, as the bricks of
//! a grid and the halves of a split are; boxes of arbitrary sizes may have no order at all.
//! Invariant: if any ray from the eye meets box a before box b, a comes before b.
//!
//! Method: planes that cut no box part the boxes into slabs; the eye's slab comes first, then the
//! slabs away from it on either side, each ordered in turn (Fuchs, Kedem, Naylor 1980, for
//! axis-aligned planes). Comparisons of whole numbers with the eye only; ties go to the high side.

use crate::data::voxel_box::VoxelBox;
use glam::DVec3;

/// Boxes that no plane parts: they have no front-to-back order for every ray.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{boxes} boxes around {first:?} cannot be parted by a plane; cut them like a grid or a tree"
)]
pub struct NotSeparable {
    /// How many boxes hang together.
    pub boxes: usize,
    /// One of them.
    pub first: VoxelBox,
}

/// The indices of `boxes`, front to back as seen from `eye` (grid space). O(n log n) per level.
///
/// # Errors
/// [`NotSeparable`] where the boxes have no order.
pub fn front_to_back(boxes: &[VoxelBox], eye: DVec3) -> Result<Vec<usize>, NotSeparable> {
    let mut order = Vec::with_capacity(boxes.len());
    let mut all: Vec<usize> = (0..boxes.len()).collect();
    append(boxes, eye, &mut all, &mut order)?;
    Ok(order)
}

fn append(
    boxes: &[VoxelBox],
    eye: DVec3,
    set: &mut [usize],
    order: &mut Vec<usize>,
) -> Result<(), NotSeparable> {
    if set.len() <= 1 {
        order.extend_from_slice(set);
        return Ok(());
    }
    for axis in 0..3 {
        let ends = slabs(boxes, set, axis);
        if ends.len() == 1 {
            continue;
        }
        // The first slab whose upper plane lies above the eye holds the eye.
        let above = |&&end: &&usize| f64::from(boxes[set[end]].lo[axis]) <= eye[axis];
        let first = ends[..ends.len() - 1].iter().take_while(above).count();
        let slab = |n: usize| n.checked_sub(1).map_or(0, |before| ends[before])..ends[n];
        for n in (first..ends.len()).chain((0..first).rev()) {
            append(boxes, eye, &mut set[slab(n)], order)?;
        }
        return Ok(());
    }
    Err(NotSeparable {
        boxes: set.len(),
        first: boxes[set[0]],
    })
}

/// Sorts a set into slabs along `axis` between planes that cut no box, ascending, each with its lowest box first. Returns where
/// each ends.
fn slabs(boxes: &[VoxelBox], set: &mut [usize], axis: usize) -> Vec<usize> {
    set.sort_by_key(|&i| (boxes[i].lo[axis], i));
    let (mut ends, mut top) = (Vec::new(), 0);
    for (at, &i) in set.iter().enumerate() {
        if at > 0 && boxes[i].lo[axis] >= top {
            ends.push(at);
        }
        top = top.max(boxes[i].hi[axis]);
    }
    ends.push(set.len());
    ends
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::brick_grid::BrickGrid;
    use proptest::prelude::*;

    /// Where the ray eye + t·d enters and leaves a box, if it meets it in front of the eye.
    fn span(b: &VoxelBox, eye: DVec3, d: DVec3) -> Option<(f64, f64)> {
        let (mut near, mut far) = (0.0_f64, f64::INFINITY);
        for a in 0..3 {
            let (x, y) = (
                (f64::from(b.lo[a]) - eye[a]) / d[a],
                (f64::from(b.hi[a]) - eye[a]) / d[a],
            );
            near = near.max(x.min(y));
            far = far.min(x.max(y));
        }
        (far - near > 1e-9).then_some((near, far))
    }

    proptest! {
        #[test]
        fn no_ray_meets_a_later_box_first(
            dims in prop::array::uniform3(5u32..40), edge in 4u32..12,
            eye in prop::array::uniform3(-30.0..70.0f64), d in prop::array::uniform3(-1.0..1.0f64),
            splits in prop::collection::vec((0usize..200, 0usize..3), 0..12)
        ) {
            let grid = BrickGrid::new(dims, edge).unwrap();
            let mut boxes: Vec<VoxelBox> = grid.bricks().map(|b| grid.owned_box(b)).collect();
            for (at, axis) in splits {
                let i = at % boxes.len();
                let (mut low, mut high) = (boxes[i], boxes[i]);
                let middle = u32::midpoint(low.lo[axis], low.hi[axis]);
                if middle > low.lo[axis] {
                    low.hi[axis] = middle;
                    high.lo[axis] = middle;
                    boxes[i] = low;
                    boxes.push(high);
                }
            }
            let (eye, d) = (DVec3::from_array(eye), DVec3::from_array(d));
            let order = front_to_back(&boxes, eye).unwrap();
            prop_assert_eq!(order.len(), boxes.len());
            let mut last = f64::NEG_INFINITY;
            for i in order {
                if let Some((near, far)) = span(&boxes[i], eye, d) {
                    prop_assert!(near >= last - 1e-9);
                    last = far;
                }
            }
        }
    }

    #[test]
    fn a_pinwheel_has_no_order() {
        let flat = |x0, y0, x1, y1| VoxelBox::new([x0, y0, 0], [x1, y1, 1]);
        let pinwheel = [
            flat(0, 0, 2, 1),
            flat(2, 0, 3, 2),
            flat(1, 2, 3, 3),
            flat(0, 1, 1, 3),
        ];
        assert!(front_to_back(&pinwheel, DVec3::ZERO).is_err());
    }
}
