//! The volume and what is known of it: grid, bricks, values, transfer functions, the manifest.
//!
//! May use `base`; `.ci/arrows` checks it.

pub mod brick_bytes;
pub mod brick_grid;
pub mod brick_set;
pub mod brick_table;
pub mod bricks_on_ray;
pub mod cell_ranges;
pub mod column_values;
pub mod default_transfer;
pub mod gradient_histogram;
pub mod levels;
pub mod manifest;
pub mod number_rows;
pub mod partition_method;
pub mod presence_cubes;
pub mod presets;
pub mod slab_projections;
pub mod subject;
pub mod transfer_edit;
pub mod transfer_function;
pub mod transfer_shapes;
pub mod triangles;
pub mod value_gathering;
pub mod value_statistics;
pub mod volume;
pub mod voxel_box;
pub mod voxel_numbers;
