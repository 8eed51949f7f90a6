"""What torch's own key averages say of events, and the same events as lines of a trace.

    key_averages.py recorded|made|stacks OUT.pfw OUT.json

`recorded`: a small model, run under torch.profiler.  `made`: a random forest of operators, runtime
calls and kernels, for what takes a GPU to record.  `stacks`: one without flops, by stack (with both
torch 2.15 swaps two columns).  Times are cut to 1/8 us, which doubles hold
exactly, so that sums do not depend on their order.  OUT.json holds torch's tables, each with the
arguments of `pfw table` that ask for the same.
"""
import json
import random
import sys
import warnings

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEvent, Kernel

EPOCH_NS = 1_795_230_878_627_639_000
GRID_NS = 125


# ---- events ----

def cut(event):
    """Put an event's times on the grid; what lay in another still does."""
    for name in ("start", "end"):
        ns = round(getattr(event.time_range, name) * 1000)
        setattr(event.time_range, name, ns // GRID_NS * GRID_NS / 1000)


def recorded():
    model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.ReLU(),
                                torch.nn.Flatten(), torch.nn.Linear(4 * 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=2, repeat=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                schedule=schedule, record_shapes=True, profile_memory=True,
                                with_flops=True, acc_events=True) as profile:
        for step in range(3):
            with torch.profiler.record_function("forward"):
                loss = model(torch.randn(2 + step, 3, 8, 8)).sum()
            with torch.profiler.record_function("backward"):
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            profile.step()
    events = profile.events()
    for event in events:
        event.cpu_parent, event.cpu_children, event.kernels = None, [], []
        event.is_async = False
        cut(event)
    return rebuilt(events, None)


def rebuilt(events, device):
    """The tree anew, of events whose times were changed."""
    events = EventList(sorted(events, key=lambda event: (event.time_range.start,
                                                         -event.time_range.end)),
                       use_device=device, profile_memory=True, with_flops=True)
    return events


class Maker:
    """A random forest, each level of it inside the one above."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.events, self.next_id = [], 1

    def event(self, name, start, end, thread, **values):
        self.next_id += 1
        event = FunctionEvent(self.next_id, name, thread, start / 8, end / 8, stack=values.pop(
            "stack", []), input_shapes=values.pop("input_shapes", []), use_device="cuda",
            trace_name=name, device_resource_id=thread, **values)
        self.events.append(event)
        return event

    def operator(self, start, end, thread, depth):
        choose = self.random
        name = choose.choice(["aten::mm", "aten::addmm", "aten::to", "aten::_to_copy", "aten::add"])
        shapes = choose.choice([[], [[8, 16], [16, 4]], [[2, 3, 8, 8], [], [4]]])
        stack = [f"model.py({line}): forward" for line in choose.sample(range(3), 2)]
        event = self.event(name, start, end, thread, input_shapes=shapes, stack=stack,
                           cpu_memory_usage=choose.choice([0, 0, 512, -512, 3 << 20]),
                           device_memory_usage=choose.choice([0, 0, 4096, -2048]),
                           flops=choose.choice([0, 0, 1500, 2_000_000]), external_id=self.next_id)
        at = start
        while depth and end - at > 40 and choose.random() < 0.75:
            begin = choose.randint(at, end - 20)
            stop = choose.randint(begin + 10, end)
            if choose.random() < 0.4:
                self.launch(event, begin, stop, thread)
            else:
                self.operator(begin, stop, thread, depth - 1)
            at = stop
            if choose.random() < 0.25:
                break
        return event

    def launch(self, operator, start, end, thread):
        call = self.event("cudaLaunchKernel", start, end, thread, linked_correlation_id=operator.id)
        call.pfw_correlation = call.id
        for _ in range(self.random.choice([1, 1, 2])):
            begin = end + self.random.randint(0, 4000)
            length = self.random.randint(8, 3000)
            kernel = self.event(self.random.choice(["gemm_kernel", "add_kernel", "Memcpy HtoD"]),
                                begin, begin + length, 7, device_type=DeviceType.CUDA,
                                linked_correlation_id=operator.id)
            kernel.pfw_correlation = call.id
            operator.kernels.append(Kernel(kernel.name, 0, kernel.time_range.elapsed_us()))

    def forest(self):
        for thread in (1, 2):
            at = 0
            for step in range(6):
                end = at + self.random.randint(20_000, 60_000)
                self.event("ProfilerStep*", at, end, thread, is_user_annotation=True)
                begin = at
                while end - begin > 500:
                    stop = self.random.randint(begin + 100, end)
                    self.operator(begin, stop, thread, 5)
                    begin = stop
                at = end
        return rebuilt(self.events, "cuda")


def made():
    return Maker(7).forest()


def stacks():
    events = Maker(8).forest()
    for event in events:
        event.flops = 0
    return events


# ---- the same as lines ----

def kind(event):
    if event.device_type != DeviceType.CPU:
        return "kernel"
    if event.name.startswith("cuda"):
        return "runtime"
    return "annotation" if event.is_user_annotation else "cpu_op"


def arguments(event, links):
    made_of = {"kind": kind(event), "device": 0 if event.device_type == DeviceType.CPU else 1,
               "device_index": -1 if event.device_type == DeviceType.CPU else 0}
    correlation = getattr(event, "pfw_correlation", 0)
    if correlation:
        made_of["correlation"] = correlation
    if links == "external" and event.device_type != DeviceType.CPU:
        made_of["external_id"] = event.linked_correlation_id
    elif links == "external" and not correlation:
        made_of["external_id"] = event.id
    for name in ("cpu_memory_usage", "device_memory_usage"):
        made_of["cpu_memory" if name[0] == "c" else name] = getattr(event, name)
    if event.flops:
        made_of["flops"] = event.flops
    if event.input_shapes:
        made_of["input_shapes"] = event.input_shapes
    if event.stack:
        made_of["stack"] = event.stack
    return made_of


def lines(events, links):
    """In order of their ends, as a recorder writes them."""
    for number, event in enumerate(sorted(events, key=lambda event: (event.time_range.end,
                                                                     -event.time_range.start))):
        start = EPOCH_NS + round(event.time_range.start * 1000)
        dur = round(event.time_range.end * 1000) - round(event.time_range.start * 1000)
        tid = event.thread if event.device_type == DeviceType.CPU else 10_000_007
        yield (f'{{"id":{number},"name":{json.dumps(event.trace_name or event.name)},"cat":"PP",'
               f'"pid":100,"tid":{tid},"ts":{start // 1000}.{start % 1000:03},'
               f'"dur":{dur // 1000}.{dur % 1000:03},"ph":"X","args":'
               f'{json.dumps(arguments(event, links), separators=(",", ":"))}}}\n')


# ---- torch's tables ----

TABLES = [
    ([], {}, {}),
    (["--row-limit", "3"], {}, {"row_limit": 3}),
    (["--max-name-width", "12"], {}, {"max_name_column_width": 12}),
    (["--max-name-width", "0"], {}, {"max_name_column_width": None}),
    (["--group-by", "shape", "--sort-by", "count", "--row-limit", "20"],
     {"group_by_input_shapes": True}, {"sort_by": "count", "row_limit": 20}),
    (["--top-level-only"], {}, {"top_level_events_only": True}),
] + [(["--sort-by", key, "--row-limit", "6"], {}, {"sort_by": key, "row_limit": 6}) for key in (
    "cpu_time", "cpu_time_total", "self_cpu_time_total", "cuda_time_total", "self_cuda_time_total",
    "device_time", "device_time_total", "self_device_time_total", "cpu_memory_usage",
    "self_cpu_memory_usage", "self_cuda_memory_usage", "device_memory_usage", "count", "flops",
    "key")]


STACKS = [(["--group-by", f"stack:{depth}"], {"group_by_stack_n": depth}, {})
          for depth in (1, 2, 5)]
STACKS.append((["--group-by", "name,shape,stack:2", "--row-limit", "20"],
               {"group_by_input_shapes": True, "group_by_stack_n": 2}, {"row_limit": 20}))


def tables(events, wanted):
    return [{"options": options, "text": events.key_averages(**how).table(**shown)}
            for options, how, shown in wanted]


def main():
    warnings.simplefilter("ignore")
    events = {"recorded": recorded, "made": made, "stacks": stacks}[sys.argv[1]]()
    # Lines are of events as they were before torch's tree drops some of them.
    with open(sys.argv[2], "w", encoding="utf-8") as file:
        file.writelines(lines(events, "external"))
    if sys.argv[1] == "made":
        with open(sys.argv[2].replace(".pfw", "-calls.pfw"), "w", encoding="utf-8") as file:
            file.writelines(lines(events, "calls"))
    events._build_tree()
    with open(sys.argv[3], "w", encoding="utf-8") as file:
        json.dump({"torch": torch.__version__,
                   "tables": tables(events, STACKS if sys.argv[1] == "stacks" else TABLES)},
                  file, indent=1)


main()
