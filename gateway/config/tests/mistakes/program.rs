//! Mistakes in the program as a whole: its name and its profile.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "name: Lock Gate\n",
        &[
            "lockgate.yaml:1:7: name: must be 1 to 64 of a-z, 0-9 and - (it is `Lock Gate`) — set the display name in `title`",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: production\nbuiltin: { example: true }\n",
        &[
            "lockgate.yaml:1:10: auth.key: is required in production — set `auth: { key: \"${LOCKGATE_KEY}\" }` and that variable, or `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
            "lockgate.yaml:1:10: policy.tools.allow: is required in production — list the allowed tools, such as allow: [\"time__*\"]; or set policy.files",
            "lockgate.yaml:2:21: builtin.example: the example server is not for production — remove it, or use `profile: development`",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: prod\n",
        &[
            "lockgate.yaml:1:10: profile: must be `development` or `production` (it is `prod`) — did you mean `production`?",
        ],
    ),
];

#[test]
fn every_mistake_in_the_program_is_reported_with_a_hint() {
    hold(CASES);
}
