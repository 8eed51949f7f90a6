/* cupti_spans.c - the innermost span of each thread, told to CUPTI, so that launches carry it. */
#include "cupti_spans.h"

#include "../os.h"
#include "cupti_client.h"
#include "probe.h"

_Atomic uint32_t pfw_cupti_spans;
static _Atomic uint32_t begun; /* times */

void pfw_cupti_spans_begin(void)
{
	atomic_store(&pfw_cupti_spans, atomic_fetch_add(&begun, 1) + 1);
}

void pfw_cupti_spans_end(void)
{
	atomic_store(&pfw_cupti_spans, 0);
}

bool pfw_cupti_spans_begun(void)
{
	return atomic_load(&begun) != 0;
}

/* What an earlier time has left on this thread's stack is no span of this one. */
static void renew(uint32_t spans)
{
	uint64_t id;

	if (pfw_thread.gpu_begun)
		while (!pfw_cupti_client_pop(&id))
			;
	pfw_thread.gpu_begun = spans;
	pfw_thread.gpu_pushed = 0;
}

static void push_one(uint64_t id)
{
	pfw_thread.gpu_pushed += !pfw_cupti_client_push(id);
}

void pfw_cupti_push(uint64_t id, uint64_t parent)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	int error = errno;

	if (spans && pfw_thread.gpu_begun != spans)
		renew(spans);
	/* The parent was there before CUPTI was. */
	if (spans && parent && !pfw_thread.gpu_pushed)
		push_one(parent);
	if (spans)
		push_one(id);
	errno = error;
}

void pfw_cupti_pop(uint64_t id, uint64_t parent)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	uint64_t last = 0;
	int error = errno;

	if (spans && pfw_thread.gpu_begun != spans)
		renew(spans);
	while (spans && pfw_thread.gpu_pushed && last != id) {
		pfw_thread.gpu_pushed--;
		if (pfw_cupti_client_pop(&last))
			break;
	}
	if (spans && parent && !pfw_thread.gpu_pushed)
		push_one(parent);
	errno = error;
}

void pfw_cupti_replace(uint64_t id)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	uint64_t last;
	int error = errno;

	if (spans && pfw_thread.gpu_begun != spans)
		renew(spans);
	while (spans && pfw_thread.gpu_pushed && !pfw_cupti_client_pop(&last))
		pfw_thread.gpu_pushed--;
	if (spans && id)
		push_one(id);
	errno = error;
}

void pfw_cupti_spans_catch_up(void)
{
	if (pfw_thread.span && atomic_load(&pfw_cupti_spans) != pfw_thread.gpu_begun)
		pfw_cupti_push(pfw_thread.span, 0);
}
