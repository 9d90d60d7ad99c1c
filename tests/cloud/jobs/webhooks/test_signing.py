"""Signatures as Standard Webhooks has them, by its own published example."""

import base64

from pydantic import SecretStr

from cloud.jobs.settings import key_of
from cloud.jobs.webhooks.signing import signed_headers


def test_the_specifications_example() -> None:
    # the reference libraries' own test vector
    key = key_of(SecretStr("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"), "a")
    headers = signed_headers(
        "msg_p5jXN8AQM9LWM0D4loKWxJek", 1_614_265_330, b'{"test": 2432232314}', [key]
    )
    assert headers == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }


def test_each_key_signs() -> None:
    one, two = b"a" * 24, b"b" * 24
    alone = [signed_headers("m", 1, b"x", [key])["webhook-signature"] for key in (one, two)]
    assert signed_headers("m", 1, b"x", [one, two])["webhook-signature"] == " ".join(alone)
    assert alone[0] != alone[1]
    assert len(base64.b64decode(alone[0].removeprefix("v1,"))) == 32
