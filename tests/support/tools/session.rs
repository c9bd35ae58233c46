//! Tools that change the lists of their own session only: signing in adds a tool and a prompt, and
//! replaces `test_sign_in` with `test_sign_out`.

use rmcp::model::Tool;

use super::{Answer, plain, text};
use crate::{call::Call, shared::Change};

const SIGN_IN: &str = "test_sign_in";
const SIGN_OUT: &str = "test_sign_out";
const SECRET: &str = "test_secret";

pub(crate) fn list(is_signed_in: bool) -> Vec<Tool> {
    if is_signed_in {
        return vec![
            plain(SIGN_OUT, "Takes the secret from this session"),
            plain(SECRET, "Tells the secret to a session that has signed in"),
        ];
    }
    vec![plain(SIGN_IN, "Gives a secret to this session")]
}

pub(crate) async fn call(call: &Call, name: &str) -> Option<Answer> {
    match name {
        SIGN_IN | SIGN_OUT => {
            call.sign_in(name == SIGN_IN);
            call.tell(Change::Tools).await;
            call.tell(Change::Prompts).await;
            Some(text("Done"))
        }
        SECRET if call.is_signed_in() => Some(text("The secret")),
        _ => None,
    }
}
