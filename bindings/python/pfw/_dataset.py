"""Lines as a dataset of pyarrow: what duckdb and polars ask for is all that is read."""
from __future__ import annotations

import collections
import json
import re
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

if TYPE_CHECKING:
    from ._read import Lines

# duckdb makes groups of so many rows; a smaller batch it copies once more, which doubles the time of CREATE TABLE.
_BATCH_ROWS = 122880

# A larger condition is not translated: the translation tries each "and".
_CONDITION_BYTES = 4000

_COMPARISON = re.compile(r'\(([\w.]+) (==|!=|<=?|>=?) (-?\d+|"(?:[^"\\]|\\.)*")\)', re.DOTALL)
_IN = re.compile(r"is_in\(([\w.]+), \{value_set=(?:int64|string):(\[.*\]), null_matching_behavior=MATCH\}\)", re.DOTALL)
_IN_OR_NULL = re.compile(r"if_else\(is_valid\([\w.]+\), (is_in\(.*\)), null\[bool\]\)", re.DOTALL)
_VALID = re.compile(r"is_(valid|null)\(([\w.]+)(?:, \{nan_is_null=false\})?\)")
_OF = {"==": "__eq__", "!=": "__ne__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__"}


# ---- a condition of pyarrow as one of pfw ----

def _constant(column: str, value: Any) -> str | None:
    """As pfw writes it; None: it does not mean the same."""
    if isinstance(value, str):
        # pfw also gives lines of ph M if a condition has ph, or cat "pfw"; U+FFFD stands for what Arrow has no text for.
        other = column == "ph" or (column, value) == ("cat", "pfw") or "\ufffd" in value
        return None if other else json.dumps(value, ensure_ascii=False)
    return f"{'-' * (value < 0)}{abs(value) // 1000}.{abs(value) % 1000:03}" if column in ("ts", "dur") else str(value)


def _term(column: str, operator: str, values: list[Any], schema: pa.Schema) -> tuple[Any, list[str]] | None:
    """The comparison as pyarrow has it, and as conditions of pfw."""
    type_ = schema.field(column).type
    type_ = type_.value_type if pa.types.is_dictionary(type_) else type_
    if type_ not in (pa.int64(), pa.string()) or any(isinstance(one, str) != (type_ == pa.string()) for one in values):
        return None
    constants = [_constant(column, one) for one in values]
    field = {"span": "args.span", "args_json": ""}.get(column, column)
    if operator == "in":
        made = pc.field(column).isin(pa.array(values, type_))
        text = f"{field} in ({', '.join(map(str, constants))})"
    else:
        made = getattr(pc.field(column), _OF[operator])(pa.scalar(values[0], type_))
        text = f"{field} {operator} {constants[0]}"
    return made, [] if None in constants or not field or not values else [text]


def _translated(text: str, schema: pa.Schema) -> tuple[Any, list[str]] | None:
    """What pyarrow prints of a condition: the condition, and conditions of pfw that hold wherever it holds.

    Texts are not always quoted, so the caller has to compare the condition with the one that was printed.
    """
    if match := _COMPARISON.fullmatch(text):
        return _term(match[1], match[2], [json.loads(match[3])], schema)
    if match := _IN.fullmatch(text):
        return _term(match[1], "in", json.loads(match[2]), schema)
    if match := _IN_OR_NULL.fullmatch(text):
        inner = _translated(match[1], schema)
        field = match[1][len("is_in("):match[1].index(",")]
        return inner and (pc.if_else(pc.field(field).is_valid(), inner[0], pa.scalar(None, pa.bool_())), inner[1])
    if match := _VALID.fullmatch(text):
        # A value that its column has no type for is null there.
        there = match[1] == "valid" and match[2].startswith("args.")
        return getattr(pc.field(match[2]), f"is_{match[1]}")(), [f"has({match[2]})"] if there else []
    for between in re.finditer(" (and|or) ", text) if text[:1] + text[-1:] == "()" else ():
        left, right = _translated(text[1:between.start()], schema), _translated(text[between.end():-1], schema)
        if left and right and between[1] == "and":
            return left[0] & right[0], left[1] + right[1]
        if left and right:
            sides = [" && ".join(terms) for terms in (left[1], right[1])]
            return left[0] | right[0], [f"(({sides[0]}) || ({sides[1]}))"] if all(sides) else []
    return None


def conditions(wanted: Any, schema: pa.Schema) -> list[str]:
    """Conditions of pfw that hold for every line for which a condition of pyarrow holds; of those it knows."""
    text = str(wanted)
    try:
        made = _translated(text, schema) if len(text) <= _CONDITION_BYTES else None
    except (KeyError, ValueError, OverflowError, pa.ArrowException):
        return []
    return made[1] if made and made[0].equals(wanted) else []


# ---- the dataset ----

class Dataset(ds.Dataset):  # type: ignore[misc]
    """Reads, each time that it is asked, the columns and lines that are asked for."""

    def __init__(self, lines: Lines) -> None:
        self._lines = lines
        self._schema = pa.RecordBatchReader.from_stream(lines).schema
        self._read: collections.deque[Lines] = collections.deque(maxlen=16)

    @property
    def schema(self) -> pa.Schema:
        return self._schema

    @property
    def problems(self) -> list[str]:
        """What could not be read: the first 100, with file and line."""
        return list(dict.fromkeys(text for lines in self._read for text in lines.problems))[:100]

    def _narrowed(self, columns: Any, wanted: Any) -> Lines:
        """What is read for these columns and this condition: it may have more lines, and columns of the condition."""
        names = self._schema.names
        named = set(re.findall(r"[\w.]+", str(wanted)))
        if columns is not None and not isinstance(columns, dict):
            names = [*columns, *(name for name in names if name in named and name not in columns)]
        terms = conditions(wanted, self._schema) if wanted is not None else []
        lines = type(self._lines)(self._lines._paths, [
            *self._lines._options, ("columns", ",".join(names or names[:1] or self._schema.names[:1])),
            ("batch-rows", str(_BATCH_ROWS)), *(("where", term) for term in terms)])
        self._read.append(lines)
        return lines

    def scanner(self, columns: Any = None, filter: Any = None, **options: Any) -> Any:
        reader = pa.RecordBatchReader.from_stream(self._narrowed(columns, filter))
        few = {name: options[name] for name in ("batch_size", "use_threads", "memory_pool") if options.get(name)}
        # The batches that it reads ahead are in memory.
        return ds.Scanner.from_batches(reader, columns=columns, filter=filter, batch_readahead=1, **few)

    def _refused(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError("lines of traces have no fragments: use scanner(), to_table() or to_batches()")

    filter = get_fragments = join = join_asof = replace_schema = sort_by = __reduce__ = _refused
    partition_expression = property(_refused)
