//! What jobs render, as far as decisions need to know of it: partials of pixels, or in simulations names
//! of who rendered them.

use crate::picture::{camera::PixelRect, render_settings::Mode};

/// Most bytes of a pixel on the wire, besides a few of each rectangle and a bit of each pixel.
pub const PIXEL_BYTES: usize = 8;
/// Bytes of a pixel in memory.
pub const PIXEL_BYTES_IN_MEMORY: usize = size_of::<[f32; 4]>();

/// Partials of the pixels of a rectangle.
pub trait Image: Clone + std::fmt::Debug {
    /// Nothing, everywhere in a rectangle.
    fn nothing(rect: PixelRect) -> Self;

    /// Its pixels.
    fn rect(&self) -> PixelRect;

    /// Memory that its pixels take, in bytes.
    fn bytes(&self) -> usize {
        self.rect().pixel_count() * PIXEL_BYTES_IN_MEMORY
    }

    /// Opacities of all pixels of a part of a row that it holds, from left to right, none below 0; of what is no number, 0.
    fn opacities(&self, row: &PixelRect) -> impl Iterator<Item = f32>;

    /// The part inside a rectangle, without borders of nothing.
    fn part(&self, rect: &PixelRect) -> Self;

    /// The same of one that is used no more: what is all of it is not copied.
    #[must_use]
    fn into_part(self, rect: &PixelRect) -> Self {
        self.part(rect)
    }

    /// Puts what lies behind into this one, where they meet.
    fn combine(&mut self, behind: &Self, mode: Mode);

    /// This one with [`Self::part`] `within` of `behind` behind it, in the rectangle around both.
    #[must_use]
    fn then(self, behind: &Self, within: &PixelRect, mode: Mode) -> Self;
}

/// An image as it travels.
pub trait Packed {
    /// What it is when it is unpacked.
    type Image: Image;

    /// The pixels that it says to have.
    fn rect(&self) -> PixelRect;

    /// The image; `None`: these are no pixels that can be combined.
    fn unpack(self, mode: Mode) -> Option<Self::Image>;

    /// Memory that it takes, in bytes.
    fn memory_bytes(&self) -> usize;
}

/// Images of names, for tests and simulations: who or what was combined, front to back.
pub mod named {
    use super::{Image, PIXEL_BYTES, Packed};
    use crate::picture::{camera::PixelRect, render_settings::Mode};
    /// See the module.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Names<N = u32> {
        rect: PixelRect,
        names: Vec<N>,
        /// Nothing is seen behind these of its pixels.
        opaque: PixelRect,
    }

    impl<N> Names<N> {
        /// One name, everywhere in a rectangle.
        #[must_use]
        pub fn of(name: N, rect: PixelRect) -> Self {
            Self {
                rect,
                names: vec![name],
                opaque: rect.emptied(),
            }
        }

        /// The same, opaque in all of it.
        #[must_use]
        pub fn opaque(self) -> Self {
            Self {
                opaque: self.rect,
                ..self
            }
        }

        /// The names, front to back.
        #[must_use]
        pub fn names(&self) -> &[N] {
            &self.names
        }
    }

    impl<N: Clone + std::fmt::Debug> Image for Names<N> {
        fn nothing(rect: PixelRect) -> Self {
            Self {
                rect,
                names: Vec::new(),
                opaque: rect.emptied(),
            }
        }

        fn rect(&self) -> PixelRect {
            self.rect
        }

        fn opacities(&self, row: &PixelRect) -> impl Iterator<Item = f32> {
            let inside = self.opaque.intersection(row).unwrap_or(row.emptied());
            let opaque = inside.x..inside.right();
            (row.x..row.right()).map(move |x| f32::from(u8::from(opaque.contains(&x))))
        }

        fn part(&self, rect: &PixelRect) -> Self {
            let none = rect.emptied();
            let part = |of: &PixelRect| of.intersection(rect).unwrap_or(none);
            Self {
                rect: part(&self.rect),
                names: self.names.clone(),
                opaque: part(&self.opaque),
            }
        }

        fn combine(&mut self, behind: &Self, _: Mode) {
            self.names.extend(behind.names.iter().cloned());
            if self.opaque.pixel_count() < behind.opaque.pixel_count() {
                self.opaque = behind.opaque;
            }
        }

        fn then(mut self, behind: &Self, within: &PixelRect, mode: Mode) -> Self {
            let part = behind.part(within);
            self.rect = self.rect.around(&part.rect);
            self.combine(&part, mode);
            self
        }
    }

    impl<N: Clone + std::fmt::Debug> Packed for Names<N> {
        type Image = Self;

        fn rect(&self) -> PixelRect {
            self.rect
        }

        fn unpack(self, _: Mode) -> Option<Self> {
            Some(self)
        }

        fn memory_bytes(&self) -> usize {
            self.rect.pixel_count() * PIXEL_BYTES
        }
    }
}
