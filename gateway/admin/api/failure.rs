//! MCP errors as problems of the API: status, code, and the kind of server failure. Hidden and
//! missing items have the same error already, and keep it.

use axum::http::StatusCode;
use lockgate_protocol::code;
use lockgate_proxy::classify_failure;
use serde_json::Value;

use super::problem::Problem;

/// Converts a JSON-RPC error and its status to a problem.
pub(crate) fn describe_failure(status: StatusCode, error: &Value) -> Problem {
    let code = match error.get("code") {
        Some(code) => code.as_i64().unwrap_or(code::INTERNAL),
        None => code::INTERNAL,
    };
    let message = match error.get("message") {
        Some(Value::String(message)) => message,
        _ => "the call failed",
    };
    let data = error.get("data");
    let problem = match (read_text(data, "upstream"), read_text(data, "reason")) {
        // A server that keeps failing is not called for a while.
        (Some(_), Some("unavailable")) if is_left_alone(data) => {
            describe_server("unavailable", StatusCode::SERVICE_UNAVAILABLE, message)
        }
        (Some(_), Some(reason)) => describe_server(reason, status_of(reason), message),
        _ => describe_request(status, code, message, error),
    };
    match read_wait(data) {
        Some(wait) => problem.retry_after(wait.div_ceil(1000)),
        None => problem,
    }
}

fn read_text<'a>(data: Option<&'a Value>, name: &str) -> Option<&'a str> {
    data?.get(name)?.as_str()
}

/// Returns the retry delay in milliseconds.
fn read_wait(data: Option<&Value>) -> Option<u64> {
    data?.get("retryAfterMs")?.as_u64()
}

/// Returns whether a connected server is not called for a while.
fn is_left_alone(data: Option<&Value>) -> bool {
    let Some(data) = data else { return false };
    data.get("retryAfterMs").is_some() && data.get("state").is_none()
}

fn status_of(reason: &str) -> StatusCode {
    match reason {
        "timeout" | "stalled" => StatusCode::GATEWAY_TIMEOUT,
        "client_connections" | "gateway_overloaded" | "memory" | "overloaded" | "shutdown" => {
            StatusCode::SERVICE_UNAVAILABLE
        }
        _ => StatusCode::BAD_GATEWAY,
    }
}

/// Describes the failure of a server to respond correctly.
fn describe_server(reason: &str, status: StatusCode, message: &str) -> Problem {
    let kind = classify_failure(reason);
    Problem::new(status, "SERVER_FAILED", message.to_owned())
        .of_kind(kind.as_str())
        .with("reason", reason.into())
}

/// Describes a refused request, or the error of a server's tool.
fn describe_request(status: StatusCode, code: i64, message: &str, error: &Value) -> Problem {
    let message = message.to_owned();
    if message.starts_with("unknown ") || message == "resource not found" {
        return Problem::new(StatusCode::NOT_FOUND, "NOT_FOUND", message);
    }
    match code {
        code::INVALID_PARAMS => {
            Problem::new(StatusCode::BAD_REQUEST, "INVALID_PARAMS", message).of_kind("validation")
        }
        code::INVALID_REQUEST if status == StatusCode::BAD_REQUEST => {
            Problem::new(status, "INVALID_REQUEST", message).of_kind("validation")
        }
        code::METHOD_NOT_FOUND => Problem::new(StatusCode::NOT_FOUND, "METHOD_NOT_FOUND", message),
        code::MISSING_CAPABILITY => {
            let code = "CLIENT_IS_ASKED";
            Problem::new(StatusCode::PRECONDITION_REQUIRED, code, message)
                .with("mcp", error.clone())
        }
        code::LIMITED => Problem::new(StatusCode::TOO_MANY_REQUESTS, "RATE_LIMITED", message),
        code::OVERLOADED => Problem::new(StatusCode::SERVICE_UNAVAILABLE, "OVERLOADED", message),
        code::TOO_LARGE => Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "TOO_LARGE", message),
        code::UNAUTHENTICATED => Problem::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", message),
        code::FORBIDDEN => Problem::new(StatusCode::FORBIDDEN, "FORBIDDEN", message),
        _ if status == StatusCode::SERVICE_UNAVAILABLE => {
            Problem::new(status, "OVERLOADED", message)
        }
        _ => Problem::new(StatusCode::BAD_GATEWAY, "SERVER_ERROR", message)
            .of_kind("execution")
            .with("mcp", error.clone()),
    }
}

#[cfg(test)]
mod tests;
