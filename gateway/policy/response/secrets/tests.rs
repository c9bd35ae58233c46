//! Tests of `secrets`.

use super::*;

#[test]
fn what_is_said_to_be_secret_goes() {
    let shapes = Shapes::get().unwrap();
    for (text, secret) in [
        ("password: hunter2", "hunter2"),
        ("Password:hunter2", "hunter2"),
        ("password=hunter2 user=x", "hunter2"),
        ("PASSWORD = \"hunter2\"", "hunter2"),
        ("DB_PASSWORD=s3cr3tpw", "s3cr3tpw"),
        ("dbPassword: 'P@ssw0rd!'", "P@ssw0rd"),
        ("\"password\":\"hunter2\"", "hunter2"),
        ("{\\\"password\\\": \\\"hunter2\\\"}", "hunter2"),
        ("'passwd' => 'abc123def'", "abc123def"),
        ("passphrase: tr0ub4dor&3", "tr0ub4dor&3"),
        ("pwd=Sup3rSecret;", "Sup3rSecret"),
        ("spring.datasource.password=q1w2e3r4", "q1w2e3r4"),
        ("--password=letmein99", "letmein99"),
        ("?user=a&password=letmein99&x=1", "letmein99"),
        ("password: 12345678", "12345678"),
        ("password: correct-horse!staple", "correct-horse!staple"),
        ("password := \"abc!def\"", "abc!def"),
        ("api_key: 9f8e7d6c5b4a3f2e1d0c", "9f8e7d6c5b4a3f2e1d0c"),
        ("X-Api-Key: 9f8e7d6c5b4a", "9f8e7d6c5b4a"),
        ("apiKey=\"a1b2c3d4e5f6\"", "a1b2c3d4e5f6"),
        ("SECRET_KEY='django-insecure-4f#k2'", "django-insecure-4f#k2"),
        ("client_secret: 8Q~7aBcD1eFgH2iJkL3mN", "8Q~7aBcD1eFgH2iJkL3mN"),
        ("\"clientSecret\": \"8Q7aBcD1eFgH2iJkL3mN\"", "8Q7aBcD1eFgH2iJkL3mN"),
        ("access_token=a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e5f6a7b8c9d0"),
        ("token: a1b2c3d4e5f6a7b8c9d0", "a1b2c3d4e5f6a7b8c9d0"),
        ("\"refreshToken\":\"1/a1b2c3d4e5f6a7b8c9d0\"", "a1b2c3d4e5f6a7b8c9d0"),
        ("secret: 0a1b2c3d4e5f60718293", "0a1b2c3d4e5f60718293"),
    ] {
        let out = shapes.replace_keyed(text).unwrap_or_else(|| panic!("{text} stays"));
        assert!(!out.contains(secret) && out.contains("[redacted: password]"), "{text}: {out}");
    }
    let out = shapes.replace_keyed("user: ada\npassword: hunter2\nhost: db").unwrap();
    assert_eq!(out, "user: ada\npassword: [redacted: password]\nhost: db");
}

/// Harmless text of people and programs after the same words.
#[test]
fn prose_types_references_and_placeholders_stay() {
    let shapes = Shapes::get().unwrap();
    for text in [
        "password: required",
        "Password: must be at least 8 characters",
        "password: 8 to 64 characters",
        "password: string",
        "password: str = Field(min_length=8)",
        "password: z.string().min(8)",
        "password VARCHAR(255) NOT NULL",
        "password: { type: string, minLength: 8 }",
        "\"password\": {\"type\": \"string\", \"format\": \"password\"}",
        "\"password\": null",
        "\"password\": true, \"token\": false",
        "password=${DB_PASSWORD1}",
        "password: $DB_PASSWORD",
        "password: <your password>",
        "password: your_password_1",
        "password: ********",
        "password: xxxxxxxx1",
        "password: [redacted]",
        "password: {{ vault.db1 }}",
        "password = os.environ[\"DB1\"]",
        "password = getpass2()",
        "password: process.env.DB1_PASSWORD",
        "password: config.db1.password",
        "password = settings.auth0_password.value",
        "the password is what you choose; password = strong",
        "Forgot password? Reset it: https://example.com/reset1",
        "password: https://example.com/help/2024",
        "wrong password: try again",
        "PWD=/home/user1/work",
        "pwd: /srv/data1",
        "passwords: 1234567",
        "password_length: 12, password_min: 8",
        "password_hash_rounds=100000",
        "max_tokens: 4096000",
        "tokens: 123456789",
        "token: identifier",
        "token: 42",
        "\"nextPageToken\": \"CAUQAA1234567890abcdef\"",
        "next_token=a1b2c3d4e5f6a7b8c9d0",
        "continuation_token: a1b2c3d4e5f6a7b8c9d0",
        "\"nextToken\":\"a1b2c3d4e5f6a7b8c9d0\"",
        "secretName: my-secret-1-of-the-cluster",
        "secret: my-secret",
        "secrets: 3 of 5",
        "keyboard: qwerty123, key: value12345",
        "primary_key: user_id1, foreign_key=order1",
        "password: user@example.com",
        "passport: X1234567",
        "the key to success: practice2win",
        "bypass: 123abc456",
        "api key: see section 2",
        "api_key: https://docs.example.com/v2",
    ] {
        assert_eq!(shapes.replace_keyed(text), None, "{text}");
    }
}
