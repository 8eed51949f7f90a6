"""A Kineto trace of torch's own, and the tables that torch prints of the same events.

    kineto.py plain|stack OUT.json OUT.tables.json

OUT.tables.json holds the tables, each with the arguments of `pfw table` that ask for the same.
"""
import json
import sys
import warnings

import torch

TABLES = [
    (["--row-limit", "-1"], {}, {"row_limit": -1}),
    (["--row-limit", "-1", "--group-by", "shape"], {"group_by_input_shape": True},
     {"row_limit": -1}),
    (["--sort-by", "self_cpu_time_total", "--row-limit", "10"], {},
     {"sort_by": "self_cpu_time_total", "row_limit": 10}),
]


def main():
    warnings.simplefilter("ignore")
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(),
                                torch.nn.Flatten(), torch.nn.Linear(4 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                schedule=torch.profiler.schedule(wait=0, warmup=1, active=2,
                                                                 repeat=1),
                                record_shapes=True, profile_memory=True,
                                with_stack=sys.argv[1] == "stack", acc_events=True) as profile:
        for step in range(3):
            with torch.profiler.record_function("forward"):
                loss = model(torch.randn(2 + step, 3, 8, 8)).sum()
            with torch.profiler.record_function("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profile.step()
    profile.export_chrome_trace(sys.argv[2])
    tables = [{"options": options, "text": profile.key_averages(**how).table(**shown)}
              for options, how, shown in TABLES]
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__, "tables": tables}, file, indent=1)


main()
