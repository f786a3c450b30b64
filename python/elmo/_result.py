"""Results: what the program prints with --json, as dicts whose fields are attributes too."""
from __future__ import annotations

import json
from typing import Any


class Result(dict):
    """Fields by name, in order: ``result["P@1"]``, and where the name allows it ``result.steps``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"this result has no field '{name}'; it has {', '.join(self)}") from None

    def __dir__(self):
        return [*super().__dir__(), *(name for name in self if name.isidentifier())]


class Plan(Result):
    """The memory of a training run; ``print(plan)`` shows it as a table."""

    _text = ""

    def __str__(self) -> str:
        return self._text


def from_json(text: str) -> Result:
    return json.loads(text, object_hook=Result)


def plan_of(text: str, table: str) -> Plan:
    plan = Plan(from_json(text))
    object.__setattr__(plan, "_text", table)
    return plan
