"""The fleet's store as its service uses it."""

from cloud.fleet.credentials import Credentials
from cloud.fleet.group_changes import GroupChanges
from cloud.fleet.operating import Operating
from cloud.fleet.ordering import Ordering
from cloud.fleet.reading import Reading
from cloud.fleet.recording import Recording
from cloud.fleet.rollout_keeping import RolloutKeeping


class Fleet(Reading, Operating, Credentials, GroupChanges, Recording, Ordering, RolloutKeeping):
    """Devices, groups, profiles, desired state and rollouts in one database, which is open.

    Synchronous and thread-safe; call it with `asyncio.to_thread`. Other processes may use the same
    database. Each call is one transaction, and what changes has its line in the log there. Each
    raises `Unavailable` while the database is away.
    """
