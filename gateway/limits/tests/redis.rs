//! A Redis (or Valkey) server for tests: in a temporary folder, on a free port, with a password,
//! stopped with the tests. If the program is missing, tests print a message and pass, except in CI,
//! where they fail.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const PROGRAMS: [&str; 2] = ["redis-server", "valkey-server"];
/// Kills the server when its standard input closes, which happens however the tests end.
const WATCH: &str = "\"$0\" \"$@\" & pid=$!; read _; kill -KILL $pid 2>/dev/null; wait $pid";
const TIMEOUT: Duration = Duration::from_secs(30);

pub(crate) struct Redis {
    program: PathBuf,
    port: u16,
    folder: tempfile::TempDir,
    options: Vec<String>,
    watch: Option<Child>,
}

impl Drop for Redis {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Redis {
    /// Starts a server without TLS and persistence, with the password `secret`.
    pub(crate) fn start() -> Option<Self> {
        Self::start_with(|port, _| vec!["--port".into(), port.to_string()])
    }

    /// Starts a server with `options`, given a port and the folder of its files.
    pub(crate) fn start_with(options: impl FnOnce(u16, &Path) -> Vec<String>) -> Option<Self> {
        let Some(program) = PROGRAMS.iter().find_map(|name| find(name)) else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "please install redis-server: the tests need it in CI"
            );
            writeln!(std::io::stderr(), "ignored: redis-server is not installed").unwrap();
            return None;
        };
        let folder = tempfile::Builder::new().prefix("lockgate-redis").tempdir().unwrap();
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let options = options(port, folder.path());
        let mut server = Self { program, port, folder, options, watch: None };
        server.run();
        Some(server)
    }

    #[allow(dead_code, reason = "not for every test program")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Returns the URL without TLS.
    pub(crate) fn url(&self) -> String {
        format!("redis://:secret@127.0.0.1:{}/1", self.port)
    }

    /// Runs the server, or restarts it, without data.
    pub(crate) fn run(&mut self) {
        let mut watch = Command::new("sh");
        watch.args(["-c", WATCH]).arg(&self.program).args(&self.options);
        watch.args(["--bind", "127.0.0.1", "--save", "", "--appendonly", "no"]);
        watch.args(["--requirepass", "secret", "--dir"]).arg(self.folder.path());
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let watch = watch.stdin(Stdio::piped()).stdout(log).stderr(Stdio::null());
        self.watch = Some(watch.spawn().unwrap());
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            let log = std::fs::read_to_string(self.folder.path().join("log")).unwrap();
            assert!(began.elapsed() < TIMEOUT, "Redis did not start: {log}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub(crate) fn stop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            let _ended = watch.wait();
        }
    }
}

/// Finds a program in `PATH`.
fn find(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|path| path.is_file())
}
