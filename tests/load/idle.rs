//! Memory of idle legacy sessions with closed connections: a fresh gateway before and after opening
//! thousands. Sessions opened to warm up are not counted.

use std::path::Path;
use std::time::Duration;

use crate::peer::Peer;
use crate::process::Memory;
use crate::proxy::Gateway;
use crate::wire::Face;

/// Sessions opened before the first sample, to exclude one-time growth.
const WARM: usize = 500;

pub struct Idle {
    pub pss_kib: f64,
    pub rss_kib: f64,
}

pub async fn idle(
    gateway: &Gateway,
    path: &'static str,
    sessions: usize,
    folder: &Path,
) -> anyhow::Result<Idle> {
    // A single caller owns all sessions.
    let more =
        format!("{}limits: {{ sessions_per_principal: {} }}\n", gateway.more, WARM + sessions);
    let server = Gateway { more, ..gateway.clone() }.start("gateway-idle", folder).await?;
    let face = Face { name: "idle", address: server.address, path, tool: "", key: None };
    open(&face, WARM).await?;
    let before = settle(&server.process).await?;
    open(&face, sessions).await?;
    let after = settle(&server.process).await?;
    let each = |after: u64, before: u64| (after as f64 - before as f64) / sessions as f64;
    Ok(Idle { pss_kib: each(after.pss, before.pss), rss_kib: each(after.rss, before.rss) })
}

/// Opens sessions over a few connections, then closes the connections but not the sessions.
async fn open(face: &Face, sessions: usize) -> anyhow::Result<()> {
    const PER_CONNECTION: usize = 250;
    let mut left = sessions;
    while left > 0 {
        let mut peer = Peer::connect(face.address).await?;
        for _ in 0..left.min(PER_CONNECTION) {
            peer.open_session(face).await?;
        }
        left = left.saturating_sub(PER_CONNECTION);
    }
    Ok(())
}

/// Returns the memory after the closed connections have been cleaned up.
async fn settle(process: &crate::process::Running) -> anyhow::Result<Memory> {
    tokio::time::sleep(Duration::from_millis(700)).await;
    process.memory()
}
