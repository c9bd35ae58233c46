//! Converts byte offsets to lines and columns. Columns count characters.

use std::path::PathBuf;
use std::sync::Arc;

use crate::problem::ValuePlace;

pub struct Lines<'a> {
    path: &'a Arc<PathBuf>,
    text: &'a str,
    /// Offset of each line's first byte.
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    pub fn new(path: &'a Arc<PathBuf>, text: &'a str) -> Self {
        let mut starts = vec![0];
        starts.extend(text.match_indices('\n').map(|(at, _)| at + 1));
        Self { path, text, starts }
    }

    pub fn place(&self, offset: usize) -> ValuePlace {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let before = self.text.get(start..offset).unwrap_or("");
        self.at(line, before.chars().count() + 1)
    }

    pub fn at(&self, line: usize, column: usize) -> ValuePlace {
        ValuePlace::File { path: self.path.clone(), line, column }
    }
}
