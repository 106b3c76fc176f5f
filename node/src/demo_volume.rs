//! The demo's volume: MR angiography of an arteriovenous fistula (FNNDSC data, Apache-2.0).

use crate::brick_store::{self, BrickEdge, FileOptions};
use brickmesh_actors::data_set::BrickSource;
use std::{error::Error, fs, sync::Arc};

const FILE: (&str, &[u8]) = ("fistula.nrrd", include_bytes!("../../tests/data/avf.nrrd"));
/// Edge of its bricks: many for so small a volume, so that several peers have something to do.
const BRICK: u32 = 16;

/// Opens it.
///
/// # Errors
/// Where no temporary file can be written.
pub(crate) fn demo_source() -> Result<Arc<dyn BrickSource>, Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(FILE.0);
    fs::write(&file, FILE.1)?;
    let source = brick_store::open_source(
        &file,
        FileOptions::default(),
        BrickEdge::Exactly(BRICK),
        u64::MAX,
        &mut |_, _| true,
    )?;
    Ok(source)
}
