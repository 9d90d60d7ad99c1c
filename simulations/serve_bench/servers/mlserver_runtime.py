"""MLServer's custom runtime, adaptive batching of 1 ms; its REST takes tensors as JSON only."""
# mypy: disable-error-code="import-not-found, misc"

import numpy as np
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

from simulations.serve_bench.servers.session import Session


class Runtime(MLModel):
    async def load(self) -> bool:
        self._session = Session()
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        x = NumpyCodec.decode_input(payload.inputs[0]).astype(np.float32, copy=False)
        y = NumpyCodec.encode_output("y", self._session.run(x))
        return InferenceResponse(model_name=self.name, outputs=[y])
