/* scratch.c - room for the longest text of a line; see scratch.h. */
#include "scratch.h"

#include <sys/mman.h>

char *pfw_scratch_new(void)
{
	void *scratch = mmap(NULL, PFW_SCRATCH_BYTES, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	return scratch == MAP_FAILED ? NULL : scratch;
}

void pfw_scratch_free(char *scratch)
{
	if (scratch)
		munmap(scratch, PFW_SCRATCH_BYTES);
}

struct pfw_slice pfw_scratch_plain(struct pfw_slice text, char *scratch)
{
	if (!text.escaped)
		return text;
	text.bytes = pfw_slice_decode(&text, scratch, PFW_SCRATCH_BYTES);
	text.at = scratch;
	text.escaped = false;
	return text;
}
