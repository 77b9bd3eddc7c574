import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tools import bootstrap

ROOT = Path(__file__).resolve().parents[2]

PAGE = """
<a href="../../files/pip-9.0.3-py2.py3-none-any.whl#sha256=00">old naming</a>
<a href="../../files/pip-25.3-py3-none-any.whl#sha256=25">pip 25.3</a>
<a href="https://files.example.org/pip-26.10-py3-none-any.whl#sha256=26">pip 26.10</a>
<a href="../../files/pip-26.9-py3-none-any.whl" data-requires-python="&gt;=3.9">pip 26.9</a>
<a href="../../files/pip-27.0b1-py3-none-any.whl">a beta</a>
<a href="../../files/pip-28.0-py3-none-any.whl" data-requires-python="&gt;=3.99">too new</a>
<a href="../../files/pip-29.0-py3-none-any.whl" data-yanked="">withdrawn</a>
<a href="../../files/pip-30.0.tar.gz">a source archive</a>
"""


def test_newest_wheel_counts_numbers_not_letters_and_skips_what_cannot_be_used() -> None:
    assert bootstrap.newest_wheel(PAGE, "https://index.example.org/simple/pip/") == (
        "https://files.example.org/pip-26.10-py3-none-any.whl",
        "26",
    )


def test_newest_wheel_resolves_addresses_against_the_page() -> None:
    page = '<a href="../../files/pip-25.3-py3-none-any.whl">pip</a>'
    address, digest = bootstrap.newest_wheel(page, "https://index.example.org/simple/pip/")
    assert (address, digest) == ("https://index.example.org/files/pip-25.3-py3-none-any.whl", "")


def test_an_index_without_pip_is_named_without_its_password() -> None:
    with pytest.raises(bootstrap.Failed, match=r"at https://index\.example\.org/simple/pip/:"):
        bootstrap.newest_wheel("", "https://me:secret@index.example.org/simple/pip/")


def test_an_index_that_is_not_http_is_refused() -> None:
    with pytest.raises(bootstrap.Failed, match="http or https"):
        bootstrap.fetch("file:///etc/passwd", {})


CERTIFICATES = {
    "uv's own variable wins": ({"SSL_CERT_FILE": "/a", "PIP_CERT": "/b"}, "/a"),
    "pip's variable is passed on": ({"PIP_CERT": "/b", "REQUESTS_CA_BUNDLE": "/c"}, "/b"),
    "requests' variable is passed on": ({"REQUESTS_CA_BUNDLE": "/c"}, "/c"),
}


@pytest.mark.parametrize(("env", "expected"), CERTIFICATES.values(), ids=CERTIFICATES)
def test_uv_trusts_what_pip_was_told_to_trust(env: dict[str, str], expected: str) -> None:
    assert bootstrap.tool_environment(env)["SSL_CERT_FILE"] == expected


def test_uv_is_not_led_to_another_environment() -> None:
    env = bootstrap.tool_environment({"VIRTUAL_ENV": "/other", "PYTHONPATH": "/other", "A": "b"})
    assert "VIRTUAL_ENV" not in env
    assert "PYTHONPATH" not in env
    assert env["A"] == "b"
    assert env["UV_PROJECT_ENVIRONMENT"] == str(ROOT / ".venv")


def test_pypi_installs_from_the_lock_file(tmp_path: Path) -> None:
    for env in ({}, {"PIP_INDEX_URL": "https://pypi.org/simple/"}):
        (sync,) = bootstrap.install_commands(env, tmp_path)
        assert sync[-3:] == ["sync", "--locked", "--all-extras"]


def test_another_index_serves_the_locked_versions_and_hashes(tmp_path: Path) -> None:
    mirror = "https://mirror.example.org/simple"
    export, pins, project = bootstrap.install_commands({"PIP_INDEX_URL": mirror}, tmp_path)
    assert "--frozen" in export
    assert {"--require-hashes", mirror} <= set(pins)
    assert {"--no-deps", mirror} <= set(project)


def test_an_old_python_is_told_so_in_one_sentence() -> None:
    script = f"""
import runpy, sys
sys.version_info, sys.version = (3, 9, 18), "3.9.18 (main)"
runpy.run_path({str(ROOT / "tools" / "bootstrap.py")!r}, run_name="__main__")
"""
    done = subprocess.run(
        [sys.executable, "-c", script], check=False, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Tradewind needs Python 3.11 or newer and this is 3.9.18:")
    assert done.stderr.count("\n") == 1


def test_the_lock_file_names_pypi_and_nothing_else() -> None:
    lock = tomllib.loads((ROOT / "uv.lock").read_text())
    registries = {p["source"].get("registry") for p in lock["package"]} - {None}
    files = [
        file["url"]
        for package in lock["package"]
        for file in [*package.get("wheels", []), *filter(None, [package.get("sdist")])]
    ]
    assert registries == {bootstrap.PYPI}
    assert all(url.startswith("https://files.pythonhosted.org/") for url in files)


def test_the_image_is_built_with_the_uv_that_wrote_the_lock() -> None:
    assert f" {bootstrap.UV}\n" in (ROOT / "deploy" / "Dockerfile").read_text()
