//! Which placement of a data set is best on machines: what `placements` prints and `--placement auto` takes.

use brickmesh_topology::{
    Manifest, RenderSettings,
    balance::{
        cost_table::CostTable,
        placement::comparison::{
            ComparedDevice, ComparedPlacement, ComparisonInputs, ExchangePrices, compare,
        },
    },
    picture::{camera::View, framing::default_camera, render_settings::Mode},
};
use std::error::Error;

/// Sides that a volume is looked at from, around what is up.
const VIEWS: u32 = 8;
/// Bits of a pixel in the rectangles of images, of which those that show nothing do not travel. This and the two below are what
/// eight hosts of the lab took (`balance speed-up`, bonsai in bricks of 32, one copy, scattered and by a kd-tree).
const PIXEL_BITS: f64 = 8.0;
/// Processor time of a pixel that is sent, on each side, microseconds.
const PIXEL_MICROS: f64 = 0.005;
/// The same of an image, whatever its size.
const IMAGE_MICROS: f64 = 5.0;
/// Links are taken for such ones where nothing is said of them, Mbit/s.
pub(crate) const LINK_MBIT: u32 = 1000;

/// What placements are looked at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Comparison<'a> {
    pub(crate) manifest: &'a Manifest,
    pub(crate) devices: &'a [ComparedDevice],
    pub(crate) copies_max: u32,
    pub(crate) link_mbit: u32,
    /// Pixels of the pictures.
    pub(crate) size: (u32, u32),
}

impl Comparison<'_> {
    /// A row for each that fits, with the volume's own transfer function and camera, from all sides; ends with an error where it no
    /// longer `goes_on`.
    pub(crate) fn rows(
        &self,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Vec<ComparedPlacement>, Box<dyn Error>> {
        let manifest = self.manifest;
        let transfer = Mode::default().default_transfer(manifest).function;
        let settings = RenderSettings::new(transfer, 0.5 * manifest.volume().min_spacing());
        let camera = default_camera(manifest, self.size, None);
        let spun = |i: u32| camera.spun(360.0 * f64::from(i) / f64::from(VIEWS));
        let views = (0..VIEWS).map(|i| spun(i).view(self.size.0, self.size.1));
        let views = views.collect::<Result<Vec<View>, _>>()?;
        let inputs = ComparisonInputs {
            manifest,
            settings: &settings,
            views: &views,
            devices: self.devices,
            prices: ExchangePrices {
                pixel_micros: PIXEL_MICROS + PIXEL_BITS / f64::from(self.link_mbit),
                image_micros: IMAGE_MICROS,
            },
            copies_max: self.copies_max,
            costs: &CostTable::default(),
        };
        let mut rows = Vec::new();
        for row in compare(&inputs) {
            rows.push(row?);
            if !goes_on() {
                return Err("stopped".into());
            }
        }
        Ok(rows)
    }
}

/// Bricks that fit into so many bytes.
pub(crate) fn room(manifest: &Manifest, bytes: u64) -> u32 {
    let bricks = bytes / manifest.largest_brick_bytes().max(1);
    u32::try_from(bricks).unwrap_or(u32::MAX)
}
