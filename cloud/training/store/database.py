"""The learning database, which workers share with the learning process: jobs, runs and loops."""

from typing import Final

from cloud.store.migrating import Migrations
from cloud.store.one_writer import OneWriter

MIGRATIONS: Final = Migrations("cloud.training.store", "training_schema")


class LearningDatabase(OneWriter):
    """As `OneWriter`; whoever drives loops `owned` it, workers do not ask."""

    SETTING = "training.url"
    WHAT = "the learning database"
    OWNER = "learning process"
    MIGRATIONS = MIGRATIONS
    LOCK = 0x6879_6C65_726E  # "hylern"
