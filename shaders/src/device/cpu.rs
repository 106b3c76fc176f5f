//! The CPU device (soon).
