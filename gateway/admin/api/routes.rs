//! The table of all operations: the words, the least role, the method and path, and the function of
//! each, whose types are its input and output. The router, its permissions and the OpenAPI document
//! are made from it.

use std::sync::Arc;

use axum::Router;
use axum::routing::{delete, get, patch, post, put};
use serde_json::Value;

use super::access::{Admin, Operator, Permission, User, permission_of};
#[cfg(test)]
use super::document::tests::{Operation, describe_types};
use super::integrations::{imported, input, validate};
use super::state::ApiState;
use super::table::Table;
use super::{
    agent_servers, agents, approvals, audit, call, connections, document, events, integrations,
    keys, me, organisations, pins, policies, servers, sessions, tools, usage,
};
use crate::router::AnyHandler;

macro_rules! permission {
    (Public $function:path) => {
        Permission::Public
    };
    ($role:ident $function:path) => {
        permission_of::<$role, _>($function)
    };
}

#[cfg(test)]
macro_rules! types {
    ([raw] $function:path) => {
        |_| {}
    };
    ([$($kind:ident)?] $function:path) => {
        |types| describe_types(&$function, types)
    };
}

/// Defines the table of operations, and for tests the descriptions that `openapi.json` contains.
///
/// A group has the tag of its operations; those of an organisation take `organizationId`. A row
/// ends with the conditions that a change takes (`changing`: a dry run; `repeatable`: also an
/// idempotency key; `versioned`: also a version; `raw`: its types are not those of the document),
/// and the responses besides the function's result.
macro_rules! operations {
    ($($tag:literal of $scope:ident: $(
        $(#[doc = $words:literal])+
        $role:ident $method:ident $path:literal $module:ident::$name:ident $(: $kind:ident)?
            $($status:literal $($response:literal)?),*;
    )+)+) => {
        /// Returns the router of all operations, with the parameters that the document describes.
        pub(super) fn route_all(document: &Value) -> Router<Arc<ApiState>> {
            Table::new(document)
                $($(.add(
                    permission!($role $module::$name),
                    stringify!($name),
                    $path,
                    $method(AnyHandler::new($module::$name)),
                ))+)+
                .into_router()
        }

        #[cfg(test)]
        pub(crate) fn describe() -> Vec<Operation> {
            vec![$($(Operation {
                tag: $tag,
                scope: stringify!($scope),
                words: &[$($words),+],
                permission: permission!($role $module::$name),
                method: stringify!($method),
                path: $path,
                id: stringify!($name),
                kind: stringify!($($kind)?),
                responses: &[$(($status, concat!($($response)?))),*],
                describe_types: types!([$($kind)?] $module::$name),
            },)+)+]
        }
    };
}

operations! {
"api" of gateway:

/// This page.
Public get "/" document::show_page: raw;

/// The OpenAPI document of the API.
Public get "/openapi.json" document::show_document: raw;

/// Returns the caller.
User get "/me" me::show_me;

"servers" of organisation:

/// Lists the servers that the caller may see.
///
/// Those of the configuration, as far as policy allows, and those of the caller's organisation.
User get "/servers" servers::list_servers
    200 "The `ETag` covers the organisation's own servers, for PUT";

/// Replaces the integrations of the caller's organisation.
///
/// Integrations that are not in the body are deleted, and unassigned from all agents; equal ones
/// are not changed, and omitted credentials are kept. All changes are made, or none. Servers of the
/// configuration are not affected.
Admin put "/servers" integrations::replace_servers: versioned
    400 "An error in the body: nothing was changed", 404 "The catalogue has no such entry",
    409 "A slug or a name is taken";

/// Returns a server.
User get "/servers/{name}" servers::show_server 404 "No such server";

/// Returns the outcomes of recent calls.
///
/// The sum over all servers with figures that the caller may see: those of its organisation, and
/// for operators also those of the configuration.
User get "/figures" servers::show_figures;

/// Connects a server that was disconnected, is disabled, or has failed.
///
/// A server that is connected or connecting is not changed.
Admin post "/servers/{name}/connect" servers::connect_server: changing 404 "No such server";

/// Disconnects a server until it is connected again.
///
/// Running calls are aborted. The server stays disconnected when the configuration is reloaded,
/// unless its own entry has changed, and until the gateway restarts. An integration is disconnected
/// from this gateway only: `POST /mcp-integrations/{id}/disable` disables it for all gateways.
Admin post "/servers/{name}/disconnect" servers::disconnect_server: changing 404 "No such server";

/// Connects a disconnected server, and disconnects any other.
Admin post "/servers/{name}/toggle" servers::toggle_server: changing 404 "No such server";

/// Closes the connection to a server and reconnects.
///
/// Running calls are aborted. A disconnected server stays disconnected.
Admin post "/servers/{name}/reconnect" servers::reconnect_server: changing 404 "No such server",
    409 "The server is disconnected, or built in";

"tools" of organisation:

/// Lists the tools that the caller may use.
User get "/tools" tools::list_tools;

/// Returns a tool.
User get "/tools/{name}" tools::show_tool 404 "No such tool";

/// Calls a tool.
///
/// A result with `isError` is a response of the tool, and has status 200.
User post "/tools/{name}/execute" tools::execute_tool 404 "No such tool", 502 "Its server failed",
    504 "Its server did not answer in time";

/// Resets the call metrics of a tool.
///
/// The values exported by `/metrics` are not affected.
Admin post "/tools/{name}/metrics/reset" tools::reset_metrics 404 "No such tool";

/// Lists the prompts that the caller may use.
User get "/prompts" tools::list_prompts;

/// Lists the resources that the caller may use.
User get "/resources" tools::list_resources;

"mcp" of organisation:

/// Calls a method of MCP, such as `tools/call`, `resources/read` or `prompts/get`.
///
/// The body contains the parameters, and the response the result, as defined by the revision
/// 2026-07-28. Names are those of `/mcp`.
User post "/mcp/{*method}" call::call_method: raw 404 "No such method";

"policies" of gateway:

/// Returns the policies that decide on a request, and changes that would change the decision.
Operator post "/policies/explain" policies::explain_decision 400 "A mistake";

/// Tests cases against the policies in force.
Operator post "/policies/test" policies::test_cases 400 "A mistake";

"keys" of organisation:

/// Lists the API keys of the caller's organisation; for operators, all.
Admin get "/keys" keys::list_keys;

/// Creates a key, and returns it once.
///
/// The key is in force when the response arrives. It is stored in the file `auth.keys_file`, as by
/// `lockgate keys create`.
Admin post "/keys" keys::create_key: changing 201, 202 "Created, but not in force yet",
    400 "An error in the body", 409 "No keys file is configured, or it is full";

/// Revokes a key.
///
/// It is no longer valid when the response arrives. A revoked key stays revoked.
Admin delete "/keys/{id}" keys::revoke_key: changing 204 "Revoked", 404 "No such key",
    503 "Not revoked, or not in force yet";

"sessions" of organisation:

/// Lists the console sessions of the caller's organisation; for operators, all.
///
/// `search` looks for a part of the organisation, the issuer, the name, the subject or the id.
Admin get "/sessions" sessions::list_sessions;

/// Ends a session.
///
/// Its user is signed out when the response arrives. To prevent another sign-in, revoke the key, or
/// disable the account at the identity provider.
Admin delete "/sessions/{id}" sessions::end_session: changing 204 "Ended", 404 "No such session";

"usage" of organisation:

/// Returns the calls, errors and durations of a time span.
///
/// Those of the callers of the organisation; for operators, all. Includes all gateways on the same
/// store, with a delay of a few seconds, and the last 8 days.
Admin get "/usage" usage::show_usage;

"audit" of organisation:

/// Searches the audit trail, the newest records first.
///
/// A search reads at most 64 MiB of the trail, including rotated files, for at most 2 s. `complete`
/// reports whether that was enough.
Admin get "/audit" audit::search_audit 409 "The audit trail is not written to a file";

"audit" of gateway:

/// Verifies the sequence numbers and hashes of all records of the audit trail.
Operator post "/audit/verify" audit::verify_audit 409 "The trail is not written to a file";

"approvals" of gateway:

/// Lists the calls that the caller may approve, the oldest first.
User get "/approvals" approvals::list_approvals;

/// Lists calls that stopped waiting for the caller in the last 10 minutes: decided, expired or
/// left by their clients. The newest come first.
///
/// `state` is `approved`, `denied`, `expired` or `left`; `by` has the names of the approvers.
User get "/approvals/ended" approvals::list_ended_approvals;

/// Returns a call that the caller may approve.
User get "/approvals/{id}" approvals::show_approval;

/// Approves a call.
User post "/approvals/{id}/approve" approvals::approve_call 200 "The state of the call",
    409 "The decision does not count";

/// Denies a call.
User post "/approvals/{id}/deny" approvals::deny_call 200 "The state of the call",
    409 "The decision does not count";

"pins" of organisation:

/// Lists the tools that need review.
///
/// Those of the caller's organisation; for operators also those of the configuration.
Admin get "/pins" pins::list_pins;

/// Lists the differences between tools and their approved definitions.
Admin get "/pins/diff" pins::list_pin_differences 409 "Pins are not configured";

/// Approves tools with the reviewed definitions: all of them, or none.
Admin post "/pins/approve" pins::approve_pins: changing 404 "No such tool is waiting for approval",
    409 "The definition of a tool has changed, or pins are not configured";

/// Rejects tools with the reviewed definitions: all of them, or none.
///
/// A rejected tool stays hidden and needs no further review until its definition changes.
Admin post "/pins/reject" pins::reject_pins: changing 404 "No such tool is waiting for approval",
    409 "The definition of a tool has changed, or pins are not configured";

"connections" of organisation:

/// Lists the caller's accounts at servers, connected or not; with `all`, those of all users.
///
/// Administrators see the users of their organisation, operators all users. At most 10,000 accounts
/// are searched.
User get "/connections" connections::list_connections;

/// Returns an account: the caller's own by its id or its server, or for administrators that of a
/// user by its id.
User get "/connections/{id}" connections::show_connection 404 "No such account";

/// Disconnects an account: the caller's own, or for administrators that of a user.
///
/// The tokens are deleted, calls and streams that use them end on every gateway, and the
/// authorization server is asked to revoke them.
User delete "/connections/{id}" connections::delete_connection: changing 204 "Disconnected",
    404 "No such account";

"events" of gateway:

/// Streams changes of servers, tools and calls.
///
/// Events: `server` (the name, state and capabilities of a changed server; `disabled` if it was
/// switched off or removed), `registered` and `unregistered` (the `name` of a tool that became or
/// is no longer available to the caller, and its `server`), `executed` (a completed call, with its
/// `outcome` and `durationMs`: the caller's own, and for administrators those of their
/// organisation), `connection` (an account at a server, as in `GET /connections`, that was
/// connected or `disconnected`, needs another authorization, or whose token could not be renewed:
/// the caller's own, and for administrators those of their organisation) and `missed` (events were
/// lost: reload the displayed data). With `decisions=true`
/// administrators also receive `decided`, at most about once a second: requests of their
/// organisation, for operators of any, were decided or have ended; `GET /audit` lists them.
/// `approvals` has the changed `count` of calls that wait for the caller's approval. A reader that
/// sends the id of its last event as `Last-Event-ID` continues after that event, except for
/// `executed`, `decided` and `approvals`, which are sent only as they happen.
User get "/events" events::follow_events;

"integrations" of organisation:

/// Lists the integrations of the caller's organisation.
User get "/mcp-integrations" integrations::list_integrations;

/// Adds an integration by its address.
Admin post "/mcp-integrations/custom" integrations::create_custom_integration: repeatable 201,
    400 "An error in the body, or the server failed its test", 409 "The name or the slug is taken";

/// Adds an integration from the operator's catalogue.
///
/// Changes of the entry apply to the integration. Credentials entered for one host are not sent to
/// another, and if the entry is removed, the integration is disconnected.
Admin post "/mcp-integrations/predefined" input::create_predefined_integration: repeatable 201,
    400 "An error in the body, or the server failed its test",
    404 "The catalogue has no such entry", 409 "The name is taken";

/// Returns a remote server of the operator's registry, with the values that it requires.
Admin get "/mcp-integrations/registry" imported::show_registry_server
    404 "No registry is named, or it has no such server",
    502 "The registry cannot be read, or the server not be added";

/// Adds a remote server of the operator's registry, at this version.
Admin post "/mcp-integrations/registry" imported::create_registry_integration: repeatable 201,
    400 "An error in the body, or the server failed its test",
    404 "No registry is named, or it has no such server", 409 "The name or the slug is taken",
    502 "The registry cannot be read, or the server not be added";

/// Returns an integration.
User get "/mcp-integrations/{id}" integrations::show_integration;

/// Returns the number of calls of an integration's tools by day.
///
/// Includes all gateways on the same store, with a delay of a few seconds. The last 90 days are
/// kept.
User get "/mcp-integrations/{id}/calls" input::list_calls;

/// Changes an integration. Another method of authentication disconnects accounts of members.
Admin patch "/mcp-integrations/{id}" integrations::change_integration: versioned;

/// Deletes an integration, unassigns it from all agents, and disconnects accounts of members.
Admin delete "/mcp-integrations/{id}" integrations::delete_integration: versioned 204 "Deleted";

/// Enables an integration.
Admin post "/mcp-integrations/{id}/enable" integrations::enable_integration: versioned;

/// Disables an integration: it is disconnected, and its tools and other items are not listed.
Admin post "/mcp-integrations/{id}/disable" integrations::disable_integration: versioned;

/// Tests an integration: connects, completes the handshake, reads its lists.
///
/// The test passes if the server accepts the credentials and offers at least one tool, resource or
/// prompt. It takes up to 30 s.
Admin post "/mcp-integrations/{id}/validate" validate::validate_integration 400 "It is disabled";

/// Closes the connection to an integration and reconnects.
///
/// Running calls are aborted.
Admin post "/mcp-integrations/{id}/reconnect" integrations::reconnect_integration: changing
    400 "It is disabled", 409 "Its stored credentials cannot be decrypted";

/// Tests one of the organisation's enabled integrations, a different one each time.
///
/// Takes up to 30 s.
Admin get "/health/mcp" validate::check_mcp;

"integrations" of gateway:

/// Lists the entries of the operator's catalogue.
User get "/mcp-integrations/predefined/available" input::list_catalogue;

"agents" of organisation:

/// Lists the caller's agents; for administrators, all agents of the organisation.
User get "/agents" agents::list_agents;

/// Creates an agent owned by the caller.
User post "/agents" agents::create_agent: repeatable 201, 409 "The name is taken";

/// Lists the servers that an agent has or could have: those of the configuration, as far as policy
/// lets the caller see them, and those of the organisation.
User get "/agents/{id}/servers" agent_servers::list_agent_servers;

/// Returns a server of an agent, with its tools.
User get "/agents/{id}/servers/{server}" agent_servers::show_agent_server;

/// Assigns a server to an agent or unassigns it, and switches tools of it on or off.
///
/// A tool that is off answers at the agent's endpoint like one that does not exist.
User patch "/agents/{id}/servers/{server}" agent_servers::change_agent_server: repeatable
    400 "The integration is disabled", 404 "No such agent, server or tool",
    409 "A limit is reached";

/// Returns an agent.
User get "/agents/{id}" agents::show_agent;

/// Renames an agent, sets the form of its list of tools, or chooses its items.
User patch "/agents/{id}" agents::change_agent: versioned;

/// Deletes an agent and its endpoint.
User delete "/agents/{id}" agents::delete_agent: versioned 204 "Deleted";

/// Lists the integrations of an agent.
User get "/agents/{id}/mcp-integrations" agent_servers::list_assigned;

/// Lists the integrations that can be assigned to an agent: enabled, and not assigned yet.
User get "/agents/{id}/mcp-integrations/available" agent_servers::list_available;

/// Assigns an integration to an agent.
User post "/agents/{id}/mcp-integrations/{integrationId}"
    agent_servers::assign_integration: repeatable 400 "The integration is disabled",
    403 "The integration belongs to another organisation; reported to operators only",
    409 "Already assigned";

/// Unassigns an integration from an agent.
User delete "/agents/{id}/mcp-integrations/{integrationId}"
    agent_servers::unassign_integration: repeatable 204 "Unassigned",
    404 "Not found, or not assigned";

"organisations" of gateway:

/// Lists the organisations that were created, or have integrations or agents.
Operator get "/organisations" organisations::list_organisations;

/// Creates an organisation.
///
/// An organisation named by a key or a token need not be created: it is created when a member adds
/// an integration or agent.
Operator post "/organisations" organisations::create_organisation: repeatable 201,
    400 "The name is not valid", 409 "Already exists";

/// Deletes an organisation that has no integrations, agents and keys.
Operator delete "/organisations/{id}" organisations::delete_organisation: repeatable 204 "Deleted",
    404 "No such organisation", 409 "It is not empty";

"settings" of gateway:

/// Returns the configuration.
///
/// As printed by `lockgate config show`. It is read again: if the files have errors, the gateway
/// keeps the previous configuration, and the response lists the errors.
Operator get "/settings" me::list_settings 409 "The configuration has errors";
}
