/* recorder/gpu/spans.c - tells CUPTI each thread's innermost span: see spans.h. */
#include "recorder/gpu/spans.h"

#include "common/base/os.h"
#include "recorder/gpu/client.h"
#include "recorder/probe/probe.h"

_Atomic uint32_t pfw_cupti_spans;
static _Atomic uint32_t begun; /* how often spans were begun */

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

/* Whether CUPTI takes spans.  Pops ids that an earlier subscription has left on this thread's
 * stack. */
static bool takes_spans(void)
{
	uint32_t spans = atomic_load_explicit(&pfw_cupti_spans, memory_order_acquire);
	uint64_t id;

	if (!spans || pfw_thread.gpu_begun == spans)
		return spans;
	if (pfw_thread.gpu_begun)
		while (!pfw_cupti_client_pop(&id))
			;
	pfw_thread.gpu_begun = spans;
	pfw_thread.gpu_pushed = 0;
	return true;
}

static void push_one(uint64_t id)
{
	pfw_thread.gpu_pushed += !pfw_cupti_client_push(id);
}

void pfw_cupti_push(uint64_t id, uint64_t parent)
{
	int error = errno;

	if (takes_spans()) {
		/* The parent span is older than our subscription. */
		if (parent && !pfw_thread.gpu_pushed)
			push_one(parent);
		push_one(id);
	}
	errno = error;
}

void pfw_cupti_pop(uint64_t id, uint64_t parent)
{
	int error = errno;
	uint64_t last = 0;

	if (takes_spans()) {
		while (pfw_thread.gpu_pushed && last != id) {
			pfw_thread.gpu_pushed--;
			if (pfw_cupti_client_pop(&last))
				break;
		}
		if (parent && !pfw_thread.gpu_pushed)
			push_one(parent);
	}
	errno = error;
}

void pfw_cupti_replace(uint64_t id)
{
	int error = errno;
	uint64_t last;

	if (takes_spans()) {
		while (pfw_thread.gpu_pushed && !pfw_cupti_client_pop(&last))
			pfw_thread.gpu_pushed--;
		if (id)
			push_one(id);
	}
	errno = error;
}

void pfw_cupti_spans_catch_up(void)
{
	if (pfw_thread.span && atomic_load(&pfw_cupti_spans) != pfw_thread.gpu_begun)
		pfw_cupti_push(pfw_thread.span, 0);
}
