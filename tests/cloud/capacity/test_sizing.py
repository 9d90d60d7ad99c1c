import pytest

from cloud.capacity.sizing import (
    KvCache,
    Memory,
    fleet,
    memory,
    parse_bytes,
    parse_count,
    parse_kv,
    precision_named,
    weights_bytes,
)
from shared.errors import Malformed, TooLarge

GIB = 2**30


def test_a_seven_billion_model_as_int8_with_its_cache() -> None:
    """By hand: Llama 2 7B, 32 layers of 32 heads of 128; 0.5 MiB a token in fp16."""
    cache = KvCache(32, 32, 128, 4096, 16)
    one = memory(weights_bytes(7_000_000_000, "int8"), activations=512 * 2**20, kv_cache=cache)
    assert cache.bytes == 4096 * 16 * 2**19
    assert one.weights == 7_000_000_000
    assert one.total == pytest.approx((7e9 + 2**29 + 32 * GIB) / 0.7)
    assert one.reserve / one.total == pytest.approx(0.3)


@pytest.mark.parametrize(
    ("precision", "size"),
    [("fp32", 4004), ("fp16", 2002), ("bf16", 2002), ("int8", 1001), ("int4", 501)],
)
def test_weights_by_precision_rounded_up(precision: str, size: int) -> None:
    assert weights_bytes(1001, precision_named(precision)) == size


def test_copies_by_rate_and_one_to_spare() -> None:
    small = Memory(GIB, 0, 0, 0)
    found = fleet(small, 24 * GIB, qps=500, qps_at_sla=120)
    assert (found.copies, found.devices, found.devices_a_copy, found.copies_that_fit) == (
        7,
        7,
        1,
        24,
    )
    assert fleet(small, 24 * GIB, qps=480, qps_at_sla=120, load_max=1.0, spare=0).copies == 4


def test_a_model_over_one_device_takes_several_whole() -> None:
    found = fleet(Memory(30 * GIB, 0, 0, 1), 24 * GIB, qps=10, qps_at_sla=100)
    assert (found.copies, found.devices_a_copy, found.devices, found.copies_that_fit) == (
        2,
        2,
        4,
        0,
    )


def test_a_model_over_eight_devices_is_refused() -> None:
    with pytest.raises(TooLarge, match=r"193\.0 GiB, over 8 devices of 24\.0"):
        fleet(Memory(193 * GIB, 0, 0, 0), 24 * GIB, qps=1, qps_at_sla=1)


@pytest.mark.parametrize(
    "bad",
    [
        lambda: weights_bytes(0, "fp16"), lambda: weights_bytes(2**44, "fp16"),
        lambda: memory(0), lambda: memory(1, activations=-1), lambda: memory(1, reserve=1.0),
        lambda: KvCache(0, 1, 1, 1, 1), lambda: KvCache(1, 1, 1, 1, 2**41),
        lambda: fleet(Memory(1, 0, 0, 0), 0, qps=1, qps_at_sla=1),
        lambda: fleet(Memory(1, 0, 0, 0), 1, qps=0, qps_at_sla=1),
        lambda: fleet(Memory(1, 0, 0, 0), 1, qps=1, qps_at_sla=0),
        lambda: fleet(Memory(1, 0, 0, 0), 1, qps=1, qps_at_sla=1, load_max=1.1),
        lambda: fleet(Memory(1, 0, 0, 0), 1, qps=1, qps_at_sla=1, spare=-1),
        lambda: parse_bytes("24 Gigs"), lambda: parse_bytes("0"), lambda: parse_bytes("-1GiB"),
        lambda: parse_bytes("5I"), lambda: parse_bytes("9" * 99), lambda: parse_count("7e9"),
        lambda: parse_count(""), lambda: parse_kv("32,8,128,4096"), lambda: parse_kv("1,2,3,4,x"),
        lambda: parse_kv("1,2,3,4,²"), lambda: precision_named("fp8"),
    ],
)  # fmt: skip
def test_figures_that_mean_nothing_are_refused(bad) -> None:
    with pytest.raises(Malformed):
        bad()


@pytest.mark.parametrize(
    ("text", "size"),
    [("24GiB", 24 * GIB), ("80 GB", 80 * 10**9), ("1.5g", 15 * 10**8), ("4096", 4096), ("2KiB", 2048), ("7b", 7)],
)  # fmt: skip
def test_sizes_as_people_write_them(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_counts_and_caches_as_people_write_them() -> None:
    assert [parse_count(t) for t in ("207k", "7B", "1.5M", "12")] == [
        207_000,
        7 * 10**9,
        1_500_000,
        12,
    ]
    assert parse_kv(" 32, 8,128,4096,16", "int8") == KvCache(32, 8, 128, 4096, 16, "int8")
