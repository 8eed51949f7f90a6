"""What prof.key_averages() gives: the rows of `pfw table`."""
from __future__ import annotations

import json
import warnings
from typing import Any

from .. import _command


class Device(int):
    """The number of a kind of device, also equal to torch's DeviceType of it (which is no int)."""

    def __eq__(self, other: object) -> bool:
        return int.__eq__(self, getattr(other, "value", other)) is True  # type: ignore[arg-type]

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = int.__hash__


class Average:
    """The events of one name (and shape, stack), added up; times in us, memory in bytes.

    Attributes are torch's: ``key``, ``count``, ``cpu_time``, ``device_time``, both also
    ``…_total`` and ``self_…_total``, ``cpu_memory_usage``, ``device_memory_usage``, both also
    ``self_…``, ``flops``, ``input_shapes``, ``stack``.  ``cuda_…`` and ``xpu_…`` stand for ``device_…``.
    """

    def __init__(self, row: dict[str, Any]) -> None:
        self.key: str = row["name"]
        self.input_shapes: list[Any] | str = json.loads(row["shape"]) if row.get("shape") else ""
        self.stack: list[str] = row["stack"].split("\n") if row.get("stack") else []
        self._row = row

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        key = name.replace("cuda_", "device_").replace("xpu_", "device_")
        if key == "device_type":
            return Device(self._row["device"])
        if key in self._row:
            return self._row[key]
        if key.removeprefix("self_").startswith(("cpu_", "device_")) or key == "flops":
            return 0  # a column that no row has anything in
        raise AttributeError(f"an average has no {name!r}; it has {', '.join(self._row)}")


class Averages(list[Average]):
    """Rows, and torch's table of them."""

    def __init__(self, selection: list[str], group_by: str | None) -> None:
        self._words = ["table", "--quiet", *(["--group-by", group_by] if group_by else []), *selection]
        super().__init__(Average(row) for row in _command.rows([*self._words, "--row-limit", "-1", "--sort-by", "none"])
                         if row.get("section") == "compute")

    @property
    def self_cpu_time_total(self) -> float:
        """The CPU's time in all rows, us."""
        return sum(average.self_cpu_time_total for average in self)

    def total_average(self) -> Average:
        """All rows as one, "Total"; what lies in something else counts twice in ``…_total``, as torch's."""
        sums = {key: sum(average._row.get(key) or 0 for average in self) for average in self[:1] for key in average._row
                if key in ("count", "flops") or key.endswith(("_total", "_usage"))}
        return Average({"name": "Total", "device": 0, **sums})

    def table(self, sort_by: str | None = None, row_limit: int = 100,
              max_src_column_width: int = 75, max_name_column_width: int = 55,
              max_shapes_column_width: int = 80, header: str | None = None,
              top_level_events_only: bool = False, time_unit: str | None = None, *,
              columns: str | None = None) -> str:
        """The rows as torch prints them.

        :param sort_by: a column: ``cpu_time_total``, ``self_cuda_time_total``, ``count``, …
        :param columns: columns by their keys, or ``flops``: Name, Self FLOPS, CPU total, CUDA total, # of
            Calls.
        :raises ValueError: there is no such column; the text lists those that there are.
        """
        words = ["--wide", "--no-head", "--row-limit", str(row_limit), "--max-name-width", str(max_name_column_width or 0)]
        words += ["--sort-by", sort_by if sort_by is not None else "none"]
        words += ["--columns", columns] if columns is not None else []
        words += ["--top-level-only"] if top_level_events_only else []
        if (max_src_column_width, max_shapes_column_width, time_unit) != (75, 80, None):
            warnings.warn("table() heeds no max_src_column_width, max_shapes_column_width or time_unit",
                          stacklevel=2)
        text = _command.run([*self._words[:1], *words, *self._words[1:]])
        return text if header is None else f"{header}\n{text}"

    def __str__(self) -> str:
        return self.table()
