"""Noticing that a file says something else, however that came about.

It is looked at by name, through symbolic links, so an editor's rename and the swap of `..data` by
which Kubernetes changes a mounted ConfigMap are seen alike, and so is a file system that tells
nobody of changes (NFS, FUSE). A file that is just being written is waited for.
"""

import asyncio
import hashlib
import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final

from tradewind.regions.reader import MAX_FILE_BYTES
from tradewind.ticks import tick

#: Between two looks, one stat(2) each. What has changed counts from the second equal look on.
LOOK_EVERY_S: Final = 2.0


class FileWatch:
    """What a file says, from the moment this is made."""

    def __init__(self, path: str | Path, *, every_s: float = LOOK_EVERY_S) -> None:
        """Look once; changes are told from here on."""
        self._path, self._every_s = Path(path), every_s
        self._looked = self._told = self._look()
        self._said = self._read()

    async def changes(self) -> AsyncIterator[None]:
        """Yield whenever the file says something else, cannot be read any more, or can again."""
        while True:
            await tick(self._every_s)
            if await asyncio.to_thread(self._says_else):
                yield

    def _says_else(self) -> bool:
        before, self._looked = self._looked, self._look()
        if self._looked != before or self._looked == self._told:
            return False
        self._told = self._looked
        said, self._said = self._said, self._read()
        return said != self._said

    def _look(self) -> tuple[int, ...]:
        try:
            found = self._path.stat()
        except OSError as error:
            return (error.errno or 0,)
        # The time of the last change of its mode counts, too: it may have become readable.
        times = (found.st_mtime_ns, found.st_ctime_ns)
        return (found.st_dev, found.st_ino, found.st_size, found.st_mode, *times)

    def _read(self) -> bytes:
        """A digest of what it says, or of why it says nothing."""
        try:
            with open(self._path, "rb", opener=_at_once) as file:
                if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                    return b"not a file"
                return hashlib.blake2b(file.read(MAX_FILE_BYTES + 1)).digest()
        except OSError as error:
            return str(error.errno).encode()


def _at_once(path: str, flags: int) -> int:
    """Open without waiting: nobody may be at the other end of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)
