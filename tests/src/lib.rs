//! What the tests across rooms share: volumes by formula, a slow reference raycaster written from
//! the conventions alone, comparisons of pictures, meshes in one process and over loopback, peers
//! and strangers there, labs of several hosts and what may happen in these, devices that fail on cue,
//! attacks on readers.

pub mod attacker;
pub mod churn;
pub mod compare;
pub mod display;
pub mod facets;
pub mod failing_device;
pub mod hooked_device;
pub mod hostile;
pub mod lab;
pub mod mesh;
pub mod network_mesh;
pub mod network_peer;
pub mod program;
pub mod reference;
pub mod scenes;
pub mod skip;
pub mod volumes;
