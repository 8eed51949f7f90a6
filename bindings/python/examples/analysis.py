"""A look at a trace with pandas, in cells as a notebook has them: python analysis.py [TRACE...]

Needs `pip install pandas pyarrow`; without TRACE it takes the newest run here.
"""
# %% What the trace holds; ts and dur are whole nanoseconds, args are in columns "args.*", others in args_json.
import sys

import pandas

import pfw

events = pfw.read(sys.argv[1:]).to_pandas()
pandas.set_option("display.width", 120)
print(events.groupby("cat").agg(events=("name", "size"), ms=("dur", lambda dur: dur.sum() / 1e6)).round(3))

# %% The calls that took the time, and how many bytes they moved.
io = events[events["cat"].isin(["POSIX", "STDIO"])]
moved = io[io["name"].isin(["read", "write", "pread", "pwrite", "fread", "fwrite"])]
print(io.groupby("name")["dur"].agg(["count", "sum", "mean", "max"]).sort_values("sum", ascending=False).head())
print("bytes moved:", int(moved["args.ret"].clip(lower=0).sum()))

# %% The files behind them.
print(io.groupby("args.fname")["dur"].agg(["count", "sum"]).sort_values("sum", ascending=False).head())

# %% Operators, by their own names.
operators = events[events["cat"] == "PP"]
if len(operators):
    print(operators.groupby("name")["dur"].agg(["count", "sum"]).sort_values("sum", ascending=False).head())

# %% Events in each tenth of the run.
tenths = pandas.cut(events["ts"] - events["ts"].min(), 10, labels=range(10))
print(events.groupby([tenths, "cat"], observed=True).size().unstack(fill_value=0))
