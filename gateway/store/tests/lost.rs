//! Tests of a commit with a lost response, which must not be reported as failed.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::postgres::Postgres;
use super::{add, integration};
use crate::{Store, StoreError, StorePlace};

/// Forwards bytes to a server. When armed, forwards a COMMIT but not its response.
fn lose_commits(port: u16, armed: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let own = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for client in listener.incoming().flatten() {
            let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
            let [mut from, mut to] = [&server, &client].map(|side| side.try_clone().unwrap());
            std::thread::spawn(move || std::io::copy(&mut from, &mut to));
            let armed = Arc::clone(&armed);
            std::thread::spawn(move || pass_on(client, server, &armed));
        }
    });
    own
}

fn pass_on(mut client: TcpStream, mut server: TcpStream, armed: &AtomicBool) {
    let mut buffer = [0; 16 * 1024];
    while let Ok(length @ 1..) = client.read(&mut buffer) {
        let bytes = &buffer[..length];
        if bytes.windows(6).any(|word| word == b"COMMIT") && armed.load(Ordering::SeqCst) {
            client.shutdown(Shutdown::Both).unwrap();
            server.write_all(bytes).unwrap();
            return;
        }
        if server.write_all(bytes).is_err() {
            return;
        }
    }
    // The client has disconnected, so its connection to the server ends too.
    let _ = server.shutdown(Shutdown::Both);
}

#[tokio::test]
async fn a_commit_without_an_answer_may_have_been_made() {
    let Some(postgres) = Postgres::start() else { return };
    let direct = Store::new(StorePlace::Postgres(postgres.url()));
    add(&direct, "acme", "one").await;
    let armed = Arc::new(AtomicBool::new(false));
    let port = postgres.url().rsplit(':').next().unwrap().split('/').next().unwrap().to_owned();
    let other = lose_commits(port.parse().unwrap(), Arc::clone(&armed));
    let url = postgres.url().replace(&format!(":{port}/"), &format!(":{other}/"));
    let store = Store::new(StorePlace::Postgres(url));
    add(&store, "acme", "two").await;
    let mut change = store.begin("acme").await.unwrap();
    change.insert_integration(&integration("acme", "three")).await.unwrap();
    armed.store(true, Ordering::SeqCst);
    let error = change.commit().await.unwrap_err();
    assert!(matches!(error, StoreError::Unknown(_)), "{error:?}");
    let began = Instant::now();
    while direct.load_changed(0).await.unwrap()[0].integrations.len() < 3 {
        assert!(began.elapsed() < Duration::from_secs(20), "it was made");
    }
}

#[tokio::test]
async fn a_commit_that_the_database_refuses_was_not_made() {
    let Some(url) = super::new_database().await else { return };
    let store = Store::new(StorePlace::Postgres(url));
    let mut change = store.begin("acme").await.unwrap();
    let refuse = "CREATE TABLE once (id INT UNIQUE DEFERRABLE INITIALLY DEFERRED); \
        INSERT INTO once VALUES (1), (1)";
    change.transaction.run(refuse).await.unwrap();
    let error = change.commit().await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
    assert!(store.load_changed(0).await.unwrap().is_empty());
}
