//! Test servers: one answers each request with a function, the other only detects connections.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;

use parking_lot::Mutex;

type SeenRequests = Arc<Mutex<Vec<String>>>;

/// A server on its own thread. A connection closes when `answer` returns false or the client closes
/// it.
pub(super) struct Site {
    pub(super) port: u16,
    seen: SeenRequests,
}

impl Site {
    pub(super) fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        Self::start_bytes(move |request| answer(request).into_bytes())
    }

    pub(super) fn start_bytes(answer: impl Fn(&str) -> Vec<u8> + Send + Sync + 'static) -> Self {
        Self::serve(move |request, stream| stream.write_all(&answer(request)).is_ok())
    }

    /// Starts a server. `answer` writes to the stream, and returns whether to keep the connection.
    pub(super) fn serve(
        answer: impl Fn(&str, &mut TcpStream) -> bool + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = SeenRequests::default();
        let (requests, answer) = (seen.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (requests, answer) = (requests.clone(), answer.clone());
                std::thread::spawn(move || {
                    let mut stream = stream;
                    while let Some(request) = request(&mut stream) {
                        requests.lock().push(request.clone());
                        if !answer(&request, &mut stream) {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, seen }
    }

    pub(super) fn requests(&self) -> Vec<String> {
        self.seen.lock().clone()
    }
}

fn request(stream: &mut TcpStream) -> Option<String> {
    let mut text = Vec::new();
    loop {
        if let Some(at) = text.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&text[..at]).into_owned();
            let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
            if text.len() - at - 4 >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(String::from_utf8_lossy(&text).into_owned());
            }
        }
        let mut piece = [0; 4096];
        let count = stream.read(&mut piece).ok().filter(|count| *count > 0)?;
        text.extend_from_slice(&piece[..count]);
    }
}

/// Accepts connections without answering.
pub(super) struct Canary(TcpListener);

impl Canary {
    pub(super) fn at(address: &str, port: u16) -> Self {
        let listener = TcpListener::bind((address, port)).unwrap();
        listener.set_nonblocking(true).unwrap();
        Self(listener)
    }

    pub(super) fn port(&self) -> u16 {
        self.0.local_addr().unwrap().port()
    }

    pub(super) fn assert_untouched(&self) {
        match self.0.accept() {
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            other => panic!("a connection was made: {other:?}"),
        }
    }
}
