//! What the tests across rooms share: volumes by formula, a slow reference raycaster written from
//! the conventions alone, comparisons of pictures, meshes in one process.

pub mod compare;
pub mod mesh;
pub mod reference;
pub mod volumes;
