//! What lies behind opaque pixels of a picture: jobs that nobody would see are not rendered, and their bricks not read.
//!
//! Method: an opacity buffer that grows front to back, and clips what is behind it (Li, Mueller, Kaufman 2003, "Empty
//! space skipping and occlusion clipping for texture-based volume rendering", section 4; theirs is of one plane of
//! textures, this one of jobs in depth order). A ray ends at the same opacity within a job and between jobs.
//!
//! What is hidden in a frame depends on which jobs came first, so that two runs may differ by what is dropped.
//!
//! Space: pixel. Jobs come in any order; where one far away came early, less is known to be hidden than is. Invariant: what is said to be hidden is behind jobs that were added, in depth
//! order, through which each of its pixels gets no more light than rays may lose.

use crate::{frame::image::Image, picture::camera::PixelRect};
use std::ops::Range;

/// Most cells; of larger pictures a cell is more than one pixel. A cell on the border of two jobs is opaque for neither, and seen
/// along an axis borders lie one behind the other: with cells of 4 pixels, twice as many bricks were rendered there as rays reach.
const CELLS_MAX: usize = 1 << 18;

/// See the module.
#[derive(Clone, Debug)]
pub struct OcclusionMap {
    rect: PixelRect,
    /// Part of the light that rays may lose.
    lost: f32,
    /// Of a cell, in pixels; those at the right and at the bottom may be smaller.
    edge: u32,
    /// Row by row; none of a row to which nothing was added.
    cells: Vec<Vec<Cell>>,
}

/// Some pixels.
#[derive(Clone, Copy, Debug)]
struct Cell {
    /// Part of the light that comes through all that was added, in the pixel where it is most.
    through: f32,
    /// The last job in depth order that is counted in that.
    last: u32,
    /// Jobs after this one are hidden.
    hidden_after: u32,
}

impl OcclusionMap {
    /// Nothing is hidden in a picture, or a part of it; rays end once as opaque as that.
    #[must_use]
    pub fn new(rect: PixelRect, opaque: f32) -> Self {
        let mut edge = 1;
        while rect.width.div_ceil(edge) as usize * rect.height.div_ceil(edge) as usize > CELLS_MAX {
            edge += 1;
        }
        Self {
            rect,
            lost: 1.0 - opaque,
            edge,
            cells: vec![Vec::new(); rect.height.div_ceil(edge) as usize],
        }
    }

    /// A job was rendered; or jobs were, that are combined, of which it is the last in depth order. True: more may be
    /// hidden now.
    pub fn add(&mut self, job: u32, image: &impl Image) -> bool {
        let Some(inside) = self.rect.intersection(&image.rect()) else {
            return false;
        };
        let (mut hides_more, lost) = (false, self.lost);
        let (edge, all_columns) = (self.edge as usize, self.columns());
        let [columns, rows] = self.whole_cells(&inside);
        if columns.is_empty() {
            return false;
        }
        let mut least = vec![0.0_f32; if edge > 1 { columns.len() } else { 0 }];
        for row in rows {
            let lines = self.lines_of(&columns, row);
            let cells = &mut self.cells[row as usize];
            cells.resize(all_columns, Cell::EMPTY);
            let cells = &mut cells[columns.start as usize..columns.end as usize];
            if cells.iter().all(|cell| cell.hidden_after <= job) {
                continue;
            }
            let mut add = |cell: &mut Cell, opacity| {
                hides_more |= cell.hidden_after > job && cell.add(job, 1.0 - opacity, lost);
            };
            if edge == 1 {
                for line in lines {
                    let of_cells = cells.iter_mut().zip(image.opacities(&line));
                    of_cells.for_each(|(cell, opacity)| add(cell, opacity));
                }
                continue;
            }
            least.fill(1.0);
            for line in lines {
                let mut opacities = image.opacities(&line);
                for least in &mut least {
                    let of_cell = opacities.by_ref().take(edge);
                    *least = of_cell.fold(*least, f32::min);
                }
            }
            let of_cells = cells.iter_mut().zip(&least);
            of_cells.for_each(|(cell, &opacity)| add(cell, opacity));
        }
        hides_more
    }

    /// Whether a job is hidden in all of a rectangle.
    #[must_use]
    pub fn hides(&self, job: u32, rect: &PixelRect) -> bool {
        let Some(inside) = self.rect.intersection(rect) else {
            return false;
        };
        let [columns, rows] = self.cells_of(&inside);
        let columns = columns.start as usize..columns.end as usize;
        let mut rows = self.cells[rows.start as usize..rows.end as usize].iter();
        rows.all(|cells| {
            let cells = cells.get(columns.clone());
            cells.is_some_and(|cells| cells.iter().all(|cell| cell.hidden_after < job))
        })
    }

    /// The rows of pixels of some cells in a row of these.
    fn lines_of(&self, columns: &Range<u32>, row: u32) -> impl Iterator<Item = PixelRect> + use<> {
        let [from, to] = [columns.start, columns.end].map(|c| (c * self.edge).min(self.rect.width));
        let (x, width) = (self.rect.x + from, to - from);
        let [from, to] =
            [row, row + 1].map(|r| self.rect.y + (r * self.edge).min(self.rect.height));
        (from..to).map(move |y| PixelRect {
            x,
            y,
            width,
            height: 1,
        })
    }

    fn columns(&self) -> usize {
        self.rect.width.div_ceil(self.edge) as usize
    }

    /// Columns and rows of the cells that a rectangle inside meets.
    fn cells_of(&self, inside: &PixelRect) -> [Range<u32>; 2] {
        let of = |from: u32, to: u32| from / self.edge..to.div_ceil(self.edge);
        let (x, y) = (inside.x - self.rect.x, inside.y - self.rect.y);
        [of(x, x + inside.width), of(y, y + inside.height)]
    }

    /// Columns and rows of the cells that a rectangle inside holds whole.
    fn whole_cells(&self, inside: &PixelRect) -> [Range<u32>; 2] {
        let of = |from: u32, to: u32, end: u32| {
            let to = if to == end {
                to.div_ceil(self.edge)
            } else {
                to / self.edge
            };
            let from = from.div_ceil(self.edge);
            from..to.max(from)
        };
        let (x, y) = (inside.x - self.rect.x, inside.y - self.rect.y);
        [
            of(x, x + inside.width, self.rect.width),
            of(y, y + inside.height, self.rect.height),
        ]
    }
}

impl Cell {
    /// All is seen through it.
    const EMPTY: Self = Self {
        through: 1.0,
        last: 0,
        hidden_after: u32::MAX,
    };

    fn add(&mut self, job: u32, through: f32, lost: f32) -> bool {
        if through >= 1.0 {
            return false;
        }
        let hidden_after = if through <= lost {
            job
        } else {
            self.through *= through;
            self.last = self.last.max(job);
            if self.through > lost {
                return false;
            }
            self.last
        };
        let hides_more = hidden_after < self.hidden_after;
        self.hidden_after = self.hidden_after.min(hidden_after);
        hides_more
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{frame::image::named::Names, picture::render_settings::Mode};
    use proptest::prelude::*;

    const OPAQUE: f32 = 0.999;

    fn rect(x: u32, y: u32, width: u32, height: u32) -> PixelRect {
        PixelRect {
            x,
            y,
            width,
            height,
        }
    }

    /// Opacities of a rectangle, row by row.
    #[derive(Clone, Debug)]
    struct Opacities(PixelRect, Vec<f32>);

    impl Opacities {
        fn at(&self, x: u32, y: u32) -> f32 {
            let Self(rect, all) = self;
            all[((y - rect.y) * rect.width + x - rect.x) as usize]
        }
    }

    impl Image for Opacities {
        fn nothing(rect: PixelRect) -> Self {
            Self(rect, vec![0.0; rect.pixel_count()])
        }

        fn rect(&self) -> PixelRect {
            self.0
        }

        fn opacities(&self, row: &PixelRect) -> impl Iterator<Item = f32> {
            pixels(row).map(|(x, y)| self.at(x, y))
        }

        fn part(&self, _: &PixelRect) -> Self {
            unreachable!("it is not taken apart")
        }

        fn combine(&mut self, _: &Self, _: Mode) {}

        fn then(self, _: &Self, _: &PixelRect, _: Mode) -> Self {
            self
        }
    }

    fn pixels(rect: &PixelRect) -> impl Iterator<Item = (u32, u32)> + use<> {
        let (columns, rows) = (rect.x..rect.right(), rect.y..rect.bottom());
        rows.flat_map(move |y| columns.clone().map(move |x| (x, y)))
    }

    fn inside(picture: PixelRect) -> impl Strategy<Value = PixelRect> {
        let axis = |from: u32, length: u32| {
            (0..length).prop_flat_map(move |at| (Just(from + at), 1..=length - at))
        };
        let axes = (
            axis(picture.x, picture.width),
            axis(picture.y, picture.height),
        );
        axes.prop_map(|((x, width), (y, height))| rect(x, y, width, height))
    }

    fn images(picture: PixelRect) -> impl Strategy<Value = Opacities> {
        inside(picture).prop_flat_map(|rect| {
            let opacity = prop_oneof![3 => Just(1.0_f32), 1 => Just(0.9995), 2 => 0.0..1.0_f32, 2 => Just(0.97)];
            prop::collection::vec(opacity, rect.pixel_count()).prop_map(move |all| Opacities(rect, all))
        })
    }

    fn pixel(x: u32, y: u32) -> PixelRect {
        rect(x, y, 1, 1)
    }

    /// Part of the light that comes to a job in the pixel of a rectangle where it is most.
    fn through(images: &[(u32, Opacities)], job: u32, rect: &PixelRect) -> f32 {
        let of_pixel = |(x, y)| {
            let in_front = images.iter().filter(|(other, image)| {
                *other < job && image.0.intersection(&pixel(x, y)).is_some()
            });
            in_front.map(|(_, image)| 1.0 - image.at(x, y)).product()
        };
        pixels(rect).map(of_pixel).fold(0.0, f32::max)
    }

    proptest! {
        #[test]
        fn what_is_hidden_gets_no_light_whatever_came_first(
            (picture, images, part) in (0..9_u32, 0..9_u32, 1..9_u32, 1..9_u32).prop_flat_map(|(x, y, w, h)| {
                let picture = rect(x, y, w, h);
                (Just(picture), prop::collection::vec(images(picture), 1..9), inside(picture))
            }),
            order in Just((0..9).collect::<Vec<u32>>()).prop_shuffle(),
            edge in 1..5_u32,
        ) {
            let mut map = OcclusionMap { edge, ..OcclusionMap::new(picture, OPAQUE) };
            let images: Vec<(u32, Opacities)> = order.into_iter().zip(images).collect();
            for (job, image) in &images {
                map.add(*job, image);
            }
            // Of pictures as small as these each cell is a pixel, and in depth order nothing is missed.
            let mut sorted = images.clone();
            sorted.sort_by_key(|(job, _)| *job);
            let mut in_order = OcclusionMap::new(picture, OPAQUE);
            for (job, image) in &sorted {
                in_order.add(*job, image);
            }
            let parts = pixels(&picture).map(|(x, y)| pixel(x, y)).chain([part]);
            for (part, job) in parts.flat_map(|part| (0..10).map(move |job| (part, job))) {
                let light = through(&images, job, &part);
                prop_assert!(!map.hides(job, &part) || light <= (1.0 - OPAQUE) * 1.001);
                prop_assert!(in_order.hides(job, &part) || light >= (1.0 - OPAQUE) * 0.999);
            }
        }
    }

    #[test]
    fn what_lets_all_through_does_not_count() {
        let picture = rect(0, 0, 4, 4);
        let mut map = OcclusionMap::new(picture, OPAQUE);
        map.add(9, &Opacities::nothing(picture));
        for job in 0..2 {
            map.add(job, &Opacities(picture, vec![0.97; 16]));
        }
        assert!(map.hides(2, &picture) && !map.hides(1, &picture));
        // 0.03² of the light is what is left.
        let mut strict = OcclusionMap::new(picture, 0.9995);
        for job in 0..2 {
            strict.add(job, &Opacities(picture, vec![0.97; 16]));
        }
        assert!(!strict.hides(2, &picture));
    }

    #[test]
    fn large_pictures_have_as_many_cells() {
        let picture = rect(0, 0, 4_001, 3_003);
        let mut map = OcclusionMap::new(picture, OPAQUE);
        assert!(!map.hides(1, &picture), "nothing was added");
        assert!(map.add(0, &Names::of(0, rect(0, 0, 4_001, 2_000)).opaque()));
        let cells: usize = map.cells.iter().map(Vec::len).sum();
        assert!(cells <= CELLS_MAX && map.edge == 7);
        assert!(map.hides(1, &rect(17, 0, 3_984, 1_900)) && !map.hides(0, &rect(17, 0, 9, 9)));
        assert!(!map.hides(1, &rect(0, 1_990, 9, 20)) && !map.hides(1, &rect(0, 0, 0, 0)));
        assert!(
            !map.add(0, &Names::of(0, rect(0, 0, 4_001, 2_000)).opaque()),
            "it is known"
        );
        // The cells at the right and at the bottom are smaller.
        assert!(map.add(3, &Names::of(3, rect(3_900, 2_900, 101, 103)).opaque()));
        assert!(
            map.hides(4, &rect(4_000, 3_002, 1, 1)) && !map.hides(3, &rect(4_000, 3_002, 1, 1))
        );
    }
}
