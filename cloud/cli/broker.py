"""`hybridge broker status|sessions|kick|passwd`: look into a running embedded broker, and act."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.broker_passwd import passwd

if TYPE_CHECKING:
    from rich.table import Table

    from cloud.broker.operations.admin_client import AdminClient
    from cloud.broker.operations.status import SessionStatus, Status

broker = typer.Typer(no_args_is_help=True, help="Look into a running embedded broker.")
broker.command()(passwd)

StateDir = Annotated[
    Path | None,
    typer.Option(
        "--state-dir", metavar="DIR", help="The broker's state directory, or the cloud's."
    ),
]
ConfigFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="The cloud's settings; they name it."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@broker.command()
def status(state_dir: StateDir = None, config: ConfigFile = None, *, json: AsJson = False) -> None:
    """Show clients, queues, traffic, what was dropped or refused, and the store."""
    found = _client(state_dir, config).status()
    if json:
        _print_json(found)
        return
    _print(_overview(found), _reasons(found))


@broker.command()
def sessions(
    state_dir: StateDir = None,
    config: ConfigFile = None,
    *,
    prefix: Annotated[str, typer.Option(help="Only client ids that begin so.")] = "",
    after: Annotated[str, typer.Option(help="Only client ids that come after this one.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Rows at most.")] = 100,
    json: AsJson = False,
) -> None:
    """List sessions by client id: who is connected, and what waits for whom."""
    page = _client(state_dir, config).sessions(after=after, prefix=prefix, limit=limit)
    if json:
        _print_json(page)
        return
    _print(_rows(page.sessions))
    if page.next_after is not None:
        typer.echo(f"There are more: --after {_shown(page.next_after)}")


@broker.command()
def kick(
    client_id: Annotated[str, typer.Argument(help="As `hybridge broker sessions` shows it.")],
    state_dir: StateDir = None,
    config: ConfigFile = None,
    *,
    forget: Annotated[
        bool, typer.Option("--forget", help="Also end its session, with all that waits for it.")
    ] = False,
) -> None:
    """Close a client's connection. It may come back unless passwords or ACL keep it out."""
    _client(state_dir, config).kick(client_id, forget=forget)
    done = "closed if it was connected, and its session is forgotten" if forget else "closed"
    typer.echo(f"{_shown(client_id)}: {done}")


def _client(state_dir: Path | None, config: Path | None) -> "AdminClient":
    """Find the broker: by its own directory, the cloud's, or the settings'; the default if none."""
    from cloud.broker.operations.admin_client import find
    from cloud.config import Config, load

    if state_dir is not None and config is not None:
        raise typer.BadParameter("--state-dir and --config both name the broker: give one")
    if config is not None:
        settings = load(config, {})
        return find([settings.broker.state_dir or settings.state_dir / "broker"])
    default = Config.model_fields["state_dir"].default
    folder = state_dir if state_dir is not None else Path(default)
    return find([folder, folder / "broker"])


def _overview(found: "Status") -> "Table":
    from rich.table import Table

    counts, limits = found.counts, found.limits
    table = Table(title="Broker", show_header=False, title_justify="left")
    table.add_row("version", found.version)
    table.add_row("up for", _duration(found.uptime_s))
    table.add_row(
        "connections",
        f"{found.connections:,} of {limits['connections_max']:,.0f} "
        f"(most so far {counts.connections_max_seen:,})",
    )
    table.add_row(
        "sessions", f"{found.sessions_connected:,} connected, {found.sessions_offline:,} offline"
    )
    table.add_row("subscriptions", f"{found.subscriptions:,}")
    table.add_row(
        "queued",
        f"{found.queued_messages:,} messages; {_bytes(found.queued_bytes)} of "
        f"{_bytes(limits['queued_bytes_max_total'])} held",
    )
    table.add_row("in flight", f"{found.inflight_messages:,} messages")
    table.add_row(
        "retained", f"{found.retained_messages:,} messages, {_bytes(found.retained_bytes)}"
    )
    for way, packets, publishes, size in (
        ("received", counts.messages_received, counts.publishes_received, counts.bytes_received),
        ("sent", counts.messages_sent, counts.publishes_sent, counts.bytes_sent),
    ):
        table.add_row(way, f"{packets:,} packets, {publishes:,} messages, {_bytes(size)}")
    table.add_row("store", _store(found))
    return table


def _store(found: "Status") -> str:
    store = found.store
    if store is None:
        return "none: everything is in memory"
    took = f", the last in {store.last_commit_ms:.1f} ms" if store.last_commit_ms else ""
    state = "FAILING: acknowledgements wait; see the log. " if store.is_failing else ""
    return f"{state}{store.commits:,} commits of {store.rows:,} rows{took}"


def _reasons(found: "Status") -> "Table":
    from rich.table import Table

    counts = found.counts
    table = Table("what", "reason", "count", title="Dropped, refused, closed", title_justify="left")
    for what, reasons in (
        ("message dropped", found.dropped), ("connect refused", counts.connects_refused),
        ("publish refused", counts.publishes_refused),
        ("subscribe refused", counts.subscribes_refused), ("connection closed", counts.closed),
    ):  # fmt: skip
        for reason, count in sorted(reasons.items()):
            if count:
                table.add_row(what, reason.lower(), f"{count:,}")
    return table


def _rows(found: "tuple[SessionStatus, ...]") -> "Table":
    """One line each; columns that would be empty are left out."""
    from rich.table import Table

    columns: dict[str, list[str]] = {
        "client id": [_shown(one.client_id) for one in found],
        "user": [_shown(one.username or "") for one in found],
        "from": [one.address or "" for one in found],
        "state": [_state(one) for one in found],
        "filters": [f"{one.subscriptions:,}" for one in found],
        "waiting": [_waiting(one) for one in found],
        "dropped": [
            ", ".join(f"{why} {count:,}" for why, count in sorted(one.dropped.items()))
            for one in found
        ],
    }
    table = Table(title="Sessions", title_justify="left")
    shown = {name: cells for name, cells in columns.items() if any(cells)}
    for name in shown:
        table.add_column(name, overflow="fold")
    for cells in zip(*shown.values(), strict=True):
        table.add_row(*cells)
    return table


def _state(one: "SessionStatus") -> str:
    if one.connected_s is not None:
        return f"up {_duration(one.connected_s)}"
    if one.ends_in_s is not None:
        return f"offline, ends in {_duration(one.ends_in_s)}"
    return "offline"


def _waiting(one: "SessionStatus") -> str:
    """What is held for it, sent or not."""
    if not one.queued_messages and not one.inflight_messages:
        return ""
    count = f"{one.queued_messages:,} queued, {one.inflight_messages:,} in flight"
    return f"{count}, {_bytes(one.queued_bytes)}"


def _print(*tables: "Table") -> None:
    from rich.console import Console

    console = Console(markup=False, highlight=False)  # client ids are not ours
    for table in tables:
        if table.row_count:
            console.print(table)
    if not any(table.row_count for table in tables):
        typer.echo("None.")


def _print_json(found: object) -> None:
    from pydantic import TypeAdapter

    typer.echo(TypeAdapter(type(found)).dump_json(found, indent=2).decode())


def _shown(text: str) -> str:
    """A client's text without what could steer a terminal."""
    return text if text.isprintable() else repr(text)


def _bytes(size: float) -> str:
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size < 1024 or unit == "GiB":
            break
        size /= 1024
    return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"


def _duration(seconds: float) -> str:
    whole = int(seconds)
    for unit, length in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if whole >= 2 * length:
            return f"{whole // length} {unit}"
    return f"{whole} s"
