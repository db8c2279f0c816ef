"""A real Slurm on this machine, thrown away after the tests.

    with Cluster(ClusterOptions(nodes={"cpu": ("n0", "n1")})) as cluster:
        cluster.run(["sinfo"])

It has its own munged, slurmctld and one slurmd a node (and mariadbd and slurmdbd, if asked for) in
a temporary folder, on free ports: several may run at once. Nothing of it is left afterwards.
"""

import contextlib
import os
import shutil
import socket
import subprocess
import tempfile
from pathlib import Path
from types import TracebackType

from cluster_files import Site, gres_conf, slurm_conf, slurmdbd_conf
from cluster_network import NodeNetwork
from cluster_options import SEARCH_PATH, ClusterOptions
from cluster_processes import ClusterError, Reservation, kill_all, processes_with, wait_until

_START_DEADLINE_S = 60.0
_NODE_VARIABLE = "TEST_CLUSTER_NODE"
_LONGEST_FOLDER = 40  # a socket's path has 108 bytes at most, and slurmd's are long


class Cluster:
    """One cluster, from entering the context to leaving it."""

    def __init__(self, options: ClusterOptions) -> None:
        self.options = options
        self._reservation = Reservation()
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._network: NodeNetwork | None = None
        self.site: Site

    def __enter__(self) -> "Cluster":  # noqa: PYI034 - Self is not in Python 3.10
        """Start it; return when all nodes are idle. Raises ClusterError with the daemons' logs."""
        folder = _short_folder()
        try:
            self._start(folder)
        except BaseException as error:
            logs = _tails(folder / "log")
            self._stop(folder)
            if isinstance(error, ClusterError | subprocess.SubprocessError | OSError):
                raise ClusterError(f"the cluster did not start: {error}\n{logs}") from error
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop it."""
        self._stop(self.site.folder)

    def environment(self) -> dict[str, str]:
        """Give the variables with which Slurm's commands find this cluster."""
        return {"SLURM_CONF": str(self.site.conf)}

    def run(
        self, argv: list[str], *, check: bool = True, timeout_s: float = 60, **more: str
    ) -> subprocess.CompletedProcess[str]:
        """Run a command against this cluster; more: further variables of its environment."""
        done = subprocess.run(
            argv,
            env={**os.environ, "PATH": SEARCH_PATH, **self.environment(), **more},
            cwd=self.site.folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )
        if check and done.returncode != 0:
            raise ClusterError(f"{argv} ended with {done.returncode}: {done.stderr}{done.stdout}")
        return done

    def states(self, job_id: str) -> set[str]:
        """Give the states of a job's components, by squeue."""
        argv = ["squeue", "--noheader", "--states=all", f"--jobs={job_id}", "-o", "%T"]
        return set(self.run(argv).stdout.split())

    def wait_for_state(self, job_id: str, states: set[str], deadline_s: float) -> None:
        """Wait until all components are in these states. Raises ClusterError with the logs."""
        try:
            wait_until(
                f"job {job_id} is {states}",
                lambda: set() < self.states(job_id) <= states,
                deadline_s,
            )
        except ClusterError as error:
            logs = _tails(self.site.logs)
            raise ClusterError(f"{error}; it is {self.states(job_id)}\n{logs}") from error

    def crash_node(self, node: str) -> None:
        """Power a node off: SIGKILL its slurmd and all that this one started."""
        conf = str(self.site.conf)

        def find() -> list[int]:
            daemons = processes_with(SLURM_CONF=conf, **{_NODE_VARIABLE: node})
            return [*daemons, *processes_with(SLURM_CONF=conf, SLURMD_NODENAME=node)]

        kill_all(find)

    def boot_node(self, node: str) -> None:
        """Start a node's slurmd; does not wait for it."""
        (self.site.folder / "spool" / node).mkdir(parents=True, exist_ok=True)
        if self._network is None:
            argv = ["slurmd", "-D", "-N", node, "-f", str(self.site.conf)]
            self._daemon(*argv, log=node, **{_NODE_VARIABLE: node})
        else:
            argv = self._network.command(node)
            self._network.connect(node, self._daemon(*argv, log=node, **{_NODE_VARIABLE: node}))

    @property
    def network(self) -> NodeNetwork:
        """The nodes' own network; there is one in mode netns alone."""
        if self._network is None:
            raise ClusterError("all nodes of this cluster share the machine's network")
        return self._network

    def processes(self) -> list[int]:
        """Find all processes of this cluster and of its jobs."""
        return list(processes_with(SLURM_CONF=str(self.site.conf)))

    def _start(self, folder: Path) -> None:
        self.site = self._make_site(folder)
        for name in ("log", "state", "spool", "munge", "dev"):
            (folder / name).mkdir()
        for number in range(max(self.options.gpus.values(), default=0)):
            (folder / "dev" / f"nvidia{number}").symlink_to("/dev/null")
        self.site.conf.write_text(slurm_conf(self.options, self.site))
        if self.options.gpus:
            (folder / "gres.conf").write_text(gres_conf(self.options, self.site))
        if self._network is not None:
            self._network.up(self.site.host, self.options.loopback_node)
        self._start_munged()
        if self.options.accounting == "dbd":
            self._start_accounting()
        self._daemon("slurmctld", "-D", "-c", "-f", str(self.site.conf), log="slurmctld")
        for node in self.options.node_names:
            self.boot_node(node)
        wait_until("all nodes are idle", self._all_idle, _START_DEADLINE_S)

    def _make_site(self, folder: Path) -> Site:
        nodes = self.options.node_names
        controller, addresses = "127.0.0.1", dict.fromkeys(nodes, "127.0.0.1")
        if self.options.mode == "netns":
            self._network = NodeNetwork(folder, nodes, self._reservation)
            controller, addresses = self._network.controller_address, self._network.addresses
        services = ("slurmctld", "slurmdbd", "mariadb", *nodes)
        return Site(
            folder=folder,
            name=folder.name.lower().replace("_", "x"),
            host=socket.gethostname().partition(".")[0],
            controller_address=controller,
            ports={name: self._reservation.port() for name in services},
            addresses=addresses,
        )

    def _daemon(self, *argv: str, log: str, **variables: str) -> subprocess.Popen[bytes]:
        """Start a daemon in the foreground: its id is known, and it dies if this process does."""
        with (self.site.logs / f"{log}.out").open("ab") as output:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *argv],
                env={**os.environ, "PATH": SEARCH_PATH, **self.environment(), **variables},
                cwd=self.site.folder,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C is for the tests, which then stop it in order
            )
        self._daemons.append(process)
        return process

    def _start_munged(self) -> None:
        folder = self.site.folder / "munge"
        key = folder / "key"
        key.write_bytes(os.urandom(128))
        key.chmod(0o400)
        files = [f"--{name}-file={folder / name}" for name in ("key", "pid", "log", "seed")]
        socket_option = f"--socket={self.site.munge_socket}"
        self._daemon("munged", "--foreground", "--force", socket_option, *files, log="munged")
        wait_until("munged answers", self.site.munge_socket.exists, 20)

    def _start_accounting(self) -> None:
        folder = self.site.folder / "mysql"
        client = ["mariadb", "--no-defaults", f"--socket={folder}/socket", "--user=root"]
        common = ["--no-defaults", f"--datadir={folder}/data", "--innodb-log-file-size=8M"]
        common += ["--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=0"]
        user = f"--user={self.site.folder.owner()}"
        folder.mkdir()
        install = ["mariadb-install-db", *common, user, "--skip-test-db"]
        self.run([*install, "--auth-root-authentication-method=normal"])
        address = [f"--port={self.site.ports['mariadb']}", "--bind-address=127.0.0.1"]
        files = [f"--socket={folder}/socket", f"--pid-file={folder}/pid", "--skip-name-resolve"]
        self._daemon("mariadbd", *common, user, *address, *files, log="mariadbd")
        account = "slurm@'127.0.0.1'"
        grant = (
            f"create user if not exists {account} identified by 'slurm'; "
            f"grant all on slurm_acct.* to {account}"
        )
        self._wait_for_success("mariadbd answers", [*client, f"--execute={grant}"])
        conf = self.site.folder / "slurmdbd.conf"
        conf.touch(mode=0o600)
        conf.write_text(slurmdbd_conf(self.site))
        self._daemon("slurmdbd", "-D", log="slurmdbd")
        self._wait_for_success("slurmdbd answers", ["sacctmgr", "-n", "show", "cluster"])
        self.run(["sacctmgr", "-i", "add", "cluster", self.site.name])

    def _wait_for_success(self, what: str, argv: list[str]) -> None:
        wait_until(what, lambda: self.run(argv, check=False).returncode == 0, 60)

    def _all_idle(self) -> bool:
        idle = self.run(["sinfo", "-h", "-N", "-t", "idle", "-o", "%N"], check=False).stdout
        return set(idle.split()) == set(self.options.node_names)

    def _stop(self, folder: Path) -> None:
        """End all processes, those of jobs too. Their state is thrown away: no orderly end."""
        for daemon in self._daemons:
            daemon.kill()
        try:
            conf = str(folder / "slurm.conf")
            kill_all(lambda: list(processes_with(SLURM_CONF=conf)))
        finally:
            for daemon in self._daemons:
                daemon.wait(timeout=10)
                with contextlib.suppress(BrokenPipeError):
                    daemon.stdin.close()
            if self._network is not None:
                self._network.down()
            self._reservation.release()
            shutil.rmtree(folder)


def _short_folder() -> Path:
    usual = tempfile.gettempdir()
    return Path(
        tempfile.mkdtemp(prefix="sl", dir=usual if len(usual) < _LONGEST_FOLDER else "/tmp")
    )


def _tails(logs: Path, lines: int = 25) -> str:
    """Give the last lines of each log."""
    parts = []
    for path in sorted(logs.glob("*")):
        text = path.read_text(encoding="utf-8", errors="replace").splitlines()
        if text:
            parts.append("\n".join([f"--- {path.name}", *text[-lines:]]))
    return "\n".join(parts)
