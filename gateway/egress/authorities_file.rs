//! The trusted CA certificates as a PEM file, for child processes: they read it instead of the
//! system's file, so it must contain the system's CA certificates too.

use std::io::{self, Write};
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use parking_lot::Mutex;
use rustls_pki_types::CertificateDer;
use tempfile::NamedTempFile;

const PEM_LINE_LENGTH: usize = 64;

/// Written once, into the temporary directory; deleted on drop.
#[derive(Default)]
pub(crate) struct AuthoritiesFile(Mutex<Option<NamedTempFile>>);

impl AuthoritiesFile {
    pub(crate) fn path(&self, authorities: &[CertificateDer<'static>]) -> io::Result<PathBuf> {
        let mut written = self.0.lock();
        if let Some(file) = &*written
            && file.path().exists()
        {
            return Ok(file.path().to_owned());
        }
        let mut file = tempfile::Builder::new().prefix("lockgate-ca-").suffix(".pem").tempfile()?;
        for certificate in authorities {
            write_pem(&mut file, certificate)?;
        }
        file.flush()?;
        let path = file.path().to_owned();
        *written = Some(file);
        Ok(path)
    }
}

fn write_pem(out: &mut impl Write, certificate: &[u8]) -> io::Result<()> {
    writeln!(out, "-----BEGIN CERTIFICATE-----")?;
    for line in STANDARD.encode(certificate).as_bytes().chunks(PEM_LINE_LENGTH) {
        out.write_all(line)?;
        writeln!(out)?;
    }
    writeln!(out, "-----END CERTIFICATE-----")
}
