//! How a scene turns numbers into colours: its table and what that shows, worked out once for all
//! scenes that follow each other and differ in something else, as in the camera.

use crate::{
    macrocells::VisibleValues,
    scene::Scene,
    transfer_table::{SeenPlaces, TransferTable},
};
use brickmesh_topology::{
    TransferFunction, data::transfer_shapes::TransferShape, picture::render_settings::Mode,
};
use std::sync::Arc;

/// See the module. A clone shares the tables.
#[derive(Clone, Debug)]
pub struct Classifier {
    of: Source,
    /// Colours of a step.
    pub table: Arc<TransferTable>,
    /// Where along the table something is seen.
    pub(crate) seen: SeenPlaces,
    /// What can be seen at all; shared by classifiers that follow each other and see the same.
    pub values: Arc<VisibleValues>,
}

/// All that a table depends on.
#[derive(Clone, Debug, PartialEq)]
struct Source {
    transfer: TransferFunction,
    transfer_2d: Vec<TransferShape>,
    preintegrate: bool,
    step: f64,
    mode: Mode,
    surfaces: Vec<f32>,
    unit_distance: f64,
    /// From the numbers of voxels to data values: scale and offset.
    value: [f64; 2],
}

impl Classifier {
    /// The classifier of a scene: that of the scene `before` if it is the same.
    #[must_use]
    pub fn of(scene: &Scene, before: Option<&Self>) -> Self {
        let of = Source {
            transfer: scene.settings.transfer.clone(),
            transfer_2d: scene.settings.transfer_2d.clone(),
            preintegrate: scene.settings.preintegrate,
            step: scene.settings.step,
            mode: scene.settings.mode,
            surfaces: scene.surface_numbers().collect(),
            unit_distance: scene.unit_distance(),
            value: scene.numbers.value_scale_and_offset(&scene.volume),
        };
        match before {
            Some(before) if before.of == of => before.clone(),
            _ => {
                let table = Arc::new(TransferTable::new(scene));
                let values =
                    VisibleValues::of(&table, of.mode, &scene.numbers, of.surfaces.clone());
                let same = before.filter(|b| *b.values == values);
                let values = same.map_or_else(|| Arc::new(values), |b| Arc::clone(&b.values));
                Self {
                    of,
                    seen: table.seen_places(),
                    table,
                    values,
                }
            }
        }
    }

    /// Whether two classifiers have one table.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.table, &other.table)
    }
}
