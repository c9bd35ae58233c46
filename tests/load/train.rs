//! The `train` command: makes calls of every kind that the bench measures, so that a program that
//! was built to record a profile writes one (`packaging/build --profiled`).

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use tempfile::TempDir;

use crate::echo::Eras;
use crate::faces::{MERGED, SINGLE};
use crate::generate::{Fleet, Limit};
use crate::guard;
use crate::measure::BodySize;
use crate::process::ended_well;
use crate::proxy::{self, Gateway, Server};
use crate::run::progress;
use crate::wire::{Era, Face};

/// Calls of each kind.
const CALLS: u64 = 4000;
const CONNECTIONS: [usize; 3] = [1, 8, 32];

#[derive(clap::Args)]
pub struct Options {
    /// The program, built with `-C profile-generate`
    #[arg(long)]
    bin: PathBuf,
}

pub async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    let stand = Stand::prepare(&options.bin).await?;
    for (name, gateway, key) in &stand.gateways {
        progress(&format!("calls of the {name} gateway"));
        let mut server = gateway.start(name, stand.folder.path()).await?;
        for face in [MERGED, SINGLE] {
            let face = Face { address: server.address, key: key.clone(), ..face };
            for (era, connections) in
                Era::BOTH.into_iter().flat_map(|era| CONNECTIONS.map(|n| (era, n)))
            {
                call(&face, era, connections, BodySize::Small, CALLS).await?;
                call(&face, era, connections, BodySize::Large, CALLS / 20).await?;
            }
        }
        let status = server.process.stop(Duration::from_secs(60))?;
        ensure!(ended_well(status), "the program ended with {status}");
    }
    Ok(ExitCode::SUCCESS)
}

/// An echo server, and the gateways in front of it that are to be started.
pub struct Stand {
    _echo: Server,
    /// A gateway that is open and one with policies: name, configuration, and key of the caller.
    pub gateways: [(&'static str, Gateway, Option<String>); 2],
    pub folder: TempDir,
}

impl Stand {
    pub async fn prepare(program: &Path) -> anyhow::Result<Self> {
        let program = std::path::absolute(program).context("find the program")?;
        let temporary = tempfile::Builder::new().prefix("lockgate-load-").tempdir();
        let folder = temporary.context("make a folder")?;
        let echo = proxy::start_echo("echo", 1, Eras::Both, folder.path()).await?;
        let guard = guard::prepare(&program, folder.path())?;
        let open = Gateway { program, upstream: echo.address, more: String::new() };
        let guarded = Gateway { more: guard.config, ..open.clone() };
        let gateways = [("open", open, None), ("guarded", guarded, Some(guard.key))];
        Ok(Self { _echo: echo, gateways, folder })
    }
}

/// Makes calls over new connections, and checks each response.
pub async fn call(
    face: &Face,
    era: Era,
    connections: usize,
    body: BodySize,
    calls: u64,
) -> anyhow::Result<()> {
    let mut fleet = Fleet::connect(face, era, connections, &body.text()).await?;
    let limit = Limit { time: Duration::from_secs(120), calls };
    if let Some(fault) = fleet.drive(limit).await?.fault {
        bail!("a wrong response: {fault}");
    }
    fleet.close().await
}
