/* cupti.c - a stand-in for libcupti: buffers, callbacks and records as the real one gives them. */
#include <cupti_result.h>
#include <cupti_version.h>

#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "standin.h"

#define CLIENTS 4
#define SHARED_VERSION 130300
#define STACK 64
#define EXTERNAL_KINDS 8
#define API_CALLS 1024
#define UNKNOWN_KIND 200
#define UNKNOWN_BYTES 64

/* ---- rules ---- */

static long version_now(void)
{
	static long version;

	if (!version)
		version = standin_knob("version", CUPTI_API_VERSION);
	return version;
}

static void broken(const char *function, const char *rule)
{
	fprintf(stderr, "stand-in CUPTI: cupti%s called %s\n", function, rule);
	abort();
}

/* What STANDIN says that this function is to answer: "fail=Subscribe:39". */
static CUptiResult failure(const char *function)
{
	const char *at = getenv("STANDIN");
	size_t bytes = strlen(function);

	while (at && (at = strstr(at, "fail=")) != NULL) {
		at += strlen("fail=");
		if (!strncmp(at, function, bytes) && at[bytes] == ':')
			return (CUptiResult)strtol(at + bytes + 1, NULL, 10);
	}
	return CUPTI_SUCCESS;
}

/* Where the real library crashes, hangs or lies, this one says so and aborts. */
static CUptiResult enter(const char *function)
{
	if (standin_gone)
		broken(function, "after the driver has gone");
	if (!standin_initialized)
		broken(function, "before cuInit has succeeded in this process");
	return failure(function);
}

#define ENTER(function)                               \
	do {                                          \
		CUptiResult failed = enter(function); \
                                                      \
		if (failed)                           \
			return failed;                \
	} while (0)

static uint64_t clock_ahead(void)
{
	static long ahead = -1;

	if (ahead < 0)
		ahead = standin_knob("clock", 0);
	return (uint64_t)ahead;
}

/* ---- clients and their buffers ---- */

struct buffer {
	struct buffer *next;
	uint8_t *bytes;
	size_t size, used;
	bool incomplete;
};

enum { HOST, DEVICE, SIDES };

/* The one client of V1, and behind it the subscribers of V2. */
struct client {
	bool used;
	CUpti_BuffersCallbackRequestFunc requested;
	CUpti_BuffersCallbackCompleteFunc completed;
	/* V2's, whose types older headers do not have. */
	void (*requested_v2)(uint8_t **bytes, size_t *size, size_t *max_records, void *info);
	void (*completed_v2)(uint8_t *bytes, size_t size, size_t valid, void *info);
	uint64_t kinds;
	uint8_t call[API_CALLS]; /* 1: that one on, 2: off */
	struct buffer *current[SIDES];
	struct buffer *full, *held; /* full ones; full ones with records that are not */
	size_t dropped;
};

struct CUpti_Subscriber_st {
	bool used, several;
	CUpti_CallbackFunc callback;
	void *user;
	char name[64];
	uint8_t enabled[API_CALLS]; /* of the driver's calls */
	bool context;
	struct client *client;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
/* Of full buffers, which the worker takes while a program's thread is in `lock`; below that one. */
static pthread_mutex_t queue = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t work_there = PTHREAD_COND_INITIALIZER;
static pthread_cond_t work_done = PTHREAD_COND_INITIALIZER;
static struct client clients[CLIENTS];
static struct CUpti_Subscriber_st subscribers[CLIENTS];
static bool worker_there;
static int delivering;
static uint64_t written;

struct stack {
	uint64_t id[STACK];
	unsigned depth;
};
static __thread struct stack stacks[CLIENTS][EXTERNAL_KINDS];

static bool wants(const struct client *client, uint32_t kind)
{
	return kind < 64 && client->kinds & 1ull << kind;
}

/* What the real libraries were measured to use. */
static size_t stride_of(uint32_t kind)
{
	long version = version_now();

	switch (kind) {
	case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
		return version < 130000	  ? 208
		       : version < 130100 ? 216
		       : version < 130300 ? 224
		       : version < 130400 ? 232
					  : 248;
	case CUPTI_ACTIVITY_KIND_MEMCPY:
		return version < 130000 ? 88 : 96;
	case CUPTI_ACTIVITY_KIND_MEMCPY2:
		return 96;
	case CUPTI_ACTIVITY_KIND_MEMSET:
		return 88;
	case CUPTI_ACTIVITY_KIND_RUNTIME:
	case CUPTI_ACTIVITY_KIND_DRIVER:
		return 40;
	case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
		return 24;
	case CUPTI_ACTIVITY_KIND_NAME:
		return 32;
	case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
		return version < 130000 ? 40 : 56;
	case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
		return version < 130000 ? 24 : 56;
	case CUPTI_ACTIVITY_KIND_OVERHEAD:
		return version < 130000 ? 40 : 56;
	case CUPTI_ACTIVITY_KIND_MEMORY2:
		return version < 130000 ? 120 : 128;
	case UNKNOWN_KIND:
		return UNKNOWN_BYTES;
	default:
		return 0;
	}
}

static void append(struct buffer **list, struct buffer *buffer)
{
	buffer->next = NULL;
	while (*list)
		list = &(*list)->next;
	*list = buffer;
}

/* Hand over a list of buffers.  Without the lock, as the real one does. */
static void deliver(struct client *client, struct buffer *list)
{
	uint64_t info[4] = { sizeof(info) };
	long slow_ms = standin_knob("deliver_ms", 0);

	while (list) {
		struct buffer *buffer = list;

		list = list->next;
		if (slow_ms)
			usleep((useconds_t)slow_ms * 1000);
		if (client->completed_v2)
			client->completed_v2(buffer->bytes, buffer->size, buffer->used, info);
		else if (client->completed)
			client->completed(NULL, 0, buffer->bytes, buffer->size, buffer->used);
		free(buffer);
	}
}

static bool any_full(void)
{
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].full)
			return true;
	return false;
}

/* CUPTI's own thread: full buffers. */
static void *worker(void *unused)
{
	(void)unused;
	pthread_mutex_lock(&queue);
	for (;;) {
		while (!any_full())
			pthread_cond_wait(&work_there, &queue);
		for (int i = 0; i < CLIENTS; i++) {
			struct buffer *list = clients[i].full;

			if (!list)
				continue;
			clients[i].full = NULL;
			delivering++;
			pthread_mutex_unlock(&queue);
			deliver(&clients[i], list);
			pthread_mutex_lock(&queue);
			delivering--;
			pthread_cond_broadcast(&work_done);
		}
	}
	return NULL;
}

static void put_away(struct client *client, struct buffer *buffer)
{
	pthread_t thread;

	if (!buffer)
		return;
	pthread_mutex_lock(&queue);
	append(buffer->incomplete ? &client->held : &client->full, buffer);
	pthread_mutex_unlock(&queue);
	if (!worker_there)
		worker_there = !pthread_create(&thread, NULL, worker, NULL);
	pthread_cond_signal(&work_there);
}

/* Under the lock, also the callback: who waits there for somebody that waits for us is caught. */
static struct buffer *request(struct client *client)
{
	uint64_t info[1] = { sizeof(info) };
	struct buffer *buffer = calloc(1, sizeof(*buffer));
	size_t max_records = 0;

	if (client->requested_v2)
		client->requested_v2(&buffer->bytes, &buffer->size, &max_records, info);
	else if (client->requested)
		client->requested(&buffer->bytes, &buffer->size, &max_records);
	if (buffer->bytes)
		return buffer;
	if (version_now() < 28)
		broken("'s launch", "with a client that has no buffer for a CUPTI before 12.9");
	free(buffer);
	return NULL;
}

static void write_record(struct client *client, const void *record, size_t bytes, bool incomplete)
{
	uint32_t kind = *(const uint32_t *)record;
	size_t stride = kind ? stride_of(kind) : 8;
	static int split = -1;
	bool device;
	struct buffer **current, *buffer;

	if (split < 0)
		split = (int)standin_knob("split", 0);
	device = split && (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL ||
			   kind == CUPTI_ACTIVITY_KIND_MEMCPY);
	current = &client->current[device ? DEVICE : HOST];
	buffer = *current;
	if (buffer && buffer->used + stride > buffer->size) {
		put_away(client, buffer);
		buffer = *current = NULL;
	}
	if (!buffer)
		buffer = *current = request(client);
	if (!buffer) {
		client->dropped++;
		return;
	}
	memset(buffer->bytes + buffer->used, 0xa5, stride); /* no field is 0 by chance */
	memcpy(buffer->bytes + buffer->used, record, bytes < stride ? bytes : stride);
	buffer->used += stride;
	buffer->incomplete |= incomplete;
}

/* What a later version might add, and what this one itself cannot step over. */
static void write_strange(struct client *client)
{
	static long unknown = -1, invalid;
	uint8_t record[UNKNOWN_BYTES] = { UNKNOWN_KIND };

	if (unknown < 0) {
		unknown = standin_knob("unknown", 0);
		invalid = standin_knob("invalid", 0);
	}
	written++;
	if (unknown && written % (uint64_t)unknown == 0)
		write_record(client, record, sizeof(record), false);
	record[0] = 0;
	if (invalid && written % (uint64_t)invalid == 0)
		write_record(client, record, 8, false);
}

/* ---- what the driver tells ---- */

static void tell(const struct standin_call *call, CUpti_ApiCallbackSite site)
{
	CUpti_CallbackData data = { .callbackSite = site,
				    .functionName = call->name,
				    .correlationId = call->correlation };

	for (int i = 0; i < CLIENTS; i++)
		if (subscribers[i].used && call->domain == CUPTI_CB_DOMAIN_DRIVER_API &&
		    subscribers[i].enabled[call->cbid])
			subscribers[i].callback(subscribers[i].user, CUPTI_CB_DOMAIN_DRIVER_API,
						call->cbid, &data);
}

static void on_context(void)
{
	CUpti_ResourceData data = { 0 };

	for (int i = 0; i < CLIENTS; i++)
		if (subscribers[i].used && subscribers[i].context)
			subscribers[i].callback(subscribers[i].user, CUPTI_CB_DOMAIN_RESOURCE,
						CUPTI_CBID_RESOURCE_CONTEXT_CREATED, &data);
}

static void on_enter(const struct standin_call *call)
{
	tell(call, CUPTI_API_ENTER);
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CLIENTS; i++)
		for (int kind = 0; kind < EXTERNAL_KINDS; kind++) {
			const struct stack *stack = &stacks[i][kind];
			CUpti_ActivityExternalCorrelation record = {
				.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION,
				.externalKind = (CUpti_ExternalCorrelationKind)kind,
				.correlationId = call->correlation
			};

			if (!stack->depth ||
			    !wants(&clients[i], CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION))
				continue;
			record.externalId = stack->id[stack->depth - 1];
			write_record(&clients[i], &record, sizeof(record), false);
		}
	pthread_mutex_unlock(&lock);
}

static bool wants_call(const struct client *client, const struct standin_call *call)
{
	bool driver = call->domain == CUPTI_CB_DOMAIN_DRIVER_API;
	uint8_t one = driver ? 0 : client->call[call->cbid];

	if (one)
		return one == 1;
	return wants(client, driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME);
}

static void on_leave(const struct standin_call *call)
{
	CUpti_ActivityAPI record = { .kind = call->domain == CUPTI_CB_DOMAIN_DRIVER_API
						     ? CUPTI_ACTIVITY_KIND_DRIVER
						     : CUPTI_ACTIVITY_KIND_RUNTIME,
				     .cbid = call->cbid,
				     .start = call->start + clock_ahead(),
				     .end = call->end + clock_ahead(),
				     .processId = (uint32_t)getpid(),
				     .threadId = call->thread,
				     .correlationId = call->correlation };

	pthread_mutex_lock(&lock);
	for (int i = 0; i < CLIENTS; i++)
		if (clients[i].used && wants_call(&clients[i], call)) {
			write_record(&clients[i], &record, sizeof(record), false);
			write_strange(&clients[i]);
		}
	pthread_mutex_unlock(&lock);
	tell(call, CUPTI_API_EXIT);
}

static bool nth(const char *key, long *every, uint64_t number)
{
	if (*every < 0)
		*every = standin_knob(key, 0);
	return *every && number % (uint64_t)*every == 0;
}

/* A device, a context and two streams; the text is gone afterwards. */
static void write_names(struct client *client)
{
	static const struct {
		CUpti_ActivityObjectKind kind;
		uint32_t stream;
		const char *name;
	} names[] = { { CUPTI_ACTIVITY_OBJECT_DEVICE, 0, "first" },
		      { CUPTI_ACTIVITY_OBJECT_CONTEXT, 0, "main" },
		      { CUPTI_ACTIVITY_OBJECT_STREAM, 7, "the \"default\"" },
		      { CUPTI_ACTIVITY_OBJECT_STREAM, 9, "copies" },
		      { CUPTI_ACTIVITY_OBJECT_PROCESS, 0, "nobody" } };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		CUpti_ActivityName record = { .kind = CUPTI_ACTIVITY_KIND_NAME,
					      .objectKind = names[i].kind,
					      .name = names[i].name };

		record.objectId.dcs.contextId = 1;
		record.objectId.dcs.streamId = names[i].stream;
		write_record(client, &record, sizeof(record), false);
	}
}

/* Where STANDIN says so, before the first kernel or behind it. */
static void write_names_once(struct client *client, bool late)
{
	static bool written_names;

	if (written_names || !wants(client, CUPTI_ACTIVITY_KIND_NAME) ||
	    standin_knob("names", 0) != 1 + late)
		return;
	written_names = true;
	write_names(client);
}

static void write_kernel(struct client *client, const struct standin_work *work)
{
	static long untimed = -1, skewed = -1, running = -1;
	static uint64_t number;
	struct {
		CUpti_ActivityKernel9 base;
		uint8_t later[64];
	} record = { .base = { .kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
			       .registersPerThread = 32,
			       .start = work->start,
			       .end = work->end,
			       .deviceId = work->device,
			       .contextId = work->context,
			       .streamId = work->stream,
			       .gridX = (int32_t)work->grid[0],
			       .gridY = (int32_t)work->grid[1],
			       .gridZ = (int32_t)work->grid[2],
			       .blockX = (int32_t)work->block[0],
			       .blockY = (int32_t)work->block[1],
			       .blockZ = (int32_t)work->block[2],
			       .staticSharedMemory = 1024,
			       .dynamicSharedMemory = (int32_t)work->dynamic_smem,
			       .correlationId = work->correlation,
			       .name = work->name,
			       .graphId = work->graph,
			       .graphNodeId = work->graph_node,
			       .channelID = 3,
			       .channelType = CUPTI_CHANNEL_TYPE_COMPUTE } };
	int32_t priority = -5;
	bool late;

	memset(record.later, 0xa5, sizeof(record.later));
	memcpy((char *)&record + 216, &priority, sizeof(priority));
	number++;
	late = nth("running", &running, number);
	if (late)
		record.base.end = 0;
	if (nth("untimed", &untimed, number))
		record.base.start = record.base.end = 0;
	if (nth("skewed", &skewed, number))
		record.base.start = work->start - 9000;
	write_record(client, &record, sizeof(record), late);
}

static void write_copy(struct client *client, const struct standin_work *work)
{
	CUpti_ActivityMemcpy5 copy = { .kind = CUPTI_ACTIVITY_KIND_MEMCPY,
				       .copyKind = (uint8_t)work->copy_kind,
				       .srcKind = (uint8_t)work->src_kind,
				       .dstKind = (uint8_t)work->dst_kind,
				       .bytes = work->bytes,
				       .start = work->start,
				       .end = work->end,
				       .deviceId = work->device,
				       .contextId = work->context,
				       .streamId = work->stream,
				       .correlationId = work->correlation };
	CUpti_ActivityMemcpyPtoP4 peer = { .kind = CUPTI_ACTIVITY_KIND_MEMCPY2,
					   .copyKind = (uint8_t)work->copy_kind,
					   .srcKind = (uint8_t)work->src_kind,
					   .dstKind = (uint8_t)work->dst_kind,
					   .bytes = work->bytes,
					   .start = work->start,
					   .end = work->end,
					   .deviceId = work->device,
					   .contextId = work->context,
					   .streamId = work->stream,
					   .srcDeviceId = work->device,
					   .dstDeviceId = work->dst_device,
					   .correlationId = work->correlation };

	if (work->kind == CUPTI_ACTIVITY_KIND_MEMCPY2)
		write_record(client, &peer, sizeof(peer), false);
	else
		write_record(client, &copy, sizeof(copy), false);
}

static void write_memset(struct client *client, const struct standin_work *work)
{
	CUpti_ActivityMemset4 record = { .kind = CUPTI_ACTIVITY_KIND_MEMSET,
					 .bytes = work->bytes,
					 .start = work->start,
					 .end = work->end,
					 .deviceId = work->device,
					 .contextId = work->context,
					 .streamId = work->stream,
					 .correlationId = work->correlation,
					 .memoryKind = (uint16_t)work->dst_kind };

	write_record(client, &record, sizeof(record), false);
}

static void write_memory(struct client *client, const struct standin_work *work)
{
	CUpti_ActivityMemory3 record = {
		.kind = CUPTI_ACTIVITY_KIND_MEMORY2,
		.memoryOperationType = (CUpti_ActivityMemoryOperationType)work->operation,
		.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE,
		.correlationId = work->correlation,
		.address = work->address,
		.bytes = work->bytes,
		.timestamp = work->start,
		.deviceId = work->device,
		.contextId = work->context,
	};

	write_record(client, &record, sizeof(record), false);
}

static void write_sync(struct client *client, const struct standin_work *work)
{
	CUpti_ActivitySynchronization sync = {
		.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION,
		.type = (CUpti_ActivitySynchronizationType)work->operation,
		.start = work->start,
		.end = work->end,
		.correlationId = work->correlation,
		.contextId = work->context,
		.streamId = work->stream,
		.cudaEventId = work->event
	};
	CUpti_ActivityCudaEvent event = { .kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT,
					  .correlationId = work->correlation,
					  .contextId = work->context,
					  .streamId = work->stream,
					  .eventId = work->event };

	if (work->kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT)
		write_record(client, &event, sizeof(event), false);
	else
		write_record(client, &sync, sizeof(sync), false);
}

static void on_work(const struct standin_work *work)
{
	struct standin_work here = *work;

	here.start += clock_ahead();
	here.end += clock_ahead();
	pthread_mutex_lock(&lock);
	for (int i = 0; i < CLIENTS; i++) {
		struct client *client = &clients[i];

		if (!client->used || !wants(client, (uint32_t)work->kind))
			continue;
		write_names_once(client, false);
		if (work->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)
			write_kernel(client, &here);
		else if (work->kind == CUPTI_ACTIVITY_KIND_MEMSET)
			write_memset(client, &here);
		else if (work->kind == CUPTI_ACTIVITY_KIND_MEMORY2)
			write_memory(client, &here);
		else if (work->kind == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION ||
			 work->kind == CUPTI_ACTIVITY_KIND_CUDA_EVENT)
			write_sync(client, &here);
		else
			write_copy(client, &here);
		write_names_once(client, true);
	}
	pthread_mutex_unlock(&lock);
}

static const struct standin_tracer tracer = { on_enter, on_work, on_leave, on_context };

static void attach(void)
{
	standin_tracer = &tracer;
}

/* ---- subscribers ---- */

static CUptiResult subscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
			     void *user, const char *name, bool several)
{
	int place = 0;

	attach();
	if (several && (version_now() < SHARED_VERSION || standin_knob("alone", 0)))
		return CUPTI_ERROR_NOT_SUPPORTED;
	while (place < CLIENTS && subscribers[place].used) {
		if (!several || !subscribers[place].several)
			return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
		place++;
	}
	subscribers[place] =
		(struct CUpti_Subscriber_st){ .used = true,
					      .several = several,
					      .callback = callback,
					      .user = user,
					      .client = &clients[several ? place + 1 : 0] };
	snprintf(subscribers[place].name, sizeof(subscribers[place].name), "CUPTI for %s",
		 name ? name : "unknown");
	subscribers[place].client->used = true;
	*handle = &subscribers[place];
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSubscribe(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback, void *user)
{
	ENTER("Subscribe");
	return subscribe(handle, callback, user, NULL, false);
}

#if CUPTI_API_VERSION >= 130000
CUptiResult cuptiSubscribe_v2(CUpti_SubscriberHandle *handle, CUpti_CallbackFunc callback,
			      void *user, CUpti_SubscriberParams *how)
{
	CUptiResult result = enter("Subscribe");
	size_t least = offsetof(CUpti_SubscriberParams, allowMultipleSubscribers);

	/* 13.0 takes its own size only, 13.3 a longer one, too */
	if (!result && (how->structSize < least ||
			(version_now() < SHARED_VERSION && how->structSize != least)))
		result = CUPTI_ERROR_INVALID_PARAMETER;
	if (!result)
		result = subscribe(handle, callback, user, how->subscriberName,
				   how->structSize > least && how->allowMultipleSubscribers);
	if (result == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED && how->oldSubscriberName)
		snprintf(how->oldSubscriberName, how->oldSubscriberSize, "%s",
			 subscribers[0].used ? subscribers[0].name : "CUPTI for nsys");
	return result;
}
#endif

CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle handle)
{
	ENTER("Unsubscribe");
	handle->used = false;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableCallback(uint32_t enable, CUpti_SubscriberHandle handle,
				CUpti_CallbackDomain domain, CUpti_CallbackId cbid)
{
	ENTER("EnableCallback");
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		handle->enabled[cbid] = (uint8_t)enable;
	if (domain == CUPTI_CB_DOMAIN_RESOURCE && cbid == CUPTI_CBID_RESOURCE_CONTEXT_CREATED)
		handle->context = enable;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableDomain(uint32_t enable, CUpti_SubscriberHandle handle,
			      CUpti_CallbackDomain domain)
{
	ENTER("EnableDomain");
	if (domain == CUPTI_CB_DOMAIN_DRIVER_API)
		memset(handle->enabled, (int)enable, sizeof(handle->enabled));
	if (domain == CUPTI_CB_DOMAIN_RESOURCE)
		handle->context = enable;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiEnableAllDomains(uint32_t enable, CUpti_SubscriberHandle handle)
{
	cuptiEnableDomain(enable, handle, CUPTI_CB_DOMAIN_RESOURCE);
	return cuptiEnableDomain(enable, handle, CUPTI_CB_DOMAIN_DRIVER_API);
}

/* ---- activities ---- */

static CUptiResult enable_kind(struct client *client, CUpti_ActivityKind kind, bool on)
{
	char name[32];
	CUptiResult failed;

	snprintf(name, sizeof(name), "ActivityEnable/%d", (int)kind);
	failed = on ? failure(name) : CUPTI_SUCCESS;
	if (failed)
		return failed;
	if (!stride_of(kind) && kind != CUPTI_ACTIVITY_KIND_JIT &&
	    kind != CUPTI_ACTIVITY_KIND_GRAPH_TRACE && kind != CUPTI_ACTIVITY_KIND_MEMORY_POOL)
		return CUPTI_ERROR_INVALID_KIND;
	client->used = true;
	if (on)
		client->kinds |= 1ull << kind;
	else
		client->kinds &= ~(1ull << kind);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind)
{
	ENTER("ActivityEnable");
	attach();
	return enable_kind(&clients[0], kind, true);
}

CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind)
{
	ENTER("ActivityDisable");
	return enable_kind(&clients[0], kind, false);
}

/* A second client silently takes the first one's place. */
CUptiResult cuptiActivityRegisterCallbacks(CUpti_BuffersCallbackRequestFunc requested,
					   CUpti_BuffersCallbackCompleteFunc completed)
{
	ENTER("ActivityRegisterCallbacks");
	clients[0].requested = requested;
	clients[0].completed = completed;
	return CUPTI_SUCCESS;
}

/* The buffers that a flush gives: device's first where they are apart. */
static struct buffer *take_all(struct client *client, bool forced)
{
	struct buffer *list = NULL;

	for (int side = SIDES - 1; side >= 0; side--) {
		struct buffer *buffer = client->current[side];

		if (!buffer || (buffer->incomplete && !forced))
			continue;
		client->current[side] = NULL;
		append(&list, buffer);
	}
	while (forced && client->held) {
		struct buffer *buffer = client->held;

		client->held = buffer->next;
		append(&list, buffer);
	}
	return list;
}

CUptiResult cuptiActivityFlushAll(uint32_t flag)
{
	ENTER("ActivityFlushAll");
	for (int i = 0; i < CLIENTS; i++) {
		struct buffer *list;

		pthread_mutex_lock(&queue);
		while (clients[i].full || delivering)
			pthread_cond_wait(&work_done, &queue);
		pthread_mutex_unlock(&queue);
		pthread_mutex_lock(&lock);
		list = take_all(&clients[i], flag & CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
		pthread_mutex_unlock(&lock);
		deliver(&clients[i], list);
	}
	return CUPTI_SUCCESS;
}

static CUptiResult next_record(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	size_t at = *record ? (size_t)((uint8_t *)*record - buffer) : 0, stride;
	uint32_t kind;

	if (*record) {
		memcpy(&kind, buffer + at, sizeof(kind));
		at += stride_of(kind);
	}
	if (at >= valid_bytes)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	memcpy(&kind, buffer + at, sizeof(kind));
	stride = stride_of(kind);
	if (!stride || at + stride > valid_bytes)
		return CUPTI_ERROR_INVALID_KIND;
	*record = (CUpti_Activity *)(buffer + at);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord(uint8_t *buffer, size_t valid_bytes, CUpti_Activity **record)
{
	ENTER("ActivityGetNextRecord");
	return next_record(buffer, valid_bytes, record);
}

CUptiResult cuptiActivityGetNumDroppedRecords(CUcontext context, uint32_t stream, size_t *dropped)
{
	(void)context;
	(void)stream;
	ENTER("ActivityGetNumDroppedRecords");
	pthread_mutex_lock(&lock);
	*dropped = clients[0].dropped;
	clients[0].dropped = 0;
	pthread_mutex_unlock(&lock);
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute(CUpti_ActivityAttribute attribute, size_t *bytes, void *value)
{
	(void)attribute;
	(void)bytes;
	(void)value;
	ENTER("ActivitySetAttribute");
	return CUPTI_SUCCESS;
}

static CUptiResult push(int client, CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	struct stack *stack = &stacks[client][kind];

	if (stack->depth == STACK)
		return CUPTI_ERROR_MAX_LIMIT_REACHED;
	stack->id[stack->depth++] = id;
	return CUPTI_SUCCESS;
}

static CUptiResult pop(int client, CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
	struct stack *stack = &stacks[client][kind];

	if (!stack->depth)
		return CUPTI_ERROR_QUEUE_EMPTY;
	stack->depth--;
	if (id) /* torch.profiler does not ask */
		*id = stack->id[stack->depth];
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t id)
{
	ENTER("ActivityPushExternalCorrelationId");
	return push(0, kind, id);
}

CUptiResult cuptiActivityPopExternalCorrelationId(CUpti_ExternalCorrelationKind kind, uint64_t *id)
{
	ENTER("ActivityPopExternalCorrelationId");
	return pop(0, kind, id);
}

static CUptiResult choose_call(struct client *client, CUpti_CallbackId cbid, uint8_t enable)
{
	client->used = true;
	client->call[cbid] = enable ? 1 : 2;
	return CUPTI_SUCCESS;
}

#if CUPTI_API_VERSION >= 23 /* 12.5 */
CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId cbid, uint8_t enable)
{
	ENTER("ActivityEnableRuntimeApi");
	return choose_call(&clients[0], cbid, enable);
}

#endif

/* ---- several subscribers ---- */

#if CUPTI_API_VERSION >= 130300
CUptiResult cuptiActivityEnable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
				   CUpti_ActivityConfig *config)
{
	(void)config;
	ENTER("ActivityEnable");
	return enable_kind(subscriber->client, kind, true);
}

CUptiResult cuptiActivityDisable_v2(CUpti_SubscriberHandle subscriber, CUpti_ActivityKind kind,
				    CUpti_ActivityConfig *config)
{
	(void)config;
	ENTER("ActivityDisable");
	return enable_kind(subscriber->client, kind, false);
}

CUptiResult cuptiActivityRegisterCallbacks_v2(CUpti_SubscriberHandle subscriber,
					      CUpti_BuffersCallbackRequestFunc_v2 requested,
					      CUpti_BuffersCallbackCompleteFunc_v2 completed)
{
	ENTER("ActivityRegisterCallbacks");
	*(CUpti_BuffersCallbackRequestFunc_v2 *)&subscriber->client->requested_v2 = requested;
	*(CUpti_BuffersCallbackCompleteFunc_v2 *)&subscriber->client->completed_v2 = completed;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityGetNextRecord_v2(CUpti_SubscriberHandle subscriber, uint8_t *buffer,
					  size_t valid_bytes, CUpti_Activity **record)
{
	(void)subscriber;
	ENTER("ActivityGetNextRecord");
	return next_record(buffer, valid_bytes, record);
}

CUptiResult cuptiActivityGetNumDroppedRecords_v2(CUpti_SubscriberHandle subscriber,
						 CUcontext context, uint32_t stream,
						 size_t *dropped)
{
	(void)context;
	(void)stream;
	ENTER("ActivityGetNumDroppedRecords");
	*dropped = subscriber->client->dropped;
	subscriber->client->dropped = 0;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivitySetAttribute_v2(CUpti_SubscriberHandle subscriber,
					 CUpti_ActivityAttribute attribute, size_t *bytes,
					 void *value)
{
	(void)subscriber;
	(void)attribute;
	(void)bytes;
	(void)value;
	ENTER("ActivitySetAttribute");
	return CUPTI_SUCCESS;
}

CUptiResult cuptiActivityPushExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
						      CUpti_ExternalCorrelationKind kind,
						      uint64_t id)
{
	ENTER("ActivityPushExternalCorrelationId");
	return push((int)(subscriber->client - clients), kind, id);
}

CUptiResult cuptiActivityPopExternalCorrelationId_v2(CUpti_SubscriberHandle subscriber,
						     CUpti_ExternalCorrelationKind kind,
						     uint64_t *id)
{
	ENTER("ActivityPopExternalCorrelationId");
	return pop((int)(subscriber->client - clients), kind, id);
}

CUptiResult cuptiActivityEnableRuntimeApi_v2(CUpti_SubscriberHandle subscriber,
					     CUpti_CallbackId cbid, uint8_t enable)
{
	ENTER("ActivityEnableRuntimeApi");
	return choose_call(subscriber->client, cbid, enable);
}

CUptiResult cuptiGetTimestamp_v2(CUpti_SubscriberHandle subscriber, uint64_t *ns)
{
	(void)subscriber;
	ENTER("GetTimestamp");
	*ns = standin_now() + clock_ahead();
	return CUPTI_SUCCESS;
}
#endif

/* ---- the rest ---- */

CUptiResult cuptiGetVersion(uint32_t *version)
{
	ENTER("GetVersion");
	*version = (uint32_t)version_now();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetTimestamp(uint64_t *ns)
{
	ENTER("GetTimestamp");
	*ns = standin_now() + clock_ahead();
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetResultString(CUptiResult result, const char **text)
{
	ENTER("GetResultString");
	*text = result == CUPTI_ERROR_NOT_COMPATIBLE ? "CUPTI_ERROR_NOT_COMPATIBLE"
						     : "CUPTI_ERROR_UNKNOWN";
	return CUPTI_SUCCESS;
}

CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type)
{
	ENTER("SetThreadIdType");
	if (type != CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM)
		broken("SetThreadIdType", "for ids that are not the system's");
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t cbid, const char **name)
{
	static const struct {
		CUpti_CallbackDomain domain;
		uint32_t cbid;
		const char *name;
	} names[] = {
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 17, "cudaGetDevice_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 20, "cudaMalloc_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 22, "cudaFree_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 41, "cudaMemcpyAsync_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 51, "cudaMemsetAsync_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 131, "cudaStreamSynchronize_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 135, "cudaEventRecord_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 147, "cudaStreamWaitEvent_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 161, "cudaMemcpyPeerAsync_v4000" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 165, "cudaDeviceSynchronize_v3020" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 171, "cudaProfilerStart_v4000" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 172, "cudaProfilerStop_v4000" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 211, "cudaLaunchKernel_v7000" },
		{ CUPTI_CB_DOMAIN_RUNTIME_API, 311, "cudaGraphLaunch_v10000" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 22, "cuModuleUnload" },
		{ CUPTI_CB_DOMAIN_DRIVER_API, 307, "cuLaunchKernel" },
	};

	ENTER("GetCallbackName");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (names[i].domain == domain && names[i].cbid == cbid) {
			*name = names[i].name;
			return CUPTI_SUCCESS;
		}
	return CUPTI_ERROR_INVALID_PARAMETER;
}

/* For all clients, and for the rest of the process. */
CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc clock)
{
	ENTER("ActivityRegisterTimestampCallback");
	if (!clock)
		return CUPTI_ERROR_INVALID_PARAMETER;
	if (subscribers[0].several)
		return CUPTI_ERROR_NOT_COMPATIBLE;
	atomic_store(&standin_clock, clock);
	return CUPTI_SUCCESS;
}

/* ---- what only torch.profiler asks for ---- */

CUptiResult cuptiFinalize(void)
{
	ENTER("Finalize");
	return CUPTI_ERROR_NOT_SUPPORTED;
}

#if CUPTI_API_VERSION >= 130001
CUptiResult cuptiActivityEnableCudaEventDeviceTimestamps(uint8_t enable)
{
	(void)enable;
	ENTER("ActivityEnableCudaEventDeviceTimestamps");
	return CUPTI_SUCCESS;
}
#endif

/* ---- which number a handle has ---- */

CUptiResult cuptiGetContextId(CUcontext context, uint32_t *id)
{
	ENTER("GetContextId");
	*id = (uint32_t)(uintptr_t)context;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetDeviceId(CUcontext context, uint32_t *id)
{
	ENTER("GetDeviceId");
	*id = (uint32_t)(uintptr_t)context - 1;
	return CUPTI_SUCCESS;
}

CUptiResult cuptiGetStreamIdEx(CUcontext context, CUstream stream, uint8_t own, uint32_t *id)
{
	ENTER("GetStreamIdEx");
	if (context || own)
		broken("GetStreamIdEx", "for what it need not know");
	*id = (uint32_t)(uintptr_t)stream + 7;
	return CUPTI_SUCCESS;
}
