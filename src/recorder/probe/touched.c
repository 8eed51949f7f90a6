/* recorder/probe/touched.c - asks the kernel which pages are present; see touched.h. */
#include "recorder/probe/touched.h"

#include <sys/prctl.h>

#include "common/base/os.h"

/* Pages of one question: 768 bytes of the program's stack. */
#define BATCH 64u

/* The number of a page among `pages`, of which `looks` are looked at.  Each lies somewhere in a part of
 * its own, since a program may touch at equal distances, too. */
static uint64_t page_of(unsigned i, unsigned looks, uint64_t pages)
{
	uint64_t part = pages / looks;
	uint64_t mixed = (i + 1) * UINT64_C(0x9e3779b97f4a7c15);

	if (looks == pages)
		return i;
	return (uint64_t)((unsigned __int128)pages * i / looks) + (mixed >> 32) % part;
}

/* How many of `count` pages are present, or -errno.  move_pages(2) without nodes moves nothing: it
 * says where each page is, and needs no descriptor and no rights. */
static long count_present(void **page, unsigned count)
{
	int status[BATCH] = { 0 };
	long error = pfw_syscall6(SYS_move_pages, 0, count, (long)page, 0, (long)status, 0);
	long present = 0;

	for (unsigned i = 0; error >= 0 && i < count; i++)
		present += status[i] >= 0;
	return error < 0 ? error : present;
}

uint64_t pfw_touched(uintptr_t start, size_t bytes, unsigned most)
{
	size_t page_bytes = pfw_os_page_bytes();
	uint64_t pages = bytes / page_bytes, present = 0;
	unsigned looks = pages < most ? (unsigned)pages : most, i = 0;
	void *page[BATCH];

	/* A filter may kill for a call that the program does not make; few allow this one. */
	if (!looks || pfw_syscall6(SYS_prctl, PR_GET_SECCOMP, 0, 0, 0, 0, 0))
		return 0;
	while (i < looks) {
		unsigned count = 0;
		long found;

		for (; count < BATCH && i < looks; count++, i++)
			page[count] = (void *)(start + page_of(i, looks, pages) * page_bytes);
		found = count_present(page, count);
		if (found < 0)
			return 0;
		present += (uint64_t)found;
	}
	return (uint64_t)((unsigned __int128)present * pages / looks) * page_bytes + 1;
}
