"""From the bytes of a file to raw tensors: IDX, NPY, PNG, JPEG. Every input is hostile."""
