//! The text that is printed once the gateway listens.

use std::net::SocketAddr;

use lockgate_config::Config;
use lockgate_telemetry::Format;

/// Prints the addresses of the gateway and the next steps.
pub(super) fn greet(address: SocketAddr, config: &Config, admin: Option<SocketAddr>) {
    use std::io::Write;
    let scheme = if config.listener.tls.is_some() { "https" } else { "http" };
    let key = match (&config.authn.key, config.authn.has_credentials()) {
        (Some(_), _) => " (with `Authorization: Bearer <auth.key>`)",
        (None, true) => " (with credentials, see `auth`)",
        (None, false) => "",
    };
    // A log in JSON must keep to one object per line.
    if config.telemetry.format == Format::Json {
        let own = admin.map(|admin| format!("http://{admin}"));
        return tracing::info!(
            version = env!("CARGO_PKG_VERSION"),
            admin = own,
            "lockgate listens on {scheme}://{address} for clients"
        );
    }
    // The operators' own address has no TLS.
    let health =
        admin.map_or_else(|| format!("{scheme}://{address}"), |admin| format!("http://{admin}"));
    let console = match (config.admin.api.on_clients_address, config.admin.api.on_own_address) {
        (true, _) => format!("  console         {scheme}://{address}/console\n"),
        (false, true) if admin.is_some() => format!("  console         {health}/console\n"),
        (false, _) => String::new(),
    };
    let mut text = format!(
        "lockgate {} listens on {scheme}://{address}\n\n  every server    \
            {scheme}://{address}/mcp{key}\n  one server      \
            {scheme}://{address}/servers/NAME/mcp\n{console}  health          {health}/readyz\n",
        env!("CARGO_PKG_VERSION"),
    );
    if config.servers.is_empty() && config.tools.example {
        text.push_str(
            "\nNo servers are configured, so only the built-in ones are available. Next:\n\n",
        );
        text.push_str(
            "  lockgate call example__echo '{\"text\":\"hello\"}'    a first tool call, in another \
                terminal\n",
        );
        text.push_str(
            "  lockgate tools                                     the tools that clients see\n\n",
        );
        text.push_str(
            "Then add your own servers to lockgate.yaml:\n\n  servers:\n    time: \
            { command: uvx, args: [mcp-server-time] }\n",
        );
    }
    let _ = writeln!(std::io::stderr(), "{text}");
}
