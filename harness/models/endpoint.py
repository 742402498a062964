# SPDX-License-Identifier: Apache-2.0
"""A served model, as its clients see it."""

from __future__ import annotations

from pathlib import Path

from harness.models.base import Model


class Endpoint(Model):
    """Where to ask, as whom, for what."""

    base_url: str
    """Scheme, host and port, without a path: ``http://127.0.0.1:8000``."""
    api_key: str
    model: str
    """The name under which the server serves the model."""
    tokenizer: Path
    """Folder with the model's tokenizer, or its id on the hub."""
    tokenizer_mode: str | None = None
    """As the server has it; None: vLLM's default."""

    @property
    def completions(self) -> str:
        """URL of the completions endpoint."""
        return f"{self.base_url}/v1/completions"

    @property
    def metrics(self) -> str:
        """URL of the Prometheus metrics."""
        return f"{self.base_url}/metrics"

    @property
    def headers(self) -> dict[str, str]:
        """What every request carries."""
        return {"Authorization": f"Bearer {self.api_key}"}
