"""`hybridge capacity measure|size|autoscale`: what a worker can do, and how many are needed."""

import json as json_format
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cloud.cli.api_key import KeyFile, read_key

if TYPE_CHECKING:
    from cloud.capacity.load.order import Messages
    from cloud.capacity.manifests import Ending
    from cloud.capacity.measured import Measured
    from cloud.capacity.message import Face
    from cloud.capacity.search import Search, Trial

capacity = typer.Typer(
    no_args_is_help=True, help="Measure a worker, size a fleet, write autoscaling manifests."
)
AsJson = Annotated[bool, typer.Option("--json", help="For programs.")]
From = Annotated[
    Path | None, typer.Option("--from", metavar="FILE", help="What `capacity measure` wrote.")
]


@capacity.command()
def measure(
    url: Annotated[str, typer.Option(help="A worker's API.")] = "http://127.0.0.1:8700",
    *,
    model: Annotated[str, typer.Option(help="Its name there.")],
    sla_ms: Annotated[float, typer.Option(min=0.1, max=60_000, help="p99 to keep.")] = 50.0,
    seconds: Annotated[float, typer.Option(min=0.2, max=600, help="Of each trial.")] = 5.0,
    rows: Annotated[int, typer.Option(min=1, max=1024, help="Of each request.")] = 1,
    start_qps: Annotated[float, typer.Option(min=1, help="Rate of the first trial.")] = 100.0,
    qps_max: Annotated[float, typer.Option(min=1, help="Look no higher.")] = 200_000.0,
    connections: Annotated[int, typer.Option(min=1, max=4096, help="All together.")] = 256,
    generators: Annotated[int, typer.Option(min=1, max=64, help="Processes that load.")] = 1,
    sample: Annotated[
        Path | None,
        typer.Option("--input", metavar="FILE.npy", help="Rows to send. Default: random ones."),
    ] = None,
    out: Annotated[Path, typer.Option(help="The result, for size and autoscale.")] = Path(
        "measured.json"
    ),
    key_file: KeyFile = None,
    json: AsJson = False,
) -> None:
    """Find the most requests a second at all, and within the SLA (p99, under 0.1% refused).

    An open loop: requests come when they are due, whatever the server does, and their time counts
    from then. Run it on another machine, or on cores of its own (taskset); it takes a minute or two.
    """
    from urllib.parse import quote

    from cloud.capacity.asking import get
    from cloud.capacity.load.generator import address
    from cloud.capacity.measure import Measuring
    from cloud.capacity.measure import measure as run
    from cloud.capacity.measured import write_measured
    from cloud.capacity.message import read_face
    from cloud.capacity.search import Rules
    from shared.errors import Unknown

    address(url)
    key = read_key(key_file)
    try:
        face = read_face(get(url, f"/v2/models/{quote(model, safe='')}", key))
    except Unknown as error:
        raise Unknown(f"{url} serves no model {model[:100]!r}; `/v1/status` lists them") from error
    messages = _messages(face, rows, url, key, sample)
    rules = Rules(sla_ms, start_qps=min(start_qps, qps_max), qps_max=qps_max)
    asked = Measuring(url, rows, seconds, connections, generators)
    found = run(asked, face, messages, rules, _say_json if json else _say)
    write_measured(out, found)
    if json:
        typer.echo(found.model_dump_json())
    else:
        _print_measured(found, out)


def _messages(
    face: "Face", rows: int, url: str, key: str | None, sample: Path | None
) -> "Messages":
    import numpy as np

    from cloud.capacity.load.generator import address
    from cloud.capacity.message import Head, random_messages, recorded_messages
    from shared.api_key import key_header
    from shared.errors import Malformed

    host, port = address(url)
    head = Head(f"{host}:{port}", key_header(key))
    if sample is None:
        return random_messages(face, rows, head, np.random.default_rng(1))
    try:
        recorded = np.load(sample, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise Malformed(f"{sample}: no .npy file that can be read: {error}") from error
    if not isinstance(recorded, np.ndarray) or recorded.ndim == 0:
        raise Malformed(f"{sample}: want one array of rows, as np.save writes it")
    return recorded_messages(face, rows, head, recorded)


def _say(search: "Search", trial: "Trial") -> None:
    what = "" if search.stage == "sla" else "  (looking for the maximum)"
    refused = f"{trial.refused_share:.2%} refused" if trial.refused_share else "none refused"
    typer.echo(
        f"  {search.rate:>9,.0f}/s asked: {trial.answered_qps:>9,.0f}/s answered, "
        f"p50 {trial.p50_ms:>7.2f} ms, p99 {trial.p99_ms:>7.2f} ms, {refused}{what}"
    )


def _say_json(search: "Search", trial: "Trial") -> None:
    from dataclasses import asdict

    said = {"event": "trial", "stage": search.stage, **asdict(trial)}
    typer.echo(json_format.dumps(said))


def _print_measured(found: "Measured", out: Path) -> None:
    typer.echo(
        f"{found.model} {found.model_version}, {found.rows} row(s) a request: "
        f"{found.qps_at_sla:,.0f}/s with p99 within {found.sla_ms:g} ms, "
        f"{found.qps_max:,.0f}/s at most; {out} holds it"
    )
    if found.held_back_by_generator:
        typer.echo(
            "the load generator itself was late where the server seemed to fail: give it cores of "
            "its own, another machine or --generators"
        )


@capacity.command()
def size(
    *,
    device_memory: Annotated[str, typer.Option(metavar="24GiB", help="Of one device.")],
    qps: Annotated[float, typer.Option(min=0.001, help="Requests a second to answer.")],
    qps_at_sla: Annotated[
        float | None, typer.Option(min=0.001, help="What one copy answers. Or give --from.")
    ] = None,
    measured: From = None,
    bundle: Annotated[
        Path | None, typer.Option(help="Its folder or .hyb file: it is loaded and measured.")
    ] = None,
    parameters: Annotated[
        str | None, typer.Option(metavar="7G", help="Of the model, where there is no bundle.")
    ] = None,
    precision: Annotated[
        str, typer.Option(help="Of its weights: fp32, fp16, bf16, int8, int4.")
    ] = "fp16",
    activation_mb: Annotated[
        float | None, typer.Option(min=0, max=1e9, help="MiB of the largest batch.")
    ] = None,
    batch: Annotated[
        int, typer.Option(min=1, max=4096, help="Rows of the largest, for a bundle.")
    ] = 16,
    kv: Annotated[
        str | None,
        typer.Option(metavar="L,H,S,T,N", help="layers,kv-heads,head-size,tokens,sequences."),
    ] = None,
    kv_precision: Annotated[str, typer.Option(help="Of the KV cache.")] = "fp16",
    reserve: Annotated[float, typer.Option(min=0, max=0.95, help="Share kept free.")] = 0.3,
    load_max: Annotated[float, typer.Option(min=0.01, max=1, help="Of the QPS at the SLA.")] = 0.75,
    spare: Annotated[int, typer.Option(min=0, max=1000, help="Copies that may fail.")] = 1,
    json: AsJson = False,
) -> None:
    """Memory of a model and the devices that a rate needs."""
    from cloud.capacity import sizing
    from cloud.capacity.bundle_memory import bundle_memory

    if (bundle is None) == (parameters is None):
        raise typer.BadParameter("give --bundle or --parameters, one of them")
    activations = None if activation_mb is None else int(activation_mb * 2**20)
    how = "as given"
    if bundle is not None:
        found = bundle_memory(bundle, batch)
        weights, how = found.weights, found.how
        activations = found.activations if activations is None else activations
    else:
        count = sizing.parse_count(parameters or "")
        weights = sizing.weights_bytes(count, sizing.precision_named(precision))
    cache = None if kv is None else sizing.parse_kv(kv, sizing.precision_named(kv_precision))
    one = sizing.memory(weights, activations=activations or 0, kv_cache=cache, reserve=reserve)
    rate = _qps_at_sla(qps_at_sla, measured)
    fleet = sizing.fleet(
        one, sizing.parse_bytes(device_memory), qps=qps, qps_at_sla=rate, load_max=load_max,
        spare=spare,
    )  # fmt: skip
    if json:
        from dataclasses import asdict

        memory = {**asdict(one), "total": one.total, "activations_how": how}
        typer.echo(json_format.dumps({"memory_bytes": memory, "fleet": asdict(fleet)}, indent=2))
        return
    from cloud.capacity.size_table import print_size

    print_size(one, fleet, how, qps=qps, qps_at_sla=rate, load_max=load_max)


def _qps_at_sla(given: float | None, measured: Path | None) -> float:
    from cloud.capacity.measured import read_measured
    from shared.errors import Malformed

    if (given is None) == (measured is None):
        raise typer.BadParameter("give --qps-at-sla or --from, one of them")
    if given is not None:
        return given
    assert measured is not None
    rate = read_measured(measured).qps_at_sla
    if not rate:
        raise Malformed(f"{measured}: no rate kept the SLA; measure with a longer --sla-ms")
    return rate


@capacity.command()
def autoscale(
    *,
    measured: Annotated[
        Path, typer.Option("--from", metavar="FILE", help="What `capacity measure` wrote.")
    ],
    kind: Annotated[str, typer.Option(help="hpa or keda.")] = "hpa",
    name: Annotated[str, typer.Option(help="Of the Deployment and its scaler.")] = "hybridge-cloud",
    namespace: Annotated[str, typer.Option()] = "default",
    image: Annotated[str | None, typer.Option(help="Default: hybridge:VERSION.")] = None,
    prometheus: Annotated[str, typer.Option(metavar="URL", help="For KEDA.")] = (
        "http://prometheus-server.monitoring.svc"
    ),
    config: Annotated[
        Path | None, typer.Option(help="The worker's TOML file, for notice_s and drain_s.")
    ] = None,
    workers_min: Annotated[int, typer.Option(min=1, max=10_000)] = 2,
    workers_max: Annotated[int, typer.Option(min=1, max=10_000)] = 20,
    load_max: Annotated[float, typer.Option(min=0.01, max=1, help="Of the QPS at the SLA.")] = 0.75,
    cooldown_s: Annotated[
        float, typer.Option(min=0, max=3600, help="Fewer must have sufficed for so long.")
    ] = 300.0,
    step_s: Annotated[
        float, typer.Option(min=1, max=1800, help="From one that goes to the next.")
    ] = 60.0,
) -> None:
    """Write Kubernetes manifests that scale on the measured QPS at the SLA."""
    from pydantic import ValidationError

    from cloud.capacity.autoscaling import Scaling
    from cloud.capacity.manifests import Names, manifests
    from shared import __version__
    from shared.config import in_words
    from shared.errors import Malformed

    if kind not in ("hpa", "keda"):
        raise typer.BadParameter("--kind is hpa or keda")
    try:
        scaling = Scaling(
            qps_at_sla=_qps_at_sla(None, measured), load_max=load_max, workers_min=workers_min,
            workers_max=workers_max, cooldown_s=cooldown_s, step_s=step_s,
        )  # fmt: skip
    except ValidationError as error:
        raise Malformed(in_words(error)) from error
    names = Names(name, namespace, image or f"hybridge:{__version__}", prometheus)
    typer.echo(
        manifests("hpa" if kind == "hpa" else "keda", names, scaling, _ending(config)), nl=False
    )


def _ending(config: Path | None) -> "Ending":
    from cloud.capacity.manifests import Ending
    from cloud.config import Config
    from shared.config import read_toml
    from shared.errors import Malformed

    tree = {} if config is None else read_toml(config)
    seconds = []
    for name in ("notice_s", "drain_s"):
        value = tree.get(name, Config.model_fields[name].default)
        if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 3600:
            raise Malformed(f"{config}: {name} is {str(value)[:40]!r}; want seconds, 0 to 3600")
        seconds.append(float(value))
    return Ending(*seconds)
