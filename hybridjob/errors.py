"""Everything that hybridjob raises for its users: one tree, so that one `except` catches all."""


class HybridjobError(Exception):
    """The root. Its text is one message for a person: what, where, and what to do."""


class ConfigError(HybridjobError):
    """The job file, or an override of one of its keys, is wrong."""


class DataError(HybridjobError):
    """Data is missing or malformed; the text names the file, and line and column if there are."""


class ModelError(HybridjobError):
    """The model factory failed, or what it made does not fit the data."""


class RendezvousError(HybridjobError):
    """Some ranks did not find each other in time; the text names them."""


class PeerError(HybridjobError):
    """Another rank is gone or does not answer: a consequence, seldom the first cause."""


class TableError(HybridjobError):
    """A table was asked for something that it cannot do, such as an id out of range."""


class CheckpointError(HybridjobError):
    """A checkpoint could not be written, or is damaged; the text names the file."""


class DamageError(CheckpointError):
    """Bytes of a checkpoint are missing or not what its manifest says: an older one must do."""


class RunError(HybridjobError):
    """There is no such run, or it is not in the state that the command needs."""


class LaunchError(HybridjobError):
    """The job could not be submitted or started."""


class ReportError(HybridjobError):
    """A report about a run could not be made."""
