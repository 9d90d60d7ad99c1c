"""Which cloud model answers for which edge model."""

from collections.abc import Sequence

from cloud.serving.batcher import Batcher
from cloud.serving.model import Floats, LoadedModel, Pixels
from shared.errors import Malformed, Unknown


class Served:
    """A model and its queue."""

    def __init__(self, model: LoadedModel, batcher: Batcher[Pixels, Floats]) -> None:
        self.model, self.batcher = model, batcher


class Catalog:
    """By the names in `answers_for`, and by each model's own."""

    def __init__(self, served: Sequence[Served]) -> None:
        self._by_name: dict[str, Served] = {}
        self.served = tuple(served)
        for one in served:
            for name in dict.fromkeys((one.model.name, *one.model.manifest.answers_for)):
                other = self._by_name.setdefault(name, one)
                if other is not one:
                    raise Malformed(
                        f"{other.model.name} and {one.model.name} both answer for {name!r}; "
                        "serve one of them"
                    )

    def answering(self, edge_model: str) -> Served:
        """Raises `Unknown`."""
        try:
            return self._by_name[edge_model]
        except KeyError as error:
            raise Unknown(
                f"no model here answers for {edge_model[:64]!r}; there are "
                f"{', '.join(sorted(self._by_name))}"
            ) from error
