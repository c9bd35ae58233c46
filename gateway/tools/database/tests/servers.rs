//! Database servers for tests: in a temporary folder, on a free port, as an unprivileged user,
//! stopped with the test. If the programs are missing, tests print a note and pass, except in CI,
//! where they fail.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, Once, Weak};
use std::time::{Duration, Instant};

/// Stops the server when its standard input closes, which happens however the test ends.
const WATCH: &str = "\"$@\" & pid=$!; read _; kill -INT $pid 2>/dev/null; sleep 0.2; kill -TERM $pid 2>/dev/null; wait $pid";
const TIMEOUT: Duration = Duration::from_secs(60);
static TOLD: Once = Once::new();

pub(crate) struct Server {
    pub(crate) port: u16,
    pub(crate) folder: tempfile::TempDir,
    watch: Child,
    _template: Arc<tempfile::TempDir>,
}

/// The initial data of a database server, which tests copy. Deleted with the last server that uses it.
struct Template(Mutex<Weak<tempfile::TempDir>>);

static POSTGRES: Template = Template(Mutex::new(Weak::new()));
static MARIADB: Template = Template(Mutex::new(Weak::new()));
static MYSQL: Template = Template(Mutex::new(Weak::new()));

impl Template {
    /// Returns a folder with a copy of the data, which `make` writes into an empty folder.
    fn copy(
        &self,
        user: &str,
        make: impl FnOnce(&Path),
    ) -> (tempfile::TempDir, Arc<tempfile::TempDir>) {
        let mut kept = self.0.lock().unwrap();
        let template = kept.upgrade().unwrap_or_else(|| {
            let folder = folder(user);
            make(folder.path());
            Arc::new(folder)
        });
        *kept = Arc::downgrade(&template);
        drop(kept);
        let folder = folder(user);
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(template.path().join("data")).arg(folder.path());
        done(copy);
        (folder, template)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.watch.stdin.take());
        let _ended = self.watch.wait();
    }
}

/// Finds a program in Debian's folders, or in the path.
fn program(name: &str) -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let folders = versions.map(|version| version.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let fixed = ["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from);
    folders
        .chain(fixed)
        .chain(std::env::split_paths(&path))
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

fn missing<T>(what: &str) -> Option<T> {
    assert!(
        std::env::var("CI").as_deref() != Ok("true"),
        "please install {what}: the tests need it in CI"
    );
    eprintln!("ignored: {what} is not installed");
    None
}

/// Runs a program as an unprivileged user, because database servers refuse to run as root.
fn command(user: &str, program: &Path) -> Command {
    let root = Command::new("id").arg("-u").output().is_ok_and(|out| out.stdout == b"0\n");
    if !root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups", "--"]).arg(program);
    command
}

fn folder(user: &str) -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("lockgate-db").tempdir().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
    if let Ok(out) = Command::new("id").args(["-u", user]).output()
        && let Ok(id) = String::from_utf8_lossy(&out.stdout).trim().parse::<u32>()
    {
        // Fails, and is unnecessary, unless the test runs as root.
        let _owned = std::os::unix::fs::chown(folder.path(), Some(id), None);
    }
    folder
}

fn free_port() -> u16 {
    TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap().port()
}

fn done(mut command: Command) {
    let out = command.stdin(Stdio::null()).output().unwrap();
    assert!(out.status.success(), "{command:?}: {}", String::from_utf8_lossy(&out.stderr));
}

fn start(
    command: &Command,
    (folder, template): (tempfile::TempDir, Arc<tempfile::TempDir>),
    port: u16,
) -> Server {
    let log = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut watch = Command::new("sh");
    watch.args(["-c", WATCH, "sh"]).arg(command.get_program()).args(command.get_args());
    let watch = watch.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
    let server = Server { port, folder, watch, _template: template };
    let began = Instant::now();
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        let log = || std::fs::read_to_string(server.folder.path().join("log")).unwrap_or_default();
        assert!(began.elapsed() < TIMEOUT, "the server did not start: {}", log());
        std::thread::sleep(Duration::from_millis(50));
    }
    server
}

/// A certificate for 127.0.0.1, issued by an unknown CA.
pub(crate) struct Identity {
    pub(crate) authority: String,
    certificate: String,
    key: String,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let mut own = rcgen::CertificateParams::new(Vec::new()).unwrap();
        own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let authority =
            rcgen::CertifiedIssuer::self_signed(own, rcgen::KeyPair::generate().unwrap()).unwrap();
        let key = rcgen::KeyPair::generate().unwrap();
        let names = rcgen::CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = names.signed_by(&key, &authority).unwrap();
        Self {
            authority: authority.pem(),
            certificate: certificate.pem(),
            key: key.serialize_pem(),
        }
    }

    /// Writes the files of the certificate and the key, owned by the folder's owner.
    fn write(&self, folder: &Path) -> (String, String) {
        let owner = std::fs::metadata(folder).unwrap().uid();
        let file = |name: &str, text: &str| {
            let path = folder.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
            std::os::unix::fs::chown(&path, Some(owner), None).unwrap();
            path.display().to_string()
        };
        (file("server.crt", &self.certificate), file("server.key", &self.key))
    }
}

/// Starts PostgreSQL with the superuser `postgres` and the password `secret`.
pub(crate) fn postgres() -> Option<Server> {
    postgres_as(None)
}

/// Starts PostgreSQL, with TLS if an identity is given.
pub(crate) fn postgres_as(identity: Option<&Identity>) -> Option<Server> {
    let (Some(initdb), Some(postgres)) = (program("initdb"), program("postgres")) else {
        return missing("postgresql");
    };
    let (folder, template) = POSTGRES.copy("postgres", |folder| {
        let mut password = tempfile::NamedTempFile::new().unwrap();
        password.write_all(b"secret\n").unwrap();
        std::fs::set_permissions(password.path(), std::fs::Permissions::from_mode(0o644)).unwrap();
        let mut make = command("postgres", &initdb);
        make.arg("-D").arg(folder.join("data"));
        make.args(["-U", "postgres", "-A", "scram-sha-256", "-E", "UTF8", "--locale=C", "-N"]);
        make.arg("--wal-segsize=1");
        make.arg(format!("--pwfile={}", password.path().display()));
        done(make);
    });
    let (data, port) = (folder.path().join("data"), free_port());
    let mut run = command("postgres", &postgres);
    run.arg("-D").arg(&data).arg("-k").arg(folder.path()).args([
        "-p",
        &port.to_string(),
        "-h",
        "127.0.0.1",
        "-F",
    ]);
    run.args(["-c", "wal_level=logical", "-c", "shared_buffers=16MB"]);
    if let Some(identity) = identity {
        let (certificate, key) = identity.write(folder.path());
        run.args([
            "-c",
            "ssl=on",
            "-c",
            &format!("ssl_cert_file={certificate}"),
            "-c",
            &format!("ssl_key_file={key}"),
        ]);
    }
    Some(start(&run, (folder, template), port))
}

/// Starts MariaDB, and MySQL if installed, each with the superuser `root` without a password.
pub(crate) fn mysqls() -> Vec<Server> {
    mysqls_as(None)
}

/// Starts the same servers, with TLS if an identity is given.
pub(crate) fn mysqls_as(identity: Option<&Identity>) -> Vec<Server> {
    [mariadb(identity), mysql(identity)].into_iter().flatten().collect()
}

/// The default, 96 MiB, would be written and copied for each server.
const SMALL_LOG: &str = "--innodb-log-file-size=8M";

fn mariadb(identity: Option<&Identity>) -> Option<Server> {
    let (Some(install), Some(mariadbd)) = (program("mariadb-install-db"), program("mariadbd"))
    else {
        return missing("mariadb-server");
    };
    let copy = MARIADB.copy("mysql", |folder| {
        let mut make = command("mysql", &install);
        make.args(["--no-defaults", &data(folder), SMALL_LOG]);
        make.args(["--auth-root-authentication-method=normal", "--skip-test-db"]);
        // Servers on one machine delete each other's temporary tables in a shared folder.
        make.env("TMPDIR", folder);
        done(make);
    });
    Some(serve(&mariadbd, copy, identity, &[SMALL_LOG]))
}

/// Starts MySQL if installed. Debian's stable releases have no package of it, so its absence is no
/// failure in CI either; `tests/run` prints a note.
fn mysql(identity: Option<&Identity>) -> Option<Server> {
    let named = std::env::var_os("LOCKGATE_MYSQLD").map(PathBuf::from);
    let mysqld = named.or_else(|| program("mysqld").filter(|mysqld| is_mysql(mysqld)));
    let Some(mysqld) = mysqld else {
        // Written directly, because the test harness captures `eprintln` of passing tests.
        TOLD.call_once(|| {
            writeln!(std::io::stderr(), "note: MySQL is not installed: MariaDB alone is tested")
                .unwrap()
        });
        return None;
    };
    let copy = MYSQL.copy("mysql", |folder| {
        let mut make = command("mysql", &mysqld);
        make.args(["--no-defaults", &data(folder), "--initialize-insecure"]);
        done(make);
    });
    // Without the X protocol's port, and with file access like MariaDB's.
    Some(serve(&mysqld, copy, identity, &["--mysqlx=OFF", "--secure-file-priv="]))
}

/// Returns whether the program is MySQL's. MariaDB has a program of the same name.
fn is_mysql(mysqld: &Path) -> bool {
    let version = Command::new(mysqld).args(["--no-defaults", "--version"]).output();
    version.is_ok_and(|out| {
        out.status.success() && !String::from_utf8_lossy(&out.stdout).contains("MariaDB")
    })
}

fn data(folder: &Path) -> String {
    format!("--datadir={}", folder.join("data").display())
}

/// Starts a MySQL-compatible server on its folder's data.
fn serve(
    program: &Path,
    (folder, template): (tempfile::TempDir, Arc<tempfile::TempDir>),
    identity: Option<&Identity>,
    more: &[&str],
) -> Server {
    let (mut run, port) = (command("mysql", program), free_port());
    let place = folder.path().display();
    run.args([
        "--no-defaults",
        &data(folder.path()),
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=16M",
    ]);
    run.args([
        format!("--tmpdir={place}"),
        format!("--socket={place}/socket"),
        format!("--port={port}"),
    ]);
    run.arg("--skip-log-bin").args(more);
    if let Some(identity) = identity {
        let (certificate, key) = identity.write(folder.path());
        run.args([format!("--ssl-cert={certificate}"), format!("--ssl-key={key}")]);
    }
    start(&run, (folder, template), port)
}
