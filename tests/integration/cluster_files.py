"""The text of the cluster's configuration files. Pure."""

import getpass
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from cluster_options import ClusterOptions


@dataclass(frozen=True, kw_only=True)
class Site:
    """Where one cluster lies.

    ports: by "slurmctld", "slurmdbd", "mariadb" and the nodes' names.
    addresses: node -> IPv4 address.
    """

    folder: Path
    name: str
    host: str
    controller_address: str
    ports: Mapping[str, int]
    addresses: Mapping[str, str]

    @property
    def conf(self) -> Path:
        """slurm.conf."""
        return self.folder / "slurm.conf"

    @property
    def munge_socket(self) -> Path:
        """The private munged's."""
        return self.folder / "munge" / "socket"

    @property
    def logs(self) -> Path:
        """One file a daemon."""
        return self.folder / "log"


def slurm_conf(options: ClusterOptions, site: Site) -> str:
    """Render slurm.conf."""
    values = {**_daemons(site), **_QUICK, **_accounting(options, site)}
    # One number space over all clusters of a session: whoever remembers states by id (submitit's
    # watcher lives as long as the process) then never mixes up two clusters' jobs.
    values["FirstJobId"] = str(site.ports["slurmctld"])
    if options.gpus:
        values["GresTypes"] = "gpu"
    for line in options.extra_lines:
        key, _, value = line.partition("=")
        values[key] = value
    lines = [f"{key}={value}" for key, value in values.items()]
    lines += [_node_line(options, site, node) for node in options.node_names]
    for index, (partition, nodes) in enumerate(options.nodes.items()):
        default = "YES" if index == 0 else "NO"
        lines.append(
            f"PartitionName={partition} Nodes={','.join(nodes)} Default={default} "
            f"MaxTime=INFINITE State=UP {options.partition_flags.get(partition, '')}".rstrip()
        )
    return "\n".join(lines) + "\n"


def gres_conf(options: ClusterOptions, site: Site) -> str:
    """Render gres.conf: GPUs that are links to /dev/null, as slurmd wants device files."""
    return "".join(
        f"NodeName={node} Name=gpu File={site.folder}/dev/nvidia[0-{count - 1}]\n"
        for node in options.node_names
        if (count := options.gpus_of(node))
    )


def slurmdbd_conf(site: Site) -> str:
    """Render slurmdbd.conf."""
    values = {
        "AuthType": "auth/munge",
        "AuthInfo": f"socket={site.munge_socket}",
        "DbdHost": site.host,
        "DbdAddr": "127.0.0.1",
        "DbdPort": site.ports["slurmdbd"],
        "SlurmUser": getpass.getuser(),
        "StorageType": "accounting_storage/mysql",
        "StorageHost": "127.0.0.1",
        "StoragePort": site.ports["mariadb"],
        "StorageUser": "slurm",
        "StoragePass": "slurm",
        "StorageLoc": "slurm_acct",
        "PidFile": site.folder / "slurmdbd.pid",
        "LogFile": site.logs / "slurmdbd.log",
        "DebugLevel": "info",
    }
    return "".join(f"{key}={value}\n" for key, value in values.items())


def _daemons(site: Site) -> dict[str, str]:
    user = getpass.getuser()
    return {
        "ClusterName": site.name,
        "SlurmctldHost": f"{site.host}({site.controller_address})",
        "SlurmctldPort": str(site.ports["slurmctld"]),
        "SlurmUser": user,
        "SlurmdUser": user,
        "AuthType": "auth/munge",
        # A requeued job may not start before the old life's credential has expired.
        "AuthInfo": f"socket={site.munge_socket},cred_expire=5",
        "StateSaveLocation": f"{site.folder}/state",
        "SlurmdSpoolDir": f"{site.folder}/spool/%n",
        "SlurmctldPidFile": f"{site.folder}/slurmctld.pid",
        "SlurmdPidFile": f"{site.folder}/%n.pid",
        "SlurmctldLogFile": f"{site.logs}/slurmctld.log",
        "SlurmdLogFile": f"{site.logs}/%n.log",
        "SlurmctldDebug": "info",
        "SlurmdDebug": "info",
    }


_QUICK = {
    # Nothing that needs cgroups, systemd or a setuid helper.
    "ProctrackType": "proctrack/linuxproc",
    "TaskPlugin": "task/none",
    "SwitchType": "switch/none",
    "MpiDefault": "none",
    "SelectType": "select/cons_tres",
    "SelectTypeParameters": "CR_CPU",
    # The nodes claim more than this machine has.
    "SlurmdParameters": "config_overrides",
    "ReturnToService": "2",
    "JobRequeue": "1",
    "RebootProgram": "/bin/true",
    # Heterogeneous jobs are started by the backfill scheduler alone: let it look often.
    "SchedulerType": "sched/backfill",
    "SchedulerParameters": (
        "bf_interval=1,bf_hetjob_immediate,bf_resolution=1,bf_window=1440,"
        "sched_interval=1,batch_sched_delay=0,sched_min_interval=0"
    ),
    "KillWait": "2",
    "SlurmdTimeout": "10",
    "SlurmctldTimeout": "30",
    "UnkillableStepTimeout": "20",
    "WaitTime": "0",
    "MessageTimeout": "10",
    "TCPTimeout": "2",
    "MinJobAge": "300",
}


def _accounting(options: ClusterOptions, site: Site) -> dict[str, str]:
    values = {"JobAcctGatherType": "jobacct_gather/none"}
    if options.accounting == "none":
        return {**values, "AccountingStorageType": "accounting_storage/none"}
    return {
        **values,
        "AccountingStorageType": "accounting_storage/slurmdbd",
        "AccountingStorageHost": "127.0.0.1",
        "AccountingStoragePort": str(site.ports["slurmdbd"]),
        # With munge this is the socket to use towards slurmdbd.
        "AccountingStoragePass": str(site.munge_socket),
    }


def _node_line(options: ClusterOptions, site: Site, node: str) -> str:
    host = node if options.mode == "netns" else site.host
    gpus = options.gpus_of(node)
    return (
        f"NodeName={node} NodeHostname={host} NodeAddr={site.addresses[node]} "
        f"Port={site.ports[node]} CPUs={options.cpus} RealMemory=4000 State=UNKNOWN"
        + (f" Gres=gpu:{gpus}" if gpus else "")
    )
