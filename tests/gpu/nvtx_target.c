/* nvtx_target.c - a program that uses NVTX through NVIDIA's own header, for test_nvtx.
 *
 * Arguments, done in their order:
 *   nest            ranges pushed within each other; prints the depths that NVTX returns
 *   domains         two domains and the default one, interleaved; registered strings, categories
 *   attributes      a mark for each kind of payload, with a colour
 *   wide            wide messages
 *   ranges          started here, some ended by another thread
 *   many N          N ranges started, then ended; then as many again
 *   deep N          N pushed, then popped
 *   name TEXT       of this thread
 *   threads N       N threads, one after the other: a range, within one that is left open
 *   steps N NAME    N times: push NAME with %d, read a byte of "data", pop
 *   spans N NAME    the same with pfw_span_begin()
 *   fork, stop, start
 *   cost N          ns of two readings of the clock, of a pair of push and pop, and of a pfw span:
 *                   the first is what the others cannot do without
 */
#include <nvtx3/nvToolsExt.h>

#include <pfw/pfw.h>

#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "recorder/marks/nvtx_abi.h"

#define COST_ROUNDS 50

/* Ours is what NVIDIA's header says. */
#define SAME(member, theirs)                                            \
	_Static_assert(offsetof(struct pfw_nvtx_attributes, member) ==  \
			       offsetof(nvtxEventAttributes_t, theirs), \
		       #member)
SAME(version, version);
SAME(size, size);
SAME(category, category);
SAME(color_type, colorType);
SAME(color, color);
SAME(payload_type, payloadType);
SAME(payload, payload);
SAME(message_type, messageType);
SAME(message, message);
_Static_assert(sizeof(struct pfw_nvtx_attributes) == sizeof(nvtxEventAttributes_t), "attributes");
_Static_assert((int)PFW_NVTX_PAYLOAD_F32 == (int)NVTX_PAYLOAD_TYPE_FLOAT, "payloads");
_Static_assert((int)PFW_NVTX_MESSAGE_REGISTERED == (int)NVTX_MESSAGE_TYPE_REGISTERED, "messages");
_Static_assert((int)PFW_NVTX_NameOsThreadW == (int)NVTX_CBID_CORE_NameOsThreadW, "CORE");
_Static_assert((int)PFW_NVTX_RangePop == (int)NVTX_CBID_CORE_RangePop, "CORE");
_Static_assert((int)PFW_NVTX_DomainRangePop == (int)NVTX_CBID_CORE2_DomainRangePop, "CORE2");
_Static_assert((int)PFW_NVTX_DomainCreateW == (int)NVTX_CBID_CORE2_DomainCreateW, "CORE2");
_Static_assert((int)PFW_NVTX_CORE2 == (int)NVTX_CB_MODULE_CORE2, "modules");

static nvtxEventAttributes_t said(const char *message)
{
	nvtxEventAttributes_t attributes = { 0 };

	attributes.version = NVTX_VERSION;
	attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
	attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
	attributes.message.ascii = message;
	return attributes;
}

static void nest(void)
{
	nvtxEventAttributes_t inner = said("inner");

	printf("%d", nvtxRangePushA("outer"));
	printf(" %d", nvtxRangePushEx(&inner));
	nvtxMarkA("mark");
	printf(" %d", nvtxRangePop());
	printf(" %d", nvtxRangePop());
	printf(" %d\n", nvtxRangePop() < 0);
}

static void domains(void)
{
	nvtxDomainHandle_t one = nvtxDomainCreateA("one"), two = nvtxDomainCreateW(L"tw\u00f6");
	nvtxStringHandle_t string = nvtxDomainRegisterStringA(one, "registered");
	nvtxEventAttributes_t a = said(NULL), b = said("b");

	a.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
	a.message.registered = string;
	nvtxDomainNameCategoryA(one, 7, "seventh");
	nvtxNameCategoryA(7, "default's");
	a.category = 7;
	b.category = 7;
	printf("%d", nvtxDomainRangePushEx(one, &a));
	printf(" %d", nvtxDomainRangePushEx(two, &b));
	printf(" %d", nvtxRangePushEx(&b));
	printf(" %d", nvtxDomainRangePushEx(one, &a));
	/* Not the topmost one first. */
	printf(" %d", nvtxDomainRangePop(two));
	printf(" %d", nvtxDomainRangePop(one));
	printf(" %d", nvtxRangePop());
	printf(" %d\n", nvtxDomainRangePop(one));
	nvtxDomainMarkEx(one, &a);
	nvtxDomainDestroy(two);
}

static void attributes(void)
{
	nvtxEventAttributes_t a = said("payload");

	a.colorType = NVTX_COLOR_ARGB;
	a.color = 0xff00a1b2;
	a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
	a.payload.ullValue = 18446744073709551615ull;
	nvtxMarkEx(&a);
	a.payloadType = NVTX_PAYLOAD_TYPE_INT64;
	a.payload.llValue = -5;
	nvtxMarkEx(&a);
	a.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
	a.payload.dValue = 0.1;
	nvtxMarkEx(&a);
	a.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
	a.payload.uiValue = 4294967295u;
	nvtxMarkEx(&a);
	a.payloadType = NVTX_PAYLOAD_TYPE_INT32;
	a.payload.iValue = -6;
	nvtxMarkEx(&a);
	a.payloadType = NVTX_PAYLOAD_TYPE_FLOAT;
	a.payload.fValue = 0.5f;
	nvtxMarkEx(&a);
}

static void wide(void)
{
	nvtxRangePushW(L"w\u00eft\u4e16\U0001f600");
	nvtxRangePop();
	nvtxMarkW(L"");
	nvtxMarkA(NULL);
}

static void *end_range(void *id)
{
	nvtxRangeEnd(*(nvtxRangeId_t *)id);
	return NULL;
}

static void in_thread(void *(*work)(void *), void *arg)
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, work, arg))
		exit(4);
	pthread_join(thread, NULL);
}

static void ranges(void)
{
	nvtxRangeId_t a = nvtxRangeStartA("here"), b = nvtxRangeStartA("elsewhere");

	nvtxRangePushA("within");
	nvtxRangePop();
	in_thread(end_range, &b);
	nvtxRangeEnd(a);
	nvtxRangeEnd(a); /* it is over */
	nvtxRangeEnd(0);
	nvtxRangeEnd(~0ull);
}

static void many(long n)
{
	nvtxRangeId_t *id = calloc((size_t)n, sizeof(*id));

	for (int twice = 0; twice < 2; twice++) {
		for (long i = 0; i < n; i++)
			id[i] = nvtxRangeStartA("many");
		for (long i = n; i-- > 0;)
			nvtxRangeEnd(id[i]);
	}
	free(id);
}

static void deep(long n)
{
	for (long i = 0; i < n; i++)
		nvtxRangePushA("deep");
	for (long i = 0; i < n; i++)
		nvtxRangePop();
}

static void *one_range(void *unused)
{
	nvtxRangePushA("left open");
	nvtxRangePushA("thread");
	nvtxRangePop();
	return unused;
}

static void work(long step)
{
	static int file = -1;
	char byte;

	if (file < 0)
		file = open("data", O_RDONLY);
	if (pread(file, &byte, 1, step) < 0)
		exit(5);
}

static void steps(long n, const char *name)
{
	char text[100];

	for (long i = 0; i < n; i++) {
		snprintf(text, sizeof(text), name, (int)i);
		nvtxRangePushA(text);
		work(i);
		nvtxRangePop();
	}
}

static void spans(long n, const char *name)
{
	struct pfw_span span;
	char text[100];

	for (long i = 0; i < n; i++) {
		snprintf(text, sizeof(text), name, (int)i);
		pfw_span_begin(&span, text, NULL);
		work(i);
		pfw_span_end(&span);
	}
}

static void fork_child(void)
{
	int status = 1;
	pid_t child;

	nvtxRangePushA("around a fork");
	child = fork();
	if (!child) {
		nvtxRangePop(); /* the line is the parent's */
		nvtxRangePushA("child's");
		nvtxRangePop();
		exit(0);
	}
	if (waitpid(child, &status, 0) != child || status)
		exit(6);
	nvtxRangePop();
}

static void nvtx_pair(void)
{
	nvtxRangePushA("pair");
	nvtxRangePop();
}

static void span_pair(void)
{
	struct pfw_span span;

	pfw_span_begin(&span, "pair", "PP");
	pfw_span_end(&span);
}

/* The recorder's clock: the counter where the kernel keeps time by it. */
static bool has_counter(void)
{
	char name[20] = "";
	FILE *file =
		fopen("/sys/devices/system/clocksource/clocksource0/current_clocksource", "re");

	if (file && !fgets(name, sizeof(name), file))
		name[0] = '\0';
	if (file)
		fclose(file);
	return !strcmp(name, "tsc\n");
}

static void counter_pair(void)
{
#ifdef __x86_64__
	__asm__ volatile("" : : "r"(__builtin_ia32_rdtsc()));
	__asm__ volatile("" : : "r"(__builtin_ia32_rdtsc()));
#endif
}

static void clock_pair(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	clock_gettime(CLOCK_MONOTONIC, &now);
}

static double cpu_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

/* In turn, so that what else the machine does falls on all alike; the least of each. */
static void cost(long n)
{
	void (*const pairs[])(void) = { has_counter() ? counter_pair : clock_pair, nvtx_pair,
					span_pair };
	double least[3] = { 1e9, 1e9, 1e9 }, ns;

	for (int turn = 0; turn < 3 * COST_ROUNDS; turn++) {
		void (*pair)(void) = pairs[turn % 3];

		ns = cpu_ns();
		for (long i = 0; i < n / COST_ROUNDS; i++)
			pair();
		ns = (cpu_ns() - ns) / ((double)n / COST_ROUNDS);
		least[turn % 3] = ns < least[turn % 3] ? ns : least[turn % 3];
	}
	printf("{\"clock_ns\":%.1f,\"nvtx_ns\":%.1f,\"span_ns\":%.1f}\n", least[0], least[1],
	       least[2]);
}

static int one(char **arg)
{
	if (!strcmp(*arg, "nest"))
		nest();
	else if (!strcmp(*arg, "domains"))
		domains();
	else if (!strcmp(*arg, "attributes"))
		attributes();
	else if (!strcmp(*arg, "wide"))
		wide();
	else if (!strcmp(*arg, "ranges"))
		ranges();
	else if (!strcmp(*arg, "fork"))
		fork_child();
	else if (!strcmp(*arg, "stop"))
		pfw_stop();
	else if (!strcmp(*arg, "start"))
		pfw_start(NULL);
	else if (!arg[1])
		exit(2);
	else if (!strcmp(*arg, "many"))
		return many(atol(arg[1])), 2;
	else if (!strcmp(*arg, "deep"))
		return deep(atol(arg[1])), 2;
	else if (!strcmp(*arg, "name"))
		return nvtxNameOsThreadA((uint32_t)syscall(SYS_gettid), arg[1]), 2;
	else if (!strcmp(*arg, "cost"))
		return cost(atol(arg[1])), 2;
	else if (!strcmp(*arg, "threads"))
		for (long n = atol(arg[1]); n > 0; n--)
			in_thread(one_range, NULL);
	else if (!strcmp(*arg, "steps"))
		return steps(atol(arg[1]), arg[2]), 3;
	else if (!strcmp(*arg, "spans"))
		return spans(atol(arg[1]), arg[2]), 3;
	else
		exit(2);
	return strcmp(*arg, "threads") ? 1 : 2;
}

int main(int argc, char **argv)
{
	(void)argc;
	for (char **arg = argv + 1; *arg;)
		arg += one(arg);
	fflush(stdout);
	return 0;
}
