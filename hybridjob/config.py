"""The job file: what a person asks for, checked before anything is submitted.

Imports no torch: a login node reads job files.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from hybridjob.data.config import DataConfig
from hybridjob.roles import Layout
from hybridjob.schema import DataType
from hybridjob.strict import Section
from slurm.duration import parse_duration


def _checked_time(value: str) -> str:
    parse_duration(value)
    return value


FlagValue = bool | int | str
Kernels = Literal["auto", "numba", "torch"]
PoolOn = Literal["auto", "servers", "trainers"]
Sharding = Literal["range", "hash"]
MemorySize = Annotated[str, Field(pattern=r"^\d+(\.\d+)?[KMGTkmgt]?[Bb]?$")]
TimeLimit = Annotated[str, AfterValidator(_checked_time)]
_NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9._-]*$")
_FACTORY = re.compile(r"^[A-Za-z_][\w.]*:[A-Za-z_]\w*$")
BUILT_IN_MODELS = {
    "tutorial": "hybridjob.models.tutorial:factory",
    "click": "hybridjob.models.click:factory",
}


class Resources(Section):
    """What one role asks of Slurm, in Slurm's own terms."""

    nodes: PositiveInt = 1
    """Nodes of this role's component."""
    tasks_per_node: PositiveInt = 1
    """Servers, or trainers, on each node."""
    partition: str | None = None
    """Partition(s), comma separated; the site's default if not given."""
    cpus_per_task: PositiveInt = 1
    """Cores of each task; torch uses as many threads."""
    mem: MemorySize | None = None
    """Memory of a node, such as `64G`. The tables must fit the servers' nodes."""
    mem_per_cpu: MemorySize | None = None
    """Memory of a core; not together with mem."""
    gpus_per_node: FlagValue | None = None
    """GPUs of a node: a number, or type:number."""
    time: TimeLimit | None = None
    """Time limit, as Slurm writes it. All components end together: the shortest counts."""
    account: str | None = None
    """Account to charge; slurm.account if not given."""
    qos: str | None = None
    """Quality of service; slurm.qos if not given."""
    constraint: str | None = None
    """Features that the nodes must have."""
    flags: dict[str, FlagValue] = {}
    """More sbatch flags of this component, such as `exclude = "n3"`; true gives a bare flag."""
    srun_flags: dict[str, FlagValue] = {}
    """Options of the step, such as `gpus-per-task = 1`."""

    @property
    def num_tasks(self) -> int:
        """Tasks of this role over all its nodes."""
        return self.nodes * self.tasks_per_node

    @model_validator(mode="after")
    def _one_memory_flag(self) -> Resources:
        if self.mem is not None and self.mem_per_cpu is not None:
            raise ValueError("mem and mem_per_cpu exclude each other: give one")
        return self


class MasterResources(Resources):
    """A component of the master's own: one task. Without it the master rides with the servers."""

    @model_validator(mode="after")
    def _one_task(self) -> MasterResources:
        if self.num_tasks != 1:
            raise ValueError(
                f"the master is one task, but nodes x tasks_per_node is {self.num_tasks}"
            )
        return self


class Slurm(Section):
    """What all components share."""

    time: TimeLimit = "1:00:00"
    """Time limit of the job: 30 (minutes), 1:00:00, 1-12:00:00, UNLIMITED."""
    account: str | None = None
    """Account of every component."""
    qos: str | None = None
    """Quality of service of every component."""
    setup: list[str] = []
    """Shell lines before the tasks start: module load, conda activate, ..."""
    environment: dict[str, str] = {}
    """Environment variables that every rank gets."""
    python: str | None = None
    """Python of the compute nodes; the one that submits if not given. It also runs the batch
    script's part, so it must have srun, squeue and scontrol at hand: no container's Python."""
    task_python: str | None = None
    """Python of the tasks, where it is another than `python`: the one in a container."""
    flags: dict[str, FlagValue] = {}
    """More sbatch flags of every component."""
    srun_flags: dict[str, FlagValue] = {}
    """Options of the step, alike in every component, such as `container-image = "/img/t.sqsh"`."""
    signal_delay_s: PositiveInt = 120
    """Seconds before the time limit at which Slurm sends USR2."""


class Network(Section):
    """How the ranks find and reach each other."""

    interface: str | None = None
    """Network interface for gloo, TensorPipe and NCCL, such as `ib0`; the one that leads to the
    master if not given."""
    master_address: str | None = None
    """Name or address of the master's host, where its host name does not resolve."""
    rdma: bool = False
    """Let TensorPipe use InfiniBand verbs. Off: TCP, which works everywhere."""
    rendezvous_timeout_s: PositiveFloat = 300
    """Seconds until a rank that has not arrived ends the job."""
    rpc_timeout_s: PositiveFloat = 120
    """Seconds until a call to another rank counts as failed."""


class Model(Section):
    """The model and its options."""

    factory: str = "click"
    """`click` (DLRM-like), `tutorial`, or your own `package.module:function`."""
    options: dict[str, Any] = {}
    """Keyword arguments of the factory."""
    table_data_type: DataType = "float32"
    """In what the rows of tables are kept whose declaration does not say; `bfloat16` and `float16`
    take half the memory. Computing, and the optimizer's state, stay float32; a changed row is
    rounded up or down by chance, so that small changes are not lost."""

    @field_validator("factory")
    @classmethod
    def _known_or_a_path(cls, value: str) -> str:
        if value not in BUILT_IN_MODELS and not _FACTORY.match(value):
            raise ValueError(
                f"is none of {', '.join(BUILT_IN_MODELS)}, nor of the form package.module:function"
            )
        return value

    @property
    def path(self) -> str:
        """`package.module:function` also for the built-in models."""
        return BUILT_IN_MODELS.get(self.factory, self.factory)


class TableOptimizer(Section):
    """The optimizer of the embedding tables. It touches only the rows of the batch."""

    name: Literal["sgd", "adagrad", "rowwise_adagrad", "adam"] = "adagrad"
    """`adam` is torch's SparseAdam; `rowwise_adagrad` keeps one number a row."""
    lr: PositiveFloat = 0.05
    """Learning rate."""
    eps: PositiveFloat | None = None
    """Added to the root; 1e-10 for the Adagrads, 1e-8 for Adam if not given."""
    lr_decay: float = Field(default=0.0, ge=0)
    """Adagrad: lr / (1 + steps x lr_decay)."""
    initial_accumulator: float = Field(default=0.0, ge=0)
    """Adagrads: where the sum of squares starts."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Adam's decay rates."""

    @field_validator("betas")
    @classmethod
    def _decay_rates(cls, value: tuple[float, float]) -> tuple[float, float]:
        if not all(0 <= beta < 1 for beta in value):
            raise ValueError(f"betas are {value}, but each must be at least 0 and below 1")
        return value


class DenseOptimizer(Section):
    """The optimizer of the dense layers."""

    name: str = "Adam"
    """Any class of torch.optim."""
    lr: PositiveFloat = 0.001
    """Learning rate."""
    options: dict[str, Any] = {}
    """More arguments of that class."""


class Training(Section):
    """The loop."""

    mode: Literal["sync", "async"] = "sync"
    """`sync`: one update a step, from the global batch, the same numbers each time.
    `async`: each trainer's gradient of the tables is applied as it arrives."""
    staleness: int = Field(default=1, ge=0, le=64)
    """`async`: a step's rows may lack the gradients of at most so many steps before it."""
    kernels: Kernels = "auto"
    """What computes on the tables: `numba`, or `torch`, the slower reference; `auto`: numba if it
    is installed."""
    pool_on: PoolOn = "auto"
    """Where bags are pooled: on the `servers`, so that vectors travel, or on the `trainers`, so
    that distinct rows do; `auto`: for each table and batch what moves fewer bytes. The result is
    the same to the bit. Maxima are pooled on the trainers, with `torch` kernels all bags are."""
    wire_data_type: DataType = "float32"
    """In what rows, vectors and gradients travel between servers and trainers, rounded to nearest.
    Not in float32, pool_on = "auto" may give other bits for another number of servers."""
    sharding: Sharding = "range"
    """Which server holds which ids of a table: `range`: each the next ones, in order; `hash`: ids
    that are close lie apart, so that frequent ones with small numbers are not all on one server.
    A run keeps what it began with."""
    epochs: PositiveInt = 1
    """Passes over the training data."""
    max_steps: PositiveInt | None = None
    """Stop after so many steps."""
    batch_size: PositiveInt = 1024
    """Samples of one step, over all trainers together."""
    loss: Literal["bce", "cross_entropy", "mse"] = "bce"
    """`bce` takes logits. A module that has a method `loss(outputs, labels)` overrides this."""
    table_optimizer: TableOptimizer = TableOptimizer()
    """Optimizer of the tables."""
    dense_optimizer: DenseOptimizer = DenseOptimizer()
    """Optimizer of the dense layers."""
    log_every_steps: PositiveInt = 20
    """Steps between two lines of metrics.jsonl."""
    trace_steps: int = Field(default=0, ge=0, le=10_000)
    """So many steps are traced, for trace.json: what each rank did when. 0: none."""
    trace_from: int = Field(default=100, ge=0)
    """The first step that is traced, from 0."""
    evaluate: Literal["end", "epoch", "never"] = "end"
    """When the held-out rows are scored, if data.test_fraction is above 0."""
    stall_timeout_s: PositiveFloat = 600
    """Seconds without a step until the job counts as stuck and ends."""


class Checkpoint(Section):
    """When the state is saved."""

    every_steps: int = Field(default=0, ge=0)
    """Steps between two checkpoints; 0: every_minutes decides alone. One is written at the end,
    and before a job leaves its nodes, in any case."""
    every_minutes: float = Field(default=10, ge=0)
    """Minutes after a checkpoint until the next one; 0: every_steps decides alone."""
    keep_last: PositiveInt = 2
    """How many checkpoints stay; older ones are removed once a newer one is durable. Those that
    they need stay too."""
    keep_every: int = Field(default=0, ge=0)
    """Checkpoints at multiples of so many steps stay for ever; 0: none."""
    write_behind: bool = True
    """Write while training goes on. Rows that change meanwhile are copied first; where there is
    no memory for that, training waits."""
    full_every: int = Field(default=8, ge=0)
    """So many checkpoints hold only the rows touched since the last whole one, then comes another
    whole one; 0: all are whole."""
    max_delta_fraction: float = Field(default=0.3, ge=0, le=1)
    """A whole checkpoint is written when more than this share of all rows was touched since the
    last."""
    restart_from_zero: bool = False
    """Begin at step 0 if there are checkpoints but none verifies; else that is an error."""
    max_failures: PositiveInt = 3
    """Checkpoints in a row that may fail to be written before the run ends with an error."""


class Recovery(Section):
    """What happens when a rank fails, or Slurm wants the nodes back."""

    max_restarts: int = Field(default=3, ge=0)
    """How often, within one life of the job, all workers are started again after a failure."""
    max_idle_lives: PositiveInt = 3
    """Lives in a row without a new checkpoint after which the job stops being requeued."""
    leave_timeout_s: PositiveFloat = 90
    """Seconds for saving after Slurm's warning; then the newest checkpoint must do."""


class Job(Section):
    """The whole job file."""

    name: str
    """Name of the run and of the Slurm job."""
    seed: int = Field(default=0, ge=0, lt=2**63)
    """Decides everything random: initial rows, order of the data, the held-out rows."""
    run_folder: str = ""
    """Folder on the shared file system; runs/<name> if not given."""
    master: MasterResources | None = None
    """A component for the master alone."""
    ps: Resources = Resources()
    """The parameter servers, which hold the tables."""
    trainer: Resources = Resources()
    """The trainers, which hold the dense layers."""
    slurm: Slurm = Slurm()
    """What all components share."""
    network: Network = Network()
    """How ranks reach each other."""
    model: Model = Model()
    """The model."""
    data: DataConfig
    """The data."""
    training: Training = Training()
    """The loop."""
    checkpoint: Checkpoint = Checkpoint()
    """Saving."""
    recovery: Recovery = Recovery()
    """Coming back."""

    @field_validator("name")
    @classmethod
    def _usable_as_a_folder(cls, value: str) -> str:
        if not _NAME.match(value):
            raise ValueError(
                "must be of letters, digits, dots, dashes and underscores, no dot first"
            )
        return value

    @model_validator(mode="before")
    @classmethod
    def _default_run_folder(cls, values: Any) -> Any:
        if isinstance(values, dict) and not values.get("run_folder") and "name" in values:
            return {**values, "run_folder": f"runs/{values['name']}"}
        return values

    @model_validator(mode="after")
    def _every_trainer_gets_samples(self) -> Job:
        trainers = self.layout.num_trainers
        if self.training.batch_size < trainers:
            raise ValueError(
                f"training.batch_size is {self.training.batch_size}, but trainer.nodes x "
                f"trainer.tasks_per_node is {trainers}: each trainer needs at least one sample"
            )
        return self

    @property
    def layout(self) -> Layout:
        """How many tasks of each role there are."""
        return Layout(num_servers=self.ps.num_tasks, num_trainers=self.trainer.num_tasks)

    @property
    def run_path(self) -> Path:
        """The run folder, absolute."""
        return Path(self.run_folder).expanduser().absolute()
