//! Mistakes in the program as a whole: its name and its profile.

use super::{Case, hold};

const CASES: &[Case] = &[
    (
        "lockgate.yaml",
        "name: Lock Gate\n",
        &[
            "lockgate.yaml:1:7: name: must be 1 to 64 of a-z, 0-9 and - (it is `Lock Gate`) — the text for people goes into `title`",
        ],
    ),
    (
        "lockgate.yaml",
        "profile: production\nbuiltin: { example: true }\n",
        &[
            "lockgate.yaml:1:10: auth.key: must be given in production — write `auth: { key: \"${LOCKGATE_KEY}\" }` and set that variable, or set `auth.keys_file`, `auth.issuers` or `http.tls.client_ca`",
            "lockgate.yaml:1:10: policy.tools.allow: must be given in production — list the tools that may be used, such as allow: [\"time__*\"]; or name policy.files",
            "lockgate.yaml:2:21: builtin.example: the example server is not for production — take it out, or use `profile: development`",
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
