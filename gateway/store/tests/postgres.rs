//! A PostgreSQL server for the tests: in a temporary folder, on a free port, as an unprivileged
//! user, stopped with the tests. Without PostgreSQL, a test prints a message and passes, except in
//! CI, where it fails.

use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Stops the server when its standard input closes, which happens at any end of the tests. Then
/// deletes the folder, if it is named.
const WATCH: &str = "\"$@\" & pid=$!; read _; kill -INT $pid 2>/dev/null; wait $pid; \
    case \"$0\" in */lockgate-store*) rm -rf \"$0\" ;; esac";
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Postgres {
    port: u16,
    folder: Folder,
    watch: Option<Child>,
}

enum Folder {
    Own(tempfile::TempDir),
    /// The data of a server that is stopped at the end of the test program.
    Kept(PathBuf),
}

impl Folder {
    fn path(&self) -> &Path {
        match self {
            Self::Own(folder) => folder.path(),
            Self::Kept(folder) => folder,
        }
    }
}

impl Drop for Postgres {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Postgres {
    /// Starts a server with the superuser `postgres` and the password `secret`.
    pub(crate) fn start() -> Option<Self> {
        Self::start_in(Folder::Own)
    }

    /// Starts a server that presents this certificate and requires TLS.
    #[allow(dead_code, reason = "not for the tests of the registry")]
    pub(crate) fn start_with_tls(certificate: &str, key: &str) -> Option<Self> {
        let mut server = Self::start()?;
        server.stop();
        let data = server.folder.path().join("data");
        let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&data).unwrap());
        let people = "hostssl all all all scram-sha-256\n";
        for (name, text) in
            [("server.crt", certificate), ("server.key", key), ("pg_hba.conf", people)]
        {
            let file = data.join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&file, Some(owner), None).unwrap();
        }
        let settings = data.join("postgresql.auto.conf");
        let mut settings = std::fs::OpenOptions::new().append(true).open(settings).unwrap();
        settings.write_all(b"ssl = on\n").unwrap();
        server.run();
        Some(server)
    }

    /// Starts a server that runs until the test program ends.
    #[allow(dead_code, reason = "for the tests of the store alone")]
    pub(crate) fn start_for_all() -> Option<Self> {
        Self::start_in(|folder| Folder::Kept(folder.keep()))
    }

    fn start_in(keep: impl FnOnce(tempfile::TempDir) -> Folder) -> Option<Self> {
        let (Some(initdb), Some(_)) = (program("initdb"), program("postgres")) else {
            assert!(
                std::env::var("CI").as_deref() != Ok("true"),
                "please install postgresql: the tests need it in CI"
            );
            writeln!(std::io::stderr(), "ignored: postgresql is not installed").unwrap();
            return None;
        };
        let folder = folder();
        let mut password = tempfile::NamedTempFile::new().unwrap();
        password.write_all(b"secret\n").unwrap();
        std::fs::set_permissions(password.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut make = command(&initdb);
        make.arg("-D").arg(folder.path().join("data"));
        make.args(["-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "-N"]);
        make.arg(format!("--pwfile={}", password.path().display()));
        let out = make.stdin(Stdio::null()).output().unwrap();
        assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
        let port = TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port();
        let mut server = Self { port, folder: keep(folder), watch: None };
        server.run();
        Some(server)
    }

    /// Runs statements with `psql`.
    #[allow(dead_code, reason = "for the tests of the registry alone")]
    pub(crate) fn run_sql(&self, sql: &str) {
        let mut psql = Command::new(program("psql").unwrap());
        psql.args(["--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "-c", sql]).arg(self.url());
        assert!(psql.status().unwrap().success(), "{sql}");
    }

    pub(crate) fn url(&self) -> String {
        format!("postgres://postgres:secret@127.0.0.1:{}/postgres", self.port)
    }

    /// Returns its port on 127.0.0.1.
    #[allow(dead_code, reason = "for the tests of the whole gateway alone")]
    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Starts or restarts the server.
    pub(crate) fn run(&mut self) {
        let log = std::fs::File::create(self.folder.path().join("log")).unwrap();
        let mut run = command(&program("postgres").unwrap());
        run.arg("-D").arg(self.folder.path().join("data")).arg("-k").arg(self.folder.path());
        run.args(["-p", &self.port.to_string(), "-h", "127.0.0.1", "-F"]);
        run.args(["-c", "shared_buffers=16MB"]);
        let mut watch = Command::new("sh");
        let kept = match &self.folder {
            Folder::Own(_) => Path::new("sh"),
            Folder::Kept(folder) => folder,
        };
        watch.args(["-c", WATCH]).arg(kept).arg(run.get_program()).args(run.get_args());
        let watch = watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log);
        self.watch = Some(watch.spawn().unwrap());
        let began = Instant::now();
        let log = self.folder.path().join("log");
        let is_ready = || std::fs::read_to_string(&log).unwrap().contains("ready to accept");
        while !is_ready() {
            assert!(began.elapsed() < TIMEOUT, "PostgreSQL did not start");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Stops the server and keeps its data.
    pub(crate) fn stop(&mut self) {
        if let Some(mut watch) = self.watch.take() {
            drop(watch.stdin.take());
            let _ended = watch.wait();
        }
    }
}

/// Finds a program of a Debian package, or in the path.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = folders.chain(std::env::split_paths(&path)).map(|folder| folder.join(name));
    programs.find(|path| path.is_file())
}

/// Runs a program without privileges, since PostgreSQL refuses to run as root.
fn command(program: &Path) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", "postgres", "--regid", "postgres", "--clear-groups", "--"]);
    command.arg(program);
    command
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("lockgate-store").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    if let Ok(out) = Command::new("id").args(["-u", "postgres"]).output()
        && let Ok(id) = String::from_utf8_lossy(&out.stdout).trim().parse::<u32>()
    {
        // Fails without root privileges, where it is not necessary.
        let _owned = std::os::unix::fs::chown(folder.path(), Some(id), None);
    }
    folder
}
