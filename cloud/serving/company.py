"""Whether a batch that could leave now should wait for company, and for how much. Pure.

A server that takes what is there when it is idle makes its batches bigger by itself as load grows,
and waits for nobody when there is none. Waiting pays only where a batch costs almost the same
whatever its size: whoever arrives just after it left waits for all of it (Clipper, NSDI 2017,
4.3.2, calls it delayed batching; Nexus, SOSP 2019, and Clockwork, OSDI 2020, never wait).

The rule is our own. Let r rows be here, and p - r more be expected within t = (p - r) / rate. Both
plans answer the same p rows; the sums of the times at which they are answered are

    leave now:  r * c(r)  +  (p - r) * (c(r) + c(p - r))
    wait:       p * (t + c(p))

if t < c(r). Wait for the p with the greatest gain a row, if any gains. A gain implies t < c(r) (who
comes later finds the model idle again) and more rows a second at p than at r: a linear c, where a
batch has no cost of its own, never waits.
"""

from collections.abc import Sequence


def company(
    rows: int, targets: Sequence[int], rate: float, cost_s: Sequence[float], wait_s_max: float
) -> tuple[int, float]:
    """The size worth waiting for and the seconds until it is expected; (rows, 0.0): leave now.

    `targets`: sizes that may be waited for; `rate`: rows a second; `cost_s[n]`: seconds for n rows.
    """
    best, wait_s, best_gain_s = rows, 0.0, 0.0
    if rate <= 0:
        return best, wait_s
    for size in targets:
        more = size - rows
        comes_s = more / rate
        if more <= 0 or comes_s > wait_s_max:
            continue
        now_s = rows * cost_s[rows] + more * (cost_s[rows] + cost_s[more])
        gain_s = now_s / size - (comes_s + cost_s[size])
        if gain_s > best_gain_s:
            best, wait_s, best_gain_s = size, comes_s, gain_s
    return best, wait_s
