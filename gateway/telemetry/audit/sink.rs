//! The output of the trail: a stream of the process, or a rotated file. Failed writes are not
//! retried here.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;

use super::chain::{Seal, Tip};
use super::config::{Config, Output};
use super::file::{ChainEnd, LogFile};

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

    /// Returns the file, if the output is not a stream.
    pub(super) fn file(&mut self) -> Option<&mut LogFile> {
        match self {
            Self::Stream(_) => None,
            Self::File(file) => Some(file),
        }
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
}
