"""Topic rules from a file in the syntax of Mosquitto's `acl_file` (mosquitto.conf(5)). Pure.

    topic [read|write|readwrite|deny] <filter>      for anonymous clients, until the first `user`
    user <name>                                     the `topic` lines that follow are this user's
    pattern [read|write|readwrite|deny] <filter>    for everybody; %u is the user name, %c the
                                                    client id, each alone in its level

No access word means readwrite; a filter with spaces needs one. A `#` in the first column makes the
line a comment. What no line allows is denied.

One file serves both brokers, yet where Mosquitto 2.0 is lenient this broker is not:

- Mosquitto grants every SUBSCRIBE and looks at each message on its way out. Here a filter that asks
  for more than one line allows is refused with 0x87; within one that is granted, what is denied is
  kept back. Subscribe to what you may read; a line that is to allow `a/b` and `a/c` together must
  say `a/+` or `a/#`.
- `deny` wins, always. In Mosquitto a `pattern deny` loses to a `topic` line that allows.
- A name with `+`, `#` or `/` in it, or a `$` before it, never satisfies a pattern that asks for it
  (Mosquitto refused that after CVE-2017-7650, and since 2.0 lets `/` through). A `pattern deny`
  that asks for such a name denies that client everything, as it cannot say what it denies.
- Nobody writes to `$SYS`. A line may say so, for Mosquitto's bridges; it changes nothing here.
- Lines that Mosquitto takes and that cannot mean what they say are refused: `%u` in a `topic` line,
  `%u` or `%c` as a part of a level, `$share/...` filters, `topic read` without a filter.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum
from typing import Final, Self

from cloud.broker.access.identity import Identity
from cloud.broker.access.rules import NOTHING, OPEN, Rules
from cloud.broker.codec.topics import is_filter
from shared.errors import Malformed

_USER: Final = "%u"
_CLIENT: Final = "%c"


class Access(Enum):
    """What a line gives; the words of the file."""

    READ = "read"
    WRITE = "write"
    READWRITE = "readwrite"
    DENY = "deny"


_WORDS: Final = frozenset(access.value for access in Access)


@dataclass(frozen=True, slots=True)
class Line:
    """A `topic` or `pattern` line."""

    access: Access
    topic_filter: str


@dataclass(frozen=True, slots=True)
class Acl:
    """A whole file."""

    topics: dict[str | None, tuple[Line, ...]]
    """By user name; None for anonymous clients."""
    patterns: tuple[Line, ...]

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Read a file's text; `where` is its name, for messages.

        Raises:
            Malformed: names file, line and what to do about it.

        """
        topics: dict[str | None, list[Line]] = {}
        patterns: list[Line] = []
        user: str | None = None
        for number, raw in enumerate(text.split("\n"), 1):
            line = raw.strip(" \r")
            if not line or raw.startswith("#"):
                continue
            at = f"{where}, line {number}"
            if not line.isprintable():
                raise Malformed(f"{at}: {line!r} holds a tab or control character; use spaces")
            keyword, _, rest = line.partition(" ")
            rest = rest.strip()
            if keyword == "user":
                if not rest:
                    raise Malformed(f"{at}: 'user' names nobody; write 'user <name>'")
                user = rest
            elif keyword == "topic":
                topics.setdefault(user, []).append(_topic(rest, at))
            elif keyword == "pattern":
                patterns.append(_pattern(rest, at))
            elif keyword.startswith("#"):
                raise Malformed(f"{at}: a comment begins in the first column; move the # there")
            else:
                raise Malformed(f"{at}: {keyword!r} is none of 'user', 'topic', 'pattern'")
        return cls({user: tuple(lines) for user, lines in topics.items()}, tuple(patterns))

    def rules(self, identity: Identity) -> Rules:
        """Put together what one client may do."""
        if identity.is_owner:
            return OPEN
        lines = list(self.topics.get(identity.username, ()))
        for line in self.patterns:
            levels = line.topic_filter.split("/")
            if _USER in levels and identity.username is None:
                continue  # it speaks of users only
            names = {_USER: identity.username or "", _CLIENT: identity.client_id}
            if all(_is_plain(name) for mark, name in names.items() if mark in levels):
                filled = "/".join(names.get(level, level) for level in levels)
                lines.append(Line(line.access, filled))
            elif line.access is Access.DENY:
                return NOTHING
        return Rules(
            _filters(lines, (Access.READ, Access.READWRITE)),
            _filters(lines, (Access.WRITE, Access.READWRITE)),
            _filters(lines, (Access.DENY,)),
        )


def _filters(lines: Iterable[Line], accesses: tuple[Access, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(line.topic_filter for line in lines if line.access in accesses))


def _is_plain(name: str) -> bool:
    """Say whether a name, put into a filter, stays one level of it and that level alone.

    CVE-2017-7650: a client called `#` could read what a pattern kept for one of that name. A `$`
    in the first level would turn the filter towards `$SYS` (4.7.2).
    """
    return bool(name) and name[0] != "$" and not any(mark in name for mark in "+#/")


def _topic(rest: str, at: str) -> Line:
    line = _line("topic", rest, at)
    if _USER in line.topic_filter or _CLIENT in line.topic_filter:
        raise Malformed(
            f"{at}: %u and %c are for 'pattern' lines; in a 'topic' line, name the user"
        )
    return line


def _pattern(rest: str, at: str) -> Line:
    line = _line("pattern", rest, at)
    for level in line.topic_filter.split("/"):
        for mark in (_USER, _CLIENT):
            if mark in level and level != mark:
                raise Malformed(f"{at}: {mark} must be all of its level, which is {level!r}")
    return line


def _line(keyword: str, rest: str, at: str) -> Line:
    word, space, more = rest.partition(" ")
    usage = f"write '{keyword} [read|write|readwrite|deny] <filter>'"
    if not rest:
        raise Malformed(f"{at}: a filter is missing; {usage}")
    if not space:
        if word in _WORDS:
            raise Malformed(
                f"{at}: {word!r} needs a filter; {usage} ('{keyword} readwrite {word}' if it is one)"
            )
        access, topic_filter = Access.READWRITE, word
    elif word in _WORDS:
        access, topic_filter = Access(word), more.strip()
    else:
        raise Malformed(f"{at}: {word!r} is no access word; {usage}")
    if topic_filter.startswith("$share/"):
        raise Malformed(f"{at}: leave '$share/<group>/' off; rules are about the filter after it")
    if not is_filter(topic_filter):
        raise Malformed(
            f"{at}: {topic_filter!r} is no topic filter: + stands alone in its level, # at the end"
        )
    return Line(access, topic_filter)
