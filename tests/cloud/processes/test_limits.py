"""Bounds of a process, under one that it was given."""

import subprocess
import sys

import pytest

MIB = 2**20
CODE = """
import resource, sys
from cloud.processes.limits import bound
given, wanted = map(int, sys.argv[1:])
if given:
    resource.setrlimit(resource.RLIMIT_FSIZE, (given, given))
print(bound(resource.RLIMIT_FSIZE, wanted), *resource.getrlimit(resource.RLIMIT_FSIZE))
"""


@pytest.mark.parametrize(
    ("given", "wanted", "least"), [(0, MIB, MIB), (MIB, 4 * MIB, MIB), (4 * MIB, MIB, MIB)]
)
def test_the_least_of_what_is_wanted_and_what_may_be(given, wanted, least):
    words = [sys.executable, "-c", CODE, str(given), str(wanted)]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    assert done.stdout.split() == [str(least)] * 3
