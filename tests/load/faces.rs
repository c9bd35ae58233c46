//! Every place that the bench calls, by the names that the report uses. The gateway is called at
//! both kinds of endpoint: all servers with namespaced tools, and one server as itself.

use std::net::SocketAddr;

use crate::report::{DIRECT, GUARD, NGINX, OPEN, UNDIGESTED};
use crate::wire::Face;

/// All servers behind one endpoint; tools carry their server's name.
pub const MERGED: Face = gateway_face(OPEN, "/mcp", "echo__echo");
/// One server's own endpoint; tools keep their names.
const SINGLE: Face = gateway_face("gateway /servers", "/servers/echo/mcp", "echo");
/// The first again, with everything that judges a call.
const GUARDED: Face = gateway_face(GUARD, "/mcp", "echo__echo");

const NOWHERE: SocketAddr =
    SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);

const fn gateway_face(name: &'static str, path: &'static str, tool: &'static str) -> Face {
    Face { name, address: NOWHERE, path, tool, key: None }
}

/// The faces of what runs, cheapest first.
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

/// The same without the arguments' digests in its audit trail.
pub fn undigested(address: SocketAddr, key: String) -> Face {
    Face { name: UNDIGESTED, ..guarded(address, key) }
}

pub fn is_gateway(face: &Face) -> bool {
    [MERGED, SINGLE, GUARDED].iter().any(|gateway| face.name == gateway.name)
}
