/* cupti_source.c - what the writer takes of the GPU: the records in finished buffers, and figures. */
#include "cupti_source.h"

#include <stdatomic.h>

#include "../clock.h"
#include "../os.h"
#include "cupti_buffers.h"
#include "cupti_decode.h"

static struct {
	_Atomic uint64_t flushed; /* buffers below are read: nothing of theirs is to come */
	_Atomic bool last;	  /* all are */
	/* Being read by the writer. */
	uint8_t *buffer;
	const void *at;
} source;

void pfw_cupti_source_flushed(void)
{
	atomic_store(&source.flushed, pfw_cupti_buffers_order());
}

void pfw_cupti_source_last(bool last)
{
	atomic_store(&source.last, last);
}

void pfw_cupti_source_forget(void)
{
	source.buffer = NULL;
	source.at = NULL;
}

static const struct pfw_record *next(unsigned *slots)
{
	const struct pfw_record *record;
	uint64_t upto;

	for (;;) {
		while (source.at) {
			record = pfw_cupti_decode(source.at, slots);
			source.at = pfw_cupti_noted_next(source.at);
			if (record)
				return record;
		}
		if (source.buffer)
			pfw_cupti_buffer_free(source.buffer);
		upto = atomic_load(&source.last) ? UINT64_MAX : atomic_load(&source.flushed);
		source.at = source.buffer = pfw_cupti_buffer_oldest(upto);
		if (!source.buffer)
			return NULL;
		pfw_cupti_decoding.now_ns = pfw_clock_ns(CLOCK_REALTIME);
	}
}

static unsigned figures(struct pfw_source_figure *figure, unsigned room)
{
	unsigned count = 0;

#define X(name)                                                               \
	if (count < room && atomic_load(&pfw_cupti_figures.name)) {           \
		figure[count].key = #name;                                    \
		figure[count++].value = atomic_load(&pfw_cupti_figures.name); \
	}
	PFW_CUPTI_FIGURES(X)
#undef X
	return count;
}

const struct pfw_source pfw_cupti_source = { "gpu", next, figures };
