//! The endpoints that the benchmark calls, with their names in the report. The gateway is called at
//! both kinds of endpoint: all servers with namespaced tools, and a single server.

use std::net::SocketAddr;

use crate::report::{DIRECT, GUARD, NGINX, OPEN, UNDIGESTED};
use crate::wire::Face;

/// The endpoint of all servers; tools carry their server's name.
pub const MERGED: Face = gateway_face(OPEN, "/mcp", "echo__echo");
/// The endpoint of a single server; tools keep their names.
pub const SINGLE: Face = gateway_face("gateway /servers", "/servers/echo/mcp", "echo");
/// The endpoint of all servers with keys, policies, limits and audit enabled.
const GUARDED: Face = gateway_face(GUARD, "/mcp", "echo__echo");

const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

const fn gateway_face(name: &'static str, path: &'static str, tool: &'static str) -> Face {
    Face { name, address: NOWHERE, path, tool, key: None }
}

/// Returns the faces of the running servers, cheapest first.
pub fn faces(
    echo: SocketAddr,
    nginx: Option<SocketAddr>,
    gateway: Option<SocketAddr>,
) -> Vec<Face> {
    let plain = |name, address| Face { name, address, path: "/mcp", tool: "echo", key: None };
    let mut all = vec![plain(DIRECT, echo)];
    all.extend(nginx.map(|address| plain(NGINX, address)));
    if let Some(address) = gateway {
        all.extend([MERGED, SINGLE].map(|face| Face { address, ..face }));
    }
    all
}

pub fn guarded(address: SocketAddr, key: String) -> Face {
    Face { address, key: Some(key), ..GUARDED }
}

/// Returns the guarded face without argument digests in the audit trail.
pub fn undigested(address: SocketAddr, key: String) -> Face {
    Face { name: UNDIGESTED, ..guarded(address, key) }
}

pub fn is_gateway(face: &Face) -> bool {
    [MERGED, SINGLE, GUARDED].iter().any(|gateway| face.name == gateway.name)
}
