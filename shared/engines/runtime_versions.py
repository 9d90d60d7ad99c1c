"""Are the distributions that a variant needs installed here, in the versions that it needs?"""

import importlib.metadata
from collections.abc import Callable, Mapping

from packaging.specifiers import InvalidSpecifier, SpecifierSet
from packaging.version import InvalidVersion, Version


def missing_runtime(
    needs: Mapping[str, str],
    version_of: Callable[[str], str] = importlib.metadata.version,
) -> str | None:
    """The first unmet need in one line, or None. `needs`: distribution -> PEP 440 specifier."""
    for distribution, specifier in needs.items():
        try:
            accepted = SpecifierSet(specifier)
        except InvalidSpecifier:
            return f"the bundle needs {distribution} {specifier!r}, which is no version specifier"
        try:
            found = version_of(distribution)
        except importlib.metadata.PackageNotFoundError:
            return f"needs {distribution} {specifier}, which is not installed"
        try:
            version = Version(found)
        except InvalidVersion:
            return f"needs {distribution} {specifier}; cannot read the installed version {found!r}"
        if not accepted.contains(version, prereleases=True):
            return f"needs {distribution} {specifier}; {found} is installed"
    return None
