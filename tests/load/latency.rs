//! Latency of a warm `tools/list` of many tools and of `initialize`, with one request at a time on
//! a single connection. Incomplete lists are errors.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use http::header::HeaderValue;
use memchr::memmem;

use crate::peer::Peer;
use crate::wire::{Era, Face, Template, expect_result};

/// Limit on the pages of a list.
const PAGES: usize = 100;

/// Returns the median time in milliseconds of a warm list with all its pages.
pub async fn list(face: &Face, era: Era, tools: usize, repeats: usize) -> anyhow::Result<f64> {
    let mut peer = Peer::connect(face.address).await?;
    let session = match era {
        Era::Legacy => Some(peer.open_session(face).await?),
        Era::Modern => None,
    };
    let mut times = Vec::with_capacity(repeats);
    for turn in 0..repeats + 3 {
        let began = Instant::now();
        let pages = pages(&mut peer, face, era, session.as_ref()).await?;
        let elapsed = began.elapsed();
        if turn < 3 {
            let listed = count(&pages)?;
            ensure!(listed == tools, "{listed} tools listed of {tools}");
        } else {
            times.push(elapsed);
        }
    }
    if let Some(session) = session {
        peer.end_session(face, &session).await?;
    }
    median_ms(&times)
}

async fn pages(
    peer: &mut Peer,
    face: &Face,
    era: Era,
    session: Option<&HeaderValue>,
) -> anyhow::Result<Vec<bytes::Bytes>> {
    let mut pages = Vec::new();
    let mut cursor: Option<String> = None;
    while pages.len() < PAGES {
        let id = peer.fresh_id();
        let answer =
            peer.send(Template::list(face, era, session, cursor.as_deref())?.request(id)).await?;
        expect_result(&answer, id)?;
        cursor = next(&answer.body);
        pages.push(answer.body);
        if cursor.is_none() {
            return Ok(pages);
        }
    }
    bail!("more than {PAGES} pages")
}

/// Returns the cursor of the next page. The servers called here use cursors without escapes.
fn next(page: &[u8]) -> Option<String> {
    const KEY: &[u8] = br#""nextCursor":""#;
    let rest = page.get(memmem::find(page, KEY)? + KEY.len()..)?;
    let end = memchr::memchr(b'"', rest)?;
    String::from_utf8(rest.get(..end)?.to_vec()).ok()
}

fn count(pages: &[bytes::Bytes]) -> anyhow::Result<usize> {
    let mut listed = 0;
    for page in pages {
        let page = page.trim_ascii();
        let json = match memmem::find(page, b"data: ") {
            Some(at) if !page.starts_with(b"{") => page.get(at + 6..).unwrap_or_default(),
            _ => page,
        };
        let value: serde_json::Value =
            serde_json::from_slice(json).context("a page is not JSON")?;
        listed += value
            .pointer("/result/tools")
            .and_then(|tools| tools.as_array())
            .context("no tools")?
            .len();
    }
    Ok(listed)
}

/// Returns the median time in milliseconds of `initialize` alone. Completing and ending each
/// session is outside the measured time.
pub async fn initialize(face: &Face, repeats: usize) -> anyhow::Result<f64> {
    let mut peer = Peer::connect(face.address).await?;
    let template = Template::initialize(face)?;
    let mut times = Vec::with_capacity(repeats);
    for turn in 0..repeats + 20 {
        let began = Instant::now();
        let session = peer.initialize(&template).await?;
        let elapsed = began.elapsed();
        if turn >= 20 {
            times.push(elapsed);
        }
        peer.send(Template::initialized(face, &session)?.request(0)).await?;
        peer.end_session(face, &session).await?;
    }
    median_ms(&times)
}

fn median_ms(times: &[Duration]) -> anyhow::Result<f64> {
    crate::measure::median(times.iter().map(|time| time.as_secs_f64() * 1e3).collect())
        .context("nothing was measured")
}
