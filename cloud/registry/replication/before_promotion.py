"""What would be lost, were this replica promoted now. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Circumstances:
    """`seq`, `newest`: the last entry here, and the last that anybody spoke of."""

    role: str
    seq: int
    epoch: int  # of the log here
    root_epoch: int  # of the newest root that verifies
    newest: int
    ahead: tuple[str, ...] = ()  # URLs of registries whose logs are longer
    homes: tuple[str, ...] = ()  # URLs that say that they are home
    artifacts_missing: int = 0


def never(found: Circumstances) -> str | None:
    """Why it must not be, whatever anybody says; None: it may."""
    if found.role == "home":
        return "this registry is home already"
    if found.role == "fenced":
        return "this registry is fenced off: another is home; make it a replica first (rejoin)"
    if found.root_epoch > found.epoch:
        return (
            f"a verified root says epoch {found.root_epoch}, and the log here is of epoch "
            f"{found.epoch}: another registry was promoted; follow that one"
        )
    if not found.seq:
        return "nothing was replicated yet; a new registry is set up with: hybridge registry init"
    return None


def losses(found: Circumstances) -> tuple[str, ...]:
    """In words; empty: nothing that is known of."""
    lost: list[str] = []
    if found.newest > found.seq:
        where = f" ({', '.join(found.ahead)} has more of them)" if found.ahead else ""
        lost.append(
            f"{found.newest - found.seq} entries of the log, {found.seq + 1} to {found.newest}, "
            f"that are not here{where}"
        )
    if found.artifacts_missing:
        lost.append(f"{found.artifacts_missing} artifacts that are not here")
    if found.homes:
        lost.append(
            f"whatever {', '.join(found.homes)} takes until it hears of this: it says that it is "
            "home; stop it first"
        )
    return tuple(lost)
