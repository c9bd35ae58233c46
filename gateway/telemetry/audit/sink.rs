//! The output of the trail: a stream of the process, or a rotated file. Failed writes are not
//! retried here.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use super::chain::{Seal, Tip};
use super::config::{Config, Output};
use super::file::{ChainEnd, LogFile};
use super::pieces::Range;

pub(super) enum Sink {
    Stream(File),
    File(Box<LogFile>),
}

/// Duplicates a stream's descriptor. The standard library's stream would buffer unwritten bytes.
fn copy_descriptor(stream: &dyn AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

impl Sink {
    /// Opens the output and finds the end of its chain.
    pub(super) fn open(config: &Config, seal: &Seal) -> Result<(Self, Tip, ChainEnd), io::Error> {
        let stream = match &config.output {
            Output::Stdout => copy_descriptor(&io::stdout())?,
            Output::Stderr => copy_descriptor(&io::stderr())?,
            Output::File(path) => {
                let (file, tip, found) = LogFile::open(path, config, seal)?;
                return Ok((Self::File(Box::new(file)), tip, found));
            }
        };
        Ok((Self::Stream(stream), Tip::default(), ChainEnd::default()))
    }

    pub(super) fn is_stream(&self) -> bool {
        matches!(self, Self::Stream(_))
    }

    pub(super) fn name(&self) -> &'static str {
        match self {
            Self::Stream(_) => "stream",
            Self::File(_) => "file",
        }
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Stream(stream) => stream.write(bytes),
            Self::File(file) => file.write(bytes),
        }
    }

    pub(super) fn sync(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.sync(),
        }
    }

    pub(super) fn is_due(&self) -> bool {
        matches!(self, Self::File(file) if file.is_due())
    }

    /// Rotates the file. The first record of the new file comes after `tip`.
    pub(super) fn rotate(&mut self, tip: &Tip) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.rotate(tip),
        }
    }

    /// Returns how the file was tampered with, so that it no longer receives records.
    pub(super) fn harm(&self) -> Option<&'static str> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => file.harm(),
        }
    }

    /// Continues in a new file after tampering; its first record comes after `tip`. Returns the
    /// range of lost records.
    pub(super) fn renew(&mut self, tip: &Tip, seal: &Seal) -> io::Result<Option<Range>> {
        match self {
            Self::Stream(_) => Ok(None),
            Self::File(file) => file.renew(tip, seal),
        }
    }

    pub(super) fn sweep(&mut self) {
        if let Self::File(file) = self {
            file.sweep();
        }
    }

    /// Returns the oldest record kept in any file.
    pub(super) fn oldest(&self) -> Option<u64> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => Some(file.oldest()),
        }
    }

    /// Stores the tip outside of the trail, so that truncation is detected.
    pub(super) fn note_head(&self, tip: &Tip) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.note_head(tip),
        }
    }
}
