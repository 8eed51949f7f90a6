/* target.c - a program that uses a GPU, for the tests of the probe: one word, one thing it does.
 *
 * target WORD[=N]...: done in this order, N times where there is an N.  It knows nothing of the tracer
 * but the C API's spans.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>
#ifdef PFW_TARGET_IS_CLIENT
#include <cupti_result.h>
#include <cupti_version.h>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#endif
#if __has_include(<nvtx3/nvToolsExt.h>)
#include <nvtx3/nvToolsExt.h>

#include <nvtx3/nvToolsExtCuda.h>
#include <nvtx3/nvToolsExtCudaRt.h>
#endif
#include <fcntl.h>
#define PFW_OPTIONAL
#include <pfw/pfw.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS 4

static void die(const char *what)
{
	fprintf(stderr, "target: %s failed\n", what);
	exit(3);
}

/* A kernel's name is its address, to the stand-in. */
static void launch(const char *name, long count)
{
	dim3 grid = { 128, 2, 1 }, block = { 256, 1, 1 };

	for (long i = 0; i < count; i++)
		if (cudaLaunchKernel(name, grid, block, NULL, 0, NULL))
			die("cudaLaunchKernel");
}

static void do_init(long count)
{
	(void)count;
	if (cuInit(0))
		die("cuInit");
}

static void do_init_fails(long count)
{
	(void)count;
	if (!cuInit(0))
		die("cuInit's failure");
}

static void do_launch(long count)
{
	launch("plain_kernel", count);
}

/* C++'s name of: void scale<float>(float*, int) */
static void do_mangled(long count)
{
	launch("_Z5scaleIfEvPT_i", count);
}

/* Its demangled name has 17 kB: f(A<A<..., ...>, A<..., ...> >), ten deep. */
static void do_nested(long count)
{
	launch("_Z1f1AIS_IS_IS_IS_IS_IS_IS_IS_IS_IS_IiiES0_ES1_ES2_ES3_ES4_ES5_ES6_ES7_ES8_ES9_E",
	       count);
}

static CUmodule module;

static void do_module(long count)
{
	CUfunction function;

	if (cuModuleLoadData(&module, "module_kernel") ||
	    cuModuleGetFunction(&function, module, "module_kernel"))
		die("cuModuleLoadData");
	for (long i = 0; i < count; i++)
		cuLaunchKernel(function, 4, 1, 1, 64, 1, 1, 2048, NULL, NULL, NULL);
}

static void do_unload(long count)
{
	(void)count;
	if (cuModuleUnload(module))
		die("cuModuleUnload");
}

static void do_driver(long count)
{
	do_module(count);
	do_unload(1);
}

static void do_copies(long count)
{
	static char host[1 << 16];
	void *device;

	cudaMalloc(&device, sizeof(host));
	for (long i = 0; i < count; i++) {
		cudaMemcpyAsync(device, host, sizeof(host), cudaMemcpyHostToDevice, NULL);
		cudaMemcpyAsync(host, device, sizeof(host), cudaMemcpyDeviceToHost, NULL);
		cudaMemsetAsync(device, 0, 4096, NULL);
		cudaMemcpyPeerAsync(device, 1, device, 0, 512, NULL);
	}
	cudaFree(device);
}

static void do_graph(long count)
{
	for (long i = 0; i < count; i++)
		cudaGraphLaunch((cudaGraphExec_t)(uintptr_t)5, (cudaStream_t)(uintptr_t)2);
}

static void do_sync(long count)
{
	for (long i = 0; i < count; i++) {
		cudaEventRecord((cudaEvent_t)(uintptr_t)3, (cudaStream_t)(uintptr_t)1);
		cudaStreamWaitEvent(NULL, (cudaEvent_t)(uintptr_t)3, 0);
		cudaStreamSynchronize(NULL);
		cudaDeviceSynchronize();
	}
}

static void do_noise(long count)
{
	int device;

	for (long i = 0; i < count; i++)
		cudaGetDevice(&device);
}

/* Launches inside nested spans, after them, and between: each kernel's name says which it is. */
static void do_spans(long count)
{
	struct pfw_span outer, inner;

	for (long i = 0; i < count; i++) {
		launch("outside", 1);
		pfw_span_begin(&outer, "outer", NULL);
		launch("in_outer", 1);
		pfw_span_begin(&inner, "inner", NULL);
		launch("in_inner", 2);
		pfw_span_end(&inner);
		launch("in_outer", 1);
		pfw_span_end(&outer);
	}
	launch("outside", 1);
}

#ifdef NVTX_VERSION
/* NVTX ranges and the API's spans in each other, and two steps by the ranges' name. */
/* Given late, and given early: streams 0 and 2. */
static void do_nvtx_names(long count)
{
	(void)count;
	nvtxNameCuDeviceA(0, "first");
	nvtxNameCuContextW((CUcontext)(uintptr_t)1, L"m\u00e4in");
	nvtxNameCuStreamA(NULL, "the \"default\"");
	nvtxNameCudaStreamA((cudaStream_t)(uintptr_t)2, "copies");
}

static void do_nvtx(long count)
{
	struct pfw_span span;

	for (long i = 0; i < count; i++) {
		nvtxRangePushA("nvtx_step");
		launch("in_step", 1);
		pfw_span_begin(&span, "span", NULL);
		launch("in_span", 1);
		nvtxRangePushA("nvtx_inner");
		launch("in_inner_range", 2);
		nvtxRangePop();
		launch("in_span", 1);
		pfw_span_end(&span);
		nvtxMarkA("mark");
		launch("in_step", 1);
		nvtxRangePop();
		launch("outside", 1);
	}
}
#endif

/* CUDA is initialised inside a span. */
static void do_span_first(long count)
{
	struct pfw_span span;

	pfw_span_begin(&span, "first", NULL);
	do_init(1);
	launch("in_first", count);
	pfw_span_end(&span);
	launch("outside", 1);
}

/* A read and a launch in one span: what analysis joins. */
static void do_read(long count)
{
	char buf[64];

	for (long i = 0; i < count; i++) {
		struct pfw_span span;
		int fd;

		pfw_span_begin(&span, "load", NULL);
		fd = open("data.bin", O_RDONLY);
		if (fd < 0 || read(fd, buf, sizeof(buf)) < 0)
			die("read");
		close(fd);
		launch("in_load", 1);
		pfw_span_end(&span);
	}
}

static void *thread_main(void *arg)
{
	long count = *(long *)arg;

	for (long i = 0; i < count; i++) {
		struct pfw_span span;
		bool spanned = i % 4 == 0;

		if (spanned)
			pfw_span_begin(&span, "step", NULL);
		launch(spanned ? "thread_in_span" : "thread_outside", 1);
		if (spanned)
			pfw_span_end(&span);
	}
	return NULL;
}

/* N launches on four threads; then how much memory that took. */
static void do_threads(long count)
{
	pthread_t thread[THREADS];
	struct rusage before, after;
	long each = count / THREADS;

	launch("plain_kernel", 1);
	getrusage(RUSAGE_SELF, &before);
	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, thread_main, &each);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	getrusage(RUSAGE_SELF, &after);
	printf("rss_growth_kib=%ld\n", after.ru_maxrss - before.ru_maxrss);
}

static void do_fork(long count)
{
	pid_t child;
	int status;

	for (long i = 0; i < count; i++) {
		child = fork();
		if (!child) {
			struct pfw_span span;

			pfw_span_begin(&span, "child", NULL);
			pfw_span_end(&span);
			exit(0);
		}
		if (waitpid(child, &status, 0) != child || status)
			die("the forked child");
	}
}

/* A child that initialises CUDA itself, its parent having not. */
static void do_fork_launch(long count)
{
	pid_t child = fork();
	int status;

	if (!child) {
		launch("in_child", count);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		die("the forked child");
}

static void do_stop(long count)
{
	(void)count;
	pfw_stop();
}

static void do_start(long count)
{
	(void)count;
	pfw_start(NULL);
}

/* Declared in headers of another wheel. */
cudaError_t cudaProfilerStart(void);
cudaError_t cudaProfilerStop(void);

static void do_range(long count)
{
	for (long i = 0; i < count; i++)
		if (cudaProfilerStart())
			die("cudaProfilerStart");
}

static void do_range_ends(long count)
{
	for (long i = 0; i < count; i++)
		if (cudaProfilerStop())
			die("cudaProfilerStop");
}

/* A child with a range of its own, its parent having not used CUDA. */
static void do_fork_range(long count)
{
	pid_t child = fork();
	int status;

	if (!child) {
		launch("in_child", 1);
		do_range(1);
		launch("in_child", count);
		do_range_ends(1);
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		die("the forked child");
}

static void ready(const struct pfw_segment *segment, void *user)
{
	(void)user;
	printf("ready %lu %lu %lu\n", (unsigned long)segment->cycle,
	       (unsigned long)segment->first_step, (unsigned long)segment->steps);
}

static void do_hook(long count)
{
	(void)count;
	pfw_on_trace_ready(ready, NULL);
}

static void do_step(long count)
{
	for (long i = 0; i < count; i++)
		pfw_step();
}

static void do_dump(long count)
{
	(void)count;
	if (pfw_dump("asked"))
		die("pfw_dump");
}

static void do_flush(long count)
{
	(void)count;
	if (pfw_flush())
		die("pfw_flush");
}

static void do_sleep(long count)
{
	usleep((useconds_t)count * 1000);
}

static void do_exec(long count)
{
	(void)count;
	execl("/bin/true", "true", (char *)NULL);
}

static void do_underscore_exit(long count)
{
	_exit((int)count - 1);
}

static void do_abort(long count)
{
	(void)count;
	abort();
}

#ifdef PFW_TARGET_IS_CLIENT
/* ---- what torch.profiler does with CUPTI ---- */

static struct {
	_Atomic long kernels, calls;
	_Atomic long buffers; /* in CUPTI's hands */
} seen;

static void client_requested(uint8_t **buffer, size_t *bytes, size_t *most)
{
	*bytes = 1 << 20;
	*buffer = malloc(*bytes);
	*most = 0;
	seen.buffers++;
}

static void client_completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes,
			     size_t valid)
{
	CUpti_Activity *record = NULL;

	(void)context;
	(void)stream;
	(void)bytes;
	while (!cuptiActivityGetNextRecord(buffer, valid, &record)) {
		seen.kernels += record->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
		seen.calls += record->kind == CUPTI_ACTIVITY_KIND_RUNTIME;
	}
	seen.buffers--;
	free(buffer);
}

/* Its subscription, as torch.profiler below 2.15 has one from its first profile on. */
static CUpti_SubscriberHandle subscription;
static long unloads;

static void client_called(void *user, CUpti_CallbackDomain domain, CUpti_CallbackId cbid,
			  const void *data)
{
	if (user != &unloads || domain != CUPTI_CB_DOMAIN_DRIVER_API ||
	    cbid != CUPTI_DRIVER_TRACE_CBID_cuModuleUnload)
		die("a callback that it has not enabled");
	unloads += ((const CUpti_CallbackData *)data)->callbackSite == CUPTI_API_ENTER;
}

static void do_subscribe(long count)
{
	(void)count;
	if (cuptiSubscribe(&subscription, client_called, &unloads) ||
	    cuptiEnableCallback(1, subscription, CUPTI_CB_DOMAIN_DRIVER_API,
				CUPTI_DRIVER_TRACE_CBID_cuModuleUnload))
		die("subscribing");
}

static void do_mute(long count)
{
	(void)count;
	if (cuptiEnableCallback(0, subscription, CUPTI_CB_DOMAIN_DRIVER_API,
				CUPTI_DRIVER_TRACE_CBID_cuModuleUnload))
		die("muting");
}

static void do_unsubscribe(long count)
{
	(void)count;
	if (cuptiUnsubscribe(subscription))
		die("unsubscribing");
}

/* So many unloads were reported. */
static void do_told(long count)
{
	if (unloads != count)
		die("the callbacks");
}

/* N launches in a profile of its own.  It fetches its buffers after it has disabled its kinds, and only if
 * CUPTI still holds one. */
static void do_profile(long count)
{
	long before = seen.kernels;

	if (cuptiActivityRegisterCallbacks(client_requested, client_completed) ||
	    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) ||
	    cuptiActivityEnable(CUPTI_ACTIVITY_KIND_RUNTIME))
		die("the profile's beginning");
	launch("in_profile", count);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
	cuptiActivityDisable(CUPTI_ACTIVITY_KIND_RUNTIME);
	if (count && !seen.buffers)
		die("a buffer that it has not fetched");
	cuptiActivityFlushAll(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
	if (seen.kernels - before != count)
		die("the profile");
}
#endif

static const struct {
	const char *word;
	void (*action)(long count);
} actions[] = {
	{ "init", do_init },
#ifdef PFW_TARGET_IS_CLIENT
	{ "subscribe", do_subscribe },
	{ "mute", do_mute },
	{ "unsubscribe", do_unsubscribe },
	{ "told", do_told },
#endif
	{ "init_fails", do_init_fails },
	{ "launch", do_launch },
	{ "mangled", do_mangled },
	{ "nested", do_nested },
	{ "driver", do_driver },
	{ "module", do_module },
	{ "unload", do_unload },
	{ "copies", do_copies },
	{ "graph", do_graph },
	{ "sync", do_sync },
	{ "noise", do_noise },
	{ "spans", do_spans },
	{ "span_first", do_span_first },
#ifdef NVTX_VERSION
	{ "nvtx", do_nvtx },
	{ "nvtx_names", do_nvtx_names },
#endif
	{ "read", do_read },
	{ "threads", do_threads },
	{ "fork", do_fork },
	{ "fork_launch", do_fork_launch },
	{ "stop", do_stop },
	{ "start", do_start },
	{ "range", do_range },
	{ "range_ends", do_range_ends },
	{ "fork_range", do_fork_range },
	{ "hook", do_hook },
	{ "step", do_step },
#ifdef PFW_TARGET_IS_CLIENT
	{ "profile", do_profile },
#endif
	{ "flush", do_flush },
	{ "dump", do_dump },
	{ "sleep", do_sleep },
	{ "exec", do_exec },
	{ "_exit", do_underscore_exit },
	{ "abort", do_abort },
};

static void act(const char *word)
{
	size_t bytes = strcspn(word, "=");
	long count = word[bytes] ? strtol(word + bytes + 1, NULL, 10) : 1;

	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strlen(actions[i].word) == bytes && !strncmp(actions[i].word, word, bytes)) {
			actions[i].action(count);
			return;
		}
	fprintf(stderr, "target: no word %s\n", word);
	exit(2);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		act(argv[i]);
	return 0;
}
