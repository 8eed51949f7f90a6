/* real.cu - a program that uses a real GPU, for tests/gpu/run: one word, one thing it does.
 *
 * real WORD[=N]...: vectors, tiny=N launches, streams=N, graph=N, managed, async=N, peer, spans=N, nvtx=N,
 * ranges=N; or record=FILE: the words behind it with a CUPTI client of its own, which writes its raw buffers
 * to FILE for tests/gpu/iterate.c (not traced: there is one client at a time).
 */
#include <cuda_profiler_api.h>
#include <cuda_runtime.h>
#include <cupti_result.h>
#include <cupti_version.h>
#include <cupti_activity.h>
#include <pfw/pfw.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <algorithm>
#include <mutex>
#include <vector>

#if __has_include(<nvtx3/nvToolsExtCudaRt.h>)
#include <nvtx3/nvToolsExt.h>

#include <nvtx3/nvToolsExtCudaRt.h>
#endif

#define COUNT (1 << 20)

static void check(cudaError_t error, const char *what)
{
	if (error == cudaSuccess)
		return;
	fprintf(stderr, "real: %s: %s\n", what, cudaGetErrorString(error));
	exit(3);
}
#define CHECK(call) check(call, #call)

__global__ void add_vectors(const float *a, const float *b, float *c, int count)
{
	int i = blockIdx.x * blockDim.x + threadIdx.x;

	if (i < count)
		c[i] = a[i] + b[i];
}

__global__ void tiny_kernel(int *counter)
{
	if (counter && !threadIdx.x)
		*counter += 1;
}

static void do_vectors(long times)
{
	float *host = (float *)malloc(COUNT * sizeof(float)), *a, *b, *c;

	for (int i = 0; i < COUNT; i++)
		host[i] = (float)i;
	CHECK(cudaMalloc(&a, COUNT * sizeof(float)));
	CHECK(cudaMalloc(&b, COUNT * sizeof(float)));
	CHECK(cudaMalloc(&c, COUNT * sizeof(float)));
	for (long i = 0; i < times; i++) {
		CHECK(cudaMemcpy(a, host, COUNT * sizeof(float), cudaMemcpyHostToDevice));
		CHECK(cudaMemset(b, 0, COUNT * sizeof(float)));
		add_vectors<<<COUNT / 256, 256>>>(a, b, c, COUNT);
		CHECK(cudaMemcpy(host, c, COUNT * sizeof(float), cudaMemcpyDeviceToHost));
	}
	if (host[COUNT - 1] != (float)(COUNT - 1))
		exit(4);
	CHECK(cudaFree(a));
	CHECK(cudaFree(b));
	CHECK(cudaFree(c));
	free(host);
}

static double now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec * 1e9 + (double)ts.tv_nsec;
}

/* What a launch costs the thread that makes it, the median of bursts: queues of the device are kept short. */
static void do_tiny(long times)
{
	std::vector<double> bursts;
	int *counter;

	CHECK(cudaMalloc(&counter, sizeof(*counter)));
	CHECK(cudaMemset(counter, 0, sizeof(*counter)));
	for (long i = 0; i < times; i += 500) {
		long end = std::min(i + 500, times);
		double start = now();

		for (long k = i; k < end; k++)
			tiny_kernel<<<1, 32>>>(counter);
		bursts.push_back((now() - start) / (double)(end - i));
		CHECK(cudaDeviceSynchronize());
	}
	std::sort(bursts.begin(), bursts.end());
	printf("ns_per_launch=%.1f\n", bursts.empty() ? 0 : bursts[bursts.size() / 2]);
	CHECK(cudaFree(counter));
}

static void do_streams(long times)
{
	cudaStream_t stream[4];

	for (int i = 0; i < 4; i++)
		CHECK(cudaStreamCreate(&stream[i]));
	for (long i = 0; i < times; i++)
		tiny_kernel<<<1, 32, 0, stream[i % 4]>>>(NULL);
	for (int i = 0; i < 4; i++) {
		CHECK(cudaStreamSynchronize(stream[i]));
		CHECK(cudaStreamDestroy(stream[i]));
	}
}

/* Ten kernels a graph. */
static void do_graph(long times)
{
	cudaStream_t stream;
	cudaGraph_t graph;
	cudaGraphExec_t executable;

	CHECK(cudaStreamCreate(&stream));
	CHECK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal));
	for (int i = 0; i < 10; i++)
		tiny_kernel<<<1, 32, 0, stream>>>(NULL);
	CHECK(cudaStreamEndCapture(stream, &graph));
	CHECK(cudaGraphInstantiate(&executable, graph, 0));
	for (long i = 0; i < times; i++)
		CHECK(cudaGraphLaunch(executable, stream));
	CHECK(cudaStreamSynchronize(stream));
	CHECK(cudaGraphExecDestroy(executable));
	CHECK(cudaGraphDestroy(graph));
	CHECK(cudaStreamDestroy(stream));
}

static void do_managed(long times)
{
	int *counter;

	CHECK(cudaMallocManaged(&counter, sizeof(*counter)));
	*counter = 0;
	for (long i = 0; i < times; i++) {
		tiny_kernel<<<1, 32>>>(counter);
		CHECK(cudaDeviceSynchronize());
		if (*counter != i + 1)
			exit(4);
	}
	CHECK(cudaFree(counter));
}

/* Memory of the stream's pool, and events between two streams. */
static void do_async(long times)
{
	cudaStream_t stream[2];
	cudaEvent_t event;

	CHECK(cudaStreamCreate(&stream[0]));
	CHECK(cudaStreamCreate(&stream[1]));
	CHECK(cudaEventCreate(&event));
	for (long i = 0; i < times; i++) {
		int *counter;

		CHECK(cudaMallocAsync(&counter, COUNT, stream[0]));
		CHECK(cudaMemsetAsync(counter, 0, COUNT, stream[0]));
		CHECK(cudaEventRecord(event, stream[0]));
		CHECK(cudaStreamWaitEvent(stream[1], event, 0));
		tiny_kernel<<<1, 32, 0, stream[1]>>>(counter);
		CHECK(cudaStreamSynchronize(stream[1]));
		CHECK(cudaFreeAsync(counter, stream[0]));
	}
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaEventDestroy(event));
	CHECK(cudaStreamDestroy(stream[0]));
	CHECK(cudaStreamDestroy(stream[1]));
}

static void do_peer(long times)
{
	int devices = 0;
	void *here, *there;

	CHECK(cudaGetDeviceCount(&devices));
	if (devices < 2) {
		printf("peer=none\n");
		return;
	}
	CHECK(cudaMalloc(&here, COUNT));
	CHECK(cudaSetDevice(1));
	CHECK(cudaMalloc(&there, COUNT));
	for (long i = 0; i < times; i++)
		CHECK(cudaMemcpyPeer(there, 1, here, 0, COUNT));
	CHECK(cudaDeviceSynchronize());
	CHECK(cudaSetDevice(0));
}

static void do_spans(long times)
{
	for (long i = 0; i < times; i++) {
		struct pfw_span span;

		pfw_span_begin(&span, "load", NULL);
		tiny_kernel<<<1, 32>>>(NULL);
		pfw_span_end(&span);
	}
	CHECK(cudaDeviceSynchronize());
}

/* A launch in each range, on a stream that has a name. */
static void do_nvtx(long times)
{
#ifdef NVTX_VERSION
	cudaStream_t stream;

	CHECK(cudaStreamCreate(&stream));
	nvtxNameCudaStreamA(stream, "named");
	for (long i = 0; i < times; i++) {
		nvtxRangePushA("range");
		tiny_kernel<<<1, 32, 0, stream>>>(NULL);
		nvtxRangePop();
	}
	CHECK(cudaStreamSynchronize(stream));
#else
	(void)times;
	printf("nvtx=none\n");
#endif
}

/* Five launches in each range, and others between. */
static void do_ranges(long times)
{
	for (long i = 0; i < times; i++) {
		do_tiny(3);
		CHECK(cudaProfilerStart());
		for (int k = 0; k < 5; k++)
			tiny_kernel<<<1, 32>>>(NULL);
		CHECK(cudaDeviceSynchronize());
		CHECK(cudaProfilerStop());
	}
}

/* ---- recording buffers for machines without a GPU ---- */

static FILE *recording;
static std::mutex recording_lock;

static void requested(uint8_t **buffer, size_t *bytes, size_t *most)
{
	*bytes = 1 << 16;
	*buffer = (uint8_t *)aligned_alloc(8, *bytes);
	*most = 0;
}

/* Bytes, the buffer, and the names that its kernels point to, in their order. */
static void completed(CUcontext context, uint32_t stream, uint8_t *buffer, size_t bytes, size_t valid)
{
	std::lock_guard<std::mutex> guard(recording_lock);
	CUpti_Activity *record = NULL;
	uint32_t valid32 = (uint32_t)valid;

	(void)context;
	(void)stream;
	(void)bytes;
	fwrite(&valid32, sizeof(valid32), 1, recording);
	fwrite(buffer, valid, 1, recording);
	while (valid && cuptiActivityGetNextRecord(buffer, valid, &record) == CUPTI_SUCCESS) {
		if (record->kind != CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			continue;
		const char *name = ((CUpti_ActivityKernel9 *)record)->name;
		uint32_t length = (uint32_t)strlen(name);

		fwrite(&length, sizeof(length), 1, recording);
		fwrite(name, length, 1, recording);
	}
	free(buffer);
}

static const CUpti_ActivityKind recorded_kinds[] = {
	CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY,   CUPTI_ACTIVITY_KIND_MEMCPY2,
	CUPTI_ACTIVITY_KIND_MEMSET,	       CUPTI_ACTIVITY_KIND_RUNTIME,  CUPTI_ACTIVITY_KIND_DRIVER,
	CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,   CUPTI_ACTIVITY_KIND_OVERHEAD, CUPTI_ACTIVITY_KIND_CUDA_EVENT,
	CUPTI_ACTIVITY_KIND_MEMORY2,	       CUPTI_ACTIVITY_KIND_MEMORY_POOL,
};

static void begin_recording(const char *path)
{
	uint32_t version = 0;

	CHECK(cudaFree(0));
	recording = fopen(path, "wb");
	if (!recording || cuptiGetVersion(&version)) {
		fprintf(stderr, "real: %s cannot be written, or there is no CUPTI\n", path);
		exit(3);
	}
	fwrite("PFWGPU1\n", 8, 1, recording);
	fwrite(&version, sizeof(version), 1, recording);
	cuptiSetThreadIdType(CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
	cuptiActivityRegisterCallbacks(requested, completed);
	for (CUpti_ActivityKind kind : recorded_kinds)
		cuptiActivityEnable(kind);
}

static const struct {
	const char *word;
	void (*action)(long times);
} actions[] = {
	{ "vectors", do_vectors }, { "tiny", do_tiny },	      { "streams", do_streams },
	{ "graph", do_graph },	   { "managed", do_managed }, { "peer", do_peer },
	{ "spans", do_spans },	   { "nvtx", do_nvtx },	      { "ranges", do_ranges },
	{ "async", do_async },
};

static void act(const char *word)
{
	size_t bytes = strcspn(word, "=");
	long times = word[bytes] ? strtol(word + bytes + 1, NULL, 10) : 1;

	if (!strncmp(word, "record=", 7))
		return begin_recording(word + 7);
	for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
		if (strlen(actions[i].word) == bytes && !strncmp(actions[i].word, word, bytes))
			return actions[i].action(times);
	fprintf(stderr, "real: no word %s\n", word);
	exit(2);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		act(argv[i]);
	if (recording) {
		cudaDeviceSynchronize();
		cuptiActivityFlushAll(1);
		fclose(recording);
	}
	return 0;
}
