/* recorder/writer/room.c - how much memory the rings may take without harm to the program. */
#include <stdint.h>

#include "common/base/available.h"
#include "recorder/writer/internal.h"

/* Rings of a small program, for which the files that say what is available are not read. */
#define UNASKED_BYTES (1ull << 20)
#define GROWS_BYTES (64ull << 20) /* may be taken before the next look */
#define ASK_AGAIN_NS 1000000000ull

bool pfw_writer_may_take(struct pfw_writer *writer, uint64_t bytes)
{
	uint64_t *room = keeps(writer) ? &writer->keep_bytes : &writer->made.room_bytes;
	uint64_t now_ns = pfw_clock_ns(CLOCK_MONOTONIC), made = writer->made.ring_bytes, most;

	if (made + bytes <= (*room ?: UNASKED_BYTES))
		return true;
	if (keeps(writer) && !writer->keep_grows)
		return false;
	/* The program would see the descriptor in a table that it shares. */
	if (!keeps(writer) && !writer->files->own)
		return true;
	if (now_ns - writer->made.refused_ns < ASK_AGAIN_NS)
		return false;
	most = made / 4 + pfw_available(keeps(writer) ? 0 : UINT64_MAX) / 4;
	if (made + bytes <= most) {
		*room = most < made + GROWS_BYTES ? most : made + GROWS_BYTES;
		return true;
	}
	writer->made.refused_ns = now_ns;
	return false;
}
