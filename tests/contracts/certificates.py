"""A private CA, and who it vouches for, by openssl."""

import shutil
import ssl
import subprocess
from pathlib import Path

_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


def make_certificates(at: Path, *names: str) -> None:
    """Write `ca.pem`, and a `<name>.pem` and `<name>.key` for each common name."""
    _openssl("req", "-x509", *_KEY, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2",
             "-subj", "/CN=ca", at=at)  # fmt: skip
    (at / "names").write_text("subjectAltName=IP:127.0.0.1")
    for name in names:
        _openssl("req", *_KEY, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj",
                 f"/CN={name}", at=at)  # fmt: skip
        _openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                 "-CAcreateserial", "-days", "2", "-extfile", "names", "-out", f"{name}.pem",
                 at=at)  # fmt: skip


def client_context(at: Path, name: str | None = None) -> ssl.SSLContext:
    """Trust the CA, and show the certificate of that name."""
    context = ssl.create_default_context(cafile=at / "ca.pem")
    if name is not None:
        context.load_cert_chain(at / f"{name}.pem", at / f"{name}.key")
    return context


def _openssl(*arguments: str, at: Path) -> None:
    program = shutil.which("openssl")
    assert program is not None, "these tests need openssl: apt-get install openssl"
    subprocess.run([program, *arguments], cwd=at, check=True, capture_output=True)
