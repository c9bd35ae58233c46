//! Where the bytes of the trail go: a stream of the process, or a file that is rotated. It retries
//! nothing.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use super::chain::{Seal, Tip};
use super::config::{Config, Output};
use super::file::{Found, LogFile};
use super::pieces::Range;

/// See the module.
pub(super) enum Sink {
    Stream(File),
    File(Box<LogFile>),
}

/// The standard library's own stream would keep what it could not write.
fn copy_descriptor(stream: &dyn AsFd) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

impl Sink {
    /// Opens the output and finds the end of the chain that is there.
    pub(super) fn open(config: &Config, seal: &Seal) -> Result<(Self, Tip, Found), io::Error> {
        let stream = match &config.output {
            Output::Stdout => copy_descriptor(&io::stdout())?,
            Output::Stderr => copy_descriptor(&io::stderr())?,
            Output::File(path) => {
                let (file, tip, found) = LogFile::open(path, config, seal)?;
                return Ok((Self::File(Box::new(file)), tip, found));
            }
        };
        Ok((Self::Stream(stream), Tip::default(), Found::default()))
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

    /// Brings what was written to the disk itself.
    pub(super) fn sync(&mut self) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.sync(),
        }
    }

    /// Whether the file is to be set aside now.
    pub(super) fn is_due(&self) -> bool {
        matches!(self, Self::File(file) if file.is_due())
    }

    /// Sets the file aside and begins another one, whose first record comes after `tip`.
    pub(super) fn rotate(&mut self, tip: &Tip) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.rotate(tip),
        }
    }

    /// What somebody did to the file, so that records do not get into it any more.
    pub(super) fn harm(&self) -> Option<&'static str> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => file.harm(),
        }
    }

    /// Goes on in a new file after that, whose first record comes after `tip`; says what is in
    /// none.
    pub(super) fn renew(&mut self, tip: &Tip, seal: &Seal) -> io::Result<Option<Range>> {
        match self {
            Self::Stream(_) => Ok(None),
            Self::File(file) => file.renew(tip, seal),
        }
    }

    /// Removes the files that rotation let go.
    pub(super) fn sweep(&mut self) {
        if let Self::File(file) = self {
            file.sweep();
        }
    }

    /// First record that is kept, in whatever file.
    pub(super) fn oldest(&self) -> Option<u64> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => Some(file.oldest()),
        }
    }

    /// Remembers the tip outside of the trail, so that a cut is noticed.
    pub(super) fn note_head(&self, tip: &Tip) -> io::Result<()> {
        match self {
            Self::Stream(_) => Ok(()),
            Self::File(file) => file.note_head(tip),
        }
    }
}
