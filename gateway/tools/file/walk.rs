//! Walks a folder recursively, in sorted order. Each folder is opened relative to its parent,
//! without following links, up to a limit.

use std::ops::ControlFlow;
use std::os::fd::OwnedFd;

use rustix::fs::{Dir, FileType, Stat};
use rustix::io::Errno;

use super::place::{FileCall, FilePlace};
use super::root::{enter, look};
use crate::blocking::CancellationToken;
use crate::tool::ToolError;

/// Maximum depth below the start.
const MAX_DEPTH: usize = 64;

pub(super) struct FoundFile<'a> {
    /// The open parent folder.
    pub(super) folder: &'a OwnedFd,
    /// Names from the start, including its own.
    pub(super) names: &'a [String],
    pub(super) stat: Stat,
}

impl FoundFile<'_> {
    pub(super) fn name(&self) -> &str {
        self.names.last().map_or("", String::as_str)
    }

    pub(super) fn is_folder(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::Directory
    }

    pub(super) fn is_file(&self) -> bool {
        FileType::from_raw_mode(self.stat.st_mode) == FileType::RegularFile
    }
}

/// How to proceed after an entry.
pub(super) enum Next {
    /// Continue, also into the entry if it is a folder.
    On,
    /// Continue, but not into the entry.
    Past,
    End,
}

pub(super) struct Walk<'a> {
    pub(super) stop: &'a CancellationToken,
    /// Number of entries that may still be visited.
    pub(super) left: usize,
    /// Whether entries were skipped: too deep, too many, not accessible, or with a name that is not
    /// UTF-8.
    pub(super) partial: bool,
}

/// Visits the readable entries below a folder; names that begin with a dot only with the argument
/// `hidden`. Returns whether others were skipped that no rule denies.
pub(super) fn visit_readable(
    call: &FileCall<'_>,
    place: &FilePlace,
    visit: &mut dyn FnMut(&FoundFile<'_>, &str) -> Result<Next, ToolError>,
) -> Result<bool, ToolError> {
    let files = call.files;
    let hidden = call.arguments.flag("hidden");
    let mut odd = false;
    let mut walk = Walk::new(call.stop, files.config.entries);
    walk.run(place, &mut |found| {
        let path = place.below(found.names);
        if !hidden && found.name().starts_with('.') {
            return Ok(Next::Past);
        }
        if !files.is_readable(&path) {
            odd |= files.is_odd(&path);
            return Ok(Next::Past);
        }
        visit(found, &path)
    })?;
    Ok(walk.partial || odd)
}

impl<'a> Walk<'a> {
    pub(super) fn new(stop: &'a CancellationToken, most: usize) -> Self {
        Self { stop, left: most, partial: false }
    }

    /// Visits everything below a folder.
    pub(super) fn run(
        &mut self,
        place: &FilePlace,
        visit: &mut dyn FnMut(&FoundFile<'_>) -> Result<Next, ToolError>,
    ) -> Result<(), ToolError> {
        let opened = place.root.folder(&place.names);
        if let Err(Errno::NOTDIR) = opened
            && let Some((_, above)) = place.names.split_last()
            && place.root.folder(above).is_ok()
        {
            return Err(ToolError(format!(
                "{} is a file, not a folder: name the folder that it is in, or `read` it",
                place.path
            )));
        }
        let _ = self.folder(&place.explain(opened)?, &mut Vec::new(), visit)?;
        Ok(())
    }

    fn folder(
        &mut self,
        folder: &OwnedFd,
        names: &mut Vec<String>,
        visit: &mut dyn FnMut(&FoundFile<'_>) -> Result<Next, ToolError>,
    ) -> Result<ControlFlow<()>, ToolError> {
        for name in self.entries(folder) {
            self.stop.check()?;
            if self.left == 0 {
                self.partial = true;
                return Ok(ControlFlow::Break(()));
            }
            self.left -= 1;
            // The entry may have been deleted since the folder was read.
            let Ok(stat) = look(folder, &name) else { continue };
            names.push(name);
            let found = FoundFile { folder, names, stat };
            let inner = found.is_folder();
            let flow = match visit(&found)? {
                Next::End => ControlFlow::Break(()),
                Next::On if inner => self.enter(folder, names, visit)?,
                Next::On | Next::Past => ControlFlow::Continue(()),
            };
            names.pop();
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    fn enter(
        &mut self,
        folder: &OwnedFd,
        names: &mut Vec<String>,
        visit: &mut dyn FnMut(&FoundFile<'_>) -> Result<Next, ToolError>,
    ) -> Result<ControlFlow<()>, ToolError> {
        if names.len() < MAX_DEPTH
            && let Some(name) = names.last()
            && let Ok(inner) = enter(folder, name)
        {
            return self.folder(&inner, names, visit);
        }
        self.partial = true;
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the names in a folder, sorted; at most one more than may still be visited.
    fn entries(&mut self, folder: &OwnedFd) -> Vec<String> {
        let Ok(entries) = Dir::read_from(folder) else {
            self.partial = true;
            return Vec::new();
        };
        let mut names = Vec::new();
        for entry in entries.flatten() {
            match entry.file_name().to_str() {
                Ok("." | "..") => {}
                Ok(name) if names.len() <= self.left => names.push(name.to_owned()),
                _ => self.partial = true,
            }
        }
        names.sort_unstable();
        names
    }
}
