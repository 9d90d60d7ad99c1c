"""Data sets of the feedback store: what one would hold, and those that were made."""

from pathlib import Path
from typing import Final

from cloud.feedback.documents import DataSetPlan, DataSetSpec, DataSetVersion, ListedDataSet
from cloud.fleet.client.reading import many, one, read
from cloud.learning.client.fetching import fetch
from cloud.learning.client.settings import LearningClientSettings
from cloud.registry.client.connection import Connection, quoted
from cloud.registry.client.uploads import Moved
from shared.errors import Malformed

_PATH: Final = "/v1/data-sets"


class DataSets:
    """Of one `LearningClient`; raises as it does."""

    def __init__(self, connection: Connection, settings: LearningClientSettings) -> None:
        self._connection: Final = connection
        self._settings: Final = settings

    async def all(self) -> list[ListedDataSet]:
        """Every version of each; `get` has the devices that it names."""
        return await many(self._connection, ListedDataSet, "data_sets", _PATH)

    async def plan(self, spec: DataSetSpec) -> DataSetPlan:
        """What a data set of it would hold; makes nothing."""
        path = f"{_PATH}/plan"
        found = await self._connection.json(
            "POST", path, document=_document(spec), is_repeatable=True
        )
        return read(DataSetPlan, found, path)

    async def build(self, name: str, spec: DataSetSpec) -> DataSetVersion:
        """The next version of that name; the present one where nothing has changed since."""
        if name == "plan":
            raise Malformed("a data set cannot be named plan: that is what plans are asked by")
        path = _of(name)
        found = await self._connection.json(
            "POST", path, document=_document(spec), is_repeatable=True
        )
        return read(DataSetVersion, found, path)

    async def get(self, name: str, number: int | None = None) -> DataSetVersion:
        """None: the newest."""
        return await one(self._connection, DataSetVersion, "GET", _of(name, number))

    async def fetch(self, version: DataSetVersion, target: Path, moved: Moved) -> int:
        """Its file (`cloud/feedback/data_file.py`), as a whole or not at all; its bytes."""
        path = f"{_of(version.name, version.number)}/file"
        return await fetch(
            self._connection, path, target, moved, bytes_max=self._settings.file_bytes_max
        )

    async def delete(self, name: str, number: int, comment: str = "") -> None:
        query = {"comment": comment or None}
        await self._connection.json("DELETE", _of(name, number), query=query, is_repeatable=False)


def _of(name: str, number: int | None = None) -> str:
    return f"{_PATH}/{quoted(name)}" + ("" if number is None else f"/{number}")


def _document(spec: DataSetSpec) -> object:
    return spec.model_dump(mode="json", exclude_none=True)
