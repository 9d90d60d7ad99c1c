"""The `api` part of a registry's configuration, and the bounds of what it takes."""

from typing import Annotated

from pydantic import Field

from cloud.api.settings import DocumentApi
from shared.config import Count, Positive


class RegistryApi(DocumentApi):
    stall_s_max: Positive = 60.0
    """Seconds for which a reader may take nothing of its answer until its connection is cut. A
    device behind a limited link empties the kernel's buffers (megabytes) in jumps of that length."""
    json_bytes_max: Annotated[int, Field(gt=0, le=64 * 1024**2)] = 1024 * 1024
    """Of a body that is a document. Holds 10,000 hashes to ask about, or one model role's signed
    metadata of thousands of releases; manifests (up to 4 MiB) travel as artifacts."""
    bodies_bytes_max: Count = 64 * 1024 * 1024
    """Of all documents in hand; uploads are not held in memory and do not count."""
    upload_s_max: Positive = 3600.0
    """Seconds for one upload request; what came until then is kept, and the next goes on from it."""
    upload_silence_s_max: Positive = 30.0
    """Seconds without a byte of an upload until it is cut. A link that lost its radio is back in
    less, or has a new address."""
    uploads_max: Annotated[int, Field(gt=0, le=1000)] = 32
    """Upload requests at once; more are told to come again. Each may hold 1 MiB and a file."""
    downloads_max: Annotated[int, Field(gt=0, le=10_000)] = 256
    """Artifacts being sent at once; more are told to come again. Each may hold 1 MiB and a file."""
    waits_max: Annotated[int, Field(gt=0, le=10_000)] = 128
    """Questions for the log that wait for its next entry; each replica has one."""
    wait_s_max: Annotated[float, Field(gt=0, le=60)] = 60.0
    """How long each may wait; proxies close silent connections after a minute."""
    entries_max: Annotated[int, Field(gt=0, le=1000)] = 500
    """Entries of one answer; each has 0.3 to 3 KB."""
