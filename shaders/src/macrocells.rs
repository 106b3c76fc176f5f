//! Macrocells: value ranges of small blocks of a brick (soon).
