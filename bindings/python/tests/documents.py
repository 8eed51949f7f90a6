"""The code of the four documents that the fronts follow, as it stands there.

code() changes what it may: the line of the import, and `...` where Python takes none.
"""
import re

IMPORTS = {"cache_dit": "pfw.compat.cache_dit", "parallelization": "pfw.compat.parallelization",
           "torch.profiler": "pfw.torch", "diffulex_profiler": "pfw.compat.diffulex_profiler"}


def code(text):
    """A block that can be run: with our import, and without the arguments that the document leaves out."""
    # The one line that has helpers of another kind in it, too: they are the test's own.
    text = text.replace("from utils import get_args, strify, cachify, ", "from pfw.compat.cache_dit import ")
    text = text.replace("from utils import", "from pfw.compat.cache_dit import").replace("\nimport cache_dit\n", "\n")
    for theirs, ours in IMPORTS.items():
        text = re.sub(rf"^from {re.escape(theirs)}(?=[ .])", f"from {ours}", text, flags=re.MULTILINE)
    text = text.replace("        ...\n", "")
    return re.sub(r"(\w), \.\.\.\)|(\"), \.\.\.\)", r"\1\2)", text)


# Torch Profiler Usage
A = (
r'''
from utils import create_profiler_from_args

def run_pipe():
    # Reduce steps when profiling to keep trace file small
    steps = args.steps if args.steps is not None else 28
    if args.profile and args.steps is None:
        steps = 3
    image = pipe(
        prompt,
        num_inference_steps=steps,
        ...
    ).images[0]
    return image

# Only create and use profiler when --profile is enabled
if args.profile:
    profiler = create_profiler_from_args(args, profile_name="flux_inference")
    with profiler:
        image = run_pipe()
    print(f"Profiler traces saved to: {profiler.output_dir}/{profiler.trace_path.name}")
else:
    image = run_pipe()
''',
r'''
import time
import torch
from diffusers import FluxPipeline, FluxTransformer2DModel
from utils import get_args, strify, cachify, MemoryTracker, create_profiler_from_args
import cache_dit

args = get_args()
pipe = FluxPipeline.from_pretrained(...)

# ... model setup code ...

def run_pipe():
    steps = args.steps if args.steps is not None else 28
    if args.profile and args.steps is None:
        steps = 3
    image = pipe(
        prompt,
        height=1024,
        width=1024,
        num_inference_steps=steps,
        generator=torch.Generator("cpu").manual_seed(0),
    ).images[0]
    return image

_ = run_pipe()  # warmup

memory_tracker = MemoryTracker() if args.track_memory else None

if memory_tracker:
    memory_tracker.__enter__()

start = time.time()
if args.profile:
    profiler = create_profiler_from_args(args, profile_name="flux_inference")
    with profiler:
        image = run_pipe()
    print(f"Profiler traces saved to: {profiler.output_dir}/{profiler.trace_path.name}")
else:
    image = run_pipe()
end = time.time()

if memory_tracker:
    memory_tracker.__exit__(None, None, None)
    memory_tracker.report()
''',
r'''
from cache_dit import ProfilerContext

with ProfilerContext(
    enabled=True,
    activities=["CPU", "GPU"],
    output_dir="/tmp/profiles",
    profile_name="my_inference",
    with_stack=False,
    record_shapes=True,
):
    output = model(input)
''',
r'''
from cache_dit import profile_function

@profile_function(enabled=True, profile_name="forward_pass")
def my_function():
    return model(input)
''',
)

# PyTorch Profiler Decorator
B = (
r'''
from parallelization import profiler

@profiler()  # Uses sensible defaults: with_flops=True, active=3 steps
def train_model(args):
    # Your training code here
    for step in range(100):
        # Training step
        loss = model(batch)
        loss.backward()
        optimizer.step()
        
        # Important: Step the profiler
        step_profiler()
''',
r'''
from parallelization import ray, profiler

@ray(num_nodes=2, gpus_per_node=4)
@profiler(
    enabled=True,
    output_dir="./profiles", 
    active=10,
    with_flops=True,
    nsight_enabled=True
)
def distributed_train(args):
    # Distributed training code
    pass
''',
r'''
from parallelization.profiler.decorator import step_profiler

for batch in dataloader:
    # Forward pass
    loss = model(batch)
    loss.backward()
    optimizer.step()
    
    # IMPORTANT: Step the profiler
    step_profiler()
''',
)

# 03 - PyTorch Profiler
C = (
r'''
import torch
from torch.profiler import profile, record_function, ProfilerActivity

with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    record_shapes=True,
) as prof:
    with record_function("model_inference"):
        output = model(input)

print(prof.key_averages().table(sort_by="cuda_time_total", row_limit=10))
''',
r'''
with profile(
    activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA],
    schedule=torch.profiler.schedule(
        wait=1,    # Skip first iteration
        warmup=1,  # Warmup iteration
        active=3,  # Profile 3 iterations
        repeat=2   # Repeat 2 times
    ),
    on_trace_ready=torch.profiler.tensorboard_trace_handler('./logs'),
    record_shapes=True,
    profile_memory=True,
    with_stack=True,
) as prof:
    for step, (data, target) in enumerate(train_loader):
        # Training step
        optimizer.zero_grad()
        output = model(data.cuda())
        loss = criterion(output, target.cuda())
        loss.backward()
        optimizer.step()
        
        prof.step()  # Signal next step
''',
r'''
with profile(
    activities=[ProfilerActivity.CUDA],
    profile_memory=True,
) as prof:
    model(input)

# Memory timeline
print(prof.key_averages().table(sort_by="self_cuda_memory_usage", row_limit=10))
''',
r'''
# Export to Chrome trace format
prof.export_chrome_trace("trace.json")

# Export to TensorBoard
prof.export_stacks("stacks.txt", "self_cuda_time_total")

# View in Chrome: chrome://tracing
''',
r'''
ProfilerActivity.CPU    # CPU operations
ProfilerActivity.CUDA   # CUDA kernel time
ProfilerActivity.XPU    # Intel GPU (optional)
''',
r'''
schedule = torch.profiler.schedule(
    wait=1,      # Steps to skip
    warmup=1,    # Warmup steps
    active=3,    # Steps to profile
    repeat=1     # Number of cycles
)
''',
r'''
# Table output
prof.key_averages().table(
    sort_by="cuda_time_total",  # or "cpu_time_total", "self_cuda_time_total"
    row_limit=20
)

# Group by input shape
prof.key_averages(group_by_input_shape=True)

# Group by stack
prof.key_averages(group_by_stack_n=5)
''',
r'''
with record_function("data_loading"):
    data, target = next(iter(train_loader))

with record_function("forward"):
    output = model(data.cuda())

with record_function("backward"):
    loss.backward()
''',
r'''
def profile_impl(name, fn, *args):
    with profile(activities=[ProfilerActivity.CUDA]) as prof:
        for _ in range(100):
            fn(*args)
    
    total_time = sum(e.cuda_time for e in prof.key_averages())
    print(f"{name}: {total_time/1000:.2f} ms")
''',
r'''
def memory_profile(fn):
    def wrapper(*args, **kwargs):
        torch.cuda.reset_peak_memory_stats()
        result = fn(*args, **kwargs)
        peak_mem = torch.cuda.max_memory_allocated() / 1e9
        print(f"Peak memory: {peak_mem:.2f} GB")
        return result
    return wrapper
''',
r'''
on_trace_ready=torch.profiler.tensorboard_trace_handler('./logs')
''',
)

# Diffulex Profiler
D = (
r'''
from diffulex_profiler import DiffulexProfiler, ProfilerConfig
from diffulex import Diffulex, SamplingParams

# Initialize profiler
profiler = DiffulexProfiler(
    config=ProfilerConfig(
        enabled=True,
        backend="simple",
        output_dir="log/profiles"
    )
)

# Initialize Diffulex engine
llm = Diffulex(model_path, model_name="dream", ...)

# Profile inference
with profiler.profile("inference", metadata={"batch_size": 10}):
    outputs = llm.generate(prompts, sampling_params)
    total_tokens = sum(len(o['token_ids']) for o in outputs)
    profiler.record_throughput(total_tokens)

# Export results
profiler.export("log/profiles/inference_profile.json")
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(
        enabled=True,
        backend="simple",
        collect_gpu_metrics=True,
        collect_memory_metrics=True,
        export_formats=["json", "csv", "summary"]
    )
)

# Profile different sections
with profiler.profile("model_loading"):
    llm = Diffulex(model_path, ...)

with profiler.profile("prefill", metadata={"num_prompts": len(prompts)}):
    # Prefill phase
    pass

with profiler.profile("decode"):
    outputs = llm.generate(prompts, sampling_params)
    profiler.record_throughput(sum(len(o['token_ids']) for o in outputs))

# Get summary
summary = profiler.get_summary()
print(f"Total duration: {summary['total_duration_sec']:.2f}s")
print(f"Average throughput: {summary['avg_throughput_tokens_per_sec']:.2f} tok/s")

# Export all results
profiler.export()
''',
r'''
@dataclass
class ProfilerConfig:
    enabled: bool = True                    # Enable/disable profiling
    backend: str = "simple"                 # Backend: "simple", "viztracer", "pytorch"
    output_dir: str = "log/profiles"        # Output directory for results
    output_file: Optional[str] = None       # Optional custom output filename
    collect_gpu_metrics: bool = True        # Collect GPU metrics
    collect_memory_metrics: bool = True     # Collect memory metrics
    collect_timing: bool = True             # Collect timing information
    export_formats: List[str] = ["json", "summary"]  # Export formats
    viztracer_config: Optional[Dict] = None # VizTracer-specific config
    pytorch_profiler_config: Optional[Dict] = None  # PyTorch Profiler config
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(backend="simple")
)
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(
        backend="viztracer",
        viztracer_config={
            "output_file": "trace.json",
            "file_info": True,
        }
    )
)
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(
        backend="pytorch",
        pytorch_profiler_config={
            "activities": [ProfilerActivity.CPU, ProfilerActivity.CUDA],
            "record_shapes": True,
            "profile_memory": True,
        }
    )
)
''',
r'''
with profiler.profile("custom_section"):
    # Your code here
    profiler.record_metric("num_sequences", 10)
    profiler.record_metric("avg_length", 128.5)
    profiler.record_throughput(total_tokens=1000)
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(export_formats=["json"])
)
profiler.export("results.json")
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(export_formats=["csv"])
)
profiler.export("results.csv")
''',
r'''
profiler = DiffulexProfiler(
    config=ProfilerConfig(export_formats=["summary"])
)
profiler.export("results.txt")
''',
r'''
from diffulex_profiler import DiffulexProfiler, ProfilerConfig
from diffulex import Diffulex, SamplingParams

# Setup
profiler = DiffulexProfiler(ProfilerConfig(enabled=True))
llm = Diffulex(model_path, model_name="dream", ...)
sampling_params = SamplingParams(temperature=0.0, max_tokens=256)

# Profile generation
prompts = ["What is 2+2?", "Explain quantum computing"]
with profiler.profile("generate", metadata={"num_prompts": len(prompts)}):
    outputs = llm.generate(prompts, sampling_params)
    total_tokens = sum(len(o['token_ids']) for o in outputs)
    profiler.record_throughput(total_tokens)
    profiler.record_metric("num_outputs", len(outputs))
    profiler.record_metric("avg_diff_steps", 
                          sum(o['n_diff_steps'] for o in outputs) / len(outputs))

# Export
profiler.export("generation_profile.json")
summary = profiler.get_summary()
print(f"Throughput: {summary['avg_throughput_tokens_per_sec']:.2f} tok/s")
''',
r'''
profiler = DiffulexProfiler(ProfilerConfig(enabled=True))

for batch_idx, batch in enumerate(batches):
    with profiler.profile(f"batch_{batch_idx}", metadata={"batch_size": len(batch)}):
        outputs = llm.generate(batch, sampling_params)
        profiler.record_throughput(sum(len(o['token_ids']) for o in outputs))

profiler.export("batch_profiles.json")
''',
)
