# SPDX-License-Identifier: Apache-2.0
from __future__ import annotations

import pytest

from tests.support.servers import Servers, install


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Servers:
    return install(monkeypatch)
