"""What the kernel lets this process have."""

import resource


def bound(kind: int, limit: int) -> int:
    """Set `resource.RLIMIT_...` for good, at `limit` or at what it is already bound to, whichever is
    less (nobody may raise that again: a service manager, a container). What it is now.
    """
    _, hard = resource.getrlimit(kind)
    least = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(kind, (least, least))
    return least
