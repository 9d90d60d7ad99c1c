import dataclasses

from cloud.rollouts.documents import Phase
from cloud.rollouts.member import Member
from cloud.rollouts.meter import Meter, packed


def test_a_device_s_record_holds_everything_but_the_heap_s_own():
    """Every field has a value of its own here, so that one that is left out shows."""
    meter = Meter(
        boot="0" * 16, sequence=1, started=2, version="v", counts=(1, 2, 3, 4, 5), at=6.5,
        latency=packed([7, 70_000]), confidence=packed([8]), boots=("1" * 16,),
        history=(9, 8, 7, 6, 5), since=(5, 4, 3, 2, 1), cohort=(6, 5, 4, 3, 2), per_s=10.5,
        old_latency=packed([11]), old_confidence=packed([12, 2**40]), shadow=[13, 14],
        shadow_at=15.5, straddles=True, distrusted=True, shadow_counted=(16, 17),
    )  # fmt: skip
    member = Member(
        device="d", place=1, cut=2, stage=3, before="b", before_sha256="c", zone="z",
        phase=Phase.SILENT, attempt=4, since=5.5, why="w", ordered="live", taken_at=6.5,
        opens_at=7.5, heard_at=8.5, online=False, removed=True, runs_new=True, sequence=9,
        reported_at=13.5, golden=True, silences=10, relapses=2, samples=11, failures=12, meter=meter,
    )  # fmt: skip
    for made in (member, meter):
        left = [
            one.name
            for one in dataclasses.fields(made)
            if one.default is not dataclasses.MISSING and getattr(made, one.name) == one.default
        ]
        assert left in ([], ["listed_at"])
    assert Member.from_record(member.to_record()) == member
    bare = dataclasses.replace(member, meter=None)
    assert Member.from_record(bare.to_record()) == bare
