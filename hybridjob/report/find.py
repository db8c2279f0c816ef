"""Which job's folder a person means."""

from __future__ import annotations

from pathlib import Path

from hybridjob.errors import ReportError
from hybridjob.jobfolder import JobFolder


def find_job(run: str) -> JobFolder:
    """Find a job's folder: by its path, its run's path or name (the newest job), or its id.

    Raises ReportError that lists the runs there are.
    """
    for path in (Path(run), Path("runs") / run):
        if _is_job(path):
            return JobFolder(path.absolute())
        jobs = sorted((one for one in _folders(path) if _is_job(one)), key=_age)
        if jobs:
            return JobFolder(jobs[-1].absolute())
    by_id = [name / run for name in _folders(Path("runs")) if _is_job(name / run)]
    if by_id:
        return JobFolder(by_id[0].absolute())
    there = ", ".join(one.name for one in _folders(Path("runs"))) or "none"
    raise ReportError(
        f"{run!r} is no job's folder, nor a run or a job's id in ./runs (runs there: {there}): "
        "give the folder that `hybridjob submit` printed"
    )


def _is_job(path: Path) -> bool:
    return any((path / name).exists() for name in ("job.toml", "lives.jsonl", "summary.json"))


def _folders(path: Path) -> list[Path]:
    try:
        return sorted(one for one in path.iterdir() if one.is_dir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise ReportError(f"cannot read {path}: {error.strerror}") from error


def _age(path: Path) -> float:
    return path.stat().st_mtime
