"""`hybridge device list|get|logs|events`: what the fleet knows of its devices."""

from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.device_arguments import (
    DeviceName,
    labels_text,
    running_text,
    state_text,
    wanted_text,
)
from cloud.cli.fleet_log import After, Follow, Limit, print_events
from cloud.cli.fleet_session import Fleet, KeyFile, ask
from cloud.cli.output import Format, Output, facts, grid, moment, say, show, size
from cloud.cli.registry_session import Code

if TYPE_CHECKING:
    from rich.console import Console

    from cloud.fleet.documents import Device


def list_devices(
    *,
    selector: Annotated[
        str, typer.Option("--selector", "-l", help="As 'site=lyon,hw in (jetson,pi5),!spare'.")
    ] = "",
    limit: Annotated[
        int | None, typer.Option(min=1, max=1_000_000, help="So many at most. Default: all.")
    ] = None,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """List the devices, or those that a selector takes.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.devices(selector, limit))
    rows = (
        (
            one.id, state_text(one), one.group, labels_text(one.labels), running_text(one),
            wanted_text(one), moment(one.presence.last_seen),
        )
        for one in found
    )  # fmt: skip
    columns = ("device", "state", "group", "labels", "runs", "should run", "seen")
    show(found, output, lambda out: grid(out, "Devices", columns, rows))


def get(
    name: DeviceName, *, fleet: Fleet = None, key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show a device: what it is, what it runs, what it should run, its certificates.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached.
    """
    found = ask(fleet, key_file, lambda asked: asked.device(name), device=name)
    show(found, output, lambda out: _device(out, found))


def logs(
    name: DeviceName,
    *,
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=200, help="The newest.")] = 100,
    fleet: Fleet = None,
    key_file: KeyFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Ask a device for the newest lines of its log, and print them as it wrote them.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, or the device is away.
    """
    found = ask(fleet, key_file, lambda asked: asked.logs(name, lines), device=name)

    def text(out: "Console") -> None:
        from cloud.registry.client.answers import plain

        for line in found.lines:
            out.print(plain(line), soft_wrap=True)

    show(found, output, text)
    if found.why:
        say(f"{name}: {found.why}")
        if not found.lines:
            raise typer.Exit(Code.REFUSED)


def events(
    name: DeviceName, *, after: After = 0, limit: Limit = None, follow: Follow = False,
    fleet: Fleet = None, key_file: KeyFile = None, output: Output = Format.TABLE,
) -> None:  # fmt: skip
    """Show what happened to a device, the oldest first. With -o json, one event a line.

    Exit codes: 0 done, 1 refused, 2 wrong usage, 3 the fleet cannot be reached, 130 stopped.
    """
    print_events(
        fleet, key_file, output, after=after, limit=limit, follow=follow, device=name
    )  # fmt: skip


def _device(out: "Console", device: "Device") -> None:
    presence, inventory, quarantine = device.presence, device.inventory, device.quarantine
    rows: list[tuple[str, object]] = [
        ("state", state_text(device)),
        ("since", moment(presence.since) or None),
        ("seen", moment(presence.last_seen) or None),
        ("group", device.group),
        ("labels", labels_text(device.labels) or "none"),
        ("enrolled", moment(device.enrolled_at) or "no: it came by itself"),
        ("revoked", moment(device.revoked_at) or None),
    ]
    if quarantine is not None:
        until = moment(quarantine.until) or "somebody ends it"
        rows.append(
            ("quarantine", f"since {moment(quarantine.since)} until {until}: {quarantine.why}")
        )
    rows += [*_sections(device)]
    if inventory is not None:
        engines = ", ".join(f"{name} {version}" for name, version in inventory.engines.items())
        rows += [
            ("agent", inventory.agent), ("system", f"{inventory.system}, {inventory.arch}"),
            ("hardware", f"{inventory.cpu}, {inventory.cores} cores"),
            ("memory", size(inventory.memory_bytes)), ("disk", size(inventory.disk_bytes)),
            ("engines", engines or "none"), ("time zone", inventory.time_zone),
        ]  # fmt: skip
    rows.append(("revision", device.revision))
    facts(out, device.id, rows)
    if device.certificates:
        grid(
            out, "Certificates", ("serial", "from", "to", "revoked", "why"),
            (
                (one.serial, moment(one.not_before), moment(one.not_after), moment(one.revoked_at),
                 one.why_revoked)
                for one in device.certificates
            ),
        )  # fmt: skip


def _sections(device: "Device") -> list[tuple[str, object]]:
    """What it runs, and what it should."""
    model, profile = device.model, device.profile
    rows: list[tuple[str, object]] = []
    if model is not None:
        variant = f" ({model.variant})" if model.variant else ""
        rows.append(("runs", f"{model.model} {model.version}{variant}, {model.phase}"))
        rows.append(("why", model.why or None))
    if (wanted := device.desired_model) is not None:
        by = f", by {wanted.rollout}" if wanted.rollout else ", as its group has"
        which = f"{wanted.model} {wanted.version}, {wanted.stage}{by}"
        rows.append(("should run", f"{which}, generation {wanted.generation}"))
    if profile is not None and profile.name is not None:
        state = "applied" if profile.applied else f"refused: {profile.why}"
        rows.append(("profile", f"{profile.name} {profile.version}, {state}"))
    if (wanted_profile := device.desired_profile) is not None:
        rows.append(("should have profile", f"{wanted_profile.name} {wanted_profile.version}"))
    return rows
