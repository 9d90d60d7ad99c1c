"""Samples as they came over the wire, for who decodes them as a worker does. Synchronous."""

from uuid import UUID

from sqlalchemy import select

from cloud.feedback.database import FeedbackDatabase
from cloud.feedback.reading import shape_of
from cloud.store.schema import feedback
from shared.errors import Unknown
from shared.wire.envelope import Payload


class Payloads:
    def __init__(self, database: FeedbackDatabase) -> None:
        self._database = database

    def payload(self, device: str, sample: str) -> Payload:
        """Raises `Unknown`, `Unavailable`."""
        of = feedback.c
        query = select(of.codec, of.dtype, of.shape, of.payload, of.dictionary).where(
            of.sample_id == UUID(sample), of.device == device
        )
        row = self._database.read(lambda connection: connection.execute(query).one_or_none())
        if row is None:
            raise Unknown(f"sample {sample} of {device} is not in the feedback store any more")
        return Payload(row.codec, row.dtype, shape_of(row.shape), row.payload, row.dictionary)

    def close(self) -> None:
        self._database.close()
