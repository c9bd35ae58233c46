//! Token files.

use super::*;

#[tokio::test]
async fn a_token_file_has_a_jwt_of_at_most_16_kib() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    let signature = "s".repeat(MAX_BYTES - 4);
    let longest = format!("h.c.{signature}");
    for (content, is_taken) in [
        (&*longest, true),
        (&*format!("{longest}\n"), true),
        (&*format!("{longest}s"), false),
        ("canary", false),
        ("canary.b", false),
        ("a.b.canary.d", false),
        ("a..canary", false),
        ("a.b.canary canary", false),
        ("", false),
    ] {
        std::fs::write(&file, content).unwrap();
        match read_token(&file).await {
            Ok(token) => assert!(is_taken && token.expose() == content.trim(), "{content:.20}"),
            Err(error) => assert!(!is_taken && !error.to_string().contains("canary")),
        }
    }
    std::fs::remove_file(&file).unwrap();
    assert!(matches!(read_token(&file).await, Err(AccountError::Setup(_))));
}
