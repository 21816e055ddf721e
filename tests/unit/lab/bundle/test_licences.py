"""Licences as Debian's copyright files name them."""

from __future__ import annotations

import pytest

from kubexm.lab.bundle.licences import UNKNOWN, spdx_expression


@pytest.mark.parametrize(
    ("text", "expression"),
    [
        ("License: GPL-2+\n text", "GPL-2.0-or-later"),
        ("License: GPL-2\n\nLicense: Expat\n\nLicense: GPL-2\n", "GPL-2.0-only AND MIT"),
        ("License: LGPL-2.1+ or BSD-3-clause\n", "BSD-3-Clause AND LGPL-2.1-or-later"),
        ("License: GPL-2+ with OpenSSL exception\n", "GPL-2.0-or-later"),
        ("License: Some odd one\n", "LicenseRef-Some-odd-one"),
        ("License:\n continued on the next line\n", UNKNOWN),
        ("This is free software.", UNKNOWN),
        ("", UNKNOWN),
    ],
)
def test_expressions(text: str, expression: str) -> None:
    assert spdx_expression(text) == expression
