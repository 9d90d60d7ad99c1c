"""The real child with small recipes, begun as the worker begins it or forked with torch loaded."""

import os
import sys

from cloud.training.recipes.child import main

RECIPES = "tests.cloud.training.recipes.tiny_recipes"


def forked(order: str, messages: str) -> None:
    """`order` and `messages`: a file and a named pipe, which become stdin and stdout."""
    os.dup2(os.open(order, os.O_RDONLY), 0)
    os.dup2(os.open(messages, os.O_WRONLY), 1)
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115  it outlives this function
    sys.exit(main(RECIPES))


if __name__ == "__main__":
    sys.exit(main(RECIPES))
