//! What is to be seen, and where on the screen: settings, rays, footprints, tiles, depth order.
//!
//! May use `base` and `data`; `.ci/arrows` checks it.

pub mod camera;
pub mod camera_motion;
pub mod camera_path;
pub mod clip;
pub mod depth_order;
pub mod finish;
pub mod footprint;
pub mod framing;
pub mod grid_projection;
pub mod isosurface;
pub mod level_choice;
pub mod quality;
pub mod render_settings;
pub mod sample_count;
pub mod slice;
pub mod slice_views;
pub mod surface_rays;
pub mod tiles;
pub mod visible_cells;
