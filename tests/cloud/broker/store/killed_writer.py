"""Writes batches until it is killed; prints the number of each that is on disk for certain.

python killed_writer.py BROKER_DB FIRST_NUMBER
"""

import itertools
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[4]))

from cloud.broker.store.database import Database
from tests.cloud.broker.store.batches import traffic

database = Database(Path(sys.argv[1]), "full")
for number in itertools.count(int(sys.argv[2])):
    database.write(traffic(number))
    print(number, flush=True)
