"""Make .venv from the lock file, on a machine that has Python and nothing else.

    python3 tools/bootstrap.py

Steps: a virtual environment, uv inside it, then everything that uv.lock names. Debian splits
ensurepip from Python (package python3-venv); where it is missing, pip itself comes from the
package index. Obeys pip's own variables: PIP_INDEX_URL, PIP_CERT or REQUESTS_CA_BUNDLE.
Standard library only, and no syntax newer than Python 3.7, so that an old Python can say so.
"""

import base64
import hashlib
import html.parser
import importlib.util
import os
import re
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from pathlib import Path

if sys.version_info < (3, 11):  # noqa: UP036  (the whole point: this file runs before any check)
    sys.exit(
        "Tradewind needs Python 3.11 or newer and this is "
        + sys.version.split()[0]
        + ": name another one, as in `make PYTHON=python3.12 demo`."
    )

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYPI = "https://pypi.org/simple"
UV = "uv==0.13.9"  # wrote uv.lock; a newer one may want to write it anew
FETCH_TIMEOUT_S = 60
FETCH_TRIES = 3
# Where Debian, Fedora, Alpine and macOS keep the machine's certificates.
SYSTEM_CERTIFICATES = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/cert.pem",
)


class Failed(Exception):
    """Set-up cannot go on; the text says why and what to do."""


class Links(html.parser.HTMLParser):
    """Collect the files that a page of the simple index names (PEP 503)."""

    def __init__(self) -> None:
        super().__init__()
        self.hrefs: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep the target of an <a>, unless the file was withdrawn or wants a newer Python."""
        found = dict(attrs)
        href = found.get("href")
        least = re.search(r">=\s*3\.(\d+)", found.get("data-requires-python") or "")
        too_new = least is not None and int(least.group(1)) > sys.version_info.minor
        if tag == "a" and href and "data-yanked" not in found and not too_new:
            self.hrefs.append(href)


def index_url(env: dict[str, str]) -> str:
    """Return the package index in force, without a slash at the end."""
    chosen = env.get("UV_DEFAULT_INDEX") or env.get("UV_INDEX_URL") or env.get("PIP_INDEX_URL")
    return (chosen or PYPI).rstrip("/")


def without_password(url: str) -> str:
    """Return the address as it may be shown: user and password taken out."""
    return re.sub(r"//[^/@]*@", "//", url)


def certificates(env: dict[str, str]) -> str | None:
    """Return the file of trusted certificates: as asked for, else the machine's, else None."""
    asked = env.get("SSL_CERT_FILE") or env.get("PIP_CERT") or env.get("REQUESTS_CA_BUNDLE")
    if asked:
        return asked
    return next((path for path in SYSTEM_CERTIFICATES if Path(path).is_file()), None)


def tool_environment(env: dict[str, str]) -> dict[str, str]:
    """Return the environment for pip and uv: same index, same certificates, this .venv."""
    result = {k: v for k, v in env.items() if k not in {"VIRTUAL_ENV", "PYTHONHOME", "PYTHONPATH"}}
    result["UV_PROJECT_ENVIRONMENT"] = str(VENV)
    result["UV_PYTHON_DOWNLOADS"] = "never"
    trusted = certificates(env)
    if trusted:
        result["SSL_CERT_FILE"] = trusted
    return result


def newest_wheel(page: str, base: str) -> tuple[str, str]:
    """Return address and SHA-256 ("" if the index gives none) of pip's newest release."""
    links = Links()
    links.feed(page)
    best: tuple[tuple[int, ...], str, str] | None = None
    for href in links.hrefs:
        address, _, fragment = urllib.parse.urljoin(base, href).partition("#")
        name = urllib.parse.unquote(address.rsplit("/", 1)[-1])
        match = re.fullmatch(r"pip-(\d+(?:\.\d+)*)-py3-none-any\.whl", name)
        if match:
            version = tuple(int(part) for part in match.group(1).split("."))
            digest = fragment[len("sha256=") :] if fragment.startswith("sha256=") else ""
            best = max(best, (version, address, digest)) if best else (version, address, digest)
    if best is None:
        raise Failed(
            "No pip wheel is listed at " + without_password(base) + ": check PIP_INDEX_URL."
        )
    return best[1], best[2]


def fetch(url: str, env: dict[str, str]) -> bytes:
    """Read an address of the package index, trying again when the connection fails."""
    if not url.startswith(("https://", "http://")):
        raise Failed("PIP_INDEX_URL must be an http or https address, and gives " + url + ".")
    headers = {"Accept": "text/html"}
    login = re.search(r"//([^/@]*)@", url)
    if login:  # urllib takes no user:password@ in an address
        plain = urllib.parse.unquote(login.group(1)).encode()
        headers["Authorization"] = "Basic " + base64.b64encode(plain).decode()
        url = without_password(url)
    context = ssl.create_default_context(cafile=certificates(env))
    for left in reversed(range(FETCH_TRIES)):
        try:
            request = urllib.request.Request(url, headers=headers)  # noqa: S310
            answer = urllib.request.urlopen(  # noqa: S310  (the scheme was checked above)
                request, timeout=FETCH_TIMEOUT_S, context=context
            )
            with answer:
                return answer.read()
        except OSError as error:
            if not left:
                raise Failed(
                    "Cannot read " + url + " (" + str(error) + "): check the network, PIP_INDEX_URL"
                    " and PIP_CERT, or install Debian's python3-venv."
                ) from error
            time.sleep(1)
    raise AssertionError


def pip_command(env: dict[str, str], scratch: Path) -> list[str]:
    """Make the virtual environment; return how to run pip for it."""
    python = VENV / "bin" / "python"
    if VENV.exists() and not python.exists():  # the Python it was made with is gone
        shutil.rmtree(VENV)
    if importlib.util.find_spec("ensurepip") is not None:
        made = subprocess.run(
            [sys.executable, "-m", "venv", str(VENV)], check=False, capture_output=True, env=env
        )
        if made.returncode == 0:
            return [str(python), "-m", "pip"]
    run([sys.executable, "-m", "venv", "--without-pip", str(VENV)], env)
    base = index_url(env) + "/pip/"
    address, digest = newest_wheel(fetch(base, env).decode(), base)
    wheel = scratch / urllib.parse.unquote(address.rsplit("/", 1)[-1])
    content = fetch(address, env)
    if digest and hashlib.sha256(content).hexdigest() != digest:
        raise Failed("The pip wheel at " + address + " is damaged: its SHA-256 does not match.")
    wheel.write_bytes(content)
    return [str(python), str(wheel / "pip")]


def install_commands(env: dict[str, str], scratch: Path) -> list[list[str]]:
    """Return the commands that bring .venv to what uv.lock says.

    The lock names files of pypi.org. Behind another index the same versions and the same hashes
    are taken from there.
    """
    # On a terminal uv shows its progress; in a log the list of 80 packages helps nobody.
    uv = [str(VENV / "bin" / "uv"), *([] if sys.stderr.isatty() else ["--quiet"])]
    index = index_url(env)
    if index == PYPI:
        return [[*uv, "sync", "--locked", "--all-extras"]]
    pins = str(scratch / "pins.txt")
    python = ["--python", str(VENV / "bin" / "python")]
    return [
        [*uv, "export", "--frozen", "--all-extras", "--no-emit-project", "-o", pins],
        [*uv, "pip", "install", *python, "--default-index", index, "--require-hashes", "-r", pins],
        [*uv, "pip", "install", *python, "--default-index", index, "--no-deps", "-e", str(ROOT)],
    ]


def run(command: list[str], env: dict[str, str]) -> None:
    """Run one step; its own output explains a failure."""
    done = subprocess.run(command, check=False, cwd=ROOT, env=env)
    if done.returncode:
        raise Failed(
            "Set-up stopped: `"
            + without_password(" ".join(command))
            + "` ended with "
            + str(done.returncode)
            + " (see above)."
        )


def main() -> None:
    """Make or bring up to date .venv."""
    print("Setting up .venv from uv.lock (once; minutes on a slow line) ...", file=sys.stderr)
    env = tool_environment(dict(os.environ))
    with tempfile.TemporaryDirectory() as scratch:
        pip = pip_command(env, Path(scratch))
        run([*pip, "install", "--quiet", "--disable-pip-version-check", UV], env)
        for command in install_commands(env, Path(scratch)):
            run(command, env)


if __name__ == "__main__":
    try:
        main()
    except Failed as failure:
        sys.exit(str(failure))
