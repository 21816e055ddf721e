"""Which licences a Debian package is under, as an SPDX expression, from the copyright file it carries."""

from __future__ import annotations

import gzip
import re
import subprocess
import tarfile
from pathlib import Path

from kubexm.errors import LabError

__all__ = ["licence_of", "spdx_expression"]

UNKNOWN = "LicenseRef-Debian-copyright"
"""For a copyright file that names no licences in a form a machine can read."""

_NAMES = {
    "apache-2": "Apache-2.0",
    "apache-2.0": "Apache-2.0",
    "artistic": "Artistic-1.0-Perl",
    "bsd-2-clause": "BSD-2-Clause",
    "bsd-3-clause": "BSD-3-Clause",
    "bsd-4-clause": "BSD-4-Clause",
    "bsl-1.0": "BSL-1.0",
    "cc-by-sa-4.0": "CC-BY-SA-4.0",
    "cc0-1.0": "CC0-1.0",
    "expat": "MIT",
    "fsfap": "FSFAP",
    "fsful": "FSFUL",
    "fsfullr": "FSFULLR",
    "gpl-1+": "GPL-1.0-or-later",
    "gpl-2": "GPL-2.0-only",
    "gpl-2+": "GPL-2.0-or-later",
    "gpl-2.0": "GPL-2.0-only",
    "gpl-2.0+": "GPL-2.0-or-later",
    "gpl-3": "GPL-3.0-only",
    "gpl-3+": "GPL-3.0-or-later",
    "isc": "ISC",
    "lgpl-2": "LGPL-2.0-only",
    "lgpl-2+": "LGPL-2.0-or-later",
    "lgpl-2.1": "LGPL-2.1-only",
    "lgpl-2.1+": "LGPL-2.1-or-later",
    "lgpl-3": "LGPL-3.0-only",
    "lgpl-3+": "LGPL-3.0-or-later",
    "mit": "MIT",
    "mpl-2.0": "MPL-2.0",
    "sleepycat": "Sleepycat",
    "x11": "X11",
    "zlib": "Zlib",
}


def licence_of(deb: Path) -> str:
    """The licences of the package in this file, as an SPDX expression."""
    argv = ["dpkg-deb", "--fsys-tarfile", str(deb)]
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        texts = []
        with tarfile.open(fileobj=process.stdout, mode="r|") as archive:
            for member in archive:
                if member.isfile() and re.fullmatch(r"\./usr/share/doc/[^/]+/copyright(\.gz)?", member.name):
                    stream = archive.extractfile(member)
                    assert stream is not None
                    texts.append(_text(stream.read(), member.name))
        process.stdout.read()  # let it end by itself, so that its exit code tells something
    if process.returncode:
        raise LabError(f"{deb} is no readable Debian package: dpkg-deb exited with {process.returncode}")
    return spdx_expression("\n".join(texts))


def spdx_expression(copyright_file: str) -> str:
    """The licences a machine-readable copyright file names, all of which apply."""
    found: set[str] = set()
    for line in re.findall(r"^License:[ \t]*(\S.*)$", copyright_file, flags=re.MULTILINE):
        for name in re.split(r"\s+(?:and|or|and/or)\s+|\s*[,|]\s*", line.strip()):
            word = re.sub(r"\s+with\s+.*|\s+exception.*", "", name, flags=re.IGNORECASE)
            known = _NAMES.get(word.lower())
            found.add(known or "LicenseRef-" + re.sub(r"[^A-Za-z0-9.-]+", "-", word).strip("-"))
    found.discard("LicenseRef-")
    return " AND ".join(sorted(found)) if found else UNKNOWN


def _text(data: bytes, name: str) -> str:
    plain = gzip.decompress(data) if name.endswith(".gz") else data
    return plain.decode("utf-8", errors="replace")
