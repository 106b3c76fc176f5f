//! The edges of boxes that are missing, drawn over a picture: what is not there must not look like
//! empty space.

use brickmesh_topology::{View, VolumeDescription, VoxelBox};
use glam::DVec3;

/// Orange, 0x00RRGGBB.
const EDGE: u32 = 0x00ff_8000;

/// Draws the edges of boxes, in voxels, over the pixels of a view, 0x00RRGGBB row by row. Edges that
/// lie partly behind the eye are left out.
pub(super) fn outline(
    pixels: &mut [u32],
    view: &View,
    volume: &VolumeDescription,
    boxes: &[VoxelBox],
) {
    let world_from_grid = volume.world_from_grid();
    for owned in boxes {
        let corner = |n: usize| {
            let at = |a: usize| {
                if n >> a & 1 == 1 {
                    owned.hi[a]
                } else {
                    owned.lo[a]
                }
            };
            let grid = DVec3::from_array(std::array::from_fn(|a| f64::from(at(a))));
            view.pixel_of(world_from_grid.transform_point3(grid))
        };
        for n in 0..8 {
            for axis in (0..3).filter(|a| n >> a & 1 == 0) {
                if let Some((from, to)) = corner(n).zip(corner(n | 1 << axis)) {
                    line(pixels, [view.width, view.height], from, to);
                }
            }
        }
    }
}

/// A line from pixel to pixel, as far as it lies in the picture.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked to lie in the picture"
)]
fn line(pixels: &mut [u32], size: [u32; 2], from: [f64; 2], to: [f64; 2]) {
    let delta = [to[0] - from[0], to[1] - from[1]];
    let limit = 4.0 * f64::from(size[0].max(size[1]));
    let steps = delta[0].abs().max(delta[1].abs()).ceil().clamp(1.0, limit);
    let mut step = 0.0;
    while step <= steps {
        let at = [0, 1].map(|a| from[a] + delta[a] * step / steps);
        let inside = |a: usize| (0.0..f64::from(size[a])).contains(&at[a]);
        if inside(0) && inside(1) {
            let index = at[1] as usize * size[0] as usize + at[0] as usize;
            if let Some(pixel) = pixels.get_mut(index) {
                *pixel = EDGE;
            }
        }
        step += 1.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use brickmesh_topology::{Camera, VoxelType};

    #[test]
    fn edges_of_a_box_are_drawn_where_it_lies() {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let view = Camera::orbit(&volume, 20.0, 30.0, 1.0)
            .view(100, 80)
            .unwrap();
        let owned = VoxelBox::new([16; 3], [48; 3]);
        let mut pixels = vec![0; 100 * 80];
        outline(&mut pixels, &view, &volume, &[owned]);
        let around = view.rect_of(&volume, &owned).unwrap();
        let drawn = (0..).zip(&pixels).filter(|(_, p)| **p == EDGE);
        let drawn: Vec<u32> = drawn.map(|(index, _)| index).collect();
        assert!(drawn.len() > 100, "{}", drawn.len());
        for index in drawn {
            let (x, y) = (index % 100, index / 100);
            assert!((around.x..around.x + around.width).contains(&x));
            assert!((around.y..around.y + around.height).contains(&y));
        }
    }

    #[test]
    fn a_box_around_the_eye_or_far_away_does_no_harm() {
        let volume = VolumeDescription::new([64; 3], VoxelType::U8);
        let near = Camera::orbit(&volume, 20.0, 30.0, 900.0);
        let view = near.view(10, 10).unwrap();
        let whole = VoxelBox::new([0; 3], [64; 3]);
        outline(&mut [0; 100], &view, &volume, &[whole; 3]);
    }
}
