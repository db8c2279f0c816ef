"""The click model, taking its time: a job that is still at work when something happens to it."""

import time

from hybridjob.models.click import factory as click


def factory(schema, *, pause_s=0.0, **options):
    module, tables = click(schema, **options)
    module.register_forward_pre_hook(lambda *_: time.sleep(pause_s))
    return module, tables
