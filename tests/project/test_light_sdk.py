import subprocess
import sys

HEAVY = ["click", "prometheus_client", "pydantic", "redis", "rich", "uvloop", "yaml"]

# Whoever only submits tasks or writes handlers has none of these installed.
SCRIPT = f"""
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {HEAVY!r}:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Missing())
import tradewind
for name in dir(tradewind):
    getattr(tradewind, name)
print(*dir(tradewind))
"""


def test_every_name_of_the_sdk_loads_without_the_extras() -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert {"App", "Client", "Context", "Reject", "Retry"} <= set(done.stdout.split())
