"""Everything that the slurm package raises for its users: one tree."""


class SlurmError(Exception):
    """The root. Its text is one message for a person: what, what we got, and what to do."""


class PlacementError(SlurmError):
    """This process cannot tell which task of which job it is."""


class SubmissionError(SlurmError):
    """The job was not accepted; the text carries sbatch's own message."""


class CommandError(SlurmError):
    """One of Slurm's commands is missing, failed, or took too long."""

    @property
    def is_unknown_job(self) -> bool:
        """Whether the controller did answer: that it knows no such job."""
        return "Invalid job id" in str(self)


class LocalJobError(SlurmError):
    """A job of the local executor failed, was cancelled, or was lost."""
