//! Starts a Slurm cluster on this machine: munged, slurmctld and a slurmd for each node, in a temporary folder.
//!
//! Holds at all times: it ends only processes that it started, by process ID.

use std::{
    collections::BTreeSet,
    ffi::OsStr,
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Output},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    io::Errno,
    process::{Pid, Signal, kill_process, test_kill_process},
};

/// Programs that must be installed.
const PROGRAMS: [&str; 6] = ["munged", "slurmctld", "slurmd", "sbatch", "scontrol", "squeue"];

/// A running cluster.
pub struct Cluster {
    folder: tempfile::TempDir,
    path: std::ffi::OsString,
}

impl Cluster {
    /// Starts a cluster with nodes `n1`, `n2`, … of one core each. Without Slurm, returns `None` and prints the reason to stderr.
    ///
    /// Panics instead if `CI=true`.
    pub fn start(nodes: usize) -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        // Daemons are in folders that only root has in its PATH.
        let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
        let path = std::env::join_paths(folders).unwrap();
        let is_there = |program: &&&str| std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
        let missing: Vec<_> = PROGRAMS.iter().filter(|program| !is_there(program)).collect();
        if !missing.is_empty() {
            let said = format!("{missing:?} are not installed (Debian: slurmctld slurmd slurm-client munge)");
            assert_ne!(std::env::var("CI").as_deref(), Ok("true"), "{said}");
            eprintln!("{said}: nothing is tried on Slurm");
            return None;
        }
        let cluster = Self { folder: tempfile::tempdir().unwrap(), path };
        cluster.begin(nodes);
        Some(cluster)
    }

    /// A path in the folder of the cluster.
    pub fn at(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A command with the environment for this cluster.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env("PATH", &self.path).env("SLURM_CONF", self.at("slurm.conf")).current_dir(self.folder.path());
        command
    }

    /// Runs a program and returns its trimmed stdout; panics if the program fails.
    pub fn ask(&self, program: &str, args: &[&str]) -> String {
        let ran = self.command(program).args(args).output().unwrap();
        let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
        assert!(ran.status.success(), "{program} {args:?}: {out}{err}\n{}", self.logs());
        out.trim().to_owned()
    }

    /// Runs a program and returns its output; does not check the exit status.
    pub fn try_ask(&self, program: &str, args: &[&str]) -> Output {
        self.command(program).args(args).output().unwrap()
    }

    /// Waits until `there` returns a value, and returns the value. Panics after one minute.
    pub fn wait<T>(&self, what: &str, mut there: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = there() {
                return found;
            }
            if start.elapsed() > Duration::from_secs(60) {
                let queue = self.try_ask("squeue", &["-o", "%i %j %T %r %N"]);
                panic!("{what}: not in a minute\n{}\n{}", String::from_utf8_lossy(&queue.stdout), self.logs());
            }
            thread::sleep(Duration::from_millis(50));
        }
    }

    /// Waits until the queue is empty. A requeued job would wait for two minutes; its start is moved to two seconds from now, because a
    /// node refuses a job within the second in which the job ended.
    pub fn wait_for_all(&self) {
        let mut hastened = BTreeSet::new();
        self.wait("all jobs", || {
            let queue = self.ask("squeue", &["-h", "-r", "-o", "%i %r"]);
            for job in queue.lines().filter_map(|line| line.strip_suffix(" BeginTime")) {
                if hastened.insert(job.to_owned()) {
                    // The job may have started meanwhile.
                    self.try_ask("scontrol", &["update", &format!("JobId={job}"), "StartTime=now+2"]);
                }
            }
            queue.is_empty().then_some(())
        });
    }

    /// The node of a running job.
    pub fn node(&self, job: &str) -> String {
        self.ask("squeue", &["-h", "-j", job, "-o", "%N"])
    }

    /// Ends a node like a power failure: kills its daemon, then `processes` of its job, and then marks the node as down. Each entry of
    /// `processes` is the parent of the entry before.
    pub fn lose(&self, node: &str, processes: &[i32]) {
        let daemon = self.pid(&format!("slurmd-{node}.pid")).unwrap();
        kill_process(Pid::from_raw(daemon).unwrap(), Signal::KILL).unwrap();
        for process in processes.iter().rev() {
            match kill_process(Pid::from_raw(*process).unwrap(), Signal::KILL) {
                // The wrapper of a held part takes the part with it.
                Err(Errno::SRCH) => {}
                killed => killed.unwrap(),
            }
        }
        self.ask("scontrol", &["update", &format!("NodeName={node}"), "State=DOWN", "Reason=lost"]);
    }

    fn begin(&self, nodes: usize) {
        let folder = self.folder.path();
        fs::set_permissions(folder, fs::Permissions::from_mode(0o755)).unwrap();
        for name in ["control", "spool", "munge"] {
            fs::create_dir(self.at(name)).unwrap();
        }
        fs::set_permissions(self.at("munge"), fs::Permissions::from_mode(0o700)).unwrap();
        // Not a secret: the key only separates clusters on one machine.
        let key: Vec<u8> = (0..128u32).map(|byte| (byte * 37 + std::process::id()) as u8).collect();
        fs::write(self.at("munge/key"), key).unwrap();
        fs::set_permissions(self.at("munge/key"), fs::Permissions::from_mode(0o600)).unwrap();
        // `--force`, because all users may write to the folder above, as with all temporary folders.
        let path = |name: &str| self.at(name).display().to_string();
        let option = |name: &str, file: &str| format!("--{name}={}", path(file));
        let ran = self
            .command("munged")
            .args(["--force", "--num-threads=2", &option("key-file", "munge/key"), &option("socket", "munge.socket")])
            .args([
                option("pid-file", "munged.pid"),
                option("log-file", "munge/log"),
                option("seed-file", "munge/seed"),
            ])
            .output()
            .unwrap();
        assert!(ran.status.success(), "munged: {}", String::from_utf8_lossy(&ran.stderr));

        // All listeners stay open until all ports are known.
        let held: Vec<TcpListener> = (0..=nodes).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
        let ports: Vec<u16> = held.iter().map(|port| port.local_addr().unwrap().port()).collect();
        drop(held);
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        let host = host.split('.').next().unwrap();
        let user = String::from_utf8(Command::new("id").arg("-un").output().unwrap().stdout).unwrap();
        let user = user.trim();
        let mut text = format!(
            "ClusterName=shardpack\nSlurmctldHost={host}(127.0.0.1)\nSlurmctldPort={}\nAuthType=auth/munge\n\
             AuthInfo=socket={}\nSlurmUser={user}\nSlurmdUser={user}\nStateSaveLocation={}\nSlurmdSpoolDir={}/%n\n\
             SlurmctldPidFile={}\nSlurmdPidFile={}/slurmd-%n.pid\nProctrackType=proctrack/pgid\nTaskPlugin=task/none\n\
             MpiDefault=none\nSelectType=select/cons_tres\nSelectTypeParameters=CR_CPU\nJobRequeue=0\nKillWait=120\n\
             CommunicationParameters=NoInAddrAny,NoCtldInAddrAny\n\
             SchedulerParameters=batch_sched_delay=0,sched_interval=1,sched_min_interval=0,bf_interval=1\nMailProg=/bin/true\n\
             AccountingStorageType=accounting_storage/none\nJobAcctGatherType=jobacct_gather/none\nSlurmdTimeout=60\n",
            ports[0],
            path("munge.socket"),
            path("control"),
            path("spool"),
            path("slurmctld.pid"),
            folder.display(),
        );
        for (node, port) in (1..=nodes).zip(&ports[1..]) {
            text += &format!("NodeName=n{node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=1\n");
        }
        text += "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP\n";
        fs::write(self.at("slurm.conf"), text).unwrap();
        self.ask("slurmctld", &["-c", "-L", &path("slurmctld.log")]);
        for node in 1..=nodes {
            self.ask("slurmd", &["-N", &format!("n{node}"), "-c", "-L", &path(&format!("slurmd-n{node}.log"))]);
        }
        self.wait("idle nodes", || {
            let idle = self.try_ask("sinfo", &["-h", "-t", "idle", "-o", "%D"]).stdout;
            (String::from_utf8_lossy(&idle).trim() == nodes.to_string()).then_some(())
        });
    }

    fn pid(&self, file: &str) -> Option<i32> {
        fs::read_to_string(self.at(file)).ok()?.trim().parse().ok()
    }

    /// The end of each daemon's log.
    pub fn logs(&self) -> String {
        let mut out = String::new();
        for entry in fs::read_dir(self.folder.path()).into_iter().flatten().flatten() {
            if entry.path().extension() == Some(OsStr::new("log")) {
                let text = fs::read(entry.path()).unwrap_or_default();
                let text = String::from_utf8_lossy(&text[text.len().saturating_sub(6000)..]).into_owned();
                out += &format!("== {}\n{text}\n", entry.file_name().display());
            }
        }
        out
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let jobs = self.try_ask("squeue", &["-h", "-o", "%A"]);
        for job in String::from_utf8_lossy(&jobs.stdout).lines() {
            self.try_ask("scancel", &["--signal=KILL", "--full", job]);
            self.try_ask("scancel", &[job]);
        }
        // Waits for jobs of a failed test: a job without its daemon stays until it can report its end.
        let start = Instant::now();
        let is_left = || !self.try_ask("squeue", &["-h", "-o", "%A"]).stdout.is_empty();
        while is_left() && start.elapsed() < Duration::from_secs(20) {
            thread::sleep(Duration::from_millis(200));
        }
        let files = fs::read_dir(self.folder.path()).into_iter().flatten().flatten();
        let files = files.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let daemons: Vec<i32> =
            files.filter(|file| file.ends_with(".pid")).filter_map(|file| self.pid(&file)).collect();
        let daemons: Vec<Pid> = daemons.into_iter().filter_map(Pid::from_raw).collect();
        // A daemon that has already ended is no error.
        let tell = |signal| daemons.iter().for_each(|pid| kill_process(*pid, signal).unwrap_or_default());
        tell(Signal::TERM);
        let start = Instant::now();
        while daemons.iter().any(|pid| test_kill_process(*pid).is_ok()) && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(20));
        }
        tell(Signal::KILL);
    }
}

/// The parent process of `pid`.
pub fn parent(pid: i32) -> i32 {
    let stat = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat")).unwrap();
    // The process name, in brackets, may contain any character.
    stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}
