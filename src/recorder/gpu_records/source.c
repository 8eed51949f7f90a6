/* recorder/gpu_records/source.c - gives the writer the records of finished buffers. */
#include "recorder/gpu_records/source.h"

#include <stdatomic.h>

#include "common/base/os.h"
#include "common/format/clock.h"
#include "recorder/gpu_records/buffers.h"
#include "recorder/gpu_records/decode.h"

static struct {
	/* buffers with a lower order number may be read: nothing that belongs to them is to come */
	_Atomic uint64_t flushed;
	_Atomic bool last; /* all buffers may be read */
	/* The writer's position: the buffer in hand and the next record. */
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
