"""What `hybridge capacity size` prints."""

from rich.console import Console
from rich.table import Table

from cloud.capacity.sizing import Fleet, Memory


def print_size(
    one: Memory, fleet: Fleet, how: str, *, qps: float, qps_at_sla: float, load_max: float
) -> None:
    """`how`: where the activations are from."""
    console = Console(markup=False, highlight=False)
    table = Table("memory of one copy", "MiB", title_justify="left")
    table.columns[1].justify = "right"
    rows = (
        ("weights", one.weights), (f"activations ({how})", one.activations),
        ("KV cache", one.kv_cache), ("reserve", one.reserve), ("total", one.total),
    )  # fmt: skip
    for name, size in rows:
        table.add_row(name, f"{size / 2**20:,.1f}")
    console.print(table)
    needed = fleet.copies - fleet.spare
    each = f"{fleet.devices_a_copy} device(s)"
    console.print(
        f"{qps:g}/s at {load_max:.0%} of {qps_at_sla:g}/s each: {needed} copies and {fleet.spare} "
        f"spare, {each} for each: {fleet.devices} devices"
    )
    if fleet.copies_that_fit > 1:
        console.print(
            f"By memory {fleet.copies_that_fit:,} copies fit on one device: room for more models, not "
            "for more requests of this one"
        )
