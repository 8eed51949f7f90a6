/* api_target.c - calls every function of pfw.h; what it should leave in the trace is in test_api.py.
 *
 * Unlinked: it runs with and without a recorder.  linked_api_target.c is the same, linked.
 */
#include <pfw/pfw.h>

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char long_text[5001];

/* ---- spans ---- */

static void nested(void)
{
	struct pfw_span outer, inner;

	pfw_span_begin(&outer, "outer", "mine");
	pfw_span_arg_int(&outer, "int", INT64_MIN);
	pfw_span_arg_int(&outer, "positive", INT64_MAX);
	pfw_span_arg_double(&outer, "double", 0.1);
	pfw_span_arg_double(&outer, "whole", 3.0);
	pfw_span_arg_double(&outer, "infinite", 1.0 / 0.0);
	pfw_span_arg_str(&outer, "text", "tab\t quote\" back\\ ü");
	pfw_span_arg_str(&outer, "bad", "\xff!");
	pfw_span_arg_str(&outer, "long", long_text);
	pfw_span_begin(&inner, "inner", NULL);
	printf("current %d\n", pfw_span_current() != 0);
	pfw_instant("moment", "mine");
	pfw_span_end(&inner);
	{
		PFW_SPAN("scoped");
		PFW_SPAN_CAT("scoped twice", "other");
	}
	pfw_span_end(&outer);
	printf("after %d\n", pfw_span_current() != 0);
}

/* Two tasks that take turns in this thread, and a span that is not wanted. */
static void tasks(void)
{
	struct pfw_span first, second, within, unwanted;
	uint64_t first_id, now;

	pfw_span_begin(&first, "first task", NULL);
	first_id = pfw_span_set_current(0);
	pfw_span_begin(&second, "second task", NULL);
	pfw_span_begin(&unwanted, "unwanted", NULL);
	pfw_span_arg_str(&unwanted, "long", long_text);
	pfw_span_drop(&unwanted);
	pfw_span_set_current(first_id);
	pfw_span_begin(&within, "within first", NULL);
	pfw_span_end(&within);
	pfw_span_end(&second);
	now = pfw_span_current();
	pfw_span_end(&first);
	pfw_span_end(&unwanted);
	printf("tasks %d %d\n", pfw_enabled(), now && now == first_id);
}

static void too_much(void)
{
	struct pfw_span span;
	int refused = 0;

	pfw_span_begin(&span, "too much", NULL);
	for (int i = 0; i < 4; i++)
		refused += pfw_span_arg_str(&span, "long", long_text) == -E2BIG;
	printf("no key %d\n", pfw_span_arg_int(&span, NULL, 1));
	pfw_span_end(&span);
	printf("refused %d\n", refused);
}

/* Told when they are over, with arguments. */
static void over(void)
{
	struct pfw_span span, moment;

	pfw_span_begin(&span, "told late", "mine");
	pfw_span_arg_int(&span, "count", 3);
	pfw_span_begin(&moment, "told moment", "mine");
	pfw_span_arg_str(&moment, "value", "v");
	pfw_span_end_as(&moment, 1700000000123456000ull, PFW_INSTANT);
	pfw_span_end_as(&span, 1700000000123456789ull, 2500);
	pfw_span_end_as(&span, 1, 1);
	printf("over %d %d\n", pfw_span_end_as(NULL, 0, 0), pfw_span_current() != 0);
}

static void others(void)
{
	pfw_event("finished", "mine", 1700000000123456789ull, 1500);
	printf("event %d\n", pfw_event(NULL, NULL, 0, 0));
	over();
	pfw_counter("queue", "depth", 7.5);
	pfw_counter("queue", "bytes", 4096);
}

static void *in_thread(void *number)
{
	struct pfw_span span;

	for (int i = 0; i < 100; i++) {
		pfw_span_begin(&span, "turn", number);
		pfw_span_arg_int(&span, "i", i);
		{
			PFW_SPAN("part");
		}
		pfw_span_end(&span);
	}
	return NULL;
}

static void threads(void)
{
	static char names[4][8];
	pthread_t thread[4];

	for (int i = 0; i < 4; i++) {
		snprintf(names[i], sizeof(names[i]), "t%d", i);
		pthread_create(&thread[i], NULL, in_thread, names[i]);
	}
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static void *end_span(void *span)
{
	pfw_span_end(span);
	return NULL;
}

static void ended_elsewhere(void)
{
	struct pfw_span span;
	pthread_t thread;

	pfw_span_begin(&span, "handed over", NULL);
	pthread_create(&thread, NULL, end_span, &span);
	pthread_join(thread, NULL);
	{
		PFW_SPAN("after it");
	}
}

static void across_fork(void)
{
	struct pfw_span span;
	pid_t pid;

	pfw_span_begin(&span, "around fork", NULL);
	fflush(stdout);
	pid = fork();
	if (!pid) {
		{
			PFW_SPAN("in child");
		}
		pfw_span_end(&span); /* the parent's: not ended a second time */
		{
			PFW_SPAN("in child again");
		}
		exit(0);
	}
	waitpid(pid, NULL, 0);
	pfw_span_end(&span);
}

/* ---- compute events ---- */

static void compute(void)
{
	const struct pfw_compute all = {
		.struct_bytes = sizeof(all),
		.fields = (1ull << PFW_COMPUTE_BITS) - 1,
		.name = "void kernel<float>(int)",
		.ts_ns = 1700000000000001000ull,
		.dur_ns = 2500,
		.tid = 4242,
		.phase = PFW_PHASE_ACTIVE,
		.kind = PFW_KIND_KERNEL,
		.device = 1,
		.device_index = 3,
		.context = 4,
		.stream = 5,
		.correlation = 1ull << 40,
		.external_id = 7,
		.span = 8,
		.step = -9,
		.grid = { 2147483647u, 65535, 1 },
		.block = { 1024, 2, 64 },
		.registers = 10,
		.static_smem = 11,
		.dynamic_smem = 12,
		.local_mem = 13,
		.occupancy = 0.75,
		.priority = -1,
		.queued = 1234,
		.channel = 14,
		.graph = 15,
		.graph_node = 16,
		.cbid = 17,
		.bytes = 1ll << 33,
		.copy_kind = "HtoD",
		.src_kind = "pinned",
		.dst_kind = "device",
		.src_device = 18,
		.dst_device = 19,
		.gbps = 12.5,
		.wait_on_stream = 20,
		.wait_on_event = 21,
		.cpu_memory = -22,
		.device_memory_usage = 23,
		.is_remote = 1,
		.input_size = 2,
		.input_shapes = "[[8,16],[16]]",
		.dtypes = "[\"float\",\"float\"]",
		.strides = "[[16,1],[1]]",
		.flops = 1ull << 45,
		.sequence = 24,
		.fwd_tid = 25,
		.module = "net.layer \"1\"",
		.python_id = 26,
		.parent = 27,
		.total_cpu_percent = 28.5,
		.total_device_percent = 29.5,
		.stack = "[\"f (a.py:1)\",\"g (b.py:2)\"]",
		.addr = 0x7f0000001000ull,
		.total_allocated = 30,
		.total_reserved = 31,
		.blocks_per_sm = 0.5,
	};
	struct pfw_compute some = { .struct_bytes = sizeof(some), .name = "aten::linear" };
	int refused = 0;

	pfw_compute_event(&all);
	pfw_compute_event(&some);
	for (int kind = 0; kind < PFW_KIND_COUNT; kind++) {
		some.name = "of a kind";
		some.fields = PFW_HAS(kind);
		some.kind = (enum pfw_kind)kind;
		pfw_compute_event(&some);
	}
	some.name = "lane";
	some.fields = PFW_HAS(device_index) | PFW_HAS(context) | PFW_HAS(stream);
	some.device_index = 0;
	some.context = 1;
	some.stream = 7;
	pfw_compute_event(&some);
	some.name = "not json";
	some.fields = PFW_HAS(input_shapes);
	some.input_shapes = "[[8,";
	pfw_compute_event(&some);
	some.name = NULL;
	refused += pfw_compute_event(&some) == -EINVAL;
	some.name = "short";
	some.struct_bytes = 8;
	refused += pfw_compute_event(&some) == -EINVAL;
	refused += pfw_compute_event(NULL) == -EINVAL;
	printf("refused %d\n", refused);
}

/* ---- start, stop, flush, stats ---- */

static void show_stats(const char *when)
{
	struct pfw_stats stats = { .struct_bytes = sizeof(stats) };
	const char *slash;
	int error = 0;

#ifdef PFW_OPTIONAL
	if (pfw_stats) /* it has no macro: its result would be used unset */
#endif
		error = pfw_stats(&stats);
	slash = strrchr(stats.path, '/');
	printf("%s: %d events %llu lost %llu enabled %d path %s bytes %d\n", when, error,
	       (unsigned long long)stats.events, (unsigned long long)stats.lost, stats.enabled,
	       slash ? slash + 1 : "", stats.trace_bytes > 0);
}

static void start_stop(void)
{
	const struct pfw_options bad = { .bytes = 1 };

	show_stats("before");
	printf("start %d\n", pfw_start(NULL));
	pfw_instant("first", NULL);
	printf("flush %d\n", pfw_flush());
	show_stats("first");
	printf("stop %d\n", pfw_stop());
	pfw_instant("stopped", NULL);
	{
		PFW_SPAN("stopped");
	}
	show_stats("stopped");
	printf("again %d %d\n", pfw_start(NULL), pfw_start(NULL));
	pfw_instant("second", NULL);
	printf("flush %d\n", pfw_flush());
	show_stats("second");
	printf("stop %d %d\n", pfw_stop(), pfw_stop());
	printf("bad %d\n", pfw_start(&bad) == -EINVAL);
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	memset(long_text, 'x', sizeof(long_text) - 1);
	printf("version %s\n", pfw_version() ? pfw_version() : "none");
	if (!strcmp(what, "spans")) {
		pfw_start(NULL);
		nested();
		tasks();
		too_much();
		others();
		threads();
		ended_elsewhere();
		across_fork();
	} else if (!strcmp(what, "compute")) {
		pfw_start(NULL);
		compute();
	} else if (!strcmp(what, "stop")) {
		start_stop();
	} else {
		return 2;
	}
	return 0;
}
