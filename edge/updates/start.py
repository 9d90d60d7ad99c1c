"""At start: open the active version, or the best that is left, and say why. Blocking.

Everything is verified again: what was whole when it was installed may have lost a bit since.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from edge.updates import starting, state_file
from edge.updates.folders import Folders, factory_release
from edge.updates.release import Release
from edge.updates.starting import Fault
from edge.updates.state import State, first_state
from shared.bundle.reader import Bundle, open_bundle
from shared.errors import HybridgeError, Malformed, NotTrusted, TooLarge, Unavailable

log = logging.getLogger(__name__)

T = TypeVar("T")


def open_active(state_dir: Path, factory: Path, opener: Callable[[Path], T]) -> T:
    """`opener` over the bundle to run: the active version; where that is damaged, does not open or
    kept ending the agent, one of the two before it, and at last the factory bundle.

    Call it once a start, under the state lock. Raises what `opener` raises for the factory bundle.
    """
    folders = Folders(state_dir, factory)
    stored = state_file.load(folders.root)
    if stored is None:
        return opener(factory)
    try:
        bundle = open_bundle(factory)
    except HybridgeError as error:
        log.warning("factory_bundle_unusable", extra={"why": str(error)[:300]})
        home = Release("0.0.0", "0" * 64, 0, 0)
    else:
        if bundle.manifest.name != stored.model:
            log.warning(
                "updates_forgotten",
                extra={"why": f"they were of {stored.model}; set up is {bundle.manifest.name}"},
            )
            return opener(factory)
        home = factory_release(bundle)
    return _first_that_opens(folders, stored, home, opener)


def load_state(folders: Folders, served: Bundle) -> State:
    """Where the update stands, for a process in which `served` answers already."""
    stored = state_file.load(folders.root)
    here = factory_release(served)  # by its bytes; its number is in the state
    if stored is None or stored.model != served.manifest.name:
        return first_state(served.manifest.name, here)
    if here.same_as(stored.active):
        return stored
    kept = next((release for release in stored.previous if release.same_as(here)), here)
    fault = Fault(stored.active, "another version was opened", refuse=False)
    return starting.fall_back(stored, kept, (fault,))


def _first_that_opens(
    folders: Folders, stored: State, home: Release, opener: Callable[[Path], T]
) -> T:
    state, known = starting.begin(stored)
    faults = list(known)
    order = starting.in_order(state, home)
    for release in order:
        if any(fault.release.same_as(release) for fault in faults):
            continue
        try:
            if not release.factory:
                folders.open(release)
            opened = opener(folders.of(release))
        except HybridgeError as error:
            if release == order[-1] or release == home == order[0]:
                raise
            damaged = isinstance(error, NotTrusted | Malformed | TooLarge | Unavailable)
            faults.append(Fault(release, str(error), refuse=not damaged))
            log.warning("version_unusable", extra={"version": str(release), "why": str(error)})
            continue
        _note(folders, state, release, tuple(faults))
        return opened
    raise AssertionError("the last one raises")


def _note(folders: Folders, state: State, opened: Release, faults: tuple[Fault, ...]) -> None:
    """What came of it; a disk that is full must not keep the device from answering."""
    after = state
    if not opened.same_as(state.active):
        after = starting.fall_back(state, opened, faults)
        log.warning("fell_back", extra={"to": str(opened), "why": after.why})
        for fault in faults:
            if not fault.refuse:
                folders.discard(fault.release)
    try:
        state_file.save(folders.root, after)
    except Unavailable as error:
        log.warning("update_state_unwritable", extra={"why": str(error)[:300]})
