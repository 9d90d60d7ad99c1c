from cloud.registry.evaluation.hardware import described, this_hardware

MACHINE = {
    "cpu": "A 1", "flags": "avx avx2", "cores": 4, "memory_bytes": 8 * 2**30,
    "system": "Linux 6.1 x86_64", "engines": {"onnxruntime": "1.20"},
}  # fmt: skip


def fingerprint(**other) -> str:
    return described(**(MACHINE | other)).fingerprint


def test_this_machine_is_described_and_the_same_twice():
    found = this_hardware()
    assert found == this_hardware()
    assert found.cores >= 1
    assert "onnxruntime" in found.engines


def test_whatever_moves_figures_changes_the_fingerprint():
    others = [
        {"cpu": "A 2"}, {"flags": "avx"}, {"cores": 2}, {"memory_bytes": 4 * 2**30},
        {"engines": {"onnxruntime": "1.21"}}, {"engines": {}},
        {"gpus": ("NVIDIA H200",)},
    ]  # fmt: skip
    assert len({fingerprint(), *(fingerprint(**other) for other in others)}) == 8


def test_what_does_not_move_figures_does_not():
    assert fingerprint(memory_bytes=8 * 2**30 - 5 * 2**20) == fingerprint()
    assert fingerprint(system="Linux 6.2 x86_64") == fingerprint()
